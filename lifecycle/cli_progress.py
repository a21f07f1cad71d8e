"""Progress: what a person sees on standard error while a run goes on.

Lives here: what each agent of the run does now, from the events that an observer
hears, and the plain lines that tell it.  The live tree is `terminal_progress.py`'s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

import attrs

from ..mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Ended,
    Event,
    Journaled,
    RequestFailed,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.message import Usage
from .cli_text import Cell, Line, count, cut, shorten, visible
from .cli_view import Screen

__all__ = ["Activity", "PlainProgress", "Progress", "Watch", "activity_line"]

_TEXT = 200
_QUIET = frozenset(("contract", "choice", "spawned", "items", "budget-applied"))
"""What the journal notes of a call that an agent's own line shows as well."""

_LEAST = 30
_OF_THE_SCRIPT = "mark"
"""The style of what the script itself says."""


class Progress(Protocol):
    """Shows a run while it goes on; `start` and `stop` stand around it."""

    def start(self) -> None:
        """Begin to show."""

    def changed(self, told: Line | None) -> None:
        """Something changed; `told` is the line that tells it, if it is worth one."""

    def say(self, text: str) -> None:
        """Tell a person a sentence."""

    def stop(self) -> None:
        """Show the last state, and no more; may be called twice."""


@attrs.define
class Activity:
    """What one agent does now."""

    id: str
    name: str
    parent: str | None
    depth: int
    state: str = "waiting"
    requests: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    last: str = ""
    reported: bool = False
    turns: int = 0
    since: float = attrs.field(factory=lambda: time.monotonic())
    until: float | None = None
    refused: str = ""
    """What the last request of the open turn failed with."""

    @property
    def age_ms(self) -> int:
        """How long it has been at work, or was; in milliseconds."""
        until = time.monotonic() if self.until is None else self.until
        return round((until - self.since) * 1000)

    def count(self, usage: Usage | None, requests: int = 1) -> None:
        """Count requests and their tokens."""
        self.requests += requests
        if usage is None:
            return
        for name in ("input_tokens", "output_tokens"):
            more = getattr(usage, name)
            if more is not None:
                setattr(self, name, (getattr(self, name) or 0) + more)


class Watch:
    """Hears the events of a run, and keeps what each agent does.

    Args:
        name_of: gives name, parent and depth of a session that began before.

    `progress` is who shows it; it is set before anything is heard.
    """

    progress: Progress

    def __init__(
        self, name_of: Callable[[str], tuple[str, str | None, int] | None]
    ) -> None:
        self.agents: dict[str, Activity] = {}
        self._labels: dict[str, str] = {}
        self._name_of = name_of
        self._began = time.monotonic()

    def tree(self) -> list[Activity]:
        """What each agent does, parents before children."""
        children: dict[str | None, list[Activity]] = {}
        for agent in self.agents.values():
            above = agent.parent if agent.parent in self.agents else None
            children.setdefault(above, []).append(agent)
        found: list[Activity] = []
        stack = list(reversed(children.get(None, [])))
        while stack:
            agent = stack.pop()
            found.append(agent)
            stack.extend(reversed(children.get(agent.id, [])))
        return found

    def on_event(self, session_id: str, seq: int, event: Event) -> None:
        """An event became durable."""
        agent = self._agent(session_id, event)
        if agent is None:
            return
        told = self._tell(agent, event)
        if told is None:
            self.progress.changed(None)
            return
        who, text, style = told
        # A report says more than the words with which its turn ends.
        if not (who.reported and isinstance(event, StepEnded)):
            who.last = text
            who.reported = style == "good"
        self.progress.changed(self._line(who, text, style))

    def _agent(self, session_id: str, event: Event) -> Activity | None:
        agent = self.agents.get(session_id)
        if agent is None:
            if isinstance(event, Created):
                found = (event.spec.name, event.parent, event.depth)
            else:
                known = self._name_of(session_id)
                if known is None:
                    return None
                found = known
            name, parent, depth = found
            agent = Activity(session_id, visible(name), parent, depth)
            self.agents[session_id] = agent
        return agent

    def _line(self, agent: Activity, text: str, style: str) -> Line:
        passed = f"{time.monotonic() - self._began:6.1f}s  "
        return ((passed, "dim"), (agent.name, "name"), ("  ", ""), (text, style))

    def _tell(self, agent: Activity, event: Event) -> tuple[Activity, str, str] | None:
        """Take an event in; gives whose line it is, the line and its style."""
        if isinstance(event, Activated):
            agent.state = "running" if agent.depth else "waiting"
            agent.until = None
        elif isinstance(event, TurnOpened):
            agent.state = "running"
            agent.turns += 1
            agent.refused = ""
        elif isinstance(event, StepEnded):
            agent.count(event.usage)
            return agent, _step(event), ""
        elif isinstance(event, RequestFailed):
            agent.count(event.usage)
            agent.refused = event.message
            return agent, f"request failed: {_short(event.message)}", "bad"
        elif isinstance(event, CallEnded) and event.error is not None:
            why = _short(event.content)
            return agent, f"a call failed ({event.error}): {why}", "note"
        elif isinstance(event, TurnEnded):
            agent.state = "parked"
            why = event.detail or event.cause or ""
            # What was said of the request is not said of its turn again.
            again = bool(agent.refused) and why.endswith(agent.refused)
            if event.status != "completed" and not again:
                return agent, f"turn {event.status}: {_short(why)}", "note"
        elif isinstance(event, Concluded):
            return agent, *_concluded(event)
        elif isinstance(event, Ended):
            agent.state = "gone"
            agent.until = time.monotonic()
        elif isinstance(event, Accepted):
            return self._accepted(agent, event)
        elif isinstance(event, Journaled):
            data = json.loads(event.data)
            self._label(event.kind, data)
            return _journaled(agent, event.kind, data)
        elif isinstance(event, Compacted):
            if event.usage is not None:
                agent.count(event.usage, event.usage.requests)
            return agent, f"compacted its context: {_short(event.summary)}", "note"
        return None

    def _label(self, kind: str, data: Any) -> None:
        """Learn how a script calls an agent: several may be of one spec."""
        if kind == "call.queued" and data["label"] is not None:
            self._labels[data["call"]] = data["label"]
            return
        label: str | None = None
        if kind == "call.started":
            label = self._labels.get(data["call"])
        elif kind == "log" and data.get("code") == "spawned":
            label = data["label"]
        agent = None if label is None else self.agents.get(data["session"])
        if agent is None or label is None:
            return
        shown = visible(label)
        if not f" {agent.name}".endswith((f" {shown}", f" ({shown})")):
            agent.name = f"{agent.name} ({shown})"

    def _accepted(
        self, agent: Activity, event: Accepted
    ) -> tuple[Activity, str, str] | None:
        text = _short(" ".join(event.content))
        if event.source == "report":
            sender = self.agents.get(event.sender, agent)
            return sender, f"reports: {text}", "good"
        if event.source in ("prompt", "followup", "tell"):
            return agent, f"is asked: {text}", "dim"
        return None


