"""Any run of a session: its log folds to it, and each message is in one place.

Lives here: a session beside an independent model of the rules, driven by events of
every kind, legal and illegal.
"""

from __future__ import annotations

import copy
from typing import Any, get_args

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ramet.mailbox.bookmark import bookmark_of, session_of
from ramet.mailbox.codec import (
    decode,
    decode_bookmark,
    encode,
    encode_bookmark,
)
from ramet.mailbox.errors import IllegalEventError
from ramet.mailbox.events import (
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
    Kind,
    Promoted,
    RequestFailed,
    SpecRecord,
    StepEnded,
    Submitted,
    Told,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import (
    ASSIGNING,
    AssistantMessage,
    Call,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.mailbox.session import Session, fold

KINDS: tuple[type[Event], ...] = get_args(Event)

SOURCES = ("prompt", "followup", "report", "notice", "inject")


@attrs.define
class Letter:
    """An accepted message in the model."""

    event: Accepted
    place: str = "staged"
    ended: int = 0
    occurrence: bool = False


class Model:
    """The rules of `design.md`, written a second time and otherwise."""

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.active = False
        self.turn = 0
        self.open: list[str] | None = None
        self.calls: list[str] = []
        self.landed: dict[int, str | None] = {}
        self.interrupted = False
        self.parked = False
        self.letters: dict[str, Letter] = {}
        self.entered: list[str] = []
        self.entries: list[str] = []
        self.outcomes: list[str] = []
        self.told = 0
        self.concluded = False
        self.requests = 0
        self.tool_calls = 0

    @property
    def returning(self) -> bool:
        return self.kind in ("headless", "oneshot")

    @property
    def in_batch(self) -> bool:
        return len(self.landed) < len(self.calls)

    @property
    def assignment(self) -> str | None:
        opening = (n for n, it in self.letters.items() if it.event.source in ASSIGNING)
        return next(opening, None)

    def waiting(self) -> list[str]:
        return [name for name, it in self.letters.items() if it.place == "waiting"]

    def staged(self) -> list[str]:
        return [name for name, it in self.letters.items() if it.place == "staged"]

    def allows(self, event: Event) -> bool:
        if self.kind is None:
            return isinstance(event, Created)
        in_turn = self.open is not None
        match event:
            case Created():
                return False
            case Activated():
                return not self.active
            case TurnOpened(turn=turn, claimed=claimed):
                first = self.waiting()[: len(claimed)]
                free = self.active and not in_turn and not self.parked
                fits = turn == self.turn + 1 and bool(claimed)
                return free and fits and list(claimed) == first
            case StepEnded() | RequestFailed():
                return in_turn and not self.in_batch
            case CallEnded(place=place):
                asked = 0 <= place < len(self.calls)
                return self.in_batch and asked and place not in self.landed
            case Submitted():
                return in_turn and self.returning
            case Interrupted():
                return in_turn and not self.interrupted
            case Promoted(id=name):
                return self.may_promote(name)
            case TurnEnded():
                return in_turn and not self.in_batch
            case Discarded(id=name):
                return name in self.waiting()
            case Concluded(message=name):
                fits = name == self.assignment and not self.concluded
                return not in_turn and self.returning and fits
            case Ended():
                return self.active and not in_turn
            case Compacted():
                return in_turn and not self.in_batch and self.may_shorten(event)
        return True

    def may_shorten(self, event: Compacted) -> bool:
        """Entries are names of messages, `-answer` and `-results`."""
        cut = len(self.entries) - event.kept
        dropped = self.entries[: max(0, cut)]
        whole = [name for name in dropped if name in event.verbatim]
        parted = event.kept > 0 and cut >= 0 and self.entries[cut] == "-results"
        fits = whole == list(event.verbatim) and len(whole) < len(dropped)
        return fits and not parted

    def may_promote(self, name: str) -> bool:
        if name not in self.staged():
            return False
        names = list(self.letters)
        later = names[names.index(name) + 1 :]
        if any(self.letters[it].place == "waiting" for it in later):
            return False
        return self.letters[name].event.given == "undecided"

    def let_enter(self, also: tuple[str, ...] = ()) -> None:
        held: set[str] = set()
        for name, letter in self.letters.items():
            sender = letter.event.sender
            if name in also or (letter.place == "staged" and sender not in held):
                letter.place = "entered"
                self.entered.append(name)
                self.entries.append(name)
            elif letter.place == "waiting":
                held.add(sender)

    def take(self, event: Event) -> None:
        match event:
            case Created(kind=kind):
                self.kind = kind
            case Activated():
                self.active = True
            case Accepted():
                self.accept(event)
            case TurnOpened(claimed=claimed):
                self.turn += 1
                self.open = list(claimed)
                for name in claimed:
                    self.letters[name].ended += 1
                self.let_enter(claimed)
            case StepEnded(text=text, calls=calls):
                self.requests += 1
                self.entries += ["-answer"] if text or calls else []
                self.calls, self.landed = [it.name for it in calls], {}
            case RequestFailed():
                self.requests += 1
            case CallEnded(place=place, error=error):
                self.landed[place] = error
                self.tool_calls += error is None and self.calls[place] == "look"
                if not self.in_batch:
                    self.entries.append("-results")
                    self.let_enter()
            case Compacted(kept=kept, verbatim=verbatim, usage=usage):
                self.requests += 0 if usage is None else usage.requests
                dropped = self.entries[: len(self.entries) - kept]
                whole = [name for name in dropped if name in verbatim]
                self.entries[: len(dropped)] = ["-summary", *whole]
                self.let_enter()
            case Interrupted():
                self.interrupted = self.parked = True
            case Promoted(id=name):
                self.letters[name].place = "waiting"
                self.letters[name].occurrence = True
                self.parked = False
            case TurnEnded():
                self.end(self.open or [])
                self.open, self.interrupted = None, False
                self.let_enter()
            case Discarded(id=name):
                self.letters[name].place = "discarded"
                self.letters[name].ended += 1
                self.end([name])
                if self.open is None:
                    self.let_enter()
            case Concluded(message=name):
                self.concluded = True
                self.outcomes.append(name)
            case Ended(told=told):
                self.active = False
                self.told = len(self.outcomes) if told else self.told
            case Told():
                self.told = len(self.outcomes)

    def accept(self, event: Accepted) -> None:
        letter = Letter(event)
        self.letters[event.id] = letter
        if event.given == "wakeup":
            letter.place, letter.occurrence = "waiting", True
            self.parked = False
        elif self.open is None:
            self.let_enter()

    def end(self, names: list[str]) -> None:
        for name in names:
            source = self.letters[name].event.source
            if source in ASSIGNING and not self.returning:
                self.outcomes.append(name)


class SessionMachine(RuleBasedStateMachine):
    """A session, its log and the model, in step."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session()
        self.model = Model()
        self.log: list[Event] = []

    def draw(self, data: st.DataObject, kind: type[Event]) -> Event:
        """An event of a kind, in most cases one that fits."""
        model = self.model
        names = [*model.letters, "nobody"]

        def name(fitting: list[str]) -> str:
            wild = st.sampled_from(names)
            return data.draw(st.sampled_from(fitting) | wild if fitting else wild)

        if kind is Created:
            kinds: list[Kind] = ["interactive", "continuable", "oneshot"]
            drawn = data.draw(st.sampled_from(kinds))
            parent = None if drawn == "interactive" else "p"
            return Created("s", parent, 0, drawn, SpecRecord("w"), 0)
        if kind is Accepted:
            return Accepted(
                f"m{len(model.letters)}",
                data.draw(st.sampled_from(SOURCES)),
                data.draw(st.sampled_from("cd")),
                ("x",),
                data.draw(st.sampled_from(["wakeup", "wakeup", "quiet", "undecided"])),
                0,
            )
        if kind is TurnOpened:
            waiting = model.waiting()
            count = data.draw(st.integers(0, max(1, len(waiting))))
            claim = tuple(waiting[:count]) or (name(waiting),)
            turn = model.turn + data.draw(st.sampled_from([1, 1, 1, 0, 2]))
            return TurnOpened(turn, claim, 0)
        if kind is StepEnded:
            tools = st.sampled_from(["look", "reply"])
            calls = tuple(
                Call(it, "{}") for it in data.draw(st.lists(tools, max_size=3))
            )
            text = data.draw(st.sampled_from(["", "hi"]))
            return StepEnded(text, calls, "end_turn", 0, Usage(1, 2))
        if kind is CallEnded:
            error = data.draw(st.sampled_from([None, "INVALID_ARGS"]))
            return CallEnded(data.draw(st.integers(-1, 2)), "x", 0, error)
        if kind is Ended:
            return Ended("settled", data.draw(st.booleans()), 0)
        if kind is Promoted:
            return Promoted(name(model.staged()), 0)
        if kind is Discarded:
            return Discarded(name(model.waiting()), "cancelled", 0)
        if kind is Concluded:
            assignment = model.assignment
            fitting = [] if assignment is None else [assignment]
            return Concluded(name(fitting), "completed", None, 0)
        if kind is Compacted:
            size = len(model.entries)
            kept = data.draw(st.integers(0, size + 1) | st.just(min(1, size)))
            dropped = model.entries[: max(0, size - kept)]
            shown = [it for it in dropped if it in model.letters] or ["nobody"]
            whole = data.draw(st.sets(st.sampled_from(shown), max_size=2))
            verbatim = tuple(it for it in shown if it in whole)
            if data.draw(st.integers(0, 4)) == 0:
                verbatim = verbatim[::-1]
            usage = data.draw(st.sampled_from([None, Usage(2, 3)]))
            return Compacted("so far", 0, kept, verbatim, ("k",), usage)
        return PLAIN[kind]

    @rule(data=st.data(), kind=st.sampled_from(KINDS))
    def anything(self, data: st.DataObject, kind: type[Event]) -> None:
        self.step(self.draw(data, kind))

    @rule(data=st.data())
    def something_that_may_fit(self, data: st.DataObject) -> None:
        """An event of a kind that has its time now, so that a run gets somewhere."""
        self.step(self.draw(data, data.draw(st.sampled_from(self.timely()))))

    def timely(self) -> list[type[Event]]:
        model = self.model
        if model.kind is None:
            return [Created]
        if not model.active:
            return [Activated, Accepted]
        if model.in_batch:
            return [CallEnded, CallEnded, CallEnded, Accepted]
        if model.open is not None:
            likely = [StepEnded, StepEnded, Accepted, TurnEnded, Promoted, Interrupted]
            return [*likely, Compacted]
        if model.waiting() and not model.parked:
            return [TurnOpened, TurnOpened, Accepted, Discarded]
        return [Accepted, Accepted, Discarded, Concluded, Ended]

    def step(self, event: Event) -> None:
        if self.model.allows(event):
            self.session.apply(event)
            self.model.take(event)
            self.log.append(event)
            return
        before = copy.deepcopy(self.session)
        with pytest.raises(IllegalEventError):
            self.session.apply(event)
        assert self.session == before

    @invariant()
    def places_are_those_of_the_model(self) -> None:
        inbox = self.session.inbox
        assert [it.id for _, it in inbox.waiting] == self.model.waiting()
        assert [it.id for _, it in inbox.staged] == self.model.staged()
        transcript = self.session.transcript
        shown = [it.id for it in transcript if isinstance(it, UserMessage)]
        entries = self.model.entries
        assert [it or "-summary" for it in shown] == [
            it for it in entries if it in self.model.letters or it == "-summary"
        ]
        assert len(transcript) == len(entries)
        assert inbox.parked == self.model.parked
        letters = self.model.letters
        gone = [name for name, it in letters.items() if it.place == "discarded"]
        entered = self.model.entered
        everywhere = [*self.model.waiting(), *self.model.staged(), *entered, *gone]
        assert sorted(everywhere) == sorted(letters)

    @invariant()
    def a_bookmark_gives_the_state_back(self) -> None:
        if not self.session.seq:
            return
        text = encode_bookmark(bookmark_of(self.session))
        again = session_of(decode_bookmark(text))
        assert again == self.session
        assert again.mark == self.session.seq

    @invariant()
    def each_occurrence_ends_once_and_each_sender_is_in_order(self) -> None:
        for letter in self.model.letters.values():
            waits = letter.place == "waiting"
            assert letter.ended == (letter.occurrence and not waits)
        order = list(self.model.letters)
        for sender in "cd":
            its = [
                name
                for name in self.model.entered
                if self.model.letters[name].event.sender == sender
            ]
            assert its == sorted(its, key=order.index)

    @invariant()
    def a_provider_would_accept_the_transcript(self) -> None:
        asked: tuple[Call, ...] = ()
        for entry in self.session.transcript:
            if asked:
                assert isinstance(entry, ToolMessage)
                assert entry.calls == asked
                assert len(entry.results) == len(asked)
                asked = ()
            elif isinstance(entry, AssistantMessage):
                assert entry.text or entry.calls
                asked = entry.calls
            else:
                assert isinstance(entry, UserMessage)
        assert asked == (self.session.calls or ())

    @invariant()
    def outcomes_and_counts_are_those_of_the_model(self) -> None:
        model, session = self.model, self.session
        owed = [] if model.kind == "interactive" else model.outcomes[model.told :]
        assert [it.message for it in session.untold] == owed
        assert len(set(model.outcomes)) == len(model.outcomes)
        assert session.usage.requests == model.requests
        assert session.usage.tool_calls == model.tool_calls
        assert session.seq == len(self.log)
        assert session.assignment == model.assignment

    def teardown(self) -> None:
        """Every prefix of the log folds, also from its stored form (R-184)."""
        session = Session()
        for event in self.log:
            session.apply(decode(encode(event)))
        assert session == self.session == fold(self.log)


PLAIN: dict[Any, Event] = {
    Activated: Activated("a", 0),
    RequestFailed: RequestFailed("provider-error", "x", 0),
    Submitted: Submitted(0, "valid", 0),
    Interrupted: Interrupted("host", 0),
    TurnEnded: TurnEnded("completed", None, 0),
    Told: Told(0),
    Journaled: Journaled("phase", "{}", 0),
}


@pytest.mark.case(
    "R-002", "R-008", "R-048", "R-118", "R-184", "R-199", "R-200", "R-205"
)
def test_any_run_of_a_session_keeps_the_laws() -> None:
    run_state_machine_as_test(
        SessionMachine, settings=settings(max_examples=120, stateful_step_count=50)
    )
