"""The loop of asyncio with a schedule in the place of chance.

Lives here: what lets a schedule choose each step of a run on asyncio, and virtual time
there: it stands still while anybody can run, and then jumps to the next deadline.  It
stands on public methods of a loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import anyio

from .held import Held

__all__ = ["run_asyncio"]


class _VirtualSelector(selectors.SelectSelector):
    """Never waits: where nothing is ready, time jumps by what it was to wait."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.now = 0.0
        self._held = held
        self._files = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        """Count what is looked at: the first is the loop's own."""
        self._files += 1
        return super().register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> Any:
        """Count it out."""
        self._files -= 1
        return super().unregister(fileobj)

    def select(self, timeout: float | None = None) -> Any:
        """What is ready at once."""
        if timeout == 0:
            return super().select(0) if self._files > 1 else []
        if self._held.pass_on():
            return []
        ready = super().select(0)
        if not ready:
            if timeout is None:
                self._held.idle()
            else:
                self.now += timeout
        return ready


class _Step(asyncio.Handle):
    """A task's step that is due."""

    __slots__ = ("_due",)

    def __init__(
        self,
        due: list[_Due],
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: _HeldLoop,
        context: contextvars.Context,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._due = due

    def cancel(self) -> None:
        """Take it back."""
        super().cancel()
        self._due[:] = [one for one in self._due if one[1] is not self]


_Due: TypeAlias = "tuple[int, _Step, contextvars.Context, Callable[..., object], Any]"
"""A step that is due: the number of its task, and how it is called."""


class _HeldLoop(asyncio.SelectorEventLoop):
    """A loop with virtual time whose schedule chooses which task's step runs next.

    A step that is due is kept aside, and a place for it is queued; when a place comes
    up, it takes one of the steps kept.  Callbacks that are no steps keep their order,
    which asyncio promises.
    """

    def __init__(self, held: Held) -> None:
        self._virtual = _VirtualSelector(held)
        self._held = held
        self._due: list[_Due] = []
        self._places = contextvars.Context()
        held.now, held.event = self.time, asyncio.Event
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual.now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Queue a callback, or keep a task's step aside for its turn."""
        task = getattr(callback, "__self__", None)
        if not isinstance(task, asyncio.Task):
            return super().call_soon(callback, *args, context=context)
        if context is None:
            context = contextvars.copy_context()
        step = _Step(self._due, callback, args, self, context)
        self._due.append((self._held.numbers[task], step, context, callback, args))
        super().call_soon(self._take_step, context=self._places)
        return step

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> Any:
        """Call it as one step of the loop; no thread is started."""
        future = self.create_future()

        def call() -> None:
            try:
                future.set_result(func(*args))
            except BaseException as error:
                future.set_exception(error)

        self.call_soon(call)
        return future

    def _take_step(self) -> None:
        due = self._due
        if len(due) > 1:
            index = self._held.choose([one[0] for one in due])
            _, _, context, callback, args = due.pop(index)
        elif due:
            number, _, context, callback, args = due.pop()
            self._held.choose((number,))
        else:
            return
        context.run(callback, *args)


def run_asyncio(function: Callable[[], Awaitable[None]], held: Held) -> None:
    """Run a function to its end on a loop that asks who goes next."""
    options = {"loop_factory": lambda: _HeldLoop(held)}
    anyio.run(function, backend="asyncio", backend_options=options)
