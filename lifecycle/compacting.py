"""Compacting: the one call of `Policy.compact`, and what comes of it.

Lives here: the call of a function that is not ours, inside an agent's turn.  Whatever
it does ends the turn at the most, and never the process; what it gives becomes an event
in the span in which it returns.
"""

from __future__ import annotations

from inspect import isawaitable

from ..actors.compaction import Compact, Compaction, compacted_by
from ..mailbox.backend import Backend
from ..mailbox.errors import UsageError
from .activation import Activation
from .calls import passes_through
from .forest import Forest

__all__ = ["shorten_by", "text_of"]


async def shorten_by(
    compact: Compact,
    compaction: Compaction,
    forest: Forest,
    backend: Backend,
    activation: Activation,
) -> str | None:
    """Ask the function and log what it gave; says why nothing was, if nothing was.

    An agent that was stopped meanwhile logs nothing.
    """
    activation.compacting = True
    try:
        waiting: object = compact(compaction)
        if not isawaitable(waiting):
            raise UsageError(
                "compact must be an async function, and gave a"
                f" {type(waiting).__name__} at once"
            )
        given = await waiting
    except BaseException as error:
        if passes_through(error, backend, activation):
            raise
        return f"compact failed: {text_of(error)}"
    finally:
        activation.compacting = False
    if activation.gone or activation.stopped:
        return "the turn was stopped"
    if given is None:
        return "compact gave nothing"
    now = forest.ambient.now_ms()
    try:
        event = compacted_by(
            given, activation.session, tuple(activation.children or ()), now
        )
    except UsageError as error:
        return f"compact failed: {text_of(error)}"
    forest.log(activation, event)
    # No request holds anything of the new transcript yet.
    activation.asked = 0
    return None


def text_of(error: BaseException) -> str:
    """The class and the text of an error, short, also where its text cannot be had."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:500]
    except Exception:
        return f"{name}: (its text cannot be read)"
