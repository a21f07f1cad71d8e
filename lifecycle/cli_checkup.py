"""A check-up of a store: whether it can be read, is whole, and is being written.

Lives here: what is looked at in a store, up to a bound, and what to do about each
fault.  It only reads, and stands in no writer's way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import attrs

from ..mailbox.bookmark import session_of
from ..mailbox.errors import CorruptLogError, RametError
from ..mailbox.events import Created, Event
from ..mailbox.session import fold
from ..mailbox.sqlite_file import resolve
from ..mailbox.sqlite_inspector import SqliteInspector, stillness
from ..mailbox.store import SessionRow
from .cli_go_on import how_to_go_on
from .cli_store import default_store, missing_store
from .cli_text import plural

__all__ = ["Finding", "store_findings"]

_MOST_SESSIONS = 1000
_MOST_EVENTS = 200_000
"""How many logs and events are read; the newest sessions come first."""

_SHOWN = 5


@attrs.frozen
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what it is.
        state: `good`, `note` (no fault, but worth knowing) or `bad`.
        text: what was found.
        advice: what to do, or `None`.
    """

    subject: str
    state: Literal["good", "note", "bad"]
    text: str
    advice: str | None = None


def store_findings(arguments: argparse.Namespace) -> list[Finding]:
    """What is to be said of the store that a command line means; it never raises."""
    try:
        path = resolve(default_store(arguments))
        if not path.exists():
            return [_missing(path, named=arguments.store is not None)]
        still = stillness(path)
        found = _looked(path, still=still is not None)
        if still is not None and stillness(path) != still:
            # Somebody began to write it meanwhile.
            found = _looked(path, still=False)
        return found
    except (RametError, OSError) as error:
        return [Finding("store", "bad", str(error))]


def _looked(path: Path, *, still: bool) -> list[Finding]:
    """What is found; a fault that ends the check-up is told with what came before."""
    found: list[Finding] = []
    try:
        found.extend(_look(path, still=still))
    except (RametError, OSError) as error:
        found.append(Finding("store", "bad", str(error)))
    return found


def _missing(path: Path, *, named: bool) -> Finding:
    """A store that is not there is a fault only where one was named."""
    if named:
        return Finding("store", "bad", missing_store(path))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        advice = "make the directory writable, or name another store"
        text = f"none yet, and none can be made in {path.parent}"
        return Finding("store", "bad", text, advice)
    return Finding("store", "good", f"none yet: `ramet run` makes {path}")


def _look(path: Path, *, still: bool) -> Iterator[Finding]:
    reader = SqliteInspector(path, still=still)
    try:
        sessions = reader.sessions()
        yield Finding("store", "good", f"{path} holds {plural(sessions, 'session')}")
        yield _guarded("integrity", _whole, reader)
        with reader.snapshot():
            rows, damaged = reader.every()
        yield _guarded("writer", _writer, reader, rows)
        yield _guarded("index", _index, reader, rows, damaged)
        yield _guarded("logs", _logs, reader, rows)
    finally:
        reader.close()


def _guarded(
    subject: str, check: Callable[..., Finding], *arguments: object
) -> Finding:
    """What a check finds; one that cannot be made is a fault of its own."""
    try:
        return check(*arguments)
    except (RametError, OSError) as error:
        return Finding(subject, "bad", str(error))


def _writer(reader: SqliteInspector, rows: list[SessionRow]) -> Finding:
    writer = reader.writer()
    if writer is not None:
        name = f"process {writer}" if writer else "a live process"
        return Finding("writer", "good", f"{name} writes the store now")
    cut = [row for row in rows if row.summary.activation is not None]
    if cut:
        text = f"no live process; {plural(len(cut), 'session')} cut off by a dead one"
        advice = how_to_go_on(reader, [row.session for row in cut])
        return Finding("writer", "note", text, advice)
    return Finding("writer", "good", "no live process, and everything is at rest")


