"""Minds and tools of a simulated run: looked on, slow, failing.

Lives here: what is put around every model and before every tool of a simulation.  At
each request and each call the laws are looked at that only a running agent can break:
its log is durable, its turn is open, and nobody has stopped it.  Then the fault that
the plan has for it comes, if any.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from ..actors.contributions import Setup
from ..actors.errors import ModelError
from ..actors.model import (
    Model,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelResponse,
)
from ..actors.model_function import FunctionModel
from ..actors.tool import ToolCall
from ..mailbox.message import Call
from .activation import Life

if TYPE_CHECKING:
    from .simulate_opening import Opening
    from .simulate_world import World

__all__ = ["SIMPLE_MIND", "Interposed", "simple_mind", "sudden_tools"]

_STUBBORN_S = 20.0
_HANGING_S = 86_400.0
_TEXT = "done"


async def simple_mind(request: ModelRequest) -> str | ModelResponse:
    """Come to an end: say `done`, or return the first value that comes to mind."""
    for tool in request.tools:
        if tool.name == "reply":
            value = _example(tool.parameters["properties"]["value"])
            call = Call("reply", json.dumps({"value": value}))
            return ModelResponse("", (call,), "tool_calls")
    return _TEXT


SIMPLE_MIND = FunctionModel(simple_mind)
"""A model that needs nothing: the default of a simulation."""


def _example(schema: Any) -> Any:
    """A value of a simple schema; of any other a guess."""
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "string")
    if kind == "object":
        names = schema.get("required", ())
        return {name: _example(schema["properties"][name]) for name in names}
    examples: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": []}
    return examples.get(kind, _TEXT)


class Interposed:
    """A model, and what a simulation puts around it.

    Args:
        world: where what is seen is written down.
        opening: whose models these are.
        inner: the model itself.
    """

    def __init__(self, world: World, opening: Opening, inner: Model) -> None:
        self._world = world
        self._opening = opening
        self._inner = inner
        self.capabilities: ModelCapabilities = inner.capabilities

    @asynccontextmanager
    async def request(
        self, request: ModelRequest
    ) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """Look on, meet a fault perhaps, and ask the model itself."""
        world, opening = self._world, self._opening
        _look(world, opening, request)
        world.requests.append(request)
        plan, chance = opening.store.disk.plan, world.chance
        if plan.slow_models_s is not None and chance.random() < 0.4:
            await anyio.sleep(plan.slow_models_s)
        if plan.failing_models and chance.random() < plan.failing_models:
            raise ModelError("the provider does not answer")
        inner = SIMPLE_MIND if opening.recovery else self._inner
        async with inner.request(request) as events:
            yield events


def _look(world: World, opening: Opening, request: ModelRequest) -> None:
    """What must hold at the instant at which a model is asked."""
    supervisor, name = opening.supervisor, request.session_id
    assert supervisor is not None
    activation = supervisor._runtime.forest.live.get(name)
    world.need(activation is not None, "1 a request of nobody", name)
    if activation is None:
        return
    stored = world.durable.get(name)
    durable = (
        stored is not None
        and stored.turn == request.turn
        and stored.step == request.step
        and stored.transcript == list(request.messages)
    )
    world.need(durable, "R-174 a request before its log is durable", name)
    going = all(one.life is Life.LIVE for one in activation.lineage())
    world.need(going, "R-148 a request below who is closing", name)
    session = activation.session
    world.need(session.interrupted is None, "R-135 a request after an interrupt", name)
    world.need(session.open is not None, "4 a request without a turn", name)


def sudden_tools(world: World, opening: Opening) -> Callable[[Setup], None]:
    """A contribution that looks at every call before it begins, and may harm it."""

    def before(name: str, arguments: str, call: ToolCall) -> Awaitable[None] | None:
        supervisor = opening.supervisor
        agent: Any = call.agent
        assert supervisor is not None
        stored = world.durable.get(agent.id)
        session = agent._activation.session
        durable = stored is not None and stored.step == session.step
        durable = durable and stored is not None and stored.turn == session.turn
        world.need(durable, "R-174 a tool before its log is durable", agent.id, name)
        plan, chance = opening.store.disk.plan, world.chance
        if plan.raising_tools and chance.random() < plan.raising_tools:
            raise OSError("the tool is out of order")
        if plan.hanging_tools and chance.random() < plan.hanging_tools:
            return _hanging(opening.free)
        if plan.stubborn_tools and chance.random() < plan.stubborn_tools:
            return _stubborn()
        return None

    def contribution(setup: Setup) -> None:
        setup.before_call(before)

    return contribution


async def _hanging(free: anyio.Event) -> None:
    """Hang, for a day at the most, since somebody may wait for this to end."""
    with anyio.move_on_after(_HANGING_S):
        await free.wait()


async def _stubborn() -> None:
    """Take a while, whatever anybody says."""
    with anyio.CancelScope(shield=True):
        await anyio.sleep(_STUBBORN_S)
