"""Places: where in a supervisor script a call stands, and the key that is made of it.

Lives here: the counting of calls in a script, so that the same call has the same place
in every run, and the spelling of keys.  A lane is a part of a script in which calls
follow each other: the script itself, a member of a group, a work unit.  In its lane a
labelled call is found by its phase, its label and how often that was used; any other
one by its ordinal among the unlabelled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..actors.errors import DeclarationError
from ..mailbox.canonical import canonical_json
from ..mailbox.keys import RESERVED
from ..mailbox.message import record

__all__ = ["Lane", "Place", "Places", "Steps", "again", "attempt_of", "key_at"]

_PREFIX = f"{RESERVED}flow."
_DIGEST = 16
_AGAIN = re.compile(r"(.*)\.again([0-9]+)", re.DOTALL)

Steps = tuple[str | int, ...]


@record
class Place:
    """Where a call stands.

    `steps` names it, `lane` is where it stands and `ordinal` which call of it it is;
    `live` is what no other live call may share, `group` the nearest group and the index
    in it.
    """

    steps: Steps
    lane: Steps = ()
    ordinal: int = 0
    phase: str = ""
    live: tuple[str, str] | None = None
    group: tuple[str, int] | None = None


class _Counts:
    """What was counted below one name."""

    __slots__ = ("calls", "groups", "ordinal", "units", "used")

    def __init__(self) -> None:
        self.calls = 0
        self.ordinal = 0
        self.groups = 0
        self.used: Counter[tuple[str, str, str]] = Counter()
        self.units: Counter[tuple[str, str]] = Counter()


class Lane:
    """A part of a script in which calls follow each other.

    Attributes:
        steps: its name, which every call in it begins with.
        sequence: the lane whose calls it follows and goes before: itself, or for a work
            unit in a loop the one around it.
        phase: the phase that it is in.
        group: the id of the group that it is a member of, and which one.
        diverged: whether nothing in it is recalled, since it began after what differed.
    """

    __slots__ = (
        "_counts",
        "diverged",
        "group",
        "phase",
        "places",
        "sequence",
        "steps",
    )

    def __init__(
        self,
        places: Places,
        steps: Steps,
        phase: str = "",
        group: tuple[str, int] | None = None,
        *,
        sequence: Steps | None = None,
        diverged: bool = False,
    ) -> None:
        self.places: Places = places
        self.steps: Steps = steps
        self.sequence: Steps = steps if sequence is None else sequence
        self.phase: str = phase
        self.group: tuple[str, int] | None = group
        self.diverged: bool = diverged
        # A work unit may be worked at twice: its calls are counted on.
        self._counts = places.counts.setdefault(steps, _Counts())

    def place(self, operation: str, label: str | None, key: str | None) -> Place:
        """The place of the next call in this lane."""
        counts = self._counts
        live = None if label is None else (self.phase, label)
        counts.calls += 1
        if key is not None:
            steps: Steps = (operation, "key", key)
        elif label is None:
            counts.ordinal += 1
            steps = (*self.steps, operation, counts.ordinal)
        else:
            slot = (operation, self.phase, label)
            counts.used[slot] += 1
            steps = (*self.steps, *slot, counts.used[slot])
        ordinal = counts.calls if self.sequence == self.steps else 0
        return Place(steps, self.sequence, ordinal, self.phase, live, self.group)

    def next_group(self) -> Steps:
        """The place of the next group in this lane."""
        self._counts.groups += 1
        return (*self.steps, "group", self._counts.groups)

    def member(
        self, group: str, index: int, steps: Steps, *, diverged: bool = False
    ) -> Lane:
        """The lane of a member of a group that stands in this lane."""
        return Lane(self.places, steps, self.phase, (group, index), diverged=diverged)

    def unit(self, steps: Steps) -> Lane:
        """The lane of a work unit of a loop in this lane."""
        return Lane(self.places, steps, self.phase, self.group, sequence=self.sequence)

    def unit_steps(self, name: str, known_by: str) -> Steps:
        """The name of a work unit below this lane; equal ones are told apart."""
        units = self._counts.units
        units[name, known_by] += 1
        return (*self.steps, "items", name, known_by, units[name, known_by])


_HERE: ContextVar[Lane | None] = ContextVar("ramet_lane", default=None)
_CLOSED: ContextVar[frozenset[tuple[int, Steps]]] = ContextVar(
    "ramet_closed", default=frozenset()
)


class Places:
    """The places that a run of a script has taken."""

    def __init__(self) -> None:
        self.counts: dict[Steps, _Counts] = {}
        self.whole: Lane = Lane(self, ())
        self._live: set[tuple[str, str]] = set()

    @property
    def lane(self) -> Lane:
        """The lane that the calling code is in."""
        here = _HERE.get()
        return self.whole if here is None or here.places is not self else here

    @property
    def diverged(self) -> bool:
        """Whether the calling code follows a call that differed from the record."""
        lane = self.lane
        return lane.diverged or (id(self), lane.sequence) in _CLOSED.get()

    def diverge(self) -> None:
        """From here on, and in tasks that are started later, nothing is recalled."""
        _CLOSED.set(_CLOSED.get() | {(id(self), self.lane.sequence)})

    @contextmanager
    def within(self, lane: Lane) -> Iterator[None]:
        """A block whose calls stand in a lane; tasks that it starts are in it too."""
        token = _HERE.set(lane)
        try:
            yield
        finally:
            _HERE.reset(token)

    def take(self, operation: str, label: str | None, key: str | None) -> Place:
        """The place of the next call.

        Args:
            operation: what kind of call it is.
            label: its label within the phase.
            key: the script's own name for it, which stands for any place.

        Raises:
            DeclarationError: `slot-conflict`: a live call has this phase and label
                (A-161); nothing was taken.
        """
        lane = self.lane
        if label is not None:
            live = (lane.phase, label)
            if live in self._live:
                where = f" of phase {lane.phase!r}" if lane.phase else ""
                raise DeclarationError(
                    f"a live call{where} has the label {label!r} already",
                    "slot-conflict",
                )
            self._live.add(live)
        return lane.place(operation, label, key)

    def leave(self, place: Place) -> None:
        """The call at a place is over: its label may be used again."""
        if place.live is not None:
            self._live.discard(place.live)


def key_at(place: Place, digest: str, *, named: bool = False) -> str:
    """The key of what is asked at a place.

    Args:
        place: where it is asked.
        digest: of what is asked, so that another request is not answered by it.
        named: whether the script named the call itself: then the same name with
            another request is a conflict and not another call.
    """
    spelled = f"{_PREFIX}{canonical_json(list(place.steps))}"
    return spelled if named else f"{spelled}.{digest[:_DIGEST]}"


def again(key: str, attempt: int) -> str:
    """The key of an attempt; the first has the key itself."""
    return key if attempt == 1 else f"{key}.again{attempt}"


def attempt_of(key: str) -> tuple[str, int]:
    """The key of the first attempt, and which attempt a key is of."""
    found = _AGAIN.fullmatch(key)
    return (key, 1) if found is None else (found[1], int(found[2]))
