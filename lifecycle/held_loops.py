"""Held loops: asyncio and trio with a schedule in the place of chance.

Lives here: what lets a schedule choose each step of a run, on both backends, and
virtual time: it stands still while anybody can run, and then jumps to the next
deadline.  A run that waits for nothing that could come, or that makes no end, is broken
off and says what everybody waits for.  What would run in a worker thread runs in the
loop's own.  It knows tasks, and nothing of agents.

On asyncio it stands on public methods of a loop.  The hook of trio stands on three
private names, since trio has no public one: this is the only file that knows them, and
a release without them is told apart from a fault in what is run (`HookLostError`).
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import selectors
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from random import Random
from typing import Any, Literal, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import trio
import trio.testing

from .held_waits import ended, told, waits_in
from .schedules import Schedule

__all__ = ["BackendName", "Held", "HookLostError", "StuckError", "let_pass", "run_held"]

BackendName = Literal["asyncio", "trio"]

T = TypeVar("T")

MOST_STEPS = 30_000
"""Steps after which a run counts as endless; a long one has some 3,000."""

_DROPS = 3

_IDLE_PASSES = 5
"""Passes in which nobody can run and nothing is due, until that is a deadlock."""


class HookLostError(Exception):
    """Raised by a simulation when a backend does not let a schedule choose.

    Then no seed holds, and no other failure of a simulation means anything: the release
    of trio or Python is one that this release of ramet does not know.
    """


class StuckError(Exception):
    """Raised by a held run that makes no end.

    Args:
        kind: `deadlock`, everybody waits for what can never come; or `livelock`,
            somebody always goes on.
        text: what everybody waits for, or who goes on.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Held:
    """One run whose every step is chosen.

    Args:
        schedule: who chooses.

    Attributes:
        now: gives the virtual time in seconds since the run began.
        explain: gives what the program itself knows of who waits for what.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.now: Callable[[], float] = lambda: 0.0
        self.explain: Callable[[], str] = lambda: ""
        self.stuck: StuckError | None = None
        self.asked: bool = False
        self._scope: anyio.CancelScope | None = None
        self._numbers: dict[Any, int] = {}
        self._most = MOST_STEPS
        self._idle = 0
        self._went: list[int] = []
        self._passing: list[tuple[int, int, Callable[[], None]]] = []
        self._passed = 0

    def after(self, count: int, callback: Callable[[], None]) -> None:
        """Call back when others have taken so many steps, or when nobody can."""
        self._passed += 1
        heappush(self._passing, (self.schedule.steps + count, self._passed, callback))

    def pass_on(self) -> bool:
        """Nobody can run: call back who waits for steps to pass, if anybody does."""
        if not self._passing:
            return False
        heappop(self._passing)[2]()
        return True

    def number(self, task: object) -> int:
        """The number of a task; a task that is not known yet gets the next one."""
        return self._numbers.setdefault(task, len(self._numbers))

    def choose(self, tasks: Sequence[int]) -> int:
        """The index of the task that goes next."""
        self.asked = True
        self._idle = 0
        index = self.schedule.choose(tasks)
        while self._passing and self._passing[0][0] <= self.schedule.steps:
            heappop(self._passing)[2]()
        if self.schedule.steps > self._most - 200:
            self._went.append(tasks[index])
            if self.schedule.steps > self._most:
                self._most += MOST_STEPS
                self._give_up("livelock", self._busy())
        return index

    def idle(self) -> None:
        """Nobody can run, and nothing is due."""
        self._idle += 1
        if self._idle > _IDLE_PASSES:
            self._idle = 0
            self._give_up("deadlock", self._waiting())

    def forget(self) -> None:
        """Let go of what is left of the run."""
        self._numbers.clear()
        self._passing.clear()
        self._scope = self.stuck = None

    def bound(self, scope: anyio.CancelScope) -> None:
        """What is cancelled when the run is given up."""
        self._scope = scope

    def _give_up(self, kind: str, text: str) -> None:
        """Cancel the run; if that was done before and did not help, break it off."""
        if self.stuck is not None:
            text = f"{self.stuck.text}\nand it takes no cancellation"
            self.stuck = StuckError(self.stuck.kind, text)
            raise self.stuck
        more = self.explain()
        self.stuck = StuckError(kind, f"{text}\n{more}" if more else text)
        if self._scope is not None:
            self._scope.cancel()

    def _busy(self) -> str:
        names = {number: task for task, number in self._numbers.items()}
        counts = Counter(self._went).most_common(4)
        lines = [f"the run took {self.schedule.steps} steps and made no end"]
        for number, count in counts:
            lines.append(f"  {count} of the last steps: {told(names[number])}")
        return "\n".join(lines)

    def _waiting(self) -> str:
        lines = ["nobody can run and no deadline is set; what everybody waits for:"]
        for task in self._numbers:
            if not ended(task) and waits_in(task):
                lines.append(f"  {told(task)}")
        return "\n".join(lines)


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
        passed = anyio.Event()
        _HELD.get().after(count, passed.set)
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

    async def bounded() -> None:
        with anyio.CancelScope() as scope:
            held.bound(scope)
            _HELD.set(held)
            result.append(await function(held))

    try:
        with _without_threads():
            _RUN[backend](bounded, held)
    except BaseException as error:
        if held.stuck is None:
            raise
        caught = error
    if held.stuck is not None:
        stuck = StuckError(held.stuck.kind, held.stuck.text)
        with in_silence():
            held.forget()
            del caught
        raise stuck
    if not held.asked:
        raise HookLostError(
            f"the loop of {backend} ran, but never asked who goes next: its scheduling"
            " has changed, so that no seed holds; use another release of it, or mend"
            " lifecycle/held_loops.py"
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


# -- trio ------------------------------------------------------------------------------


class _TrioDice(Random):
    """What trio takes for its dice: the shuffle of a batch leaves one task in it.

    Trio hands over the tasks that can run in the order of their making, and runs what
    it gets back.  The others go back into the queue, so that each step is a choice.
    """

    held: Held
    context: Any

    def shuffle(self, x: Any) -> None:
        """Leave the one that goes next."""
        held = self.held
        if x:
            chosen = x.pop(held.choose([held.number(task) for task in x]))
            self.context.runner.runq.extend(x)
            x[:] = [chosen]
        elif trio.lowlevel.current_statistics().seconds_to_next_deadline == float(
            "inf"
        ):
            held.idle()


@contextmanager
def _trio_hook(held: Held) -> Iterator[_TrioDice]:
    from trio._core import _run

    run: Any = _run
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")
    missing = [name for name in names if not hasattr(run, name)]
    if missing:
        raise HookLostError(
            f"trio {trio.__version__} has no {', '.join(missing)} in trio._core._run,"
            " on which its schedule is held to a seed; use another release of it, or"
            " mend lifecycle/held_loops.py"
        )
    dice = _TrioDice(0)
    dice.held, dice.context = held, run.GLOBAL_RUN_CONTEXT
    before = run._r, run._ALLOW_DETERMINISTIC_SCHEDULING
    run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = dice, True
    try:
        yield dice
    finally:
        run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = before


def _run_trio(function: Callable[[], Awaitable[None]], held: Held) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    held.now = clock.current_time
    with _trio_hook(held) as dice:
        options = {"clock": clock, "instruments": [_BeforeTimePasses(dice)]}
        anyio.run(function, backend="trio", backend_options=options)


class _BeforeTimePasses(trio.abc.Instrument):
    """Lets those go on who wait for steps, before the clock may jump."""

    def __init__(self, dice: _TrioDice) -> None:
        self._held = dice.held
        self._context = dice.context

    def before_io_wait(self, timeout: float) -> None:
        """Time passes only when nobody can run."""
        if not self._context.runner.runq:
            self._held.pass_on()


# -- asyncio ---------------------------------------------------------------------------


class _VirtualSelector(selectors.SelectSelector):
    """Never waits: where nothing is ready, time jumps by what it was to wait."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.now = 0.0
        self._held = held

    def select(self, timeout: float | None = None) -> Any:
        """What is ready at once."""
        if timeout == 0:
            return super().select(0) if len(self.get_map()) > 1 else []
        if self._held.pass_on():
            return []
        ready = super().select(0)
        if not ready:
            if timeout is None:
                self._held.idle()
            else:
                self.now += timeout
        return ready


