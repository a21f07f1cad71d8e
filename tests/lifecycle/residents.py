"""Residents for tests of the plain rules: activations with a log written by hand.

Lives here: activations, a gate that stores nothing, and a forest over it, so that
everything that is decided in one span can be tested without a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ramet.actors.contract import Contract
from ramet.actors.contributions import Installation
from ramet.actors.ledger import Ledger
from ramet.actors.policy import Policy
from ramet.lifecycle.activation import Activation, Life
from ramet.lifecycle.forest import Forest
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.events import Event, Kind
from ramet.mailbox.ids import Ambient
from ramet.mailbox.session import Session, fold
from ramet.mailbox.store import Entry
from ramet.mailbox.writer import Gate
from tests.actors.specs import bound_of
from tests.logs import activated, header

__all__ = ["PlainGate", "Woods", "own", "resident"]


class PlainGate(Gate):
    """A gate that keeps every event; a test says when everything is durable."""

    def __init__(self) -> None:
        super().__init__(None, None, "one")  # type: ignore[arg-type]
        self.entries: list[Entry] = []
        self._waiters: list[Callable[[], None]] = []

    def write(self, session: Session, session_id: str, event: Event) -> int:
        """Apply an event and keep it."""
        seq = session.seq
        ticket = super().write(session, session_id, event)
        self.entries.append(Entry(session_id, seq, event))
        return ticket

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        """Keep a callback for the next commit."""
        self._waiters.append(callback)

    def commit(self) -> None:
        """Everything written is durable; who waited for it is called."""
        while self._waiters:
            self.durable = self.ticket
            ready, self._waiters = self._waiters, []
            for callback in ready:
                callback()
        self.durable = self.ticket


class Woods:
    """A forest without drivers; `driven` are those that would have got one."""

    def __init__(self) -> None:
        self.gate = PlainGate()
        self.driven: list[Activation] = []
        self.forest = Forest(self.gate, Ambient(lambda: 7.0), self.driven.append)

    def add(self, activation: Activation) -> Activation:
        """Make a resident visible to the forest, without an event."""
        self.forest.live[activation.id] = activation
        return activation

    def logged(self, session: str) -> list[Event]:
        """What was written to a session since it was made."""
        return [it.event for it in self.gate.entries if it.session == session]


def resident(
    kind: Kind = "continuable",
    *events: Event,
    session: str = "c",
    parent: Activation | None = None,
    policy: Policy | None = None,
    contract: Contract[Any] | None = None,
    background: bool = False,
    life: Life = Life.LIVE,
    **spec: Any,
) -> Activation:
    """An activation whose log is a header, an activation and these events."""
    record = None if contract is None else canonical_json(contract.record())
    parent_id = "p" if parent is None else parent.id
    bound = bound_of(policy=policy, **spec)
    first = header(
        kind,
        session,
        parent_id,
        contract=record,
        background=background,
        spec=bound.record,
    )
    made = Activation(
        session,
        fold((first, activated(), *events)),
        parent,
        bound,
        Installation(),
        None if contract is None else Ledger(contract),
    )
    made.life = life
    if parent is not None:
        own(parent, made)
    return made


def own(parent: Activation, *children: Activation) -> None:
    """Make activations the live children of another."""
    parent.children = parent.children or {}
    for child in children:
        child.parent = parent
        parent.children[child.id] = child
