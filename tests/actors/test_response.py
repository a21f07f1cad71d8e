"""Tests of how one response is put together, as conversations and by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.model import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ModelEvent,
    ModelResponse,
    Refused,
    ResponseEnded,
    TextDelta,
)
from ramet.actors.response import Assembled, ResponseAssembler, ResponseFault
from ramet.mailbox.message import Call, Usage

UNKNOWN = "output-protocol-unknown"
CONFLICT = "output-contract-conflict"
END = ResponseEnded("tool_calls")


def assemble(events: Sequence[ModelEvent]) -> Assembled | ResponseFault:
    assembler = ResponseAssembler()
    for event in events:
        assembler.add(event)
    return assembler.end()


def one_call(
    arguments: str = "{}", place: int = 0, call_id: str = ""
) -> list[ModelEvent]:
    return [CallStarted(place, "reply", call_id), CallDone(place, arguments)]


def test_a_whole_response_is_given_as_it_is() -> None:
    calls = (Call("report", "{}", "x"),)
    usage = Usage(input_tokens=3)
    response = ModelResponse("hello", calls, "tool_calls", usage)
    result = assemble([ResponseEnded(response=response)])
    assert result == Assembled("hello", calls, "tool_calls", usage)


def test_pieces_of_text_are_put_together() -> None:
    result = assemble([TextDelta("he"), TextDelta("llo"), ResponseEnded()])
    assert result == Assembled("hello", (), "end_turn", None)


@pytest.mark.case("A-122")
def test_interleaved_pieces_reach_their_own_call() -> None:
    result = assemble(
        [
            CallStarted(0, "a", "x"),
            CallStarted(1, "b", "y"),
            ArgumentsDelta(0, '{"p"'),
            ArgumentsDelta(1, "{"),
            ArgumentsDelta(0, ":1}"),
            ArgumentsDelta(1, "}"),
            CallDone(1, "{}"),
            CallDone(0, '{"p":1}'),
            END,
        ]
    )
    calls = (Call("a", '{"p":1}', "x"), Call("b", "{}", "y"))
    assert result == Assembled("", calls, "tool_calls", None)


@pytest.mark.case("A-118")
def test_two_calls_with_one_id_are_two_calls() -> None:
    result = assemble([*one_call("{}", 0, "same"), *one_call("[]", 1, "same"), END])
    assert isinstance(result, Assembled)
    assert result.calls == (Call("reply", "{}", "same"), Call("reply", "[]", "same"))


@pytest.mark.case("A-021", "A-117")
@pytest.mark.parametrize("events", [[], [TextDelta("x")], one_call()])
def test_a_response_without_its_end_is_lost(events: list[ModelEvent]) -> None:
    result = assemble(events)
    assert isinstance(result, ResponseFault)
    assert result.code == UNKNOWN


@pytest.mark.case("A-119")
def test_a_repeated_end_is_harmless() -> None:
    assert isinstance(assemble([*one_call(), END, END]), Assembled)


@pytest.mark.case("A-029", "A-119")
def test_repeated_finished_arguments_are_harmless() -> None:
    once = assemble([*one_call(), END])
    assert assemble([*one_call(), CallDone(0, "{}"), END]) == once
    assert assemble([*one_call(), END, CallDone(0, "{}")]) == once
    assert assemble([CallStarted(0, "reply"), *one_call(), END]) == once


@pytest.mark.case("A-029")
@pytest.mark.parametrize("late", [False, True])
def test_one_place_with_two_texts_is_a_conflict(late: bool) -> None:
    other = CallDone(0, '{"value":2}')
    events = [*one_call('{"value":1}'), *((END, other) if late else (other, END))]
    result = assemble(events)
    assert isinstance(result, ResponseFault)
    assert result.code == CONFLICT


@pytest.mark.case("A-118")
@pytest.mark.parametrize(
    "named",
    [
        (),
        (Call("reply", '{"value":2}'),),
        (Call("other", "{}"),),
        (Call("reply", "{}"), Call("reply", "{}")),
        (Call("reply", "{}", "another-id"),),
    ],
)
def test_an_end_that_names_other_calls_is_refused(named: tuple[Call, ...]) -> None:
    events = [*one_call(call_id="id"), ResponseEnded("tool_calls", calls=named)]
    result = assemble(events)
    assert isinstance(result, ResponseFault)
    assert result.code == UNKNOWN


def test_an_end_that_names_the_same_calls_agrees() -> None:
    for named in (Call("reply", "{}", "id"), Call("reply", "{}")):
        events = [*one_call(call_id="id"), ResponseEnded("tool_calls", calls=(named,))]
        assert isinstance(assemble(events), Assembled)


@pytest.mark.case("A-120")
def test_arguments_that_never_finished_are_no_call() -> None:
    begun: list[ModelEvent] = [
        CallStarted(0, "reply"),
        ArgumentsDelta(0, '{"value":1}'),
    ]
    result = assemble([*begun, ResponseEnded("tool_calls")])
    assert isinstance(result, ResponseFault)
    assert result.code == UNKNOWN


@pytest.mark.case("R-210")
@pytest.mark.parametrize("stop", ["length", "incomplete", "refusal"])
def test_whole_calls_of_a_cut_response_stay_and_half_ones_go(stop: str) -> None:
    half: list[ModelEvent] = [CallStarted(1, "reply"), ArgumentsDelta(1, '{"va')]
    result = assemble([*one_call(), *half, ResponseEnded(stop)])
    assert isinstance(result, Assembled)
    assert result.calls == (Call("reply", "{}"),)
    assert result.stop == stop


@pytest.mark.parametrize("named", [1, 2])
def test_the_end_of_a_cut_response_may_name_the_half_call(named: int) -> None:
    half: list[ModelEvent] = [CallStarted(1, "reply"), ArgumentsDelta(1, '{"va')]
    calls = (Call("reply", "{}"), Call("reply", '{"va'))[:named]
    result = assemble([*one_call(), *half, ResponseEnded("length", calls=calls)])
    assert isinstance(result, Assembled)
    assert result.calls == (Call("reply", "{}"),)


@pytest.mark.case("A-121")
@pytest.mark.parametrize("first", [False, True])
def test_a_refusal_is_told_before_or_after_a_return(first: bool) -> None:
    refused: list[ModelEvent] = [Refused("no")]
    events = [*refused, *one_call()] if first else [*one_call(), *refused]
    result = assemble([*events, ResponseEnded("end_turn")])
    assert isinstance(result, Assembled)
    assert (result.stop, result.refusal) == ("refusal", "no")


def test_words_that_sound_like_a_refusal_are_words() -> None:
    result = assemble([TextDelta("I must refuse."), ResponseEnded()])
    assert isinstance(result, Assembled)
    assert (result.stop, result.refusal) == ("end_turn", None)


def test_a_whole_response_that_was_refused_says_so() -> None:
    result = assemble([ResponseEnded(response=ModelResponse(stop="refusal"))])
    assert isinstance(result, Assembled)
    assert result.refusal == ""


def test_a_stop_reason_that_nobody_knows_is_unknown() -> None:
    result = assemble([ResponseEnded("tired")])
    assert isinstance(result, Assembled)
    assert result.stop == "unknown"


WRONG: dict[str, list[ModelEvent]] = {
    "a piece after the end": [ResponseEnded(), TextDelta("x")],
    "a call after the end": [ResponseEnded(), CallStarted(0, "reply")],
    "arguments after the end": [CallStarted(0, "a"), END, ArgumentsDelta(0, "x")],
    "a first text after the end": [CallStarted(0, "a"), END, CallDone(0, "{}")],
    "a refusal after the end": [ResponseEnded(), Refused()],
    "two ends": [ResponseEnded(), ResponseEnded("length")],
    "pieces of no call": [ArgumentsDelta(0, "x"), END],
    "a text of no call": [CallDone(0, "{}"), END],
    "two calls at a place": [*one_call(), CallStarted(0, "other"), END],
    "a piece after the text": [*one_call(), ArgumentsDelta(0, "}"), END],
    "another text than its pieces": [
        CallStarted(0, "reply"),
        ArgumentsDelta(0, "{"),
        CallDone(0, "[]"),
        END,
    ],
    "another whole than its pieces": [
        TextDelta("a"),
        ResponseEnded(response=ModelResponse("b")),
    ],
    "other whole calls than its pieces": [
        *one_call(),
        ResponseEnded(response=ModelResponse(calls=(Call("reply", "[]"),))),
    ],
    "another end than its whole": [
        ResponseEnded(calls=(Call("reply", "[]"),), response=ModelResponse("b")),
    ],
    "something else": ["hello"],  # type: ignore[list-item]
}


@pytest.mark.parametrize("events", WRONG.values(), ids=WRONG.keys())
def test_what_contradicts_itself_is_refused(events: list[ModelEvent]) -> None:
    result = assemble(events)
    assert isinstance(result, ResponseFault)
    assert result.code == UNKNOWN
    assert result.reason


def test_a_whole_response_that_agrees_with_its_pieces_is_taken() -> None:
    whole = ModelResponse("ab", (Call("reply", "{}"),), "tool_calls")
    events = [TextDelta("a"), TextDelta("b"), *one_call()]
    result = assemble([*events, ResponseEnded(response=whole)])
    assert result == Assembled("ab", whole.calls, "tool_calls", None)


def test_the_first_fault_is_the_one_that_counts() -> None:
    result = assemble([*one_call("1"), CallDone(0, "2"), ArgumentsDelta(7, "x"), END])
    assert isinstance(result, ResponseFault)
    assert result.code == CONFLICT


def test_the_usage_of_a_broken_response_is_kept() -> None:
    usage = Usage(output_tokens=5)
    begun: list[ModelEvent] = [CallStarted(0, "reply")]
    result = assemble([*begun, ResponseEnded("tool_calls", usage)])
    assert isinstance(result, ResponseFault)
    assert result.usage == usage


@pytest.mark.case("R-157")
def test_the_text_so_far_is_there_at_any_time() -> None:
    assembler = ResponseAssembler()
    assert assembler.partial() == ""
    for piece in ("he", "llo"):
        assembler.add(TextDelta(piece))
    assembler.add(CallStarted(0, "reply"))
    assert assembler.partial() == "hello"


@given(st.data())
def test_however_a_response_is_cut_up_it_comes_out_whole(data: st.DataObject) -> None:
    text = data.draw(st.text(max_size=12))
    texts = data.draw(st.lists(st.text(max_size=10), max_size=4))
    calls = tuple(Call(f"t{place}", raw, "id") for place, raw in enumerate(texts))
    lanes: list[list[ModelEvent]] = [
        [TextDelta(piece) for piece in data.draw(cuts(text))]
    ]
    for place, call in enumerate(calls):
        pieces = [ArgumentsDelta(place, p) for p in data.draw(cuts(call.arguments))]
        done = CallDone(place, call.arguments)
        repeats = data.draw(st.integers(1, 2))
        lanes.append([CallStarted(place, call.name, "id"), *pieces, *[done] * repeats])
    events: list[ModelEvent] = []
    while any(lanes):
        lane = data.draw(st.sampled_from([lane for lane in lanes if lane]))
        events.append(lane.pop(0))
    end = ResponseEnded("tool_calls", calls=data.draw(st.sampled_from([calls, None])))
    result = assemble([*events, *[end] * data.draw(st.integers(1, 2))])
    assert result == Assembled(text, calls, "tool_calls", None)


def cuts(text: str) -> st.SearchStrategy[list[str]]:
    """All ways to cut a text into pieces, empty ones among them."""
    places = st.lists(st.integers(0, len(text)), max_size=3).map(sorted)
    return places.map(
        lambda cut: [
            text[a:b] for a, b in zip([0, *cut], [*cut, len(text)], strict=True)
        ]
    )


EVENTS: st.SearchStrategy[ModelEvent] = st.one_of(
    st.builds(TextDelta, st.sampled_from(["", "a"])),
    st.builds(CallStarted, st.integers(0, 1), st.sampled_from(["a", "b"])),
    st.builds(ArgumentsDelta, st.integers(0, 1), st.sampled_from(["", "{", "}"])),
    st.builds(CallDone, st.integers(0, 1), st.sampled_from(["{", "{}"])),
    st.builds(Refused),
    st.builds(ResponseEnded, st.sampled_from(["end_turn", "tool_calls", "length"])),
)


@given(st.lists(EVENTS, max_size=8))
def test_no_order_of_events_raises_and_a_whole_has_one_kind_of_end(
    events: list[ModelEvent],
) -> None:
    result = assemble(events)
    ends = {event.stop for event in events if isinstance(event, ResponseEnded)}
    if isinstance(result, ResponseFault):
        assert result.code in (UNKNOWN, CONFLICT)
    else:
        assert len(ends) == 1
        done = [event for event in events if isinstance(event, CallDone)]
        assert {call.arguments for call in result.calls} <= {d.arguments for d in done}


def test_what_is_no_event_of_a_model_is_a_fault() -> None:
    assembler = ResponseAssembler()
    assembler.add(object())  # type: ignore[arg-type]
    fault = assembler.end()
    assert isinstance(fault, ResponseFault)
    assert fault.reason == "a object is not a model event"


def test_an_empty_piece_after_the_end_of_its_call_is_harmless() -> None:
    assembler = ResponseAssembler()
    for event in (
        CallStarted(0, "look"),
        CallDone(0, "{}"),
        ArgumentsDelta(0, ""),
        ResponseEnded("tool_calls"),
    ):
        assembler.add(event)
    response = assembler.end()
    assert isinstance(response, Assembled)
    assert response.calls == (Call("look", "{}"),)


def test_what_a_whole_response_has_to_show_is_its_text() -> None:
    assembler = ResponseAssembler()
    assembler.add(ResponseEnded(response=ModelResponse("hello")))
    assert assembler.partial() == "hello"


ODD: Any = object()

ODD_EVENTS: list[Any] = [
    TextDelta(ODD),
    CallStarted(ODD, "x"),
    CallStarted(0, ODD),
    CallStarted(0, "x", ODD),
    ArgumentsDelta(ODD, "{}"),
    ArgumentsDelta(0, ODD),
    CallDone(ODD, "{}"),
    CallDone(0, ODD),
    Refused(ODD),
    ResponseEnded(ODD),
    ResponseEnded(usage=ODD),
    ResponseEnded(usage=Usage(1, ODD)),
    ResponseEnded(usage=Usage(1, True)),
    ResponseEnded(usage=Usage(1, -1)),
    ResponseEnded(usage=Usage(1, 2**53)),
    ResponseEnded(calls=ODD),
    ResponseEnded(calls=(ODD,)),
    ResponseEnded(response=ODD),
    ResponseEnded(response=ModelResponse(ODD)),
    ResponseEnded(response=ModelResponse("", ODD)),
    ResponseEnded(response=ModelResponse("", (Call(ODD, "{}"),))),
    ResponseEnded(response=ModelResponse("", (Call("x", ODD),))),
    ResponseEnded(response=ModelResponse("", (Call("x", "{}", ODD),))),
    ResponseEnded(response=ModelResponse("", (), ODD)),
    ResponseEnded(response=ModelResponse("", (), "end_turn", ODD)),
]


@pytest.mark.parametrize("event", ODD_EVENTS)
def test_what_a_log_could_not_hold_is_a_fault_of_the_protocol(event: Any) -> None:
    assembler = ResponseAssembler()
    assembler.add(event)
    assembler.add(ResponseEnded())
    made = assembler.end()
    assert isinstance(made, ResponseFault)
    assert made.code == "output-protocol-unknown"
    assert "odd" in made.reason
    assert made.usage is None
    assert assembler.partial() == ""


def test_a_whole_response_with_counted_usage_is_no_fault() -> None:
    assembler = ResponseAssembler()
    usage = Usage(0, 2**53 - 1, 0, None, 3, 0)
    response = ModelResponse("x", (Call("a", "{}", "id"),), "tool_calls", usage)
    assembler.add(ResponseEnded(calls=response.calls, response=response))
    made = assembler.end()
    assert isinstance(made, Assembled)
    assert made.usage == usage
