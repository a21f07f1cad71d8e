"""A shortened transcript: what stands in it, what stays, and what is illegal."""

from __future__ import annotations

import pytest

from ramet.mailbox.errors import IllegalEventError
from ramet.mailbox.events import Compacted, Event
from ramet.mailbox.message import (
    AssistantMessage,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.mailbox.session import fold
from ramet.mailbox.shortening import shorten, summary_of, unshown
from tests.logs import (
    accepted,
    begun,
    call,
    compacted,
    entered,
    failed,
    interrupted,
    landed,
    opened,
    quiet,
    session_of,
    stepped,
    turn_ended,
)

LONG = (
    accepted("m"),
    opened(1, "m"),
    stepped("a", call()),
    quiet("q1", "c"),
    landed(0),
    stepped("b", call()),
    landed(0),
    failed(),
)
"""The transcript: m, a and its results, q1, b and its results."""


@pytest.mark.case("R-236")
def test_the_summary_is_framed_and_names_the_live_children() -> None:
    made = summary_of(Compacted("so far", 0, 0, (), ("c1", "c2")))
    assert (made.id, made.source, made.sender) == ("", "summary", "ramet")
    frame, summary, children = made.blocks
    assert "shortened" in frame
    assert summary == "so far"
    assert children == "Your live children: c1, c2."
    alone = summary_of(Compacted("Your live children: c9.", 0))
    assert alone.blocks[1:] == ("Your live children: c9.", "You have no live child.")


@pytest.mark.case("R-236")
def test_the_summary_stands_for_all_that_is_dropped() -> None:
    session = session_of(*LONG, compacted())
    assert session.transcript == [summary_of(compacted())]
    session = session_of(*LONG, compacted(2, "m", "q1"))
    assert [type(it) for it in session.transcript] == [
        UserMessage,
        UserMessage,
        UserMessage,
        AssistantMessage,
        ToolMessage,
    ]
    assert entered(session) == ["", "m", "q1"]


@pytest.mark.case("R-237")
def test_a_compaction_changes_the_transcript_and_nothing_else() -> None:
    busy = (*LONG, accepted("w"), quiet("behind"), accepted("r", "c", "report"))
    before, after = session_of(*busy), session_of(*busy, compacted())
    assert after.seq == before.seq + 1
    after.seq -= 1
    after.transcript = before.transcript
    assert after == before


@pytest.mark.case("R-238")
def test_what_is_staged_enters_behind_the_summary_and_once() -> None:
    session = session_of(*LONG, quiet("n", "c", "notice"), compacted(0, "m"))
    assert entered(session) == ["", "m", "n"]
    session = session_of(
        *LONG, accepted("w", "d"), quiet("n", "d", "notice"), compacted(0, "m")
    )
    assert entered(session) == ["", "m"]
    session.apply(turn_ended())
    session.apply(opened(2, "w"))
    assert entered(session) == ["", "m", "w", "n"]


def test_what_it_cost_is_counted_and_unread_stays_unread() -> None:
    session = session_of(*LONG, compacted(usage=Usage(2, 30, 4)))
    assert session.usage == Usage(5, 30, 4, tool_calls=2)
    assert not session.unread
    assert session_of(accepted("m"), opened(1, "m"), failed(), compacted()).unread


def test_a_second_compaction_drops_the_first_summary() -> None:
    session = session_of(*LONG, compacted(2), stepped("c"), compacted(1))
    assert [type(it) for it in session.transcript] == [UserMessage, AssistantMessage]


ILLEGAL: dict[str, tuple[tuple[Event, ...], Event]] = {
    "before any turn": ((accepted("m"),), compacted()),
    "with open calls": (LONG[:3], compacted()),
    "after the turn": ((*LONG, turn_ended()), compacted()),
    "nothing dropped": (LONG, compacted(6)),
    "more kept than there is": (LONG, compacted(7)),
    "less than nothing kept": (LONG, compacted(-1)),
    "results without their calls": (LONG, compacted(1)),
    "a message that is not there": (LONG, compacted(0, "nobody")),
    "a message that is kept anyway": (LONG, compacted(5, "q1")),
    "messages out of order": (LONG, compacted(0, "q1", "m")),
    "a message twice": (LONG, compacted(0, "m", "m")),
    "only what stays": ((accepted("m"), opened(1, "m"), failed()), compacted(0, "m")),
}


@pytest.mark.case("R-199")
@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_compaction_raises_and_changes_nothing(name: str) -> None:
    events, event = ILLEGAL[name]
    session = session_of(*events)
    with pytest.raises(IllegalEventError):
        session.apply(event)
    assert session == session_of(*events)


def test_an_interrupted_turn_may_still_be_compacted() -> None:
    session = session_of(*LONG, interrupted(), compacted())
    assert session.interrupted == "host"


def test_what_no_answer_has_followed_is_unshown() -> None:
    session = session_of(*LONG[:5])
    assert unshown(session.transcript) == {"q1"}
    assert unshown(fold((*begun(), accepted("m"), opened(1, "m"))).transcript) == {"m"}
    assert unshown(session_of(*LONG).transcript) == set()


def test_the_transcript_that_was_there_is_not_changed() -> None:
    session = session_of(*LONG)
    before = list(session.transcript)
    shorten(session.transcript, compacted())
    assert session.transcript == before
