"""The laws that every run must keep, checked over everything that it stored.

Lives here: checks that look at the logs of one store, at what models were asked and at
the order in which events became durable, and need to know nothing of the program that
ran.  The simulator runs them after every run; so may any test.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from ..actors.model import ModelRequest
from ..mailbox.events import (
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
    Promoted,
    RequestFailed,
    StepEnded,
    Submitted,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.message import (
    ASSIGNING,
    AssistantMessage,
    ToolMessage,
    Transcript,
    Usage,
    UserMessage,
)
from ..mailbox.session import Session
from ..mailbox.store import Entry, Reader

__all__ = ["LawBrokenError", "Logs", "check_laws", "check_step", "logs_of", "need"]

Logs = Mapping[str, Sequence[Event]]
"""The events of each session of a store, parents before children."""

_PAGE = 1000


class LawBrokenError(AssertionError):
    """Raised by the checkers of the simulator when a run broke a law.

    Args:
        law: what was broken, with the number of the law or of the case.
    """

    def __init__(self, law: str) -> None:
        super().__init__(law)
        self.law = law


def need(holds: bool, law: str) -> None:
    """Raise when a law does not hold.

    Raises:
        LawBrokenError: it does not.
    """
    if not holds:
        raise LawBrokenError(law)


def logs_of(reader: Reader) -> dict[str, list[Event]]:
    """Every log of a store, parents before children."""
    logs: dict[str, list[Event]] = {}
    waiting: list[str | None] = [None]
    while waiting:
        parent, after = waiting.pop(0), None
        while page := reader.children(parent, after, _PAGE):
            for row in page:
                logs[row.session] = reader.load(row.session)
                need(row.seq == len(logs[row.session]), f"R-232 the row of {row}")
                waiting.append(row.session)
            after = page[-1].session
    need(len(logs) == reader.sessions(), "8 a session that no parent leads to")
    return logs


@attrs.define
class _Walk:
    """One log, read once: what it gives, and what it was on the way.

    `held` is what a request would have been made from, by turn and step; `entered` the
    messages that entered, each with its place among them; `outcomes` the assignments
    that ever had one that was not told.
    """

    name: str
    events: Sequence[Event]
    session: Session = attrs.field(factory=Session)
    held: dict[tuple[int, int], Transcript] = attrs.field(factory=dict)
    entered: dict[str, int] = attrs.field(factory=dict)
    outcomes: set[str] = attrs.field(factory=set)

    def go(self) -> None:
        """Read it."""
        session = self.session
        seen = 0
        parked = False
        for event in self.events:
            check_step(self.name, session, event)
            if isinstance(event, TurnOpened):
                need(not parked, f"R-140 {self.name} went on while it was parked")
            parked = isinstance(event, Interrupted) or (parked and not _wakes(event))
            untold = session.untold
            session.apply(event)
            if session.untold is not untold:
                self.outcomes.update(one.message for one in session.untold)
            if session.calls is None:
                if len(session.transcript) != seen or isinstance(event, Compacted):
                    self._look(session.transcript, seen, event)
                    seen = len(session.transcript)
                if session.open is not None:
                    place = session.turn, session.step
                    self.held[place] = list(session.transcript)

    def _look(self, transcript: Transcript, seen: int, event: Event) -> None:
        """Look at what is new in the transcript, or at all of a shortened one."""
        _check_transcript(self.name, transcript)
        new = transcript[0 if isinstance(event, Compacted) else seen :]
        shown = [m.id for m in new if isinstance(m, UserMessage) and m.id]
        need(len(set(shown)) == len(shown), f"5 {self.name} shows a message twice")
        for message in shown:
            self.entered.setdefault(message, len(self.entered))


def _wakes(event: Event) -> bool:
    """Whether an event un-parks what an interrupt has parked."""
    if isinstance(event, Accepted):
        return event.given == "wakeup"
    return isinstance(event, Promoted)


def check_laws(
    reader: Reader,
    requests: Iterable[ModelRequest] = (),
    order: Sequence[Entry] = (),
    *,
    told: bool = True,
    orphans: Collection[str] = (),
) -> dict[str, Session]:
    """Check every law that logs can break; gives the fold of each log.

    Args:
        reader: the store, at rest.
        requests: what the models of the run were asked.
        order: the events of the run in the order in which they became durable.
        told: whether every outcome must be told to a parent; a run with the notice
            policy `off` gives that up.
        orphans: the sessions that the host made resident, which may have happened while
            their parent was not live; they may outlive it.

    Raises:
        LawBrokenError: a law is broken; it names the first one found.
    """
    logs = logs_of(reader)
    walks: dict[str, _Walk] = {}
    ids: Counter[str] = Counter()
    for name, events in logs.items():
        _check_log(name, events)
        walks[name] = walk = _Walk(name, events)
        walk.go()
        _check_row(name, reader, walk.session)
        _check_occurrences(name, events, walk.session)
        _check_order(name, events, walk)
        _check_outcomes(name, events, walk.session)
        _check_returns(name, events)
        _check_limits(name, events, walk.session)
        ids.update(event.id for event in events if isinstance(event, Accepted))
    sessions = {name: walk.session for name, walk in walks.items()}
    _check_usage(reader, logs, sessions)
    need(all(count == 1 for count in ids.values()), "19 a message id was used twice")
    _check_keys(logs)
    if told:
        _check_told(logs, walks)
    _check_requests(walks, requests)
    _check_lives(logs, order, orphans)
    return sessions


def check_step(name: str, session: Session, event: Event) -> None:
    """Check what no event may do to the state that it finds (laws 4, 10).

    Raises:
        LawBrokenError: it does.
    """
    if isinstance(event, Ended):
        if event.reason == "settled":
            waits = session.inbox.claimable
            need(not waits, f"10 {name} settled with a wakeup waiting")
    elif isinstance(event, Promoted):
        free = session.interrupted is None
        need(free, f"R-261 {name} promoted after an interrupt")
    elif isinstance(event, TurnEnded):
        if session.interrupted is not None:
            kept = event.cause in ("interrupted", "crashed")
            need(kept, f"R-145 {name} forgot an interrupt")
    elif isinstance(event, Discarded):
        kept = event.cause == "cancelled"
        need(kept, f"20 {name} discarded by {event.cause}")
    elif isinstance(event, Accepted) and event.given != event.asked:
        given = f"{event.asked} and is {event.given}"
        may = event.asked == "wakeup"
        need(may, f"4 a quiet message of {name} asked for {given}")
        may = event.given == "quiet" or event.source == "notice"
        need(may, f"5 a message of {name} asked for {given}")


def _check_log(name: str, events: Sequence[Event]) -> None:
    """One header, and activations that begin and end in turn (R-008, R-214)."""
    first = events[0]
    whole = isinstance(first, Created) and first.session == name
    whole = whole and not any(isinstance(event, Created) for event in events[1:])
    need(whole, f"R-008 {name} does not begin with its only header")
    active = False
    turn = 0
    for event in events:
        if isinstance(event, (Activated, Ended)):
            need(active is isinstance(event, Ended), f"1 activations of {name}")
            active = not active
        if isinstance(event, TurnOpened):
            need(active, f"1 {name} opened a turn without an activation")
            need(event.turn == turn + 1, f"5 the turns of {name} are not in order")
            turn = event.turn


def _check_row(name: str, reader: Reader, session: Session) -> None:
    row = reader.row(name)
    same = row is not None and row.summary == session.summary()
    need(same, f"R-200 the index row of {name} is not its fold")


def _check_keys(logs: Logs) -> None:
    """Each key of a sender names one message, for good (law 19)."""
    used = Counter(
        (event.sender, event.key)
        for events in logs.values()
        for event in events
        if isinstance(event, Accepted) and event.key is not None
    )
    need(all(count == 1 for count in used.values()), "19 a key was used twice")


def _check_occurrences(name: str, events: Sequence[Event], session: Session) -> None:
    """Each occurrence ends once, in claimed or discarded, or waits (R-002, R-198)."""
    occurrences: list[str] = []
    ended: list[str] = []
    for event in events:
        if isinstance(event, Promoted):
            occurrences.append(event.id)
        elif isinstance(event, Accepted):
            if event.given == "wakeup":
                occurrences.append(event.id)
        elif isinstance(event, TurnOpened):
            ended += event.claimed
        elif isinstance(event, Discarded):
            ended.append(event.id)
    waiting = [message.id for _, message in session.inbox.waiting]
    same = sorted(occurrences) == sorted(ended + waiting)
    need(same, f"R-002 occurrences of {name}")


def _check_order(name: str, events: Sequence[Event], walk: _Walk) -> None:
    """Each sender's messages entered in the order of acceptance (law 3)."""
    session, position = walk.session, walk.entered
    last: dict[str, int] = {}
    accepted = set()
    for event in events:
        if isinstance(event, Accepted):
            accepted.add(event.id)
            at = position.get(event.id)
            if at is not None:
                behind = at >= last.get(event.sender, 0)
                need(behind, f"3 order of {event.sender} in {name}")
                last[event.sender] = at
    discarded = [e.id for e in events if isinstance(e, Discarded)]
    kept = [m.id for _, m in (*session.inbox.waiting, *session.inbox.staged)]
    places = [*position, *discarded, *kept]
    need(accepted == set(places), f"20 a message of {name} is lost")
    need(len(places) == len(accepted), f"5 a message of {name} is in two places")


