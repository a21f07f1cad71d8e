"""A scene: what stands around one coroutine whose caller is cut off.

Lives here: the agents of a scene and their minds, the one cut in it, and the looks at
rest and at the end that every scene gets.  What is done in each is in `scenes_*.py`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import attrs
from anyio.lowlevel import checkpoint

import ramet
from ramet import Agent, AgentSpec, Call, ModelRequest, ModelResponse, Supervisor
from ramet.lifecycle.simulate_checks import check_left, check_resting
from ramet.mailbox.events import TurnEnded
from ramet.mailbox.session import fold
from ramet.testing import Gate
from tests.lifecycle.cuts import Knife
from tests.lifecycle.scripts import BOSS
from tests.lifecycle.stage import DIGGER, LEAD, ORACLE, SCOUT, Stage

__all__ = ["HELD", "SCENES", "SPECS", "STUBBORN", "Scenario", "Scene", "scene"]

T = TypeVar("T")

HELD = AgentSpec("held")
"""Thinks until the scene opens its gate."""

STUBBORN = AgentSpec("stubborn")
"""Thinks as long, and takes no cancellation before."""

SPECS = (LEAD, SCOUT, DIGGER, ORACLE, HELD, STUBBORN, BOSS)

_MOST_PASSES = 10_000


class Scene:
    """One run of a scenario on a stage.

    Args:
        stage: the store; its laws are checked by whoever made it.
        knife: what runs the coroutine that the scene is about.

    Attributes:
        gate: what minds hang on that are held.
        resumed: the sessions that the scene made resident by itself.
    """

    supervisor: Supervisor

    def __init__(self, stage: Stage, knife: Knife) -> None:
        self.stage = stage
        self.knife = knife
        self.gate = Gate()
        self.resumed: set[str] = set()
        self.model = ramet.FunctionModel(self._think)
        self._cuts = 0

    async def cut(self, operation: Coroutine[Any, Any, T]) -> T | None:
        """Run the coroutine under the knife, once in a scene; `None`: it was cut."""
        self._cuts += 1
        assert self._cuts == 1, "a scene has one cut"
        return await self.knife.run(operation)

    async def _think(self, request: ModelRequest) -> str | ModelResponse:
        self.stage.requests.append(request)
        await checkpoint()
        if request.name == "held":
            await self.gate.passed()
        elif request.name == "stubborn":
            with anyio.CancelScope(shield=True):
                await self.gate.passed()
        offered = {tool.name for tool in request.tools}
        if "reply" in offered:
            return _calls("reply", value=1)
        fresh = isinstance(request.messages[-1], ramet.UserMessage)
        if request.name == "scout" and "report" in offered and fresh:
            return _calls("report", output="found it")
        return "done"

    # -- from opening to end -----------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Supervisor]:
        """Open the stage; at the end everything must be at rest, and then gone."""
        async with self.stage.open(self.model, specs=SPECS) as supervisor:
            self.supervisor = supervisor
            yield supervisor
            self.gate.open()
            await self.rest()
            await self.look_at_rest()
        self.look_at_end()

    async def rest(self) -> None:
        """Wait until nobody has anything left to do."""
        runtime = self.supervisor._runtime
        for _ in range(_MOST_PASSES):
            before = runtime.gate.ticket, list(runtime.forest.live)
            for session in before[1]:
                agent = self.supervisor.agent(session)
                if agent is not None:
                    await agent.wait_idle()
            await runtime.quiet()
            await checkpoint()
            after = runtime.gate.ticket, list(runtime.forest.live)
            busy = runtime.calls.count or runtime.backend.tasks()
            if before == after and not busy:
                return
        raise AssertionError("it does not come to rest")

    async def look_at_rest(self) -> None:
        """Nothing is under way, and nobody waits for anything."""
        runtime = self.supervisor._runtime
        reader = self.stage.reader()
        try:
            live = list(runtime.forest.live)
            logs = {name: reader.load(name) for name in live}
        finally:
            reader.close()
        durable = {name: fold(events) for name, events in logs.items()}
        statuses = {
            name: event.status
            for name, events in logs.items()
            for event in events
            if isinstance(event, TurnEnded)
        }
        broken = check_resting(self.supervisor, durable, statuses, self.resumed)
        assert not broken, broken
        left = {
            "loads": self.supervisor._residency._resuming,
            "watches": runtime.stage._watching,
            "waits": runtime.waits.count,
            "asked keys": len(runtime.forest.keys),
            "drains": [it for it in runtime.forest.below if it.gone],
            "claims": set(runtime.gate.epochs) - set(runtime.forest.live),
        }
        assert not any(left.values()), left

    def look_at_end(self) -> None:
        """Nothing is left of the supervisor (R-117)."""
        broken = check_left(self.supervisor, planned=False)
        assert not broken, broken

    # -- what scenes have in common ----------------------------------------------------

    async def root(self, spec: AgentSpec = LEAD) -> Agent:
        """A root that converses."""
        return await self.supervisor.start_root(spec, interactive=True)

    async def settled(self, root: Agent, spec: AgentSpec = DIGGER) -> str:
        """A child that has answered once, and is not resident any more."""
        started = await self.supervisor.start_child(root, spec, "first")
        await self.supervisor.wait(started.message_id)
        child = self.supervisor.agent(started.child_id)
        if child is not None:
            await child.wait_gone()
        await root.wait_idle()
        return started.child_id

    async def held(self, parent: Agent, spec: AgentSpec = HELD) -> Agent:
        """A child in the middle of its turn."""
        arrived = self.gate.arrivals
        started = await self.supervisor.start_child(parent, spec, "think")
        await self.gate.reached(arrived + 1)
        agent = self.supervisor.agent(started.child_id)
        assert agent is not None
        return agent

    async def soon(self, action: Callable[[], object]) -> None:
        """Do something when others have gone on for a while."""
        for _ in range(8):
            await checkpoint()
        action()


Act = Callable[[Scene, Supervisor], Awaitable[None]]


@attrs.frozen
class Scenario:
    """What is done in a scene, and of which coroutines of the face it is about."""

    name: str
    about: tuple[str, ...]
    act: Callable[..., Awaitable[None]]
    opened: bool
    stored: bool

    async def play(self, stage: Stage, knife: Knife) -> None:
        """Play it once, and look at what is left."""
        scene = Scene(stage, knife)
        if self.opened:
            async with scene.open() as supervisor:
                await self.act(scene, supervisor)
        else:
            await self.act(scene)


SCENES: dict[str, Scenario] = {}


def scene(
    *about: str, opened: bool = True, stored: bool = True
) -> Callable[[Any], Any]:
    """Makes a scenario of an async function; its name is the function's.

    Args:
        about: coroutines of the face, by their names in `tests/face.py`.
        opened: whether it is given a supervisor that is open.
        stored: whether it uses the store of the stage.
    """

    def register(act: Any) -> Any:
        name = act.__name__.replace("_", " ")
        assert name not in SCENES
        SCENES[name] = Scenario(name, about, act, opened, stored)
        return act

    return register


def _calls(name: str, **arguments: Any) -> ModelResponse:
    call = Call(name, json.dumps(arguments))
    return ModelResponse("", (call,), "tool_calls", ramet.Usage(1, 5, 2))
