"""Schedules: runs whose every choice of who goes next comes from a seed.

Lives here: the strategies that choose, and what puts them in the place of the chance
of trio and of the queue of asyncio.  Time is virtual on both: it stands still while
anybody can run, and then jumps to the next deadline.  A run that waits for nothing that
could come, or that does not end, raises.  It knows tasks, and nothing of ramet.

The hook of trio stands on three private names, since trio has no public one; a release
without them is told apart from a fault in what is run (`HookLostError`).
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar

import anyio
import trio
import trio.testing

__all__ = [
    "Backend",
    "EndlessRunError",
    "HookLostError",
    "Kind",
    "PriorityStrategy",
    "Strategy",
    "WalkStrategy",
    "run_seeded",
    "strategy_of",
]

Backend = Literal["asyncio", "trio"]
Kind = Literal["walk", "pct"]

T = TypeVar("T")

_MOST_PASSES = 200_000
"""Passes of a loop after which a run counts as endless; a long one has some 10,000."""


class HookLostError(Exception):
    """Raised when a backend does not let a strategy choose: the hook needs mending."""


class EndlessRunError(Exception):
    """Raised when a run makes no end, or waits for what can never come."""


class Strategy(Protocol):
    """Chooses which of the tasks that can run goes next."""

    def choose(self, tasks: Sequence[int]) -> int:
        """Choose an index.

        Args:
            tasks: the numbers of at least two tasks, in the order of their making.
        """
        ...


class WalkStrategy:
    """A random walk: at each step each task that can run is as likely as the others.

    Args:
        seed: of the dice.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def choose(self, tasks: Sequence[int]) -> int:
        """Roll the dice."""
        return self._dice.randrange(len(tasks))


class PriorityStrategy:
    """Probabilistic concurrency testing: the highest priority always goes first.

    Each task draws its priority when it is first seen.  At a few steps, drawn before,
    who would go falls below all others; that finds what needs few, but rare, changes of
    turn.  A task that goes many times in a row while others could falls too, so that
    one that only looks again and again starves nobody.

    Args:
        seed: of the dice.
        changes: how many steps are drawn.
        horizon: the steps among which they are drawn.
        patience: how often in a row a task may go.
    """

    def __init__(
        self, seed: int, *, changes: int = 3, horizon: int = 600, patience: int = 50
    ) -> None:
        self._dice = random.Random(seed)
        self._fall_at = {self._dice.randrange(horizon) for _ in range(changes)}
        self._patience = patience
        self._priorities: dict[int, float] = {}
        self._lowest = 0.0
        self._steps = 0
        self._last = -1
        self._in_a_row = 0

    def choose(self, tasks: Sequence[int]) -> int:
        """Take the highest priority, after a fall if one is due."""
        for task in tasks:
            if task not in self._priorities:
                self._priorities[task] = self._dice.random()
        first = self._highest(tasks)
        tired = first == self._last and self._in_a_row >= self._patience
        if tired or self._steps in self._fall_at:
            self._lowest -= 1.0
            self._priorities[first] = self._lowest
            first = self._highest(tasks)
        self._in_a_row = self._in_a_row + 1 if first == self._last else 1
        self._last = first
        self._steps += 1
        return tasks.index(first)

    def _highest(self, tasks: Sequence[int]) -> int:
        return max(tasks, key=self._priorities.__getitem__)


def strategy_of(kind: Kind, seed: int) -> Strategy:
    """The strategy of a kind: a random walk, or priorities with changes (`pct`)."""
    return WalkStrategy(seed) if kind == "walk" else PriorityStrategy(seed)


def run_seeded(
    function: Callable[..., Awaitable[T]],
    *arguments: Any,
    backend: Backend,
    seed: int,
    kind: Kind = "walk",
) -> T:
    """Run an async function to its end under a schedule; gives what it returns.

    Args:
        function: what is run; it must reach the world by nothing but tasks and time.
        arguments: its arguments.
        backend: on which loop.
        seed: of the schedule.
        kind: of the strategy.

    Raises:
        EndlessRunError: it did not end.
        HookLostError: the loop did not ask the strategy.
        and what the function raises.
    """
    chooser = _Chooser(strategy_of(kind, seed))
    result: list[T] = []

    async def bounded() -> None:
        with anyio.CancelScope() as chooser.scope:
            result.append(await function(*arguments))

    _RUN[backend](bounded, chooser)
    if chooser.endless is not None:
        raise EndlessRunError(chooser.endless)
    if not chooser.asked:
        raise HookLostError(
            f"the loop of {backend} ran, but never asked who goes next: its private"
            " scheduling has changed, so that no seed holds; mend tests/schedules.py"
        )
    return result[0]


