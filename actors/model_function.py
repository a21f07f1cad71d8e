"""A model written in Python: one async function is the agent's mind.

Lives here: the adapter that gives a function's answer as one whole response.  It keeps
nothing between requests.  The context manager and the iterator are written by hand:
they are cheap, and no async generator is left to the garbage collector.
"""

from __future__ import annotations

from inspect import isawaitable
from types import CoroutineType, TracebackType
from typing import Any, Self

from ..mailbox.errors import UsageError
from ..mailbox.message import Call, Usage
from .errors import ModelError
from .model import Mind, ModelCapabilities, ModelRequest, ModelResponse, ResponseEnded

__all__ = ["FunctionModel"]


class FunctionModel:
    """A model whose answers come from one async function.

    Args:
        function: gets the `ModelRequest` and returns the text of the answer, or a
            `ModelResponse`.  It may be called many times at once, and is cancelled like
            any model request.
        capabilities: what the model says that it can do.

    Raises:
        UsageError: `function` cannot be called.

    What the function raises comes out of the request as it is; anything else than a
    `str` or a `ModelResponse` is a `ModelError`.
    """

    __slots__ = ("_function", "capabilities")

    def __init__(
        self, function: Mind, *, capabilities: ModelCapabilities | None = None
    ) -> None:
        if not callable(function):
            raise UsageError(
                "FunctionModel needs an async function that takes a ModelRequest, not"
                f" {type(function).__name__}"
            )
        self._function = function
        self.capabilities: ModelCapabilities = capabilities or ModelCapabilities()

    def __repr__(self) -> str:
        return f"FunctionModel({_name(self._function)})"

    def request(self, request: ModelRequest) -> _Answer:
        """Ask the function; its answer is the one event of the response."""
        return _Answer(self._function, request)


class _Answer:
    """One request: its context manager and its iterator in one object."""

    __slots__ = ("_function", "_request")

    def __init__(self, function: Mind, request: ModelRequest) -> None:
        self._function = function
        self._request: ModelRequest | None = request

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._request = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ResponseEnded:
        request = self._request
        if request is None:
            raise StopAsyncIteration
        self._request = None
        answer: Any = self._function(request)
        if type(answer) is not CoroutineType and not isawaitable(answer):
            raise ModelError(
                f"{_name(self._function)} is not an async function: calling it gave"
                f" {type(answer).__name__}"
            )
        answer = await answer
        if isinstance(answer, str):
            return ResponseEnded(response=ModelResponse(answer))
        _check(answer, self._function)
        return ResponseEnded(response=answer)


def _check(answer: Any, function: Mind) -> None:
    """Refuse what is no response, so that nothing of a wrong shape is ever stored."""
    if not isinstance(answer, ModelResponse):
        raise ModelError(
            f"{_name(function)} returned {type(answer).__name__}; it must return str or"
            " ModelResponse"
        )
    wrong = _what_is_wrong(answer)
    if wrong is not None:
        raise ModelError(f"{_name(function)} returned a wrong ModelResponse: {wrong}")


def _what_is_wrong(answer: Any) -> str | None:
    if type(answer.text) is not str:
        return f"text must be str, not {type(answer.text).__name__}"
    if type(answer.calls) is not tuple or not all(map(_is_call, answer.calls)):
        return "calls must be a tuple of Call, each with texts"
    if type(answer.stop) is not str:
        return f"stop must be str, not {type(answer.stop).__name__}"
    if answer.usage is not None and not isinstance(answer.usage, Usage):
        return f"usage must be Usage or None, not {type(answer.usage).__name__}"
    return None


def _is_call(call: object) -> bool:
    return (
        isinstance(call, Call)
        and type(call.name) is str
        and type(call.arguments) is str
        and type(call.call_id) is str
    )


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__
