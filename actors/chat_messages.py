"""How a transcript is written as the messages of a chat-completions request.

Lives here: the mapping of the four classes of a transcript and of tools to plain JSON
data, the ids by which calls and results find each other, and the replacement of what
cannot be sent.  It knows no provider and no client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..mailbox.message import (
    AssistantMessage,
    Call,
    CallResult,
    ToolMessage,
    UserMessage,
)
from .model import Message, ModelRequest, ToolSchema

__all__ = [
    "Substitutions",
    "call_ids",
    "chat_messages",
    "chat_tools",
    "plain",
    "result_text",
]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Substitutions:
    """Counts the characters that were replaced because UTF-8 has none for them."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count: int = 0

    def sendable(self, text: str) -> str:
        """Return the text with U+FFFD for each unpaired surrogate (R-021).

        Two surrogates that make a pair are the character that they stand for.
        """
        if text.isascii() or _SURROGATE.search(text) is None:
            return text
        paired = text.encode("utf-16-le", "surrogatepass")
        sent = paired.decode("utf-16-le", "replace")
        self.count += sent.count("\ufffd") - text.count("\ufffd")
        return sent


def plain(data: Any, substitutions: Substitutions) -> Any:
    """Return JSON data made of plain dicts, lists and texts that can be sent."""
    if isinstance(data, str):
        return substitutions.sendable(data)
    if isinstance(data, Mapping):
        return {
            substitutions.sendable(str(key)): plain(value, substitutions)
            for key, value in data.items()
        }
    if isinstance(data, Sequence):
        return [plain(item, substitutions) for item in data]
    return data


def chat_tools(
    tools: Sequence[ToolSchema], substitutions: Substitutions
) -> list[dict[str, Any]]:
    """Write the tools on offer as function tools, without strict sampling (A-111)."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": substitutions.sendable(tool.description),
                "parameters": plain(tool.parameters, substitutions),
            },
        }
        for tool in tools
    ]


def chat_messages(
    request: ModelRequest, substitutions: Substitutions
) -> list[dict[str, Any]]:
    """Write instructions and transcript as chat messages.

    Each block of a user message is a text part of its own, so that no text can close or
    imitate the frame before it (R-020).  Each result is a `tool` message of its own.
    """
    sendable = substitutions.sendable
    ids = call_ids(request.messages)
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": sendable(request.instructions)})
    for message, own_ids in zip(request.messages, ids, strict=True):
        if isinstance(message, UserMessage):
            messages.append(_user(message, substitutions))
        elif isinstance(message, AssistantMessage):
            if message.text or message.calls:
                messages.append(_assistant(message, own_ids, substitutions))
        else:
            messages.extend(
                {
                    "role": "tool",
                    "tool_call_id": call_id,
                    "content": sendable(result_text(result)),
                }
                for call_id, result in zip(own_ids, message.results, strict=True)
            )
    return messages


def _user(message: UserMessage, substitutions: Substitutions) -> dict[str, Any]:
    texts = [substitutions.sendable(block) for block in message.blocks if block]
    if len(texts) == 1:
        return {"role": "user", "content": texts[0]}
    return {
        "role": "user",
        "content": [{"type": "text", "text": text} for text in texts],
    }


def _assistant(
    message: AssistantMessage, ids: Sequence[str], substitutions: Substitutions
) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant"}
    if message.text:
        written["content"] = substitutions.sendable(message.text)
    if message.calls:
        written["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": substitutions.sendable(call.name),
                    "arguments": substitutions.sendable(call.arguments),
                },
            }
            for call_id, call in zip(ids, message.calls, strict=True)
        ]
    return written


def result_text(result: CallResult) -> str:
    """Return what a model reads of a result; an error names its code, once."""
    if result.error is None or result.error in result.content:
        return result.content
    return f"{result.error}: {result.content}"


def call_ids(messages: Sequence[Message]) -> list[tuple[str, ...]]:
    """Return for each message the ids of its calls, or of the calls it answers.

    A provider's id is kept where it is the first of its kind.  An empty or repeated one
    is replaced by one made of the place in the transcript, which no later message
    changes.
    """
    taken: set[str] = set()
    ids: list[tuple[str, ...]] = []
    asked: tuple[str, ...] = ()
    for position, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            asked = _name_calls(message.calls, position, taken)
            ids.append(asked)
        elif isinstance(message, ToolMessage):
            if len(asked) != len(message.results):
                asked = _name_calls(message.calls, position, taken)
            ids.append(asked)
            asked = ()
        else:
            ids.append(())
    return ids


def _name_calls(
    calls: Sequence[Call], position: int, taken: set[str]
) -> tuple[str, ...]:
    named = []
    for place, call in enumerate(calls):
        name = call.call_id
        if not name or name in taken or _SURROGATE.search(name) is not None:
            name = f"call_{position}_{place}"
            while name in taken:
                name += "_"
        taken.add(name)
        named.append(name)
    return tuple(named)
