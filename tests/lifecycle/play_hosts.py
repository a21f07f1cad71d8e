"""The hosts of a random play: programs that embed the runtime, several at a time.

Lives here: what a host does, one operation after the other, each picked by the dice and
some cut off by a cancellation.  What an operation raises by its contract is taken; what
it broke is written down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

import ramet
from ramet import Agent
from ramet.mailbox.message import ASSIGNING
from tests.lifecycle.play_minds import Minds
from tests.lifecycle.play_world import World, steps

__all__ = ["Host", "Waiters"]


class Waiters:
    """The waits for outcomes that are under way.

    `open` are the messages whose outcome somebody waits for.
    """

    def __init__(self, world: World, group: TaskGroup) -> None:
        self._world = world
        self._group = group
        self.open: dict[str, str] = {}

    def add(self, message_id: str, session_id: str) -> None:
        """Begin to wait for an outcome."""
        if message_id not in self.open:
            self.open[message_id] = session_id
            self._group.start_soon(self._wait, message_id)

    async def _wait(self, message_id: str) -> None:
        world = self._world
        try:
            outcome = await world.supervisor.wait(message_id)
            again = await world.supervisor.outcome(message_id)
            same = again is not None and again.status == outcome.status
            world.need(same, "11 a wait gave another outcome", outcome, again)
        except ramet.RametError as error:
            world.counts[f"wait {error.code}"] += 1
        del self.open[message_id]


class Host:
    """One host, and its way through its operations."""

    def __init__(
        self, world: World, minds: Minds, roots: list[str], waiters: Waiters
    ) -> None:
        self._world = world
        self._minds = minds
        self._roots = roots
        self._waiters = waiters
        self._handles: dict[str, Agent] = {}
        self._operations: list[Callable[[], Awaitable[None]]] = [
            *[self._tell] * 3,
            *[self._start] * 2,
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
        world, dice = self._world, self._world.dice
        for _ in range(dice.randrange(4, 14)):
            await world.pause(dice.choice((1, 6, 6)))
            operation = dice.choice(self._operations)
            with anyio.CancelScope() as scope:
                if dice.random() < 0.2:
                    world.group.start_soon(_cut, scope, dice.randrange(8))
                try:
                    await operation()
                except ramet.RametError as error:
                    world.counts[f"host {error.code}"] += 1

    # -- who is there ------------------------------------------------------------------

    def _root(self) -> Agent | None:
        """A handle of a root; it is kept, so that it may be stale."""
        root = self._world.dice.choice(self._roots)
        agent = self._world.supervisor.agent(root)
        if agent is not None and self._world.dice.random() < 0.9:
            self._handles[root] = agent
        return self._handles.get(root, agent)

    def _anybody(self) -> Agent | None:
        live = list(self._world.supervisor._runtime.forest.live)
        return (
            self._world.supervisor.agent(self._world.dice.choice(live))
            if live
            else None
        )

    def _family(self) -> tuple[Agent, str] | None:
        """A child that was ever started, and its parent if that is live."""
        children = self._world.headers()
        if not children:
            return None
        child = self._world.dice.choice(children)
        parent = self._world.supervisor.agent(child.parent or "")
        return None if parent is None else (parent, child.session)

    def _key(self, name: str) -> tuple[str | None, str]:
        """A key and a content: with a key the same each time, else a new one."""
        if self._world.dice.random() < 0.4:
            return None, self._world.text()
        return self._world.new_key(name), "with a key"

    async def _sent(
        self,
        operation: Awaitable[object],
        sender: str,
        key: str | None,
        text: str,
        *,
        waits: bool = False,
    ) -> None:
        named = None if key is None else (sender, key)
        content = text if key is None else None
        await self._world.sent(operation, content, key=named, waits=waits)

    # -- operations --------------------------------------------------------------------

    async def _tell(self) -> None:
        root = self._root()
        if root is not None:
            key, text = self._key("tell")
            tell = self._world.supervisor.tell(root, text, key=key)
            await self._sent(tell, "host", key, text)

    async def _start(self) -> None:
        root = self._root()
        if root is not None:
            key, text = self._key("start")
            spec = self._minds.goes_on
            start = self._world.supervisor.start_child(root, spec, text, key=key)
            await self._sent(start, root.id, key, text)

    async def _call(self) -> None:
        root = self._root()
        if root is not None:
            key, text = self._key("call")
            call = self._world.supervisor.call(root, self._minds.returns, text, key=key)
            await self._sent(call, root.id, key, text, waits=True)

    async def _follow_up(self) -> None:
        family = self._family()
        if family is not None:
            parent, child = family
            key, text = self._key("follow")
            send = self._world.supervisor.followup(parent, child, text, key=key)
            await self._sent(send, parent.id, key, text)

    async def _inject(self) -> None:
        family = self._family()
        if family is not None:
            parent, child = family
            text = self._world.text()
            send = self._world.supervisor.inject(parent, child, text)
            await self._sent(send, parent.id, None, text)

    async def _report(self) -> None:
        agent = self._anybody()
        if agent is not None:
            world, dice = self._world, self._world.dice
            text, stored = world.text(), dice.random() < 0.5
            report = world.supervisor.report_from(
                agent,
                text,
                delivery="quiet" if dice.random() < 0.5 else "wakeup",
                ack="stored" if stored else "accepted",
            )
            await world.sent(report, text, stored=stored)

    async def _interrupt(self) -> None:
        agent = self._anybody()
        if agent is not None:
            by = self._root() if self._world.dice.random() < 0.3 else None
            self._world.supervisor.interrupt(agent.id, by=by)

    async def _cancel(self) -> None:
        agent = self._anybody()
        if agent is None:
            return
        if agent.id not in self._roots or self._world.dice.random() < 0.1:
            await self._world.supervisor.cancel(agent, reason="a host")
            gone = agent.state == "gone"
            self._world.need(gone, "14 a cancel returned before the end", agent.id)

    async def _cancel_by_id(self) -> None:
        children = self._world.headers()
        if children:
            child = self._world.dice.choice(children).session
            await self._world.supervisor.cancel(child, reason="a host, by id")

    async def _resume(self) -> None:
        sessions = [it.session for it in self._world.headers(roots=True)]
        if sessions:
            session = self._world.dice.choice(sessions)
            self._world.resumed.add(session)
            try:
                await self._world.supervisor.resume(session)
            finally:
                # It may be resident also when the host was cut: then nobody else would.
                self._world.group.start_soon(self._release, session)

    async def _release(self, session: str) -> None:
        await self._world.pause(40)
        agent = self._world.supervisor.agent(session)
        if agent is not None:
            agent.release()

    async def _wait(self) -> None:
        accepted = self._world.accepted().values()
        assigned = [it.id for it in accepted if it.source in ASSIGNING]
        if assigned:
            message = self._world.dice.choice(assigned)
            self._waiters.add(message, self._world.store.place(message) or "")

    async def _drain_below(self) -> None:
        agent = self._anybody()
        if agent is not None and self._world.dice.random() < 0.2:
            await self._world.supervisor.drain(below=agent)


async def _cut(scope: anyio.CancelScope, count: int) -> None:
    await steps(count)
    scope.cancel()
