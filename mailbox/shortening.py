"""A shortened transcript: a summary in the place of what became too long.

Lives here: what a `Compacted` event makes of a transcript, as a pure function, so that
the running session and the fold of its log agree.  It knows entries and no policy: who
summarises, and what stays, was decided before the event was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import IllegalEventError
from .events import Compacted
from .message import (
    AssistantMessage,
    ToolMessage,
    Transcript,
    UserMessage,
)

__all__ = ["shorten", "summary_of", "unshown"]

_FRAME = "The conversation before this was shortened. This summary stands for it:"


def summary_of(event: Compacted) -> UserMessage:
    """The entry that stands for what was dropped.

    The frame and the last block are the runtime's and name the live children (R-236);
    no summary can imitate them, since each block is sent by itself.
    """
    live = ", ".join(event.children)
    children = f"Your live children: {live}." if live else "You have no live child."
    return UserMessage("", "summary", "ramet", (_FRAME, event.summary, children))


def shorten(transcript: Transcript, event: Compacted) -> Transcript:
    """The transcript after the event: summary, what stays word for word, the rest.

    Raises:
        IllegalEventError: it would drop nothing, part results from their calls, or keep
            a message that is not there.
    """
    cut = len(transcript) - event.kept
    if not 0 < cut <= len(transcript):
        raise IllegalEventError(f"a transcript of {len(transcript)} cannot be cut so")
    if event.kept and isinstance(transcript[cut], ToolMessage):
        raise IllegalEventError("results cannot be kept without their calls")
    wanted = frozenset(event.verbatim)
    whole = [
        entry
        for entry in transcript[:cut]
        if isinstance(entry, UserMessage) and entry.id in wanted
    ]
    if tuple([entry.id for entry in whole]) != event.verbatim:
        raise IllegalEventError("a message that is to stay is not in what is dropped")
    if len(whole) == cut:
        raise IllegalEventError("nothing would be dropped")
    return [summary_of(event), *whole, *transcript[cut:]]


def unshown(transcript: Sequence[object]) -> set[str]:
    """The messages at the end of a transcript that no answer has followed yet."""
    found = set()
    for entry in reversed(transcript):
        if isinstance(entry, AssistantMessage):
            break
        if isinstance(entry, UserMessage):
            found.add(entry.id)
    return found
