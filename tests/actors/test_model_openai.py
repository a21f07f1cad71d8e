"""Tests of the adapter for chat-completions services, against one on loopback."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest

from ramet.actors.errors import ContextOverflowError, ModelError, RequestTimeoutError
from ramet.actors.model import Model, TextDelta
from ramet.actors.model_openai import OpenAIModel
from ramet.actors.response import Assembled, ResponseFault
from ramet.lifecycle.contract_model import ModelContract, ModelSubject
from ramet.mailbox.errors import UsageError
from ramet.mailbox.message import Call, Usage
from tests.actors.chat_service import (
    DROP,
    HANG,
    ChatService,
    Failure,
    chunk,
    serve,
    tool_piece,
)
from tests.actors.requests import ask, events_of, request, tool, user

KEY = "sk-0123456789/secret+key"
HELLO = (
    chunk("Hel"),
    chunk("lo."),
    chunk(finish="stop"),
    chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}),
)


@pytest.fixture
def service() -> Iterator[ChatService]:
    with serve() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def model_of(service: ChatService, **options: Any) -> OpenAIModel:
    return OpenAIModel("tiny", base_url=service.address, api_key=KEY, **options)


@asynccontextmanager
async def _subject() -> AsyncIterator[ModelSubject]:
    with serve() as good, serve() as bad:
        good.otherwise = HELLO
        bad.otherwise = Failure(401, {"error": {"message": f"Wrong key {KEY}."}})
        async with model_of(good) as model, model_of(bad) as failing:
            yield ModelSubject(
                model,
                (failing, request()),
                (KEY,),
                lambda: model.open_requests + failing.open_requests,
            )


@pytest.mark.anyio
class TestContract(ModelContract):
    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        return _subject()


def test_it_is_a_model_and_shows_no_key() -> None:
    model = OpenAIModel("gpt", api_key=KEY)
    assert isinstance(model, Model)
    assert repr(model) == "OpenAIModel('gpt')"


@pytest.mark.anyio
async def test_a_request_is_written_as_the_protocol_wants(service: ChatService) -> None:
    service.play(*HELLO)
    asked = request(
        user("Hi.\ud800"),
        tools=[tool("report", output={"type": "string"})],
        instructions="Be short.",
        settings={"max_tokens": 7},
    )
    settings = {"max_tokens": 5, "temperature": 0, "odd_setting": [1]}
    async with model_of(service, settings=settings) as model:
        result = await ask(model, asked)
        assert model.substitutions == 1
    usage = Usage(input_tokens=5, output_tokens=2)
    assert result == Assembled("Hello.", (), "end_turn", usage)
    (body,) = service.bodies
    assert body.pop("tools")[0]["function"]["name"] == "report"
    assert body == {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Hi.\ufffd"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
        "temperature": 0,
        "odd_setting": [1],
    }
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.anyio
async def test_without_tools_none_are_sent_and_none_is_forced(
    service: ChatService,
) -> None:
    service.play(*HELLO)
    async with model_of(service) as model:
        await ask(model, request())
    assert not {"tools", "tool_choice"} & service.bodies[0].keys()


@pytest.mark.anyio
async def test_text_comes_in_pieces(service: ChatService) -> None:
    service.play(*HELLO)
    async with model_of(service) as model:
        events = await events_of(model, request())
    assert events[:2] == [TextDelta("Hel"), TextDelta("lo.")]


@pytest.mark.anyio
async def test_calls_come_with_their_raw_arguments(service: ChatService) -> None:
    service.play(
        chunk(calls=[tool_piece(0, "", "a", "x"), tool_piece(1, "", "b", "y")]),
        chunk(calls=[tool_piece(1, '{"p" : 1, "p":')]),
        chunk(calls=[tool_piece(0, "not json"), tool_piece(1, " 2}")]),
        chunk(finish="tool_calls"),
    )
    async with model_of(service) as model:
        result = await ask(model, request(tools=[tool("a"), tool("b")]))
    assert isinstance(result, Assembled)
    assert result.calls == (
        Call("a", "not json", "x"),
        Call("b", '{"p" : 1, "p": 2}', "y"),
    )
    assert (result.stop, result.usage) == ("tool_calls", None)


@pytest.mark.anyio
async def test_a_stream_that_ends_without_an_end_is_lost(service: ChatService) -> None:
    service.play(chunk("Hel"))
    async with model_of(service) as model:
        result = await ask(model, request())
    assert isinstance(result, ResponseFault)
    assert result.code == "output-protocol-unknown"


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (400, error("no such field"), ModelError, "no such field"),
        (401, error(f"key {KEY} is wrong"), ModelError, r"401.*key \[key\] is wrong"),
        (401, error("key sk-012***key is wrong"), ModelError, r"key \[key\] is wrong"),
        (403, error("no"), ModelError, "403"),
        (404, error("no model"), ModelError, "no model"),
        (429, error("slow down"), ModelError, "429.*slow down"),
        (500, b"<html>broken</html>", ModelError, "500"),
        (503, error("x" * 9000), ModelError, r"xxx\.\.\.$"),
        (
            400,
            error("too long", code="context_length_exceeded"),
            ContextOverflowError,
            "too long",
        ),
        (
            400,
            error("too long", type="exceed_context_size_error", code=400),
            ContextOverflowError,
            "too long",
        ),
    ],
)
async def test_an_error_of_the_service_is_translated(
    service: ChatService, status: int, body: Any, kind: type[ModelError], says: str
) -> None:
    service.fail(status, body)
    async with model_of(service) as model:
        with pytest.raises(ModelError, match=says) as caught:
            await ask(model, request())
    assert type(caught.value) is kind
    assert len(service.bodies) == 1, "a request is made once"
    assert KEY not in str(caught.value)
    assert caught.value.__context__ is None
    assert len(str(caught.value)) < 600


@pytest.mark.anyio
async def test_an_error_inside_a_stream_is_translated(service: ChatService) -> None:
    overflow = error(f"too long, {KEY}", code="context_length_exceeded")
    service.play(chunk("Hel"), overflow)
    service.play(chunk("Hel"), {"error": "broken"})
    async with model_of(service) as model:
        with pytest.raises(ContextOverflowError, match=r"too long, \[key\]"):
            await ask(model, request())
        with pytest.raises(ModelError, match="broken"):
            await ask(model, request())


@pytest.mark.anyio
async def test_an_event_that_is_not_json_is_a_clear_error(service: ChatService) -> None:
    service.play(b"data: {nonsense\n\n")
    async with model_of(service) as model:
        with pytest.raises(ModelError, match="not JSON"):
            await ask(model, request())


@pytest.mark.anyio
@pytest.mark.parametrize("before", [(), (chunk("Hel"),)])
async def test_a_service_that_hangs_runs_into_the_limit(
    service: ChatService, before: tuple[Any, ...]
) -> None:
    service.play(*before, HANG)
    async with model_of(service, timeout_s=0.2) as model:
        with pytest.raises(RequestTimeoutError, match=r"0\.2 seconds"):
            await ask(model, request())
        assert model.open_requests == 0
    assert service.gone.acquire(timeout=10), "the connection was closed"


@pytest.mark.anyio
async def test_a_dropped_connection_is_a_failure(service: ChatService) -> None:
    service.play(chunk("Hel"), DROP)
    service.play(*HELLO)
    async with model_of(service) as model:
        with pytest.raises(ModelError):
            await ask(model, request())
        assert isinstance(await ask(model, request()), Assembled)


@pytest.mark.anyio
async def test_a_service_that_is_not_there_is_a_failure_without_its_address() -> None:
    with serve() as service:
        address = service.address
    async with OpenAIModel("tiny", base_url=address, api_key=KEY) as model:
        with pytest.raises(ModelError) as caught:
            await ask(model, request())
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.anyio
async def test_cancelling_closes_the_connection(service: ChatService) -> None:
    service.play(chunk("Hel"), HANG)
    service.play(*HELLO)
    async with model_of(service) as model:
        with anyio.CancelScope() as scope:
            async with model.request(request()) as events:
                await anext(events)
                assert model.open_requests == 1
                scope.cancel()
                await anext(events)
        assert scope.cancelled_caught
        assert model.open_requests == 0
        gone = await anyio.to_thread.run_sync(lambda: service.gone.acquire(timeout=10))
        assert gone, "the connection was closed"
        assert isinstance(await ask(model, request()), Assembled)


@pytest.mark.anyio
async def test_leaving_early_leaves_nothing_to_the_garbage_collector(
    service: ChatService,
) -> None:
    service.play(*HELLO[:2], HANG)
    async with model_of(service) as model:
        async with model.request(request()) as events:
            await anext(events)
        # An async generator that is collected warns on trio, and a warning is an error.
        gc.collect()


@pytest.mark.anyio
async def test_a_closed_model_can_be_used_again(service: ChatService) -> None:
    service.otherwise = HELLO
    model = model_of(service)
    for _ in range(2):
        assert isinstance(await ask(model, request()), Assembled)
        await model.aclose()
        await model.aclose()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_another_event_loop_needs_a_close_first(
    service: ChatService, backend: str
) -> None:
    service.otherwise = HELLO

    async def use(model: OpenAIModel, close: bool) -> None:
        try:
            await ask(model, request())
        finally:
            if close:
                await model.aclose()

    model = model_of(service)
    anyio.run(use, model, True, backend=backend)
    anyio.run(use, model, True, backend=backend)

    async def inside(model: OpenAIModel) -> None:
        await ask(model, request())
        with pytest.raises(UsageError, match="another event loop"):
            await anyio.to_thread.run_sync(
                lambda: anyio.run(use, model, False, backend=backend)
            )
        await model.aclose()

    anyio.run(inside, model, backend=backend)


def test_the_environment_gives_address_and_key(
    service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", service.address)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    service.play(*HELLO)

    async def use() -> None:
        async with OpenAIModel("tiny") as model:
            await ask(model, request())

    anyio.run(use)
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.anyio
async def test_a_client_of_the_user_stays_the_users(service: ChatService) -> None:
    service.otherwise = HELLO
    async with openai.DefaultAsyncHttpxClient() as client:
        async with model_of(service, http_client=client) as model:
            await ask(model, request())
        assert not client.is_closed


def test_arguments_that_are_wrong_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt")
    with pytest.raises(UsageError, match="name of a model"):
        OpenAIModel(" ", api_key=KEY)
    with pytest.raises(UsageError, match="timeout_s"):
        OpenAIModel("gpt", api_key=KEY, timeout_s=0)
    with pytest.raises(UsageError, match="tool_choice"):
        OpenAIModel("gpt", api_key=KEY, settings={"tool_choice": "required"})
    with pytest.raises(UsageError, match="messages"):
        OpenAIModel("gpt", api_key=KEY).request(request(settings={"messages": []}))


def test_a_local_service_needs_no_key(service: ChatService) -> None:
    service.play(*HELLO)

    async def use() -> None:
        async with OpenAIModel("tiny", base_url=service.address) as model:
            await ask(model, request())

    anyio.run(use)
    assert KEY not in service.headers[0]["authorization"]


def test_a_missing_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match=r'pip install "ramet\[openai\]"'):
        OpenAIModel("gpt", api_key=KEY)
