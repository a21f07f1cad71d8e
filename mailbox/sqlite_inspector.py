"""An inspector of a SQLite store: what a person beside a running process wants to know.

Lives here: reading that a supervisor never needs.  Which sessions have a part of an id,
whether anything changed, whether the file is whole, and who writes it.  It changes
nothing, and stands in nobody's way.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from .errors import CorruptLogError, PersistenceUnavailableError, UsageError
from .file_lock import lock_owner
from .sqlite_file import (
    connect_reader,
    from_column,
    missing_parts,
    to_column,
    translated,
)
from .sqlite_rows import SELECT_ROW, session_row
from .store import SessionRow
from .store_sqlite import SqliteReader

__all__ = ["SqliteInspector", "stillness"]

_PARTS = (
    "substr(session, 1, length(?1)) = ?1",
    "substr(session, -length(?1)) = ?1",
    "instr(session, ?1) > 0",
    "name = ?1",
)
"""How a part can name a session; the first that any session fits is taken."""


def stillness(path: Path) -> tuple[int, ...] | None:
    """What another value follows when somebody has written the file meanwhile.

    Args:
        path: the file, resolved.

    Returns:
        `None` when the file alone does not say everything: somebody writes it, or a
        writer that was killed left something in the write-ahead log.
    """
    log = path.with_name(f"{path.name}-wal")
    with translated(path, "looked at"):
        if log.exists() and log.stat().st_size:
            return None
        if lock_owner(path) is not None:
            return None
        found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


class SqliteInspector(SqliteReader):
    """A reader that can say more about the file than the port asks for.

    Args:
        path: the file.
        still: whether the file alone is read, so that nothing is made beside it;
            `stillness` tells when that can be, and whether it was so.

    Raises:
        PersistenceUnavailableError: the file cannot be read, or nothing is stored yet.
        UnsupportedLogError: it is not a store, or one of another format.
    """

    def __init__(self, path: str | os.PathLike[str], *, still: bool = False) -> None:
        self._still = still
        super().__init__(path)

    def _connect(self) -> sqlite3.Connection:
        return connect_reader(self.path, still=self._still)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """One moment of the store for everything that is read inside the block."""
        with translated(self.path, "read"):
            self._connection.execute("begin")
        try:
            yield
        finally:
            with translated(self.path, "read"):
                self._connection.rollback()

    def matching(self, part: str, limit: int) -> list[str]:
        """The sessions that have a part in their id, or as their name, oldest first.

        Their beginning is tried first, then their end, any place, and the name.

        Raises:
            UsageError: the part is empty, or `limit` is not positive.
        """
        if not part or limit < 1:
            raise UsageError("a part of an id and a positive limit are needed")
        for condition in _PARTS:
            rows = self._ask(
                f"select session from session where {condition}"
                " order by created_at, session limit ?2",
                to_column(part),
                limit,
            )
            if rows:
                return [from_column(session) for (session,) in rows]
        return []

    def changes(self) -> int:
        """A number that is another one after somebody has committed something."""
        number: int = self._ask("pragma data_version")[0][0]
        return number

    def faults(self) -> list[str]:
        """What is wrong with the file as a database; empty when it is whole.

        It reads the whole file, and names at most a hundred faults that SQLite finds; a
        file that is too damaged to be read through is one, and what is missing of the
        tables of a store are others.
        """
        try:
            lines = [str(line) for (line,) in self._ask("pragma integrity_check")]
            with translated(self.path, "read"):
                missing = missing_parts(self._connection)
        except PersistenceUnavailableError as error:
            return [str(error)]
        return missing if lines == ["ok"] else [*missing, *lines]

    def every(self) -> tuple[list[SessionRow], list[str]]:
        """Every session in order of creation, whatever is above it.

        Returns:
            The index rows, and what is wrong with those that cannot be read.
        """
        rows: list[SessionRow] = []
        faults: list[str] = []
        for one in self._ask(f"{SELECT_ROW} order by created_at, session"):
            try:
                rows.append(session_row(one))
            except CorruptLogError as error:
                faults.append(str(error))
        return rows, faults

    def strays(self) -> tuple[int, int]:
        """How many logs there are of sessions that the index lacks, and messages."""
        (logs,) = self._ask(
            "select count(*) from (select distinct place >> 32 as id from event)"
            " where id not in (select id from session)"
        )[0]
        (messages,) = self._ask(
            "select count(*) from message where session not in (select id from session)"
        )[0]
        return logs, messages

    def writer(self) -> int | None:
        """The number of the live process that writes it; 0 when it gives none.

        Raises:
            PersistenceUnavailableError: the lock file cannot be read.
        """
        return lock_owner(self.path)
