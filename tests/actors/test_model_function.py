"""Tests of the model that is a Python function."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio.lowlevel
import pytest

from ramet.actors.errors import ModelError
from ramet.actors.model import (
    Model,
    ModelCapabilities,
    ModelRequest,
    ModelResponse,
    ResponseEnded,
)
from ramet.actors.model_function import FunctionModel
from ramet.lifecycle.contract_model import ModelContract, ModelSubject
from ramet.mailbox.errors import UsageError
from ramet.mailbox.message import Call, Usage
from tests.actors.requests import ask, events_of, request


async def hello(asked: ModelRequest) -> str:
    await anyio.lowlevel.checkpoint()
    return f"hello {asked.name}"


async def failing(asked: ModelRequest) -> str:
    raise ModelError("no answer")


@asynccontextmanager
async def _subject() -> AsyncIterator[ModelSubject]:
    yield ModelSubject(FunctionModel(hello), (FunctionModel(failing), request()))


@pytest.mark.anyio
class TestContract(ModelContract):
    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        return _subject()


def test_it_is_a_model() -> None:
    assert isinstance(FunctionModel(hello), Model)
    assert "hello" in repr(FunctionModel(hello))


@pytest.mark.anyio
async def test_a_text_is_the_whole_answer() -> None:
    events = await events_of(FunctionModel(hello), request(name="ann"))
    assert events == [ResponseEnded(response=ModelResponse("hello ann"))]


@pytest.mark.anyio
async def test_a_response_is_passed_on_as_it_is() -> None:
    response = ModelResponse("x", (Call("a", "{}"),), "tool_calls", Usage())

    async def mind(asked: ModelRequest) -> ModelResponse:
        return response

    (event,) = await events_of(FunctionModel(mind), request())
    assert isinstance(event, ResponseEnded)
    assert event.response is response


@pytest.mark.anyio
async def test_any_awaitable_callable_will_do() -> None:
    async def mind(greeting: str, asked: ModelRequest) -> str:
        return greeting

    class Mind:
        async def __call__(self, asked: ModelRequest) -> str:
            return "object"

    assert (await ask(FunctionModel(partial(mind, "part")), request())).text == "part"  # type: ignore[union-attr]
    assert (await ask(FunctionModel(Mind()), request())).text == "object"  # type: ignore[union-attr]
    assert "Mind" in repr(FunctionModel(Mind()))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "NoneType"),
        (7, "int"),
        (ModelResponse(text=None), "text"),  # type: ignore[arg-type]
        (ModelResponse(calls=[Call("a", "{}")]), "calls"),  # type: ignore[arg-type]
        (ModelResponse(calls=("a",)), "calls"),  # type: ignore[arg-type]
        (ModelResponse(calls=(Call("a", {}),)), "calls"),  # type: ignore[arg-type]
        (ModelResponse(stop=None), "stop"),  # type: ignore[arg-type]
        (ModelResponse(usage=3), "usage"),  # type: ignore[arg-type]
    ],
)
async def test_any_other_answer_is_a_clear_error(answer: Any, says: str) -> None:
    async def mind(asked: ModelRequest) -> Any:
        return answer

    with pytest.raises(ModelError, match=says) as caught:
        await events_of(FunctionModel(mind), request())
    assert "mind" in str(caught.value)


@pytest.mark.anyio
async def test_a_plain_function_is_a_clear_error() -> None:
    def mind(asked: ModelRequest) -> Any:
        return "hello"

    with pytest.raises(ModelError, match="not an async function"):
        await events_of(FunctionModel(mind), request())


@pytest.mark.anyio
async def test_what_the_function_raises_comes_out_as_it_is() -> None:
    async def mind(asked: ModelRequest) -> str:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await events_of(FunctionModel(mind), request())


def test_what_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="async function"):
        FunctionModel("hello")  # type: ignore[arg-type]


def test_capabilities_can_be_given() -> None:
    narrow = ModelCapabilities(narrowing=False)
    assert FunctionModel(hello, capabilities=narrow).capabilities is narrow
    assert FunctionModel(hello).capabilities == ModelCapabilities()