def activity_line(agent: Activity, most: int) -> list[Cell]:
    """The cells of an agent: name, state, requests, tokens, last activity.

    `most` is how many columns the last one may have.
    """
    indent = "  " * agent.depth
    return [
        (f"{indent}{agent.name}", "name"),
        (agent.state, agent.state),
        (count(agent.requests), ""),
        (count(agent.input_tokens), ""),
        (count(agent.output_tokens), ""),
        (cut(agent.last, most), "dim"),
    ]


class PlainProgress:
    """One line for each thing that is worth one."""

    def __init__(self, stream: TextIO) -> None:
        self._screen = Screen(stream)

    def start(self) -> None:
        """Nothing is to be prepared."""

    def changed(self, told: Line | None) -> None:
        """Show the line."""
        if told is not None:
            width = self._screen.width
            if width is not None:
                *lead, (text, style) = told
                room = width - sum(len(piece) for piece, _ in lead) - 1
                told = (*lead, (shorten(text, max(room, _LEAST)), style))
            self._screen.show([told])

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._screen.show([((f"ramet: {visible(text)}", ""),)])

    def stop(self) -> None:
        """Nothing is left to show."""


def _step(event: StepEnded) -> str:
    tokens = ""
    if event.usage is not None and event.usage.input_tokens is not None:
        tokens = f" ({count(event.usage.input_tokens)} tokens in, "
        tokens += f"{count(event.usage.output_tokens)} out)"
    if not event.calls:
        return f"says: {_short(event.text)}{tokens}"
    shown = ", ".join(
        f"{visible(call.name)}{_arguments(call.arguments)}" for call in event.calls
    )
    return f"calls {shown}{tokens}"


def _arguments(raw: str) -> str:
    """The values of a call's arguments, short."""
    try:
        arguments: Any = json.loads(raw)
    except ValueError:
        return f"({_short(raw)})"
    if not isinstance(arguments, dict):
        return f"({_short(raw)})"
    values = [json.dumps(value, ensure_ascii=False) for value in arguments.values()]
    return f"({_short(', '.join(values))})"


def _concluded(event: Concluded) -> tuple[str, str]:
    if event.status == "completed":
        return f"replies {_short(event.value or '(nothing)')}", "good"
    return f"{event.status}: {_short(event.detail or event.cause or '')}", "bad"


def _journaled(
    agent: Activity, kind: str, data: Any
) -> tuple[Activity, str, str] | None:
    if kind == "phase":
        return agent, f"phase {_short(data['name'])}", "title"
    if kind == "log" and data.get("code") not in _QUIET:
        style = "note" if data.get("code") else _OF_THE_SCRIPT
        return agent, _short(data["text"]), style
    if kind == "call.ended" and data["replayed"]:
        name = data["label"] or data["call"]
        return agent, f"call {_short(name)} is replayed", "dim"
    return None


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _TEXT)
