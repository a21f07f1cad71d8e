"""The backend port on trio: the nursery of a task group, and bare rescheduling.

This file and its sibling are the only ones that import a backend.  `protected` is here,
since trio alone may raise `KeyboardInterrupt` inside synchronous code.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import trio

__all__ = ["TrioBackend", "in_trio", "protected"]

T = TypeVar("T", bound=Callable[..., Any])


def protected(function: T) -> T:
    """Defer `KeyboardInterrupt` on trio to a checkpoint of the main task.

    So a span is never cut in the middle; the outermost function is enough.  It costs
    nothing on asyncio, which cancels the main task instead.
    """
    return trio.lowlevel.enable_ki_protection(function)


def in_trio() -> bool:
    """Whether the running loop is trio's."""
    return trio.lowlevel.in_trio_run()


class TrioBackend:
    """Starts tasks in the nursery of a task group and waits by rescheduling."""

    name = "trio"

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        nursery: trio.Nursery = group._nursery  # type: ignore[attr-defined]
        # It copies the context in which it is called.
        self._start_soon = partial(nursery.start_soon, name="an agent of ramet")
        self._context = contextvars.copy_context()
        self._token = trio.lowlevel.current_trio_token()
        self._running = 0
        self._fresh: list[tuple[Callable[..., Awaitable[None]], Any]] | None = None
        self._last: Callable[[], None] | None = None

    @property
    def check_cancelled(self) -> Callable[[], Awaitable[None]]:
        """Raises in a task that has been cancelled."""
        return trio.lowlevel.checkpoint_if_cancelled

    @protected
    def spawn(self, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """Start a task in the nursery, in a context of its own."""
        self._running += 1
        if self._fresh is None:
            self._fresh = []
            self._start(function, arguments, first=True)
        else:
            self._fresh.append((function, arguments))

    def _start(
        self,
        function: Callable[..., Awaitable[None]],
        arguments: tuple[Any, ...],
        *,
        first: bool = False,
    ) -> None:
        run: Any = self._run
        self._context.run(self._start_soon, run, function, arguments, first)

    @protected
    async def _run(
        self,
        function: Callable[..., Awaitable[None]],
        arguments: tuple[Any, ...],
        first: bool,
    ) -> None:
        try:
            if first:
                await self._let_others_go_first()
            await function(*arguments)
        finally:
            self._running -= 1
            if self._running == 0 and self._last is not None:
                last, self._last = self._last, None
                last()

    async def _let_others_go_first(self) -> None:
        """Start what was spawned with this task, one step later.

        Trio runs what is ready in any order.  Who waited for the same event that
        started these tasks goes first, so that a turn that never blocks is still open
        when its teller returns (R-263).
        """
        fresh, self._fresh = self._fresh, None
        await trio.lowlevel.cancel_shielded_checkpoint()
        for function, arguments in fresh or ():
            self._start(function, arguments)

    async def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the callback reschedules this task."""
        task = trio.lowlevel.current_task()
        waiting = True

        def fire() -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                trio.lowlevel.reschedule(task)

        def abort(_: Any) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = False
            return trio.lowlevel.Abort.SUCCEEDED

        register(fire)
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def waiter(self, waiters: list[Any]) -> None:
        """Join with the task, which leaves again when it is cancelled."""
        place = [trio.lowlevel.current_task()]
        waiters.append(place)

        def abort(_: Any) -> trio.lowlevel.Abort:
            place.clear()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self, waiters: list[Any]) -> None:
        """Reschedule each task that has not left."""
        for place in waiters:
            if place:
                trio.lowlevel.reschedule(place.pop())

    def shield(self) -> Any:
        """A scope of trio's own; one of anyio's makes two of these."""
        return trio.CancelScope(shield=True)

    def now(self) -> float:
        """The time of the running clock."""
        return trio.current_time()

    async def checkpoint(self) -> None:
        """Yield once."""
        await trio.lowlevel.checkpoint()

    def stray_cancel(self) -> bool:
        """Never: on trio only a cancelled scope makes a cancel exception."""
        return False

    def post(self, callback: Callable[[], None]) -> None:
        """Run a callback in the loop; a run that is over has nobody left to tell."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(callback)

    async def finished(self) -> None:
        """Wait until the last spawned task has returned."""
        while self._running:

            def register(callback: Callable[[], None]) -> None:
                self._last = callback

            await self.wait(register)

    def tasks(self) -> int:
        """How many spawned tasks have not returned."""
        return self._running
