"""A session: what each event means, what is illegal, and where messages enter."""

from __future__ import annotations

import copy

import pytest

from ramet.lifecycle.bookkeeper import sample_events
from ramet.mailbox import session as session_module
from ramet.mailbox.errors import IllegalEventError
from ramet.mailbox.events import Event, Told
from ramet.mailbox.message import (
    AssistantMessage,
    CallResult,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.mailbox.session import Returned, Session, Untold, fold
from ramet.mailbox.store import Summary
from tests.logs import (
    accepted,
    activated,
    begun,
    call,
    concluded,
    discarded,
    ended,
    entered,
    failed,
    header,
    interrupted,
    landed,
    notice,
    opened,
    promoted,
    quiet,
    session_of,
    stepped,
    submitted,
    turn_ended,
)


def returning(*events: Event) -> Session:
    """A one-shot child that was asked `m`."""
    return fold((*begun("oneshot"), accepted("m", source="prompt"), *events))


# Illegal events.

BUSY = (accepted("m"), opened(1, "m"))
IN_BATCH = (*BUSY, stepped("", call(), call()), landed(0))

ILLEGAL: dict[str, tuple[tuple[Event, ...], Event]] = {
    "a second header": (begun(), header()),
    "a message before the header": ((), accepted("m")),
    "an activation before the header": ((), activated()),
    "an outcome before the header": ((), concluded("m")),
    "told before the header": ((), Told(0)),
    "a second activation": (begun(), activated("a2")),
    "a turn without an activation": ((header(), accepted("m")), opened(1, "m")),
    "a turn in a turn": ((*begun(), *BUSY, accepted("n")), opened(2, "n")),
    "a turn with a number left out": ((*begun(), accepted("m")), opened(2, "m")),
    "a turn that claims nothing": ((*begun(), accepted("m")), opened(1)),
    "a turn that claims out of order": (
        (*begun(), accepted("m"), accepted("n")),
        opened(1, "n"),
    ),
    "a step without a turn": (begun(), stepped("hi")),
    "a step over open calls": ((*begun(), *IN_BATCH), stepped("hi")),
    "a failed request without a turn": (begun(), failed()),
    "a failed request over open calls": ((*begun(), *IN_BATCH), failed()),
    "a result without a batch": ((*begun(), *BUSY), landed(0)),
    "a second result": ((*begun(), *IN_BATCH), landed(0)),
    "a result of no call": ((*begun(), *IN_BATCH), landed(2)),
    "a result before the first call": ((*begun(), *IN_BATCH), landed(-1)),
    "a return of an agent that converses": ((*begun(), *BUSY), submitted()),
    "a return outside of a turn": (
        (*begun("oneshot"), accepted("m")),
        submitted(),
    ),
    "an interrupt without a turn": (begun(), interrupted()),
    "a second interrupt": ((*begun(), *BUSY, interrupted()), interrupted("p")),
    "a promotion of a quiet message": ((*begun(), *BUSY, quiet("q")), promoted("q")),
    "the end of no turn": (begun(), turn_ended()),
    "the end of a turn over open calls": ((*begun(), *IN_BATCH), turn_ended()),
    "a discard of what does not wait": ((*begun(), *BUSY), discarded("m")),
    "an outcome of an agent that converses": (
        (*begun(), accepted("m")),
        concluded("m"),
    ),
    "an outcome in a turn": ((*begun("oneshot"), *BUSY), concluded("m")),
    "an outcome of another assignment": (
        (*begun("oneshot"), accepted("m")),
        concluded("n"),
    ),
    "a second outcome": (
        (*begun("oneshot"), accepted("m"), concluded("m")),
        concluded("m", "failed"),
    ),
    "an end in a turn": ((*begun(), *BUSY), ended()),
    "an end without an activation": ((*begun(), ended()), ended()),
}


@pytest.mark.case("R-199")
@pytest.mark.parametrize(
    ("before", "event"),
    ILLEGAL.values(),
    ids=[name.replace(" ", "-") for name in ILLEGAL],
)
def test_an_event_that_the_state_does_not_allow_changes_nothing(
    before: tuple[Event, ...], event: Event
) -> None:
    session = fold(before)
    kept = copy.deepcopy(session)
    with pytest.raises(IllegalEventError):
        session.apply(event)
    assert session == kept


def test_every_kind_of_event_has_a_meaning() -> None:
    assert set(session_module._APPLY) == {type(event) for event in sample_events()}


def test_sessions_are_equal_by_their_state_and_equal_to_nothing_else() -> None:
    assert session_of(*BUSY) == session_of(*BUSY)
    assert session_of(*BUSY) != session_of(*BUSY, stepped("hi"))
    assert session_of() != 1


# Numbers.


@pytest.mark.case("R-008")
def test_the_sequence_rises_by_one_across_activations_and_repair() -> None:
    session = Session()
    log: list[Event] = [
        *begun(),
        *IN_BATCH,
        landed(1, "not known", "TOOL_OUTCOME_UNKNOWN"),
        turn_ended("failed", "crashed"),
        ended(reason="crashed"),
        activated("a2"),
        accepted("n"),
        opened(2, "n"),
    ]
    for place, event in enumerate(log):
        assert session.seq == place
        session.apply(event)
    assert session.seq == len(log)


def test_the_time_of_the_last_event_is_kept() -> None:
    session = session_of()
    session.apply(Told(77))
    assert session.last_at == 77


@pytest.mark.case("R-211")
def test_every_request_is_counted_with_what_the_provider_said() -> None:
    session = session_of(
        *BUSY,
        failed(Usage(1, 10, None, 3)),
        failed(),
        stepped("", call("look"), usage=Usage(1, 5, 7, 1, 2)),
        landed(0),
        stepped("hi", usage=Usage(1)),
        turn_ended(),
    )
    assert session.usage == Usage(4, 15, 7, 4, 2, 1)
    assert session.step == 4
    texts = [it.text for it in session.transcript if isinstance(it, AssistantMessage)]
    assert texts == ["", "hi"]


@pytest.mark.case("A-147")
def test_answers_and_calls_that_never_ran_are_no_tool_calls() -> None:
    names = ("look", "reply", "report", "look", "look", "look", "look", "look")
    errors = (
        None,
        None,
        None,
        "UNKNOWN_TOOL",
        "TOOL_WITHHELD",
        "INVALID_ARGS",
        "ABORTED_BEFORE_DISPATCH",
        "ABORTED",
    )
    session = session_of(
        *BUSY,
        stepped("", *map(call, names)),
        *(landed(place, "x", error) for place, error in enumerate(errors)),
    )
    assert session.usage.tool_calls == 2


def test_the_index_row_is_that_of_the_state() -> None:
    session = session_of(*BUSY, accepted("w"), quiet("q"), interrupted())
    assert session.summary() == Summary("a1", 1, True, True, 1, 1, 0, Usage(), 0)
    session.apply(turn_ended("cancelled", "interrupted"))
    session.apply(ended(told=False))
    assert session.summary() == Summary(None, 1, False, True, 1, 1, 1, Usage(), 0)


# Where messages enter.


@pytest.mark.case("R-036", "R-039")
def test_a_quiet_message_enters_at_once_without_an_open_turn() -> None:
    session = session_of(quiet("q"))
    assert entered(session) == ["q"]
    assert session.unread
    assert not session.inbox.claimable


@pytest.mark.case("R-037", "R-205")
def test_a_quiet_message_enters_after_all_results_and_never_between() -> None:
    session = session_of(*IN_BATCH, quiet("q"))
    assert entered(session) == ["m"]
    session.apply(landed(1))
    assert [type(it) for it in session.transcript] == [
        UserMessage,
        AssistantMessage,
        ToolMessage,
        UserMessage,
    ]
    assert entered(session) == ["m", "q"]


@pytest.mark.case("R-038")
def test_a_quiet_message_enters_at_the_end_of_a_turn_that_asks_no_more() -> None:
    session = session_of(*BUSY, stepped("done"), quiet("q"))
    assert entered(session) == ["m"]
    assert not session.unread
    session.apply(turn_ended())
    assert entered(session) == ["m", "q"]
    assert session.unread


@pytest.mark.case("R-050", "R-042")
def test_quiet_and_waking_messages_of_one_sender_enter_in_their_order() -> None:
    session = session_of(
        accepted("m"),
        opened(1, "m"),
        accepted("q1", "c", "report", given="quiet"),
        accepted("w1", "c", "report"),
        accepted("q2", "c", "report", given="quiet"),
        accepted("w2", "c", "report"),
        stepped("", call()),
        landed(0),
    )
    assert entered(session) == ["m", "q1"]
    session.apply(stepped("done"))
    session.apply(turn_ended())
    assert entered(session) == ["m", "q1"]
    session.apply(opened(2, "w1"))
    assert entered(session) == ["m", "q1", "w1", "q2"]
    session.apply(turn_ended())
    session.apply(opened(3, "w2"))
    assert entered(session) == ["m", "q1", "w1", "q2", "w2"]


@pytest.mark.case("R-051")
def test_a_parked_wakeup_holds_back_only_its_own_sender() -> None:
    session = session_of(*BUSY, accepted("w", "c", "report"), interrupted())
    session.apply(turn_ended("cancelled", "interrupted"))
    session.apply(quiet("qc", "c", "report"))
    session.apply(quiet("qd", "d", "report"))
    assert entered(session) == ["m", "qd"]


@pytest.mark.case("R-043")
def test_a_claim_of_all_enters_in_order_of_acceptance() -> None:
    session = session_of(*BUSY, accepted("w1"), quiet("q2"), accepted("w3"))
    session.apply(turn_ended())
    session.apply(opened(2, "w1", "w3"))
    assert entered(session) == ["m", "w1", "q2", "w3"]


@pytest.mark.case("R-056")
def test_a_cancel_discards_the_wakeup_and_lets_the_quiet_one_in() -> None:
    session = session_of(*BUSY, accepted("w1", "c", "report"), quiet("q2", "c"))
    session.apply(turn_ended("cancelled", "cancelled"))
    assert entered(session) == ["m"]
    session.apply(discarded("w1"))
    assert entered(session) == ["m", "q2"]


@pytest.mark.case("R-056")
def test_a_discard_in_a_turn_waits_for_its_next_safe_position() -> None:
    session = session_of(*BUSY, accepted("w1"), quiet("q2"), discarded("w1"))
    assert entered(session) == ["m"]
    session.apply(turn_ended())
    assert entered(session) == ["m", "q2"]


@pytest.mark.case("R-150")
@pytest.mark.parametrize("cause", ["interrupted", "cancelled"])
def test_staged_messages_enter_at_the_end_of_a_turn_that_was_stopped(
    cause: str,
) -> None:
    session = session_of(
        *BUSY,
        accepted("w", "d", "report"),
        quiet("q1", "c", "report"),
        quiet("q2", "d", "report"),
    )
    if cause == "interrupted":
        session.apply(interrupted())
    session.apply(turn_ended("cancelled", cause))
    assert entered(session) == ["m", "q1"]
    assert [it.id for _, it in session.inbox.staged] == ["q2"]


@pytest.mark.case("R-135", "R-141")
def test_an_interrupt_parks_and_a_wakeup_after_it_unparks() -> None:
    session = session_of(*BUSY, accepted("b"), interrupted("p"))
    assert session.interrupted == "p"
    assert session.inbox.parked
    session.apply(accepted("d"))
    assert not session.inbox.parked
    session.apply(turn_ended("cancelled", "interrupted"))
    assert session.interrupted is None
    assert session.inbox.next_claim(everything=False) == ("b",)


@pytest.mark.case("R-260", "R-259")
def test_an_undecided_notice_is_promoted_or_enters_as_quiet() -> None:
    events = (*BUSY, notice("n", "c", "undecided"), notice("o", "d", "undecided"))
    session = session_of(*events, promoted("n"), turn_ended())
    assert entered(session) == ["m", "o"]
    session.apply(opened(2, "n"))
    assert entered(session) == ["m", "o", "n"]
    assert not session_of(*events).inbox.claimable
    quietly = session_of(*events, stepped("", call()), landed(0))
    assert entered(quietly) == ["m", "n", "o"]


def test_a_notice_by_itself_is_nothing_unread() -> None:
    assert not session_of(notice("n", "c", "quiet")).unread


@pytest.mark.case("R-019")
def test_a_report_enters_with_its_frame_and_its_source() -> None:
    report = accepted("r", "c", "report", given="quiet", content=("one", "two"))
    (entry,) = session_of(report).transcript
    frame = "Background subagent c reported:"
    assert entry == UserMessage("r", "report", "c", (frame, "one", "two"))


# The transcript.


@pytest.mark.case("R-206")
def test_results_stand_in_the_order_of_the_calls_however_they_land() -> None:
    calls = (call("one"), call("two"), call("three"))
    session = session_of(*BUSY, stepped("now", *calls))
    for place in (2, 0, 1):
        assert not isinstance(session.transcript[-1], ToolMessage)
        session.apply(landed(place, f"result {place}"))
    results = tuple(CallResult(f"result {place}") for place in range(3))
    assert session.transcript[-2:] == [
        AssistantMessage("now", calls),
        ToolMessage(calls, results),
    ]


@pytest.mark.case("R-156")
def test_a_stopped_batch_shows_what_ran_what_was_stopped_and_what_never_began() -> None:
    session = session_of(*BUSY, stepped("", *map(call, "abc")))
    session.apply(landed(0, "real"))
    session.apply(landed(1, "stopped", "ABORTED"))
    session.apply(landed(2, "never", "ABORTED_BEFORE_DISPATCH"))
    session.apply(turn_ended("cancelled", "cancelled"))
    last = session.transcript[-1]
    assert isinstance(last, ToolMessage)
    assert [(it.content, it.error) for it in last.results] == [
        ("real", None),
        ("stopped", "ABORTED"),
        ("never", "ABORTED_BEFORE_DISPATCH"),
    ]
    assert session.usage.tool_calls == 2


@pytest.mark.case("R-209")
def test_a_response_of_nothing_leaves_no_empty_message() -> None:
    session = session_of(*BUSY, stepped(""))
    assert len(session.transcript) == 1
    assert session.usage.requests == 1
    assert not session.unread


# Outcomes.


@pytest.mark.case("R-118", "R-121")
def test_a_claimed_or_discarded_assignment_has_exactly_one_outcome() -> None:
    session = session_of(
        accepted("m1", source="prompt"),
        opened(1, "m1"),
        accepted("m2"),
        accepted("r", "x", "report"),
        turn_ended("failed", "provider-error", "why"),
        discarded("m2", "stop"),
        discarded("r", "stop"),
    )
    assert session.untold == (
        Untold("m1", "failed", "provider-error", "why"),
        Untold("m2", "cancelled", "stop"),
    )


def test_a_root_owes_nobody_its_outcomes() -> None:
    """So that nothing of it grows with what it has ended."""
    events = (accepted("m1"), opened(1, "m1"), turn_ended(), accepted("m2"))
    assert fold((*begun("interactive"), *events, discarded("m2"))).untold == ()
    headless = (accepted("m"), opened(1, "m"), turn_ended(), concluded("m"))
    assert fold((*begun("headless"), *headless)).untold == ()


@pytest.mark.case("R-120")
def test_a_turn_that_answers_several_assignments_ends_them_all() -> None:
    session = session_of(
        accepted("m1"),
        notice("n", "x"),
        accepted("m2"),
        opened(1, "m1", "n", "m2"),
        turn_ended(),
    )
    assert [it.message for it in session.untold] == ["m1", "m2"]
    assert session.assignment == "m1"


@pytest.mark.case("R-118")
def test_the_assignment_of_a_returning_agent_ends_by_its_conclusion_alone() -> None:
    session = returning(opened(1, "m"), submitted(), turn_ended())
    assert session.returning
    assert not session.untold
    assert len(session.submissions) == 1
    session.apply(accepted("late"))
    session.apply(discarded("late"))
    assert not session.untold
    session.apply(concluded("m", "completed", None, '"x"'))
    assert session.untold == (Untold("m", "completed", None),)
    assert session.assignment == "m"


@pytest.mark.case("A-045")
def test_a_submission_is_kept_with_the_call_that_made_it() -> None:
    reply = call("reply", '{"value": 1}', "id7")
    session = returning(
        opened(1, "m"),
        stepped("", call("look"), reply),
        submitted(1, "invalid"),
        submitted(7, "invalid"),
        landed(0),
        landed(1),
        submitted(-1, "missing"),
    )
    assert session.submissions == (
        Returned(submitted(1, "invalid"), 1, 1, '{"value": 1}', "id7"),
        Returned(submitted(7, "invalid"), 1, 1),
        Returned(submitted(-1, "missing"), 1, 1),
    )


def test_what_was_told_is_untold_no_longer() -> None:
    base = (*BUSY, turn_ended())
    assert session_of(*base).untold
    assert session_of(*base, ended(told=False)).untold
    assert not session_of(*base, ended()).untold
    assert not session_of(*base, ended(told=False), Told(0)).untold
