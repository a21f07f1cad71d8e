"""Compaction: what a function may give, and which event that becomes."""

from __future__ import annotations

from typing import Any

import pytest

from ramet.actors.compaction import Shortened, compacted_by
from ramet.mailbox.errors import UsageError
from ramet.mailbox.events import Compacted
from ramet.mailbox.message import Usage
from ramet.mailbox.session import Session, fold
from tests.logs import (
    accepted,
    begun,
    call,
    compacted,
    concluded,
    failed,
    landed,
    opened,
    quiet,
    session_of,
    stepped,
    turn_ended,
)

BUSY = (
    quiet("old"),
    accepted("m"),
    opened(1, "m"),
    stepped("a", call()),
    quiet("q", "c", "report"),
    landed(0),
    stepped("b", call()),
    quiet("new", "c", "report"),
    landed(0),
    failed(),
)
"""The transcript: old, m, a and its results, q, b and its results, new."""


def of(given: object, session: Session | None = None) -> Compacted:
    """The event of an answer."""
    return compacted_by(given, session or session_of(*BUSY), ["k1", "k2"], 7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", ""),
        ("text", " \n"),
        ("text", None),
        ("text", b"x"),
        ("keep", -1),
        ("keep", True),
        ("keep", 1.0),
        ("verbatim", 1),
        ("verbatim", None),
        ("usage", {"requests": 1}),
        ("usage", Usage(-1)),
        ("usage", Usage(1, True)),
    ],
)
def test_a_value_outside_its_contract_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{name} of Shortened"):
        Shortened(**{"text": "x", name: value})


@pytest.mark.parametrize("given", [b"x", 1, {"text": "x"}, ["x"], object()])
def test_an_answer_that_is_no_summary_is_refused(given: object) -> None:
    with pytest.raises(UsageError, match="must give a Shortened, a text or None"):
        of(given)
    with pytest.raises(UsageError, match="not blank"):
        of(" ")


@pytest.mark.case("R-236", "R-237")
def test_the_open_assignment_and_what_is_unread_stay_word_for_word() -> None:
    assert of("sum") == Compacted("sum", 7, 0, ("m", "new"), ("k1", "k2"))
    assert of(Shortened("sum", verbatim=False)).verbatim == ()


def test_what_is_kept_anyway_stays_once() -> None:
    assert of(Shortened("sum", keep=1)).verbatim == ("m",)
    event = of(Shortened("sum", keep=3))
    assert (event.kept, event.verbatim) == (3, ("m",))


def test_results_are_kept_with_their_calls() -> None:
    assert of(Shortened("sum", keep=2)).kept == 3
    assert of(Shortened("sum", keep=4)).kept == 4


@pytest.mark.parametrize("keep", [8, 9, 100])
def test_an_answer_that_drops_nothing_is_refused(keep: int) -> None:
    with pytest.raises(UsageError, match=f"keep={keep} of 8 messages drops nothing"):
        of(Shortened("sum", keep=keep))
    assert of(Shortened("sum", keep=7)).kept == 7
    with pytest.raises(UsageError, match="drops nothing"):
        of("sum", session_of(accepted("m"), opened(1, "m"), failed()))


def test_a_prompt_that_is_too_long_by_itself_can_go() -> None:
    session = session_of(accepted("m"), opened(1, "m"), failed())
    event = of(Shortened("it asked for much", verbatim=False), session)
    session.apply(event)
    assert len(session.transcript) == 1


def test_what_it_cost_is_at_least_one_request_and_no_tool_call() -> None:
    assert of(Shortened("sum", usage=Usage(0, 5, 6, tool_calls=3))).usage == Usage(
        1, 5, 6
    )
    assert of(Shortened("sum", usage=Usage(3))).usage == Usage(3)


@pytest.mark.case("A-183")
def test_the_assignment_of_a_returning_agent_stays_in_all_its_turns() -> None:
    prompted = accepted("m", source="prompt")
    first = (prompted, opened(1, "m"), stepped("a"), turn_ended())
    nudged = accepted("n", "ramet", "nudge")
    session = fold(
        (*begun("oneshot"), *first, nudged, opened(2, "n"), stepped("b", call()))
    )
    session.apply(landed(0))
    assert of("sum", session).verbatim == ("m",)
    untold = fold((*begun("oneshot"), nudged, opened(1, "n"), stepped("b")))
    assert of("sum", untold).verbatim == ()
    assert concluded("m").message == session.assignment


def test_a_first_summary_is_dropped_by_the_second() -> None:
    session = session_of(*BUSY, compacted(0, "m", "new"), failed())
    event = of("again", session)
    assert event.verbatim == ("m", "new")
    session.apply(event)
    assert len(session.transcript) == 3
