"""Held loops: asyncio and trio with a schedule in the place of chance.

Lives here: running a function to its end on a held loop of either backend.  What would
run in a worker thread runs in the loop's own.  It knows nothing of agents.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import trio

from .held import Held, HookLostError, StuckError
from .held_asyncio import run_asyncio
from .held_trio import run_trio
from .schedules import Schedule

__all__ = ["BackendName", "in_silence", "let_pass", "run_held"]

BackendName = Literal["asyncio", "trio"]

T = TypeVar("T")

_DROPS = 3

_RUN: dict[BackendName, Callable[[Callable[[], Awaitable[None]], Held], None]] = {
    "asyncio": run_asyncio,
    "trio": run_trio,
}


@contextmanager
def in_silence() -> Iterator[None]:
    """A block at whose end what is left of a run that was broken off is dropped.

    Its coroutines cannot end in order any more, and would complain of it later.
    """
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
        # What fails as it is dropped keeps others for one more time.
        for _ in range(_DROPS):
            gc.collect()
    finally:
        sys.unraisablehook = hook


_HELD: ContextVar[Held] = ContextVar("ramet_held")


async def let_pass(count: int) -> None:
    """Let others take this many steps, or as many as they can, in a held run."""
    if count == 1:
        await anyio.lowlevel.checkpoint()
    elif count > 1:
        held = _HELD.get()
        passed = held.event()
        held.after(count, passed.set)
        await passed.wait()


def run_held(
    function: Callable[[Held], Awaitable[T]], schedule: Schedule, backend: BackendName
) -> T:
    """Run an async function to its end under a schedule; gives what it returns.

    Args:
        function: what is run; it must reach the world by nothing but tasks and time.
        schedule: who goes next.
        backend: on which loop.

    Raises:
        StuckError: it did not end.
        HookLostError: the loop did not ask who goes next.
        and what the function raises.
    """
    held = Held(schedule)
    result: list[T] = []
    caught: BaseException | None = None
    broken: StuckError | HookLostError | None = None

    async def bounded() -> None:
        with anyio.CancelScope() as scope:
            held.bound(scope)
            _HELD.set(held)
            result.append(await function(held))

    try:
        with _without_threads():
            _RUN[backend](bounded, held)
    except BaseException as error:
        if isinstance(error, HookLostError):
            broken = HookLostError(*error.args)
        elif held.stuck is None:
            raise
        caught = error
    if held.stuck is not None:
        broken = StuckError(held.stuck.kind, held.stuck.text)
    if broken is not None:
        with in_silence():
            held.forget()
            del caught
        raise broken
    if not held.asked:
        raise HookLostError(
            f"the loop of {backend} ran, but never asked who goes next: its scheduling"
            " has changed, so that no seed holds; use another release of it, or mend"
            " lifecycle/held_{backend}.py"
        )
    return result[0]


# -- threads ---------------------------------------------------------------------------


async def _in_the_loop(
    func: Callable[..., T], /, *args: Any, abandon_on_cancel: bool = False, **_: Any
) -> T:
    """Stands for `run_sync` of a worker thread: the call is one step of the loop."""
    await anyio.lowlevel.checkpoint()
    value = func(*args)
    with anyio.CancelScope(shield=not abandon_on_cancel):
        await anyio.lowlevel.checkpoint()
    return value


@contextmanager
def _without_threads() -> Iterator[None]:
    """A block in which what asks for a worker thread runs in the loop."""
    owners: list[Any] = [anyio.to_thread, trio.to_thread]
    before = [owner.run_sync for owner in owners]
    try:
        for owner in owners:
            owner.run_sync = _in_the_loop
        yield
    finally:
        for owner, function in zip(owners, before, strict=True):
            owner.run_sync = function
