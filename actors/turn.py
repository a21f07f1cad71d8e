"""The turn: what follows from a response, and how a turn ends.

Lives here: the decisions of one turn that need neither the log nor the clock.  It knows
responses, not where they come from; `driver.py` does what it decides.
"""

from __future__ import annotations

from ..mailbox.events import Concluded, Status
from ..mailbox.leaf import leaf
from .response import Assembled, ResponseFault

__all__ = ["COMPLETED", "Finish", "after_response"]


@leaf
class Finish:
    """How a turn ends.

    `conclusion` is the outcome of a returning agent's assignment, if it ends with this
    turn; `nudge` the message that it gets instead.
    """

    status: Status
    cause: str | None = None
    detail: str | None = None
    conclusion: Concluded | None = None
    nudge: str | None = None


COMPLETED = Finish("completed")


def after_response(response: Assembled | ResponseFault) -> Finish | None:
    """What a response means for its turn: `None` when its calls are to be run.

    Whole calls of a response that was cut by its length limit run and land before the
    turn is judged (R-210).  A text that was cut is still what the agent said.
    """
    if isinstance(response, ResponseFault):
        return Finish("failed", response.code, response.reason)
    if response.refusal is not None:
        return Finish("failed", "output-refused", response.refusal[:200] or None)
    if response.calls:
        return None
    if response.stop == "incomplete":
        return Finish("failed", "output-incomplete", "the response ended incomplete")
    return COMPLETED
