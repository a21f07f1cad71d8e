"""One open block of a simulated run, and what was watched of it.

Lives here: what a world knows of each process that it opened: its store, how it ended,
who waits in it, and whether an error is only what its end is told by.
"""

from __future__ import annotations

from typing import Any

import anyio
import attrs

from ..mailbox.errors import PersistenceUnavailableError, SendUnknownError
from .errors import TeardownError
from .simulate_record import Record
from .simulate_store import SimulatedStore
from .supervisor import Supervisor

__all__ = ["Opening", "watch"]


@attrs.define(eq=False)
class Opening:
    """One open block of a run, and what was watched of it.

    Attributes:
        options: what `open` was given, so that a recovery opens the same.
        planned: whether its end was planned by the seed, which ends the scenario too.
        by_hand: whether the scenario itself asked for its end.
        doomed: whether it is about to be killed.
        recovery: whether it is no part of the scenario: its minds come to an end.
        remains: the store that a kill left.
        free: set when what hangs by a fault is let go.
        stubborn: whether some of its turns may outlast a cancellation, so that they are
            given up: a tool ignores it, or what it wrote is stored very late.
        claim_lost: whether another process may have taken its claims.
        waits: the messages whose outcome somebody waits for, and how many do.
        resumed: the sessions that the host made resident.
    """

    store: SimulatedStore
    options: dict[str, Any]
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    supervisor: Supervisor | None = None
    planned: bool = False
    claim_lost: bool = False
    stubborn: bool = False
    ended: bool = False
    doomed: bool = False
    by_hand: bool = False
    recovery: bool = False
    remains: SimulatedStore | None = None
    waits: dict[str, int] = attrs.field(factory=dict)
    resumed: set[str] = attrs.field(factory=set)
    free: anyio.Event = attrs.field(factory=anyio.Event)

    @property
    def broken(self) -> bool:
        """Whether it was killed, or its store failed as planned."""
        return self.store.disk.dead or self.store.disk.failed or self.claim_lost

    def excuses(self, error: BaseException) -> bool:
        """Whether an error is only what such an end is told by."""
        if isinstance(error, TeardownError):
            return self.stubborn
        if isinstance(error, BaseExceptionGroup):
            return all(self.excuses(one) for one in error.exceptions)
        kinds = (SendUnknownError, PersistenceUnavailableError)
        return self.broken and isinstance(error, kinds)

    def busy(self) -> bool:
        """Whether anything is under way that will come to an end by itself."""
        supervisor = self.supervisor
        if supervisor is None or self.ended:
            return False
        runtime = supervisor._runtime
        return (
            (runtime.gate.failed is None and runtime.gate.durable < runtime.gate.ticket)
            or runtime.calls.count > 0
            or bool(supervisor._residency._resuming)
            or any(one.driving for one in runtime.forest.live.values())
        )


def watch(opening: Opening, supervisor: Supervisor, record: Record) -> None:
    """Write down what a running supervisor promises, and who waits for it."""
    opening.supervisor = supervisor
    runtime = supervisor._runtime
    stored, resume = runtime.stored, supervisor._residency.resume
    wait = supervisor._inquiry.wait

    async def watched_stored(name: str, ticket: int, key: str | None) -> None:
        await stored(name, ticket, key)
        record.acknowledge(name)

    async def watched_resume(session_id: str) -> Any:
        record.resumed.add(session_id)
        opening.resumed.add(session_id)
        return await resume(session_id)

    async def watched_wait(message_id: str) -> Any:
        opening.waits[message_id] = opening.waits.get(message_id, 0) + 1
        try:
            return await wait(message_id)
        finally:
            opening.waits[message_id] -= 1

    runtime.stored = watched_stored  # type: ignore[method-assign]
    supervisor._residency.resume = watched_resume  # type: ignore[method-assign]
    supervisor._inquiry.wait = watched_wait  # type: ignore[method-assign]
