"""The ledger of returns: how many an agent has, which one counts, and how it ends.

Lives here: what A-026 to A-041 and A-086 to A-116 say of returns.
One ledger serves one assignment.  It takes plain facts and gives what to record and
what to do; it changes by `apply` alone, so that the submissions of a log, applied in
order, give the same ledger again.  It knows no agent, no clock and no other tool than
`reply`.

| under | allowance | spent by |
| --- | --- | --- |
| reply | nudges, 3 by default | a turn without a reply, a wrong shape |
| choice, schema | 2 submissions, fixed | a return, a turn without one, a mixed batch |
| text | none | |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from ..mailbox.errors import IllegalEventError, UsageError
from ..mailbox.events import Submitted
from ..mailbox.message import Call, CallResult
from .submission import (
    NO_PLACE,
    Accept,
    Continue,
    Decision,
    Disposition,
    Fail,
    Judged,
    Nudge,
    Plan,
    Submission,
    SubmissionVerdict,
    Wait,
)
from .verdict import Contract

__all__ = ["RETURN_TOOL", "SUBMISSIONS", "Ledger"]

RETURN_TOOL = "reply"
SUBMISSIONS = 2
"""What choice and schema allow; no setting changes it (A-114)."""


class Ledger:
    """The returns of one assignment (A-113, A-115).

    Args:
        contract: what must be returned.
        nudges: how many failing ends the reply contract forgives.

    `taken` is the decision that ended it with a value, once there was one.

    Raises:
        UsageError: `nudges` is not a whole number from 0 (A-040).
    """

    __slots__ = (
        "_accepted",
        "_allowance",
        "_batch",
        "_counts",
        "_duplicates",
        "_evidence",
        "_failure",
        "_spent",
        "contract",
        "nudges",
        "taken",
    )

    def __init__(self, contract: Contract[Any], nudges: int = 3) -> None:
        if type(nudges) is not int or nudges < 0:
            raise UsageError(f"nudges must be a whole number from 0, not {nudges!r}")
        self.contract: Contract[Any] = contract
        self.nudges: int = nudges
        self._counts = contract.kind in ("choice", "schema")
        self._allowance = SUBMISSIONS if self._counts else nudges + 1
        self._spent = 0
        self.taken: Accept | None = None
        self._duplicates = 0
        self._accepted: Submission | None = None
        self._failure: tuple[str, str] | None = None
        self._evidence: list[Submission] = []
        self._batch: dict[int, tuple[str, Judged]] = {}

    @property
    def spent(self) -> int:
        """How many submissions, or failing ends under reply, were spent."""
        return self._spent

    @property
    def left(self) -> int:
        """How many may still be spent before the assignment fails."""
        return max(self._allowance - self._spent, 0)

    @property
    def narrowed(self) -> bool:
        """Whether only `reply` is offered from here on (A-092)."""
        return self._counts and self._spent > 0

    @property
    def settled(self) -> bool:
        """Whether a value is staged or the assignment failed: no request follows."""
        return self._accepted is not None or self._failure is not None

    @property
    def evidence(self) -> tuple[Submission, ...]:
        """Every submission in order, also those that came to nothing (A-045)."""
        return tuple(self._evidence)

    def plan(self, batch: Sequence[Call]) -> Plan:
        """Say what becomes of each call of a response, before anything is dispatched.

        Raises:
            IllegalEventError: the assignment is settled, so that no response can come.
        """
        if self.settled:
            raise IllegalEventError("a response after the assignment was settled")
        self._batch = {}
        if not self.contract.has_tool:
            return Plan((_RUN,) * len(batch))
        returns = [call.name == RETURN_TOOL for call in batch]
        if self.contract.kind == "schema" and any(returns) and not all(returns):
            return self._mixed(returns)
        if self.narrowed and not any(returns):
            return self._workless(len(batch))
        other = Disposition("withhold", self._withheld()) if self.narrowed else _RUN
        return Plan(tuple(_JUDGE if it else other for it in returns))

    def submit(self, place: int, raw: str) -> Judged:
        """Judge the return at a place of the present batch.

        The same text at the same place is the same event and changes nothing; another
        text there is a conflict (A-029).
        """
        seen = self._batch.get(place)
        if seen is not None and seen[0] == raw:
            return attrs.evolve(seen[1], submission=None)
        verdict = self.contract.judge(raw)
        value, errors = verdict.canonical, verdict.errors
        if seen is not None:
            errors = (f"arguments: place {place} of one response has two texts",)
            submission = Submission(place, "conflict", value, errors)
        elif self._failure is not None:
            submission = Submission(place, "invalid", value, (_ENDED,))
        elif self._accepted is None:
            word: SubmissionVerdict = "valid" if verdict.valid else "invalid"
            submission = Submission(place, word, value, errors)
        elif verdict.valid and value == self._accepted.value:
            submission = Submission(place, "duplicate", value)
        else:
            submission = Submission(place, "conflict", value, errors)
        self.apply(submission)
        judged = Judged(self._result_of(submission), submission)
        self._batch.setdefault(place, (raw, judged))
        return judged

    def apply(self, fact: Submission | Submitted) -> None:
        """Take a submission into account: the one way in which the ledger changes.

        A recovery applies what a log holds, in its order, to a new ledger.
        """
        submission = Submission(fact.place, fact.verdict, fact.value, fact.errors)
        self._evidence.append(submission)
        if self._failure is not None:
            return
        match submission.verdict:
            case "valid":
                self._accepted = submission
                self._spent += self._counts
            case "duplicate":
                self._duplicates += 1
            case "conflict":
                self._failure = ("output-contract-conflict", self._conflict_text())
                self._accepted = None
            case _:  # invalid, missing
                self._spent += 1
                if self._spent >= self._allowance:
                    self._failure = self._exhausted(submission)

    def landed(self) -> Continue | Accept | Fail:
        """Say what follows when every call of a batch has its result in the log."""
        if self._failure is not None:
            return self._failed(None)
        if self._accepted is not None:
            return self._accept(self._accepted)
        return Continue()

    def turn_ended(
        self, stop: str, text: str | None = None, live_children: int = 0
    ) -> Decision:
        """Say what follows when a turn ended: its last response had no whole call.

        Args:
            stop: the stop reason of that response.
            text: its text, or `None` when it had none; only a text contract reads it.
            live_children: how many children of the agent live.

        Raises:
            IllegalEventError: the assignment is settled.
        """
        if self.settled:
            raise IllegalEventError("a turn ended after the assignment was settled")
        if stop == "refusal":
            return Fail("output-refused", "the provider refused to answer")
        if self._counts and stop in ("length", "incomplete"):
            return Fail("output-incomplete", f"the response was cut (stop {stop})")
        if live_children > 0:
            return Wait()
        if not self.contract.has_tool:
            return self._final_text(stop, text)
        submission = Submission(NO_PLACE, "missing", None, (_missing_text(stop, text),))
        self.apply(submission)
        if self._failure is not None:
            return self._failed(submission)
        return Nudge(self._nudge_text(), submission)

    def _mixed(self, returns: Sequence[bool]) -> Plan:
        """Reject a batch of returns and other calls: one submission, nothing runs."""
        place = list(returns).index(True)
        submission = Submission(place, "invalid", None, (_MIXED,))
        self.apply(submission)
        refused = CallResult(f"{_MIXED_RETURN}\n{self._advice()}", "INVALID_ARGS")
        sibling = CallResult(_MIXED_SIBLING, "ABORTED_BEFORE_DISPATCH")
        results = [refused if is_return else sibling for is_return in returns]
        return Plan(tuple(Disposition("withhold", it) for it in results), submission)

    def _workless(self, count: int) -> Plan:
        """Refuse a batch without a return where only one is left: one submission."""
        submission = Submission(NO_PLACE, "missing", None, (_NO_RETURN_IN_BATCH,))
        self.apply(submission)
        return Plan((Disposition("withhold", self._withheld()),) * count, submission)

    def _withheld(self) -> CallResult:
        return CallResult(f"{_WITHHELD}\n{self._advice()}", "TOOL_WITHHELD")

    def _result_of(self, submission: Submission) -> CallResult:
        """Give the text that the model reads of its return."""
        match submission.verdict:
            case "valid":
                return CallResult(_ACCEPTED)
            case "duplicate":
                return CallResult(_DUPLICATE)
            case "conflict":
                return CallResult(self._conflict_text(), "output-contract-conflict")
        lines = "\n".join(f"- {line}" for line in submission.errors)
        text = f"{_REFUSED}\n{lines}\n{self._advice()}"
        return CallResult(text, "INVALID_ARGS")

    def _advice(self) -> str:
        """Say what is left and show every allowed argument object."""
        if self._failure is not None:
            return "No return is left: the assignment has failed."
        shown = "\n".join(self.contract.shown())
        alone = ", and nothing else," if self._counts else ""
        text = f"Call {RETURN_TOOL}{alone} with one of these argument objects:\n{shown}"
        if self.contract.kind != "choice":
            text = f"Call {RETURN_TOOL}{alone} with the argument object {shown}"
        if self._counts and self.left == 1:
            text = f"{text}\nThis is the last submission."
        return text

    def _nudge_text(self) -> str:
        return f"{_NUDGE}\n{self._advice()}"

    def _conflict_text(self) -> str:
        return (
            "This assignment takes one value, and this return is another one than the"
            " return that was accepted: it has failed, and neither is delivered."
        )

    def _exhausted(self, last: Submission) -> tuple[str, str]:
        what = last.errors[0] if last.errors else last.verdict
        if self._counts:
            text = f"both submissions are spent; the last: {what}"
            return "output-contract-exhausted", text
        return "no-reply", f"{self.nudges} nudges were spent; the last event: {what}"

    def _failed(self, submission: Submission | None) -> Accept | Fail:
        assert self._failure is not None
        cause, detail = self._failure
        fallback = self.contract.fallback
        if cause == "output-contract-exhausted" and fallback is not None:
            value = self.contract.judge_value(fallback).canonical
            self.taken = Accept(
                value, False, "fallback", self._spent, self._duplicates, submission
            )
            return self.taken
        errors = [line for it in self._evidence for line in it.errors]
        return Fail(cause, detail, tuple(errors[:40]), submission)

    def _accept(self, submission: Submission) -> Accept:
        attempts = self._spent if self._counts else self._spent + 1
        empty = self.contract.kind == "reply" and submission.value in _EMPTY
        self.taken = Accept(
            submission.value, empty, "reply", attempts, self._duplicates
        )
        return self.taken

    def _final_text(self, stop: str, text: str | None) -> Accept | Fail:
        """Judge the final message under a text contract (section 8)."""
        if stop in ("length", "incomplete"):
            return Fail("provider-error", f"the text was cut (stop {stop})")
        if text is None:
            return Fail("unparseable-answer", "there is no final text")
        verdict = self.contract.judge(text)
        if not verdict.valid:
            return Fail("empty-answer", "the final text is blank", verdict.errors)
        self.taken = Accept(verdict.canonical, False, "text")
        return self.taken


_RUN = Disposition("run")
_JUDGE = Disposition("judge")
_EMPTY = (None, "null", '""')

_ENDED = "arguments: no return is left in this assignment"
_MIXED = "arguments: the return stood in one response with other calls"
_NO_RETURN_IN_BATCH = "arguments: a batch of other calls, where only a return is left"
_MIXED_RETURN = (
    "This return was not read: it must be the only call of its response, and the other"
    " calls of the response did not run."
)
_MIXED_SIBLING = (
    "This call did not run: it stood in one response with a return, which must be"
    " alone."
)
_WITHHELD = "After the first return only a return is left, so this call did not run."
_ACCEPTED = (
    "Accepted. The assignment ends when the other calls of this response are done."
)
_DUPLICATE = "The same value was accepted before; it counts once."
_REFUSED = "This return is not accepted:"
_NUDGE = (
    "Your turn ended without a return, and nobody reads what you wrote outside of one."
)


def _missing_text(stop: str, text: str | None) -> str:
    if stop in ("length", "incomplete"):
        return f"arguments: a turn was cut before a return (stop {stop})"
    kind = "ended" if text and text.strip() else "came back empty"
    return f"arguments: a turn {kind} without a return (stop {stop})"
