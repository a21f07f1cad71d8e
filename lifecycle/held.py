"""A held run: every step of it is chosen, and time is virtual.

Lives here: what a loop of either backend asks while it runs: who goes next, who waits
for steps to pass, and whether the run makes an end at all.  A run that waits for
nothing that could come, or that makes no end, is broken off and says what everybody
waits for.  It knows tasks as numbers, and neither loops nor agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

import anyio

from .held_waits import ended, told, waits_in
from .schedules import Schedule

__all__ = ["Held", "HookLostError", "StuckError"]

MOST_STEPS = 30_000
"""Steps after which a run counts as endless; a long one has some 3,000."""

_STUBBORN = "\nand it takes no cancellation"

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


class _Event(Protocol):
    """What one task waits for and another one sets."""

    def set(self) -> None: ...

    async def wait(self) -> object: ...


class _Numbers(dict[Any, int]):
    """The number of each task; a task that is not known yet gets the next one."""

    def __missing__(self, task: Any) -> int:
        number = self[task] = len(self)
        return number


class Held:
    """One run whose every step is chosen.

    Args:
        schedule: who chooses.

    Attributes:
        now: gives the virtual time in seconds since the run began.
        explain: gives what the program itself knows of who waits for what.
        numbers: knows tasks by the order in which they were first seen.
        event: makes an event of the backend's own; no task need ask which one runs.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.now: Callable[[], float] = lambda: 0.0
        self.explain: Callable[[], str] = lambda: ""
        self.event: Callable[[], _Event]
        self.stuck: StuckError | None = None
        self.asked: bool = False
        self._scope: anyio.CancelScope | None = None
        self.numbers: _Numbers = _Numbers()
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

    def choose(self, tasks: Sequence[int]) -> int:
        """The index of the task that goes next."""
        self.asked = True
        self._idle = 0
        schedule, passing = self.schedule, self._passing
        index = schedule.choose(tasks)
        while passing and passing[0][0] <= schedule.steps:
            heappop(passing)[2]()
        if schedule.steps > self._most - 200:
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
        self.numbers.clear()
        self._passing.clear()
        self._scope = self.stuck = None
        # These know the loop, and all that still waits in it.
        self.now = lambda: 0.0
        self.explain = lambda: ""

    def bound(self, scope: anyio.CancelScope) -> None:
        """What is cancelled when the run is given up."""
        self._scope = scope

    def _give_up(self, kind: str, text: str) -> None:
        """Cancel the run; if that was done before and did not help, break it off."""
        if self.stuck is not None:
            text = self.stuck.text.removesuffix(_STUBBORN) + _STUBBORN
            self.stuck = StuckError(self.stuck.kind, text)
            raise self.stuck
        more = self.explain()
        self.stuck = StuckError(kind, f"{text}\n{more}" if more else text)
        if self._scope is not None:
            self._scope.cancel()

    def _busy(self) -> str:
        names = {number: task for task, number in self.numbers.items()}
        counts = Counter(self._went).most_common(4)
        lines = [f"the run took {self.schedule.steps} steps and made no end"]
        for number, count in counts:
            lines.append(f"  {count} of the last steps: {told(names[number])}")
        return "\n".join(lines)

    def _waiting(self) -> str:
        lines = ["nobody can run and no deadline is set; what everybody waits for:"]
        for task in self.numbers:
            if not ended(task) and waits_in(task):
                lines.append(f"  {told(task)}")
        return "\n".join(lines)
