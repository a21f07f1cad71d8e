"""Tests of the local model: its options, and the real thing, judged by protocol."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from ramet.actors.errors import ContextOverflowError, ModelError
from ramet.actors.local_form import Form
from ramet.actors.model import Message, Model, ModelEvent, ModelRequest, ToolSchema
from ramet.actors.model_local import LocalModel, _FormReader
from ramet.actors.response import Assembled
from ramet.lifecycle.contract_model import ModelContract, ModelSubject
from ramet.mailbox.errors import UsageError
from ramet.mailbox.message import (
    AssistantMessage,
    Call,
    CallResult,
    ToolMessage,
    Usage,
)
from tests.actors.chat_service import chunk
from tests.actors.requests import ask, request, tool, user

TEXT: dict[str, Any] = {"type": "string"}


@pytest.mark.anyio
@pytest.mark.real_model
class TestContract(ModelContract):
    @pytest.fixture(autouse=True)
    def _model(self, local_model: LocalModel) -> None:
        self.model = local_model

    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        return self._subject()

    def asked(self, text: str = "Say hello.") -> ModelRequest:
        return request(user(text), settings={"max_tokens": 8})

    @asynccontextmanager
    async def _subject(self) -> AsyncIterator[ModelSubject]:
        model = self.model
        too_long = request(user("word " * 4000))
        key = model._server.key
        yield ModelSubject(
            model, (model, too_long), (key,), lambda: model.open_requests
        )


async def turn(
    model: Model, messages: list[Message], tools: Sequence[ToolSchema]
) -> list[str]:
    """Let the model take a turn, as the runtime would; gives the names of its calls."""
    names: list[str] = []
    for _ in range(6):
        result = await ask(model, request(*messages, tools=tools))
        assert isinstance(result, Assembled)
        messages.append(AssistantMessage(result.text, result.calls))
        if not result.calls:
            assert result.stop == "end_turn"
            return names
        assert result.stop == "tool_calls"
        names += [call.name for call in result.calls]
        results = tuple(CallResult("The sea is salt.") for _ in result.calls)
        messages.append(ToolMessage(result.calls, results))
    raise AssertionError("the turn did not end")


@pytest.mark.anyio
@pytest.mark.real_model
async def test_a_turn_reads_reports_and_ends_and_so_does_a_followup(
    local_model: LocalModel,
) -> None:
    tools = [
        tool("read_file", path={"type": "string", "enum": ["docs/sea.md"]}),
        tool("report", output=TEXT),
    ]
    messages: list[Message] = [user("Survey the file docs/sea.md.")]
    assert await turn(local_model, messages, tools) == ["read_file", "report"]
    read, _, reported = [
        message for message in messages if isinstance(message, AssistantMessage)
    ][:3]
    assert json.loads(read.calls[0].arguments) == {"path": "docs/sea.md"}
    assert reported is not None
    messages.append(user("Who needs it?", source="followup"))
    assert await turn(local_model, messages, tools) == ["report"]
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                if call.name == "report":
                    output = json.loads(call.arguments)["output"]
                    assert re.fullmatch(r"[A-Z][a-z]+ [^\n]{15,}\.", output), output


@pytest.mark.anyio
@pytest.mark.real_model
async def test_arguments_keep_to_their_schema(local_model: LocalModel) -> None:
    kinds = ["readme", "API reference", "how-to", 'a "quoted" 日本']
    shape = '^[A-Z][a-z]+ [^"\\\\\n{}<>.]{5,40}\\.$'
    asked = tool(
        "sort",
        kind={"type": "string", "enum": kinds},
        line={"type": "string", "pattern": shape},
        short={"type": "string", "maxLength": 12},
        stars={"type": "integer", "minimum": 1, "maximum": 5},
        fixed={"const": {"a": [1, None]}},
        words={"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 2},
    )
    result = await ask(local_model, request(user("Sort this readme."), tools=[asked]))
    assert isinstance(result, Assembled)
    (call,) = result.calls
    assert call.name == "sort"
    value = json.loads(call.arguments)
    assert list(value) == list(asked.parameters["properties"])
    assert value["kind"] in kinds
    assert re.fullmatch(shape, value["line"])
    assert len(value["short"]) <= 12
    assert value["stars"] in range(1, 6)
    assert value["fixed"] == {"a": [1, None]}
    assert set(value["words"]) <= {"x", "y"}
    assert len(value["words"]) <= 2


@pytest.mark.anyio
@pytest.mark.real_model
async def test_tokens_are_counted(local_model: LocalModel) -> None:
    asked = request(user("Say hello."), settings={"max_tokens": 4})
    result = await ask(local_model, asked)
    assert isinstance(result, Assembled)
    assert result.usage is not None
    assert (result.usage.input_tokens or 0) > 10
    assert result.usage.output_tokens in range(1, 5)
    assert result.stop in ("length", "end_turn")


@pytest.mark.anyio
@pytest.mark.real_model
async def test_cancelling_in_a_stream_frees_the_server(local_model: LocalModel) -> None:
    with anyio.fail_after(60):
        for _ in range(3):
            # Three are more than the server runs at once: each must have been freed.
            asked = request(
                user("Count."),
                settings={"max_tokens": 900, "ignore_eos": True, "temperature": 1.5},
            )
            with anyio.CancelScope() as scope:
                async with local_model.request(asked) as events:
                    await anext(events)
                    scope.cancel()
                    async for _event in events:
                        pass
            assert scope.cancelled_caught
        short = request(settings={"max_tokens": 2})
        assert isinstance(await ask(local_model, short), Assembled)


@pytest.mark.anyio
@pytest.mark.real_model
async def test_a_request_that_is_too_long_says_so(local_model: LocalModel) -> None:
    with pytest.raises(ContextOverflowError, match="context"):
        await ask(local_model, request(user("word " * 4000)))


@pytest.mark.anyio
@pytest.mark.real_model
async def test_an_answer_that_does_not_fit_is_never_parsed() -> None:
    asked = tool("copy", text={"type": "string", "minLength": 240, "maxLength": 240})
    filler = user("go " * 190)
    async with LocalModel(threads=1, context_tokens=256, parallel=1) as model:
        with pytest.raises(ModelError, match="did not end its answer within"):
            await ask(model, request(filler, tools=[asked]))


@pytest.mark.anyio
@pytest.mark.real_model
async def test_a_server_can_be_stopped_and_started_again() -> None:
    model = LocalModel(threads=1, context_tokens=256, parallel=1, calls="any")
    assert isinstance(model, Model)
    short = request(settings={"max_tokens": 2})
    for _ in range(2):
        async with model:
            assert isinstance(await ask(model, short), Assembled)
            assert model._server.address is not None
        assert model._server.address is None
    offered = request(user("Say hello."), tools=[tool("clock")])
    result = await ask(model, offered)
    assert isinstance(result, Assembled)
    assert result.calls == (Call("clock", "{}"),) or result.text
    # Neither a close nor a collection of what was not closed leaves a warning.
    del model
    gc.collect()


@pytest.mark.anyio
@pytest.mark.real_model
async def test_a_server_that_is_gone_is_a_failure() -> None:
    model = LocalModel(threads=1, context_tokens=256, parallel=1)
    async with model:
        await ask(model, request(settings={"max_tokens": 2}))
        model._server._server = None
        gc.collect()
        with pytest.raises(ModelError):
            await ask(model, request(settings={"max_tokens": 2}))


def read(form: Form, *chunks: dict[str, Any]) -> list[ModelEvent]:
    reader = _FormReader(form)
    events = [event for one in chunks for event in reader.read(one)]
    return events + reader.end()


def test_a_cut_answer_is_an_error_even_if_it_is_whole() -> None:
    form = Form("x", True, 99)
    whole = chunk('{"tool":"t","arguments":{}}')
    assert read(form, whole, chunk(finish="stop"))
    with pytest.raises(ModelError, match="99 tokens"):
        read(form, whole, chunk(finish="length"))
    with pytest.raises(ModelError, match="neither"):
        read(form, chunk("{"), chunk(finish="stop"))
    assert read(form, whole) == []


def test_an_answer_in_words_becomes_text_with_its_usage() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    events = read(
        Form("x", True, 99),
        chunk('{"answer":'),
        chunk('"Hi."}'),
        chunk(finish="stop"),
        chunk(usage=usage),
    )
    assert [type(event).__name__ for event in events] == ["TextDelta", "ResponseEnded"]
    assert events[-1].usage == Usage(input_tokens=1, output_tokens=2)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 0},
        {"context_tokens": -1},
        {"parallel": 1.5},
        {"timeout_s": 0},
        {"calls": "all"},
        {"text_characters": 3},
        {"closing_characters": 0},
        {"settings": {"messages": []}},
        {"path": "none.gguf"},
    ],
)
def test_arguments_that_are_wrong_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        LocalModel(**wrong)
