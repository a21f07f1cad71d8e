"""The whole protocol as one scenario: several hosts do everything at once.

Lives here: what `ramet simulate` runs when it is given nothing else.  Hosts tell,
start, call, follow up, inject, report, interrupt, cancel, resume, wait and drain, as
the dice say, and some are cut off; the agents are those of `protocol_minds.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from ..mailbox.errors import RametError
from ..mailbox.events import TurnOpened
from ..mailbox.message import ASSIGNING
from .fault_plan import Faults
from .handle import Agent
from .held_loops import let_pass
from .protocol_minds import Play, lend
from .simulate_run import Scenario
from .simulate_world import World

__all__ = ["PROTOCOL"]

_HOSTS = (1, 2, 3)
_MOST_ROOTS = 4


async def protocol(world: World) -> None:
    """Everything at once."""
    play = Play(world)
    leave = anyio.CancelScope()
    async with anyio.create_task_group() as outside:
        with leave:
            async with world.open(
                specs=[play.goes_on, play.returns], limits=play.limits
            ):
                await _inside(play, outside, leave)
        outside.cancel_scope.cancel()
    play.check()


async def _inside(play: Play, outside: TaskGroup, leave: anyio.CancelScope) -> None:
    """What happens inside the open block."""
    world, dice = play.world, play.dice
    supervisor = world.supervisor
    revoke = supervisor.register_setup(lend)
    roots = [(await supervisor.start_root(play.goes_on, interactive=True)).id]
    if dice.random() < 0.3:
        root = await supervisor.start_root(play.returns, interactive=False)
        roots.append(root.id)
    if dice.random() < 0.15:
        outside.start_soon(_later, dice.randrange(80), leave.cancel)
    async with anyio.create_task_group() as waiting:
        async with anyio.create_task_group() as hosts:
            for _ in range(dice.choice(_HOSTS)):
                hosts.start_soon(_Host(play, roots, outside, waiting).run)
            hosts.start_soon(_revoke, play, revoke)
            if dice.random() < 0.1:
                hosts.start_soon(_drain, play, dice.randrange(80))
        if dice.random() < 0.75:
            await world.rest()
        waiting.cancel_scope.cancel()


async def _later(count: int, action: Callable[[], None]) -> None:
    await let_pass(count)
    action()


async def _revoke(play: Play, revoke: Callable[[], None]) -> None:
    await play.pause(100)
    revoke()
    play.revoked = True


async def _drain(play: Play, after: int) -> None:
    """Drain everything: from then on nothing is admitted (law 6)."""
    await let_pass(after)
    await _refusable(play.world.supervisor.drain())
    begin = len(play.world.order)
    await let_pass(after)
    late = [it for it in play.world.order[begin:] if isinstance(it.event, TurnOpened)]
    play.world.need(not late, "6 a turn after a drain", late[:1])


async def _refusable(operation: Awaitable[object]) -> None:
    """Await what may be refused."""
    try:
        await operation
    except RametError:
        return


class _Host:
    """One program that embeds the runtime, and its way through its operations."""

    def __init__(
        self, play: Play, roots: list[str], outside: TaskGroup, waiting: TaskGroup
    ) -> None:
        self._play = play
        self._roots = roots
        self._outside = outside
        self._waiting = waiting
        self._handles: dict[str, Agent] = {}
        self._operations: list[Callable[[], Awaitable[None]]] = [
            *[self._tell] * 3,
            *[self._start] * 2,
            self._start_root,
            self._call,
            *[self._follow_up] * 3,
            *[self._inject] * 2,
            *[self._report] * 4,
            *[self._interrupt] * 2,
            self._cancel,
            self._cancel_by_id,
            self._resume,
            self._wait,
            self._drain_below,
        ]

    async def run(self) -> None:
        """Do a few things, and stay calm about refusals."""
        play, dice = self._play, self._play.dice
        for _ in range(dice.randrange(1, 8)):
            await play.pause(dice.choice((1, 6, 6)))
            operation = dice.choice(self._operations)
            if dice.random() < 0.2:
                with anyio.CancelScope() as scope:
                    count = dice.randrange(8)
                    self._outside.start_soon(_later, count, scope.cancel)
                    await _refusable(operation())
            else:
                await _refusable(operation())

    # -- who is there ------------------------------------------------------------------

    def _root(self) -> Agent | None:
        """A handle of a root; it is kept, so that it may be stale."""
        dice = self._play.dice
        root = dice.choice(self._roots)
        agent = self._play.world.supervisor.agent(root)
        if agent is not None and dice.random() < 0.9:
            self._handles[root] = agent
        return self._handles.get(root, agent)

    def _anybody(self) -> Agent | None:
        supervisor = self._play.world.supervisor
        live = list(supervisor._runtime.forest.live)
        return supervisor.agent(self._play.dice.choice(live)) if live else None

    def _family(self) -> tuple[Agent, str] | None:
        """A child that was ever started, and its parent if that is live."""
        world = self._play.world
        children = world.children_of(None)
        if not children:
            return None
        child = self._play.dice.choice(children)
        parent = world.supervisor.agent(world.durable[child].header.parent or "")
        return None if parent is None else (parent, child)

    async def _send(
        self,
        name: str,
        sender: str,
        operation: Callable[[str, str | None], Awaitable[object]],
        *,
        waits: bool = False,
    ) -> None:
        """Send, with a key whose content is the same each time, or something new."""
        play = self._play
        if play.dice.random() < 0.4:
            text = play.text()
            await play.sent(operation(text, None), text, waits=waits)
        else:
            key = play.new_key(name)
            named = sender, key
            sending = operation("with a key", key)
            await play.sent(sending, key=named, waits=waits)

    # -- operations --------------------------------------------------------------------

    async def _tell(self) -> None:
        root, supervisor = self._root(), self._play.world.supervisor
        if root is not None:
            await self._send(
                "tell", "host", lambda text, key: supervisor.tell(root, text, key=key)
            )

    async def _start(self) -> None:
        root, supervisor = self._root(), self._play.world.supervisor
        if root is not None:
            spec = self._play.goes_on
            await self._send(
                "start",
                root.id,
                lambda text, key: supervisor.start_child(root, spec, text, key=key),
            )

    async def _start_root(self) -> None:
        supervisor, play = self._play.world.supervisor, self._play
        if len(self._roots) < _MOST_ROOTS:
            root = await supervisor.start_root(play.goes_on, interactive=True)
            self._roots.append(root.id)
            await self._play.sent(supervisor.tell(root, text := play.text()), text)

    async def _call(self) -> None:
        root, supervisor = self._root(), self._play.world.supervisor
        if root is not None:
            spec = self._play.returns
            await self._send(
                "call",
                root.id,
                lambda text, key: supervisor.call(root, spec, text, key=key),
                waits=True,
            )

    async def _follow_up(self) -> None:
        family, supervisor = self._family(), self._play.world.supervisor
        if family is not None:
            parent, child = family
            await self._send(
                "follow",
                parent.id,
                lambda text, key: supervisor.followup(parent, child, text, key=key),
            )

    async def _inject(self) -> None:
        family = self._family()
        if family is not None:
            text = self._play.text()
            sending = self._play.world.supervisor.inject(*family, text)
            await self._play.sent(sending, text)

    async def _report(self) -> None:
        agent = self._anybody()
        if agent is not None:
            play, dice = self._play, self._play.dice
            text = play.text()
            report = play.world.supervisor.report_from(
                agent,
                text,
                delivery="quiet" if dice.random() < 0.5 else "wakeup",
                ack="stored" if dice.random() < 0.5 else "accepted",
            )
            await play.sent(report, text)

    async def _interrupt(self) -> None:
        agent = self._anybody()
        if agent is not None:
            by = self._root() if self._play.dice.random() < 0.3 else None
            self._play.world.supervisor.interrupt(agent.id, by=by)

    async def _cancel(self) -> None:
        agent, world = self._anybody(), self._play.world
        if agent is None:
            return
        if agent.id not in self._roots or self._play.dice.random() < 0.1:
            await world.supervisor.cancel(agent, reason="a host")
            gone = agent.state == "gone"
            world.need(gone, "14 a cancel returned before the end", agent.id)

    async def _cancel_by_id(self) -> None:
        children = self._play.world.children_of(None)
        if children:
            child = self._play.dice.choice(children)
            supervisor = self._play.world.supervisor
            await supervisor.cancel(child, reason="a host, by id")

    async def _resume(self) -> None:
        sessions = list(self._play.world.durable)
        if sessions:
            session = self._play.dice.choice(sessions)
            try:
                await self._play.world.supervisor.resume(session)
            finally:
                # It may be resident also when the host was cut: then nobody else would.
                self._waiting.start_soon(self._release, session)

    async def _release(self, session: str) -> None:
        await self._play.pause(40)
        agent = self._play.world.supervisor.agent(session)
        if agent is not None:
            agent.release()

    async def _wait(self) -> None:
        accepted = self._play.world.accepted()
        assigned = [it.id for it in accepted if it.source in ASSIGNING]
        if assigned:
            message = self._play.dice.choice(assigned)
            self._waiting.start_soon(self._wait_for, message)

    async def _wait_for(self, message: str) -> None:
        world = self._play.world
        try:
            outcome = await world.supervisor.wait(message)
            again = await world.supervisor.outcome(message)
        except RametError:
            return
        same = again is not None and again.status == outcome.status
        world.need(same, "11 a wait gave another outcome", outcome, again)

    async def _drain_below(self) -> None:
        agent = self._anybody()
        if agent is not None and self._play.dice.random() < 0.2:
            await self._play.world.supervisor.drain(below=agent)


PROTOCOL = Scenario(
    protocol,
    faults=Faults(
        failing_models=0.1, raising_tools=0.1, hanging_tools=0.05, stubborn_tools=0.05
    ),
)
"""Every operation of the runtime, by several hosts at once."""
