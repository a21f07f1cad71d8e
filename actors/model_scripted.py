"""A model for tests that plays fixed steps and fails when it is asked for one more.

Lives here: steps, gates and the model that plays them by agent name.  It never waits by
the clock: a step that must come later hangs on a gate, which the test opens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio
import attrs

from ..mailbox.errors import UsageError
from ..mailbox.message import Call, Usage
from .errors import ModelError
from .model import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ResponseEnded,
    TextDelta,
)

__all__ = ["Gate", "ScriptExhaustedError", "ScriptedModel", "Step", "call", "step"]

_PIECE_CHARACTERS = 8


class ScriptExhaustedError(ModelError):
    """Raised by a `ScriptedModel` when an agent asks for more steps than it has."""


class Gate:
    """A door in a scripted answer: requests hang on it until the test opens it.

    It works under asyncio and trio, and may be made before any loop runs.  Once open it
    stays open.
    """

    __slots__ = ("_arrived", "_opening", "arrivals", "is_open")

    def __init__(self) -> None:
        self.is_open: bool = False
        self.arrivals: int = 0
        self._opening: anyio.Event | None = None
        self._arrived: anyio.Event | None = None

    def open(self) -> None:
        """Let everything pass that hangs on the gate, now and later."""
        self.is_open = True
        if self._opening is not None:
            self._opening.set()

    async def reached(self, count: int = 1) -> None:
        """Wait until `count` requests have come to the gate since it was made."""
        while self.arrivals < count:
            if self._arrived is None:
                self._arrived = anyio.Event()
            await self._arrived.wait()

    async def passed(self) -> None:
        """Say that one more has come, and wait until the gate is open."""
        self.arrivals += 1
        if self._arrived is not None:
            self._arrived.set()
            self._arrived = None
        if not self.is_open:
            if self._opening is None:
                self._opening = anyio.Event()
            await self._opening.wait()


Played: TypeAlias = ModelEvent | Gate


@attrs.frozen
class Step:
    """One answer of a scripted model; `step()` makes it."""

    text: str
    calls: tuple[Call, ...]
    stop: str
    usage: Usage | None
    raw: tuple[Played, ...] | None
    hold: Gate | None
    error: BaseException | None


def call(tool: str, /, **arguments: Any) -> Call:
    """Make a tool call with these arguments, written as compact JSON.

    For argument text that is not JSON, make a `ramet.Call` with the raw text.
    """
    return Call(tool, json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))


def step(
    text: str = "",
    calls: Iterable[Call] = (),
    stop: str | None = None,
    usage: Usage | None = None,
    raw: Sequence[Played] | None = None,
    hold: Gate | None = None,
    error: BaseException | None = None,
) -> Step:
    """Make one answer of a scripted model.

    Args:
        text: the text of the answer.
        calls: its tool calls, made with `call`.
        stop: its stop reason; `None` means `tool_calls` with calls, else `end_turn`.
        usage: what it cost; `None` means that the model does not say.
        raw: events to play as they are, instead of text, calls and stop.  A `Gate`
            among them holds the answer at that place.
        hold: a gate that the request hangs on before anything of the answer comes.
        error: what the request raises, after `hold` and after the events of `raw`.

    Raises:
        UsageError: `raw` comes together with text, calls, stop or usage, or a call is
            not a `Call`.
    """
    calls = tuple(calls)
    for one in calls:
        if not isinstance(one, Call):
            raise UsageError(f"a call must be a Call, not {type(one).__name__}")
    if raw is not None and (text or calls or stop is not None or usage is not None):
        raise UsageError("raw replaces text, calls, stop and usage: give only raw")
    if stop is None:
        stop = "tool_calls" if calls else "end_turn"
    events = None if raw is None else tuple(raw)
    return Step(text, calls, stop, usage, events, hold, error)


class ScriptedModel:
    """A model that plays fixed steps for each agent name.

    Args:
        steps: the steps of each agent, by the name of its spec, in order.  Agents of
            one name share them.
        stream: whether texts and arguments come in pieces.
        capabilities: what the model says that it can do; the default follows `stream`.

    `requests` holds every request in the order in which it was opened.

    Asked for one step more than there are, a request raises `ScriptExhaustedError`.  As
    a runtime makes an outcome of that, a test ends with `assert_exhausted()`.
    """

    def __init__(
        self,
        steps: Mapping[str, Iterable[Step]],
        *,
        stream: bool = False,
        capabilities: ModelCapabilities | None = None,
    ) -> None:
        self._steps = {name: tuple(played) for name, played in steps.items()}
        for name, played in self._steps.items():
            for one in played:
                if not isinstance(one, Step):
                    raise UsageError(
                        f"the steps of {name!r} must be made with step(), not"
                        f" {type(one).__name__}"
                    )
        self._asked = dict.fromkeys(self._steps, 0)
        self._stream = stream
        self.capabilities: ModelCapabilities = capabilities or ModelCapabilities(
            streaming=stream
        )
        self.requests: list[ModelRequest] = []

    def request(self, request: ModelRequest) -> _Played:
        """Play the agent's next step; entering takes it, in the order of entering."""
        return _Played(self, request)

    def requests_of(self, name: str) -> list[ModelRequest]:
        """Return the requests of the agents of this name, in order."""
        return [request for request in self.requests if request.name == name]

    def assert_exhausted(self) -> None:
        """Check that each step was played, and that none was asked for in vain.

        Raises:
            AssertionError: it lists what is left over and what was asked for too often.
        """
        wrong = [
            f"{name!r} was asked for {asked} of {len(self._steps.get(name, ()))} steps"
            for name, asked in self._asked.items()
            if asked != len(self._steps.get(name, ()))
        ]
        if wrong:
            raise AssertionError(
                "the script was not played as written: " + "; ".join(wrong)
            )

    def _take(self, request: ModelRequest) -> Step:
        name = request.name
        self.requests.append(request)
        taken = self._asked.get(name, 0)
        self._asked[name] = taken + 1
        steps = self._steps.get(name)
        if steps is None:
            known = ", ".join(map(repr, self._steps)) or "none"
            raise ScriptExhaustedError(
                f"the script has no steps for agent {name!r}; it has steps for: {known}"
            )
        if taken >= len(steps):
            raise ScriptExhaustedError(
                f"agent {name!r} asked for step {taken + 1};"
                f" the script has {len(steps)}"
            )
        return steps[taken]

    def _events(self, played: Step) -> Iterator[Played]:
        if played.raw is not None:
            return iter(played.raw)
        if played.error is not None:
            return iter(())
        if self._stream:
            return _pieces(played)
        whole = ModelResponse(played.text, played.calls, played.stop, played.usage)
        return iter((ResponseEnded(response=whole),))


