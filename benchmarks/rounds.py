"""Rounds: how things are measured beside each other.

Lives here: the one way in which everything is timed.  The subjects of a group run in
turns, A B A B, in one process and one loop, with the garbage collector on; each round
gives one number of each, and a ratio to the limit in the same round, so that a machine
that grows slow for a while slows both.  What is told are medians.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bare import Bare

Subject = Callable[[Bare, int], Awaitable[float]]
"""Does its work `count` times and gives the seconds that it took."""


@dataclass
class Measured:
    """What one subject came to: its numbers, one for each round."""

    group: str
    name: str
    backend: str
    unit: str
    values: list[float] = field(default_factory=list)
    goal: float | None = None
    limit: str | None = None
    ratios: list[float] = field(default_factory=list)
    more_is_better: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """How many times the limit it is, as the median of the rounds."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met: a number, or a ratio where more is better."""
        if self.goal is None:
            return None
        if self.more_is_better:
            return self.ratio is not None and self.ratio >= self.goal
        return self.median <= self.goal


@dataclass
class Group:
    """Subjects that are measured together; the one named `limit` bounds the others."""

    name: str
    count: int
    subjects: dict[str, Subject]
    goals: dict[str, float | dict[str, float]] = field(default_factory=dict)
    """In microseconds; by backend where they differ."""
    limits: dict[str, str] = field(default_factory=dict)
    rounds: int | None = None
    """How many rounds at most, where one takes long."""


async def interleaved(bare: Bare, group: Group, rounds: int) -> list[Measured]:
    """Run the rounds of a group in the running loop; microseconds for each piece."""
    found: dict[str, Measured] = {}
    if group.rounds is not None:
        rounds = min(rounds, group.rounds)
    for name in group.subjects:
        goal = group.goals.get(name)
        if isinstance(goal, dict):
            goal = goal[bare.name]
        limit = group.limits.get(name)
        found[name] = Measured(
            group.name, name, bare.name, "us", goal=goal, limit=limit
        )
    names = list(group.subjects)
    for turn in range(rounds + 1):
        for name in names if turn % 2 else names[::-1]:
            gc.collect()
            seconds = await group.subjects[name](bare, group.count)
            if turn:  # the first round only warms up
                found[name].values.append(seconds / group.count * 1e6)
    for one in found.values():
        add_ratios(one, found[one.limit] if one.limit else None)
    return list(found.values())


def add_ratios(one: Measured, limit: Measured | None) -> None:
    """Compare round with round."""
    if limit is not None:
        one.ratios = [a / b for a, b in zip(one.values, limit.values, strict=True)]
