"""The store in one SQLite file: the embedded default.

Lives here: the store port over a SQLite file.  One process writes, and any number of
others read beside it and after it was killed.  The writer holds a lock file; the
operating system gives it back when the process dies, so that the next opening knows
that every former holder of a session is dead.  The tables and what makes a file fit for
use are in `sqlite_file.py`, rows in `sqlite_rows.py`.

Objects of this file must not be carried across a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from .batch import additions
from .bookmark import Bookmark
from .canonical import digest_text
from .codec import decode, decode_bookmark, encode, encode_bookmark
from .errors import (
    CorruptLogError,
    NotResumableError,
    PersistenceUnavailableError,
    SessionHeldError,
    UnsupportedLogError,
    UsageError,
)
from .events import Event
from .file_lock import FileLock
from .message import Usage
from .sqlite_file import (
    connect_reader,
    connect_writer,
    from_column,
    resolve,
    to_column,
    transaction,
    translated,
)
from .sqlite_rows import (
    OPENING,
    SELECT_LOG,
    SELECT_ROW,
    SELECT_USAGE,
    SEQUENCES,
    optional_column,
    session_row,
    write_batch,
)
from .store import Batch, KeyRow, Reader, SessionRow

__all__ = ["SqliteReader", "SqliteStore"]

_MOST = (1 << 63) - 1
"""The greatest number that SQLite holds."""


class _SqliteReading:
    """The reading half, over whatever connection `_reading` gives."""

    path: Path

    def _reading(self) -> sqlite3.Connection:
        raise NotImplementedError

    def load(self, session: str, after: int = 0) -> list[Event]:
        """The events of a log whose `seq` is at least `after`, in order.

        Raises:
            UsageError: `after` is negative.
            CorruptLogError: an event is missing or cannot be read.
            UnsupportedLogError: an event is of a newer release.
            PersistenceUnavailableError: the file cannot be read.
        """
        if after < 0:
            raise UsageError(f"after must not be negative, and is {after}")
        rows = self._ask(SELECT_LOG, min(after, SEQUENCES - 1), to_column(session))
        if not rows:
            return []
        length = rows[0][2]
        if type(length) is not int:
            raise CorruptLogError(
                f"the index row of session {session} is damaged: its seq is {length!r}"
            )
        if after >= length:
            return []
        events: list[Event] = []
        place = after
        for first, bodies, _ in rows:
            if bodies is None or (events and first != place):
                raise CorruptLogError(f"the log of {session} lacks event {place}")
            texts = bodies.split("\n") if type(bodies) is str else [bodies]
            skipped = max(0, after - first)
            for place, text in enumerate(texts[skipped:], first + skipped):
                events.append(_event(text, place, session))
            place = first + len(texts)
        if place != rows[0][2]:
            raise CorruptLogError(
                f"the log of {session} ends at {place} and not at {rows[0][2]}"
            )
        return events

    def row(self, session: str) -> SessionRow | None:
        """The index row of a session."""
        rows = self._ask(f"{SELECT_ROW} where session = ?", to_column(session))
        return session_row(rows[0]) if rows else None

    def children(
        self, parent: str | None, after: str | None = None, limit: int = 100
    ) -> list[SessionRow]:
        """A page of the direct children, in order of creation time, then id.

        Raises:
            UsageError: `limit` is not positive.
        """
        if limit < 1:
            raise UsageError(f"limit must be positive, and is {limit}")
        place: tuple[Any, ...] = ()
        if after is not None:
            place = to_column(after), to_column(after)
        rows = self._ask(
            f"{SELECT_ROW} where parent {'is null' if parent is None else '= ?'}"
            + (
                " and (created_at, session) >"
                " ((select created_at from session where session = ?), ?)"
                if place
                else ""
            )
            + " order by created_at, session limit ?",
            *(() if parent is None else (to_column(parent),)),
            *place,
            min(limit, _MOST),
        )
        return list(map(session_row, rows))

    def unfinished(self, parent: str) -> list[SessionRow]:
        """The direct children with a live activation, open turn or untold outcomes."""
        rows = self._ask(
            f"{SELECT_ROW} where parent = ? and unfinished = 1"
            " order by created_at, session",
            to_column(parent),
        )
        return list(map(session_row, rows))

    def find(self, sender: str, key: str) -> KeyRow | None:
        """What a key of a sender names."""
        rows = self._ask(
            "select message.message, session.session, message.operation, message.digest"
            " from message join session on session.id = message.session"
            " where message.sender = ? and message.key = ?",
            to_column(sender),
            to_column(key),
        )
        return KeyRow(*map(from_column, rows[0])) if rows else None

    def place(self, message: str) -> str | None:
        """The session whose log accepted a message."""
        rows = self._ask(
            "select session.session from message"
            " join session on session.id = message.session where message.message = ?",
            to_column(message),
        )
        return from_column(rows[0][0]) if rows else None

    def position(self, message: str) -> tuple[str, int] | None:
        """Whose log accepted a message, and with which `seq`.

        It is 0 where the message was stored by a release that did not keep it.
        """
        rows = self._ask(
            "select session.session, coalesce(message.seq, 0) from message"
            " join session on session.id = message.session where message.message = ?",
            to_column(message),
        )
        return (from_column(rows[0][0]), rows[0][1]) if rows else None

    def bookmark(self, session: str) -> Bookmark | None:
        """The last bookmark of a session; `None` also when it cannot be read.

        It is only a shortcut: then the log says it all.
        """
        rows = self._ask(
            "select bookmark.state from session"
            " join bookmark on bookmark.session = session.id"
            " where session.session = ? and bookmark.seq <= session.seq",
            to_column(session),
        )
        if not rows or type(rows[0][0]) is not str:
            return None
        state = rows[0][0].partition("\n")[2]
        if rows[0][0] != _signed(state):
            return None
        try:
            bookmark = decode_bookmark(state)
        except (CorruptLogError, UnsupportedLogError):
            return None
        return bookmark if bookmark.header.session == session else None

    def usage(self, session: str) -> tuple[Usage, Usage]:
        """A session's own usage and that of its subtree, itself included.

        Raises:
            CorruptLogError: an index row holds what is no number.
        """
        (found,) = self._ask(SELECT_USAGE, to_column(session), to_column(session))
        if found[0] is None:
            return Usage(), Usage()
        if not all(value is None or type(value) is int for value in found):
            raise CorruptLogError(
                f"the index row of session {session}, or of one below it, is damaged:"
                " what it spent is no number"
            )
        return Usage(*found[:6]), Usage(*found[6:])

    def sessions(self) -> int:
        """How many sessions there are."""
        count: int = self._ask("select count(*) from session")[0][0]
        return count

    def _ask(self, query: str, *arguments: object) -> list[Any]:
        with translated(self.path, "read"):
            return self._reading().execute(query, arguments).fetchall()


def _signed(state: str) -> str:
    """The text of a bookmark behind its digest.

    What is wrong in a log does not fit together; a state has nothing that would show.
    """
    return f"{digest_text(state)}\n{state}"


def _event(text: str, place: int, session: str) -> Event:
    try:
        return decode(text)
    except (CorruptLogError, UnsupportedLogError) as error:
        text = f"event {place} of {session} cannot be read: {error}"
        raise type(error)(text) from error


class SqliteReader(_SqliteReading):
    """A reader with a connection of its own, for another thread or another process.

    It may be used from one thread other than the one that made it.

    Args:
        path: the file.

    Raises:
        PersistenceUnavailableError: the file cannot be read, or nothing is stored yet.
        UnsupportedLogError: it is not a store, or one of another format.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = resolve(path)
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        return connect_reader(self.path)

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._connection.close()

    def _reading(self) -> sqlite3.Connection:
        return self._connection


