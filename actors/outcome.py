"""The outcome: how one assignment ended, for code.

Lives here: the three facts kept apart (law 15) and what `unwrap()` makes of them.
Whether execution finished is `status`; whether a result is acceptable is `acceptance`;
whether the stored bytes can be read is `available`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from ..mailbox.events import Status
from ..mailbox.message import Usage, record
from .errors import (
    AgentBlockedError,
    AgentCancelledError,
    AgentFailedError,
    AgentStoppedError,
    OutcomeError,
)

__all__ = ["Acceptance", "Outcome", "TreeUsage"]

T = TypeVar("T")


@record
class TreeUsage:
    """Usage of one session, and of it and everything below it (law 21)."""

    own: Usage = Usage()
    subtree: Usage = Usage()


@record
class Acceptance:
    """That a value was accepted: where it came from, and after how many submissions."""

    source: str = "reply"
    attempts: int = 1
    duplicates: int = 0


@attrs.frozen(kw_only=True)
class Outcome(Generic[T]):
    """How an assignment ended.

    Attributes:
        status: `completed`, `failed`, `cancelled`, `blocked` or `stopped`.
        cause: a code of the table in `docs/errors.md`, or `None`.
        value: the accepted value, immutable, or `None`.
        acceptance: how the value was accepted, or `None` when nothing was.
        available: whether the stored answer can be read.
        usage: what was spent, at the time of the outcome.
        message_id: the message that opened the assignment.
        session_id: the session whose log holds it all.
        axis: the limit that stopped it, or `None`.
        detail: what a person wants to know about the cause.
    """

    status: Status
    cause: str | None = None
    value: T | None = None
    acceptance: Acceptance | None = None
    available: bool = True
    usage: TreeUsage = TreeUsage()
    message_id: str = ""
    session_id: str = ""
    axis: str | None = None
    detail: str | None = None
    error: BaseException | None = attrs.field(default=None, eq=False, repr=False)

    def unwrap(self) -> T:
        """The value, or the error that says why there is none.

        Raises:
            OutcomeError: the class of the status; its `code` is the cause (A-046).
        """
        if self.status == "completed" and self.cause != "storage-failed":
            return self.value  # type: ignore[return-value]
        error = _RAISES.get(self.status, AgentFailedError)(str(self), self)
        raise error from self.error

    def __str__(self) -> str:
        """One line: status, cause or axis, and the ids that there are (A-181).

        It holds no text of the agent.
        """
        parts: list[str] = [self.status]
        if self.cause is not None:
            parts.append(f"({self.cause})")
        if self.axis is not None:
            parts.append(f"on axis {self.axis}")
        if self.detail:
            parts.append(f"- {self.detail}")
        named = (("assignment", self.message_id), ("session", self.session_id))
        ids = " of ".join(f"{what} {one}" for what, one in named if one)
        return f"{' '.join(parts)}; {ids}" if ids else " ".join(parts)


_RAISES: dict[str, type[OutcomeError]] = {
    "completed": AgentFailedError,
    "failed": AgentFailedError,
    "cancelled": AgentCancelledError,
    "stopped": AgentStoppedError,
    "blocked": AgentBlockedError,
}
