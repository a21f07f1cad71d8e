"""How a batch becomes rows, and a row of the index a `SessionRow`.

Lives here: what is written in one transaction, and the statements that more than one
reading method needs.  It never begins or ends a transaction and never opens a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from .batch import Additions, check_claim, key_conflict
from .errors import KeyConflictError, UsageError
from .message import Usage
from .sqlite_file import from_column, to_column
from .store import Batch, SessionRow, Summary

__all__ = [
    "SELECT_ROW",
    "SELECT_USAGE",
    "optional_column",
    "session_row",
    "write_batch",
]

_HEADER = "session, parent, depth, name, kind, created_at, seq, holder, epoch"

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

SELECT_ROW = f"select {_HEADER}, {', '.join(_SUMMARY)} from session"
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
    f"insert into session ({_HEADER}, {', '.join(_SUMMARY)}, unfinished)"
    f" values ({', '.join('?' * (9 + len(_SUMMARY) + 1))})"
)

_UPDATE_SESSION = (
    f"update session set seq = ?, {', '.join(f'{name} = ?' for name in _SUMMARY)},"
    " unfinished = ? where id = ?"
)

_INSERT_MESSAGE = (
    "insert into message (message, session, sender, key, operation, digest)"
    " values (?, ?, ?, ?, ?, ?)"
)


def optional_column(text: str | None) -> str | bytes | None:
    """What a column holds for a string that may be absent."""
    return None if text is None else to_column(text)


def session_row(row: Sequence[Any]) -> SessionRow:
    """The index row that `SELECT_ROW` gave."""
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


def _summary_columns(summary: Summary) -> tuple[Any, ...]:
    usage = summary.usage
    live = summary.activation is not None or summary.turn_open or summary.untold > 0
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
        live,
    )


def write_batch(
    connection: sqlite3.Connection,
    batch: Batch,
    found: Additions,
    bodies: Sequence[str],
) -> None:
    """Check a batch against what is stored, and write it; the caller has begun.

    `found` is what the batch adds, and `bodies` are its events as text.

    Raises:
        SessionHeldError: an expected sequence or a claim does not match.
        KeyConflictError: the sender's key is taken.
        UsageError: it names a parent that is not stored, or a message that is.
        sqlite3.Error: the file cannot be written.
    """
    numbers = _check_stored(connection, batch, found)
    ends = {entry.session: entry.seq + 1 for entry in batch.entries}
    _insert_sessions(connection, batch, found, numbers, ends)
    connection.executemany(
        "insert into event (session, seq, body) values (?, ?, ?)",
        [
            (numbers[entry.session], entry.seq, body)
            for entry, body in zip(batch.entries, bodies, strict=True)
        ],
    )
    _insert_messages(connection, found, numbers)
    connection.executemany(
        _UPDATE_SESSION,
        [
            (
                ends.get(session, batch.expected[session]),
                *_summary_columns(summary),
                numbers[session],
            )
            for session, summary in batch.summaries.items()
            if session not in found.created
        ],
    )
    if batch.released:
        connection.executemany(
            "update session set holder = null where id = ?",
            [(numbers[session],) for session in batch.released],
        )


def _check_stored(
    connection: sqlite3.Connection, batch: Batch, found: Additions
) -> dict[str, int]:
    """Refuse a batch that must not be stored; gives the numbers of its sessions."""
    numbers: dict[str, int] = {}
    for session in batch.expected:
        row = connection.execute(
            "select id, seq, holder, epoch from session where session = ?",
            (to_column(session),),
        ).fetchone()
        if row is None:
            check_claim(batch, session, 0, None, 0)
            continue
        number, seq, holder, epoch = row
        held_by = None if holder is None else from_column(holder)
        check_claim(batch, session, seq, held_by, epoch)
        numbers[session] = number
    for parent in found.parents:
        if not connection.execute(
            "select 1 from session where session = ?", (to_column(parent),)
        ).fetchall():
            raise UsageError(f"no session {parent!r} is stored to be a parent")
    return numbers


def _insert_sessions(
    connection: sqlite3.Connection,
    batch: Batch,
    found: Additions,
    numbers: dict[str, int],
    ends: dict[str, int],
) -> None:
    for session, header in found.created.items():
        values = (
            to_column(session),
            optional_column(header.parent),
            header.depth,
            to_column(header.spec.name),
            header.kind,
            header.at,
            ends[session],
            to_column(batch.holder),
            1,
            *_summary_columns(batch.summaries[session]),
        )
        number = connection.execute(_INSERT_SESSION, values).lastrowid
        assert number is not None
        numbers[session] = number


def _insert_messages(
    connection: sqlite3.Connection, found: Additions, numbers: dict[str, int]
) -> None:
    rows: dict[str, tuple[Any, ...]] = {
        message: (to_column(message), numbers[session], None, None, None, None)
        for message, session in found.places.items()
    }
    for (sender, key), row in found.keys.items():
        rows[row.message] = (
            to_column(row.message),
            numbers[row.session],
            to_column(sender),
            to_column(key),
            to_column(row.operation),
            row.digest,
        )
    try:
        connection.executemany(_INSERT_MESSAGE, list(rows.values()))
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
