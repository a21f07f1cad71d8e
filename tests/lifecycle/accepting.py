"""An accepting return, disturbed at one of its points.

Lives here: the agents that return, what can disturb them, the points at which it comes:
each suspension of the driver and of the caller, each step of the model and of a tool,
each append from both sides.  What must be true afterwards is in `accepting_judged.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
)
from contextlib import asynccontextmanager
from types import coroutine
from typing import Any

import anyio
import attrs
import trio
from anyio.lowlevel import checkpoint

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Limits,
    MemoryStore,
    ModelError,
    ModelRequest,
    Outcome,
    Policy,
    ToolCall,
)
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.allowance import Account, Allowance
from ramet.mailbox.store import Batch
from tests.lifecycle.stage import OrderObserver
from tests.schedules import Backend

__all__ = ["DISTURBANCES", "RETURNS", "Return", "World"]

_CALL_S = 500.0
_LATER_S = 1_000.0


@attrs.frozen
class Return:
    """An agent that returns: its contract, and what it does on the way.

    Attributes:
        contract: what it returns by.
        value: what it returns in the end.
        steps: the calls of each of its responses; a text is the last message.
        at_reply: what becomes of its live children.
        headless: whether it is a root.
    """

    contract: ramet.Contract[Any]
    value: Any
    steps: tuple[str | tuple[tuple[str, Any], ...], ...]
    at_reply: Any = "cancel"
    headless: bool = False


_NODE = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}

RETURNS = {
    "a reply": Return(ramet.Reply(), {"a": 1}, ((("reply", {"a": 1}),),)),
    "a reply beside work": Return(
        ramet.Reply(), 7, ((("work", None), ("reply", 7), ("work", None)),)
    ),
    "a reply after work": Return(
        ramet.Reply(), 7, ((("work", None),), (("reply", 7),))
    ),
    "a choice at the second try": Return(
        ramet.Choice(["yes", "no"]), "yes", ((("reply", "maybe"),), (("reply", "yes"),))
    ),
    "a schema": Return(ramet.Schema(_NODE), {"a": 1}, ((("reply", {"a": 1}),),)),
    "a text": Return(ramet.Text(), "exactly this", ("exactly this",)),
    "a reply that ends a child": Return(
        ramet.Reply(), 7, ((("delegate", None),), (("reply", 7),))
    ),
    "a reply that waits for a child": Return(
        ramet.Reply(), 7, ((("delegate", None),), (("reply", 7),)), at_reply="wait"
    ),
    "a headless reply": Return(
        ramet.Reply(), 7, ((("work", None),), (("reply", 7),)), headless=True
    ),
}

DISTURBANCES: dict[str, frozenset[tuple[str, str | None]]] = {
    "cancel": frozenset([("cancelled", "cancelled")]),
    "caller": frozenset([("cancelled", "cancelled")]),
    "timeout": frozenset([("stopped", "call-timeout")]),
    "budget": frozenset(
        [("stopped", "request-budget"), ("stopped", "tool-call-budget")]
    ),
    "provider": frozenset([("failed", "provider-error")]),
    "interrupt": frozenset(),
    "commit lost": frozenset([("cancelled", "drain"), ("failed", "crashed")]),
    "answer lost": frozenset([("cancelled", "drain"), ("failed", "crashed")]),
}
"""What disturbs, and as what it may end the assignment, if it comes in time.

A commit is lost when nothing of it is stored, and its answer when all of it is.
"""


class _Store(MemoryStore):
    """A store whose appends are points, and which fails when it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def append(self, batch: Batch) -> None:
        """Store a batch, or fail."""
        world = self._world
        world.point()
        lost, world.failing = world.failing, None
        if lost == "commit lost":
            raise OSError("the disk is full")
        super().append(batch)
        if lost is not None:
            raise OSError("the disk did not answer")
        world.point()


class _Mind:
    """The model of the agent that returns: each of its steps is a point."""

    capabilities = ramet.ModelCapabilities()

    def __init__(self, world: World) -> None:
        self._world = world

    @asynccontextmanager
    async def request(self, request: ModelRequest) -> AsyncIterator[Any]:
        self._world.requests.append(request)
        await self._step()
        yield self._events(request)
        await self._step()

    async def _events(self, request: ModelRequest) -> AsyncIterator[Any]:
        world = self._world
        steps = world.returns.steps
        now = steps[min(world.answered, len(steps) - 1)]
        await self._step()
        usage = ramet.Usage(1, 5, 2)
        if isinstance(now, str):
            yield ramet.TextDelta(now)
            await self._step()
            world.answered += 1
            yield ramet.ResponseEnded("end_turn", usage)
            return
        for place, (name, value) in enumerate(now):
            arguments = {"value": value} if name == "reply" else {}
            yield ramet.CallStarted(place, name)
            await self._step()
            yield ramet.CallDone(place, json.dumps(arguments))
        await self._step()
        world.answered += 1
        yield ramet.ResponseEnded("tool_calls", usage)

    async def _step(self) -> None:
        self._world.point()
        await checkpoint()
        if self._world.broken:
            raise ModelError("the provider fell over")


