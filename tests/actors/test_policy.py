"""The policy: every value is checked by name, and a spec's own values come first."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ramet.actors.policy import Policy, merge_policy
from ramet.mailbox.errors import UsageError

GOOD: dict[str, list[Any]] = {
    "report_delivery": ["quiet", "wakeup"],
    "notices": ["auto", "wakeup", "quiet", "off"],
    "claim": ["one", "all"],
    "wake_budget": [None, 0, 1, 10**9],
    "max_depth": [0, 3],
    "nudges": [0, 3],
    "inbox_limit": [None, 1, 2],
    "inbox_bytes": [None, 1, 2],
    "inline_cap": [None, 1, 16_000],
    "at_reply": ["cancel", "wait"],
    "rest_deadline_s": [0, 0.5, 30],
    "compact": [None, merge_policy],
}

BAD: dict[str, list[Any]] = {
    "report_delivery": ["loud", None, 1, ["quiet"]],
    "notices": ["on", None, True],
    "claim": ["two", 1, None],
    "wake_budget": [-1, True, 1.5, "1"],
    "max_depth": [-1, True, 1.5, float("nan"), "1", None],
    "nudges": [-1, True, 1.5, "1", None],
    "inbox_limit": [0, -1, True, 1.0, "1"],
    "inbox_bytes": [0, -1, True, 1.0, "1"],
    "inline_cap": [0, -1, True, 1.0, "1"],
    "at_reply": ["kill", None],
    "rest_deadline_s": [-1, True, float("nan"), float("inf"), 10**400, "1", None],
    "compact": ["x", 1, True],
}


def test_the_tables_name_every_value() -> None:
    names = {field.name for field in attrs.fields(Policy)}
    assert set(GOOD) == set(BAD) == names


@pytest.mark.case("R-034", "R-074", "R-092")
@pytest.mark.parametrize("name", GOOD)
def test_a_value_within_its_contract_is_taken_and_any_other_refused_by_name(
    name: str,
) -> None:
    for value in GOOD[name]:
        assert getattr(Policy(**{name: value}), name) == value
    for value in BAD[name]:
        with pytest.raises(UsageError, match=f"policy {name} "):
            Policy(**{name: value})


@pytest.mark.case("R-034")
def test_without_a_setting_reports_are_quiet_and_nothing_is_bounded() -> None:
    policy = Policy()
    assert policy.report_delivery == "quiet"
    assert policy.notices == "auto"
    assert policy.wake_budget is policy.inbox_limit is policy.inbox_bytes is None


@pytest.mark.case("R-034", "R-225")
def test_the_values_of_a_spec_beat_those_of_the_supervisor() -> None:
    base = Policy(report_delivery="wakeup", nudges=7)
    own = Policy(claim="all")
    assert merge_policy(base, None) is base
    assert merge_policy(base, own) is own
    merged = merge_policy(base, {"nudges": 1})
    assert merged == Policy(report_delivery="wakeup", nudges=1)
    assert base.nudges == 7


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"nudge": 1}, "no value 'nudge'"),
        ({1: 1}, "no value 1"),
        ({"nudges": -1}, "policy nudges"),
        ("auto", "must be a Policy or a mapping"),
        (7, "must be a Policy or a mapping"),
    ],
)
def test_a_policy_of_a_spec_that_says_something_else_is_refused(
    own: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        merge_policy(Policy(), own)
