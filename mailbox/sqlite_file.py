"""A SQLite file that holds sessions: its tables, and how it is opened and recognised.

Lives here: what must be true of the file before anybody reads or writes it.  That it is
ours, that its format is known, that it is private to its owner, and that a commit in it
survives a loss of power (R-188).  `store_sqlite.py` says what is read and written.

Any string can be stored: one that is no Unicode text goes into its column as bytes.

What one batch writes to a session is one row of events, or a few when it is much: their
texts in order, one a line.  The row's key is the place of the first, made of the
session's number and the event's `seq`, so that a log is read, and begun in its middle,
by one walk through the table, and to store a hundred events costs what one does.

A claim holds in the opening in which it was made: the next one has another number, so
that it voids all claims without a look at the sessions, however many there are.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from .errors import PersistenceUnavailableError, UnsupportedLogError
from .file_lock import create_private

__all__ = [
    "FORMAT",
    "connect_reader",
    "connect_writer",
    "from_column",
    "missing_parts",
    "resolve",
    "to_column",
    "transaction",
    "translated",
]

FORMAT = 3
"""The version of the tables."""

_APPLICATION = 0x72616D74
"""Marks the file as ours, in its own header."""

_WAIT_S = 10.0
"""How long a connection waits for a lock that another process has on the file."""

_FULL = 2

_LOG_TABLES = (
    """create table event (
        place integer primary key,
        bodies text not null
    )""",
    """create table message (
        message text primary key,
        session integer not null,
        sender text,
        key text,
        operation text,
        digest text
    ) without rowid""",
    """create unique index message_key on message (sender, key)
        where key is not null""",
)

_BOOKMARK_TABLE = """create table bookmark (
    session integer primary key,
    seq integer not null,
    state text not null
)"""

_UPGRADES = {
    # One row for each event and each message, and an index over each table.
    1: (
        "alter table event rename to former_event",
        "alter table message rename to former_message",
        "drop index message_key",
        *_LOG_TABLES,
        "insert into event select (session << 32) + seq, body from former_event",
        "insert into message select message, session, sender, key, operation, digest"
        " from former_message",
        "drop table former_event",
        "drop table former_message",
    ),
    # No bookmarks, no place of a message in its log, and claims voided one by one.
    2: (
        "alter table message add column seq integer",
        "alter table session add column opening integer not null default 0",
        _BOOKMARK_TABLE,
    ),
}
"""What brings a file of an earlier format to the next one."""

_SCHEMA = (
    f"pragma application_id = {_APPLICATION}",
    "create table meta (name text primary key, value integer not null)",
    f"insert into meta values ('format', {FORMAT}), ('openings', 0)",
    """create table session (
        id integer primary key,
        session text not null unique,
        parent text,
        depth integer not null,
        name text not null,
        kind text not null,
        created_at integer not null,
        seq integer not null,
        holder text,
        epoch integer not null,
        activation text,
        turn integer not null,
        turn_open integer not null,
        parked integer not null,
        pending integer not null,
        staged integer not null,
        untold integer not null,
        requests integer not null,
        input_tokens integer,
        output_tokens integer,
        cache_read_tokens integer,
        cache_creation_tokens integer,
        tool_calls integer not null,
        last_at integer not null,
        unfinished integer not null,
        opening integer not null default 0
    )""",
    "create index session_children on session (parent, created_at, session)",
    """create index session_unfinished on session (parent, created_at, session)
        where unfinished = 1""",
    *_LOG_TABLES,
    "alter table message add column seq integer",
    _BOOKMARK_TABLE,
)


def to_column(text: str) -> str | bytes:
    """What a column holds for a string: text, or bytes where it is no Unicode text."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_column(value: str | bytes) -> str:
    """The string that a column holds."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    return value


def resolve(path: str | os.PathLike[str]) -> Path:
    """The one absolute path of a store, whatever way leads to it.

    Raises:
        PersistenceUnavailableError: it cannot be the path of a file.
    """
    text = os.fspath(path)
    if not text or text == ":memory:" or text.startswith("file:"):
        raise PersistenceUnavailableError(
            f"{text!r} is not the path of a file, and only a file can be durable:"
            " name one, or use MemoryStore"
        )
    try:
        found = Path(text).resolve()
        directory = found.parent.is_dir()
        blocked = found.is_dir()
        special = found.exists() and not (blocked or found.is_file())
    except (OSError, RuntimeError, ValueError) as error:
        raise PersistenceUnavailableError(
            f"{text!r} is not a usable path: {error}"
        ) from error
    if not directory:
        raise PersistenceUnavailableError(
            f"there is no directory {found.parent} for the store {found}: create it"
        )
    if blocked:
        raise PersistenceUnavailableError(
            f"{found} is a directory: name a file inside it"
        )
    if special:
        # To open a pipe waits until somebody opens its other end.
        raise PersistenceUnavailableError(
            f"{found} is a pipe, a socket or a device: name a file"
        )
    return found


@contextlib.contextmanager
def translated(path: Path, action: str) -> Iterator[None]:
    """Turn what SQLite and the file system raise into one error that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise PersistenceUnavailableError(
            f"the store {path} cannot be {action}: {error}{_advice(path, error)}"
        ) from error


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that writes: committed at its end, or rolled back."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("rollback")
        raise


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the file for its only writer, and make it if there is none.

    What a writer that was killed left in the write-ahead log goes into the file first,
    and then one transaction is written: so nothing of a commit that failed, and was not
    seen to be there by now, can come back later.

    Raises:
        PersistenceUnavailableError: it cannot be opened, or not in durable mode.
        UnsupportedLogError: it is not ours, or of another format.
    """
    with translated(path, "opened for writing"):
        _make_private(path)
        connection = _connect(path, "rw")
        try:
            stored = _format(connection, path)
            _require_durable(connection, path)
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
            with transaction(connection):
                for statement in _SCHEMA if stored is None else _upgrade(stored):
                    connection.execute(statement)
                connection.execute(
                    "update meta set value = value + 1 where name = 'openings'"
                )
            _make_private(path)
            _sync_directory(path.parent)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path, *, still: bool = False) -> sqlite3.Connection:
    """Open the file for reading beside a writer, or after one.

    With `still` the file alone is read, without its write-ahead log and without locks,
    and nothing is made beside it: the caller knows that nobody writes it.

    A reader never puts the write-ahead log into the file, not even when it closes last:
    SQLite before 3.51.3 can lose data when two connections do that.

    Raises:
        PersistenceUnavailableError: it cannot be opened, or nothing is in it yet.
        UnsupportedLogError: it is not ours, or of another format.
    """
    with translated(path, "opened for reading"):
        if not path.exists():
            raise PersistenceUnavailableError(
                f"there is no store {path}: check the path"
            )
        connection = _connect(path, "ro&immutable=1" if still else "ro")
        try:
            stored = _format(connection, path)
            if stored is None:
                raise PersistenceUnavailableError(
                    f"nothing has been stored in {path} yet: open it for writing first"
                )
            if stored != FORMAT:
                raise UnsupportedLogError(
                    f"the store {path} has the earlier format {stored}: open it once"
                    " for writing, as ramet.open does, which brings it up to date"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute(f"pragma {name}").fetchone()
    return None if row is None else row[0]


def _upgrade(stored: int) -> list[str]:
    """The statements that bring a file from an earlier format to the present one."""
    found = [one for former in range(stored, FORMAT) for one in _UPGRADES[former]]
    return [*found, f"update meta set value = {FORMAT} where name = 'format'"]


def _format(connection: sqlite3.Connection, path: Path) -> int | None:
    """The format of a file that is ours and known; `None`: there is nothing in it."""
    connection.execute("begin")
    try:
        application = _pragma(connection, "application_id")
        (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        if application == 0 and tables == 0:
            return None
        if application != _APPLICATION:
            raise UnsupportedLogError(
                f"{path} is a database of another program: name another file"
            )
        query = "select value from meta where name = 'format'"
        (stored,) = connection.execute(query).fetchone() or (None,)
        if type(stored) is not int:
            raise PersistenceUnavailableError(
                f"the store {path} is damaged, since it does not say its format:"
                " restore it from a copy"
            )
        if stored != FORMAT and stored not in _UPGRADES:
            raise UnsupportedLogError(
                f"the store {path} has format {stored}; this release reads {FORMAT}"
            )
        return stored
    finally:
        connection.rollback()


def missing_parts(connection: sqlite3.Connection) -> list[str]:
    """The tables, columns and indexes of a store that a file lacks, in words."""
    made = sqlite3.connect(":memory:")
    try:
        for statement in _SCHEMA:
            made.execute(statement)
        wanted = _parts(made)
    finally:
        made.close()
    found = _parts(connection)
    return [
        f"the {kind} {name} is missing"
        for kind, name in wanted
        if (kind, name) not in found
        # A table that is missing is said once, and not for each of its columns.
        and (kind != "column" or ("table", name.partition(".")[0]) in found)
    ]


def _parts(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """What tables and indexes there are, and which columns."""
    query = "select type, name from sqlite_master where name not like 'sqlite_%'"
    parts = connection.execute(query).fetchall()
    for kind, name in list(parts):
        if kind == "table":
            query = "select name from pragma_table_info(?)"
            rows = connection.execute(query, (name,)).fetchall()
            parts += [("column", f"{name}.{column}") for (column,) in rows]
    return parts


def _require_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Ask for the mode in which a commit survives a loss of power, and read it back."""
    connection.execute("pragma journal_mode = wal").fetchall()
    connection.execute("pragma synchronous = full")
    # On macOS an ordinary sync leaves data in the cache of the disk.
    connection.execute("pragma fullfsync = on")
    connection.execute("pragma checkpoint_fullfsync = on")
    # A page that many commits write goes into the file once for all of them.
    connection.execute("pragma wal_autocheckpoint = 4000").fetchall()
    connection.execute(f"pragma journal_size_limit = {64 << 20}").fetchall()
    journal = _pragma(connection, "journal_mode")
    synchronous = _pragma(connection, "synchronous")
    if journal != "wal" or synchronous != _FULL:
        raise PersistenceUnavailableError(
            f"the store {path} is not durable: it needs journal_mode wal and"
            f" synchronous {_FULL}, and SQLite gives {journal} and {synchronous};"
            " use a local file system and an ordinary build of SQLite"
        )


def _make_private(path: Path) -> None:
    """Create the file, or take others' rights to it and its two companions away.

    It is never opened when it exists: closing a second descriptor would give up the
    locks that readers in this process have on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(create_private(path, os.O_RDWR | os.O_EXCL))
    if sys.platform != "win32":
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.chmod(path.with_name(name), 0o600)


def _sync_directory(directory: Path) -> None:
    """Make the names of the files durable: SQLite does so only for those it creates."""
    if sys.platform != "win32":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _advice(path: Path, error: BaseException) -> str:
    """What a person can do about it."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return "; it is damaged or no database: restore it from a copy"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"; you must be able to write to it and to {path.parent}"
    if name.startswith("SQLITE_FULL"):
        return "; make room on the disk and open it again"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "; another program has it locked"
    if isinstance(error, PermissionError):
        return "; it must belong to you"
    return ""
