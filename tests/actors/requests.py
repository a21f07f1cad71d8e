"""Requests for tests of model ports.

Lives here: one way to make a small request, and one way to read its whole response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ramet.actors.model import Message, Model, ModelEvent, ModelRequest, ToolSchema
from ramet.actors.response import Assembled, ResponseAssembler, ResponseFault
from ramet.mailbox.message import UserMessage

__all__ = ["ask", "events_of", "request", "tool", "user"]


def user(*blocks: str, source: str = "prompt") -> UserMessage:
    """A message of the host."""
    return UserMessage("m1", source, "host", blocks)


def tool(name: str, **properties: Mapping[str, Any]) -> ToolSchema:
    """A tool whose properties are all required."""
    return ToolSchema(
        name,
        f"The tool {name}.",
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    )


def request(
    *messages: Message,
    tools: Sequence[ToolSchema] = (),
    instructions: str = "",
    settings: Mapping[str, Any] | None = None,
    name: str = "agent",
) -> ModelRequest:
    """A request with this transcript; without one it says hello."""
    return ModelRequest(
        name,
        "s1",
        1,
        1,
        instructions,
        messages or (user("Hello."),),
        tuple(tools),
        settings or {},
    )


async def events_of(model: Model, asked: ModelRequest) -> list[ModelEvent]:
    """All events of one response."""
    async with model.request(asked) as events:
        return [event async for event in events]


async def ask(model: Model, asked: ModelRequest) -> Assembled | ResponseFault:
    """One response, put together."""
    assembler = ResponseAssembler()
    async with model.request(asked) as events:
        async for event in events:
            assembler.add(event)
    return assembler.end()
