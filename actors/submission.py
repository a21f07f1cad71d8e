"""What the ledger gives: submissions to record, and decisions to carry out.

Lives here: plain immutable data between the ledger of returns and the driver.  The
rules by which they are made are in `ledger.py`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..mailbox.message import CallResult, record

__all__ = [
    "NO_PLACE",
    "Accept",
    "Continue",
    "Decision",
    "Disposition",
    "Fail",
    "Judged",
    "Nudge",
    "Plan",
    "Submission",
    "SubmissionVerdict",
    "Wait",
]

NO_PLACE = -1
"""The place of a submission that is no call: a turn or a batch without a return."""

SubmissionVerdict: TypeAlias = Literal[
    "valid", "invalid", "duplicate", "conflict", "missing"
]


@record
class Submission:
    """What the ledger has to record of a return; a log stores it as `Submitted`.

    `value` is canonical text, also of what was refused.  `missing` stands for a turn
    or a batch that had to hold a return and did not; its place is `NO_PLACE`.
    """

    place: int
    verdict: SubmissionVerdict
    value: str | None = None
    errors: tuple[str, ...] = ()


@record
class Disposition:
    """What becomes of one call of a batch.

    `run`: it is dispatched as any tool.  `judge`: it is a return, for `submit`.
    `withhold`: it does not run, and `result` says why.
    """

    action: Literal["run", "judge", "withhold"]
    result: CallResult | None = None


@record
class Plan:
    """What becomes of a batch, call by call, and what to record before any of it
    runs."""

    dispositions: tuple[Disposition, ...]
    submission: Submission | None = None


@record
class Judged:
    """What became of one return: the result that the model reads, and what to record.

    `submission` is `None` when the same event was seen before: nothing is recorded.
    """

    result: CallResult
    submission: Submission | None


@record
class Continue:
    """Make the next request of the turn."""

    submission: None = None


@record
class Wait:
    """Wait for the agent's live children; nothing is spent (A-038)."""

    submission: None = None


@record
class Nudge:
    """Send the agent this text, as a message with the source nudge, and run on."""

    text: str
    submission: Submission


@record
class Accept:
    """Commit this value: the assignment is completed.

    `value` is canonical text; `None` is a return without any value.  `empty` says that
    code gets no value.  `source` is `reply`, `text` or `fallback`.
    """

    value: str | None
    empty: bool = False
    source: str = "reply"
    attempts: int = 1
    duplicates: int = 0
    submission: Submission | None = None


@record
class Fail:
    """End the assignment as failed, with this cause; nothing is delivered."""

    cause: str
    detail: str
    errors: tuple[str, ...] = ()
    submission: Submission | None = None


Decision: TypeAlias = Continue | Wait | Nudge | Accept | Fail
"""What to do next.  Each may hold a `submission`, to be recorded before it is done."""
