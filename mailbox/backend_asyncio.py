"""The backend port on asyncio: native tasks and futures.

This file and its sibling are the only ones that import a backend.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

__all__ = ["AsyncioBackend"]


# Cancel scopes are anyio's.  By its public name it looks for its own backend each time,
# which takes longer than the question, and every send asks it.
_check_cancelled: Callable[[], Awaitable[None]]
try:
    from anyio._backends._asyncio import AsyncIOBackend

    _check_cancelled = AsyncIOBackend.checkpoint_if_cancelled
except (ImportError, AttributeError):  # pragma: no cover
    _check_cancelled = anyio.lowlevel.checkpoint_if_cancelled


class AsyncioBackend:
    """Starts native tasks and waits on bare futures."""

    name = "asyncio"

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def check_cancelled(self) -> Callable[[], Awaitable[None]]:
        """Raises in a task that has been cancelled."""
        return _check_cancelled

    def spawn(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a native task; the set keeps it alive until it is done."""
        coroutine: Any = function(*arguments)
        task = self._loop.create_task(coroutine, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # What comes out of a task has come out of the loop too: it is no news.
            task.exception()

    async def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait on one future."""
        future: asyncio.Future[None] = self._loop.create_future()

        def fire() -> None:
            if not future.done():
                future.set_result(None)

        register(fire)
        await future

    def waiter(self, waiters: list[Any]) -> Awaitable[None]:
        """Join with a future."""
        future: asyncio.Future[None] = self._loop.create_future()
        waiters.append(future)
        return future

    def wake(self, waiters: list[Any]) -> None:
        """Settle each future that was not cancelled."""
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def shield(self) -> Any:
        """A scope of anyio: asyncio has none."""
        return anyio.CancelScope(shield=True)

    def now(self) -> float:
        """The time of the loop; anyio tells it in tasks only."""
        return self._loop.time()

    async def checkpoint(self) -> None:
        """Yield once; cancel scopes of anyio act through native cancellation."""
        await asyncio.sleep(0)

    def stray_cancel(self) -> bool:
        """Whether nobody asked the running task to be cancelled."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    def post(self, callback: Callable[[], None]) -> None:
        """Run a callback in the loop; a loop that is closed has nobody left to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    async def finished(self) -> None:
        """Wait for the native tasks, which no task group holds."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def tasks(self) -> int:
        """How many spawned tasks have not returned."""
        return len(self._tasks)
