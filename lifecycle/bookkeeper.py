"""A book-keeper for tests of stores: it writes as a supervisor does.

Lives here: what a test needs to fill a store by hand, and samples of every kind of
event.  It knows the store port, and no store and no agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import attrs

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
    Journaled,
    LimitsRecord,
    Promoted,
    RequestFailed,
    SpecRecord,
    StepEnded,
    Submitted,
    Told,
    ToolRecord,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.message import Call, Usage
from ..mailbox.store import Batch, Entry, Store, Summary

__all__ = [
    "ODD",
    "REST",
    "BookKeeper",
    "header",
    "message",
    "refused",
    "sample_events",
]

ODD = "\ud800 \udc00\x00\x1f é \U0001f331 '\"\\\n\udcff"
"""Text of a kind that is lost by stores that take short cuts."""

REST = Summary(None, 0, False, False, 0, 0, 0, Usage(), 0)
"""The summary of a session that never did anything."""


def header(session: str, parent: str | None = None, at: int = 1) -> Created:
    """The header of a session that continues."""
    return Created(session, parent, 0, "continuable", SpecRecord("worker"), at)


def message(name: str, key: str | None = None, sender: str = "host") -> Accepted:
    """An accepted message."""
    return Accepted(name, "report", sender, (f"text of {name}",), "quiet", 2, key=key)


def sample_events() -> list[Event]:
    """One event of every kind, with every field set."""
    usage = Usage(1, 2, 3, 4, 5, 6)
    limits = LimitsRecord(1, 2, 3.5, 4.0, 5, 6)
    spec = SpecRecord("n", "i", ("a",), ("b",), limits, (ToolRecord("t", "d"),))
    return [
        Created("s", "p", 1, "oneshot", spec, 1, "{}", True),
        Activated("a", 2, ("tool t",)),
        Accepted("m", "notice", "c", (ODD, ""), "undecided", 3, "quiet", "k", ("x",)),
        TurnOpened(1, ("m",), 4),
        StepEnded(ODD, (Call("t", '{"a": 1}', "id"),), "tool_calls", 5, usage, True),
        RequestFailed("provider-error", ODD, 6, usage),
        CallEnded(0, ODD, 7, "TOOL_FAILED"),
        Submitted(0, "invalid", 8, "1", ("not a text",)),
        Interrupted("host", 9),
        Promoted("m", 10),
        TurnEnded("failed", "crashed", 11),
        Discarded("m", "cancel", 12),
        Concluded("m", "stopped", "budget", 13, "1", "requests", "more", "{}"),
        Ended("settled", True, 14),
        Told(15),
        Journaled("call", "{}", 16),
        Compacted(ODD, 17, 2, ("m", ODD), ("c",), usage),
    ]


class BookKeeper:
    """Writes to a store as a supervisor does: it knows every sequence and epoch.

    Args:
        store: an open store.
        holder: who claims.
    """

    def __init__(self, store: Store, holder: str = "one") -> None:
        self.store = store
        self.holder = holder
        self.sequences: dict[str, int] = {}
        self.epochs: dict[str, int] = {}

    def batch(self, *written: tuple[str, Event], **summary: Any) -> Batch:
        """A batch of events; `summary` is what differs from rest in every session."""
        after = dict(self.sequences)
        expected: dict[str, int] = {}
        entries = []
        for session, event in written:
            seq = after.get(session, 0)
            expected.setdefault(session, seq)
            entries.append(Entry(session, seq, event))
            after[session] = seq + 1
        changed = attrs.evolve(REST, **summary)
        epochs = {session: self.epochs.get(session, 1) for session in expected}
        summaries = dict.fromkeys(expected, changed)
        return Batch(self.holder, entries, expected, epochs, summaries)

    def write(self, *written: tuple[str, Event], **summary: Any) -> None:
        """Append a batch, and remember the sequences after it."""
        batch = self.batch(*written, **summary)
        self.store.append(batch)
        for entry in batch.entries:
            self.sequences[entry.session] = entry.seq + 1

    def claim(self, session: str) -> int:
        """Claim a session, and remember its epoch and sequence."""
        self.epochs[session] = self.store.claim(session, self.holder)
        row = self.store.row(session)
        assert row is not None
        self.sequences[session] = row.seq
        return self.epochs[session]


@contextlib.contextmanager
def refused(*errors: type[BaseException]) -> Iterator[None]:
    """A block that must raise one of these errors."""
    try:
        yield
    except errors:
        return
    raise AssertionError(f"it was not refused with {errors}")
