"""The laws that every run must keep, checked over everything that it stored.

Lives here: checks that look at the logs of one store, at what models were asked and at
the order in which events became durable, and need to know nothing of the test.  The
fixture `stage` runs them after each test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ramet import (
    AssistantMessage,
    Entry,
    ModelRequest,
    Reader,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.mailbox.events import (
    Accepted,
    Activated,
    Compacted,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Promoted,
    RequestFailed,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import ASSIGNING, Transcript
from ramet.mailbox.session import Session, fold

__all__ = ["Logs", "check_laws", "logs_of"]

Logs = Mapping[str, Sequence[Event]]
"""The events of each session of a store, parents before children."""


def logs_of(reader: Reader) -> dict[str, list[Event]]:
    """Every log of a store."""
    logs: dict[str, list[Event]] = {}
    waiting: list[str | None] = [None]
    while waiting:
        for row in reader.children(waiting.pop(0), limit=10_000):
            logs[row.session] = reader.load(row.session)
            assert row.seq == len(logs[row.session])
            waiting.append(row.session)
    assert len(logs) == reader.sessions()
    return logs


def check_laws(
    reader: Reader,
    requests: Iterable[ModelRequest] = (),
    order: Sequence[Entry] = (),
    *,
    told: bool = True,
    orphans: Collection[str] = (),
) -> None:
    """Check every law that logs can break.

    Args:
        reader: the store, at rest.
        requests: what the models of the run were asked.
        order: the events of the run in the order in which they became durable.
        told: whether every outcome must be told to a parent; a run with the notice
            policy `off` gives that up.
        orphans: the sessions that the host made resident, which may have happened while
            their parent was not live; they may outlive it.
    """
    logs = logs_of(reader)
    sessions = {name: fold(events) for name, events in logs.items()}
    ids: Counter[str] = Counter()
    for name, events in logs.items():
        row = reader.row(name)
        assert row is not None
        assert row.summary == sessions[name].summary(), f"index row of {name}"
        _check_log(name, events)
        _check_steps(name, events)
        _check_occurrences(name, events, sessions[name])
        _check_order(name, events)
        _check_outcomes(name, events, sessions[name])
        _check_usage(name, reader, logs, sessions)
        ids.update(event.id for event in events if isinstance(event, Accepted))
    assert all(count == 1 for count in ids.values()), "a message id was used twice"
    _check_keys(logs)
    if told:
        _check_told(logs, sessions)
    _check_requests(logs, requests)
    _check_lives(logs, order, orphans)


def _check_log(name: str, events: Sequence[Event]) -> None:
    """One header, and activations that begin and end in turn (R-008, R-214)."""
    assert isinstance(events[0], Created)
    assert events[0].session == name
    assert not any(isinstance(event, Created) for event in events[1:])
    active = False
    turn = 0
    for event in events:
        if isinstance(event, (Activated, Ended)):
            assert active is isinstance(event, Ended), f"activations of {name}"
            active = not active
        if isinstance(event, TurnOpened):
            assert active, f"{name} opened a turn without an activation"
            assert event.turn == turn + 1
            turn = event.turn


def _check_steps(name: str, events: Sequence[Event]) -> None:
    """What no event may do to the state that it finds (laws 4, 10, R-145, R-261)."""
    session = Session()
    for event in events:
        if isinstance(event, Ended) and event.reason == "settled":
            assert not session.inbox.claimable, f"{name} settled with a wakeup waiting"
        elif isinstance(event, Promoted):
            assert session.interrupted is None, f"{name} promoted after an interrupt"
        elif isinstance(event, TurnEnded) and session.interrupted is not None:
            causes = ("interrupted", "crashed")
            assert event.cause in causes, f"{name} forgot an interrupt (R-145)"
        elif isinstance(event, Accepted) and event.given != event.asked:
            given = (event.asked, event.given)
            assert event.asked == "wakeup", f"a quiet message of {name} was {given}"
            assert event.given == "quiet" or event.source == "notice", (
                f"{name}: {given}"
            )
        session.apply(event)


def _check_keys(logs: Logs) -> None:
    """Each key of a sender names one message, for good (law 19)."""
    used = Counter(
        (event.sender, event.key)
        for events in logs.values()
        for event in events
        if isinstance(event, Accepted) and event.key is not None
    )
    assert all(count == 1 for count in used.values()), "a key was used twice"


def _check_occurrences(name: str, events: Sequence[Event], session: Session) -> None:
    """Each occurrence ends once, in claimed or discarded, or waits (R-002, R-198)."""
    occurrences = [
        event.id
        for event in events
        if isinstance(event, Promoted)
        or (isinstance(event, Accepted) and event.given == "wakeup")
    ]
    ended = [m for e in events if isinstance(e, TurnOpened) for m in e.claimed]
    for event in events:
        if isinstance(event, Discarded):
            assert event.cause == "cancelled", f"{name} discarded by {event.cause}"
            ended.append(event.id)
    waiting = [message.id for _, message in session.inbox.waiting]
    assert sorted(occurrences) == sorted(ended + waiting), f"occurrences of {name}"


def _check_order(name: str, events: Sequence[Event]) -> None:
    """Each sender's messages entered in the order of acceptance (law 3)."""
    session = Session()
    position: dict[str, int] = {}
    for event in events:
        session.apply(event)
        shown = [m.id for m in session.transcript if isinstance(m, UserMessage)]
        assert len(set(shown)) == len(shown), f"{name} shows a message twice"
        for message in shown:
            position.setdefault(message, len(position))
    position.pop("", None)
    senders: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, Accepted) and event.id in position:
            senders.setdefault(event.sender, []).append(position[event.id])
    for sender, positions in senders.items():
        assert positions == sorted(positions), f"order of {sender} in {name}"
    discarded = {e.id for e in events if isinstance(e, Discarded)}
    kept = [m.id for _, m in (*session.inbox.waiting, *session.inbox.staged)]
    accepted = {e.id for e in events if isinstance(e, Accepted)}
    assert accepted == {*position, *discarded, *kept}, f"a message of {name} is lost"
    assert len(position) + len(discarded) + len(kept) == len(accepted)


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
    assert all(count == 1 for count in outcomes.values()), f"outcomes of {name}"
    if session.open is None and not session.returning:
        assert begun == outcomes.keys(), f"an outcome of {name} is missing"
    if session.returning and session.activation is None and begun:
        assert list(outcomes) == [session.assignment]
    if header.kind == "oneshot" and session.activation is None:
        assert session.concluded is not None, f"{name} ended in silence"


