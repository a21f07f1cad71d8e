from __future__ import annotations

import pytest

from benchmarks.peers.results import (
    Comparison,
    Row,
    Sample,
    bar,
    compared,
    faster,
    judged,
    number,
    rows,
)
from benchmarks.peers.workloads import Goal


def samples(
    system: str, *costs: float, workload: str = "tell", variant: str = ""
) -> list[Sample]:
    """What the rounds from 1 on came to, each beside a limit of 2 microseconds."""
    return [
        Sample(system, workload, variant, turn, cost, 2.0, cost / 2)
        for turn, cost in enumerate(costs, 1)
    ]


def row(system: str, *costs: float) -> Row:
    (found,) = rows(samples(system, *costs))
    return found


def test_a_row_has_the_medians_of_its_rounds() -> None:
    found = row("ours", 9.0, 1.0, 3.0)
    assert (found.us, found.limit_us, found.times_limit) == (3.0, 2.0, 1.5)


def test_rows_keep_systems_workloads_and_variants_apart() -> None:
    found = rows(
        [
            *samples("ours", 1.0),
            *samples("theirs", 2.0),
            *samples("ours", 3.0, variant="stored"),
            *samples("ours", 4.0, workload="turn"),
            *samples("ours", 5.0),
        ]
    )
    assert [(one.workload, one.name, one.us) for one in found] == [
        ("tell", "ours", 3.0),
        ("tell", "theirs", 2.0),
        ("tell", "ours, stored", 3.0),
        ("turn", "ours", 4.0),
    ]


def test_rounds_are_compared_with_the_same_rounds() -> None:
    ours, theirs = row("ours", 1.0, 2.0, 30.0), row("theirs", 2.0, 1.0, 60.0)
    assert compared(ours, theirs) == Comparison(median=0.5, least=0.5, most=2.0)


def test_a_round_that_only_one_of_them_has_is_not_compared() -> None:
    assert compared(row("ours", 3.0, 8.0), row("theirs", 1.0)) == Comparison(3, 3, 3)
    late = Row("theirs", "tell", "", (samples("theirs", 1.0, 1.0)[1],))
    assert compared(row("ours", 3.0), late) is None


def test_a_goal_is_judged_for_each_way_of_each_of_ours() -> None:
    found = rows(
        [
            *samples("ours", 2.0),
            *samples("ours", 9.0, variant="stored"),
            *samples("ours too", 4.0),
            *samples("theirs", 3.0),
        ]
    )
    some = judged(found, ("ours", "ours too"), [Goal("tell", "theirs", 1.0)])
    assert [(one.ours, one.met) for one in some] == [
        ("ours", True),
        ("ours, stored", False),
        ("ours too", False),
    ]


def test_exactly_what_a_goal_allows_meets_it() -> None:
    found = [row("ours", 4.0), row("theirs", 2.0)]
    (one,) = judged(found, ("ours",), [Goal("tell", "theirs", 2.0)])
    assert one.met is True


def test_a_goal_beside_what_was_not_measured_is_neither_met_nor_missed() -> None:
    (one,) = judged([row("ours", 4.0)], ("ours",), [Goal("tell", "theirs", 2.0)])
    assert (one.found, one.met) == (None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.04567, "0.0457"),
        (1.0, "1.00"),
        (9.87, "9.87"),
        (98.7, "98.7"),
        (987.4, "987"),
        (2145.3, "2,145"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.5, "2.00 times faster"),
        (1 / 1234, "1,234 times faster"),
        (0.97, "as fast"),
        (1.03, "as fast"),
        (1.5, "1.50 times slower"),
    ],
)
def test_a_ratio_of_costs_is_said_in_words(ratio: float, text: str) -> None:
    assert faster(ratio) == text


def test_a_bar_grows_by_one_mark_with_each_doubling() -> None:
    assert [len(bar(times)) for times in (0.1, 1, 2, 4, 1024)] == [1, 1, 2, 3, 11]
