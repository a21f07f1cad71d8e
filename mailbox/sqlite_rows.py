"""How a batch becomes rows, and a row of the index a `SessionRow`.

Lives here: what is written in one transaction, and the statements that more than one
reading method needs.  It never begins or ends a transaction and never opens a file.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .batch import Additions, check_claim, key_conflict
from .errors import CorruptLogError, KeyConflictError, SessionHeldError, UsageError
from .message import Usage
from .sqlite_file import from_column, to_column
from .store import Batch, SessionRow, Summary

__all__ = [
    "OPENING",
    "SELECT_LOG",
    "SELECT_ROW",
    "SELECT_USAGE",
    "SEQUENCES",
    "optional_column",
    "session_row",
    "write_batch",
]

_HEADER = "session, parent, depth, name, kind, created_at, seq, holder, epoch"

OPENING = "(select value from meta where name = 'openings')"
"""The number of the present opening."""

HOLDER = f"case when opening = {OPENING} then holder end"
"""Who holds a session: a claim of an earlier opening is void."""

_USAGE = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "tool_calls",
)

_SUMMARY = (
    "activation",
    "turn",
    "turn_open",
    "parked",
    "pending",
    "staged",
    "untold",
    *_USAGE,
    "last_at",
)

_COLUMNS = (*_HEADER.split(", "), *_SUMMARY)
_TEXT = ("session", "parent", "name", "kind", "holder", "activation")
_ABSENT = ("parent", "holder", "activation", *_USAGE[1:5])

_SOUND: set[tuple[type, ...]] = set()
"""What the columns of rows were made of that could be read: a few kinds of rows."""

SELECT_ROW = (
    f"select {_HEADER.replace('holder', HOLDER)}, {', '.join(_SUMMARY)} from session"
)
"""Begins a query whose rows `session_row` understands."""

SELECT_USAGE = f"""
    with recursive subtree (session) as (
        values (?)
        union
        select session.session from subtree
        join session on session.parent = subtree.session
    )
    select {", ".join(f"own.{name}" for name in _USAGE)},
        {", ".join(f"sum(each.{name})" for name in _USAGE)}
    from subtree
    join session as each on each.session = subtree.session
    join session as own on own.session = ?
"""
"""A session's own usage and that of its subtree; both arguments are the session."""

_INSERT_SESSION = (
    f"insert into session ({_HEADER}, {', '.join(_SUMMARY)}, unfinished, opening)"
    f" values ({', '.join('?' * (9 + len(_SUMMARY) + 1))}, {OPENING})"
)

_UPDATE_SESSION = (
    f"update session set seq = ?, {', '.join(f'{name} = ?' for name in _SUMMARY)},"
    " holder = ? where id = ? and seq = ? and holder = ? and epoch = ?"
    f" and opening = {OPENING}"
)

# The column has an index: to set it, even to what it is, writes to that one too.
_UPDATE_UNFINISHED = (
    "update session set unfinished = ? where id = ? and unfinished != ?"
)

SELECT_LOG = """
    select event.place & 4294967295, event.bodies, session.seq
    from session left join event on event.place < (session.id + 1) << 32
        and event.place >= (
            select max(place) from event
            where place between session.id << 32 and (session.id << 32) + ?
        )
    where session.session = ? order by event.place
"""
"""The rows of a log from that on which holds an event's `seq`, and the log's length."""

SEQUENCES = 1 << 32
"""How many events a log can hold: the lower half of a place is the `seq`."""

_ROW_EVENTS = 256
_ROW_CHARACTERS = 1 << 20
"""Where a row of events ends and the next begins."""

_PLAIN = ("message", "session", "seq")
_KEYED = (*_PLAIN, "sender", "key", "operation", "digest")

_PUT_BOOKMARK = "insert or replace into bookmark values (?, ?, ?)"

_AT_ONCE = (64, 16, 4, 1)
"""How many rows one statement inserts: few statements, each prepared once.

A statement gives up the interpreter while it runs, and must wait to get it back, so
that one with many rows costs much less than many with one.
"""


def optional_column(text: str | None) -> str | bytes | None:
    """What a column holds for a string that may be absent."""
    return None if text is None else to_column(text)


