"""The model port: one request in, events out.

Obligations of an adapter (the suite in `ramet.testing.ModelContract` checks them):

* `request` may be called many times at once.  Its context manager opens one request to
  the provider and closes it on leaving, whatever happens, cancellation included.
* Places count the calls of one response from 0.  Argument text is passed on raw, never
  parsed and never repaired.
* The last event is one `ResponseEnded`.  A response without it is lost, and nothing of
it
  is used.  An adapter never makes a response up and never asks a provider twice.
* A failure is a `ModelError` or below; its text holds no key.  `SystemExit` and the
like
  are treated as failures of the turn.
* It runs on asyncio and on trio, or says at once that it does not.
* `aclose` is called once by whoever made the model; a model that a user made is closed
  by the user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import attrs

from ..mailbox.leaf import leaf
from ..mailbox.message import (
    AssistantMessage,
    Call,
    ToolMessage,
    Usage,
    UserMessage,
    record,
)

__all__ = [
    "ArgumentsDelta",
    "CallDone",
    "CallStarted",
    "Message",
    "Model",
    "ModelCapabilities",
    "ModelEvent",
    "ModelRequest",
    "ModelResponse",
    "Refused",
    "ResponseEnded",
    "StopReason",
    "TextDelta",
    "ToolSchema",
]

StopReason = Literal[
    "end_turn", "tool_calls", "length", "refusal", "incomplete", "unknown"
]

Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@record
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@attrs.frozen
class ModelCapabilities:
    """What a model port can do.

    `tools`: it can be offered tools.  `narrowing`: the tools may change from one
    request to the next, and `ModelRequest.tools` is what is offered.  `raw_arguments`:
    argument text reaches the runtime as the model wrote it.  `streaming`: text comes in
    pieces.
    """

    tools: bool = True
    narrowing: bool = True
    raw_arguments: bool = True
    streaming: bool = False


@record
class ModelRequest:
    """One request: the whole transcript, the tools on offer and the settings.

    `name` is the agent's name, `session_id`, `turn` and `step` its place.  `settings`
    are passed on to the provider as they are (`max_tokens`, `temperature`, ...).
    """

    name: str
    session_id: str
    turn: int
    step: int
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    settings: Mapping[str, Any]


@leaf
class TextDelta:
    """A piece of the text."""

    text: str


@leaf
class CallStarted:
    """The call at `place` began."""

    place: int
    name: str
    call_id: str = ""


@leaf
class ArgumentsDelta:
    """A piece of the argument text of the call at `place`."""

    place: int
    text: str


@leaf
class CallDone:
    """The argument text of the call at `place` is whole."""

    place: int
    arguments: str


@leaf
class Refused:
    """The provider refused, by its protocol."""

    text: str = ""


@record
class ModelResponse:
    """A whole response: what a model without streaming gives at once."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str = "end_turn"
    usage: Usage | None = None


@leaf
class ResponseEnded:
    """The response is over.

    `calls` are those that the provider's end names, if it names any; they must agree
    with what was streamed.  `response` is the whole of a response that was not
    streamed.
    """

    stop: str = "end_turn"
    usage: Usage | None = None
    calls: tuple[Call, ...] | None = None
    response: ModelResponse | None = None


ModelEvent: TypeAlias = (
    TextDelta | CallStarted | ArgumentsDelta | CallDone | Refused | ResponseEnded
)


@runtime_checkable
class Model(Protocol):
    """What an agent thinks with."""

    @property
    def capabilities(self) -> ModelCapabilities:
        """What this port can do; the same at every call."""
        ...

    def request(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Open one request; entering it may block, and so may each event."""
        ...


Mind: TypeAlias = Callable[[ModelRequest], Awaitable["str | ModelResponse"]]
