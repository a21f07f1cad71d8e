"""A session: the live state of one log, and the fold that gives it back.

Lives here: what each event means.  `Session.apply` is the only thing that changes a
session, while it runs and while it is read back, so that live state and the fold of the
log are the same by construction (R-200).  An event that the state does not allow raises
`IllegalEventError` and changes nothing (R-199).  Stores keep states too, so that a new
meaning of an old event also needs a new `bookmark.MEANING`.

Entering has no event of its own: a message enters when it is accepted (no turn open and
its sender unblocked), when a turn opens (the claimed, and what they unblock), when the
results of a batch have landed, when the transcript was shortened, and when a turn ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from .errors import IllegalEventError
from .events import (
    Accepted,
    Activated,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Interrupted,
    Journaled,
    Promoted,
    RequestFailed,
    StepEnded,
    Submitted,
    Told,
    TurnEnded,
    TurnOpened,
)
from .inbox import Inbox
from .leaf import leaf
from .message import (
    ASSIGNING,
    AssistantMessage,
    Call,
    CallResult,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
    frame,
)
from .shortening import shorten
from .store import Summary

__all__ = ["ANSWERS", "NOT_RUN", "Returned", "Session", "Untold", "fold"]

NOT_RUN = frozenset(
    (
        "UNKNOWN_TOOL",
        "TOOL_WITHHELD",
        "INVALID_ARGS",
        "ABORTED_BEFORE_DISPATCH",
        "tool-call-budget",
    )
)
"""The codes of results whose tool never ran: they are no tool calls in usage."""

ANSWERS = frozenset(("reply", "report"))
"""Tools whose calls are answers and not spending (A-147): no tool calls in usage."""

_NO_USAGE = Usage()


@leaf
class Untold:
    """An outcome that the parent has not been told: of which assignment, and how."""

    message: str
    status: str
    cause: str | None
    detail: str | None = None


@leaf
class Returned:
    """A submission as it was judged, and the call that made it, if one did."""

    event: Submitted
    turn: int
    step: int
    raw: str | None = None
    call_id: str = ""


class Session:
    """The state of one log.

    `header` is `None` until the first event.  `open` holds the messages that the open
    turn claimed, or `None`; `calls` the calls whose results have not all landed.
    `assignment` is the first message that opened one: a returning agent's only one.
    `began_at` is when the first turn opened, in milliseconds since 1970; `None`: none
    has, and the agent may still wait for its place.
    `started` is whether a turn ran: one that a deadline for starts ended never did.
    `mark` is the `seq` at which the last bookmark was due: no part of the state.
    """

    __slots__ = (
        "activation",
        "assignment",
        "began_at",
        "calls",
        "concluded",
        "header",
        "inbox",
        "interrupted",
        "last_at",
        "mark",
        "open",
        "reports",
        "results",
        "returning",
        "seq",
        "started",
        "step",
        "submissions",
        "transcript",
        "turn",
        "unread",
        "untold",
        "usage",
    )

    header: Created

    def __init__(self) -> None:
        self.header = None  # type: ignore[assignment]
        self.returning: bool = False
        self.seq: int = 0
        self.mark: int = 0
        self.last_at: int = 0
        self.inbox: Inbox = Inbox()
        self.activation: str | None = None
        self.began_at: int | None = None
        self.turn: int = 0
        self.started: bool = False
        self.step: int = 0
        self.open: tuple[Accepted, ...] | None = None
        self.calls: tuple[Call, ...] | None = None
        self.results: list[CallResult | None] | None = None
        self.interrupted: str | None = None
        self.transcript: Transcript = []
        self.unread: bool = False
        self.reports: int = 0
        self.untold: tuple[Untold, ...] = ()
        self.assignment: str | None = None
        self.concluded: Concluded | None = None
        self.submissions: tuple[Returned, ...] = ()
        self.usage: Usage = _NO_USAGE

    def __eq__(self, other: object) -> bool:
        if type(other) is not Session:
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in _STATE)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @property
    def ran(self) -> bool:
        """Whether a turn of it ran or runs."""
        return self.started or self.open is not None

    def apply(self, event: Event) -> None:
        """Change the state by one event.

        Raises:
            IllegalEventError: the state does not allow it; nothing has changed.
        """
        kind = type(event)
        if (kind is Created) is (self.seq > 0):
            raise IllegalEventError("a log begins with its only header")
        _APPLY[kind](self, event)
        self.seq += 1
        self.last_at = event.at

    def summary(self) -> Summary:
        """The index row of this state."""
        inbox = self.inbox
        return Summary(
            self.activation,
            self.turn,
            self.open is not None,
            inbox.parked,
            len(inbox.waiting),
            len(inbox.staged),
            len(self.untold),
            self.usage,
            self.last_at,
        )

    # -- what each event means ---------------------------------------------------------

    def _created(self, event: Created) -> None:
        self.header = event
        self.returning = event.kind in ("oneshot", "headless")

    def _activated(self, event: Activated) -> None:
        if self.activation is not None:
            raise IllegalEventError("a session has at most one activation")
        self.activation = event.activation

    def _accepted(self, event: Accepted) -> None:
        if self.assignment is None and event.source in ASSIGNING:
            self.assignment = event.id
        if self.inbox.accept(event, safe=self.open is None):
            self._enter(event)

    def _turn_opened(self, event: TurnOpened) -> None:
        if (
            self.activation is None
            or self.open is not None
            or event.turn != self.turn + 1
        ):
            raise IllegalEventError(f"turn {event.turn} cannot open")
        taken = self.inbox.claim(event.claimed)
        self.open = tuple([message for _, message in taken])
        self.turn = event.turn
        self.step = 0
        if self.began_at is None:
            self.began_at = event.at
        for message in self.inbox.enter(taken):
            self._enter(message)

    def _step_ended(self, event: StepEnded) -> None:
        if self.open is None or self.calls is not None:
            raise IllegalEventError("a step needs an open turn without open calls")
        self.step += 1
        if event.text or event.calls:
            self.transcript.append(AssistantMessage(event.text, event.calls, event.cut))
        if event.calls:
            self.calls = event.calls
            results: list[CallResult | None] = [None] * len(event.calls)
            self.results = results
        self.unread = False
        self._count_request(event.usage)

    def _request_failed(self, event: RequestFailed) -> None:
        if self.open is None or self.calls is not None:
            raise IllegalEventError("a request needs an open turn without open calls")
        self.step += 1
        self._count_request(event.usage)

    def _call_ended(self, event: CallEnded) -> None:
        calls, results = self.calls, self.results
        if calls is None or results is None:
            raise IllegalEventError("no batch is open")
        if not 0 <= event.place < len(calls) or results[event.place] is not None:
            raise IllegalEventError(f"no call waits for a result at {event.place}")
        results[event.place] = CallResult(event.content, event.error)
        if event.error not in NOT_RUN and calls[event.place].name not in ANSWERS:
            self.usage += Usage(tool_calls=1)
        if None in results:
            return
        landed = tuple([r for r in results if r is not None])
        self.calls = self.results = None
        self.transcript.append(ToolMessage(calls, landed))
        self._enter_staged()

    def _submitted(self, event: Submitted) -> None:
        if self.open is None or not self.returning:
            raise IllegalEventError("only a returning agent in a turn submits")
        call = None
        if self.calls is not None and 0 <= event.place < len(self.calls):
            call = self.calls[event.place]
        raw = None if call is None else call.arguments
        call_id = "" if call is None else call.call_id
        made = Returned(event, self.turn, self.step, raw, call_id)
        self.submissions += (made,)

    def _interrupted(self, event: Interrupted) -> None:
        if self.open is None or self.interrupted is not None:
            raise IllegalEventError("no turn is open, or it is interrupted already")
        self.interrupted = event.by
        self.inbox.parked = True

    def _promoted(self, event: Promoted) -> None:
        self.inbox.promote(event.id)

    def _turn_ended(self, event: TurnEnded) -> None:
        if self.open is None or self.calls is not None:
            raise IllegalEventError("no turn is open, or its calls have no results")
        if not self.returning:
            for message in self.open:
                if message.source in ASSIGNING:
                    self._outcome(message.id, event.status, event.cause, event.detail)
        if event.cause != "start-deadline":
            self.started = True
        self.open = None
        self.interrupted = None
        self._enter_staged()

    def _discarded(self, event: Discarded) -> None:
        message = self.inbox.discard(event.id)
        if not self.returning and message.source in ASSIGNING:
            self._outcome(message.id, "cancelled", event.cause, event.detail)
        if self.open is None:
            self._enter_staged()

    def _concluded(self, event: Concluded) -> None:
        if self.open is not None or not self.returning:
            raise IllegalEventError("only a returning agent between turns concludes")
        if self.concluded is not None or event.message != self.assignment:
            raise IllegalEventError("an assignment has exactly one outcome")
        self.concluded = event
        self._outcome(event.message, event.status, event.cause, event.detail)

    def _ended(self, event: Ended) -> None:
        if self.open is not None or self.activation is None:
            raise IllegalEventError("a turn is open, or nothing is active")
        self.activation = None
        self.reports = event.reports
        if event.told:
            self.untold = ()

    def _told(self, event: Told) -> None:
        self.untold = ()

    def _journaled(self, event: Journaled) -> None:
        """Nothing here: a script reads its journal from the log."""

    def _compacted(self, event: Compacted) -> None:
        """It is a safe position: what is staged enters behind the summary (R-238)."""
        if self.open is None or self.calls is not None:
            raise IllegalEventError("only an open turn without open calls is compacted")
        self.transcript = shorten(self.transcript, event)
        if event.usage is not None:
            self.usage += event.usage
        self._enter_staged()

    # -- parts -------------------------------------------------------------------------

    def _enter_staged(self) -> None:
        if self.inbox.staged:
            for message in self.inbox.enter([]):
                self._enter(message)

    def _enter(self, message: Accepted) -> None:
        source = message.source
        blocks = frame(source, message.sender, message.content)
        self.transcript.append(UserMessage(message.id, source, message.sender, blocks))
        if source != "notice":
            self.unread = True

    def _outcome(
        self, message: str, status: str, cause: str | None, detail: str | None
    ) -> None:
        # A root has nobody to tell, and may end as many assignments as it likes.
        if self.header.parent is not None:
            self.untold += (Untold(message, status, cause, detail),)

    def _count_request(self, usage: Usage | None) -> None:
        total = self.usage
        if usage is None:
            self.usage = Usage(
                total.requests + 1,
                total.input_tokens,
                total.output_tokens,
                total.cache_read_tokens,
                total.cache_creation_tokens,
                total.tool_calls,
            )
            return
        self.usage = Usage(
            total.requests + 1,
            _sum(total.input_tokens, usage.input_tokens),
            _sum(total.output_tokens, usage.output_tokens),
            _sum(total.cache_read_tokens, usage.cache_read_tokens),
            _sum(total.cache_creation_tokens, usage.cache_creation_tokens),
            total.tool_calls,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


_STATE = tuple([name for name in Session.__slots__ if name != "mark"])

_APPLY: dict[type[Any], Callable[[Session, Any], None]] = {
    Created: Session._created,
    Activated: Session._activated,
    Accepted: Session._accepted,
    TurnOpened: Session._turn_opened,
    StepEnded: Session._step_ended,
    RequestFailed: Session._request_failed,
    CallEnded: Session._call_ended,
    Submitted: Session._submitted,
    Interrupted: Session._interrupted,
    Promoted: Session._promoted,
    TurnEnded: Session._turn_ended,
    Discarded: Session._discarded,
    Concluded: Session._concluded,
    Ended: Session._ended,
    Told: Session._told,
    Journaled: Session._journaled,
    Compacted: Session._compacted,
}


def fold(events: Iterable[Event]) -> Session:
    """The state that a log gives."""
    session = Session()
    for event in events:
        session.apply(event)
    return session
