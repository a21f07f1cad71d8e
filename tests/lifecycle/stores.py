"""Stores that fail or wait when a test says so.

Lives here: memory stores with a switch at their `append`.  They keep to the store port
in everything else.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal

from ramet import Entry, MemoryStore, PersistenceUnavailableError
from ramet.mailbox.events import Event
from ramet.mailbox.session import Session
from ramet.mailbox.store import Batch, KeyRow

__all__ = ["CountingStore", "FailingStore", "HeldClaims", "HeldStore", "stored"]


class HeldStore(MemoryStore):
    """A store whose commits wait in the writer's thread until the test lets them go."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.free.set()

    def append(self, batch: Batch) -> None:
        """Store a batch when it may."""
        self.free.wait()
        super().append(batch)


class HeldClaims(HeldStore):
    """A store whose next claim says that it has begun, and waits to be let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.let = threading.Event()

    def claim(self, session: str, holder: str) -> int:
        """Claim a session when it may."""
        self.begun.set()
        self.let.wait()
        return super().claim(session, holder)


class FailingStore(HeldStore):
    """A store whose commit fails once, before or after the batch was stored.

    `spare` commits go well before that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failing: Literal["before", "after"] | None = None
        self.spare = 0
        self.unreachable = False

    def open(self) -> None:
        """Open it, unless it is unreachable."""
        if self.unreachable:
            raise PersistenceUnavailableError("the disk is not there")
        super().open()

    def append(self, batch: Batch) -> None:
        """Store a batch, or fail."""
        self.free.wait()
        if self.spare:
            self.spare -= 1
            super().append(batch)
            return
        failing, self.failing = self.failing, None
        if failing == "before":
            raise OSError("the disk is full")
        super().append(batch)
        if failing == "after":
            raise OSError("the disk did not answer")


class CountingStore(MemoryStore):
    """A store that records what it was asked for and what it stored."""

    def __init__(self) -> None:
        super().__init__()
        self.finds: list[tuple[str, str]] = []
        self.loads: list[str] = []
        self.batches: list[list[Entry]] = []

    def find(self, sender: str, key: str) -> KeyRow | None:
        """Record and answer."""
        self.finds.append((sender, key))
        return super().find(sender, key)

    def load(self, session: str, after: int = 0) -> list[Event]:
        """Record and answer."""
        self.loads.append(session)
        return super().load(session, after)

    def append(self, batch: Batch) -> None:
        """Record and store."""
        self.batches.append(list(batch.entries))
        super().append(batch)


def stored(order: Sequence[Entry]) -> MemoryStore:
    """A store that holds these events, and that no living supervisor has opened."""
    sessions: dict[str, Session] = {}
    for entry in order:
        sessions.setdefault(entry.session, Session()).apply(entry.event)
    expected = dict.fromkeys(sessions, 0)
    epochs = dict.fromkeys(sessions, 1)
    summaries = {name: session.summary() for name, session in sessions.items()}
    store = MemoryStore()
    store.open()
    store.append(Batch("the one that was killed", order, expected, epochs, summaries))
    store.close()
    return store
