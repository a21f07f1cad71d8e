"""Tests of the model that plays fixed steps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from ramet.actors.errors import ModelError
from ramet.actors.model import (
    ArgumentsDelta,
    Model,
    ModelCapabilities,
    ModelEvent,
    ResponseEnded,
    TextDelta,
)
from ramet.actors.model_scripted import (
    Gate,
    ScriptedModel,
    ScriptExhaustedError,
    call,
    step,
)
from ramet.actors.response import Assembled
from ramet.lifecycle.contract_model import ModelContract, ModelSubject
from ramet.mailbox.errors import UsageError
from ramet.mailbox.message import Call, Usage
from tests.actors.requests import ask, events_of, request


@asynccontextmanager
async def _subject(stream: bool) -> AsyncIterator[ModelSubject]:
    steps = [step(f"a long enough text, number {place}") for place in range(3)]
    model = ScriptedModel({"agent": steps}, stream=stream)
    yield ModelSubject(model, (ScriptedModel({}), request()))


@pytest.mark.anyio
class TestContract(ModelContract):
    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        return _subject(stream=False)


@pytest.mark.anyio
class TestContractStreaming(ModelContract):
    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        return _subject(stream=True)


def test_it_is_a_model() -> None:
    assert isinstance(ScriptedModel({}), Model)


@pytest.mark.anyio
async def test_steps_are_played_in_order_for_each_agent() -> None:
    model = ScriptedModel({"a": [step("a1"), step("a2")], "b": [step("b1")]})
    names = ["a", "b", "a"]
    texts = [(await whole(model, name)).text for name in names]
    assert texts == ["a1", "b1", "a2"]
    assert [asked.name for asked in model.requests] == names
    assert model.requests_of("b") == [model.requests[1]]
    model.assert_exhausted()


async def whole(model: Model, name: str = "a") -> Assembled:
    result = await ask(model, request(name=name))
    assert isinstance(result, Assembled)
    return result


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_step_is_played_as_written(stream: bool) -> None:
    usage = Usage(input_tokens=1)
    calls = [call("report", output="a long output"), call("read_file", path="x")]
    model = ScriptedModel({"a": [step("some text", calls, usage=usage)]}, stream=stream)
    result = await whole(model)
    assert result == Assembled("some text", tuple(calls), "tool_calls", usage)
    assert model.capabilities.streaming is stream


@pytest.mark.anyio
async def test_a_stream_comes_in_pieces() -> None:
    steps = [step("0123456789", [call("a", x="0123456789")])]
    events = await events_of(ScriptedModel({"agent": steps}, stream=True), request())
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert sum(isinstance(event, ArgumentsDelta) for event in events) > 1


def test_a_call_is_written_as_json() -> None:
    written = call("tool", tool="é", number=1, nested={"a": [None]})
    assert written.name == "tool"
    assert json.loads(written.arguments) == {
        "tool": "é",
        "number": 1,
        "nested": {"a": [None]},
    }


@pytest.mark.anyio
async def test_the_stop_reason_follows_the_calls_unless_given() -> None:
    steps = [step(), step(calls=[call("a")]), step(stop="length")]
    model = ScriptedModel({"a": steps})
    stops = [(await whole(model)).stop for _ in steps]
    assert stops == ["end_turn", "tool_calls", "length"]


@pytest.mark.anyio
async def test_raw_events_are_played_as_they_are() -> None:
    raw = [TextDelta("half")]
    model = ScriptedModel({"agent": [step(raw=raw)]})
    assert await events_of(model, request()) == raw


@pytest.mark.anyio
async def test_one_step_too_many_fails_the_request_and_the_check() -> None:
    model = ScriptedModel({"a": [step("x")]})
    await whole(model)
    with pytest.raises(ScriptExhaustedError, match=r"'a' asked for step 2.* has 1"):
        await whole(model)
    assert len(model.requests) == 2
    with pytest.raises(AssertionError, match="'a' was asked for 2 of 1 steps"):
        model.assert_exhausted()


@pytest.mark.anyio
async def test_an_unknown_agent_fails_the_request_and_the_check() -> None:
    model = ScriptedModel({"a": []})
    with pytest.raises(ScriptExhaustedError, match="no steps for agent 'b'"):
        await whole(model, "b")
    with pytest.raises(AssertionError, match="'b' was asked for 1 of 0"):
        model.assert_exhausted()


def test_steps_that_were_not_played_fail_the_check() -> None:
    model = ScriptedModel({"a": [step(), step()], "b": []})
    with pytest.raises(AssertionError, match="'a' was asked for 0 of 2 steps"):
        model.assert_exhausted()


@pytest.mark.anyio
async def test_an_error_is_raised_after_its_events() -> None:
    failure = ModelError("broken")
    steps = [step(error=failure), step(raw=[TextDelta("x")], error=failure)]
    model = ScriptedModel({"agent": steps})
    with pytest.raises(ModelError, match="broken"):
        await events_of(model, request())
    async with model.request(request()) as events:
        assert await anext(events) == TextDelta("x")
        with pytest.raises(ModelError, match="broken"):
            await anext(events)


@pytest.mark.anyio
async def test_a_request_hangs_on_its_gate_until_it_opens() -> None:
    gate = Gate()
    model = ScriptedModel({"agent": [step("x", hold=gate)]})
    got: list[str] = []

    async def run() -> None:
        got.append((await ask(model, request())).text)  # type: ignore[union-attr]

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await gate.reached()
            assert got == []
            assert gate.arrivals == 1
            gate.open()
    assert got == ["x"]


@pytest.mark.anyio
async def test_a_gate_among_raw_events_holds_in_the_middle() -> None:
    gate = Gate()
    raw: list[ModelEvent | Gate] = [TextDelta("half"), gate, ResponseEnded()]
    model = ScriptedModel({"agent": [step(raw=raw)]})
    with anyio.fail_after(30):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def stop() -> None:
                    await gate.reached()
                    scope.cancel()

                group.start_soon(stop)
                async with model.request(request()) as events:
                    assert await anext(events) == TextDelta("half")
                    await anext(events)
        assert scope.cancelled_caught


@pytest.mark.anyio
async def test_one_gate_can_hold_several_requests() -> None:
    gate = Gate()
    model = ScriptedModel(
        {"agent": [step(hold=gate), step(hold=gate), step(hold=gate)]}
    )
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(ask, model, request())
            await gate.reached(2)
            gate.open()
        await ask(model, request())
        await gate.reached(3)
    model.assert_exhausted()


@pytest.mark.parametrize(
    "wrong",
    [
        {"raw": [ResponseEnded()], "text": "x"},
        {"raw": [ResponseEnded()], "calls": [Call("a", "{}")]},
        {"raw": [ResponseEnded()], "stop": "length"},
        {"raw": [ResponseEnded()], "usage": Usage()},
        {"calls": ["a"]},
    ],
)
def test_a_step_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        step(**wrong)  # type: ignore[arg-type]


def test_only_steps_are_steps() -> None:
    with pytest.raises(UsageError, match=r"step\(\)"):
        ScriptedModel({"a": ["hello"]})  # type: ignore[list-item]


def test_capabilities_can_be_given() -> None:
    narrow = ModelCapabilities(narrowing=False)
    assert ScriptedModel({}, capabilities=narrow).capabilities is narrow
