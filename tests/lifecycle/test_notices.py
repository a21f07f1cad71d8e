"""Notices: whether one wakes the parent, when it is promoted, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from ramet.actors.policy import Policy
from ramet.lifecycle.activation import Activation, Life
from ramet.lifecycle.notices import (
    notice_given,
    notice_text,
    promotable,
    unread_beyond_notices,
)
from ramet.mailbox.events import Event, Given, Kind
from ramet.mailbox.session import Untold
from tests.lifecycle.residents import resident
from tests.logs import (
    accepted,
    concluded,
    interrupted,
    notice,
    opened,
    quiet,
    stepped,
    turn_ended,
)

IN_TURN = (accepted("t", "host", "tell"), opened(1, "t"))
READ = (*IN_TURN, stepped("read"))
AT_REST = (*READ, turn_ended())
REPORT = quiet("r", "c", "report")


def parent(
    *events: Event, kind: Kind = "interactive", life: Life = Life.LIVE, **policy: Any
) -> Activation:
    return resident(kind, *events, session="p", life=life, policy=Policy(**policy))


def given(activation: Activation, *, bad: bool = False, last: bool = True) -> Given:
    return notice_given(activation, resident(), bad=bad, last=last)


# Auto.


@pytest.mark.case("R-124")
def test_a_good_end_is_quiet_while_another_child_lives() -> None:
    assert given(parent(*AT_REST, REPORT), last=False) == "quiet"


@pytest.mark.case("R-125", "R-126")
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("events", [(), IN_TURN, AT_REST, (*AT_REST, REPORT)])
def test_a_bad_end_wakes_whatever_the_parent_does(
    events: tuple[Event, ...], last: bool
) -> None:
    assert given(parent(*events), bad=True, last=last) == "wakeup"


@pytest.mark.case("R-127")
def test_the_last_end_wakes_an_idle_parent_that_has_something_unread() -> None:
    assert given(parent(*AT_REST, REPORT)) == "wakeup"


@pytest.mark.case("R-128")
def test_the_last_end_is_quiet_when_everything_is_read() -> None:
    assert given(parent(*AT_REST)) == "quiet"
    assert given(parent(*IN_TURN, REPORT, stepped("read"), turn_ended())) == "wakeup"
    read = (*IN_TURN, stepped("one"), turn_ended(), REPORT)
    again = accepted("u", "host", "tell"), opened(2, "u"), stepped("two"), turn_ended()
    assert given(parent(*read, *again)) == "quiet"


@pytest.mark.case("R-128")
def test_notices_that_nobody_read_are_nothing_unread() -> None:
    assert given(parent(*AT_REST, notice("n", "d", "quiet"))) == "quiet"


def test_a_parent_that_will_take_a_turn_anyway_needs_no_wake() -> None:
    waiting = (*AT_REST, REPORT, accepted("w", "d", "report"))
    assert given(parent(*waiting)) == "quiet"


@pytest.mark.case("R-127")
def test_a_parked_queue_is_no_turn_so_that_the_last_end_wakes_it() -> None:
    parked = (*IN_TURN, accepted("w", "d", "report"), REPORT, interrupted())
    activation = parent(*parked, turn_ended("cancelled", "interrupted"))
    assert given(activation) == "wakeup"


@pytest.mark.case("R-259")
@pytest.mark.parametrize("last", [True, False])
def test_a_good_end_that_meets_an_open_turn_is_undecided(last: bool) -> None:
    assert given(parent(*IN_TURN), last=last) == "undecided"


@pytest.mark.case("R-132", "R-261")
@pytest.mark.parametrize("life", [Life.CLOSING, Life.GONE])
@pytest.mark.parametrize("notices", ["auto", "wakeup", "quiet", "off"])
def test_a_parent_that_is_ending_is_never_woken(life: Life, notices: str) -> None:
    for kind in ("interactive", "oneshot"):
        activation = parent(*AT_REST, REPORT, life=life, notices=notices)
        assert given(activation, bad=True) == "quiet", kind


# The other policies.


@pytest.mark.case("R-131")
@pytest.mark.parametrize("bad", [True, False])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("events", [IN_TURN, AT_REST, (*AT_REST, REPORT)])
def test_a_fixed_policy_decides_everything_and_leaves_nothing_undecided(
    events: tuple[Event, ...], last: bool, bad: bool
) -> None:
    fates: dict[str, Given] = {"wakeup": "wakeup", "quiet": "quiet", "off": "quiet"}
    for notices, fate in fates.items():
        assert given(parent(*events, notices=notices), bad=bad, last=last) == fate


@pytest.mark.case("R-131", "R-224")
@pytest.mark.parametrize("notices", ["auto", "wakeup", "quiet", "off"])
@pytest.mark.parametrize("kind", ["oneshot", "headless"])
def test_the_last_child_wakes_a_returning_agent_that_waits(
    kind: Kind, notices: str
) -> None:
    waits = parent(*AT_REST, kind=kind, notices=notices)
    assert given(waits) == "wakeup"
    done = parent(*AT_REST, concluded("t"), kind=kind, notices=notices)
    others = given(parent(*AT_REST, notices=notices))
    assert given(done) == others
    assert given(waits, last=False) == others


def test_a_returning_agent_in_a_turn_is_as_any_other() -> None:
    assert given(parent(*IN_TURN, kind="oneshot")) == "undecided"


# Promotion.

UNDECIDED = notice("n", "c", "undecided")
MORE = notice("o", "d", "undecided")


@pytest.mark.case("R-129", "R-260")
def test_undecided_notices_are_promoted_together_when_something_else_is_unread() -> (
    None
):
    assert promotable(parent(*READ, REPORT, UNDECIDED, MORE)) == ("n", "o")
    landed_unread = (*IN_TURN, quiet("q"), UNDECIDED)
    assert promotable(parent(*landed_unread)) == ("n",)


@pytest.mark.case("R-260", "R-128")
def test_nothing_is_promoted_when_only_notices_are_unread() -> None:
    assert promotable(parent(*READ, UNDECIDED, MORE)) == ()


@pytest.mark.case("R-260")
def test_nothing_is_promoted_when_something_waits_or_a_child_lives() -> None:
    events = (*READ, REPORT, UNDECIDED)
    assert promotable(parent(*events, accepted("w", "d", "report"))) == ()
    with_child = parent(*events)
    resident(session="g", parent=with_child)
    assert promotable(with_child) == ()


@pytest.mark.case("R-261")
def test_nothing_is_promoted_in_an_interrupted_turn_or_a_closing_parent() -> None:
    events = (*READ, REPORT, UNDECIDED)
    assert promotable(parent(*events, interrupted())) == ()
    assert promotable(parent(*events, life=Life.CLOSING)) == ()


@pytest.mark.case("R-260")
def test_a_quiet_notice_is_never_promoted() -> None:
    assert promotable(parent(*READ, REPORT, notice("n", "c", "quiet"))) == ()
    assert promotable(parent(*READ)) == ()


def test_what_is_unread_is_what_entered_or_is_staged_since_the_last_request() -> None:
    assert not unread_beyond_notices(parent(*READ))
    assert not unread_beyond_notices(parent(*READ, UNDECIDED))
    assert unread_beyond_notices(parent(*IN_TURN))
    assert unread_beyond_notices(parent(*READ, REPORT))
    assert unread_beyond_notices(parent(*AT_REST, REPORT))


# The text.


@pytest.mark.case("R-123", "R-120")
def test_a_notice_names_every_outcome_counts_and_the_transcript() -> None:
    outcomes = (
        Untold("m1", "completed", None),
        Untold("m2", "failed", "crashed", "the process ended"),
        Untold("m3", "cancelled", "interrupted"),
    )
    text = notice_text("c", "scout", outcomes, reports=2, pending=1, notes=("Note.",))
    assert text.splitlines() == [
        "Background subagent c (scout) came to rest.",
        "Assignment m1: completed.",
        "Assignment m2: failed (crashed): the process ended.",
        "Assignment m3: cancelled (interrupted).",
        "Reports: 2. Messages that still wait: 1.",
        "Note.",
        "Its transcript is session c.",
    ]


@pytest.mark.case("R-123")
def test_a_notice_does_not_tell_the_words_of_a_refusal() -> None:
    told = Untold("m1", "failed", "output-refused", "words of the child")
    text = notice_text("c", "scout", (told,), reports=0, pending=0)
    assert "Assignment m1: failed (output-refused)." in text
    assert "words of the child" not in text


@pytest.mark.case("R-262")
def test_a_notice_without_an_outcome_names_no_assignment() -> None:
    assert notice_text("c", "scout", (), reports=0, pending=0).splitlines() == [
        "Background subagent c (scout) came to rest.",
        "It had no assignment to tell of.",
        "Reports: 0. Messages that still wait: 0.",
        "Its transcript is session c.",
    ]


@pytest.mark.case("R-179")
def test_a_notice_of_a_crash_says_so() -> None:
    text = notice_text("c", "scout", (), reports=0, pending=3, crashed=True)
    assert text.startswith("Background subagent c (scout) was cut off by a crash.")
