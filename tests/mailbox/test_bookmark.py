"""Bookmarks: the state of a session at one place of its log, as immutable data.

That every state comes back equal is held by the machine of `test_session_machine.py`.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from ramet import Call, CorruptLogError, UnsupportedLogError, UsageError
from ramet.lifecycle.contract_bookmarks import sample_bookmark
from ramet.mailbox import bookmark as bookmarks
from ramet.mailbox.bookmark import (
    MOST_CHARACTERS,
    Bookmark,
    bookmark_of,
    is_due,
    is_small,
    session_of,
)
from ramet.mailbox.codec import decode_bookmark, encode_bookmark
from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Created,
    Event,
    SpecRecord,
    StepEnded,
    Told,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import (
    AssistantMessage,
    CallResult,
    ToolMessage,
    UserMessage,
)
from ramet.mailbox.session import Session, fold

BUSY: list[Event] = [
    Created("s", None, 0, "interactive", SpecRecord("s"), 1),
    Activated("a", 1),
    Accepted("m1", "tell", "host", ("go",), "wakeup", 2),
    Accepted("m2", "tell", "host", ("on",), "wakeup", 2),
    TurnOpened(1, ("m1",), 3),
    StepEnded("", (Call("look", "{}", "c1"), Call("look", "{}", "c2")), "calls", 4),
    Accepted("q", "report", "c", ("seen",), "quiet", 5),
    Accepted("n", "notice", "c", ("over",), "undecided", 5),
    CallEnded(1, "two", 6),
]
"""A turn whose batch has one of two results, with messages that wait and are staged."""

REST: list[Event] = [
    CallEnded(0, "one", 7),
    StepEnded("done", (), "end", 8),
    TurnEnded("completed", None, 9),
    TurnOpened(2, ("m2",), 10),
    StepEnded("done", (), "end", 11),
    TurnEnded("completed", None, 12),
]


def test_a_state_that_was_put_aside_goes_on_as_the_log_does() -> None:
    for place in range(1, len(BUSY) + len(REST) + 1):
        log = [*BUSY, *REST]
        session = session_of(bookmark_of(fold(log[:place])))
        for event in log[place:]:
            session.apply(event)
        assert session == fold(log)


def test_what_happens_later_does_not_reach_a_bookmark() -> None:
    """Nor do two states that were taken up from one know of each other."""
    session = fold(BUSY)
    bookmark = bookmark_of(session)
    before = attrs.evolve(bookmark)
    one, other = session_of(bookmark), session_of(bookmark)
    for event in REST:
        session.apply(event)
        one.apply(event)
    assert bookmark == before
    assert other == fold(BUSY)
    assert one == session


def test_the_mark_is_where_the_last_bookmark_was_and_no_part_of_the_state() -> None:
    session = fold(BUSY)
    again = session_of(bookmark_of(session))
    assert (session.mark, again.mark) == (0, len(BUSY))
    assert session == again


def grown(events: int, transcript: int, mark: int = 0) -> Session:
    """A session with a log and a transcript of these lengths."""
    session = fold(BUSY[:2])
    session.seq, session.mark = events, mark
    session.transcript = session.transcript + [object()] * transcript  # type: ignore[list-item]
    return session


@pytest.mark.parametrize(
    ("session", "due"),
    [
        (grown(511, 0), False),
        (grown(512, 0), True),
        (grown(5_000, 0, 4_489), False),
        (grown(5_000, 0, 4_488), True),
        (grown(5_000, 20_000), True),
        (grown(4_999, 20_000), False),
    ],
)
def test_a_bookmark_is_due_after_many_events_and_a_share_of_the_transcript(
    session: Session, due: bool
) -> None:
    assert is_due(session) is due


def test_each_event_pays_for_a_bounded_part_of_the_bookmarks() -> None:
    """However long the transcript grows, no more than four entries for each event."""
    session, written = grown(0, 0), 0
    for _ in range(50_000):
        session.seq += 1
        session.transcript.append(session.transcript)  # type: ignore[arg-type]
        if is_due(session):
            written += len(session.transcript)
            session.mark = session.seq
    assert session.mark
    assert written <= bookmarks.SHARE * session.seq


@pytest.mark.parametrize("kind", ["user", "text", "call", "result"])
def test_a_transcript_beyond_what_a_model_reads_is_not_put_aside(kind: str) -> None:
    def long(count: int) -> Session:
        call = Call("look", "x" * count if kind == "call" else "", "c1")
        entry: UserMessage | AssistantMessage | ToolMessage
        if kind == "user":
            entry = UserMessage("m", "tell", "host", ("x" * (count - 1), "x"))
        elif kind == "result":
            entry = ToolMessage((call,), (CallResult("x" * count),))
        else:
            entry = AssistantMessage("x" * count if kind == "text" else "", (call,))
        session = Session()
        session.transcript.append(entry)
        return session

    assert is_small(long(MOST_CHARACTERS))
    assert not is_small(long(MOST_CHARACTERS + 1))


def test_a_bookmark_is_one_object_and_comes_back_equal() -> None:
    text = encode_bookmark(sample_bookmark())
    assert text.isascii()
    assert json.loads(text)["v"] == "1.1"
    assert decode_bookmark(text) == sample_bookmark()
    state = bookmark_of(fold([*BUSY, *REST]))
    assert decode_bookmark(encode_bookmark(state)) == state


def test_a_field_of_another_type_is_no_bookmark() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"transcript": ("text",)},
        {"seq": None},
        {"waiting": []},
    )
    for change in changes:
        with pytest.raises(UsageError, match="bookmark"):
            encode_bookmark(attrs.evolve(sample_bookmark(), **change))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"v": "1.0"}, UnsupportedLogError),
        ({"v": 1}, UnsupportedLogError),
        ({"more": 1}, CorruptLogError),
        ({"seq": "1"}, CorruptLogError),
        ({"transcript": [{"user_message": {}}]}, CorruptLogError),
        ({"transcript": [{"message": {}}]}, CorruptLogError),
        ({"transcript": [{}]}, CorruptLogError),
        ({"transcript": ["text"]}, CorruptLogError),
        ({"waiting": [{"place": 1}]}, CorruptLogError),
    ],
)
def test_what_cannot_be_read_is_no_bookmark(
    change: dict[str, object], error: type[Exception]
) -> None:
    found = json.loads(encode_bookmark(sample_bookmark())) | change
    with pytest.raises(error, match="bookmark"):
        decode_bookmark(json.dumps(found))


@pytest.mark.parametrize("text", ["", "[]", "{", "1", '{"v":"1.1"}', '{"v":1,"v":1}'])
def test_what_is_no_object_is_no_bookmark(text: str) -> None:
    with pytest.raises((CorruptLogError, UnsupportedLogError)):
        decode_bookmark(text)


def test_every_field_of_a_state_is_in_its_bookmark() -> None:
    """A new part of the state that is not put aside would be lost.

    Whether it returns is said by the header.
    """
    apart = {"mark", "inbox", "returning"}
    inbox = {"accepts", "parked", "waiting", "staged"}
    fields = {field.name for field in attrs.fields(Bookmark)}
    assert fields == (set(Session.__slots__) - apart) | inbox
    told = fold([*BUSY[:2], Told(3)])
    assert session_of(bookmark_of(told)) == told
