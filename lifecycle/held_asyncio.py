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
from operator import attrgetter
from typing import Any

import anyio

from .held import Held, StuckError

__all__ = ["run_asyncio"]


class _VirtualSelector(selectors.SelectSelector):
    """Never waits: where nothing is ready, time jumps by what it was to wait."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.now = 0.0
        self.failed: StuckError | None = None
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
        """What is ready at once.

        Raises:
            StuckError: the run is broken off; what a callback raises ends no loop.
        """
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed
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
    """A task's step that is due.  The loop's own queue never holds it."""

    __slots__ = ("args", "callback", "context", "due", "number")

    def __init__(
        self,
        due: list[_Step],
        number: int,
        context: contextvars.Context,
        callback: Callable[..., object],
        args: Sequence[Any],
    ) -> None:
        self.due = due
        self.number = number
        self.context = context
        self.callback = callback
        self.args = args

    def cancel(self) -> None:
        """Take it back."""
        self.due[:] = [one for one in self.due if one is not self]

    def cancelled(self) -> bool:
        """Whether it is due no more."""
        return self not in self.due

    def get_context(self) -> contextvars.Context:
        """In which context it runs."""
        return self.context

    def __repr__(self) -> str:
        return f"<step of task {self.number}>"


_STEP = attrgetter("number")


class _HeldLoop(asyncio.SelectorEventLoop):
    """A loop with virtual time whose schedule chooses which task's step runs next.

    A step that is due is kept aside, and a place for it is queued; when a place comes
    up, it takes one of the steps kept.  Callbacks that are no steps keep their order,
    which asyncio promises.
    """

    def __init__(self, held: Held) -> None:
        self._virtual = _VirtualSelector(held)
        self._held = held
        self._due: list[_Step] = []
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
        number = self._held.numbers[task]
        step = _Step(self._due, number, context, callback, args)
        self._due.append(step)
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
        if not due:
            return
        try:
            index = self._held.choose([*map(_STEP, due)])
        except StuckError as error:
            self._virtual.failed = error
            # What is cancelled then needs its steps.
            super().call_soon(self._take_step, context=self._places)
            return
        step = due.pop(index)
        step.context.run(step.callback, *step.args)


def run_asyncio(function: Callable[[], Awaitable[None]], held: Held) -> None:
    """Run a function to its end on a loop that asks who goes next."""
    options = {"loop_factory": lambda: _HeldLoop(held)}
    anyio.run(function, backend="asyncio", backend_options=options)
