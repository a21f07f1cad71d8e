"""A connection of apsw with the face of the `sqlite3` module, for the shipped store.

Lives here: as much of `sqlite3.Connection` as the store uses, over a SQLite whose file
system is Python.  Statements, their order and their errors are the shipped ones; what
SQLite asks of the disk passes by the file system that a test gives it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import apsw

__all__ = ["ApswConnection"]

_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI

_KINDS: tuple[tuple[type[apsw.Error], type[sqlite3.Error]], ...] = (
    (apsw.ConstraintError, sqlite3.IntegrityError),
    (apsw.NotADBError, sqlite3.DatabaseError),
    (apsw.CorruptError, sqlite3.DatabaseError),
    (apsw.Error, sqlite3.OperationalError),
)


def _translated(error: apsw.Error) -> sqlite3.Error:
    """The error that the `sqlite3` module would raise."""
    kind = next(kind for cause, kind in _KINDS if isinstance(error, cause))
    found = kind(str(error))
    tables = (apsw.mapping_extended_result_codes, apsw.mapping_result_codes)
    codes: dict[Any, Any] = {**tables[0], **tables[1]}
    found.sqlite_errorname = codes.get(getattr(error, "extendedresult", 1), "")
    return found


class _Cursor:
    """A statement that has run to its end, and what it gave."""

    def __init__(self, rows: list[Any], changed: int, lastrowid: int) -> None:
        self._rows = rows
        self.rowcount = changed
        self.lastrowid = lastrowid

    def fetchall(self) -> list[Any]:
        """The rows that nobody has fetched."""
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> Any:
        """The next row, or `None`."""
        return self._rows.pop(0) if self._rows else None


class ApswConnection:
    """A connection to one file through a file system of apsw.

    Args:
        uri: names the file, as for `sqlite3.connect(uri=True)`.
        vfs: the name of the file system.
        wait_s: how long it waits for a lock.
        said: what is executed in the place of each statement.
    """

    def __init__(
        self, uri: str, vfs: str, wait_s: float, said: Callable[[str], str]
    ) -> None:
        self._said = said
        try:
            self._connection = apsw.Connection(uri, flags=_FLAGS, vfs=vfs)
        except apsw.Error as error:
            raise _translated(error) from error
        self._connection.set_busy_timeout(round(wait_s * 1000))

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._connection.in_transaction

    def execute(self, statement: str, values: Sequence[Any] = ()) -> _Cursor:
        """Run one statement to its end."""
        connection = self._connection
        try:
            rows = list(connection.execute(self._said(statement), tuple(values)))
        except apsw.Error as error:
            raise _translated(error) from error
        return _Cursor(rows, connection.changes(), connection.last_insert_rowid())

    def rollback(self) -> None:
        """End a transaction, if one is open, as if it had never begun."""
        if self.in_transaction:
            self.execute("rollback")

    def close(self) -> None:
        """Let go of the file.

        SQLite closes whatever the file system says to that, and so says nothing of it:
        a reader that is the last one asks for a lock that it cannot have.
        """
        with contextlib.suppress(apsw.Error):
            self._connection.close()
