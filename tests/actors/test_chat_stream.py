"""Tests of the reading of event streams and chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.chat_stream import ChatReader, EventSplitter, token_usage
from ramet.actors.errors import ModelError
from ramet.actors.model import CallStarted, ModelEvent
from ramet.actors.response import Assembled, ResponseAssembler, ResponseFault
from ramet.mailbox.message import Call, Usage
from tests.actors.chat_service import chunk, tool_piece


def split(*pieces: bytes) -> list[str]:
    splitter = EventSplitter()
    return [data for piece in pieces for data in splitter.feed(piece)]


STREAM = (
    "data: {}\n\n: a comment\n\nevent: x\r\ndata:one\r\ndata: two é\r\n\r\n"
    "data: three\r\rid: 7\ndata\n\n\ndata: 🙂\n\n"
).encode()
EVENTS = ["{}", "one\ntwo é", "three", "", "🙂"]


def test_a_stream_is_split_into_its_events() -> None:
    assert split(STREAM) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=6).map(sorted))
def test_the_borders_of_its_pieces_do_not_matter(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]
    assert split(*pieces) == EVENTS
    assert split(*[bytes([byte]) for byte in STREAM]) == EVENTS


def test_an_event_that_was_not_finished_is_not_given() -> None:
    assert split(b"data: whole\n\n", b"data: half\n") == ["whole"]


def test_an_event_without_an_end_is_refused() -> None:
    splitter = EventSplitter()
    for _ in range(16):
        splitter.feed(b"x" * 1_000_000)
    with pytest.raises(ModelError, match="without an end"):
        splitter.feed(b"x")


def read(*chunks: Any) -> Assembled | ResponseFault:
    reader = ChatReader()
    assembler = ResponseAssembler()
    events: list[ModelEvent] = []
    for one in chunks:
        events += reader.read(one)
    for event in [*events, *reader.end()]:
        assembler.add(event)
    return assembler.end()


def calls_of(*chunks: Any) -> tuple[Call, ...]:
    result = read(*chunks)
    assert isinstance(result, Assembled), result
    return result.calls


def test_text_and_usage_are_read() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    result = read(
        chunk(""), chunk("he"), chunk("llo"), chunk(finish="stop"), chunk(usage=usage)
    )
    counted = Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)
    assert result == Assembled("hello", (), "end_turn", counted)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("length", "length"),
        ("content_filter", "refusal"),
        ("tired", "unknown"),
    ],
)
def test_finish_reasons_are_translated(reason: str, stop: str) -> None:
    result = read(chunk("x"), chunk(finish=reason))
    assert isinstance(result, Assembled)
    assert result.stop == stop
    assert (result.refusal is not None) is (stop == "refusal")


@pytest.mark.case("A-117")
def test_a_stream_without_a_finish_reason_is_lost() -> None:
    assert isinstance(read(chunk("x")), ResponseFault)
    assert isinstance(read(), ResponseFault)


@pytest.mark.case("A-121")
def test_a_refusal_of_the_protocol_is_told() -> None:
    result = read(chunk(refusal="I "), chunk(refusal="can't."), chunk(finish="stop"))
    assert isinstance(result, Assembled)
    assert (result.text, result.stop, result.refusal) == ("", "refusal", "I can't.")


@pytest.mark.case("A-118", "A-122")
def test_interleaved_calls_with_one_id_are_kept_apart() -> None:
    calls = calls_of(
        chunk(calls=[tool_piece(0, "", "a", "same"), tool_piece(1, "{", "b", "same")]),
        chunk(calls=[tool_piece(0, '{"x":')]),
        chunk(calls=[tool_piece(1, "}"), tool_piece(0, "1}")]),
        chunk(finish="tool_calls"),
    )
    assert calls == (Call("a", '{"x":1}', "same"), Call("b", "{}", "same"))


@pytest.mark.parametrize("index", [None, 0])
def test_servers_without_a_proper_index_are_understood(index: int | None) -> None:
    calls = calls_of(
        chunk(calls=[tool_piece(index, "{", "a", "one")]),
        chunk(calls=[tool_piece(index, "}")]),
        chunk(calls=[tool_piece(index, "[]", "b", "two")]),
        chunk(finish="stop"),
    )
    assert calls == (Call("a", "{}", "one"), Call("b", "[]", "two"))


def test_a_name_that_comes_late_is_waited_for() -> None:
    reader = ChatReader()
    assert reader.read(chunk(calls=[tool_piece(0, "{", None, "x")])) == []
    events = reader.read(chunk(calls=[tool_piece(0, "}", "a")]))
    assert events[0] == CallStarted(0, "a", "x")
    assert calls_of(
        chunk(calls=[tool_piece(0, "{", None, "x")]),
        chunk(calls=[tool_piece(0, "}", "a")]),
        chunk(finish="tool_calls"),
    ) == (Call("a", "{}", "x"),)


def test_a_repeated_name_and_id_change_nothing() -> None:
    piece = tool_piece(0, "1", "a", "x")
    assert calls_of(chunk(calls=[piece, piece]), chunk(finish="stop")) == (
        Call("a", "11", "x"),
    )


@pytest.mark.case("R-210")
@pytest.mark.parametrize(
    ("last", "whole"),
    [('{"x": 1}', True), ("{}", True), ('{"x": 1', False), ("", False), ("1", False)],
)
def test_the_call_that_a_length_limit_cut_is_dropped(last: str, whole: bool) -> None:
    calls = calls_of(
        chunk(calls=[tool_piece(0, "[1", "a")]),
        chunk(calls=[tool_piece(1, last, "b")]),
        chunk(finish="length"),
    )
    assert calls == (Call("a", "[1"), *([Call("b", last)] if whole else []))


@pytest.mark.parametrize(
    "wrong",
    [
        7,
        {"choices": "x"},
        {"choices": [7]},
        {"choices": [{"delta": 7}]},
        {"choices": [{"delta": {"content": 7}}]},
        {"choices": [{"delta": {"tool_calls": 7}}]},
        {"choices": [{"delta": {"tool_calls": [7]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": 7}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": 7}}]}}]},
        {"choices": [{"finish_reason": 7}]},
    ],
)
def test_what_is_not_of_the_protocol_is_a_clear_error(wrong: Any) -> None:
    with pytest.raises(ModelError, match="the provider sent"):
        ChatReader().read(wrong)


def test_a_call_without_a_name_is_a_clear_error() -> None:
    reader = ChatReader()
    reader.read(chunk(calls=[tool_piece(0, "{}")]))
    reader.read(chunk(finish="tool_calls"))
    with pytest.raises(ModelError, match="without a name"):
        reader.end()


def test_only_the_first_choice_is_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    result = read(other, chunk("yes"), chunk(finish="stop"))
    assert isinstance(result, Assembled)
    assert result.text == "yes"


def test_usage_that_is_no_number_is_unknown() -> None:
    assert token_usage(None) is None
    assert token_usage({"prompt_tokens": "7", "completion_tokens": True}) == Usage()


def test_a_call_may_come_in_pieces_that_say_nothing_yet() -> None:
    response = read(
        chunk(calls=[{"index": 0}]),
        chunk(calls=[{"index": 0, "id": "a"}]),
        chunk(calls=[tool_piece(0, "{}", "look")]),
        chunk(finish="tool_calls"),
    )
    assert isinstance(response, Assembled)
    assert response.calls == (Call("look", "{}", "a"),)
