"""The minds of the whole-protocol scenario: what its agents think, and their tools.

Lives here: agents that start children, call them, report, follow up, cancel, fail and
return, each as the dice say.  The hosts that use them are in `protocol.py`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Awaitable
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.compaction import Compaction, Shortened
from ..actors.contributions import Setup
from ..actors.errors import ContextOverflowError
from ..actors.model import ModelRequest, ModelResponse
from ..actors.model_function import FunctionModel
from ..actors.policy import Policy
from ..actors.tool import Tool, ToolCall, as_tool
from ..mailbox.errors import (
    PersistenceUnavailableError,
    RametError,
    SendUnknownError,
)
from ..mailbox.message import Call
from .handle import Agent
from .held_loops import let_pass
from .simulate_world import World

__all__ = ["Play", "specs_of"]

T = TypeVar("T")

_PLAY: ContextVar[Play] = ContextVar("ramet_play")


class Play:
    """What hosts and minds of one run share.

    Args:
        world: of the run.

    Attributes:
        goes_on: the spec of agents that converse; `returns`: of those that return.
        counts: how sends ended, by code.
        refused: the code and the content of each send that was refused.
        limits: of the run.
        revoked: whether what was lent to agents was taken back.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.dice: random.Random = world.dice
        self.policy: Policy = _policy(self)
        self.limits: Limits | None = _limits(self.dice)
        self.goes_on: AgentSpec
        self.returns: AgentSpec
        self.goes_on, self.returns = specs_of(self.policy, _limits(self.dice))
        self._running = 0
        self.calls_left: int = self.dice.choice((3, 10, 30))
        self.counts: Counter[str] = Counter()
        self.refused: list[tuple[str, str]] = []
        self.revoked: bool = False
        self._texts = 0
        _PLAY.set(self)

    def text(self) -> str:
        """A text that occurs once."""
        self._texts += 1
        return f"text {self._texts}"

    def new_key(self, name: str) -> str:
        """A key that is new now and then, so that several come upon it at once."""
        return f"{name} {self._texts // 6}"

    def runs(self, change: int) -> None:
        """A mind begins to think, or has thought."""
        self._running += change
        most = None if self.limits is None else self.limits.concurrency
        within = most is None or self._running <= most
        self.world.need(within, "A-144 more run than may", self._running, most)

    async def pause(self, most: int = 4) -> None:
        """Let others go on for a few steps."""
        await let_pass(self.dice.randrange(most))

    async def sent(
        self,
        operation: Awaitable[T],
        content: str | None = None,
        *,
        key: tuple[str, str] | None = None,
        waits: bool = False,
    ) -> T:
        """Await a send and look at how it ended.

        Args:
            operation: the send.
            content: what is sent, if nothing else has the same content.
            key: the sender and its key, if it has one.
            waits: whether it goes on to wait for an outcome once it has sent, so that a
                store that fails meanwhile says nothing of the send.
        """
        world = self.world
        try:
            result = await operation
        except SendUnknownError as error:
            self.counts["SEND_UNKNOWN"] += 1
            world.need(bool(error.key), "R-070 what is unknown has no key")
            if key is not None:
                world.need(error.key == key[1], "R-070 another key", error.key, key)
                await self._look_up(*key)
            raise
        except RametError as error:
            self.counts[error.code] += 1
            unknown = waits and isinstance(error, PersistenceUnavailableError)
            if content is not None and not unknown:
                self.refused.append((error.code, content))
            raise
        return result

    async def _look_up(self, sender: str, key: str) -> None:
        """What is unknown is settled by asking, and by what is stored (R-071)."""
        world = self.world
        found = await world.supervisor.lookup(sender, key)
        held = [e.id for e in world.accepted() if (e.sender, e.key) == (sender, key)]
        same = found == held[0] if held else found is None
        world.need(same, "19 lookup", sender, key, found, held)

    def check(self) -> None:
        """A send that was refused left nothing (law 7)."""
        texts = {text for event in self.world.accepted() for text in event.content}
        for code, content in self.refused:
            self.world.need(content not in texts, "7 refused and there", code, content)


def _policy(play: Play) -> Policy:
    dice = play.dice
    notices = "auto" if dice.random() < 0.7 else dice.choice(("wakeup", "quiet", "off"))
    return Policy(
        claim="all" if dice.random() < 0.25 else "one",
        at_reply=dice.choice(("cancel", "wait")),
        max_depth=dice.choice((3, 4, 6)),
        notices=notices,  # type: ignore[arg-type]
        compact=_compact,
        wake_budget=None if dice.random() < 0.8 else dice.choice((0, 1, 2)),
    )


def _limits(dice: random.Random) -> Limits | None:
    """Limits that are felt, in some runs."""
    some = dice.random() < 0.25
    limits = Limits(
        concurrency=dice.choice((None, 1, 2)),
        agents=dice.choice((None, None, 1, 4)),
        tool_calls=dice.choice((None, 2, 10)),
        requests=dice.choice((None, 2, 5)),
        call_s=dice.choice((None, 1000.0)),
        start_deadline_s=dice.choice((None, 2000.0)),
    )
    return limits if some and limits.bounded else None