class _HeldLoop(asyncio.SelectorEventLoop):
    """A loop with virtual time whose schedule chooses which task's step runs next.

    A step that is due is kept aside, and a place for it is queued; when a place comes
    up, it takes one of the steps kept.  Callbacks that are no steps keep their order,
    which asyncio promises.
    """

    def __init__(self, held: Held) -> None:
        self._virtual = _VirtualSelector(held)
        self._held = held
        self._due: list[tuple[int, asyncio.Handle, Callable[[], None]]] = []
        held.now = self.time
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
        handle = asyncio.Handle(callback, args, self, context)
        number = self._held.number(task)
        self._due.append((number, handle, lambda: context.run(callback, *args)))
        super().call_soon(self._take_step)
        return handle

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
            due.sort(key=_number)
        due[:] = [one for one in due if not one[1].cancelled()]
        if due:
            index = self._held.choose([one[0] for one in due])
            due.pop(index)[2]()


def _number(due: tuple[int, asyncio.Handle, Callable[[], None]]) -> int:
    return due[0]


def _run_asyncio(function: Callable[[], Awaitable[None]], held: Held) -> None:
    options = {"loop_factory": lambda: _HeldLoop(held)}
    anyio.run(function, backend="asyncio", backend_options=options)


_RUN: dict[BackendName, Callable[[Callable[[], Awaitable[None]], Held], None]] = {
    "asyncio": _run_asyncio,
    "trio": _run_trio,
}