class _Played:
    """One request of a scripted model: its context manager and its iterator."""

    __slots__ = ("_error", "_events", "_hold", "_model", "_request")

    def __init__(self, model: ScriptedModel, request: ModelRequest) -> None:
        self._model = model
        self._request = request
        self._hold: Gate | None = None
        self._events: Iterator[Played] = iter(())
        self._error: BaseException | None = None

    async def __aenter__(self) -> Self:
        played = self._model._take(self._request)
        self._hold = played.hold
        self._events = self._model._events(played)
        self._error = played.error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._events = iter(())
        self._error = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        hold, self._hold = self._hold, None
        if hold is not None:
            await hold.passed()
        for event in self._events:
            if isinstance(event, Gate):
                await event.passed()
            else:
                return event
        failure, self._error = self._error, None
        if failure is not None:
            raise failure
        raise StopAsyncIteration


def _pieces(played: Step) -> Iterator[Played]:
    """Give a step's answer in pieces; those of its calls come interleaved."""
    for piece in _split(played.text):
        yield TextDelta(piece)
    for place, one in enumerate(played.calls):
        yield CallStarted(place, one.name, one.call_id)
    for row in zip_longest(*(_split(one.arguments) for one in played.calls)):
        for place, piece in enumerate(row):
            if piece is not None:
                yield ArgumentsDelta(place, piece)
    for place, one in enumerate(played.calls):
        yield CallDone(place, one.arguments)
    yield ResponseEnded(played.stop, played.usage, played.calls)


def _split(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARACTERS):
        yield text[start : start + _PIECE_CHARACTERS]
