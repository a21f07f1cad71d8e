"""How one response is put together from what a model port gives.

Lives here: the check that the pieces and the end of a response agree, and the whole
that comes out.  It judges the protocol only: it does not parse arguments, knows no
contract and never looks into a text.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

import attrs

from ..mailbox.message import Call, Usage, record
from .model import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ModelEvent,
    ModelResponse,
    Refused,
    ResponseEnded,
    StopReason,
    TextDelta,
)

__all__ = ["Assembled", "ResponseAssembler", "ResponseFault", "odd_usage"]

_STOPS = frozenset(get_args(StopReason))

_BROKEN_OFF = frozenset(("length", "incomplete", "refusal"))
"""The stops that say themselves why a call may have stayed half."""


@record
class Assembled:
    """A whole response.

    `calls` are the whole calls in the order of their places.  `refusal` is `None`, or
    what the provider said when it refused by its protocol; it may be empty.
    """

    text: str
    calls: tuple[Call, ...]
    stop: str
    usage: Usage | None
    refusal: str | None = None


@record
class ResponseFault:
    """Why nothing of a response may be used.

    `code` is `output-protocol-unknown` or `output-contract-conflict`.  What the
    response cost is counted all the same.
    """

    code: str
    reason: str
    usage: Usage | None = None


Result: TypeAlias = Assembled | ResponseFault


class _OpenCall:
    """One call while its argument text comes in."""

    __slots__ = ("arguments", "call_id", "name", "pieces")

    def __init__(self, name: str, call_id: str) -> None:
        self.name = name
        self.call_id = call_id
        self.pieces: list[str] = []
        self.arguments: str | None = None

    def so_far(self) -> Call:
        arguments = self.arguments
        if arguments is None:
            arguments = "".join(self.pieces)
        return Call(self.name, arguments, self.call_id)


class ResponseAssembler:
    """Put one response together, event by event.

    `add` never raises: the first fault is kept and what comes after it is ignored.
    Repeating an end, a start or finished arguments word for word is harmless (A-029,
    A-119); pieces of several calls may come interleaved (A-122); places tell calls
    apart, whatever ids the provider gave them (A-118).
    """

    __slots__ = ("_calls", "_ended", "_fault", "_refusal", "_text")

    def __init__(self) -> None:
        self._text: list[str] | None = None
        self._calls: dict[int, _OpenCall] | None = None
        self._ended: ResponseEnded | None = None
        self._refusal: str | None = None
        self._fault: ResponseFault | None = None

    def add(self, event: ModelEvent) -> None:
        """Take the next event of the response."""
        if self._fault is not None:
            return
        kind = type(event)
        odd = _odd_field(event)
        if odd is not None:
            self._break(f"the model port gave a {kind.__name__} with an odd {odd}")
        elif kind is ResponseEnded:
            self._add_end(event)  # type: ignore[arg-type]
        elif kind is CallDone:
            self._finish_call(event)  # type: ignore[arg-type]
        elif self._ended is not None:
            self._break(f"a {kind.__name__} came after the end of the response")
        elif kind is TextDelta:
            if self._text is None:
                self._text = []
            self._text.append(event.text)  # type: ignore[union-attr]
        elif kind is ArgumentsDelta:
            self._extend_call(event)  # type: ignore[arg-type]
        elif kind is CallStarted:
            self._start_call(event)  # type: ignore[arg-type]
        elif kind is Refused:
            self._refusal = self._refusal or event.text  # type: ignore[union-attr]
        else:
            self._break(f"a {kind.__name__} is not a model event")

    def partial(self) -> str:
        """Return the text so far: what a step that was cut has to show (R-157)."""
        ended = self._ended
        if ended is not None and ended.response is not None:
            return ended.response.text
        return "" if self._text is None else "".join(self._text)

    @property
    def usage(self) -> Usage | None:
        """What the response cost, as far as its end said so; also after a fault."""
        ended = self._ended
        if ended is None:
            return None
        if ended.usage is None and ended.response is not None:
            return ended.response.usage
        return ended.usage

    def end(self) -> Result:
        """Return the whole response, or why nothing of it may be used.

        Call it once the model port has no more events.  A response without its end is
        lost (A-021, A-117).
        """
        ended = self._ended
        if ended is None and self._fault is None:
            self._break("the end of the response is lost")
        if self._fault is not None:
            return attrs.evolve(self._fault, usage=self.usage)
        assert ended is not None
        whole = ended.response
        if whole is None:
            return self._put_together(ended)
        if self._text is None and self._calls is None and ended.calls is None:
            return self._finished(whole.text, whole.calls, whole.stop)
        return self._compare(ended, whole)

    def _break(self, reason: str, code: str = "output-protocol-unknown") -> None:
        self._fault = ResponseFault(code, reason)

    def _add_end(self, event: ResponseEnded) -> None:
        if self._ended is None:
            self._ended = event
        elif self._ended != event:
            self._break("the response ended twice, in two ways")

    def _start_call(self, event: CallStarted) -> None:
        if self._calls is None:
            self._calls = {}
        call = self._calls.get(event.place)
        if call is None:
            self._calls[event.place] = _OpenCall(event.name, event.call_id)
        elif (call.name, call.call_id) != (event.name, event.call_id):
            self._break(f"two calls began at place {event.place}")

    def _extend_call(self, event: ArgumentsDelta) -> None:
        call = self._call_at(event.place)
        if call is None:
            return
        if call.arguments is None:
            call.pieces.append(event.text)
        elif event.text:
            self._break(f"arguments went on after place {event.place} was finished")

    def _finish_call(self, event: CallDone) -> None:
        call = self._call_at(event.place)
        if call is None:
            return
        if call.arguments is not None:
            if call.arguments != event.arguments:
                self._break(
                    f"place {event.place} was finished twice, with two texts",
                    "output-contract-conflict",
                )
        elif self._ended is not None:
            self._break(f"place {event.place} was finished after the end")
        elif call.pieces and "".join(call.pieces) != event.arguments:
            self._break(f"place {event.place} was finished with another text than came")
        else:
            call.arguments = event.arguments

    def _call_at(self, place: int) -> _OpenCall | None:
        call = None if self._calls is None else self._calls.get(place)
        if call is None:
            self._break(f"arguments came for place {place}, where no call began")
        return call

    def _put_together(self, ended: ResponseEnded) -> Result:
        opened = self._calls or {}
        ordered = [opened[place] for place in sorted(opened)]
        whole = tuple(call.so_far() for call in ordered if call.arguments is not None)
        broken_off = ended.stop in _BROKEN_OFF or self._refusal is not None
        if len(whole) < len(ordered) and not broken_off:
            return self._fail("the arguments of a call never finished")
        named = ended.calls
        if named is not None and not _agree(named, whole):
            # A provider may name what it cut as well; that contradicts nothing.
            streamed = tuple(call.so_far() for call in ordered)
            if not (broken_off and _agree(named, streamed)):
                return self._fail("the end names other calls than were streamed")
        return self._finished(self.partial(), whole, ended.stop)

    def _compare(self, ended: ResponseEnded, whole: ModelResponse) -> Result:
        """Check a whole response against pieces that came before it."""
        calls = self._calls or {}
        streamed = tuple(calls[place].so_far() for place in sorted(calls))
        if self._text is not None and "".join(self._text) != whole.text:
            return self._fail("the end has another text than was streamed")
        if self._calls is not None and not _agree(whole.calls, streamed):
            return self._fail("the end has other calls than were streamed")
        if ended.calls is not None and not _agree(ended.calls, whole.calls):
            return self._fail("the end names other calls than it holds")
        return self._finished(whole.text, whole.calls, whole.stop)

    def _fail(self, reason: str) -> ResponseFault:
        return ResponseFault("output-protocol-unknown", reason, self.usage)

    def _finished(self, text: str, calls: tuple[Call, ...], stop: str) -> Assembled:
        refusal = self._refusal
        if refusal is not None:
            stop = "refusal"
        elif stop not in _STOPS:
            stop = "unknown"
        elif stop == "refusal":
            refusal = ""
        return Assembled(text, calls, stop, self.usage, refusal)


_FIELDS: dict[type, tuple[tuple[str, type], ...]] = {
    TextDelta: (("text", str),),
    CallStarted: (("place", int), ("name", str), ("call_id", str)),
    ArgumentsDelta: (("place", int), ("text", str)),
    CallDone: (("place", int), ("arguments", str)),
    Refused: (("text", str),),
}

_COUNTS = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "tool_calls",
)

_MOST = 2**53 - 1


def _odd_field(event: object) -> str | None:
    """The field of an event that is not what the port promises, by name.

    What a log could not hold must not get into it: it would end the whole store.
    """
    if type(event) is ResponseEnded:
        return _odd_end(event)
    for name, kind in _FIELDS.get(type(event), ()):
        if type(getattr(event, name)) is not kind:
            return name
    return None


def _odd_end(ended: ResponseEnded) -> str | None:
    whole = ended.response
    if type(ended.stop) is not str:
        return "stop"
    if odd_usage(ended.usage):
        return "usage"
    if ended.calls is not None and _odd_calls(ended.calls):
        return "call"
    if whole is None:
        return None
    if type(whole) is not ModelResponse:
        return "response"
    if type(whole.text) is not str:
        return "text"
    if type(whole.stop) is not str:
        return "stop"
    if odd_usage(whole.usage):
        return "usage"
    return "call" if _odd_calls(whole.calls) else None


def _odd_calls(calls: object) -> bool:
    if type(calls) is not tuple:
        return True
    return any(map(_odd_call, calls))


def _odd_call(call: object) -> bool:
    return (
        type(call) is not Call
        or type(call.name) is not str
        or type(call.arguments) is not str
        or type(call.call_id) is not str
    )


def odd_usage(usage: object) -> bool:
    """Whether this is neither `None` nor a `Usage` that a log can hold."""
    if usage is None:
        return False
    if type(usage) is not Usage:
        return True
    for name in _COUNTS:
        count = getattr(usage, name)
        if count is not None and (type(count) is not int or not 0 <= count <= _MOST):
            return True
    return False


def _agree(named: tuple[Call, ...], streamed: tuple[Call, ...]) -> bool:
    """Tell whether two lists name the same calls; an empty id contradicts no id."""
    return len(named) == len(streamed) and all(
        one.name == other.name
        and one.arguments == other.arguments
        and (one.call_id == other.call_id or not one.call_id or not other.call_id)
        for one, other in zip(named, streamed, strict=True)
    )
