"""A check-up of a store: whether it can be read, is whole, and is being written.

Lives here: what is looked at in a store, up to a bound, and what to do about each
fault.  It only reads, and stands in no writer's way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import attrs

from ..mailbox.errors import CorruptLogError, RametError
from ..mailbox.session import fold
from ..mailbox.sqlite_file import resolve
from ..mailbox.sqlite_inspector import SqliteInspector
from ..mailbox.store import SessionRow
from .cli_go_on import how_to_go_on
from .cli_store import default_store, missing_store
from .cli_text import plural
from .cli_tree import rows_below

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
        if path.exists():
            return list(_look(path))
        return [_missing(path, named=arguments.store is not None)]
    except (RametError, OSError) as error:
        return [Finding("store", "bad", str(error))]


def _missing(path: Path, *, named: bool) -> Finding:
    """A store that is not there is a fault only where one was named."""
    if named:
        return Finding("store", "bad", missing_store(path))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        advice = "make the directory writable, or name another store"
        text = f"none yet, and none can be made in {path.parent}"
        return Finding("store", "bad", text, advice)
    return Finding("store", "good", f"none yet: `ramet run` makes {path}")


def _look(path: Path) -> Iterator[Finding]:
    reader = SqliteInspector(path)
    try:
        sessions = reader.sessions()
        yield Finding("store", "good", f"{path} holds {plural(sessions, 'session')}")
        yield _writer(reader)
        yield _whole(reader)
        yield _logs(reader)
    finally:
        reader.close()


def _writer(reader: SqliteInspector) -> Finding:
    writer = reader.writer()
    if writer is not None:
        name = f"process {writer}" if writer else "a live process"
        return Finding("writer", "good", f"{name} writes the store now")
    with reader.snapshot():
        cut = [
            row
            for row in rows_below(reader, None)
            if row.summary.activation is not None
        ]
    if cut:
        text = f"no live process; {plural(len(cut), 'session')} cut off by a dead one"
        advice = how_to_go_on(reader, [row.session for row in cut])
        return Finding("writer", "note", text, advice)
    return Finding("writer", "good", "no live process, and everything is at rest")


def _whole(reader: SqliteInspector) -> Finding:
    faults = reader.faults()
    if not faults:
        return Finding("integrity", "good", "SQLite finds the file whole")
    shown = "; ".join(faults[:_SHOWN])
    return Finding(
        "integrity",
        "bad",
        f"SQLite finds {plural(len(faults), 'fault')}: {shown}",
        "restore the file from a copy; sessions that are whole can still be read",
    )


def _logs(reader: SqliteInspector) -> Finding:
    """Fold the logs, newest session first, and compare each with its index row."""
    with reader.snapshot():
        rows = rows_below(reader, None)
    rows.sort(key=lambda row: (row.created_at, row.session), reverse=True)
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
        RametError: it cannot be read, or its index row says something else.
    """
    with reader.snapshot():
        now = reader.row(row.session) or row
        events = reader.load(row.session)
    if fold(events).summary() != now.summary:
        raise CorruptLogError("its index row does not agree with its log")
    return len(events)
