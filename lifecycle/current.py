"""Which agent's turn the running code belongs to.

Lives here: context variables, set by the driver for each turn.  They reach tools,
models, their tasks and their threads, and nothing that senders run.  They decide who
would wait for itself (R-217), and whose place is free while it waits (A-186), never who
may do something.
"""

from __future__ import annotations

from contextvars import ContextVar

from ..mailbox.errors import SelfWaitError
from .activation import Activation, Life
from .allowance import Strand

__all__ = ["CURRENT", "STRAND", "current_activation", "forbid_waiting_for"]

CURRENT: ContextVar[tuple[Activation, int] | None] = ContextVar(
    "ramet_turn", default=None
)
"""The activation, and the number of its turn."""

STRAND: ContextVar[Strand | None] = ContextVar("ramet_strand", default=None)
"""The piece of a turn that needs a place to run; set where concurrency is limited."""


def current_activation() -> Activation | None:
    """Whose turn the running code is part of, while that turn lasts.

    A task that a tool has started may outlive the turn, and is part of none from then
    on.  While an agent is closing, whatever its driver still runs is part of it.
    """
    mark = CURRENT.get()
    if mark is None:
        return None
    activation, turn = mark
    if activation.gone or not activation.driving:
        return None
    session = activation.session
    lasts = session.open is not None and session.turn == turn
    return activation if lasts or activation.life is not Life.LIVE else None


def forbid_waiting_for(activation: Activation, what: str, *, below: bool) -> None:
    """Refuse a wait that could never end.

    Args:
        activation: whose rest, end or assignment would be waited for.
        what: how to call it in the error.
        below: whether code in an agent below it may not wait either.

    Raises:
        SelfWaitError: the running code is inside that agent's own turn.
    """
    inside = current_activation()
    if inside is None:
        return
    held = inside.lineage() if below else [inside]
    if activation in held:
        raise SelfWaitError(
            f"code in a turn of {inside.id} cannot wait for {what} of {activation.id}:"
            " it would wait for itself"
        )