async def _think(request: ModelRequest) -> str | ModelResponse:
    """Answer, call a few tools, return a value, fail, or find it too long."""
    play = _PLAY.get()
    dice = play.dice
    play.runs(1)
    try:
        await play.pause()
    finally:
        play.runs(-1)
    returning = request.name == "returns"
    chance = dice.random()
    if play.calls_left <= 0 or chance < 0.35:
        if returning and dice.random() < 0.8:
            return _response([_reply(dice)])
        return "done"
    if chance < 0.4:
        raise ValueError("this mind fails")
    if chance < 0.45 and len(request.messages) > 2:
        raise ContextOverflowError("too long for this mind")
    play.calls_left -= 1
    return _response(_calls(play, returning))


async def _compact(compaction: Compaction) -> Shortened | None:
    """Shorten what a mind found too long, or not."""
    play = _PLAY.get()
    dice = play.dice
    await play.pause(3)
    chance = dice.random()
    if chance < 0.1:
        return None
    if chance < 0.2:
        raise ValueError("this compact fails")
    keep, verbatim = dice.randrange(4), dice.random() < 0.8
    return Shortened("what was before", keep=keep, verbatim=verbatim)


def _calls(play: Play, returning: bool) -> list[tuple[str, dict[str, Any]]]:
    dice = play.dice
    if dice.random() < 0.05:
        return [("cancel", {})]
    likely: list[tuple[str, dict[str, Any]]] = [
        ("start", {}),
        ("follow_up", {}),
        ("ask_in_background", {}),
        ("ask", {}),
        ("report_so_far", {"delivery": "quiet"}),
        ("report_so_far", {"delivery": "quiet"}),
        ("report_so_far", {"delivery": "wakeup"}),
        ("lent", {}),
    ]
    if returning:
        likely += [_reply(dice), _reply(dice)]
    return [dice.choice(likely) for _ in range(dice.choice((1, 1, 2, 3, 8)))]


def _reply(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """Mostly the same value: another one is a conflict."""
    return "reply", {"value": "v" if dice.random() < 0.8 else "w"}


def _response(calls: list[tuple[str, dict[str, Any]]]) -> ModelResponse:
    made = tuple([Call(name, json.dumps(arguments)) for name, arguments in calls])
    return ModelResponse("a step", made, "tool_calls")


# -- tools -----------------------------------------------------------------------------


async def report_so_far(delivery: str, call: ToolCall) -> str:
    """Report to the parent."""
    play, agent = _PLAY.get(), _caller(call)
    text = play.text()
    await play.pause(2)
    report = play.world.supervisor.report_from(
        agent,
        text,
        delivery="quiet" if delivery == "quiet" else "wakeup",
        ack="stored" if play.dice.random() < 0.5 else "accepted",
    )
    return await play.sent(report, text)


async def start(call: ToolCall) -> str:
    """Start a child that goes on."""
    play, agent = _PLAY.get(), _caller(call)
    text = play.text()
    begun = play.world.supervisor.start_child(agent, play.goes_on, text)
    return (await play.sent(begun, text)).child_id


async def ask(call: ToolCall) -> str:
    """Call a child and wait for its answer."""
    play, agent = _PLAY.get(), _caller(call)
    text = play.text()
    asked = play.world.supervisor.call(agent, play.returns, text)
    outcome = await play.sent(asked, text, waits=True)
    known = outcome.status in ("completed", "failed", "cancelled", "stopped")
    play.world.need(known, "11 an outcome", outcome)
    return outcome.status


async def ask_in_background(call: ToolCall) -> str:
    """Call a child in the background."""
    play, agent = _PLAY.get(), _caller(call)
    text = play.text()
    asked = play.world.supervisor.start_call(agent, play.returns, text)
    return (await play.sent(asked, text)).child_id


async def follow_up(call: ToolCall) -> str:
    """Send a child a followup, wherever it is."""
    play, agent = _PLAY.get(), _caller(call)
    children = play.world.children_of(agent.id)
    if not children:
        return "there is none"
    text = play.text()
    child = play.dice.choice(children)
    return await play.sent(play.world.supervisor.followup(agent, child, text), text)


async def cancel(call: ToolCall) -> str:
    """Cancel the calling agent, or its parent."""
    play, agent = _PLAY.get(), _caller(call)
    target: Agent | str = agent
    if agent.parent_id is not None and play.dice.random() < 0.5:
        target = agent.parent_id
    await play.world.supervisor.cancel(target, reason="a tool")
    return "nobody reads this"


async def lent(call: ToolCall) -> str:
    """Do a little."""
    play = _PLAY.get()
    play.world.need(not play.revoked, "17 a call of what was revoked", call.key)
    await play.pause()
    return "done"


def lend(setup: Setup) -> None:
    """A contribution whose tool must not start once it was revoked (law 17)."""
    setup.add_tool(_lent())


def _caller(call: ToolCall) -> Agent:
    agent = call.agent
    assert isinstance(agent, Agent)
    return agent


@cache
def _tools() -> tuple[Tool, ...]:
    functions = (report_so_far, start, follow_up, cancel, ask, ask_in_background)
    return tuple([as_tool(function) for function in functions])


@cache
def _lent() -> Tool:
    return as_tool(lent)


@cache
def _model() -> FunctionModel:
    return FunctionModel(_think)


def specs_of(policy: Policy, limits: Limits | None) -> tuple[AgentSpec, AgentSpec]:
    """The two specs: one that goes on, and one that returns."""
    tools, model = _tools(), _model()
    return (
        AgentSpec("goes_on", tools=tools, model=model, policy=policy, limits=limits),
        AgentSpec("returns", tools=tools, model=model, policy=policy, limits=limits),
    )
