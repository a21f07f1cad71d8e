"""The store port: what remembers sessions, and what every store must hold to.

Obligations (the suite in `ramet.testing.StoreContract` checks them):

* Every method is synchronous and may block.  `writer.py` calls the methods of `Store`
  one after the other, in one thread or in the loop's; those of a `Reader` may be called
  at the same time as an append, from another thread.
* `append` stores a batch whole or not at all, and returns only when it survives a kill
  and a loss of power.  A batch spans sessions.  When it raises, the caller treats the
  outcome as unknown and never calls `append` on this object again.
* An append whose expected sequence or epoch does not match raises `SessionHeldError`
and
  changes nothing.
* A key is unique for its sender, for good.  A second one raises `KeyConflictError`: the
  runtime asks before, so that this is an assertion and not a path.
* Reading methods change nothing and see whole batches only.  A missing thing is `None`
or
  empty, never an error; a log that cannot be read raises `CorruptLogError` or
  `UnsupportedLogError`, and a store that cannot be reached
  `PersistenceUnavailableError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from .events import Event, Kind
from .leaf import leaf
from .message import Usage, record

if TYPE_CHECKING:
    from .bookmark import Bookmark

__all__ = [
    "Batch",
    "Bookmarks",
    "Entry",
    "KeyRow",
    "Reader",
    "SessionRow",
    "Store",
    "Summary",
]


@leaf
class Summary:
    """What the index holds of a session after a batch; it replaces the one before.

    `activation` is the live activation or `None`; `turn` the number of the last turn,
    `turn_open` whether it is open; `parked` whether an interrupt parked the queue;
    `pending` the waiting occurrences; `staged` the staged messages; `untold` the
    outcomes that the parent was not told; `usage` the session's own.
    """

    activation: str | None
    turn: int
    turn_open: bool
    parked: bool
    pending: int
    staged: int
    untold: int
    usage: Usage
    last_at: int


@leaf
class Entry:
    """One event at its place in its session's log."""

    session: str
    seq: int
    event: Event


@record
class Batch:
    """Events in commit order, and for each session that they touch what must hold.

    `expected` gives each touched session's `seq` before the batch (0: it must not
    exist), `summaries` its index row after it.  `epochs` holds the epoch of the claim
    under which it is written; a session that the batch creates is claimed by it, with
    epoch 1.  `released` names the sessions whose claim is given back with it.
    `bookmarks` are states after the batch, for a store that keeps such.
    """

    holder: str
    entries: Sequence[Entry]
    expected: Mapping[str, int]
    epochs: Mapping[str, int]
    summaries: Mapping[str, Summary]
    released: Sequence[str] = ()
    bookmarks: Mapping[str, Bookmark] = attrs.field(factory=dict)


@leaf
class KeyRow:
    """What is stored under a sender's key.

    `operation` is the source of the message, `digest` that of its content
    (`codec.content_digest`), `session` the recipient.
    """

    message: str
    session: str
    operation: str
    digest: str


@attrs.define
class SessionRow:
    """A session in the index: the unchanging part of its header, and its summary.

    `seq` is how many events its log holds.
    """

    session: str
    parent: str | None
    depth: int
    name: str
    kind: Kind
    created_at: int
    seq: int
    holder: str | None
    epoch: int
    summary: Summary


@runtime_checkable
class Reader(Protocol):
    """The reading half: safe beside a writer, also from another process."""

    def load(self, session: str, after: int = 0) -> list[Event]:
        """The events of a log whose `seq` is at least `after`, in order."""
        ...

    def row(self, session: str) -> SessionRow | None:
        """The index row of a session."""
        ...

    def children(
        self, parent: str | None, after: str | None = None, limit: int = 100
    ) -> list[SessionRow]:
        """A page of the direct children (`None`: the roots), in order of creation time,
        then id, beginning after the session `after`."""
        ...

    def unfinished(self, parent: str) -> list[SessionRow]:
        """The direct children with a live activation or with untold outcomes."""
        ...

    def find(self, sender: str, key: str) -> KeyRow | None:
        """What a key of a sender names."""
        ...

    def place(self, message: str) -> str | None:
        """The session whose log accepted a message."""
        ...

    def usage(self, session: str) -> tuple[Usage, Usage]:
        """A session's own usage and that of its subtree, itself included."""
        ...

    def sessions(self) -> int:
        """How many sessions there are."""
        ...

    def close(self) -> None:
        """Let go of everything; may be called twice."""
        ...


@runtime_checkable
class Bookmarks(Protocol):
    """What the reading half of a store may offer besides, for the sake of long logs.

    A store that offers it keeps the bookmarks of its batches.  One that does not
    works as well: then whole logs are read.
    """

    def bookmark(self, session: str) -> Bookmark | None:
        """The last bookmark of a session that is stored and that can be read.

        The log holds at least the events that it stands for.
        """
        ...

    def position(self, message: str) -> tuple[str, int] | None:
        """Whose log accepted a message, and a `seq` that is not after that event."""
        ...


@runtime_checkable
class Store(Reader, Protocol):
    """The writing half.  One object serves one supervisor."""

    blocking: bool
    """Whether calls may block on a disk or a network, and so belong in a thread."""

    def open(self) -> None:
        """Make it ready: take the writer's lock, check durability, void dead claims.

        Raises:
            StoreInUseError: another process writes to it.
            PersistenceUnavailableError: it cannot be reached, or is not in the durable
                mode that it needs.
        """
        ...

    def append(self, batch: Batch) -> None:
        """Store a batch whole, durably."""
        ...

    def claim(self, session: str, holder: str) -> int:
        """Take the claim on a stored session; gives the new epoch.

        Raises:
            SessionHeldError: another live holder has it.
        """
        ...

    def release(self, session: str, holder: str) -> None:
        """Give a claim back if `holder` has it; else nothing."""
        ...

    def reader(self) -> Reader:
        """A reader for use beside this writer, from one other thread."""
        ...
