"""Leaves: immutable data that the garbage collector need not look at."""

from __future__ import annotations

import copy
import gc
import pickle

import attrs
import pytest

from ramet import Call, Usage
from ramet.lifecycle.bookkeeper import sample_events
from ramet.mailbox.codec import KINDS
from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Created,
    SpecRecord,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.session import fold

ACCEPTED = Accepted("m", "report", "s", ("text",), "quiet", 7)


def test_no_event_and_nothing_in_one_is_visited_by_a_collection() -> None:
    """A tuple of texts is let go of by the first collection that sees it."""
    events = sample_events()
    assert {type(event) for event in events} == set(KINDS.values())
    gc.collect()
    visited: list[object] = []
    waiting: list[object] = list(events)
    while waiting:
        one = waiting.pop()
        if gc.is_tracked(one):
            visited.append(one)
        kind = type(one)
        if attrs.has(kind):
            waiting += [getattr(one, field.name) for field in attrs.fields(kind)]
        elif isinstance(one, tuple):
            waiting += one
    assert not visited


def test_nothing_of_a_transcript_is_visited_by_a_collection() -> None:
    """An idle agent costs a collection the same, however long it has talked."""
    header = Created("s", None, 0, "interactive", SpecRecord("s"), 1)
    session = fold([header, Activated("a", 1)])
    for turn in range(1, 4):
        call = Call("look", "{}", "c")
        for event in (
            Accepted(f"m{turn}", "tell", "host", ("go",), "wakeup", 1),
            TurnOpened(turn, (f"m{turn}",), 1),
            StepEnded("", (call,), "tool_calls", 1),
            CallEnded(0, "seen", 1),
            StepEnded("done", (), "end", 1, Usage(input_tokens=1)),
            TurnEnded("completed", None, 1),
        ):
            session.apply(event)
    gc.collect()
    assert len(session.transcript) == 12
    assert not [one for one in session.transcript if gc.is_tracked(one)]


def test_a_leaf_cannot_be_changed() -> None:
    """Nor can it get what it was not declared to have."""
    for name in ("id", "else"):
        with pytest.raises(AttributeError):
            setattr(ACCEPTED, name, "other")
    assert ACCEPTED.id == "m"


def test_a_leaf_is_what_its_fields_are() -> None:
    """Equal, shown and hashed by its class and its fields, in their order."""
    assert attrs.evolve(ACCEPTED, at=7) == ACCEPTED
    assert attrs.evolve(ACCEPTED, at=8) != ACCEPTED
    other: object = SpecRecord("1")
    assert other != Usage(1)
    assert hash(Usage(1)) == hash(Usage(1))
    assert repr(Usage(1, 2)).startswith("Usage(requests=1, input_tokens=2, ")
    assert Usage(1) + Usage(2, 3) == Usage(3, 3)
    assert (Usage.__doc__ or "").startswith("What model requests cost")
    with pytest.raises(TypeError):
        Usage(1, request=2)  # type: ignore[call-arg]


def test_a_leaf_is_a_class_of_attrs_for_whoever_asks() -> None:
    """Also for what reads fields, and it can be copied and sent elsewhere."""
    names = [field.name for field in attrs.fields(Usage)]
    made: type[object] = Usage
    assert attrs.has(made)
    assert attrs.asdict(Usage(1)) == dict.fromkeys(names) | {
        "requests": 1,
        "tool_calls": 0,
    }
    for other in (
        copy.copy(ACCEPTED),
        copy.deepcopy(ACCEPTED),
        pickle.loads(pickle.dumps(ACCEPTED)),
    ):
        assert other == ACCEPTED
        assert type(other) is Accepted
