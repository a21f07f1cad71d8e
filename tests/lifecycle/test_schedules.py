"""Schedules: the plain order, departures from it, and the strategies."""

from __future__ import annotations

import pytest

from ramet.lifecycle.schedules import (
    DepartingStrategy,
    FifoStrategy,
    PlainStrategy,
    PriorityStrategy,
    Schedule,
    Strategy,
    SwitchingStrategy,
    WalkStrategy,
    strategy_for,
)


def taken(strategy: Strategy, steps: int, tasks: list[int]) -> list[int]:
    """Who goes, if all of them can, always."""
    schedule = Schedule(strategy)
    return [tasks[schedule.choose(tasks)] for _ in range(steps)]


def test_in_plain_order_who_ran_last_goes_on_and_nobody_starves() -> None:
    assert taken(PlainStrategy(), 45, [1, 2]) == [1] * 20 + [2] * 20 + [1] * 5


def test_in_plain_order_who_waited_longest_follows_who_has_to_wait() -> None:
    schedule = Schedule(PlainStrategy())
    assert schedule.choose([1, 2, 3]) == 0
    assert schedule.choose([2, 3]) == 0
    assert schedule.choose([1, 3]) == 1
    assert schedule.choose([1, 2]) == 0


def test_fifo_takes_turns() -> None:
    assert taken(FifoStrategy(), 6, [1, 2, 3]) == [1, 2, 3, 1, 2, 3]


def test_a_departure_is_one_choice_and_what_follows_is_plain() -> None:
    assert taken(DepartingStrategy({1: 1}), 4, [1, 2]) == [1, 2, 2, 2]
    assert taken(DepartingStrategy({0: 5}), 2, [1, 2]) == [2, 2]


@pytest.mark.parametrize("seed", range(20))
def test_the_departures_of_any_schedule_give_it_again(seed: int) -> None:
    def run(strategy: Strategy) -> Schedule:
        schedule = Schedule(strategy)
        for step in range(60):
            schedule.choose([1, 2, 3, 4][: 1 + step % 4])
        return schedule

    first = run(strategy_for(seed))
    for strategy in (
        DepartingStrategy(first.departures),
        SwitchingStrategy(dict(first.switches)),
    ):
        again = run(strategy)
        assert again.choices == first.choices
        assert first.steps == again.steps == 60


def test_a_switch_is_made_at_a_turn_of_whom_it_names_wherever_that_is() -> None:
    strategy = SwitchingStrategy({(1, 1): 2, (2, 0): 3})
    assert strategy.choose([1, 2], False) == 0
    assert strategy.choose([2, 1], False) == 0
    assert strategy.choose([1, 3, 2], True) == 2
    assert strategy.choose([1, 2], True) == 0


def test_who_is_in_no_order_is_put_in_line_by_number_before_it_ran() -> None:
    schedule = Schedule(PlainStrategy())
    assert schedule.choose([9, 2, 5]) == 1
    assert schedule.choose([9, 5]) == 1
    assert schedule.choose([9, 2]) == 0


def test_who_goes_alone_is_no_choice() -> None:
    schedule = Schedule(WalkStrategy(1))
    assert [schedule.choose([7]) for _ in range(3)] == [0, 0, 0]
    assert schedule.choices == []


def test_choices_know_whether_a_search_looks_at_them() -> None:
    schedule = Schedule(PlainStrategy())
    schedule.choose([1, 2])
    assert schedule.choices[-1].open
    assert not schedule.focused
    schedule.focus(True)
    schedule.choose([1, 2])
    schedule.focus(False)
    schedule.choose([1, 2])
    assert [choice.open for choice in schedule.choices] == [True, True, False]
    assert [choice.goes_on for choice in schedule.choices] == [False, True, True]
    assert schedule.focused


def test_priorities_hold_until_a_fall() -> None:
    strategy = PriorityStrategy(1, changes=0, patience=2)
    first = strategy.choose([0, 1], False)
    assert [strategy.choose([0, 1], False) for _ in range(2)] == [first, 1 - first]


def test_odd_seeds_walk_and_even_ones_have_priorities() -> None:
    assert isinstance(strategy_for(3), WalkStrategy)
    assert isinstance(strategy_for(4), PriorityStrategy)
