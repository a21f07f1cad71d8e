"""Readers: what can be asked about sessions, messages and outcomes.

Lives here: listing, statuses, outcomes, usage and explanations, from the store's index
or one log, never from all logs.  They need a reader of a store and nothing else, so
that the command line uses the same ones beside a running process; what is resident adds
its live state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ..actors.budget import axis_of
from ..actors.contract import Contract, contract_from_text
from ..actors.outcome import Acceptance, Outcome, TreeUsage
from ..actors.submission import Accept
from ..mailbox.errors import (
    CorruptLogError,
    IllegalEventError,
    UnknownMessageError,
    UnsupportedLogError,
)
from ..mailbox.events import (
    Accepted,
    Compacted,
    Concluded,
    Created,
    Discarded,
    Event,
    Kind,
    RequestFailed,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.message import ASSIGNING, UserMessage
from ..mailbox.session import Session, fold
from ..mailbox.store import SessionRow
from .activation import Activation, state_of

__all__ = [
    "Explanation",
    "Listing",
    "MessageStatus",
    "explain_row",
    "explain_session",
    "explain_stored",
    "listing_of",
    "opens_assignment",
    "outcome_in",
    "resting_place",
    "status_in",
]


@attrs.frozen
class Listing:
    """One line of a listing.

    Attributes:
        id: the session.
        parent_id: its parent, or `None` for a root.
        depth: how many parents it has.
        name: the name of its spec.
        kind: what kind of agent it is.
        state: `running`, `waiting`, `parked`, `closing`, `gone`, or `cut` when the
            process that ran it is no more and its end was not recorded.
        pending: how many waking messages wait.
        created_at: milliseconds since 1970.
        last_at: milliseconds since 1970 of its last event.
        turns: turns opened so far.
        requests: model requests so far.
        input_tokens: or `None`, when not recorded.
        output_tokens: or `None`, when not recorded.
        tool_calls: tool calls so far.
        fault: why it cannot be read, or `None`.
    """

    id: str
    parent_id: str | None
    depth: int
    name: str
    kind: Kind
    state: str
    pending: int
    created_at: int
    last_at: int
    turns: int
    requests: int
    input_tokens: int | None
    output_tokens: int | None
    tool_calls: int
    fault: str | None = None


@attrs.frozen
class MessageStatus:
    """What became of a message (R-068, R-069).

    Attributes:
        message_id: its id.
        session_id: whose log accepted it.
        state: `accepted`, `stored`, `claimed`, `discarded`, `unknown` or `lost`.
        turn: the turn that claimed it, or whose request first held it.
        cause: why it was discarded.
        deferred: whether the wake budget made it quiet.
    """

    message_id: str
    session_id: str
    state: Literal["accepted", "stored", "claimed", "discarded", "unknown", "lost"]
    turn: int | None = None
    cause: str | None = None
    deferred: bool = False


@attrs.frozen
class Explanation:
    """Why a session is in its state: the state, and its cause in words (R-087)."""

    id: str
    state: str
    why: str


def listing_of(
    row: SessionRow,
    live: Activation | None,
    *,
    here: bool,
    running: frozenset[str],
    fault: str | None = None,
    ending: bool = False,
) -> Listing:
    """A line from an index row.

    Args:
        row: the row.
        live: its activation, when it is resident in this process.
        here: whether this process is the writer.
        running: parents of which the page knows a live child.
        fault: why its log could not be read when that was last tried.
        ending: whether its end is written, and not stored yet.
    """
    summary = row.summary
    if live is not None:
        state: str = state_of(live)
        pending = len(live.session.inbox.waiting)
    else:
        pending = summary.pending
        state = _stored_state(row, here=here, has_children=row.session in running)
        if ending and state == "cut":
            state = "closing"
    return Listing(
        row.session,
        row.parent,
        row.depth,
        row.name,
        row.kind,
        state,
        pending,
        row.created_at,
        summary.last_at,
        summary.turn,
        summary.usage.requests,
        summary.usage.input_tokens,
        summary.usage.output_tokens,
        summary.usage.tool_calls,
        fault,
    )


def _stored_state(row: SessionRow, *, here: bool, has_children: bool) -> str:
    summary = row.summary
    if summary.activation is None:
        return "gone"
    if here:
        return "cut"
    if summary.turn_open:
        return "running"
    if has_children:
        return "waiting"
    return "parked"


def status_in(
    events: Sequence[Event],
    message_id: str,
    session_id: str,
    asked: int = 0,
    before: Session | None = None,
) -> MessageStatus:
    """The status of a message from the durable log that accepted it.

    Args:
        events: the log, from before the message was accepted on.
        message_id: the message.
        session_id: whose log it is.
        asked: how much of the transcript a request holds that is being made now.
        before: the state before these events, which is used up; `None`: they begin with
            the header.
    """
    session = Session() if before is None else before
    accepted: Accepted | None = None
    place = 0
    for event in events:
        known = len(session.transcript)
        session.apply(event)
        if isinstance(event, Compacted):
            # Every entry has another place now; what was staged stands among them.
            known = 0
        if isinstance(event, Accepted) and event.id == message_id:
            accepted = event
        elif accepted is None:
            continue
        elif isinstance(event, TurnOpened) and message_id in event.claimed:
            return _status(accepted, session_id, "claimed", turn=session.turn)
        elif isinstance(event, Discarded) and event.id == message_id:
            cause = event.detail or event.cause
            return _status(accepted, session_id, "discarded", cause=cause)
        elif isinstance(event, (StepEnded, RequestFailed)) and place:
            return _status(accepted, session_id, "claimed", turn=session.turn)
        if accepted is not None and not place:
            for entry in session.transcript[known:]:
                known += 1
                if isinstance(entry, UserMessage) and entry.id == message_id:
                    place = known
    if accepted is None:
        raise UnknownMessageError(f"the log of {session_id} has no {message_id!r}")
    if 0 < place <= asked and session.open is not None:
        return _status(accepted, session_id, "claimed", turn=session.turn)
    return _status(accepted, session_id, "stored")


def _status(
    accepted: Accepted,
    session_id: str,
    state: Literal["stored", "claimed", "discarded"],
    *,
    turn: int | None = None,
    cause: str | None = None,
) -> MessageStatus:
    deferred = accepted.asked == "wakeup" and accepted.given == "quiet"
    return MessageStatus(accepted.id, session_id, state, turn, cause, deferred)


def outcome_in(
    events: Sequence[Event],
    message_id: str,
    usage: TreeUsage,
    contract: Contract[Any] | None = None,
    header: Created | None = None,
) -> Outcome[Any] | None:
    """The outcome of an assignment from its agent's log, or `None` while it is open.

    Args:
        events: the log, from the acceptance of the message on or from earlier.
        message_id: the message that opened it.
        usage: what was spent.
        contract: the declared one, where it is known in this process.
        header: that of the log; `None`: the events begin with it.
    """
    if header is None:
        first = events[0]
        assert isinstance(first, Created)
        header = first
    if header.kind in ("oneshot", "headless"):
        return _concluded(events, header, message_id, usage, contract)
    claimed: frozenset[str] = frozenset()
    for event in events:
        if isinstance(event, TurnOpened):
            claimed = frozenset(event.claimed)
        elif isinstance(event, TurnEnded) and message_id in claimed:
            return Outcome(
                status=event.status,
                cause=event.cause,
                axis=axis_of(event.cause),
                detail=event.detail,
                usage=usage,
                message_id=message_id,
                session_id=header.session,
            )
        elif isinstance(event, Discarded) and event.id == message_id:
            return Outcome(
                status="cancelled",
                cause=event.cause,
                detail=event.detail,
                usage=usage,
                message_id=message_id,
                session_id=header.session,
            )
    return None


def _concluded(
    events: Sequence[Event],
    header: Created,
    message_id: str,
    usage: TreeUsage,
    contract: Contract[Any] | None,
) -> Outcome[Any] | None:
    for event in events:
        if isinstance(event, Concluded) and event.message == message_id:
            return outcome_from(event, header, usage, contract)
    return None


def outcome_from(
    concluded: Concluded,
    header: Created,
    usage: TreeUsage,
    contract: Contract[Any] | None = None,
    taken: Accept | None = None,
) -> Outcome[Any]:
    """The outcome that a conclusion records, with its value as code gets it.

    `contract` is the live one, which may know a class; the header's is plain data.
    `taken` is the decision that the receipt records, where it is known.
    """
    value: Any = None
    acceptance: Acceptance | None = None
    if concluded.status == "completed" and header.contract is not None:
        if contract is None:
            contract = contract_from_text(header.contract)
        if concluded.value is not None and concluded.cause != "empty":
            value = contract.value(concluded.value)
        if taken is not None:
            acceptance = Acceptance(taken.source, taken.attempts, taken.duplicates)
        else:
            acceptance = _acceptance_in(concluded.receipt)
    return Outcome(
        status=concluded.status,
        cause=concluded.cause,
        value=value,
        acceptance=acceptance,
        usage=usage,
        message_id=concluded.message,
        session_id=header.session,
        axis=concluded.axis,
        detail=concluded.detail,
    )


def _acceptance_in(receipt: str | None) -> Acceptance:
    stored: Mapping[str, Any] = json.loads(receipt or "{}")
    return Acceptance(
        stored.get("source", "reply"),
        stored.get("attempts", 1),
        stored.get("duplicates", 0),
    )


def opens_assignment(events: Sequence[Event], message_id: str) -> bool:
    """Whether a message of a log is one that opens an assignment."""
    return any(
        isinstance(event, Accepted)
        and event.id == message_id
        and event.source in ASSIGNING
        for event in events
    )


def resting_place(session: Session, message_id: str) -> str:
    """Why an open assignment of a session that is not resident does not run, and what
    would run it, in words."""
    header = session.header
    child = header.parent is not None
    if session.activation is not None:
        above = " or of an agent above it" if child else ""
        return (
            f"assignment {message_id} is in session {header.session}, which was cut off"
            f" and is not resident: a resume of it{above} closes the turn that was cut,"
            " and what waits runs when the session itself is resumed"
        )
    if session.inbox.parked:
        how = f"an interrupt parked assignment {message_id} in session"
        how = f"{how} {header.session}, which settled"
        runs = "a resume and a wakeup"
    else:
        how = f"assignment {message_id} waits in session {header.session}, which came"
        how = f"{how} to rest and is not resident"
        runs = "a resume"
    if child:
        runs = f"a followup of its parent, or {runs},"
    return f"{how}: {runs} runs it, and a cancel discards it"


def explain_session(activation: Activation) -> Explanation:
    """Why a resident agent is in its state."""
    session = activation.session
    state = state_of(activation)
    if state == "closing":
        closing = activation.closing
        cause = "it settles" if closing is None else closing.cause
        detail = f": {closing.detail}" if closing and closing.detail else ""
        why = f"it is closing by {cause}{detail}"
    elif state == "running" and session.open is not None:
        turn = _explain_turn(session, compacting=activation.compacting)
        why = f"{turn}{_explain_place(activation)}"
    elif state == "running":
        count = len(session.inbox.waiting)
        why = f"{count} messages wait for its next turn{_explain_place(activation)}"
    elif state == "waiting":
        names = ", ".join(list(activation.children or ())[:5])
        count = len(activation.children or ())
        why = f"it waits for {count} live children: {names}"
    elif session.inbox.parked:
        why = (
            f"an interrupt parked it with {len(session.inbox.waiting)} messages;"
            " the next wakeup runs them"
        )
    else:
        why = "it is idle: nothing waits and it owns no live child"
    return Explanation(activation.id, state, why)


def _explain_place(activation: Activation) -> str:
    allowance = activation.allowance
    if allowance is None or allowance.place is None or not allowance.place.queued:
        return ""
    return "; it waits for a place (concurrency)"


def _explain_turn(session: Session, *, compacting: bool = False) -> str:
    sources = ", ".join(f"{m.source} {m.id}" for m in session.open or ())
    text = f"turn {session.turn} answers {sources}"
    if session.calls is not None:
        names = [
            call.name
            for call, result in zip(session.calls, session.results or (), strict=False)
            if result is None
        ]
        return f"{text}; in step {session.step} it runs {', '.join(names)}"
    if session.interrupted is not None:
        return f"{text}; it was interrupted by {session.interrupted} and unwinds"
    if compacting:
        return f"{text}; its context was too long, and is being compacted"
    return f"{text}; it waits for its model (request {session.step + 1} of the turn)"


def explain_row(row: SessionRow, events: Sequence[Event], *, here: bool) -> Explanation:
    """Why a session that is not resident here is in its state, from its log."""
    try:
        session = fold(events)
    except (CorruptLogError, IllegalEventError, UnsupportedLogError) as error:
        return Explanation(row.session, "unreadable", str(error))
    return explain_stored(row, session, here=here)


def explain_stored(row: SessionRow, session: Session, *, here: bool) -> Explanation:
    """The same, from its state."""
    waiting = len(session.inbox.waiting)
    if session.activation is None:
        if session.inbox.parked:
            why = f"it settled; an interrupt parked {waiting} messages in it"
        elif waiting:
            why = f"it came to rest with {waiting} messages that run when it is resumed"
        elif session.concluded is not None:
            concluded = session.concluded
            cause = f" ({concluded.cause})" if concluded.cause else ""
            why = f"its assignment ended {concluded.status}{cause}"
        else:
            why = "it settled: nothing waits in it"
        return Explanation(row.session, "gone", why)
    state = _stored_state(row, here=here, has_children=False)
    if session.open is not None:
        why = _explain_turn(session)
    elif state == "cut":
        why = f"no turn of it was open, and {waiting} messages waited"
    else:
        why = f"it is resident; {waiting} messages wait"
    if state == "cut":
        why = f"the process that ran it is no more; at its end: {why}"
    return Explanation(row.session, state, why)