def _check_usage(
    name: str, reader: Reader, logs: Logs, sessions: Mapping[str, Session]
) -> None:
    """A subtree's usage is the sum of every request below it (law 21).

    What a compaction asked is in no log, and counts as its function said.
    """
    below = [name]
    for other, session in sessions.items():
        if session.header.parent in below:
            below.append(other)
    total = Usage()
    for other in below:
        total += sessions[other].usage
    own, subtree = reader.usage(name)
    assert own == sessions[name].usage
    assert subtree == total, f"usage below {name}"
    asked = [e for e in logs[name] if isinstance(e, (StepEnded, RequestFailed))]
    spent = [e.usage for e in logs[name] if isinstance(e, Compacted) and e.usage]
    assert own.requests == len(asked) + sum(usage.requests for usage in spent)


def _check_told(logs: Logs, sessions: Mapping[str, Session]) -> None:
    """Each outcome is told to the parent once, after all reports (R-119, R-053)."""
    for name, session in sessions.items():
        header = session.header
        parent = logs.get(header.parent or "")
        if parent is None:
            continue
        telling = [e for e in parent if isinstance(e, Accepted) and e.sender == name]
        told = Counter(about for event in telling for about in event.about)
        by = "outcome" if header.kind == "oneshot" else "notice"
        assert all(e.source == by for e in telling if e.about), f"who told of {name}"
        if header.kind == "oneshot" and not header.background:
            assert not told, f"the call of {name} was told again"
            continue
        untold = {one.message for one in session.untold}
        outcomes = set()
        state = Session()
        for event in logs[name]:
            before = state.untold
            state.apply(event)
            outcomes |= {one.message for one in state.untold if one not in before}
        assert told.keys() == outcomes - untold, f"outcomes of {name} that were told"
        assert all(count == 1 for count in told.values()), f"{name} was told of twice"


def _check_requests(logs: Logs, requests: Iterable[ModelRequest]) -> None:
    """What a model saw is what was logged; any provider takes it (law 12, R-212)."""
    held: dict[tuple[str, int, int], Transcript] = {}
    for name, events in logs.items():
        session = Session()
        for event in events:
            session.apply(event)
            if session.calls is None:
                _check_transcript(name, session.transcript)
                if session.open is not None:
                    place = name, session.turn, session.step
                    held[place] = list(session.transcript)
    for request in requests:
        place = request.session_id, request.turn, request.step
        if place in held:
            assert list(request.messages) == held[place], f"request {place}"


def _check_transcript(name: str, transcript: Transcript) -> None:
    last = transcript[-1] if transcript else None
    if isinstance(last, AssistantMessage):
        assert not last.calls, f"a call of {name} has no result"
        assert last.text, f"an empty message of {name}"
    if isinstance(last, ToolMessage):
        calls = transcript[-2]
        assert isinstance(calls, AssistantMessage)
        assert calls.calls == last.calls
        assert len(last.results) == len(last.calls)


def _check_lives(logs: Logs, order: Sequence[Entry], orphans: Collection[str]) -> None:
    """At most one activation of each session, and children end first (laws 1, 10).

    A compaction names the children that are live then (R-236).
    """
    active: set[str] = set()
    for entry in order:
        if isinstance(entry.event, Compacted):
            owned = {
                other
                for other in active
                if isinstance(born := logs[other][0], Created)
                and born.parent == entry.session
            }
            assert owned == set(entry.event.children), f"children of {entry.session}"
        if isinstance(entry.event, Activated):
            assert entry.session not in active
            active.add(entry.session)
        elif isinstance(entry.event, Ended):
            active.discard(entry.session)
            if entry.event.reason == "crashed":
                continue
            for other in active.difference(orphans):
                header = logs[other][0] if other in logs else None
                assert not isinstance(header, Created) or (
                    header.parent != entry.session
                ), f"{entry.session} ended before its child {other}"
