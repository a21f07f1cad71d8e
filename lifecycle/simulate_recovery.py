"""What the next process makes of a simulated run: recovery.

Lives here: opening what a planned end left, as a host does after a crash: its roots are
resumed, what had a key is sent once more, and everything comes to rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import attrs

from ..mailbox.events import Accepted
from .supervisor import Supervisor

if TYPE_CHECKING:
    from .simulate_world import World

__all__ = ["recover"]

_RECOVERIES = 3


async def recover(world: World) -> None:
    """Open what is left as the next process does, and bring it to rest."""
    world._scope = anyio.CancelScope()
    for _ in range(_RECOVERIES):
        last = world.openings[-1] if world.openings else None
        if last is None or not (last.broken or world._plan.reopens):
            return
        again = world._plan.crash_again if last.broken else None
        late = attrs.evolve(world._plan, crash=again, crash_again=None)
        world._plan = attrs.evolve(late, failed_commit=None, reopens=False)
        world.note("recovery")
        options = dict(last.options)
        if last.supervisor is not None:
            options["specs"] = list(last.supervisor._runtime.specs.values())
        async with world.open(**options) as supervisor:
            world.openings[-1].recovery = True
            await _resume_roots(world, supervisor)


async def _resume_roots(world: World, supervisor: Supervisor) -> None:
    """What a host does after a crash: resume its roots, and repeat what had a key.

    A repeat gives the same message (R-060).
    """
    known = {spec.name for spec in world.openings[-1].options["specs"]}
    for name, session in list(world.durable.items()):
        header = session.header
        over = session.concluded is not None and session.activation is None
        if header.parent is not None or over or header.spec.name not in known:
            continue
        agent = await supervisor.resume(name)
        if header.kind != "interactive":
            continue
        for event in list(world.record.walks[name].all(Accepted)):
            if event.source == "tell" and event.key:
                again = await supervisor.tell(agent, event.content, key=event.key)
                world.need(again == event.id, "R-060 a repeat is new", event.id)
