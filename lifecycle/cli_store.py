"""Which store a command means, and which session in it.

Lives here: the one default of `--store`, the opening of a store for reading, and how a
part of an id becomes a session.  Every command of `ramet` asks here; none decides for
itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ..mailbox.errors import PersistenceUnavailableError, UsageError
from ..mailbox.sqlite_file import resolve
from ..mailbox.sqlite_inspector import SqliteInspector

__all__ = [
    "add_store_argument",
    "default_store",
    "find_session",
    "missing_store",
    "opened_reader",
    "store_option",
]

_FILE = "ramet.db"
_VARIABLE = "RAMET_STORE"
_SHOWN = 10


def add_store_argument(parser: argparse.ArgumentParser) -> None:
    """Give a command the option `--store FILE`."""
    parser.add_argument(
        "--store",
        metavar="FILE",
        help=f"the store; default: ${_VARIABLE}, else {_FILE} in this directory",
    )


def default_store(arguments: argparse.Namespace) -> str:
    """The store that a command line means: `--store`, else `RAMET_STORE`, else a file.

    Raises:
        UsageError: the option was given without a name.
    """
    named: str | None = getattr(arguments, "store", None)
    if named is not None:
        if not named.strip():
            raise UsageError("--store needs the name of a file")
        return named
    return os.environ.get(_VARIABLE) or _FILE


def store_option(arguments: argparse.Namespace) -> str:
    """How another command names the store of this one, beginning with a blank."""
    if arguments.store is None:
        return ""
    return f" --store {shlex.quote(arguments.store)}"


@contextlib.contextmanager
def opened_reader(arguments: argparse.Namespace) -> Iterator[SqliteInspector]:
    """The store of a command line, open for reading.

    Nothing is created, and nobody who writes it is disturbed.

    Raises:
        PersistenceUnavailableError: there is no such file, or it cannot be read.
        UnsupportedLogError: it is not a store, or one of another format.
    """
    path = resolve(default_store(arguments))
    if not path.exists():
        raise PersistenceUnavailableError(missing_store(path))
    reader = SqliteInspector(path)
    try:
        yield reader
    finally:
        reader.close()


def missing_store(path: Path) -> str:
    """What to tell a person who named a store that does not exist."""
    return (
        f"there is no store {path}: `ramet run` makes one; to read another, give"
        f" --store FILE or set {_VARIABLE}"
    )


def find_session(reader: SqliteInspector, given: str) -> str:
    """The session that a person means.

    Args:
        reader: where to look.
        given: an id; its beginning, its end or any other part, if only one session has
            it; the name of an agent, if only one has it; or the id of a message.

    Raises:
        UsageError: nothing fits, or several sessions do; then it names them.
    """
    if reader.row(given) is not None:
        return given
    found = reader.matching(given, _SHOWN + 1) if given.strip() else []
    if not found:
        place = reader.place(given)
        if place is not None:
            return place
        raise UsageError(
            f"no session has {given!r} in its id or as its name: `ramet ps --all`"
            " lists them"
        )
    if len(found) > 1:
        shown = "; ".join(_described(reader, one) for one in found[:_SHOWN])
        more = " and more" if len(found) > _SHOWN else ""
        raise UsageError(f"{given!r} may mean several sessions: {shown}{more}")
    return found[0]


def _described(reader: SqliteInspector, session: str) -> str:
    row = reader.row(session)
    return session if row is None else f"{session} ({row.name})"
