"""The loop of trio with a schedule in the place of chance.

Lives here: what lets a schedule choose each step of a run on trio.  It stands on
private names, since trio has no public ones: this is the only file that knows them, and
a release without them is told apart from a fault in what is run (`HookLostError`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from random import Random
from typing import Any

import anyio
import trio
import trio.testing

from .held import Held, HookLostError, StuckError

__all__ = ["run_trio"]

_ROUND = 16
"""Steps until trio gets to look at files and signals."""

_NAMES = (
    "_r",
    "_ALLOW_DETERMINISTIC_SCHEDULING",
    "GLOBAL_RUN_CONTEXT",
    "Runner.runq",
    "Runner.deadlines",
    "Deadlines.next_deadline",
)
"""What all this stands on, in the module of trio that runs tasks."""


class _Dice(Random):
    """What trio takes for its dice: the shuffle of a batch leaves one task in it.

    Trio hands over the tasks that can run in the order of their making, and runs what
    it gets back.  The others go back into the queue, so that each step is a choice.
    """

    hook: _Hook

    def shuffle(self, x: Any) -> None:
        """Leave the one that goes next."""
        self.hook.begin(x)


class _Hook(trio.abc.Instrument):
    """Has each step of a run of trio chosen.

    Trio looks at deadlines and files between any two batches.  While time stands still
    and nobody waits for a file, that is for nothing, so that a batch is filled up again
    for a few steps before trio gets to look.
    """

    def __init__(self, held: Held, clock: trio.testing.MockClock, context: Any) -> None:
        self._held = held
        self._clock = clock
        self._context = context
        self._number = held.numbers.__getitem__
        self._batch: list[Any] = []
        self._queue: Any = None
        self._deadline: Callable[[], float]
        self._left = 0
        self._failed: StuckError | None = None
        self._now = 0.0
        held.now = lambda: self._now

    def before_run(self) -> None:
        """Learn where trio keeps who can run, and what is due when."""
        runner = self._context.runner
        self._queue, self._deadline = runner.runq, runner.deadlines.next_deadline

    def begin(self, batch: list[Any]) -> None:
        """Leave one task in a new batch.

        Raises:
            StuckError: the run is broken off; what an instrument raises ends no loop.
            HookLostError: trio did not run what the batch was filled up with.
        """
        if self._failed is not None:
            raise self._failed
        if self._batch:
            raise _lost("runs a batch otherwise than until it is empty")
        self._batch = batch
        self._left = _ROUND
        self._now = self._clock.current_time()
        if batch:
            index = self._held.choose([*map(self._number, batch)])
            chosen = batch.pop(index)
            self._queue.extend(batch)
            batch[:] = [chosen]
        elif self._deadline() == float("inf"):
            self._held.idle()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Put the one that goes next into the batch, unless something else is due."""
        queue = self._queue
        self._left -= 1
        # The clock stands still, but a test may have moved it.
        self._now = self._clock.current_time()
        if not queue or self._left < 0 or self._deadline() <= self._now:
            return
        try:
            index = self._held.choose([*map(self._number, queue)])
        except StuckError as error:
            self._failed = error
            return
        chosen = queue[index]
        del queue[index]
        self._batch.append(chosen)

    def before_io_wait(self, timeout: float) -> None:
        """Time passes only when nobody can run, nor waits for steps to pass."""
        if not self._queue:
            self._held.pass_on()


@contextmanager
def _held_by(held: Held, clock: trio.testing.MockClock) -> Iterator[_Hook]:
    from trio._core import _run

    run: Any = _run
    missing = [name for name in _NAMES if not _has(run, name)]
    if missing:
        raise _lost(f"has no {', '.join(missing)} in trio._core._run")
    dice = _Dice(0)
    dice.hook = hook = _Hook(held, clock, run.GLOBAL_RUN_CONTEXT)
    before = run._r, run._ALLOW_DETERMINISTIC_SCHEDULING
    run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = dice, True
    try:
        yield hook
    finally:
        run._r, run._ALLOW_DETERMINISTIC_SCHEDULING = before


def run_trio(function: Callable[[], Awaitable[None]], held: Held) -> None:
    """Run a function to its end on a loop that asks who goes next."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    held.event = trio.Event
    with _held_by(held, clock) as hook:
        options = {"clock": clock, "instruments": [hook]}
        try:
            anyio.run(function, backend="trio", backend_options=options)
        except trio.TrioInternalError as error:
            if isinstance(error.__cause__, HookLostError):
                raise error.__cause__ from None
            raise


def _has(run: Any, name: str) -> bool:
    try:
        attrgetter(name)(run)
    except AttributeError:
        return False
    return True


def _lost(what: str) -> HookLostError:
    return HookLostError(
        f"trio {trio.__version__} {what}, on which its schedule is held to a seed; use"
        " another release of it, or mend lifecycle/held_trio.py"
    )
