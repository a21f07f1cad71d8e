"""The record of a simulated run: what became durable, was asked and was promised.

Lives here: everything that a run gives beside its schedule.  Each batch passes by at
the instant at which it is stored, and each of its events is looked at there by the laws
of its log.
"""

from __future__ import annotations

from typing import Any

import attrs

from ..actors.model import ModelRequest
from ..mailbox.errors import IllegalEventError
from ..mailbox.events import Accepted, Created, TurnEnded
from ..mailbox.session import Session
from ..mailbox.store import Batch, Entry
from .laws_log import LawBrokenError, Walk

__all__ = ["Note", "Record"]


@attrs.frozen
class Note:
    """What happened beside the logs: after how many events, when, and what."""

    after: int
    at_s: float
    text: str


class Record:
    """What one run left, in the order in which it came to be.

    Attributes:
        order: every event, as it became durable.
        walks: every log, as far as it is durable, parents before children.
        durable: the fold of each.
        statuses: how the last turn of each session ended.
        messages: what was accepted; `children`: who was started, by their parents.
        notes: what happened beside the logs.
        requests: what models were asked.
        acknowledged: the messages and sessions of which somebody was told that they are
            stored.
        resumed: the sessions that the host made resident.
        broken: the laws that were broken, as sentences.
        untold: whether a policy gave up telling outcomes.
    """

    def __init__(self) -> None:
        self.order: list[Entry] = []
        self.walks: dict[str, Walk] = {}
        self.durable: dict[str, Session] = {}
        self.statuses: dict[str, str] = {}
        self.messages: list[Accepted] = []
        self.children: dict[str | None, list[str]] = {None: []}
        self.notes: list[Note] = []
        self.requests: list[ModelRequest] = []
        self.acknowledged: list[str] = []
        self.resumed: set[str] = set()
        self.broken: list[str] = []
        self.untold: bool = False
        self._names: set[str] = set()

    def committed(self, batch: Batch) -> None:
        """A batch is durable from this instant on."""
        for entry in batch.entries:
            name, event = entry.session, entry.event
            walk = self.walks.get(name)
            if walk is None:
                walk = self.walks[name] = Walk(name)
                self.durable[name] = walk.session
            if entry.seq != walk.session.seq:
                self.broken.append(f"R-173 a gap: {name}: {entry.seq}")
            kind: type[Any] = type(event)
            if kind is Accepted:
                self._names.add(event.id)  # type: ignore[union-attr]
                self.messages.append(event)  # type: ignore[arg-type]
            elif kind is TurnEnded:
                self.statuses[name] = event.status  # type: ignore[union-attr]
            elif kind is Created:
                self._born(name, event.parent)  # type: ignore[union-attr]
            try:
                walk.read(event)
            except (IllegalEventError, LawBrokenError) as error:
                self.broken.append(str(error))
        self.order.extend(batch.entries)

    def acknowledge(self, name: str) -> None:
        """Somebody was told that this is stored (law 19)."""
        if not self.holds(name):
            self.broken.append(f"19 acknowledged and not stored: {name}")
        self.acknowledged.append(name)

    def holds(self, name: str) -> bool:
        """Whether a message or a session is durable."""
        return name in self._names or name in self.durable

    def _born(self, name: str, parent: str | None) -> None:
        self._names.add(name)
        if parent is not None:
            self.children.setdefault(parent, []).append(name)
            self.children[None].append(name)
