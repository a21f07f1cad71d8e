"""The laws of one log, checked as it is read, event by event.

Lives here: what no event may do to the state that it finds, what must hold of a log up
to any place, and the error that says which law was broken.  What binds several logs,
and what a log alone cannot know, is in `laws.py`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
    UserMessage,
)
from ..mailbox.session import Session

__all__ = ["LawBrokenError", "Walk", "need"]

E = TypeVar("E", bound=Event)


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


class Walk:
    """One log, read event by event: what it gives, and what it was on the way.

    Args:
        name: the session whose log it is.

    Attributes:
        events: what was read.
        session: the fold of it.
        held: what a request would have been made from, by turn and step.
        entered: the messages that entered, each with its place among them.
        outcomes: the assignments that ever had an outcome that was not told.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[Event] = []
        self.session: Session = Session()
        self.held: dict[tuple[int, int], Transcript] = {}
        self.entered: dict[str, int] = {}
        self.outcomes: set[str] = set()
        self.parked: bool = False
        self._kinds: defaultdict[type[Any], list[Any]] = defaultdict(list)
        self._seen = 0

    def all(self, kind: type[E]) -> Sequence[E]:
        """The events of a kind, in their order."""
        return self._kinds.get(kind, ())

    def requests(self) -> int:
        """How many requests it counts, without those of compactions."""
        return len(self.all(StepEnded)) + len(self.all(RequestFailed))

    def read(self, event: Event) -> None:
        """Read the next event.

        Raises:
            LawBrokenError: it breaks a law.
            IllegalEventError: the state does not allow it.
        """
        session, kind = self.session, type(event)
        if kind is Created or not self.events:
            whole = kind is Created and not self.events
            whole = whole and event.session == self.name  # type: ignore[union-attr]
            need(whole, f"R-008 {self.name} does not begin with its only header")
        rule = _RULES.get(kind)
        if rule is not None:
            rule(self, event)
        untold = session.untold
        session.apply(event)
        self.events.append(event)
        self._kinds[kind].append(event)
        if session.untold is not untold:
            self.outcomes.update([one.message for one in session.untold])
        if session.calls is None:
            if len(session.transcript) != self._seen or kind is Compacted:
                self._look(session.transcript, kind is Compacted)
                self._seen = len(session.transcript)
            if session.open is not None:
                self.held[session.turn, session.step] = list(session.transcript)

    def check(self) -> None:
        """Check what must hold of all that was read.

        Raises:
            LawBrokenError: a law is broken; it names the first one found.
        """
        _check_occurrences(self)
        _check_order(self)
        _check_outcomes(self)
        _check_returns(self)
        _check_limits(self)

    def _look(self, transcript: Transcript, shortened: bool) -> None:
        """Look at what is new in the transcript, or at all of a shortened one."""
        _check_transcript(self.name, transcript)
        new = transcript if shortened else transcript[self._seen :]
        shown = [m.id for m in new if isinstance(m, UserMessage) and m.id]
        need(len(set(shown)) == len(shown), f"5 {self.name} shows a message twice")
        for message in shown:
            self.entered.setdefault(message, len(self.entered))


# -- what no event may do to the state that it finds -----------------------------------


def _activated(walk: Walk, event: Activated) -> None:
    need(walk.session.activation is None, f"1 activations of {walk.name}")


def _accepted(walk: Walk, event: Accepted) -> None:
    """A message gets what it asked for, or less where a rule says so (laws 4, 5)."""
    if event.given != event.asked:
        given = f"{event.asked} and is {event.given}"
        may = event.asked == "wakeup"
        need(may, f"4 a quiet message of {walk.name} asked for {given}")
        may = event.given == "quiet" or event.source == "notice"
        need(may, f"5 a message of {walk.name} asked for {given}")
    if event.given == "wakeup":
        walk.parked = False


def _turn_opened(walk: Walk, event: TurnOpened) -> None:
    session, name = walk.session, walk.name
    active = session.activation is not None
    need(active, f"1 {name} opened a turn without an activation")
    need(event.turn == session.turn + 1, f"5 the turns of {name} are not in order")
    need(not walk.parked, f"R-140 {name} went on while it was parked")


def _interrupted(walk: Walk, event: Interrupted) -> None:
    walk.parked = True


def _promoted(walk: Walk, event: Promoted) -> None:
    free = walk.session.interrupted is None
    need(free, f"R-261 {walk.name} promoted after an interrupt")
    walk.parked = False


def _turn_ended(walk: Walk, event: TurnEnded) -> None:
    if walk.session.interrupted is not None:
        kept = event.cause in ("interrupted", "crashed")
        need(kept, f"R-145 {walk.name} forgot an interrupt")


def _discarded(walk: Walk, event: Discarded) -> None:
    kept = event.cause == "cancelled"
    need(kept, f"20 {walk.name} discarded by {event.cause}")


