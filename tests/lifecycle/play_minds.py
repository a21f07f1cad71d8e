"""The minds of a random play: what its agents think, and the tools that they call.

Lives here: the model, the tools and the specs.  At each request and in each tool the
laws are looked at that only a running agent can break: its log is durable, its turn is
open, and nobody has stopped it.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Call,
    Compaction,
    ContextOverflowError,
    ModelRequest,
    ModelResponse,
    Shortened,
    ToolCall,
)
from ramet.lifecycle.activation import Life
from ramet.mailbox.events import RequestFailed, StepEnded, TurnOpened
from ramet.mailbox.session import fold
from tests.lifecycle.play_world import World

__all__ = ["Minds", "response"]


class Minds:
    """The agents of one play: `goes_on` continues, `returns` returns a value."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.model = ramet.FunctionModel(self.think)
        tools = (
            self.report,
            self.start,
            self.follow_up,
            self.cancel,
            self.ask,
            self.ask_in_background,
        )
        policy = attrs.evolve(world.setting.policy, compact=self.compact)
        limits = world.spec_limits
        self.goes_on = AgentSpec("goes_on", tools=tools, policy=policy, limits=limits)
        self.returns = AgentSpec("returns", tools=tools, policy=policy, limits=limits)

    # -- thinking ----------------------------------------------------------------------

    async def think(self, request: ModelRequest) -> str | ModelResponse:
        """Answer, call a few tools, return a value, fail, or find it too long."""
        world, dice = self._world, self._world.dice
        self.look(request)
        world.requests.append(request)
        world.runs(1)
        try:
            await world.pause()
        finally:
            world.runs(-1)
        returning = request.name == "returns"
        chance = dice.random()
        if world.calls_left <= 0 or chance < 0.35:
            if returning and dice.random() < 0.8:
                return response([("reply", {"value": "v"})])
            return "done"
        if chance < 0.4:
            raise ValueError("this mind fails")
        if chance < 0.5 and len(request.messages) > 2:
            raise ContextOverflowError("too long for this mind")
        world.calls_left -= 1
        return response(self._calls(returning))

    async def compact(self, compaction: Compaction) -> Shortened | None:
        """Shorten what a mind found too long, or not."""
        world, dice = self._world, self._world.dice
        world.counts["compactions asked"] += 1
        await world.pause(3)
        chance = dice.random()
        if chance < 0.1:
            return None
        if chance < 0.2:
            raise ValueError("this compact fails")
        keep, verbatim = dice.randrange(4), dice.random() < 0.8
        return Shortened("what was before", keep=keep, verbatim=verbatim)

    def _calls(self, returning: bool) -> list[tuple[str, dict[str, Any]]]:
        dice = self._world.dice
        if dice.random() < 0.05:
            return [("cancel", {})]
        likely: list[tuple[str, dict[str, Any]]] = [
            ("start", {}),
            ("follow_up", {}),
            ("ask_in_background", {}),
            ("ask", {}),
            ("report", {"delivery": "quiet"}),
            ("report", {"delivery": "quiet"}),
            ("report", {"delivery": "wakeup"}),
            ("lent", {}),
        ]
        if returning:
            likely.append(("reply", {"value": "v"}))
        return [dice.choice(likely) for _ in range(dice.choice((1, 1, 2, 3)))]

    def look(self, request: ModelRequest) -> None:
        """What must hold at the instant at which a model is asked."""
        world = self._world
        runtime = world.supervisor._runtime
        activation = runtime.forest.live.get(request.session_id)
        world.need(activation is not None, "1 a request of nobody", request.session_id)
        if activation is None:
            return
        stored = fold(world.store.load(activation.id))
        durable = stored.turn == request.turn and stored.step == request.step
        durable = durable and stored.transcript == list(request.messages)
        world.need(durable, "R-174 a request before its log is durable", activation.id)
        going = all(one.life is Life.LIVE for one in activation.lineage())
        world.need(going, "R-148 a request below who is closing", activation.id)
        going = activation.session.interrupted is None
        world.need(going, "R-135 a request after an interrupt", activation.id)
        opened = activation.session.open is not None
        world.need(opened, "4 a request without a turn", activation.id)

    def _body(self, call: ToolCall) -> Agent:
        """What must hold at the instant at which a tool's body begins."""
        world = self._world
        agent = call.agent
        assert isinstance(agent, Agent)
        session = agent._activation.session
        steps = 0
        for event in reversed(world.store.load(agent.id)):
            if isinstance(event, TurnOpened):
                break
            steps += isinstance(event, (StepEnded, RequestFailed))
        world.need(
            steps == session.step, "R-174 a tool before its log is durable", agent.id
        )
        return agent

    # -- tools -------------------------------------------------------------------------

    async def report(self, delivery: str, call: ToolCall) -> str:
        """Report to the parent."""
        world, agent = self._world, self._body(call)
        text = world.text()
        await world.pause(2)
        stored = world.dice.random() < 0.5
        report = world.supervisor.report_from(
            agent,
            text,
            delivery="quiet" if delivery == "quiet" else "wakeup",
            ack="stored" if stored else "accepted",
        )
        return await world.sent(report, text, stored=stored)

    async def start(self, call: ToolCall) -> str:
        """Start a child that goes on."""
        world, agent = self._world, self._body(call)
        text = world.text()
        start = world.supervisor.start_child(agent, self.goes_on, text)
        return (await world.sent(start, text)).child_id

    async def ask(self, call: ToolCall) -> str:
        """Call a child and wait for its answer."""
        world, agent = self._world, self._body(call)
        text = world.text()
        asked = world.supervisor.call(agent, self.returns, text)
        outcome = await world.sent(asked, text, waits=True)
        known = outcome.status in ("completed", "failed", "cancelled", "stopped")
        world.need(known, "11 an outcome", outcome)
        return outcome.status

    async def ask_in_background(self, call: ToolCall) -> str:
        """Call a child in the background."""
        world, agent = self._world, self._body(call)
        text = world.text()
        asked = world.supervisor.start_call(agent, self.returns, text)
        return (await world.sent(asked, text)).child_id

    async def follow_up(self, call: ToolCall) -> str:
        """Send a child a followup, wherever it is."""
        world, agent = self._world, self._body(call)
        children = [it.session for it in world.headers() if it.parent == agent.id]
        if not children:
            return "there is none"
        text = world.text()
        child = world.dice.choice(children)
        return await world.sent(world.supervisor.followup(agent, child, text), text)

    async def cancel(self, call: ToolCall) -> str:
        """Cancel the calling agent, or its parent."""
        world, agent = self._world, self._body(call)
        target: Agent | str = agent
        if agent.parent_id is not None and world.dice.random() < 0.5:
            target = agent.parent_id
        await world.supervisor.cancel(target, reason="a tool")
        return "nobody reads this"

    def lend(self, setup: ramet.Setup) -> None:
        """A contribution, whose tool must not start once it was revoked (law 17)."""

        async def lent(call: ToolCall) -> str:
            """Do a little."""
            world = self._world
            world.need(not world.revoked, "17 a call of what was revoked")
            self._body(call)
            await world.pause()
            return "done"

        setup.add_tool(lent)


def response(calls: list[tuple[str, dict[str, Any]]]) -> ModelResponse:
    """A response with calls: the names of tools, and their arguments."""
    made = tuple([Call(name, json.dumps(arguments)) for name, arguments in calls])
    return ModelResponse("a step", made, "tool_calls")
