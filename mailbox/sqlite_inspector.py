"""An inspector of a SQLite store: what a person beside a running process wants to know.

Lives here: reading that a supervisor never needs.  Which sessions have a part of an id,
whether anything changed, whether the file is whole, and who writes it.  It changes
nothing, and stands in nobody's way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .errors import PersistenceUnavailableError, UsageError
from .file_lock import lock_owner
from .sqlite_file import from_column, to_column, translated
from .store_sqlite import SqliteReader

__all__ = ["SqliteInspector"]

_PARTS = (
    "substr(session, 1, length(?1)) = ?1",
    "substr(session, -length(?1)) = ?1",
    "instr(session, ?1) > 0",
    "name = ?1",
)
"""How a part can name a session; the first that any session fits is taken."""


class SqliteInspector(SqliteReader):
    """A reader that can say more about the file than the port asks for.

    Args:
        path: the file.

    Raises:
        PersistenceUnavailableError: the file cannot be read, or nothing is stored yet.
        UnsupportedLogError: it is not a store, or one of another format.
    """

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
        """What SQLite finds wrong with the file; empty when it is whole.

        It reads the whole file, and names at most a hundred faults; a file that is too
        damaged to be read through is one.
        """
        try:
            lines = [str(line) for (line,) in self._ask("pragma integrity_check")]
        except PersistenceUnavailableError as error:
            return [str(error)]
        return [] if lines == ["ok"] else lines

    def writer(self) -> int | None:
        """The number of the live process that writes it; 0 when it gives none.

        Raises:
            PersistenceUnavailableError: the lock file cannot be read.
        """
        return lock_owner(self.path)
