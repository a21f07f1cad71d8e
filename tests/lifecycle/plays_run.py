"""How a random play is run: its hosts, its schedule, and its judgement.

Lives here: the run of one play on the shipped runtime under the held scheduler, to rest
and through every law.  Who is meant by a number is decided when the operation begins,
so that any list of operations is a program.  What its agents think is in
`plays_minds.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from ramet import (
    Agent,
    PersistenceUnavailableError,
    RametError,
    SendUnknownError,
    Supervisor,
)
from ramet.lifecycle.held_loops import BackendName, let_pass
from ramet.lifecycle.schedules import PlainStrategy
from ramet.lifecycle.simulate_run import Ran, Replay, Scenario, run_one
from ramet.lifecycle.simulate_world import StoreKind
from ramet.testing import World
from tests.lifecycle.plays import Life, Operation, Play
from tests.lifecycle.plays_minds import HOLD, Minds

__all__ = ["run_play"]

T = TypeVar("T")

_MOST_ROOTS = 3


class _Switches(PlainStrategy):
    """The plain order, but at the switches of the volley that is under way."""

    def __init__(self) -> None:
        self._switches: dict[int, int] = {}
        self._choice = -1

    def begin(self, switches: Sequence[tuple[int, int]]) -> None:
        """A volley begins: its choices are counted from here."""
        self._switches, self._choice = dict(switches), -1

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """The rank that the volley names for this choice."""
        self._choice += 1
        return self._switches.get(self._choice, 0) % len(line)


def run_play(play: Play, backend: BackendName, store: StoreKind = "memory") -> Ran:
    """Run a play once; the same play gives the same run."""
    switches = _Switches()

    async def scenario(world: World) -> None:
        await _Run(play, world, switches).run()

    found = Scenario(scenario, name="play", store=store)
    return run_one(found, backend, Replay(0), strategy=switches, plan=play.plan)


async def _refusable(operation: Awaitable[T]) -> T | None:
    """Await what may be refused."""
    try:
        return await operation
    except RametError:
        return None


class _Run:
    """One run of a play."""

    def __init__(self, play: Play, world: World, switches: _Switches) -> None:
        self._play = play
        self._world = world
        self._switches = switches
        self._minds = Minds(world, play.moods)
        self._texts = 0
        self._refused: list[tuple[str, str]] = []
        self._revocations: list[Callable[[], None]] = []
        self._roots: list[str] = []

    @property
    def _supervisor(self) -> Supervisor:
        return self._world.supervisor

    async def run(self) -> None:
        """All of it."""
        world, play = self._world, self._play
        for number, life in enumerate(play.lives):
            self._revocations = []
            self._minds.begin()
            async with (
                world.open(
                    specs=self._minds.specs,
                    policy=play.policy,
                    limits=play.limits,
                    rest=False,
                ),
                anyio.create_task_group() as waiting,
            ):
                await self._live(life, waiting, first=number == 0)
                waiting.cancel_scope.cancel()
        texts = {text for event in world.accepted() for text in event.content}
        for code, text in self._refused:
            world.need(text not in texts, "7 refused and there", code, text)

    async def _live(self, life: Life, waiting: TaskGroup, *, first: bool) -> None:
        if first:
            await self._grow()
        elif life.resumes:
            for root in self._roots:
                await _refusable(self._supervisor.resume(root))
        for volley in life.volleys:
            self._switches.begin(volley.switches)
            async with anyio.create_task_group() as group:
                for operation in volley.operations:
                    group.start_soon(self._one, operation, waiting)
            self._switches.begin(())
            if volley.rests:
                await self._rest()
        if life.ends == "killed":
            self._world.crash()
        elif life.ends == "rests":
            await self._rest()

    async def _rest(self) -> None:
        """Let everybody pass, and judge that they come to rest."""
        self._minds.let_all_go()
        await self._world.rest()
        self._minds.hold_again()

    async def _grow(self) -> None:
        """Grow the tree from above; then let go of it from below."""
        supervisor = self._supervisor
        await self._start_root()
        above = [self._agent(0)]
        grown: list[tuple[Agent, Agent, str]] = []
        for node in self._play.tree:
            # The last one is the nearest: a chain is the simplest tree.
            parent = above[-1 - node.below % len(above)]
            starting = supervisor.start_child(parent, self._minds.goes_on, HOLD)
            begun = await _refusable(starting)
            agent = None if begun is None else supervisor.agent(begun.child_id)
            if agent is not None:
                above.append(agent)
                grown.append((parent, agent, node.fate))
        kept: set[str] = set()
        for parent, agent, fate in reversed(grown):
            if fate == "live" or agent.id in kept:
                kept.add(parent.id)
            if fate == "parked":
                await _refusable(supervisor.followup(parent, agent.id, "it waits"))
                supervisor.interrupt(agent.id)
            elif fate == "settled":
                self._minds.let_go(agent.id)
            if fate != "live" and agent.id not in kept:
                # Nobody waits for long for one that another keeps from its turn.
                with anyio.move_on_after(1.0):
                    await agent.wait_gone()

    # -- operations --------------------------------------------------------------------

    async def _one(self, operation: Operation, waiting: TaskGroup) -> None:
        await let_pass(operation.after)
        act: Callable[[Operation], Awaitable[None]]
        act = getattr(self, f"_{operation.name}")
        if operation.name == "call":
            waiting.start_soon(_refusable, act(operation))
        else:
            await _refusable(act(operation))

    def _agent(self, whom: int) -> Agent:
        """Somebody who is live, the youngest first."""
        live = list(reversed(self._supervisor._runtime.forest.live))
        agent = self._supervisor.agent(live[whom % len(live)]) if live else None
        if agent is None:
            raise RametError("nobody is live")
        return agent

    def _session(self, whom: int) -> str:
        """A session that was ever stored, the youngest first."""
        sessions = list(reversed(self._world.durable))
        return sessions[whom % len(sessions)]

    def _family(self, whom: int) -> tuple[Agent, str]:
        """A child, wherever it is, and its parent, which must be live."""
        child = self._session(whom)
        parent = self._world.durable[child].header.parent
        agent = None if parent is None else self._supervisor.agent(parent)
        if agent is None:
            raise RametError("its parent is not live")
        return agent, child

    async def _send(
        self,
        operation: Operation,
        sender: str,
        send: Callable[[str, str | None], Awaitable[object]],
        *,
        waits: bool = False,
    ) -> None:
        """Send something new, or the same as ever with a key."""
        if operation.key is not None:
            await self._keyed(operation, sender, send)
            return
        self._texts += 1
        text = f"text {self._texts}"
        try:
            await send(text, None)
        except SendUnknownError:
            raise
        except RametError as error:
            if not (waits and isinstance(error, PersistenceUnavailableError)):
                self._refused.append((error.code, text))
            raise

    async def _keyed(
        self,
        operation: Operation,
        sender: str,
        send: Callable[[str, str | None], Awaitable[object]],
    ) -> None:
        """What is unknown is settled by asking, and by what is stored (R-071)."""
        world, key = self._world, f"{operation.name} {operation.key}"
        try:
            await send("the same", key)
        except SendUnknownError:
            found = await self._supervisor.lookup(sender, key)
            held = [
                it.id for it in world.accepted() if (it.sender, it.key) == (sender, key)
            ]
            same = [found] == held if held else found is None
            world.need(same, "19 lookup", sender, key, found, held)
            raise

    async def _tell(self, operation: Operation) -> None:
        root = self._supervisor.agent(self._roots[operation.whom % len(self._roots)])
        if root is not None:
            await self._send(
                operation,
                "host",
                lambda text, key: self._supervisor.tell(root, text, key=key),
            )

    async def _follow_up(self, operation: Operation) -> None:
        parent, child = self._family(operation.whom)
        await self._send(
            operation,
            parent.id,
            lambda text, key: self._supervisor.followup(parent, child, text, key=key),
        )

    async def _inject(self, operation: Operation) -> None:
        parent, child = self._family(operation.whom)
        await self._send(
            operation,
            parent.id,
            lambda text, key: self._supervisor.inject(parent, child, text, key=key),
        )

    async def _start(self, operation: Operation) -> None:
        parent, spec = self._agent(operation.whom), self._minds.goes_on
        await self._send(
            operation,
            parent.id,
            lambda text, key: self._supervisor.start_child(parent, spec, text, key=key),
        )

    async def _start_root(self, operation: Operation | None = None) -> None:
        if len(self._roots) < _MOST_ROOTS:
            spec = self._minds.goes_on
            root = await self._supervisor.start_root(spec, interactive=True)
            self._roots.append(root.id)

    async def _call(self, operation: Operation) -> None:
        parent, spec = self._agent(operation.whom), self._minds.returns
        await self._send(
            operation,
            parent.id,
            lambda text, key: self._supervisor.call(parent, spec, text, key=key),
            waits=True,
        )

    async def _start_call(self, operation: Operation) -> None:
        parent, spec = self._agent(operation.whom), self._minds.returns
        await self._send(
            operation,
            parent.id,
            lambda text, key: self._supervisor.start_call(parent, spec, text, key=key),
        )

    async def _report(self, operation: Operation) -> None:
        child = self._agent(operation.whom)
        await self._send(
            operation,
            child.id,
            lambda text, key: self._supervisor.report_from(child, text, key=key),
        )

    async def _wake(self, operation: Operation) -> None:
        child = self._agent(operation.whom)
        await self._send(
            operation,
            child.id,
            lambda text, key: self._supervisor.report_from(
                child, text, delivery="wakeup", ack="accepted", key=key
            ),
        )

    async def _interrupt(self, operation: Operation) -> None:
        self._supervisor.interrupt(self._session(operation.whom))

    async def _cancel(self, operation: Operation) -> None:
        await self._supervisor.cancel(self._session(operation.whom))

    async def _cancel_agent(self, operation: Operation) -> None:
        agent = self._agent(operation.whom)
        await self._supervisor.cancel(agent, reason="a host")
        gone = agent.state == "gone"
        self._world.need(gone, "14 a cancel returned before the end", agent.id)

    async def _resume(self, operation: Operation) -> None:
        await self._supervisor.resume(self._session(operation.whom))

    async def _release(self, operation: Operation) -> None:
        self._agent(operation.whom).release()

    async def _drain_below(self, operation: Operation) -> None:
        await self._supervisor.drain(below=self._agent(operation.whom))

    async def _let_go(self, operation: Operation) -> None:
        self._minds.let_go(self._session(operation.whom))

    async def _lend(self, operation: Operation) -> None:
        lending = self._minds.lending()
        undo = self._supervisor.register_setup(lending.set_up)

        def revoke() -> None:
            undo()
            lending.revoked = True

        self._revocations.append(revoke)

    async def _take_back(self, operation: Operation) -> None:
        if self._revocations:
            self._revocations.pop()()
