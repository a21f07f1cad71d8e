"""What the agents of a random play think, and the tools that they have.

Lives here: minds that do what the play's moods say, request by request, and wait at a
gate of their own where they are told to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import attrs

import ramet
from ramet import Agent, AgentSpec, ModelRequest, ModelResponse, Setup, ToolCall
from ramet.testing import Gate, World, call
from tests.lifecycle.minds import reply
from tests.lifecycle.plays import Mood

__all__ = ["HOLD", "Lending", "Minds"]

HOLD = "hold"
"""The prompt of one whose first answer waits."""

_MOST_CALLS = 12

_CALLS: dict[Mood, tuple[str, dict[str, Any]]] = {
    "report": ("report_so_far", {"delivery": "quiet"}),
    "wake": ("report_so_far", {"delivery": "wakeup"}),
    "start": ("start", {}),
    "call": ("ask", {}),
    "lent": ("lent", {}),
    "cancel": ("end", {}),
}


class Minds:
    """The agents of one run.

    Args:
        world: of the run.
        moods: what they do, request by request; then they are done.
    """

    def __init__(self, world: World, moods: Iterable[Mood]) -> None:
        self._world = world
        self._moods = iter(moods)
        self._gates: defaultdict[str, Gate] = defaultdict(Gate)
        self._free = False
        self._calls = 0
        tools: list[Any] = [self.report_so_far, self.start, self.ask, self.end]
        model = ramet.FunctionModel(self._think)
        self.goes_on = AgentSpec("goes_on", tools=tools, model=model)
        self.returns = AgentSpec("returns", tools=tools, model=model)

    @property
    def specs(self) -> list[AgentSpec]:
        """All specs."""
        return [self.goes_on, self.returns]

    def begin(self) -> None:
        """A process begins."""
        self._gates.clear()
        self._free = False

    def let_go(self, session: str) -> None:
        """Whoever waits in a session goes on, or who comes next; later ones wait."""
        self._gates[session].open()

    def let_all_go(self) -> None:
        """Nobody waits any more."""
        self._free = True
        for session in list(self._gates):
            self.let_go(session)

    def hold_again(self) -> None:
        """Who comes from now on may wait."""
        self._free = False

    def lending(self) -> Lending:
        """A contribution that lends a tool."""
        return Lending(self._world)

    async def _think(self, request: ModelRequest) -> str | ModelResponse:
        mood: Mood | None = next(self._moods, None)
        told = [one for m in request.messages for one in getattr(m, "blocks", ())]
        held = request.turn == 1 and told[-1:] == [HOLD]
        if (held or mood == "wait") and not self._free:
            gate = self._gates[request.session_id]
            await gate.passed()
            if self._gates[request.session_id] is gate:
                del self._gates[request.session_id]
        if mood == "fail":
            raise ValueError("this mind fails")
        made = None if mood is None else _CALLS.get(mood)
        self._calls += 1
        if made is not None and self._calls < _MOST_CALLS and not held:
            return ModelResponse("", (call(made[0], **made[1]),), "tool_calls")
        if any(tool.name == "reply" for tool in request.tools):
            return ModelResponse("", (reply("v"),), "tool_calls")
        return "done"

    # -- tools -------------------------------------------------------------------------

    async def report_so_far(self, delivery: str, call: ToolCall) -> str:
        """Report to the parent."""
        return await self._world.supervisor.report_from(
            _caller(call),
            "so far",
            delivery="quiet" if delivery == "quiet" else "wakeup",
        )

    async def start(self, call: ToolCall) -> str:
        """Start a child that goes on."""
        starting = self._world.supervisor.start_child(_caller(call), self.goes_on, "go")
        return (await starting).child_id

    async def ask(self, call: ToolCall) -> str:
        """Call a child and wait for its answer."""
        asking = self._world.supervisor.call(_caller(call), self.returns, "why?")
        return (await asking).status

    async def end(self, call: ToolCall) -> str:
        """Cancel the parent, or itself."""
        agent = _caller(call)
        await self._world.supervisor.cancel(agent.parent_id or agent.id)
        return "nobody reads this"


@attrs.define
class Lending:
    """A contribution whose tool must not start once it was revoked (law 17)."""

    world: World
    revoked: bool = False

    def set_up(self, setup: Setup) -> None:
        """Lend the tool."""
        setup.add_tool(self.lent)

    async def lent(self) -> str:
        """Do a little."""
        self.world.need(not self.revoked, "17 a call of what was revoked")
        await self.world.checkpoint()
        return "done"


def _caller(call: ToolCall) -> Agent:
    agent = call.agent
    assert isinstance(agent, Agent)
    return agent
