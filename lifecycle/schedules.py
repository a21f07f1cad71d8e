"""Schedules: who goes next, as a seed or a list of departures says.

Lives here: the plain order of the tasks that can run, the strategies that depart from
it, and the record of what was chosen, by which a run is played again and shrunk.  It
knows tasks as numbers and nothing of loops; `held_loops.py` puts it in charge of one.

The plain order: who ran last goes on while it can, and otherwise who has waited
longest.  One that goes on for very long while others could is put last, so that one
that only looks again and again starves nobody.  A *departure* is a step at which
somebody else goes: it is named by the number of its choice and the rank of who goes, in
the plain order.  Who runs alone is no choice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import attrs

__all__ = [
    "Choice",
    "DepartingStrategy",
    "Departures",
    "FifoStrategy",
    "Kind",
    "PlainStrategy",
    "PriorityStrategy",
    "Schedule",
    "Strategy",
    "SwitchingStrategy",
    "Turn",
    "WalkStrategy",
    "strategy_for",
]

Kind = Literal["walk", "pct", "fifo"]

Departures = Mapping[int, int]
"""For the number of a choice the rank of who goes; all others are plain."""

Turn = tuple[int, int]
"""Who would go in plain order, and how often that was so before."""

_PATIENCE = 20
_FIRST = 1 << 40


class Strategy(Protocol):
    """Chooses which of the tasks that can run goes next."""

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """Choose a rank.

        Args:
            line: the numbers of at least two tasks, in plain order.
            goes_on: whether the first of them ran last.
        """
        ...


class PlainStrategy:
    """Never departs from the plain order."""

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """The first in line."""
        return 0


class FifoStrategy:
    """Who has waited longest goes, as on an ordinary loop."""

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """The first in line who did not run last."""
        return 1 if goes_on else 0


class WalkStrategy:
    """A random walk: at each step each task that can run is as likely as the others.

    Args:
        seed: of the dice.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """Roll the dice."""
        return int(self._dice.random() * len(line))


class PriorityStrategy:
    """Probabilistic concurrency testing: the highest priority always goes first.

    Each task draws its priority when it is first seen.  At a few steps, drawn before,
    who would go falls below all others; that finds what needs few, but rare, changes of
    turn.  A task that goes many times in a row while others could falls too.

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

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """Take the highest priority, after a fall if one is due."""
        priorities = self._priorities
        for task in sorted([task for task in line if task not in priorities]):
            priorities[task] = self._dice.random()
        first = max(line, key=priorities.__getitem__)
        tired = first == self._last and self._in_a_row >= self._patience
        if tired or self._steps in self._fall_at:
            self._lowest -= 1.0
            priorities[first] = self._lowest
            first = max(line, key=priorities.__getitem__)
        self._in_a_row = self._in_a_row + 1 if first == self._last else 1
        self._last = first
        self._steps += 1
        return line.index(first)


class DepartingStrategy:
    """Goes by a list of departures, and is plain in between.

    A rank beyond the end of a line counts from its beginning again, so that any list is
    a schedule: one is shrunk by leaving entries out.

    Args:
        departures: who goes, where it is not the first in line.
    """

    def __init__(self, departures: Departures) -> None:
        self._departures = departures
        self._step = -1

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """The rank that the list names for this choice."""
        self._step += 1
        return self._departures.get(self._step, 0) % len(line)


class SwitchingStrategy:
    """Goes by a list of switches, and is plain in between.

    A switch is named by who would go, and for which time, and by who goes instead.  So
    it means the same when others are left out before it, which moves the number of
    every later choice.

    Args:
        switches: for a turn, who goes instead; who cannot go then does not.
    """

    def __init__(self, switches: Mapping[Turn, int]) -> None:
        self._switches = switches
        self._turns: Counter[int] = Counter()

    def choose(self, line: Sequence[int], goes_on: bool) -> int:
        """The rank of who is named for this turn of the first in line."""
        first = line[0]
        task = self._switches.get((first, self._turns[first]), first)
        self._turns[first] += 1
        return line.index(task) if task in line else 0


def strategy_for(seed: int) -> Strategy:
    """The strategy of a seed: a walk for an odd one, else priorities with changes.

    Changes are few for one seed and more for another, over short runs and long ones.
    """
    if seed % 2:
        return WalkStrategy(seed)
    dice = random.Random(f"changes {seed}")
    return PriorityStrategy(
        seed, changes=dice.randrange(1, 6), horizon=dice.choice((60, 250, 1000, 4000))
    )


@attrs.define
class Choice:
    """One choice: who went, and at which rank of how many.

    `first` is who would have gone in plain order.  `goes_on` says whether it ran last,
    so that any other cuts it off; `open` whether a search looks for other ways here.
    """

    task: int
    first: int
    rank: int
    among: int
    goes_on: bool
    open: bool


class _RanAt(dict[int, int]):
    """The step at which each task ran last; who never did comes first, by number."""

    def __missing__(self, task: int) -> int:
        return task - _FIRST


class Schedule:
    """Puts tasks in line, asks a strategy, and keeps what was chosen.

    Args:
        strategy: who chooses.

    Attributes:
        choices: what was chosen, where two or more could go.
        steps: how many steps were taken.
        focused: whether the run said which part of it a search should look at.
        open: whether that part is under way.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._ran_at: dict[int, int] = _RanAt()
        self._last = -1
        self._in_a_row = 0
        self.choices: list[Choice] = []
        self.steps: int = 0
        self.focused: bool = False
        self.open: bool = True

    def choose(self, tasks: Sequence[int]) -> int:
        """The index of the task that goes next, of those that can run."""
        self.steps += 1
        index = 0 if len(tasks) == 1 else self._choose(tasks)
        task = tasks[index]
        self._in_a_row = self._in_a_row + 1 if task == self._last else 1
        self._last = task
        self._ran_at[task] = self.steps
        return index

    def focus(self, begins: bool) -> None:
        """The part that a search should look at begins, or ends."""
        self.focused = True
        self.open = begins

    @property
    def switches(self) -> list[tuple[Turn, int]]:
        """The same as switches: at which turn of whom somebody else went, and who."""
        turns: Counter[int] = Counter()
        found = []
        for choice in self.choices:
            if choice.rank:
                found.append(((choice.first, turns[choice.first]), choice.task))
            turns[choice.first] += 1
        return found

    @property
    def departures(self) -> dict[int, int]:
        """What was chosen, as departures from the plain order."""
        return {n: it.rank for n, it in enumerate(self.choices) if it.rank}

    def _choose(self, tasks: Sequence[int]) -> int:
        line = sorted(tasks, key=self._ran_at.__getitem__)
        goes_on = line[-1] == self._last and self._in_a_row < _PATIENCE
        if goes_on:
            line.insert(0, line.pop())
        rank = self._strategy.choose(line, goes_on)
        task = line[rank]
        self.choices.append(Choice(task, line[0], rank, len(line), goes_on, self.open))
        return tasks.index(task)
