"""The bare limits: actors without any runtime, by hand, on each backend.

Lives here: what the same work costs when nothing is stored, supervised, ordered or
checked.  Nothing here is usable; it only bounds.  A mailbox is a deque, and a task
exists only while there is mail, as with a resident agent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

import trio
import trio.testing
from clock import CLOCK

T = TypeVar("T")

Handler = Callable[[Any], Awaitable[None]]
Tell = Callable[[Any], None]
Work = Callable[[], Coroutine[Any, Any, Any]]


class Promise(Protocol):
    """Something to wait for once."""

    def set_result(self, value: Any) -> None: ...

    def __await__(self) -> Any: ...


class Bare(Protocol):
    """What a workload asks of a bare backend."""

    name: str

    def promise(self) -> Promise: ...

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a task by the backend's own means."""

    async def at_once(self, works: Iterable[Work]) -> None:
        """Run all of them, each in a task of its own, and wait."""

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run a function in the loop, from any thread."""

    async def cancel_blocked(self, count: int) -> float:
        """Start tasks that wait for ever, then cancel each; gives the seconds."""
        raise NotImplementedError


class BareAsyncio:
    """Futures and tasks of asyncio."""

    name = "asyncio"

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def promise(self) -> Promise:
        return self._loop.create_future()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        task = self._loop.create_task(function(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def at_once(self, works: Iterable[Work]) -> None:
        await asyncio.gather(*[self._loop.create_task(work()) for work in works])

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    async def cancel_blocked(self, count: int) -> float:
        async def blocked() -> None:
            await self.promise()

        tasks = [self._loop.create_task(blocked()) for _ in range(count)]
        await asyncio.sleep(0)
        began = CLOCK.now()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return CLOCK.now() - began


class BareTrio:
    """Rescheduling and a nursery of trio."""

    name = "trio"

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()

    def promise(self) -> Promise:
        return _TrioPromise()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._nursery.start_soon(function, *arguments)

    async def at_once(self, works: Iterable[Work]) -> None:
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(work)

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._token.run_sync_soon(function, *arguments)

    async def cancel_blocked(self, count: int) -> float:
        scopes = [trio.CancelScope() for _ in range(count)]

        async def blocked(scope: trio.CancelScope) -> None:
            with scope:
                await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            for scope in scopes:
                nursery.start_soon(blocked, scope)
            await trio.testing.wait_all_tasks_blocked()
            began = CLOCK.now()
            for scope in scopes:
                scope.cancel()
        return CLOCK.now() - began


class _TrioPromise:
    __slots__ = ("_done", "_task", "_value")

    def __init__(self) -> None:
        self._task: Any = None
        self._done = False
        self._value: Any = None

    def set_result(self, value: Any) -> None:
        self._value = value
        self._done = True
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)

    async def _wait(self) -> Any:
        if not self._done:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(
                lambda _: trio.lowlevel.Abort.SUCCEEDED
            )
        return self._value

    def __await__(self) -> Any:
        return self._wait().__await__()


class Mailbox:
    """An actor: a deque, and a task that drains it and ends."""

    __slots__ = ("_bare", "_busy", "_handle", "_mail")

    def __init__(self, bare: Bare, handle: Handler) -> None:
        self._bare = bare
        self._handle = handle
        self._mail: deque[Any] = deque()
        self._busy = False

    def tell(self, message: Any) -> None:
        self._mail.append(message)
        if not self._busy:
            self._busy = True
            self._bare.start(self._run)

    async def _run(self) -> None:
        mail, handle = self._mail, self._handle
        while mail:
            await handle(mail.popleft())
        self._busy = False


def run(backend: str, function: Callable[[Bare], Coroutine[Any, Any, T]]) -> T:
    """Run a function in a new loop of a backend, with the bare backend in it."""
    if backend == "asyncio":

        async def on_asyncio() -> T:
            return await function(BareAsyncio())

        return asyncio.run(on_asyncio())

    async def on_trio() -> T:
        async with trio.open_nursery() as nursery:
            return await function(BareTrio(nursery))

    return trio.run(on_trio)
