"""A run as lines of JSON: what `--output-format stream-json` prints while it goes on.

Lives here: the table of acceptance section 7: one line for what an event means, each
event once, and one for each piece of streamed text.  That a message has entered is in
no event, so every session is folded here as it is in the runtime.  The last line, the
result document, is printed by `cli_run.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import attrs

from ..actors.budget import axis_of
from ..mailbox.canonical import canonical_json
from ..mailbox.events import (
    Activated,
    CallEnded,
    Concluded,
    Discarded,
    Ended,
    Event,
    Journaled,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.message import ASSIGNING, UserMessage
from ..mailbox.session import Session

__all__ = ["JsonLines"]

_Told: TypeAlias = Iterator[tuple[str, dict[str, Any]]]


class JsonLines:
    """Observes a run and writes what happens, a line for each thing.

    Args:
        write: takes one line, without its end.  When it raises an `OSError`, which is
            kept as `failure`, nothing more is written.
    """

    failure: OSError | None

    def __init__(self, write: Callable[[str], None]) -> None:
        self.failure = None
        self._write = write
        self._sessions: dict[str, Session] = {}

    def know(self, session_id: str, events: Iterable[Event]) -> None:
        """Take in what happened in a session before; it is not told again."""
        session = self._sessions[session_id] = Session()
        for event in events:
            session.apply(event)

    def on_event(self, session_id: str, seq: int, event: Event) -> None:
        """An event became durable."""
        session = self._sessions.setdefault(session_id, Session())
        if session.seq != seq:
            return
        known = len(session.transcript)
        told = list(_before(session, event))
        session.apply(event)
        told += _after(session, event)
        for message in session.transcript[known:]:
            if isinstance(message, UserMessage):
                told.append(("message", _message(message)))
        for kind, fields in told:
            self._line(kind, session_id, {"seq": seq} | fields)

    def on_delta(self, session_id: str, turn: int, step: int, text: str) -> None:
        """A model streamed a piece of text."""
        self._line("delta", session_id, {"turn": turn, "step": step, "text": text})

    def _line(self, kind: str, session_id: str, fields: dict[str, Any]) -> None:
        if self.failure is not None:
            return
        try:
            self._write(
                canonical_json(fields | {"type": kind, "session_id": session_id})
            )
        except OSError as error:
            self.failure = error


def _before(session: Session, event: Event) -> _Told:
    """What is told of an event by the state that it met."""
    if isinstance(event, StepEnded):
        yield "step", _step(session, event)
    elif isinstance(event, CallEnded):
        yield "tool_result", _tool_result(session, event)
    elif isinstance(event, TurnEnded):
        ending = _ending(event)
        yield "turn", {"turn": session.turn, "state": "ended"} | ending
        if session.returning:
            return
        axis = axis_of(event.cause)
        if axis is not None:
            yield "budget", {"axis": axis}
        for message in session.open or ():
            if message.source in ASSIGNING:
                yield "outcome", {"message_id": message.id, "axis": axis} | ending
    elif isinstance(event, Discarded) and not session.returning:
        waiting = {message.id: message.source for _, message in session.inbox.waiting}
        if waiting.get(event.id) in ASSIGNING:
            fields = {"message_id": event.id, "axis": None}
            yield "outcome", fields | {"status": "cancelled", "cause": event.cause}


def _after(session: Session, event: Event) -> _Told:
    """What is told of an event by the state that it made."""
    if isinstance(event, Activated):
        header = session.header
        yield (
            "started",
            {
                "parent": header.parent,
                "name": header.spec.name,
                "kind": header.kind,
                "depth": header.depth,
            },
        )
    elif isinstance(event, Ended):
        yield "ended", {"reason": event.reason}
    elif isinstance(event, TurnOpened):
        yield "turn", {"turn": event.turn, "state": "opened"}
    elif isinstance(event, Concluded):
        if event.axis is not None:
            yield "budget", {"axis": event.axis}
        fields = {"message_id": event.message, "axis": event.axis}
        yield "outcome", fields | _ending(event)
    elif isinstance(event, Journaled):
        kind, _, what = event.kind.partition(".")
        if kind in ("phase", "log", "call"):
            data = json.loads(event.data)
            yield kind, ({"event": what} if what else {}) | data


def _ending(event: TurnEnded | Concluded) -> dict[str, Any]:
    return {"status": event.status, "cause": event.cause}


def _step(session: Session, event: StepEnded) -> dict[str, Any]:
    usage = None if event.usage is None else attrs.asdict(event.usage)
    return {
        "turn": session.turn,
        "step": session.step,
        "text": event.text,
        "calls": [
            {"name": one.name, "arguments": one.arguments, "call_id": one.call_id}
            for one in event.calls
        ],
        "stop_reason": event.stop,
        "cut": event.cut,
        "usage": usage,
    }


def _tool_result(session: Session, event: CallEnded) -> dict[str, Any]:
    calls = session.calls or ()
    return {
        "turn": session.turn,
        "place": event.place,
        "name": calls[event.place].name,
        "content": event.content,
        "code": event.error,
    }


def _message(message: UserMessage) -> dict[str, Any]:
    return {
        "message_id": message.id,
        "source": message.source,
        "sender": message.sender,
        "content": list(message.blocks),
    }
