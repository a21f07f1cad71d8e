"""Compaction: what a deployment's function is asked, and what its answer becomes.

Lives here: the two classes between the runtime and `Policy.compact`, and the event that
an answer becomes.  The function decides what the summary says and how much of the end
stays.  What must not be lost is the runtime's: the open assignment and what no answer
has followed yet stay word for word, and the live children are named (R-236, R-237).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs

from ..mailbox.errors import IllegalEventError, UsageError
from ..mailbox.events import Compacted
from ..mailbox.message import ASSIGNING, ToolMessage, Usage, UserMessage
from ..mailbox.session import Session
from ..mailbox.shortening import shorten, unshown
from .model import Model, ModelRequest
from .response import odd_usage

__all__ = ["Compact", "Compaction", "Shortened", "compacted_by"]


@attrs.frozen
class Compaction:
    """What `Policy.compact` is asked with.

    Attributes:
        request: the request that was too long: the agent's name and place, its
            instructions, all its messages, the tools on offer and the settings.
        model: the model that refused it.  What the function asks it, or another, is its
            own request and is in no log; `Shortened.usage` has it counted.
        error: what the model port said, after the class of its error.
    """

    request: ModelRequest
    model: Model
    error: str


def _summary(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not str or not value.strip():
        raise UsageError("the text of Shortened must be text that is not blank")


def _keep(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise UsageError(
            f"keep of Shortened must be a whole number from 0 on, not {value!r}"
        )


def _flag(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        raise UsageError(f"verbatim of Shortened must be a bool, not {value!r}")


def _cost(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if odd_usage(value):
        raise UsageError("usage of Shortened must be a Usage of whole numbers, or None")


@attrs.frozen
class Shortened:
    """A transcript, shortened: what `Policy.compact` gives.

    Attributes:
        text: the summary.  It stands for all that is dropped.
        keep: how many messages at the end stay as they are.  Results stay with their
            calls, so that it may become one more.
        verbatim: whether the messages of the open assignment, and those that no answer
            has followed yet, stay word for word where they would be dropped.  Without
            it the summary stands for them too, so that a message that is too long by
            itself can go.
        usage: what making the summary cost; it is counted as the agent's own.

    Raises:
        UsageError: a value is outside its contract.
    """

    text: str = attrs.field(validator=_summary)
    keep: int = attrs.field(default=0, validator=_keep)
    verbatim: bool = attrs.field(default=True, validator=_flag)
    usage: Usage | None = attrs.field(default=None, validator=_cost)


Compact: TypeAlias = Callable[[Compaction], Awaitable[Shortened | str | None]]
"""Shortens a transcript; it may be called many times at once, and is cancelled."""


def compacted_by(
    given: object, session: Session, children: Sequence[str], now: int
) -> Compacted:
    """The event that an answer of `Policy.compact` becomes.

    Args:
        given: the answer, a text or a `Shortened`.
        session: whose transcript it shortens; its turn is open, between two steps.
        children: the ids of its live children.
        now: the wall clock in milliseconds.

    Raises:
        UsageError: it is something else, or would drop nothing.
    """
    if type(given) is str:
        given = Shortened(given)
    if not isinstance(given, Shortened):
        raise UsageError(
            f"compact must give a Shortened, a text or None, not {type(given).__name__}"
        )
    transcript = session.transcript
    kept = given.keep
    if 0 < kept < len(transcript) and isinstance(transcript[-kept], ToolMessage):
        kept += 1
    whole: tuple[str, ...] = ()
    if given.verbatim:
        stays = _open_assignment(session) | unshown(transcript)
        dropped = transcript[: len(transcript) - kept] if kept else transcript
        whole = tuple(
            [
                entry.id
                for entry in dropped
                if isinstance(entry, UserMessage)
                and entry.source != "summary"
                and entry.id in stays
            ]
        )
    usage = given.usage
    if usage is not None:
        usage = attrs.evolve(usage, requests=max(1, usage.requests), tool_calls=0)
    event = Compacted(given.text, now, kept, whole, tuple(children), usage)
    try:
        shorten(transcript, event)
    except IllegalEventError:
        raise UsageError(
            f"keep={given.keep} of {len(transcript)} messages drops nothing: the open"
            " assignment and what is unread stay unless verbatim is False"
        ) from None
    return event


def _open_assignment(session: Session) -> set[str]:
    """The messages that opened what is being worked on."""
    if session.returning:
        return set() if session.assignment is None else {session.assignment}
    return {m.id for m in session.open or () if m.source in ASSIGNING}
