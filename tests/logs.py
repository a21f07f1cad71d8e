"""Short words for the events of a log, so that a test reads as a conversation.

Lives here: one function for each kind of event that tests write by hand, with the
fields that a test seldom cares about filled in.  `at` is always 0.
"""

from __future__ import annotations

from typing import Literal

from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Given,
    Interrupted,
    Kind,
    Promoted,
    RequestFailed,
    SpecRecord,
    Status,
    StepEnded,
    Submitted,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import Call, Usage, UserMessage
from ramet.mailbox.session import Session, fold

__all__ = [
    "accepted",
    "activated",
    "begun",
    "call",
    "compacted",
    "concluded",
    "discarded",
    "ended",
    "entered",
    "failed",
    "header",
    "interrupted",
    "landed",
    "notice",
    "opened",
    "promoted",
    "quiet",
    "session_of",
    "stepped",
    "submitted",
    "turn_ended",
]


def header(
    kind: Kind = "continuable",
    session: str = "c",
    parent: str | None = "p",
    *,
    contract: str | None = None,
    background: bool = False,
    spec: SpecRecord | None = None,
) -> Created:
    """A header; a root has no parent."""
    if kind in ("interactive", "headless"):
        parent = None
    depth = 0 if parent is None else 1
    spec = spec or SpecRecord("worker")
    return Created(session, parent, depth, kind, spec, 0, contract, background)


def activated(activation: str = "a1") -> Activated:
    """An activation began."""
    return Activated(activation, 0)


def begun(kind: Kind = "continuable", session: str = "c") -> tuple[Created, Activated]:
    """A header and its first activation."""
    return header(kind, session), activated()


def accepted(
    message: str,
    sender: str = "p",
    source: str = "followup",
    *,
    given: Given = "wakeup",
    asked: str = "wakeup",
    content: tuple[str, ...] | None = None,
    key: str | None = None,
) -> Accepted:
    """A message, waking if nothing else is said."""
    content = content or (f"text of {message}",)
    return Accepted(message, source, sender, content, given, 0, asked, key)


def quiet(message: str, sender: str = "p", source: str = "inject") -> Accepted:
    """A quiet message."""
    return accepted(message, sender, source, given="quiet", asked="quiet")


def notice(message: str, child: str, given: Given = "wakeup") -> Accepted:
    """A notice of a child."""
    return accepted(message, child, "notice", given=given)


def opened(turn: int, *claimed: str) -> TurnOpened:
    """A turn opened."""
    return TurnOpened(turn, claimed, 0)


def call(name: str = "look", arguments: str = "{}", call_id: str = "") -> Call:
    """A call of a tool."""
    return Call(name, arguments, call_id)


def stepped(text: str = "", *calls: Call, usage: Usage | None = None) -> StepEnded:
    """A model answered."""
    stop = "tool_calls" if calls else "end_turn"
    return StepEnded(text, calls, stop, 0, usage)


def compacted(
    kept: int = 0, *verbatim: str, summary: str = "so far", usage: Usage | None = None
) -> Compacted:
    """The transcript was shortened."""
    return Compacted(summary, 0, kept, verbatim, (), usage)


def failed(usage: Usage | None = None) -> RequestFailed:
    """A request gave nothing."""
    return RequestFailed("provider-error", "nothing came", 0, usage)


def landed(place: int, content: str = "done", error: str | None = None) -> CallEnded:
    """A call has its result."""
    return CallEnded(place, content, 0, error)


def submitted(
    place: int = 0,
    verdict: Literal["valid", "invalid", "duplicate", "conflict", "missing"] = "valid",
    value: str | None = None,
    *errors: str,
) -> Submitted:
    """A return was judged."""
    return Submitted(place, verdict, 0, value, errors)


def interrupted(by: str = "host") -> Interrupted:
    """Somebody stopped the turn."""
    return Interrupted(by, 0)


def promoted(message: str) -> Promoted:
    """A notice became an occurrence."""
    return Promoted(message, 0)


def turn_ended(
    status: Status = "completed", cause: str | None = None, detail: str | None = None
) -> TurnEnded:
    """The turn ended."""
    return TurnEnded(status, cause, 0, detail)


def discarded(message: str, cause: str = "cancelled") -> Discarded:
    """A cancel discarded a message."""
    return Discarded(message, cause, 0)


def concluded(
    message: str,
    status: Status = "completed",
    cause: str | None = None,
    value: str | None = None,
    *,
    receipt: str | None = None,
) -> Concluded:
    """A returning agent's assignment ended."""
    return Concluded(message, status, cause, 0, value, receipt=receipt)


def ended(*, told: bool = True, reason: str = "settled") -> Ended:
    """The activation ended."""
    return Ended(reason, told, 0)


def session_of(*events: Event) -> Session:
    """The state of a log that begins with `begun()`."""
    return fold((*begun(), *events))


def entered(session: Session) -> list[str]:
    """The ids of what entered, in order."""
    return [it.id for it in session.transcript if isinstance(it, UserMessage)]
