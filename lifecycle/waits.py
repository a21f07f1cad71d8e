"""Waits for tests: until something has happened in an agent's log.

Lives here: waits that need no polling and no sleep, from public names only.
"""

from __future__ import annotations

from ..mailbox.errors import UsageError
from ..mailbox.events import RequestFailed, StepEnded, TurnEnded, TurnOpened
from .handle import Agent

__all__ = ["turn_ended"]


async def turn_ended(agent: Agent, count: int = 1) -> int:
    """Wait for an agent's `count`-th closed turn that made a request; gives its number.

    Raises:
        UsageError: the agent is gone, and it never closed so many.
    """
    closed = 0
    turn = 0
    asked = False
    async for entry in agent.events():
        event = entry.event
        if isinstance(event, TurnOpened):
            turn, asked = event.turn, False
        elif isinstance(event, (StepEnded, RequestFailed)):
            asked = True
        elif isinstance(event, TurnEnded) and asked:
            closed += 1
            if closed == count:
                return turn
    raise UsageError(f"{agent.id} is gone after {closed} turns with a request")