def session_row(row: Sequence[Any]) -> SessionRow:
    """The index row that `SELECT_ROW` gave.

    Raises:
        CorruptLogError: a column holds what nobody wrote into it; the text says which.
    """
    kinds = tuple(map(type, row))
    if kinds not in _SOUND:
        _check_row(row)
        _SOUND.add(kinds)
    session, parent, depth, name, kind, created_at, seq, holder, epoch = row[:9]
    activation, turn, turn_open, parked, pending, staged, untold = row[9:16]
    return SessionRow(
        session=from_column(session),
        parent=None if parent is None else from_column(parent),
        depth=depth,
        name=from_column(name),
        kind=kind,
        created_at=created_at,
        seq=seq,
        holder=None if holder is None else from_column(holder),
        epoch=epoch,
        summary=Summary(
            activation=None if activation is None else from_column(activation),
            turn=turn,
            turn_open=turn_open == 1,
            parked=parked == 1,
            pending=pending,
            staged=staged,
            untold=untold,
            usage=Usage(*row[16:22]),
            last_at=row[22],
        ),
    )


def _check_row(row: Sequence[Any]) -> None:
    """Refuse a row that no release wrote: SQLite puts anything into any column."""
    for name, value in zip(_COLUMNS, row, strict=True):
        wanted = (str, bytes) if name in _TEXT else (int,)
        if not (type(value) in wanted or (value is None and name in _ABSENT)):
            raise CorruptLogError(
                f"the index row of session {row[0]} is damaged: its {name} is {value!r}"
            )


def _summary_columns(summary: Summary) -> tuple[Any, ...]:
    usage = summary.usage
    return (
        optional_column(summary.activation),
        summary.turn,
        summary.turn_open,
        summary.parked,
        summary.pending,
        summary.staged,
        summary.untold,
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_creation_tokens,
        usage.tool_calls,
        summary.last_at,
    )


def _unfinished(summary: Summary) -> bool:
    return summary.activation is not None or summary.turn_open or summary.untold > 0


def write_batch(
    connection: sqlite3.Connection,
    batch: Batch,
    found: Additions,
    bodies: Sequence[str],
    states: Mapping[str, str],
    numbers: dict[str, int],
) -> None:
    """Check a batch against what is stored, and write it; the caller has begun.

    Args:
        connection: in a transaction, which the caller rolls back when this raises.
        batch: what is to be stored.
        found: what the batch adds.
        bodies: its events as text.
        states: its bookmarks as text.
        numbers: of sessions that are held; kept up to date, and void when this raises.

    Raises:
        SessionHeldError: an expected sequence or a claim does not match.
        KeyConflictError: the sender's key is taken.
        UsageError: it names a parent that is not stored, or a message that is.
        sqlite3.Error: the file cannot be written.
    """
    for parent in found.parents:
        if parent not in numbers and _number(connection, parent) is None:
            raise UsageError(f"no session {parent!r} is stored to be a parent")
    ends = dict(batch.expected)
    for entry in batch.entries:
        ends[entry.session] = entry.seq + 1
    holders: dict[str, str | bytes | None]
    holders = dict.fromkeys(ends, to_column(batch.holder))
    holders.update(dict.fromkeys(batch.released))
    _write_sessions(connection, batch, found, numbers, ends, holders)
    _insert_events(connection, batch, bodies, numbers)
    _insert_messages(connection, found, numbers)
    for session, state in states.items():
        row = numbers[session], ends[session], to_column(state)
        connection.execute(_PUT_BOOKMARK, row)
    for session in batch.released:
        del numbers[session]


def _write_sessions(
    connection: sqlite3.Connection,
    batch: Batch,
    found: Additions,
    numbers: dict[str, int],
    ends: dict[str, int],
    holders: dict[str, str | bytes | None],
) -> None:
    """The index rows of the batch; a session that is not as expected is refused."""
    holder = to_column(batch.holder)
    for session, summary in batch.summaries.items():
        columns = _summary_columns(summary)
        unfinished = _unfinished(summary)
        header = found.created.get(session)
        if header is not None:
            values = (
                to_column(session),
                optional_column(header.parent),
                header.depth,
                to_column(header.spec.name),
                header.kind,
                header.at,
                ends[session],
                holders[session],
                1,
                *columns,
                unfinished,
            )
            try:
                number = connection.execute(_INSERT_SESSION, values).lastrowid
            except sqlite3.IntegrityError as error:
                raise _refusal(connection, batch, session) from error
            assert number is not None
            numbers[session] = number
            continue
        known = numbers.get(session)
        if known is None:
            known = _number(connection, session)
            if known is None:
                check_claim(batch, session, 0, None, 0)
                known = 0
            numbers[session] = known
        expected = batch.expected[session], holder, batch.epochs.get(session)
        values = ends[session], *columns, holders[session], known, *expected
        if connection.execute(_UPDATE_SESSION, values).rowcount != 1:
            raise _refusal(connection, batch, session)
        connection.execute(_UPDATE_UNFINISHED, (unfinished, known, unfinished))