def _ended(walk: Walk, event: Ended) -> None:
    session = walk.session
    need(session.activation is not None, f"1 activations of {walk.name}")
    if event.reason == "settled":
        waits = session.inbox.claimable
        need(not waits, f"10 {walk.name} settled with a wakeup waiting")


_RULES: dict[type[Any], Callable[[Walk, Any], None]] = {
    Activated: _activated,
    Accepted: _accepted,
    TurnOpened: _turn_opened,
    Interrupted: _interrupted,
    Promoted: _promoted,
    TurnEnded: _turn_ended,
    Discarded: _discarded,
    Ended: _ended,
}


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


# -- what must hold of a log -----------------------------------------------------------


def _check_occurrences(walk: Walk) -> None:
    """Each occurrence ends once, in claimed or discarded, or waits (R-002, R-198)."""
    occurrences = [event.id for event in walk.all(Promoted)]
    occurrences += [e.id for e in walk.all(Accepted) if e.given == "wakeup"]
    ended = [event.id for event in walk.all(Discarded)]
    for event in walk.all(TurnOpened):
        ended += event.claimed
    ended += [message.id for _, message in walk.session.inbox.waiting]
    need(sorted(occurrences) == sorted(ended), f"R-002 occurrences of {walk.name}")


def _check_order(walk: Walk) -> None:
    """Each sender's messages entered in the order of acceptance (law 3)."""
    session, position, name = walk.session, walk.entered, walk.name
    last: dict[str, int] = {}
    accepted = set()
    for event in walk.all(Accepted):
        accepted.add(event.id)
        at = position.get(event.id)
        if at is not None:
            behind = at >= last.get(event.sender, 0)
            need(behind, f"3 order of {event.sender} in {name}")
            last[event.sender] = at
    discarded = [event.id for event in walk.all(Discarded)]
    kept = [m.id for _, m in (*session.inbox.waiting, *session.inbox.staged)]
    places = [*position, *discarded, *kept]
    need(accepted == set(places), f"20 a message of {name} is lost")
    need(len(places) == len(accepted), f"5 a message of {name} is in two places")


def _check_outcomes(walk: Walk) -> None:
    """One outcome for each assignment that was claimed or discarded (R-118)."""
    session, name = walk.session, walk.name
    assigned = {e.id for e in walk.all(Accepted) if e.source in ASSIGNING}
    discarded = [e.id for e in walk.all(Discarded) if e.id in assigned]
    begun = set(discarded)
    for event in walk.all(TurnOpened):
        begun.update(assigned.intersection(event.claimed))
    outcomes = Counter([event.message for event in walk.all(Concluded)])
    if not session.returning:
        outcomes.update(discarded)
        # Turns end in the order in which they were opened; the last may be open still.
        for opened, _ in zip(walk.all(TurnOpened), walk.all(TurnEnded), strict=False):
            outcomes.update(assigned.intersection(opened.claimed))
    once = all(count == 1 for count in outcomes.values())
    need(once, f"11 outcomes of {name}")
    if session.open is None and not session.returning:
        whole = begun == outcomes.keys()
        need(whole, f"11 an outcome of {name} is missing")
    if session.returning and session.activation is None and begun:
        only = list(outcomes) == [session.assignment]
        need(only, f"11 the only outcome of {name} is missing")
    if session.header.kind == "oneshot" and session.activation is None:
        need(session.concluded is not None, f"11 {name} ended in silence")


def _check_returns(walk: Walk) -> None:
    """The first valid value is fixed, and a different one is a conflict (law 13)."""
    submitted, concluded = walk.all(Submitted), walk.all(Concluded)
    if not submitted and not concluded:
        return
    name = walk.name
    fixed: Submitted | None = None
    conflict = False
    for event in walk.events:
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


def _check_limits(walk: Walk) -> None:
    """What one agent may spend is exact (law 16).

    A call that a crash cut counts, since it may have run, also where it would not have.
    """
    limits, usage = walk.session.header.spec.limits, walk.session.usage
    spent = usage.requests - asked_by_compactions(walk)
    within = limits.requests is None or spent <= limits.requests
    need(within, f"16 {walk.name} spent {spent} requests of {limits.requests}")
    ended = walk.all(CallEnded)
    unknown = [event for event in ended if event.error == "TOOL_OUTCOME_UNKNOWN"]
    spent = usage.tool_calls - len(unknown)
    within = limits.tool_calls is None or spent <= limits.tool_calls
    need(within, f"16 {walk.name} spent {spent} tool_calls of {limits.tool_calls}")


def asked_by_compactions(walk: Walk) -> int:
    """How many requests its compactions say that they made."""
    spent = [event.usage for event in walk.all(Compacted) if event.usage]
    return sum(usage.requests for usage in spent)
