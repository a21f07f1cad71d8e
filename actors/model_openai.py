"""A model behind an OpenAI-compatible chat-completions service.

Lives here: the adapter's options, its key and its settings.  How a transcript is
written, a stream read and a connection kept are files of their own (`chat_messages`,
`chat_stream`, `chat_client`).  It needs the extra `openai`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..mailbox.errors import UsageError
from .chat_client import ChatClient, ChatRequest, require_openai
from .chat_messages import Substitutions, chat_messages, chat_tools, plain
from .chat_stream import ChatReader
from .model import ModelCapabilities, ModelRequest

if TYPE_CHECKING:
    import httpx2
    import openai

__all__ = ["OpenAIModel", "check_settings"]

_NO_KEY = "none"
_RESERVED = frozenset(
    ("messages", "model", "n", "stream", "stream_options", "tool_choice", "tools")
)


class OpenAIModel:
    """A model behind an OpenAI-compatible chat-completions service.

    Args:
        model: the name that the service knows.
        base_url: its address; `None` takes `OPENAI_BASE_URL`, else that of OpenAI.
        api_key: its key; `None` takes `OPENAI_API_KEY`.  With an address, a key may be
            missing: many local services need none.
        timeout_s: the limit on one request in seconds, from its opening to its last
            event; `None` is unbounded.
        settings: sent with every request as they are (`temperature`, `max_tokens`,
            ...); those of a request come before them.
        http_client: the `httpx2.AsyncClient` to use; it is not closed by this model.

    Raises:
        UsageError: the package `openai` or a key is missing, or an argument is wrong.

    Answers come in pieces.  A request is made once and never repeated.  The model never
    forces a tool choice.  It runs on asyncio and on trio, in one event loop at a time;
    `aclose` closes its connections, and it may be used in another loop after that.

    `substitutions` counts the unpaired surrogates that were sent as U+FFFD.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float | None = 60.0,
        settings: Mapping[str, Any] | None = None,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise UsageError("model must be the name of a model, such as 'gpt-5-mini'")
        if timeout_s is not None and not timeout_s > 0:
            raise UsageError(f"timeout_s must be positive or None, not {timeout_s!r}")
        library = require_openai("openai")
        address = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        if not key and not address:
            raise UsageError("no API key: pass api_key, or set OPENAI_API_KEY")
        self._model = model
        self._settings = check_settings(settings or {})
        self._substitutions = Substitutions()

        def make() -> openai.AsyncOpenAI:
            client: openai.AsyncOpenAI = library.AsyncOpenAI(
                base_url=address or None,
                api_key=key or _NO_KEY,
                max_retries=0,
                timeout=None,
                http_client=http_client,
            )
            return client

        self._client = ChatClient(
            make,
            timeout_s=timeout_s,
            key=key,
            address=address,
            owned=http_client is None,
        )
        self.capabilities: ModelCapabilities = ModelCapabilities(streaming=True)

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    @property
    def substitutions(self) -> int:
        """How many characters were replaced because they could not be sent (R-021)."""
        return self._substitutions.count

    @property
    def open_requests(self) -> int:
        """How many responses are being read now."""
        return self._client.open_requests

    def request(self, request: ModelRequest) -> ChatRequest:
        """Return one request; entering it sends it.

        Raises:
            UsageError: a setting is one that the model writes itself.
        """
        substitutions = self._substitutions
        settings = {**self._settings, **check_settings(request.settings)}
        body: dict[str, Any] = {
            **plain(settings, substitutions),
            "model": self._model,
            "messages": chat_messages(request, substitutions),
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = chat_tools(request.tools, substitutions)
        return self._client.request(body, ChatReader)

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones.

        It may be called again.
        """
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as a dict.

    Raises:
        UsageError: one of them is a part of the request that the model writes itself.
    """
    wrong = sorted(_RESERVED.intersection(settings))
    if wrong:
        raise UsageError(f"settings may not hold what the model writes itself: {wrong}")
    return dict(settings)
