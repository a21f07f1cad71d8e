"""Prose: what an agent wrote beside the text that it was asked for.

Lives here: whether earlier steps hold much more text than the final message, which is
noted and changes nothing (A-073).  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..mailbox.events import Event, StepEnded

__all__ = ["prose_note"]

_MUCH_LONGER = 4
_WORTH_A_NOTE = 200
"""Characters of earlier text that are not worth a note."""


def prose_note(events: Iterable[Event]) -> str | None:
    """Say that earlier steps of a log hold much longer prose than its last one.

    `None` when they do not.
    """
    lengths = [len(event.text) for event in events if isinstance(event, StepEnded)]
    if not lengths:
        return None
    *earlier, last = lengths
    before = sum(earlier)
    if before < _WORTH_A_NOTE or before < _MUCH_LONGER * last:
        return None
    return (
        f"the final message, which is the answer, has {last} characters, and earlier"
        f" steps hold {before}"
    )
