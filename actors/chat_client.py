"""The connection to a chat-completions provider: one client, many streamed requests.

Lives here: the life of the `openai` client, the request as context manager and iterator
with its deadline, and the translation of errors.  No text that leaves this file holds a
key or an address.  It knows nothing of transcripts.

The event stream is split here and not by the client: on trio the client's own iterator
leaves async generators to the garbage collector.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import quote, urlsplit

import anyio
from anyio.lowlevel import RunVar

from ..mailbox.errors import UsageError
from .chat_stream import EventSplitter
from .errors import ContextOverflowError, ModelError, RequestTimeoutError
from .model import ModelEvent

if TYPE_CHECKING:
    import openai

__all__ = ["ChatClient", "ChatRequest", "Reader", "require_openai"]

_T = TypeVar("_T")
_CLOSE_DEADLINE_S = 2.0
_TEXT_CHARACTERS = 500
_KEY_LIKE = re.compile(r"\bsk-[\w*.-]{4,}|\bBearer \S+")
_OVERFLOWS = ("exceed_context_size_error", "context_length_exceeded")

_LOOP: RunVar[object] = RunVar("ramet_chat_client_loop")


class Reader(Protocol):
    """What makes model events of the chunks of one response."""

    def read(self, chunk: Any) -> list[ModelEvent]:
        """Take one chunk; return the events that it holds."""
        ...

    def end(self) -> list[ModelEvent]:
        """Return the last events, once the stream is over."""
        ...


def require_openai(extra: str) -> Any:
    """Import the `openai` package.

    Raises:
        UsageError: it is not installed; the text says what to install.
    """
    try:
        import openai
    except ImportError as error:
        raise UsageError(
            f'this model needs the package openai: pip install "ramet[{extra}]"'
        ) from error
    return openai


class ChatClient:
    """One client of one provider, made when it is first used and closed by `aclose`.

    Args:
        make: makes the client; it is called inside the running event loop.
        timeout_s: the limit on one request in seconds, from its opening to its end, or
            `None`.
        key: the key that no text may hold.
        address: the address that no text may hold.
        bound_to_loop: whether the client keeps connections between requests, so that it
            cannot be used in another event loop before it is closed.
        owned: whether `aclose` closes the client, or only lets go of it.
    """

    def __init__(
        self,
        make: Callable[[], openai.AsyncOpenAI],
        *,
        timeout_s: float | None,
        key: str,
        address: str,
        bound_to_loop: bool = True,
        owned: bool = True,
    ) -> None:
        self._make = make
        self._owned = owned
        self._bound_to_loop = bound_to_loop
        self._secrets = _secrets(key, address)
        self._client: openai.AsyncOpenAI | None = None
        self._loop: object | None = None
        self.timeout_s = timeout_s
        self.open_requests = 0

    def opened(self) -> openai.AsyncOpenAI:
        """Return the client; the first call in an event loop makes it.

        Raises:
            UsageError: another event loop opened it and did not close it.
        """
        loop = _this_loop()
        if self._client is not None and self._loop is not loop:
            if self._bound_to_loop:
                raise UsageError(
                    "this model was used in another event loop and not closed there:"
                    " await its aclose() before that loop ends"
                )
            self._client = None
        if self._client is None:
            self._client = self._make()
            self._loop = loop
        return self._client

    async def aclose(self) -> None:
        """Close the client; the next request makes another one.  It may be repeated."""
        client, self._client = self._client, None
        if client is not None and self._owned and self._loop is _this_loop():
            await client.close()

    def request(
        self, body: Mapping[str, Any], read: Callable[[], Reader]
    ) -> ChatRequest:
        """Return one request; entering it sends it.

        Args:
            body: the JSON body, without `stream`.
            read: makes the reader of the response.
        """
        return ChatRequest(self, body, read)

    def describe(self, error: Exception) -> ModelError:
        """Return the error of the port for an error of the client."""
        if isinstance(error, ModelError):
            return error
        name = "error while streaming"
        if not isinstance(error, _StreamedError):
            name = type(error).__name__
        body = getattr(error, "body", None)
        said = body if isinstance(body, dict) else {}
        message = said.get("message")
        status = getattr(error, "status_code", None)
        where = name if status is None else f"{name} (status {status})"
        cause = error.__cause__
        text = str(message or getattr(error, "message", None) or error)
        if cause is not None:
            text = f"{text} ({type(cause).__name__})"
        text = self.scrub(f"{where}: {text}")
        if said.get("type") in _OVERFLOWS or said.get("code") in _OVERFLOWS:
            return ContextOverflowError(text)
        if name == "APITimeoutError":
            return RequestTimeoutError(text)
        return ModelError(text)

    def scrub(self, text: str) -> str:
        """Return a text for an error: short, without key and address."""
        for secret, stand_in in self._secrets:
            text = text.replace(secret, stand_in)
        text = _KEY_LIKE.sub("[key]", text)
        if len(text) > _TEXT_CHARACTERS:
            text = text[:_TEXT_CHARACTERS] + "..."
        return text


class ChatRequest:
    """One request: its context manager and its iterator in one object."""

    def __init__(
        self, client: ChatClient, body: Mapping[str, Any], read: Callable[[], Reader]
    ) -> None:
        self._client = client
        self._body = body
        self._reader = read()
        self._splitter = EventSplitter()
        self._events: deque[ModelEvent] = deque()
        self._pieces: AsyncIterator[bytes] | None = None
        self._close: Callable[[], Awaitable[None]] | None = None
        self._deadline = math.inf
        self._over = False

    async def __aenter__(self) -> Self:
        if self._client.timeout_s is not None:
            self._deadline = anyio.current_time() + self._client.timeout_s
        await self._ask(self._send)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pieces, self._pieces = self._pieces, None
        close, self._close = self._close, None
        self._events.clear()
        self._over = True
        try:
            if pieces is not None:
                await _abandon(pieces)
        finally:
            if close is not None:
                self._client.open_requests -= 1
                with anyio.move_on_after(_CLOSE_DEADLINE_S, shield=True):
                    await close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._events:
            if self._over:
                raise StopAsyncIteration
            await self._ask(self._receive)
        return self._events.popleft()

    async def _ask(self, operation: Callable[[], Awaitable[None]]) -> None:
        """Do one thing with the provider, within the deadline of the request."""
        failure: ModelError | None = None
        with anyio.CancelScope(deadline=self._deadline) as scope:
            try:
                await operation()
            except UsageError:
                raise
            except Exception as error:
                failure = self._client.describe(error)
        if scope.cancelled_caught:
            failure = RequestTimeoutError(
                f"the request took more than {self._client.timeout_s:g} seconds"
            )
        if failure is not None:
            # Raised out here, so that it carries no context: that may hold the key.
            self._over = True
            raise failure

    async def _send(self) -> None:
        client = self._client.opened()
        body = dict(self._body)
        opening = client.chat.completions.with_streaming_response.create(
            model=body.pop("model"),
            messages=body.pop("messages"),
            stream=True,
            timeout=None,
            extra_body=body,
        )
        opened = await opening.__aenter__()
        self._client.open_requests += 1
        self._close = opened.close
        self._pieces = opened.http_response.aiter_bytes()

    async def _receive(self) -> None:
        pieces = self._pieces
        assert pieces is not None, "enter the request before asking for its events"
        piece = await anext(pieces, None)
        if piece is None:
            self._over = True
            self._events.extend(self._reader.end())
            return
        for data in self._splitter.feed(piece):
            if data.strip() == "[DONE]":
                continue
            try:
                chunk = json.loads(data)
            except ValueError:
                raise ModelError(
                    "the provider sent an event that is not JSON"
                ) from None
            if isinstance(chunk, dict) and chunk.get("error"):
                raise _StreamedError(chunk["error"])
            self._events.extend(self._reader.read(chunk))


class _StreamedError(Exception):
    """Stands for an error that a provider sent inside a stream."""

    def __init__(self, body: Any) -> None:
        super().__init__(body if isinstance(body, str) else "no text")
        self.body = body


async def _abandon(pieces: AsyncIterator[bytes]) -> None:
    """Finish an iterator that is not wanted any more, and all that it stands on.

    Reading once more under a cancelled scope throws the cancellation through every
    generator of the chain; closing the outermost one would leave the others to the
    garbage collector.
    """
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            while await anext(pieces, None) is not None:
                pass
        except Exception:
            return  # The connection was broken: that finishes the chain as well.


def _this_loop() -> object:
    try:
        return _LOOP.get()
    except LookupError:
        mark = object()
        _LOOP.set(mark)
        return mark


def _secrets(key: str, address: str) -> list[tuple[str, str]]:
    secrets = []
    if len(key) > 3:
        secrets = [(key, "[key]"), (quote(key, safe=""), "[key]")]
    if address:
        host = urlsplit(address).netloc
        secrets += [(part, "[address]") for part in (address, host) if part]
    return secrets
