"""A return that is accepted, disturbed at every append and every checkpoint.

If its acceptance was committed the value stands, else it does not exist: never both,
never neither.  The number of points is shown after the results of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import attrs
import pytest

from ramet.actors.submission import Decision
from ramet.actors.turn import Finish
from ramet.lifecycle import driver
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.returning import finished_by
from tests.lifecycle.accepting import DISTURBANCES, RETURNS
from tests.lifecycle.accepting_judged import play
from tests.schedules import Backend

ALONE = ("a reply", "a schema", "a text")
"""What is returned by the first request: no budget refuses an answer (A-147)."""


@pytest.fixture(scope="module")
def counted(remark: Callable[[str], None]) -> Iterator[Counter[str]]:
    """Counts the points that were disturbed, by the disturbance."""
    counts: Counter[str] = Counter()
    yield counts
    if counts:
        each = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        remark(f"acceptance sweep: {counts.total()} points disturbed: {each}")


@pytest.mark.case("A-023", "A-048", "A-050", "A-051", "A-130", "A-149")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("name", RETURNS)
def test_a_disturbed_return_stands_or_does_not_exist(
    name: str, disturbance: str, backend: Backend, counted: Counter[str]
) -> None:
    returns = RETURNS[name]
    if disturbance == "caller" and returns.headless:
        disturbance = "cancel"
    whole = play(returns, backend)
    assert whole.accepted
    ends: Counter[bool] = Counter()
    for at in range(1, whole.points + 1):
        try:
            played = play(returns, backend, disturbance, at)
        except BaseException as error:
            error.add_note(f"{name} on {backend}: {disturbance} at point {at}")
            raise
        assert played.disturbed, f"there was no point {at}"
        ends[played.accepted] += 1
    counted[disturbance] += ends.total()
    assert ends[True], f"no {disturbance} came too late"
    if disturbance != "interrupt" and not (disturbance == "budget" and name in ALONE):
        assert ends[False] or disturbance == "caller", f"no {disturbance} came in time"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_that_says_completed_and_settles_nothing_is_found(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: an accepted return ends the turn, and not the assignment."""

    def careless(activation: Activation, decision: Decision, now: int) -> Finish | None:
        finish = finished_by(activation, decision, now)
        return None if finish is None else attrs.evolve(finish, conclusion=None)

    monkeypatch.setattr(driver, "finished_by", careless)
    with pytest.raises(AssertionError, match="turn and outcome differ"):
        play(RETURNS["a reply after work"], backend, "timeout", 0)