class World:
    """One run: who returns, and what disturbs it where.

    Args:
        returns: who.
        backend: on which loop.
        disturbance: what; `None` only counts points.
        at: the number of the point.

    Attributes:
        points: how many points there were.
        decided: whether the outcome had been written when the disturbance came; `None`
            when it did not come.
        told: the outcome as the process told it.
    """

    supervisor: ramet.Supervisor
    group: anyio.abc.TaskGroup
    caller: anyio.CancelScope

    def __init__(
        self, returns: Return, backend: Backend, disturbance: str | None, at: int
    ) -> None:
        self.returns = returns
        self.backend: Backend = backend
        self.points = 0
        self.answered = 0
        self.broken = False
        self.failing: str | None = None
        self.decided: bool | None = None
        self.told: Outcome[Any] | None = None
        self.requests: list[ModelRequest] = []
        self.observer = OrderObserver()
        self.store = _Store(self)
        self._disturbance = disturbance
        self._at = at
        self._target: Activation | None = None
        policy = Policy(at_reply=returns.at_reply)
        limits = Limits(call_s=_CALL_S)
        tools: list[Callable[..., Any]] = [self.work, self.delegate]
        self.spec = AgentSpec(
            "returns", model=_Mind(self), tools=tools, policy=policy, limits=limits
        )
        self.below = AgentSpec("below")

    # -- points ------------------------------------------------------------------------

    def point(self) -> None:
        """One more point; at the chosen one the disturbance comes.

        They count from when there is somebody to disturb.
        """
        target = self._target
        if target is None:
            return
        self.points += 1
        if self._disturbance is None or self.points != self._at:
            return
        self.decided = target.session.concluded is not None
        disturb = getattr(self, "_" + self._disturbance.replace(" ", "_"))
        disturb(target)

    def _cancel(self, target: Activation) -> None:
        self.group.start_soon(self._cancelled, target.id)

    async def _cancelled(self, session: str) -> None:
        with contextlib.suppress(ramet.NotResumableError, ramet.DrainingError):
            await self.supervisor.cancel(session)

    def _caller(self, target: Activation) -> None:
        self.caller.cancel()

    def _timeout(self, target: Activation) -> None:
        """Time jumps."""
        if self.supervisor._runtime.backend.name == "trio":
            clock: Any = trio.lowlevel.current_clock()
            clock.jump(_LATER_S)
        else:
            loop: Any = asyncio.get_running_loop()
            loop._virtual.now += _LATER_S

    def _budget(self, target: Activation) -> None:
        """What others spend from a shared limit leaves it no more than it has used."""
        usage = target.session.usage
        limits = Limits(requests=max(1, usage.requests), tool_calls=1)
        allowance = target.allowance
        above = None if allowance is None else allowance.account
        account = Account(limits, "the run", above, tool_calls=usage.tool_calls)
        if allowance is None:
            target.allowance = Allowance(account, target, timed=True)
        else:
            allowance.cover(account)

    def _provider(self, target: Activation) -> None:
        self.broken = True

    def _interrupt(self, target: Activation) -> None:
        self.supervisor.interrupt(target.id)

    def _commit_lost(self, target: Activation) -> None:
        self.failing = "commit lost"

    def _answer_lost(self, target: Activation) -> None:
        self.failing = "answer lost"

    @coroutine
    def watched(self, running: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """A coroutine whose every suspension is a point."""
        argument: Any = None
        raised: BaseException | None = None
        while True:
            try:
                if raised is None:
                    trap = running.send(argument)
                else:
                    trap = running.throw(raised)
            except StopIteration as stop:
                return stop.value
            self.point()
            raised = None
            try:
                argument = yield trap
            except BaseException as error:
                raised = error

    # -- tools and minds ---------------------------------------------------------------

    async def work(self) -> str:
        """Work a little."""
        for _ in range(2):
            self.point()
            await checkpoint()
        return "worked"

    async def delegate(self, call: ToolCall) -> str:
        """Start a child that works on."""
        await self.supervisor.start_child(call.agent, self.below, "go")
        return "started"

    async def _think(self, request: ModelRequest) -> str:
        self.requests.append(request)
        for _ in range(12):
            await checkpoint()
        return "noted"

    # -- the run -----------------------------------------------------------------------

    async def run(self) -> None:
        """Open, let it return, and leave."""
        lead = AgentSpec("lead", model=ramet.FunctionModel(self._think))
        model = ramet.FunctionModel(self._think)
        specs = (lead, self.spec, self.below)
        async with (
            anyio.create_task_group() as self.group,
            ramet.open(self.store, specs=specs, model=model) as supervisor,
        ):
            self.supervisor = supervisor
            supervisor.observe(self.observer)
            self._watch_drivers()
            with anyio.CancelScope() as self.caller:
                if self.returns.headless:
                    await self.watched(self._run_root())
                else:
                    root = await supervisor.start_root(lead, interactive=True)
                    await self.watched(self._call(root))

    def _watch_drivers(self) -> None:
        runtime = self.supervisor._runtime
        spawn = runtime.forest._spawn

        async def drive(activation: Activation) -> None:
            await self.watched(runtime.driver.run(activation))

        def watch(activation: Activation) -> None:
            if activation.name == "returns":
                self._target = activation
                runtime.backend.spawn(drive, activation)
            else:
                spawn(activation)

        runtime.forest._spawn = watch

    async def _call(self, root: Agent) -> None:
        contract = self.returns.contract
        call: Awaitable[Outcome[Any]] = self.supervisor.call(
            root, self.spec, "go", contract=contract
        )
        self.told = await call

    async def _run_root(self) -> None:
        sending = self.supervisor._sending
        contract = self.returns.contract
        root = await sending.start_root(self.spec, interactive=False, contract=contract)
        message = await self.supervisor.tell(root, "go")
        self.told = await self.supervisor.wait(message)
