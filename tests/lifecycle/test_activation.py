"""An activation: its state in one word, whether it may settle, and who is below it."""

from __future__ import annotations

import pytest

from ramet.lifecycle.activation import (
    Activation,
    Closing,
    Life,
    State,
    may_settle,
    state_of,
)
from ramet.mailbox.events import Event, Kind
from ramet.mailbox.message import Usage
from tests.lifecycle.residents import own, resident
from tests.logs import (
    accepted,
    concluded,
    interrupted,
    opened,
    quiet,
    stepped,
    turn_ended,
)

IN_TURN = (accepted("m"), opened(1, "m"))
PARKED = (*IN_TURN, accepted("b"), interrupted(), turn_ended("cancelled"))


@pytest.mark.case("R-010", "R-087", "R-083")
@pytest.mark.parametrize(
    ("life", "children", "events", "state"),
    [
        (Life.LIVE, False, (), "parked"),
        (Life.LIVE, False, (quiet("q"),), "parked"),
        (Life.LIVE, False, (accepted("m"),), "running"),
        (Life.LIVE, False, IN_TURN, "running"),
        (Life.LIVE, True, IN_TURN, "running"),
        (Life.LIVE, True, (), "waiting"),
        (Life.LIVE, True, (accepted("m"),), "waiting"),
        (Life.LIVE, False, PARKED, "parked"),
        (Life.CLOSING, True, IN_TURN, "closing"),
        (Life.GONE, False, (), "gone"),
    ],
)
def test_the_state_is_one_word_read_from_what_there_is(
    life: Life, children: bool, events: tuple[Event, ...], state: State
) -> None:
    activation = resident("continuable", *events, life=life)
    if children:
        resident(session="g", parent=activation)
    assert state_of(activation) == state


@pytest.mark.case("R-108", "R-046", "R-047", "R-137")
@pytest.mark.parametrize(
    ("kind", "events", "settles"),
    [
        ("continuable", (), True),
        ("continuable", (quiet("q"),), True),
        ("continuable", (accepted("m"),), False),
        ("continuable", PARKED, True),
        ("interactive", (), False),
        ("interactive", PARKED, False),
        ("oneshot", (accepted("m"), concluded("m")), False),
        ("oneshot", (*IN_TURN, turn_ended(), concluded("m")), True),
        ("oneshot", (*IN_TURN, turn_ended()), False),
        ("headless", (*IN_TURN, turn_ended(), concluded("m")), True),
        ("headless", (), False),
    ],
)
def test_who_is_at_rest_and_may_end_by_itself(
    kind: Kind, events: tuple[Event, ...], settles: bool
) -> None:
    assert may_settle(resident(kind, *events)) is settles


@pytest.mark.case("R-149")
@pytest.mark.parametrize(
    ("cause", "keeps"),
    [("drain", True), ("interrupted", True), ("cancelled", False), ("x", False)],
)
def test_only_a_rest_keeps_what_waits(cause: str, keeps: bool) -> None:
    assert Closing(cause).keeps is keeps


def test_a_turn_makes_no_further_request_when_it_is_interrupted_or_closing() -> None:
    assert not resident("continuable", *IN_TURN).stopped
    assert resident("continuable", *IN_TURN, interrupted()).stopped
    assert resident(life=Life.CLOSING).stopped
    assert resident(life=Life.GONE).stopped


def test_gone_is_gone() -> None:
    assert resident(life=Life.GONE).gone
    assert not resident(life=Life.CLOSING).gone


def test_its_name_is_that_of_its_spec() -> None:
    assert resident().name == "worker"


def test_its_usage_holds_that_of_its_children_that_are_gone() -> None:
    activation = resident("continuable", *IN_TURN, stepped("hi", usage=Usage(1, 5, 2)))
    assert activation.usage == Usage(1, 5, 2)
    activation.below = Usage(3, 10)
    assert activation.usage == Usage(4, 15, 2)


def test_what_a_session_had_spent_before_it_was_resumed_is_not_spent_again() -> None:
    resumed = resident("continuable", *IN_TURN, stepped("hi", usage=Usage(1, 5, 2)))
    assert resumed.spent == Usage(0, 0, 0)
    resumed.below = Usage(3, 10)
    assert resumed.spent == Usage(3, 10, 0)
    fresh = resident("continuable")
    fresh.below = Usage(3, 10)
    assert fresh.spent == Usage(3, 10)


def family() -> dict[str, Activation]:
    """A root with two children, the first with two of its own."""
    root = resident("interactive", session="p")
    one, two = resident(session="c"), resident(session="d")
    own(root, one, two)
    own(one, resident(session="g"), resident(session="h"))
    return {it.id: it for it in root.subtree()}


@pytest.mark.case("R-112")
def test_the_subtree_has_parents_before_children_in_order_of_birth() -> None:
    assert list(family()) == ["p", "c", "g", "h", "d"]


def test_the_lineage_goes_up_to_the_root() -> None:
    assert [it.id for it in family()["h"].lineage()] == ["h", "c", "p"]


def test_a_very_deep_line_needs_no_recursion() -> None:
    root = at = resident("interactive", session="s0")
    for number in range(1, 3000):
        at = resident(session=f"s{number}", parent=at)
    assert len(root.subtree()) == len(at.lineage()) == 3000