def _check_outcomes(name: str, events: Sequence[Event], session: Session) -> None:
    """One outcome for each assignment that was claimed or discarded (R-118)."""
    header = session.header
    assigned = {
        e.id for e in events if isinstance(e, Accepted) and e.source in ASSIGNING
    }
    outcomes: Counter[str] = Counter()
    claimed: tuple[str, ...] = ()
    begun: set[str] = set()
    for event in events:
        if isinstance(event, TurnOpened):
            claimed = event.claimed
            begun.update(assigned.intersection(claimed))
        elif isinstance(event, Discarded):
            begun.update(assigned.intersection([event.id]))
            if not session.returning:
                outcomes.update(assigned.intersection([event.id]))
        elif isinstance(event, TurnEnded) and not session.returning:
            outcomes.update(assigned.intersection(claimed))
        elif isinstance(event, Concluded):
            outcomes[event.message] += 1
    once = all(count == 1 for count in outcomes.values())
    need(once, f"11 outcomes of {name}")
    if session.open is None and not session.returning:
        whole = begun == outcomes.keys()
        need(whole, f"11 an outcome of {name} is missing")
    if session.returning and session.activation is None and begun:
        only = list(outcomes) == [session.assignment]
        need(only, f"11 the only outcome of {name} is missing")
    if header.kind == "oneshot" and session.activation is None:
        need(session.concluded is not None, f"11 {name} ended in silence")