class SqliteStore(_SqliteReading):
    """The only writer of a file.

    After an append or a claim has failed nothing more is written until it was closed
    and opened again, which reads back what the file really holds.

    A claim is committed without waiting for the disk: the next batch, which waits,
    carries it along, and if there is none, then nothing was done under the claim.

    Args:
        path: the file; it is created at `open`, readable by its owner alone.
    """

    blocking = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._lock: FileLock | None = None
        self._failure: BaseException | None = None
        self._numbers: dict[str, int] = {}

    def open(self) -> None:
        """Take the lock, check that commits are durable, and void dead claims.

        Raises:
            StoreInUseError: another process, or another object in this one, writes it.
            PersistenceUnavailableError: it cannot be opened, or not in durable mode.
            UnsupportedLogError: it is not a store, or one of another format.
        """
        path = resolve(self.path)
        lock = FileLock(path)
        lock.acquire()
        try:
            connection = connect_writer(path)
        except BaseException:
            lock.release()
            raise
        self.path, self._lock, self._connection = path, lock, connection
        self._failure = None
        self._numbers = {}

    def append(self, batch: Batch) -> None:
        """Store a batch whole; returns when it survives a loss of power.

        Raises:
            SessionHeldError: an expected sequence or a claim does not match.
            KeyConflictError: the sender's key is taken.
            UsageError: the batch contradicts itself.
            PersistenceUnavailableError: it is unknown whether it is stored; or the
                store is not open, or failed before.
        """
        connection = self._writing()
        try:
            found = additions(batch)
            bodies = [encode(entry.event) for entry in batch.entries]
            states = {
                session: _signed(encode_bookmark(bookmark))
                for session, bookmark in batch.bookmarks.items()
            }
            with translated(self.path, "written"), transaction(connection):
                write_batch(connection, batch, found, bodies, states, self._numbers)
        except BaseException as error:
            self._failure = error
            raise

    def claim(self, session: str, holder: str) -> int:
        """Take the claim on a stored session; gives the new epoch.

        A holder that has it already gets a new epoch, and its former one ends.

        Raises:
            SessionHeldError: another live holder has it.
            NotResumableError: there is no such session.
            PersistenceUnavailableError: the store is not open, or failed before.
        """
        connection = self._writing()
        row = self.row(session)
        if row is None:
            raise NotResumableError(f"no session {session!r} is stored")
        if row.holder is not None and row.holder != holder:
            raise SessionHeldError(f"session {session} is held by {row.holder}")
        self._write_claim(connection, session, holder, row.epoch + 1)
        return row.epoch + 1

    def release(self, session: str, holder: str) -> None:
        """Give a claim back if `holder` has it; else nothing.

        On a store that failed it does nothing: the next opening voids every claim.
        """
        if self._failure is not None:
            return
        connection = self._writing()
        row = self.row(session)
        if row is not None and row.holder == holder:
            self._write_claim(connection, session, None, row.epoch)

    def reader(self) -> Reader:
        """A reader for use beside this writer, from one other thread."""
        return SqliteReader(self.path)

    def close(self) -> None:
        """Let go of the file and of the lock; may be called twice."""
        connection, self._connection = self._connection, None
        if connection is None or self._lock is None:
            return
        try:
            if self._failure is None:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("pragma wal_checkpoint(passive)").fetchall()
            connection.close()
        finally:
            self._lock.release()

    def _reading(self) -> sqlite3.Connection:
        if self._connection is None:
            raise PersistenceUnavailableError(f"the store {self.path} is not open")
        return self._connection

    def _writing(self) -> sqlite3.Connection:
        if self._failure is not None:
            raise PersistenceUnavailableError(
                f"writing to the store {self.path} failed before: {self._failure}"
            ) from self._failure
        return self._reading()

    def _write_claim(
        self,
        connection: sqlite3.Connection,
        session: str,
        holder: str | None,
        epoch: int,
    ) -> None:
        """Commit without waiting for the disk, and wait again from then on."""
        try:
            with translated(self.path, "written"):
                connection.execute("pragma synchronous = normal")
                try:
                    with transaction(connection):
                        connection.execute(
                            "update session set holder = ?, epoch = ?,"
                            f" opening = {OPENING} where session = ?",
                            (optional_column(holder), epoch, to_column(session)),
                        )
                finally:
                    connection.execute("pragma synchronous = full")
        except BaseException as error:
            self._failure = error
            raise