def _index(
    reader: SqliteInspector, rows: list[SessionRow], damaged: list[str]
) -> Finding:
    """Whether every session can be read and reached, and every log has its session."""
    faults = list(damaged)
    lost = _unreached(rows)
    if lost:
        shown = ", ".join(lost[:_SHOWN])
        more = ", ..." if len(lost) > _SHOWN else ""
        faults.append(
            f"{plural(len(lost), 'session')} below no root, whose parents are missing"
            f" or go round: {shown}{more}"
        )
    logs, messages = reader.strays()
    if logs or messages:
        faults.append(
            f"{plural(logs, 'log')} and {plural(messages, 'message')} of sessions that"
            " are not in the index"
        )
    if not faults:
        return Finding("index", "good", "every session is a root or below one")
    return Finding(
        "index",
        "bad",
        "; ".join([*faults[:_SHOWN], *(["..."] if len(faults) > _SHOWN else [])]),
        "restore the file from a copy; sessions that are whole can still be read",
    )


def _unreached(rows: list[SessionRow]) -> list[str]:
    """The sessions that nobody finds who begins at the roots."""
    below: dict[str | None, list[str]] = {}
    for row in rows:
        below.setdefault(row.parent, []).append(row.session)
    left = {row.session for row in rows}
    stack: list[str | None] = [None]
    while stack:
        reached = below.pop(stack.pop(), [])
        left.difference_update(reached)
        stack += reached
    return [row.session for row in rows if row.session in left]


def _whole(reader: SqliteInspector) -> Finding:
    faults = reader.faults()
    if not faults:
        return Finding("integrity", "good", "SQLite finds the file whole")
    shown = "; ".join(faults[:_SHOWN])
    return Finding(
        "integrity",
        "bad",
        f"{plural(len(faults), 'fault')} in the file: {shown}",
        "restore the file from a copy; sessions that are whole can still be read",
    )


def _logs(reader: SqliteInspector, rows: list[SessionRow]) -> Finding:
    """Fold the logs, newest session first, and compare each with its index row."""
    rows = rows[::-1]
    faults = []
    logs = events = 0
    for row in rows[:_MOST_SESSIONS]:
        if events >= _MOST_EVENTS:
            break
        try:
            events += _fold(reader, row)
        except RametError as error:
            faults.append(f"{row.session}: {error}")
        logs += 1
    of = "" if logs == len(rows) else f" of {len(rows)}"
    text = f"{logs}{of} logs with {plural(events, 'event')} read back"
    if not faults:
        return Finding("logs", "good", text)
    shown = "; ".join(faults[:_SHOWN])
    return Finding(
        "logs",
        "bad",
        f"{text}; {len(faults)} cannot be used: {shown}",
        "restore the file from a copy, or leave these sessions alone: others go on",
    )


def _fold(reader: SqliteInspector, row: SessionRow) -> int:
    """Fold one log at one moment; gives how many events it has.

    Raises:
        RametError: it cannot be read, or its index row or its bookmark says something
            else.
    """
    with reader.snapshot():
        now = reader.row(row.session) or row
        events = reader.load(row.session)
        bookmark = reader.bookmark(row.session)
    if bookmark is not None and session_of(bookmark) != fold(events[: bookmark.seq]):
        raise CorruptLogError("its bookmark does not agree with its log")
    if fold(events).summary() != now.summary or not _is_headed(events, now):
        raise CorruptLogError("its index row does not agree with its log")
    return len(events)


def _is_headed(events: Sequence[Event], row: SessionRow) -> bool:
    """Whether a log begins with what the index says of its session."""
    head = events[0] if events else None
    if not isinstance(head, Created) or len(events) != row.seq:
        return False
    told = (head.session, head.parent, head.depth, head.spec.name, head.kind, head.at)
    stored = (row.session, row.parent, row.depth, row.name, row.kind, row.created_at)
    return told == stored