def _number(connection: sqlite3.Connection, session: str) -> int | None:
    query = "select id from session where session = ?"
    row = connection.execute(query, (to_column(session),)).fetchone()
    return None if row is None else row[0]


def _refusal(
    connection: sqlite3.Connection, batch: Batch, session: str
) -> SessionHeldError:
    """How a session is not what the batch expects."""
    row = connection.execute(
        f"select seq, {HOLDER}, epoch from session where session = ?",
        (to_column(session),),
    ).fetchone()
    seq, holder, epoch = row or (0, None, 0)
    held_by = None if holder is None else from_column(holder)
    try:
        check_claim(batch, session, seq, held_by, epoch)
    except SessionHeldError as error:
        return error
    return SessionHeldError(f"session {session} could not be written as expected")


def _insert_events(
    connection: sqlite3.Connection,
    batch: Batch,
    bodies: Sequence[str],
    numbers: dict[str, int],
) -> None:
    rows: list[tuple[int, str]] = []
    logs: dict[str, tuple[int, list[str]]] = {}
    for entry, body in zip(batch.entries, bodies, strict=True):
        log = logs.get(entry.session)
        if log is None:
            logs[entry.session] = entry.seq, [body]
        else:
            log[1].append(body)
    for session, (seq, texts) in logs.items():
        first = numbers[session] * SEQUENCES + seq
        for start, joined in _in_rows(texts):
            rows.append((first + start, joined))
    _insert(connection, "event", ("place", "bodies"), rows)


def _in_rows(texts: list[str]) -> Iterator[tuple[int, str]]:
    """The lines of a few rows, each of a bounded size, and where each begins."""
    start = size = 0
    for place, text in enumerate(texts):
        size += len(text)
        full = size >= _ROW_CHARACTERS or place - start == _ROW_EVENTS
        if full and place > start:
            yield start, "\n".join(texts[start:place])
            start, size = place, len(text)
    yield start, "\n".join(texts[start:])


def _insert(
    connection: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    rows: list[tuple[Any, ...]],
) -> None:
    """Insert rows by few statements."""
    done = 0
    for count in _AT_ONCE:
        while len(rows) - done >= count:
            values = [value for row in rows[done : done + count] for value in row]
            connection.execute(_insertion(table, columns, count), values)
            done += count


@functools.cache
def _insertion(table: str, columns: tuple[str, ...], count: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    rows = ", ".join([row] * count)
    return f"insert into {table} ({', '.join(columns)}) values {rows}"


def _insert_messages(
    connection: sqlite3.Connection, found: Additions, numbers: dict[str, int]
) -> None:
    keyed = {
        row.message: (
            to_column(row.message),
            numbers[row.session],
            found.places[row.message][1],
            to_column(sender),
            to_column(key),
            to_column(row.operation),
            row.digest,
        )
        for (sender, key), row in found.keys.items()
    }
    plain = [
        (to_column(message), numbers[session], seq)
        for message, (session, seq) in found.places.items()
        if message not in keyed
    ]
    try:
        _insert(connection, "message", _PLAIN, plain)
        _insert(connection, "message", _KEYED, list(keyed.values()))
    except sqlite3.IntegrityError as error:
        raise _what_is_stored(connection, found) from error


def _what_is_stored(
    connection: sqlite3.Connection, found: Additions
) -> KeyConflictError | UsageError:
    """Why messages could not be written: one of them, or its key, is stored already."""
    for (sender, key), row in found.keys.items():
        if connection.execute(
            "select 1 from message where sender = ? and key = ? and message != ?",
            (to_column(sender), to_column(key), to_column(row.message)),
        ).fetchall():
            return key_conflict(sender, key)
    some = ", ".join(list(found.places)[:5])
    return UsageError(f"a message of these is stored already: {some}")
