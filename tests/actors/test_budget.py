"""Limits: six axes, each positive or unbounded, narrower and never wider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.budget import (
    AXES,
    CAUSES,
    Limits,
    axis_of,
    check_limits,
    read_limits,
    spent,
    stated,
)
from ramet.mailbox.errors import UsageError
from ramet.mailbox.events import LimitsRecord
from tests.vectors import rows

SECONDS = ("start_deadline_s", "call_s")
COUNTS = tuple(axis for axis in AXES if axis not in SECONDS)

VALUES: dict[str, Any] = {
    "10**6": 10**6,
    "9007199254740991": 9007199254740991,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "float('nan')": float("nan"),
    "float('inf')": float("inf"),
    "True": True,
    "'10'": "10",
    "None": None,
}
"""What the vectors write as Python."""

LIMITS = st.builds(
    Limits,
    **{axis: st.none() | st.integers(1, 9) for axis in COUNTS},
    **{axis: st.none() | st.floats(0.1, 9) for axis in SECONDS},
)


@pytest.mark.case("A-142")
@pytest.mark.parametrize("row", rows("budget_values"))
@pytest.mark.parametrize("axis", COUNTS)
def test_a_counting_axis_takes_what_the_table_says(
    axis: str, row: dict[str, Any]
) -> None:
    value = VALUES[row["value_py"]]
    if row["ok"]:
        assert getattr(Limits(**{axis: value}), axis) == value
    else:
        with pytest.raises(UsageError, match=axis):
            Limits(**{axis: value})


def test_a_count_has_a_largest_value() -> None:
    with pytest.raises(UsageError, match=r"requests must be .* 2\*\*53 - 1"):
        Limits(requests=2**53)


@pytest.mark.case("A-142")
@pytest.mark.parametrize("axis", SECONDS)
@pytest.mark.parametrize(
    "value",
    [0, 0.0, -1, -0.5, float("nan"), float("inf"), 10**400, "10", True, b"1"],
)
def test_a_time_axis_refuses_what_is_no_finite_time_above_zero(
    axis: str, value: Any
) -> None:
    with pytest.raises(UsageError, match=f"limit {axis} must be a finite number"):
        Limits(**{axis: value})


@pytest.mark.parametrize("axis", SECONDS)
@pytest.mark.parametrize("value", [None, 1, 0.001, 1e9])
def test_a_time_axis_takes_whole_and_broken_seconds(axis: str, value: Any) -> None:
    assert getattr(Limits(**{axis: value}), axis) == value


@pytest.mark.case("A-142")
def test_an_unknown_axis_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="tokens"):
        Limits(tokens=1)  # type: ignore[call-arg]


@pytest.mark.case("A-143")
def test_all_six_axes_print_in_order_and_unset_as_unbounded() -> None:
    assert str(Limits(agents=3, call_s=1.5)) == (
        "concurrency=unbounded, agents=3, start_deadline_s=unbounded, call_s=1.5,"
        " tool_calls=unbounded, requests=unbounded"
    )


def test_limits_come_back_from_their_record() -> None:
    limits = Limits(concurrency=1, start_deadline_s=2.5, tool_calls=4)
    assert limits.record() == LimitsRecord(1, None, 2.5, None, 4, None)
    assert Limits.from_record(limits.record()) == limits
    assert Limits().record() == LimitsRecord()


@given(LIMITS, LIMITS)
def test_the_narrower_of_two_is_never_wider_than_either(
    one: Limits, other: Limits
) -> None:
    both = one.within(other)
    assert both == other.within(one)
    for axis in AXES:
        values = [getattr(it, axis) for it in (one, other)]
        set_values = [it for it in values if it is not None]
        assert getattr(both, axis) == (min(set_values) if set_values else None)


@given(LIMITS)
def test_limits_are_bounded_where_an_axis_is_set(limits: Limits) -> None:
    assert limits.bounded is (limits != Limits())


def test_a_cause_names_its_axis_and_an_axis_its_cause() -> None:
    assert set(CAUSES) == set(AXES) - {"concurrency"}
    for axis, cause in CAUSES.items():
        assert axis_of(cause) == axis
    assert axis_of("cancelled") is None
    assert axis_of(None) is None


@pytest.mark.case("A-153")
def test_a_stop_is_one_line_that_names_the_axis_and_what_stays() -> None:
    line = spent("start_deadline_s", 2.5, "the run")
    assert line == (
        "the limit start_deadline_s=2.5 of the run is spent; what was finished before"
        " stays completed and readable"
    )


@pytest.mark.case("A-143")
def test_every_axis_is_stated_with_where_it_comes_from() -> None:
    limits = Limits(agents=3, call_s=1.5)
    assert stated(limits, {"agents": "--limit"}) == (
        "concurrency=unbounded (default), agents=3 (--limit),"
        " start_deadline_s=unbounded (default), call_s=1.5 (given),"
        " tool_calls=unbounded (default), requests=unbounded (default)"
    )
    assert stated(Limits()).count("unbounded (default)") == 6


def test_limits_are_read_as_words_of_a_command_line() -> None:
    words = ["agents=3", "call_s=1.5", "agents=4"]
    assert read_limits(words) == Limits(agents=4, call_s=1.5)
    assert read_limits([]) == Limits()


@pytest.mark.case("A-142")
@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("tokens=1", "there is no limit 'tokens': the axes are concurrency, agents"),
        ("agents", "limit agents: '' is no whole number"),
        ("agents=1.5", "limit agents: '1.5' is no whole number"),
        ("call_s=soon", "limit call_s: 'soon' is no number of seconds"),
        ("call_s=nan", "limit call_s must be a finite number"),
        ("agents=0", "limit agents must be a whole number from 1"),
    ],
)
def test_words_that_are_no_limits_are_refused(word: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_limits([word])


@pytest.mark.parametrize("axis", [None, *AXES])
def test_limits_of_every_axis_are_taken(axis: str | None) -> None:
    check_limits(None if axis is None else Limits(**{axis: 1}))


@pytest.mark.parametrize("limits", [7, {"requests": 1}])
def test_what_is_no_limits_is_refused(limits: Any) -> None:
    with pytest.raises(UsageError, match="limits must be Limits"):
        check_limits(limits)
