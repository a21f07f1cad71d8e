"""Readers: listings, statuses, outcomes and explanations from a row or from one log."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ramet.actors.contract import Choice, Reply
from ramet.actors.outcome import Acceptance, Outcome, TreeUsage
from ramet.lifecycle.activation import Activation, Closing, Life
from ramet.lifecycle.readers import (
    Explanation,
    MessageStatus,
    explain_row,
    explain_session,
    listing_of,
    outcome_in,
    resting_place,
    status_in,
)
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.errors import UnknownMessageError
from ramet.mailbox.events import Concluded, Discarded, Event, Kind
from ramet.mailbox.message import Usage
from ramet.mailbox.session import fold
from ramet.mailbox.store import SessionRow, Summary
from tests.lifecycle.residents import resident
from tests.logs import (
    accepted,
    activated,
    begun,
    call,
    concluded,
    discarded,
    ended,
    failed,
    header,
    interrupted,
    landed,
    opened,
    quiet,
    stepped,
    turn_ended,
)

TOTAL = TreeUsage(Usage(1), Usage(2))
IN_TURN = (accepted("m"), opened(1, "m"))
PARKED = (*IN_TURN, accepted("b"), interrupted(), turn_ended("cancelled"))


def row_of(*events: Event, kind: Kind = "continuable") -> SessionRow:
    """The index row of a log that begins with its header."""
    summary = fold(events).summary()
    return SessionRow("c", "p", 1, "worker", kind, 5, len(events), None, 1, summary)


# Listings.


@pytest.mark.case("R-082", "R-086")
def test_a_line_of_a_session_that_is_not_resident_comes_from_its_row_alone() -> None:
    usage = Usage(3, 10, None, None, None, 2)
    summary = Summary(None, 4, False, True, 2, 1, 0, usage, 99)
    row = SessionRow("c", "p", 1, "worker", "oneshot", 5, 9, None, 1, summary)
    line = listing_of(row, None, here=True, running=frozenset())
    assert attrs.astuple(line) == (
        *("c", "p", 1, "worker", "oneshot", "gone", 2, 5, 99, 4),
        *(3, 10, None, 2, None),
    )


@pytest.mark.case("R-082", "R-083")
def test_a_line_of_a_resident_has_its_live_state() -> None:
    row = row_of(*begun())
    live = resident("continuable", *PARKED)
    line = listing_of(row, live, here=True, running=frozenset())
    assert (line.state, line.pending) == ("parked", 1)


@pytest.mark.case("R-183")
@pytest.mark.parametrize(
    ("events", "here", "running", "state"),
    [
        ((*begun(), ended()), False, False, "gone"),
        (begun(), True, False, "cut"),
        ((*begun(), *IN_TURN), True, False, "cut"),
        ((*begun(), *IN_TURN), False, False, "running"),
        (begun(), False, True, "waiting"),
        (begun(), False, False, "parked"),
    ],
)
def test_the_state_of_what_is_not_resident_here(
    events: tuple[Event, ...], here: bool, running: bool, state: str
) -> None:
    known = frozenset("c" if running else "")
    line = listing_of(row_of(*events), None, here=here, running=known)
    assert line.state == state


# Statuses.


def status(*events: Event, message: str = "x") -> MessageStatus:
    return status_in([*begun(), *events], message, "c")


@pytest.mark.case("R-068")
def test_a_waking_message_is_stored_then_claimed_by_its_turn() -> None:
    log = (accepted("x"), opened(1, "x"), turn_ended())
    assert status(log[0]) == MessageStatus("x", "c", "stored")
    for length in (2, 3):
        assert status(*log[:length]) == MessageStatus("x", "c", "claimed", 1)


@pytest.mark.case("R-068")
def test_a_discarded_message_says_why() -> None:
    log = (*IN_TURN, accepted("x"), accepted("y"), discarded("y"))
    assert status(*log).state == "stored"
    assert status(*log, discarded("x")) == MessageStatus(
        "x", "c", "discarded", cause="cancelled"
    )
    reasoned = status(*log, Discarded("x", "cancelled", 0, "no longer needed"))
    assert reasoned.cause == "no longer needed"


@pytest.mark.case("R-069")
def test_a_quiet_message_is_claimed_by_the_first_turn_that_asks_with_it() -> None:
    log: list[Event] = [quiet("x"), *IN_TURN]
    assert status(*log).state == "stored"
    for asked in (stepped("hi"), failed()):
        assert status(*log, asked) == MessageStatus("x", "c", "claimed", 1)


@pytest.mark.case("R-069")
def test_a_quiet_message_that_was_staged_is_claimed_by_the_request_after_it() -> None:
    log: list[Event] = [*IN_TURN, stepped("", call()), quiet("x"), landed(0)]
    assert status(*log).state == "stored"
    assert status(*log, stepped("hi")).turn == 1
    late: list[Event] = [*IN_TURN, quiet("x"), stepped("hi"), turn_ended()]
    assert status(*late).state == "stored"
    again: list[Event] = [
        accepted("n"),
        opened(2, "n"),
        turn_ended(),
        accepted("o"),
        opened(3, "o"),
    ]
    assert status(*late, *again, stepped("hi")).turn == 3


@pytest.mark.case("R-069")
def test_a_message_that_enters_with_other_messages_is_found_among_them() -> None:
    log: list[Event] = [
        *IN_TURN,
        quiet("w", "d"),
        quiet("x", "e"),
        stepped("hi"),
        turn_ended(),
    ]
    more: list[Event] = [accepted("n"), opened(2, "n"), stepped("hi")]
    assert status(*log, *more).turn == 2


@pytest.mark.case("R-069")
def test_a_quiet_message_is_claimed_by_the_request_that_is_being_made() -> None:
    log: list[Event] = [*begun(), quiet("x"), *IN_TURN, quiet("y", "d")]
    for asked, state in ((0, "stored"), (1, "claimed"), (2, "claimed")):
        assert status_in(log, "x", "c", asked).state == state
    assert status_in(log, "y", "c", 2).state == "stored"
    assert status_in([*log, turn_ended()], "x", "c", 2).state == "stored"


def test_a_fault_that_was_met_before_stands_in_the_line() -> None:
    row = row_of(*begun())
    line = listing_of(row, None, here=True, running=frozenset(), fault="corrupt")
    assert line.fault == "corrupt"


@pytest.mark.case("R-072")
def test_a_wake_that_the_budget_refused_says_that_it_is_deferred() -> None:
    deferred = accepted("x", "d", "report", given="quiet")
    assert status(deferred).deferred
    assert not status(quiet("x")).deferred
    undecided = accepted("x", "d", "notice", given="undecided")
    assert not status(undecided).deferred


def test_a_message_of_another_log_is_unknown() -> None:
    with pytest.raises(UnknownMessageError, match="the log of c has no 'x'"):
        status(accepted("y"))


# Outcomes.


def outcome(*events: Event, message: str = "m") -> Outcome[Any] | None:
    return outcome_in([*begun(), *events], message, TOTAL)


@pytest.mark.case("R-118", "A-047")
def test_the_outcome_of_an_assignment_is_that_of_its_turn() -> None:
    log = (*IN_TURN, accepted("n"), turn_ended("failed", "provider-error", "why"))
    assert outcome(*log[:-1]) is None
    assert outcome(*log) == Outcome(
        status="failed",
        cause="provider-error",
        detail="why",
        usage=TOTAL,
        message_id="m",
        session_id="c",
    )
    assert outcome(*log, message="n") is None
    later = (*log, opened(2, "n"), turn_ended())
    found = outcome(*later, message="n")
    assert found is not None
    assert found.status == "completed"
    assert outcome(*later) == outcome(*log)


@pytest.mark.case("R-121")
def test_the_outcome_of_a_discarded_assignment_is_its_cancel() -> None:
    log = (accepted("n"), accepted("m"), discarded("n"), discarded("m", "stop"))
    found = outcome(*log)
    assert found is not None
    assert (found.status, found.cause) == ("cancelled", "stop")


def returned(conclusion: Concluded, **options: Any) -> Outcome[Any] | None:
    contract = options.get("contract", Choice(["a", "b"]))
    first = header("oneshot", contract=canonical_json(contract.record()))
    log: list[Event] = [first, activated(), accepted("m", source="prompt"), conclusion]
    return outcome_in(log, options.get("message", "m"), TOTAL)


def test_the_outcome_of_a_returning_agent_is_its_conclusion() -> None:
    receipt = '{"source": "fallback", "attempts": 2}'
    found = returned(concluded("m", "completed", None, '"a"', receipt=receipt))
    assert found == Outcome(
        status="completed",
        value="a",
        acceptance=Acceptance("fallback", 2, 0),
        usage=TOTAL,
        message_id="m",
        session_id="c",
    )
    assert returned(concluded("m"), message="n") is None


@pytest.mark.case("R-118")
def test_a_returning_agent_without_a_conclusion_has_no_outcome_yet() -> None:
    log: list[Event] = [header("oneshot"), activated(), *IN_TURN, turn_ended()]
    assert outcome_in(log, "m", TOTAL) is None


@pytest.mark.case("A-044")
def test_an_outcome_without_a_value_keeps_axis_and_detail() -> None:
    stopped = Concluded(
        "m", "stopped", "request-budget", 0, axis="requests", detail="spent"
    )
    found = returned(stopped)
    assert found is not None
    assert (found.axis, found.detail, found.acceptance) == ("requests", "spent", None)
    empty = returned(concluded("m", "completed", "empty", '""'), contract=Reply())
    assert empty is not None
    assert empty.value is None
    assert empty.acceptance == Acceptance()
    bare = returned(concluded("m"), contract=Reply())
    assert bare is not None
    assert bare.value is None


def test_a_conclusion_without_a_contract_has_no_value() -> None:
    log: list[Event] = [header("oneshot"), activated(), accepted("m"), concluded("m")]
    found = outcome_in(log, "m", TOTAL)
    assert found is not None
    assert found.acceptance is None


@pytest.mark.case("R-264")
def test_where_an_assignment_rests_says_why_and_what_runs_it() -> None:
    def said(*log: Event) -> str:
        return resting_place(fold([*begun(), *log]), "b")

    runs = "a followup of its parent, or a resume"
    assert said(*PARKED, ended()) == (
        "an interrupt parked assignment b in session c, which settled:"
        f" {runs} and a wakeup, runs it, and a cancel discards it"
    )
    assert said(accepted("b"), ended()) == (
        "assignment b waits in session c, which came to rest and is not resident:"
        f" {runs}, runs it, and a cancel discards it"
    )
    assert "was cut off and is not resident" in said(*PARKED)


# Explanations.


def why(activation: Activation, state: str) -> str:
    found = explain_session(activation)
    assert (found.id, found.state) == ("c", state)
    return found.why


@pytest.mark.case("R-087")
def test_a_turn_is_explained_by_what_it_answers_and_what_it_waits_for() -> None:
    base = resident("continuable", *IN_TURN)
    assert why(base, "running") == (
        "turn 1 answers followup m; it waits for its model (request 1 of the turn)"
    )
    calls = (call("look"), call("find"), call("dig"))
    batch = resident("continuable", *IN_TURN, stepped("", *calls), landed(1))
    assert why(batch, "running") == (
        "turn 1 answers followup m; in step 1 it runs look, dig"
    )
    stopped = resident("continuable", *IN_TURN, interrupted("p"))
    assert why(stopped, "running") == (
        "turn 1 answers followup m; it was interrupted by p and unwinds"
    )


@pytest.mark.case("R-087")
def test_every_other_state_is_explained_by_its_cause() -> None:
    waiting = resident("continuable", accepted("m"), accepted("n"))
    assert why(waiting, "running") == "2 messages wait for its next turn"
    owner = resident()
    for name in "ghijkl":
        resident(session=name, parent=owner)
    assert why(owner, "waiting") == "it waits for 6 live children: g, h, i, j, k"
    assert why(resident("continuable", *PARKED), "parked") == (
        "an interrupt parked it with 1 messages; the next wakeup runs them"
    )
    idle = "it is idle: nothing waits and it owns no live child"
    assert why(resident(), "parked") == idle


@pytest.mark.case("R-087")
@pytest.mark.parametrize(
    ("closing", "text"),
    [
        (None, "it is closing by it settles"),
        (Closing("drain"), "it is closing by drain"),
        (Closing("cancelled", "enough"), "it is closing by cancelled: enough"),
    ],
)
def test_a_closing_is_explained_by_its_cause(
    closing: Closing | None, text: str
) -> None:
    activation = resident(life=Life.CLOSING)
    activation.closing = closing
    assert why(activation, "closing") == text


def explained(*events: Event, here: bool = False) -> Explanation:
    return explain_row(row_of(*events), list(events), here=here)


@pytest.mark.case("R-087")
@pytest.mark.parametrize(
    ("events", "text"),
    [
        ((), "it settled: nothing waits in it"),
        ((accepted("m"),), "it came to rest with 1 messages that run when it is"),
        (PARKED, "it settled; an interrupt parked 1 messages in it"),
    ],
)
def test_a_session_at_rest_is_explained_from_its_log(
    events: tuple[Event, ...], text: str
) -> None:
    found = explained(*begun(), *events, ended())
    assert found.state == "gone"
    assert found.why.startswith(text)


def test_a_returning_agent_at_rest_is_explained_by_its_outcome() -> None:
    base = (*begun("oneshot"), accepted("m"), opened(1, "m"), turn_ended())
    good = explained(*base, concluded("m"), ended())
    assert good.why == "its assignment ended completed"
    bad = explained(*base, concluded("m", "failed", "no-reply"), ended())
    assert bad.why == "its assignment ended failed (no-reply)"


@pytest.mark.case("R-087", "R-183")
def test_a_session_of_another_process_is_explained_as_it_is_or_as_cut() -> None:
    assert explained(*begun(), *IN_TURN) == Explanation(
        "c",
        "running",
        "turn 1 answers followup m; it waits for its model (request 1 of the turn)",
    )
    assert explained(*begun(), accepted("m")) == Explanation(
        "c", "parked", "it is resident; 1 messages wait"
    )
    cut = explained(*begun(), here=True)
    assert cut.state == "cut"
    assert cut.why.startswith("the process that ran it is no more; at its end")


@pytest.mark.case("R-085")
def test_a_log_that_cannot_be_folded_is_explained_as_unreadable() -> None:
    row = row_of(*begun())
    found = explain_row(row, [*begun(), ended(), ended()], here=False)
    assert found.state == "unreadable"
    assert "nothing is active" in found.why
