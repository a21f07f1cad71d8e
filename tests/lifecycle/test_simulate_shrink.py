"""Shrinking: what is left of a failing schedule is little, and fails the same way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ramet.lifecycle.fault_plan import Plan
from ramet.lifecycle.schedules import Schedule, Strategy, WalkStrategy
from ramet.lifecycle.simulate_run import Ran, Replay
from ramet.lifecycle.simulate_shrink import shrunk

TASKS, STEPS = 3, 6

Broken = Callable[[list[int]], bool]


def played(strategy: Strategy, broken: Broken) -> Ran:
    """A few tasks with a few steps each; a law is broken by the order of the steps."""
    schedule = Schedule(strategy)
    left = dict.fromkeys(range(TASKS), STEPS)
    order: list[int] = []
    while left:
        tasks = [*left]
        task = tasks[schedule.choose(tasks)]
        order.append(task)
        left[task] -= 1
        if not left[task]:
            del left[task]
    law = "22 out of order" if broken(order) else None
    return Ran(law, "", [], [], schedule, Plan(), 0)


def second_between_two_of_the_first(order: list[int]) -> bool:
    """Task 1 takes its third step between two steps of task 0: two switches."""
    third = [at for at, task in enumerate(order) if task == 1][2]
    return 0 < order[:third].count(0) < STEPS


def all_in_turn(order: list[int]) -> bool:
    """Each takes a step before any takes its second: a switch at every one of them."""
    return sorted(order[:TASKS]) == [*range(TASKS)]


@pytest.mark.case("R-220")
@pytest.mark.parametrize(
    ("broken", "most"), [(second_between_two_of_the_first, 1), (all_in_turn, 2)]
)
def test_a_schedule_shrinks_to_what_its_fault_needs(broken: Broken, most: int) -> None:
    def run(replay: Replay, strategy: Strategy | None) -> Ran:
        return played(strategy or replay.strategy(), broken)

    failed = 0
    for seed in range(60):
        first = played(WalkStrategy(seed), broken)
        if first.law is None:
            continue
        failed += 1
        replay, ran = shrunk(run, Replay(seed, first.schedule.departures), first)
        assert ran.law == first.law
        assert len(ran.schedule.departures) <= most
        assert replay.departures == ran.schedule.departures
        assert run(replay, None).law == first.law
    assert failed >= 10
