"""The outcome: three facts apart, and what `unwrap()` makes of each status."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from ramet.actors.errors import (
    AgentBlockedError,
    AgentCancelledError,
    AgentFailedError,
    AgentStoppedError,
    OutcomeError,
)
from ramet.actors.outcome import Acceptance, Outcome, TreeUsage
from ramet.mailbox.message import Usage


def outcome(status: Any, cause: str | None = None, **other: Any) -> Outcome[Any]:
    return Outcome(status=status, cause=cause, message_id="m1", session_id="c", **other)


@pytest.mark.case("A-046")
def test_a_completed_outcome_unwraps_to_its_value_also_when_there_is_none() -> None:
    assert outcome("completed", value="x", acceptance=Acceptance()).unwrap() == "x"
    assert outcome("completed").unwrap() is None
    assert outcome("completed", "empty", acceptance=Acceptance()).unwrap() is None


@pytest.mark.case("A-046")
@pytest.mark.parametrize(
    ("status", "cls"),
    [
        ("failed", AgentFailedError),
        ("cancelled", AgentCancelledError),
        ("stopped", AgentStoppedError),
        ("blocked", AgentBlockedError),
    ],
)
def test_any_other_status_raises_its_class_with_code_outcome_and_the_first_error(
    status: str, cls: type[OutcomeError]
) -> None:
    first = OSError("first")
    made = outcome(status, "some-cause", error=first)
    with pytest.raises(cls) as caught:
        made.unwrap()
    assert type(caught.value) is cls
    assert caught.value.code == "some-cause"
    assert caught.value.outcome is made
    assert caught.value.__cause__ is first
    assert str(caught.value) == str(made)
    with pytest.raises(cls) as bare:
        outcome(status).unwrap()
    assert bare.value.code == status
    assert bare.value.__cause__ is None


@pytest.mark.case("A-046")
def test_a_value_that_could_not_be_stored_is_not_given() -> None:
    made = outcome("completed", "storage-failed", available=False)
    with pytest.raises(AgentFailedError) as caught:
        made.unwrap()
    assert caught.value.code == "storage-failed"


@pytest.mark.case("A-181", "A-044")
@pytest.mark.parametrize(
    ("made", "line"),
    [
        (outcome("completed"), "completed"),
        (outcome("failed", "no-reply"), "failed (no-reply)"),
        (
            outcome("stopped", "request-budget", axis="requests"),
            "stopped (request-budget) on axis requests",
        ),
        (outcome("failed", "crashed", detail="why"), "failed (crashed) - why"),
    ],
)
def test_an_outcome_reads_as_one_line_with_status_cause_axis_and_ids(
    made: Outcome[Any], line: str
) -> None:
    assert str(made) == f"{line}; assignment m1 of session c"
    assert str(attrs.evolve(made, message_id="")) == f"{line}; session c"
    assert str(attrs.evolve(made, message_id="", session_id="")) == line


@pytest.mark.case("A-047")
def test_an_outcome_is_immutable_and_can_be_compared_and_pickled() -> None:
    made = outcome(
        "completed",
        value={"a": 1},
        acceptance=Acceptance("reply", 2, 1),
        usage=TreeUsage(Usage(1), Usage(2)),
        error=OSError("not compared"),
    )
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.value = 1  # type: ignore[misc]
    assert made == attrs.evolve(made, error=None)
    assert pickle.loads(pickle.dumps(made)) == made
    assert "not compared" not in repr(made)
