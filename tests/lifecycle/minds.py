"""Minds that tests hold, tools that refuse, and what can be read off a request.

Lives here: what tests of the running runtime share besides the stage.
"""

from __future__ import annotations

from typing import Any

import anyio

import ramet
from ramet import Agent, AgentSpec, CallResult, ModelRequest, ToolMessage, UserMessage
from ramet.testing import Gate, ScriptedModel, call, step

__all__ = [
    "Stubborn",
    "frames",
    "held",
    "reply",
    "results_in",
    "state_of",
]


def held(*names: str, hold: Gate, more: int = 2) -> ScriptedModel:
    """A model whose first answer of each name is held, and `more` that are not."""
    steps = [step("x", hold=hold), *[step("more")] * more]
    return ScriptedModel(dict.fromkeys(names, steps))


class Stubborn:
    """A tool that refuses cancellation until it is let go."""

    def __init__(self) -> None:
        self.inside = Gate()
        self.spec = AgentSpec("scout", tools=[self.refuse])

    async def refuse(self) -> str:
        """Refuse to be cancelled."""
        with anyio.CancelScope(shield=True):
            await self.inside.passed()
        return "late"

    def steps(self) -> list[Any]:
        """The step that calls it."""
        return [step(calls=[call("refuse")])]


def frames(request: ModelRequest) -> list[tuple[str, ...]]:
    """The blocks of every message that a request shows from others."""
    return [m.blocks for m in request.messages if isinstance(m, UserMessage)]


def results_in(request: ModelRequest) -> list[CallResult]:
    """The results of calls that a request shows."""
    return [
        result
        for message in request.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


def reply(value: Any) -> ramet.Call:
    """A call that returns a value."""
    return call("reply", value=value)


def state_of(agent: Agent) -> str:
    """The state, for comparisons after something has changed it."""
    return agent.state
