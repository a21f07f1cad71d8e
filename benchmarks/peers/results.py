"""The results: medians over rounds, and how one system compares with another.

Lives here: arithmetic.  A process gives one `Sample` of each piece that it measured;
the samples of all rounds make a `Row`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .workloads import GOALS, Goal


@dataclass(frozen=True)
class Sample:
    """What one process came to for one piece."""

    system: str
    workload: str
    variant: str
    """Which way of doing it, where a system has more than one."""
    round: int
    us: float
    limit_us: float
    times_limit: float
    """The median of ratios that were taken inside the process, pair by pair."""


@dataclass(frozen=True)
class Row:
    """A piece of a system over all rounds."""

    system: str
    workload: str
    variant: str
    samples: tuple[Sample, ...]

    @property
    def name(self) -> str:
        return f"{self.system}, {self.variant}" if self.variant else self.system

    @property
    def us(self) -> float:
        return statistics.median(one.us for one in self.samples)

    @property
    def limit_us(self) -> float:
        return statistics.median(one.limit_us for one in self.samples)

    @property
    def times_limit(self) -> float:
        return statistics.median(one.times_limit for one in self.samples)


def rows(samples: Iterable[Sample]) -> list[Row]:
    """The samples put together, in the order in which each row first came."""
    found: dict[tuple[str, str, str], list[Sample]] = {}
    for one in samples:
        found.setdefault((one.system, one.workload, one.variant), []).append(one)
    return [Row(*key, tuple(some)) for key, some in found.items()]


@dataclass(frozen=True)
class Comparison:
    """What ours costs as a part of what another costs: the median of the rounds."""

    median: float
    least: float
    most: float


def compared(ours: Row, other: Row) -> Comparison | None:
    """Round with round, since those are near in time; None when no round has both."""
    beside = {one.round: one.us for one in other.samples}
    ratios = [one.us / beside[one.round] for one in ours.samples if one.round in beside]
    if not ratios:
        return None
    return Comparison(statistics.median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True)
class Judgement:
    """A goal, held against one way in which ramet does the workload."""

    goal: Goal
    ours: str
    """The name of the row."""
    found: Comparison | None
    """None when there is nothing to compare with."""

    @property
    def met(self) -> bool | None:
        return None if self.found is None else self.found.median <= self.goal.times


def judged(
    found: Sequence[Row], ours: Sequence[str], goals: Sequence[Goal] = GOALS
) -> list[Judgement]:
    """Every goal, for each row of each of our systems."""
    by_place = {(one.workload, one.name): one for one in found}
    return [
        Judgement(goal, row.name, compared(row, other) if other else None)
        for goal in goals
        for other in (by_place.get((goal.workload, goal.system)),)
        for row in found
        if row.workload == goal.workload and row.system in ours
    ]


def number(value: float) -> str:
    """Three digits that count, or all before the point."""
    if value == 0:
        return "0"
    digits = max(2 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{digits}f}"


def faster(ratio: float) -> str:
    """What a ratio of costs means: `12.5 times faster`, `1.3 times slower`."""
    if 1 / 1.05 < ratio < 1.05:
        return "as fast"
    if ratio < 1:
        return f"{number(1 / ratio)} times faster"
    return f"{number(ratio)} times slower"


def bar(times: float) -> str:
    """One mark for the limit itself, and one more for each doubling."""
    return "█" * (1 + max(round(math.log2(times)), 0))
