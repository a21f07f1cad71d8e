"""Cuts: a coroutine whose caller is cancelled at one chosen await.

Lives here: the knife.  It runs a coroutine and counts how often its task is suspended;
at one of them it cancels the caller, natively on asyncio or by a cancel scope.  It
knows coroutines and backends, and nothing of ramet.

A caller can be cancelled at two instants of each await: as it *waits*, so that the wait
itself is broken off; and as it *resumes*, when what it waited for has come already.
The second is where an answer is lost, or a cancel is.  Await 0 is before the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Literal, TypeVar

import anyio
import attrs
import outcome

__all__ = ["Cut", "Instant", "Knife", "LostCancelError", "Way", "ways"]

T = TypeVar("T")

Way = Literal["native", "scope"]
Instant = Literal["waits", "resumes"]


class LostCancelError(AssertionError):
    """Raised when a cancel exception went in, and a value came out."""


@attrs.frozen
class Cut:
    """Where to cut: by which means, at which await, and at which instant of it."""

    way: Way
    instant: Instant
    at: int

    def __str__(self) -> str:
        return f"{self.way}, await {self.at}, as it {self.instant}"


def ways(backend: str) -> list[Way]:
    """The means of a backend; trio knows none but scopes."""
    return ["native", "scope"] if backend == "asyncio" else ["scope"]


class Knife:
    """Runs one coroutine, counts its awaits, and cuts it at one of them.

    Args:
        cut: where; `None` only counts.

    Attributes:
        cut: where.
        awaits: how often the caller was suspended.
        used: whether the await of the cut was reached.
        began: whether the coroutine got as far as its first await without a cut.
        cancelled: whether the cancel exception came out.
    """

    def __init__(self, cut: Cut | None = None) -> None:
        self.awaits = 0
        self.used = False
        self.cancelled = False
        self.began = cut is None or cut.at > 0
        self.cut = cut
        self._thrown = False
        self._cancel: Callable[[], object] | None = None

    async def run(self, operation: Coroutine[Any, Any, T]) -> T | None:
        """Run it as the caller; `None` when the caller was cancelled.

        Raises:
            LostCancelError: it swallowed its caller's cancellation.
            and what the operation raises.
        """
        if self.cut is not None and self.cut.way == "native":
            return await self._natively(operation)
        with anyio.CancelScope() as scope:
            self._cancel = scope.cancel
            try:
                return self._whole(await self._watched(operation))
            except anyio.get_cancelled_exc_class():
                self.cancelled = True
                raise
        return None

    async def _natively(self, operation: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.ensure_future(self._begin(operation))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if task.cancelled():
            self.cancelled = True
            return None
        return self._whole(task.result())

    async def _begin(self, operation: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._cancel = task.cancel
        return await self._watched(operation)

    def _whole(self, value: T) -> T:
        if self._thrown:
            raise LostCancelError(f"a cancel exception went in, and {value!r} came out")
        return value

    @coroutine
    def _watched(self, operation: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """The operation, with each suspension looked at from both sides."""
        self._strike_if(0, "waits")
        argument: Any = None
        raised: BaseException | None = None
        while True:
            try:
                if raised is None:
                    trap = operation.send(argument)
                else:
                    trap = operation.throw(raised)
            except StopIteration as stop:
                value: T = stop.value
                return value
            self.awaits += 1
            self._before(trap)
            raised = None
            try:
                argument = yield trap
                if isinstance(argument, outcome.Error):
                    # So trio hands an exception over.
                    self._notice(argument.error)
            except BaseException as error:
                self._notice(error)
                raised = error
            if self.cut is not None and self.cut.way == "scope":
                self._strike_if(self.awaits, "resumes")

    def _notice(self, error: BaseException) -> None:
        if self.used and isinstance(error, anyio.get_cancelled_exc_class()):
            self._thrown = True

    def _before(self, trap: Any) -> None:
        self._strike_if(self.awaits, "waits")
        if self.cut is None or self.cut.way == "scope":
            return
        if self.cut.instant == "resumes" and self.cut.at == self.awaits:
            # The cancellation comes when the answer is there and nobody has taken it.
            self.used = True
            assert self._cancel is not None
            if isinstance(trap, asyncio.Future):
                trap.add_done_callback(self._strike)
            else:
                asyncio.get_running_loop().call_soon(self._cancel)

    def _strike(self, _: object) -> None:
        assert self._cancel is not None
        self._cancel()

    def _strike_if(self, at: int, instant: Instant) -> None:
        cut = self.cut
        if cut is not None and (cut.at, cut.instant) == (at, instant):
            self.used = True
            assert self._cancel is not None
            self._cancel()