def _check_returns(name: str, events: Sequence[Event]) -> None:
    """The first valid value is fixed, and a different one is a conflict (law 13)."""
    fixed: Submitted | None = None
    conflict = False
    for event in events:
        if isinstance(event, Submitted):
            if event.verdict == "valid":
                need(fixed is None, f"13 two values of {name}")
                fixed = event
            elif event.verdict == "duplicate":
                same = fixed is not None and fixed.value == event.value
                need(same, f"13 a duplicate of {name} is another value")
            conflict |= event.verdict == "conflict"
        elif isinstance(event, Concluded) and event.status == "completed":
            source = json.loads(event.receipt or "{}").get("source")
            if source == "reply":
                same = fixed is not None and fixed.value == event.value
            else:
                # A final text, or the fallback of a choice: nothing was returned.
                same = fixed is None
            need(same, f"13 the outcome of {name} is not what it returned first")
            need(not conflict, f"13 {name} completed with a conflict")


def _check_limits(name: str, events: Sequence[Event], session: Session) -> None:
    """What one agent may spend is exact (law 16).

    A call that a crash cut counts, since it may have run, also where it would not have.
    """
    limits, usage = session.header.spec.limits, session.usage
    unknown = [
        event
        for event in events
        if isinstance(event, CallEnded) and event.error == "TOOL_OUTCOME_UNKNOWN"
    ]
    for axis in ("requests", "tool_calls"):
        most, spent = getattr(limits, axis), getattr(usage, axis)
        if axis == "tool_calls":
            spent -= len(unknown)
        else:
            spent -= _asked_by_compactions(events)
        within = most is None or spent <= most
        need(within, f"16 {name} spent {spent} {axis} of {most}")


def _asked_by_compactions(events: Sequence[Event]) -> int:
    spent = [e.usage for e in events if isinstance(e, Compacted) and e.usage]
    return sum(usage.requests for usage in spent)


