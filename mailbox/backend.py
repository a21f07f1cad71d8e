"""The backend port: the few things that anyio does too slowly for a runtime.

Starting a task and waiting once cost several times as much through anyio as by the
backend's own means, and a runtime does both for every turn.  Obligations:

* `spawn` starts a task of its own, in a copy of the context in which the backend was
  made, and never raises for what the task does; the function given catches everything.
* `wait` calls `register` once, at once, with a plain callback, and returns when that
  was called.  The callback may be called at any later time, once or more often, also
  when the waiter was cancelled.  `wait` is a checkpoint and can be cancelled.
* `waiter` puts something to wait for into a list, and `wake` ends the waits of a list:
  the same for many at once, without a callback for each.  What `waiter` gives must be
  awaited at once.
* `shield` gives a cancel scope with a shield, as anyio's: it is entered once, and has
  `cancel`, `cancel_called` and a `deadline` by the backend's clock.
* `now` is the time of the backend's clock in seconds, also in a callback of the loop
  that belongs to no task.
* `checkpoint` lets every other task that is ready run once.
* `check_cancelled` raises when the running task has been cancelled, else it goes on
  without letting anybody run; it knows the cancel scopes of anyio.
* `post` may be called from any thread; the callback runs in the loop.  After the
  loop has ended it does nothing.
* `finished` waits until every task that was spawned has returned.

Everything else goes through anyio.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio

__all__ = ["Backend", "current_backend"]


class Backend(Protocol):
    """What the runtime asks of asyncio or trio."""

    name: str

    def spawn(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a task."""
        ...

    async def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the registered callback is called."""
        ...

    def waiter(self, waiters: list[Any]) -> Awaitable[None]:
        """Join the waiters of a list; what it gives is awaited at once."""
        ...

    def wake(self, waiters: list[Any]) -> None:
        """End the waits of those who joined, and are not cancelled."""
        ...

    def shield(self) -> Any:
        """A cancel scope that no outer scope cancels."""
        ...

    def now(self) -> float:
        """The time of the backend's clock, in seconds."""
        ...

    @property
    def check_cancelled(self) -> Callable[[], Awaitable[None]]:
        """Raises in a task that has been cancelled; a function without arguments."""
        ...

    async def checkpoint(self) -> None:
        """Let the other tasks run, and notice a cancellation."""

    def stray_cancel(self) -> bool:
        """Whether the cancel exception that just came out is nobody's cancel.

        On asyncio a task that awaits a cancelled future gets the same exception as one
        that is cancelled itself.
        """
        ...

    def post(self, callback: Callable[[], None]) -> None:
        """Run a callback in the loop, from any thread."""
        ...

    async def finished(self) -> None:
        """Wait until no spawned task is left."""
        ...

    def tasks(self) -> int:
        """How many spawned tasks have not returned."""
        ...


def current_backend(group: anyio.abc.TaskGroup) -> Backend:
    """The backend of the running loop; tasks of trio go into `group`."""
    if "trio" in sys.modules:
        from .backend_trio import TrioBackend, in_trio

        if in_trio():
            return TrioBackend(group)
    from .backend_asyncio import AsyncioBackend

    return AsyncioBackend()
