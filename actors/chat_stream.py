"""How the stream of a chat-completions response becomes model events.

Lives here: the splitting of server-sent events, and the reading of chunks.  Chunks are
judged by hand, field by field: providers differ, and a client's classes check nothing.
It never parses arguments and never reads bytes itself.
"""

from __future__ import annotations

import codecs
import json
from typing import Any

from ..mailbox.message import Usage
from .errors import ModelError
from .model import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ModelEvent,
    Refused,
    ResponseEnded,
    TextDelta,
)

__all__ = ["ChatReader", "EventSplitter", "token_usage"]

_EVENT_CHARACTERS = 16_000_000

_STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class EventSplitter:
    """Splits bytes of a server-sent event stream into the data of its events.

    It reads UTF-8 across any borders; an event of more than 16 million characters is
    refused, so that no provider can fill the memory.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._size = 0
        self._return_before = False

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes; return the data of each event that they finish."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        if self._return_before and text[0] == "\n":
            text = text[1:]
        self._return_before = text.endswith("\r")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        finished = []
        for line in lines[:-1]:
            self._line.append(line)
            data = self._end_line("".join(self._line))
            self._line = []
            if data is not None:
                finished.append(data)
        if lines[-1]:
            self._line.append(lines[-1])
            self._count(lines[-1])
        return finished

    def _end_line(self, line: str) -> str | None:
        if not line:
            if not self._data:
                return None
            data = "\n".join(self._data)
            self._data = []
            self._size = 0
            return data
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._count(value)
        return None

    def _count(self, text: str) -> None:
        self._size += len(text)
        if self._size > _EVENT_CHARACTERS:
            raise ModelError("the provider sent an event without an end")


class _StreamedCall:
    """One call while its pieces come in; it is told once its name is known."""

    __slots__ = ("call_id", "name", "pieces", "place")

    def __init__(self, place: int, call_id: str) -> None:
        self.place = place
        self.call_id = call_id
        self.name = ""
        self.pieces: list[str] = []


class ChatReader:
    """Reads the chunks of one response.

    Feed it each chunk with `read`, and ask `end` when the stream is over.  A stream
    that ended without a finish reason gets no end: the response is lost.

    When the provider cut the response by its length limit, the call that came last may
    be half.  It counts as whole only if its text is a closed JSON object, to which
    nothing could have been added.
    """

    def __init__(self) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[Any, _StreamedCall] = {}
        self._refusal: list[str] = []
        self._last: _StreamedCall | None = None
        self._stop: str | None = None
        self._usage: Usage | None = None

    def read(self, chunk: Any) -> list[ModelEvent]:
        """Take one chunk; return the events that it holds.

        Raises:
            ModelError: the chunk is not of the protocol.
        """
        if not isinstance(chunk, dict):
            raise ModelError("the provider sent a chunk that is no JSON object")
        usage = token_usage(chunk.get("usage"))
        if usage is not None:
            self._usage = usage
        events: list[ModelEvent] = []
        for choice in _list(chunk.get("choices"), "choices"):
            if not isinstance(choice, dict):
                raise ModelError("the provider sent a choice that is no JSON object")
            if choice.get("index") in (0, None):
                self._read_choice(choice, events)
        return events

    def end(self) -> list[ModelEvent]:
        """Return the last events of the response; none when its end is lost."""
        stop = self._stop
        if stop is None:
            return []
        events: list[ModelEvent] = []
        for call in self._calls:
            if not call.name:
                raise ModelError("the provider sent a tool call without a name")
            arguments = "".join(call.pieces)
            cut = stop == "length" and call is self._last and not _closed(arguments)
            if not cut:
                events.append(CallDone(call.place, arguments))
        if self._refusal or stop == "refusal":
            events.append(Refused("".join(self._refusal)))
            stop = "refusal"
        elif self._calls and stop == "end_turn":
            stop = "tool_calls"
        events.append(ResponseEnded(stop, self._usage))
        return events

    def _read_choice(self, choice: dict[str, Any], events: list[ModelEvent]) -> None:
        delta = choice.get("delta")
        if delta is not None:
            if not isinstance(delta, dict):
                raise ModelError("the provider sent a delta that is no JSON object")
            text = _text(delta.get("content"), "content")
            if text:
                events.append(TextDelta(text))
            refusal = _text(delta.get("refusal"), "refusal")
            if refusal:
                self._refusal.append(refusal)
            for piece in _list(delta.get("tool_calls"), "tool_calls"):
                self._read_call(piece, events)
        reason = _text(choice.get("finish_reason"), "finish_reason")
        if reason:
            self._stop = _STOPS.get(reason, "unknown")

    def _read_call(self, piece: Any, events: list[ModelEvent]) -> None:
        function = piece.get("function") if isinstance(piece, dict) else None
        if not isinstance(function, dict):
            if function is None and isinstance(piece, dict):
                function = {}
            else:
                raise ModelError("the provider sent a tool call of a wrong shape")
        call = self._call_of(piece)
        self._last = call
        name = _text(function.get("name"), "name")
        arguments = _text(function.get("arguments"), "arguments")
        if name and not call.name:
            call.name = name
            events.append(CallStarted(call.place, name, call.call_id))
            # What came before the name is told after it.
            events.extend(ArgumentsDelta(call.place, text) for text in call.pieces)
        if arguments:
            call.pieces.append(arguments)
            if call.name:
                events.append(ArgumentsDelta(call.place, arguments))

    def _call_of(self, piece: dict[str, Any]) -> _StreamedCall:
        """Find the call that a piece belongs to, or open the next place.

        Some servers give no index, or the same for each call: another id is another
        call then.
        """
        index = piece.get("index")
        if not isinstance(index, int):
            index = None
        call_id = _text(piece.get("id"), "id")
        call = self._by_index.get(index)
        if call is None or (call_id and call.call_id and call_id != call.call_id):
            call = _StreamedCall(len(self._calls), call_id)
            self._calls.append(call)
            self._by_index[index] = call
        elif call_id and not call.name:
            call.call_id = call_id
        return call


def token_usage(usage: Any) -> Usage | None:
    """Read a provider's usage; input tokens include those read from its cache."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_tokens=_count(cached),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _text(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ModelError(f"the provider sent a {name} that is no text")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ModelError(f"the provider sent {name} that are no list")
    return value


def _closed(arguments: str) -> bool:
    """Tell whether a text is a whole JSON object: no longer text begins with it."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
