"""What is recorded of a run: the calls of its journal, and which of them still count.

Lives here: the fold of a journal into recorded calls, and the closing of what came
after a difference (A-164, A-172).  A later record of a place stands for an earlier one,
and a call that was begun anew makes void what was recorded after the one that it stands
for.  It reads events and nothing else; whether a record proves its value is for
`actors/proof.py` to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from ..mailbox.errors import CorruptLogError
from ..mailbox.events import Event, Journaled
from .places import Steps, attempt_of

__all__ = [
    "CUT_OFF",
    "ENDED",
    "FOREVER",
    "JOURNAL",
    "RESUMED",
    "STARTED",
    "Recorded",
    "RecordedCall",
    "Unended",
    "UnendedGroup",
    "read_recorded",
]

STARTED = "run.started"
RESUMED = "run.resumed"
ENDED = "run.ended"

CUT_OFF = "cut"
"""The name in `group.ended` that says that its process ended before the group."""

JOURNAL = 1
"""The version of the journal; a run of 0.1.0 has none, and no calls in it."""

_REFUSED = "replay-contract-failure"

FOREVER = 2**53 - 1
"""Stands for the end of what has not ended."""


@attrs.frozen
class RecordedCall:
    """A call as the journal has it.

    Attributes:
        place: where it stands.
        lane: in which lane.
        ordinal: which call of the lane it is.
        asked: the digest of what was asked.
        contract: the digest of what had to be returned.
        queued: where in the journal it begins.
        ended: where it ends, or `FOREVER`.
        session: its last agent, or `None` when there was none.
        receipt: the digest of its receipt, where the journal has it.
        source: the digest of the script that made it.
        input: the digest of the input that it was made with.
        valid: whether its events came in an order that makes sense.
    """

    place: Steps
    lane: Steps
    ordinal: int
    asked: str
    contract: str
    queued: int
    ended: int = FOREVER
    session: str | None = None
    receipt: str | None = None
    source: str = ""
    input: str = ""
    valid: bool = True


@attrs.frozen
class Unended:
    """A call whose end is not in the journal: its data, and where its agent is."""

    queued: dict[str, Any]
    at: int
    attempt: int
    session: str | None
    message: str | None


@attrs.define
class UnendedGroup:
    """A group whose end is not in the journal, and how its own calls ended.

    Attributes:
        started: the data of its beginning.
        calls: the status of each call that stands in it directly, or `None` while that
            has none.
        closes: a lane, and after which of its events nothing recorded counts, since a
            member differed from an earlier record (A-172).
    """

    started: dict[str, Any]
    calls: dict[str, str | None] = attrs.field(factory=dict)
    closes: tuple[Steps, int] | None = None
    differs: bool = False

    @property
    def place(self) -> Steps:
        """Where it stands."""
        return tuple(self.started["place"])

    @property
    def lane(self) -> Steps:
        """The lane in which it stands; earlier journals name it by the place alone."""
        return tuple(self.started.get("lane", self.started["place"][:-2]))


@attrs.define
class _Open:
    queued: dict[str, Any]
    seq: int
    at: int
    segment: int
    attempts: int = 0
    session: str | None = None
    message: str | None = None
    ended: int = FOREVER
    receipt: str | None = None
    valid: bool = True
    base: RecordedCall | None = None


class Recorded:
    """The calls of a recorded run.

    Attributes:
        calls: by their places.
        void: places whose record does not count any more.
        groups: where each group ended, by its place.
        sizes: how many members each group had.
        starts: how many agents were started under each key and those that follow it.
        unended: calls whose end is missing.
        unended_groups: groups whose end is missing, the innermost first.
        early: whether it began under 0.1.0, which kept no journal of its calls.
    """

    def __init__(self) -> None:
        self.calls: dict[Steps, RecordedCall] = {}
        self.void: set[Steps] = set()
        self.groups: dict[Steps, int] = {}
        self.sizes: dict[Steps, int] = {}
        self.starts: dict[str, int] = {}
        self.unended: list[Unended] = []
        self.unended_groups: list[UnendedGroup] = []
        self.early = False
        self._by_ordinal: dict[tuple[Steps, int], RecordedCall] = {}

    def put(self, call: RecordedCall) -> None:
        """A later record stands for an earlier one."""
        self.calls[call.place] = call
        self.void.discard(call.place)
        if call.ordinal:
            self._by_ordinal[call.lane, call.ordinal] = call

    def stood_at(self, lane: Steps, ordinal: int) -> RecordedCall | None:
        """The call that was recorded as the n-th of a lane."""
        return self._by_ordinal.get((lane, ordinal))

    def close(self, lane: Steps, after: int, *, before: int = FOREVER) -> None:
        """Make void what a lane recorded after a point, and what is below it.

        Args:
            lane: the lane.
            after: what was queued later than this is void.
            before: what was queued from here on is not.
        """
        void = [
            place
            for place, call in self.calls.items()
            if call.lane[: len(lane)] == lane and after < call.queued < before
        ]
        for place in void:
            self.forget(place)

    def forget(self, place: Steps) -> None:
        """Make the record of a place void."""
        if self.calls.pop(place, None) is not None:
            self.void.add(place)


def read_recorded(events: Iterable[Event]) -> Recorded:
    """Fold a journal.

    Raises:
        CorruptLogError: it is not of its form.
    """
    fold = _Fold()
    try:
        for seq, event in enumerate(events):
            if isinstance(event, Journaled):
                fold.apply(seq, event)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLogError(f"the journal cannot be read: {error!r}") from error
    return fold.over()


class _Fold:
    def __init__(self) -> None:
        self._recorded = Recorded()
        self._open: dict[str, _Open] = {}
        self._order: list[_Open] = []
        self._groups: dict[str, UnendedGroup] = {}
        self._segment = 0
        self._source = self._input = ""

    def apply(self, seq: int, event: Journaled) -> None:
        data = json.loads(event.data)
        if event.kind in (STARTED, RESUMED):
            self._put_all()
            self._segment = seq
            self._source = data.get("digest", self._source)
            self._input = data.get("input_digest", self._input)
            if event.kind == STARTED:
                self._recorded.early = "journal" not in data
        elif event.kind == "call.queued":
            self._queued(seq, event.at, data)
        elif event.kind == "call.started":
            self._started(data)
        elif event.kind == "call.ended":
            self._ended(seq, data)
        elif event.kind == "group.started":
            self._group_started(data)
        elif event.kind == "group.ended":
            self._group_ended(seq, data)

    def over(self) -> Recorded:
        for group in reversed(self._groups.values()):
            after = self._recorded.groups.get(group.place)
            if group.differs and after is not None:
                # What it closes it would have closed at its end.
                group.closes = (group.lane, after)
                self._recorded.close(*group.closes, before=self._segment)
            self._recorded.unended_groups.append(group)
        self._recorded.unended = [
            Unended(one.queued, one.at, one.attempts, one.session, one.message)
            for one in self._order
            if one.ended == FOREVER
        ]
        self._put_all()
        return self._recorded

    def _group_started(self, data: dict[str, Any]) -> None:
        sizes, place = self._recorded.sizes, tuple(data["place"])
        self._groups[data["group"]] = UnendedGroup(data)
        if sizes.get(place, data["size"]) != data["size"]:
            self._differs(data["group"])
        sizes[place] = data["size"]

    def _group_ended(self, seq: int, data: dict[str, Any]) -> None:
        self._close(data)
        self._groups.pop(data["group"], None)
        if not data.get(CUT_OFF):
            # What was recorded after one that was cut off follows its earlier end.
            self._recorded.groups[tuple(data["place"])] = seq

    def _differs(self, group: str) -> None:
        """A group differs from its record, and so do those that it stands in."""
        for one in self._around(group):
            one.differs = True

    def _around(self, group: str) -> Iterator[UnendedGroup]:
        seen = set()
        while group in self._groups and group not in seen:
            seen.add(group)
            one = self._groups[group]
            yield one
            group = (one.started.get("within") or {}).get("id", "")

    def _of_group(self, data: dict[str, Any], status: str | None) -> None:
        """Note the state of a call that stands in a group."""
        group = (data.get("group") or {}).get("id", "")
        if group in self._groups:
            self._groups[group].calls[data["call"]] = status
            if data.get("fresh") or "closes" in data or data.get("cause") == _REFUSED:
                self._differs(group)

    def _queued(self, seq: int, at: int, data: dict[str, Any]) -> None:
        base = self._recorded.calls.get(tuple(data["place"]))
        one = _Open(data, seq, at, self._segment, base=base)
        if data["call"] in self._open:
            self._open[data["call"]].valid = one.valid = False
        self._open[data["call"]] = one
        self._order.append(one)
        self._of_group(data, None)
        self._close(data)
        if data.get("fresh") == "diverged":
            self._recorded.forget(tuple(data["place"]))

    def _close(self, data: dict[str, Any]) -> None:
        closes = data.get("closes")
        if closes is not None:
            after = FOREVER if closes["after"] is None else closes["after"]
            lane = tuple(closes["lane"])
            self._recorded.close(lane, after, before=self._segment)

    def _started(self, data: dict[str, Any]) -> None:
        key, attempt = attempt_of(data["key"])
        starts = self._recorded.starts
        starts[key] = max(starts.get(key, 0), attempt)
        one = self._open.get(data["call"])
        if one is None:
            return
        one.attempts += 1
        one.valid &= data["attempt"] == one.attempts and one.ended == FOREVER
        one.session, one.message = data["session"], data["message"]

    def _ended(self, seq: int, data: dict[str, Any]) -> None:
        one = self._open.get(data["call"])
        if one is None:
            return
        self._of_group(data, data.get("status"))
        one.valid &= one.ended == FOREVER
        one.ended = seq
        if data["replayed"]:
            one.session = data["session"]
        one.receipt = (data.get("acceptance") or {}).get("receipt")

    def _put_all(self) -> None:
        """What a process recorded counts when the next one begins, or at the end."""
        for one in self._order:
            self._put(one)
        self._order, self._open, self._groups = [], {}, {}

    def _put(self, one: _Open) -> None:
        place = tuple(one.queued["place"])
        known = self._recorded.calls.get(place)
        if one.session is None and known is not None:
            # It came to no agent: what was recorded before it is still the last word.
            return
        source, given = self._source, self._input
        if not one.attempts and one.session is not None:
            # It was replayed: its receipt is of the process that made it, and those of
            # 0.1.0 say nothing of a script.
            source = given = ""
            if one.base is not None:
                source, given = one.base.source, one.base.input
        self._recorded.put(
            RecordedCall(
                place,
                tuple(one.queued["lane"]),
                one.queued["ordinal"],
                one.queued["asked"],
                one.queued["contract"],
                one.seq,
                one.ended,
                one.session,
                one.receipt,
                source,
                given,
                one.valid,
            )
        )