class _Chooser:
    """Numbers tasks as they come, asks the strategy, and bounds the run."""

    scope: anyio.CancelScope

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._numbers: dict[object, int] = {}
        self._passes = 0
        self.asked = False
        self.endless: str | None = None

    def number(self, task: object) -> int:
        """The number of a task; a task that is not known yet gets the next one."""
        return self._numbers.setdefault(task, len(self._numbers))

    def choose(self, tasks: Sequence[int]) -> int:
        """The index of the task that goes next."""
        self.asked = True
        return 0 if len(tasks) == 1 else self._strategy.choose(tasks)

    def count_pass(self) -> None:
        """The loop goes round once more."""
        self._passes += 1
        if self._passes > _MOST_PASSES:
            self._passes = 0
            self.give_up(
                f"the run did not end within {_MOST_PASSES} passes of its loop"
            )

    def give_up(self, why: str) -> None:
        """Cancel the run; if that was done before and did not help, break it off."""
        if self.endless is not None:
            raise EndlessRunError(
                f"{self.endless}, and it does not take a cancellation"
            )
        self.endless = why
        self.scope.cancel()


# -- trio ------------------------------------------------------------------------------


class _TrioDice(random.Random):
    """What trio takes for its dice: the shuffle of a batch leaves one task in it.

    Trio hands over the tasks that can run in the order of their making, and runs what
    it gets back.  The others go back into the queue, so that each step is a choice.
    """

    chooser: _Chooser
    context: Any

    def shuffle(self, x: Any) -> None:
        """Leave the one that goes next."""
        self.chooser.count_pass()
        if x:
            chosen = x.pop(self.chooser.choose([self.chooser.number(t) for t in x]))
            self.context.runner.runq.extend(x)
            x[:] = [chosen]


@contextmanager
def _trio_hook(chooser: _Chooser) -> Iterator[None]:
    from trio._core import _run

    run: Any = _run
    names = ("_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT")
    missing = [name for name in names if not hasattr(run, name)]
    if missing:
        raise HookLostError(
            f"trio {trio.__version__} has no {', '.join(missing)} in trio._core._run,"
            " on which its schedule is held to a seed; mend tests/schedules.py"
        )
    dice = _TrioDice(0)
    dice.chooser, dice.context = chooser, run.GLOBAL_RUN_CONTEXT
    before = run._r, run._ALLOW_DETERMINISTIC_SCHEDULING
    run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = dice, True
    try:
        yield
    finally:
        run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = before


def _run_trio(function: Callable[[], Awaitable[None]], chooser: _Chooser) -> None:
    options = {"clock": trio.testing.MockClock(autojump_threshold=0)}
    with _trio_hook(chooser):
        anyio.run(function, backend="trio", backend_options=options)


# -- asyncio ---------------------------------------------------------------------------


class _VirtualSelector(selectors.SelectSelector):
    """Never waits: where nothing is ready, time jumps by what it was to wait."""

    def __init__(self, chooser: _Chooser) -> None:
        super().__init__()
        self.now = 0.0
        self._chooser = chooser

    def select(self, timeout: float | None = None) -> Any:
        """What is ready at once."""
        self._chooser.count_pass()
        ready = super().select(0)
        if not ready and timeout is None:
            self._chooser.give_up("nobody can run and no deadline is set")
        if not ready and timeout:
            self.now += timeout
        return ready


class _SeededLoop(asyncio.SelectorEventLoop):
    """A loop with virtual time whose strategy chooses which task's step runs next.

    A step that is due is kept aside, and a place for it is queued; when a place comes
    up, it takes one of the steps kept.  Callbacks that are no steps keep their order,
    which asyncio promises.
    """

    def __init__(self, chooser: _Chooser) -> None:
        self._virtual = _VirtualSelector(chooser)
        self._chooser = chooser
        self._due: list[tuple[int, asyncio.Handle]] = []
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
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append((self._chooser.number(task), handle))
        super().call_soon(self._take_step)
        return handle

    def _take_step(self) -> None:
        self._due = [one for one in self._due if not one[1].cancelled()]
        if not self._due:
            return
        self._due.sort(key=lambda one: one[0])
        index = self._chooser.choose([number for number, _ in self._due])
        _, handle = self._due.pop(index)
        handle._run()


def _run_asyncio(function: Callable[[], Awaitable[None]], chooser: _Chooser) -> None:
    options = {"loop_factory": lambda: _SeededLoop(chooser)}
    anyio.run(function, backend="asyncio", backend_options=options)


_RUN = {"asyncio": _run_asyncio, "trio": _run_trio}