def _check_usage(reader: Reader, logs: Logs, sessions: Mapping[str, Session]) -> None:
    """A subtree's usage is the sum of every request below it (law 21).

    What a compaction asked is in no log, and counts as its function said.
    """
    below: dict[str, Usage] = dict.fromkeys(sessions, Usage())
    for name in reversed(list(logs)):
        session = sessions[name]
        below[name] += session.usage
        parent = session.header.parent
        if parent in below:
            below[parent] += below[name]
    for name, session in sessions.items():
        own, subtree = reader.usage(name)
        need(own == session.usage, f"21 usage of {name}")
        need(subtree == below[name], f"21 usage below {name}")
        asked = [e for e in logs[name] if isinstance(e, (StepEnded, RequestFailed))]
        made = len(asked) + _asked_by_compactions(logs[name])
        need(own.requests == made, f"21 requests of {name}")


def _check_told(logs: Logs, walks: Mapping[str, _Walk]) -> None:
    """Each outcome is told to the parent once, after all reports (R-119, R-053)."""
    telling: dict[str, list[Accepted]] = {}
    for events in logs.values():
        for event in events:
            if isinstance(event, Accepted) and event.sender in logs:
                telling.setdefault(event.sender, []).append(event)
    for name, walk in walks.items():
        header = walk.session.header
        if header.parent is None or header.parent not in logs:
            continue
        parent = {e.id for e in logs[header.parent] if isinstance(e, Accepted)}
        heard = [e for e in telling.get(name, ()) if e.id in parent]
        told = Counter(about for event in heard for about in event.about)
        by = "outcome" if header.kind == "oneshot" else "notice"
        mine = all(e.source == by for e in heard if e.about)
        need(mine, f"11 who told of {name}")
        if header.kind == "oneshot" and not header.background:
            need(not told, f"11 the call of {name} was told again")
            continue
        untold = {one.message for one in walk.session.untold}
        whole = told.keys() == walk.outcomes - untold
        need(whole, f"11 outcomes of {name} that were told")
        once = all(count == 1 for count in told.values())
        need(once, f"11 {name} was told of twice")


def _check_requests(
    walks: Mapping[str, _Walk], requests: Iterable[ModelRequest]
) -> None:
    """What a model saw is what was logged (R-212)."""
    for request in requests:
        walk = walks.get(request.session_id)
        place = request.turn, request.step
        if walk is not None and place in walk.held:
            same = list(request.messages) == walk.held[place]
            need(same, f"R-212 request {place} of {request.session_id}")


def _check_transcript(name: str, transcript: Transcript) -> None:
    """Any provider takes it: a result for each call, and nothing empty (law 12)."""
    last = transcript[-1] if transcript else None
    if isinstance(last, AssistantMessage):
        need(not last.calls, f"12 a call of {name} has no result")
        need(bool(last.text), f"12 an empty message of {name}")
    if isinstance(last, ToolMessage):
        calls = transcript[-2]
        whole = isinstance(calls, AssistantMessage) and calls.calls == last.calls
        whole = whole and len(last.results) == len(last.calls)
        need(whole, f"12 results of {name} without their calls")


def _check_lives(logs: Logs, order: Sequence[Entry], orphans: Collection[str]) -> None:
    """At most one activation of each session, and children end first (laws 1, 10).

    A compaction names the children that are live then (R-236).
    """
    active: set[str] = set()
    below: dict[str, list[str]] = {}
    for name, events in logs.items():
        header = events[0]
        if isinstance(header, Created) and header.parent is not None:
            below.setdefault(header.parent, []).append(name)
    for entry in order:
        if isinstance(entry.event, Compacted):
            owned = active.intersection(below.get(entry.session, ()))
            same = owned == set(entry.event.children)
            need(same, f"R-236 the live children of {entry.session}")
        if isinstance(entry.event, Activated):
            need(entry.session not in active, f"1 two lives of {entry.session}")
            active.add(entry.session)
        elif isinstance(entry.event, Ended):
            active.discard(entry.session)
            if entry.event.reason == "crashed":
                continue
            for child in below.get(entry.session, ()):
                before = child not in active or child in orphans
                need(before, f"10 {entry.session} ended before its child {child}")
