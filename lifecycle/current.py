"""Which agent's turn the running code belongs to.

Lives here: one context variable, set by the driver for the length of a turn.  It
reaches tools, models, their tasks and their threads, and nothing that senders run.  It
decides who would wait for itself (R-217), never who may do something.
"""

from __future__ import annotations

from contextvars import ContextVar

from ..mailbox.errors import SelfWaitError
from .activation import Activation

__all__ = ["CURRENT", "forbid_waiting_for"]

CURRENT: ContextVar[Activation | None] = ContextVar("ramet_activation", default=None)


def forbid_waiting_for(activation: Activation, what: str, *, below: bool) -> None:
    """Refuse a wait that could never end.

    Args:
        activation: whose rest, end or assignment would be waited for.
        what: how to call it in the error.
        below: whether code in an agent below it may not wait either.

    Raises:
        SelfWaitError: the running code is inside that agent's own turn.
    """
    inside = CURRENT.get()
    if inside is None:
        return
    held = inside.lineage() if below else [inside]
    if activation in held:
        raise SelfWaitError(
            f"code in a turn of {inside.id} cannot wait for {what} of {activation.id}:"
            " it would wait for itself"
        )
