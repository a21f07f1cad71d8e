"""What a person does about sessions that a dead process left: which command goes on.

Lives here: the one sentence of it.  A run of a script is resumed, a conversation is
gone on with by a chat, and for everything else there is the program that began it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..mailbox.errors import CorruptLogError, IllegalEventError, UnsupportedLogError
from ..mailbox.store import Reader
from .runs import ReplayRefusedError, read_run

__all__ = ["how_to_go_on"]

_MOST = 20
"""How many roots are asked what they are: the log of each is read."""

_PROGRAM = "in the program that opened the store"


def how_to_go_on(reader: Reader, sessions: Iterable[str]) -> str:
    """How what was cut off is gone on with.

    Args:
        reader: the store.
        sessions: what was cut off, or is below something that was.
    """
    roots = sorted({_root(reader, session) for session in sessions})
    runs = []
    chats = []
    for root in roots[:_MOST]:
        kind = _kind(reader, root)
        if kind == "run":
            runs.append(root)
        elif kind == "chat":
            chats.append(root)
    ways = ["ramet resume"] if runs else []
    if chats:
        ways.append(f"ramet chat --resume {chats[0] if len(chats) == 1 else 'ID'}")
    return (
        f"go on with: {', or '.join([*ways, _PROGRAM])}"
        if ways
        else (f"go on {_PROGRAM}")
    )


def _root(reader: Reader, session: str) -> str:
    """The root above a session; in a store whose parents go round, any of them."""
    seen = {session}
    while True:
        row = reader.row(session)
        if row is None or row.parent is None or row.parent in seen:
            return session
        session = row.parent
        seen.add(session)


def _kind(reader: Reader, root: str) -> Literal["run", "chat"] | None:
    row = reader.row(root)
    if row is None or row.kind != "interactive" or row.parent is not None:
        return None
    try:
        read_run(reader, root)
    except ReplayRefusedError as error:
        faults = (CorruptLogError, UnsupportedLogError, IllegalEventError)
        return None if isinstance(error.__cause__, faults) else "chat"
    return "run"
