"""Scenes about what is awaited outside of an open supervisor: opening, and models.

Lives here: the whole life of an open block and of a headless run, cut anywhere, also
while it is being left; the model ports; and what the test kit has to wait for.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import openai
from anyio.lowlevel import checkpoint

import ramet
from ramet import FunctionModel, LocalModel, ModelRequest, OpenAIModel, Supervisor
from ramet.mailbox.file_lock import lock_owner
from ramet.testing import Gate, ScriptedModel, step
from tests.actors.chat_service import ChatService, chunk, serve
from tests.actors.requests import events_of, request, user
from tests.lifecycle.scene import SPECS, Scene, scene
from tests.lifecycle.stage import LEAD, ORACLE, SCOUT

_MOST_PASSES = 10_000
_ANSWER = (chunk("Hel"), chunk("lo."), chunk(finish="stop"))


# -- opening ---------------------------------------------------------------------------


@asynccontextmanager
async def _opened_again(it: Scene) -> AsyncIterator[Supervisor]:
    """The store again, once what was left of the first opening has let go of it."""
    store = it.stage.store()
    for _ in range(_MOST_PASSES):
        used = hasattr(it, "supervisor")
        busy = used and it.supervisor._runtime.backend.tasks()
        held = isinstance(store, str) and lock_owner(Path(store)) is not None
        if not busy and not held:
            break
        await checkpoint()
    else:
        raise AssertionError("something is left of an open block that was cut")
    async with it.open() as supervisor:
        for line in await supervisor.children(None):
            try:
                agent = await supervisor.resume(line.id)
            except ramet.NotResumableError:
                continue
            it.resumed.add(line.id)
            if line.kind == "headless":
                agent.release()
        yield supervisor


@scene("open", opened=False)
async def a_store_is_opened_used_and_left(it: Scene) -> None:
    stored: list[str] = []

    async def use() -> None:
        store = it.stage.store()
        async with ramet.open(store, specs=SPECS, model=it.model) as supervisor:
            it.supervisor = supervisor
            supervisor.register_setup(ramet.report_setup())
            root = await supervisor.start_root(LEAD, interactive=True)
            stored.append(await supervisor.tell(root, "x", key="t"))
            started = await supervisor.start_child(root, SCOUT, "go", key="c")
            stored.append(started.message_id)
            outcome: Any = await supervisor.call(root, ORACLE, "ask")
            assert outcome.unwrap() == 1
            await supervisor.tell(root, "waits perhaps")

    await it.cut(use())
    async with _opened_again(it) as supervisor:
        for message in stored:
            outcome = await supervisor.wait(message)
            assert outcome.cause in (None, "crashed", "drain")
        for line in await supervisor.children(None):
            root = supervisor.agent(line.id)
            assert root is not None
            again = await supervisor.tell(root, "x", key="t")
            assert stored[:1] in ([], [again])
            await supervisor.wait(again)


@scene("open", opened=False)
async def a_block_with_an_agent_at_work_is_left(it: Scene) -> None:
    async def use() -> None:
        store = it.stage.store()
        async with ramet.open(store, specs=SPECS, model=it.model) as supervisor:
            it.supervisor = supervisor
            root = await supervisor.start_root(LEAD, interactive=True)
            await it.held(root)

    await it.cut(use())
    async with _opened_again(it):
        pass


@scene("run_headless", opened=False)
async def an_agent_is_run_headless(it: Scene) -> None:
    store = it.stage.store()
    run = ramet.run_headless(ORACLE, "ask", store=store, model=it.model)
    result = await it.cut(run)
    assert result is None or result.value == 1
    async with _opened_again(it) as supervisor:
        await it.rest()
        roots = await supervisor.children(None)
        assert len(roots) <= 1
        assert result is None or [line.id for line in roots] == [result.session_id]


# -- models ----------------------------------------------------------------------------


@scene("FunctionModel.request", opened=False, stored=False)
async def a_function_is_asked(it: Scene) -> None:
    async def think(asked: ModelRequest) -> str:
        await checkpoint()
        return "thought"

    model = FunctionModel(think)
    await it.cut(events_of(model, request(user("x"))))
    assert len(await events_of(model, request(user("x")))) == 1


@scene("testing.ScriptedModel.request", opened=False, stored=False)
async def a_script_is_asked(it: Scene) -> None:
    gate = Gate()
    model = ScriptedModel({"agent": [step("one", hold=gate), step("two")]})
    async with anyio.create_task_group() as group:
        group.start_soon(it.soon, gate.open)
        await it.cut(events_of(model, request(user("x"))))
    assert await events_of(model, request(user("x")))


@scene("testing.Gate.passed", opened=False, stored=False)
async def a_gate_is_passed(it: Scene) -> None:
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(it.soon, gate.open)
        await it.cut(gate.passed())
    await gate.passed()
    assert gate.arrivals == 2


@scene("testing.Gate.reached", opened=False, stored=False)
async def a_gate_is_waited_at(it: Scene) -> None:
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(gate.passed)
        await it.cut(gate.reached())
        await gate.reached()
        gate.open()


_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Read once; a client by itself reads them for every one of some hundred runs."""


async def _asked(model: OpenAIModel | LocalModel) -> int:
    async with model:
        return len(await events_of(model, request(user("x"))))


async def _ask_a_service(
    it: Scene, model: OpenAIModel | LocalModel, service: ChatService, address: str
) -> None:
    def make() -> openai.AsyncOpenAI:
        if isinstance(model, LocalModel):
            model._server.start()
        http = openai.DefaultAsyncHttpxClient(verify=_CERTIFICATES, trust_env=False)
        return openai.AsyncOpenAI(
            base_url=address, api_key="none", max_retries=0, http_client=http
        )

    service.otherwise = _ANSWER
    model._client._make = make
    count = await it.cut(_asked(model))
    assert count in (None, 3)
    assert model.open_requests == 0
    if it.knife.cut is None or it.knife.cut.at % 8 == 0:
        assert await _asked(model) == 3


@scene(
    "OpenAIModel.__aenter__",
    "OpenAIModel.__aexit__",
    "OpenAIModel.aclose",
    "OpenAIModel.request",
    opened=False,
    stored=False,
)
async def a_service_is_asked(it: Scene) -> None:
    with serve() as service:
        model = OpenAIModel("tiny", base_url=service.address, api_key="none")
        await _ask_a_service(it, model, service, service.address)


@scene(
    "LocalModel.__aenter__",
    "LocalModel.__aexit__",
    "LocalModel.aclose",
    "LocalModel.request",
    opened=False,
    stored=False,
)
async def a_local_model_is_asked(it: Scene) -> None:
    """The server inside the process is the service of the test: no weights are read."""
    with serve() as service:
        weights = it.stage.folder / "weights.gguf"
        weights.touch()
        model = LocalModel(weights)
        address = service.address.removesuffix("/v1")
        model._server._started = lambda: (object(), address)  # type: ignore[method-assign]
        await _ask_a_service(it, model, service, service.address)
