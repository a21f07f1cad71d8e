"""Shrinking: the shortest schedule, and the fewest faults, that still break a law.

Lives here: the search from one failing run to a smaller one.  A run is smaller when its
plan has fewer faults, and then when its schedule has fewer departures from the plain
order.  Whether a candidate fails is asked by running it; the questions are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs

from .schedules import (
    DepartingStrategy,
    Departures,
    Strategy,
    SwitchingStrategy,
)
from .simulate_run import Ran, Replay

__all__ = ["kind_of", "shrunk"]

Run: TypeAlias = Callable[[Replay, "Strategy | None"], Ran]
"""Runs what is named, under the strategy that it names or another one."""

_BEYOND = 3
"""How far behind the second of two departures one is tried for both."""

_ID = re.compile(r"\b[a-z][0-9a-hjkmnp-tv-z]{18}\b|\d{2,}")


def kind_of(law: str) -> str:
    """A broken law without the ids and numbers of one run: what two runs share."""
    return _ID.sub("#", law.partition("\n")[0])


@attrs.define
class _Search:
    """The questions of one shrinking.

    `smallest` is the smallest failing run so far, and how it is named.
    """

    run: Run
    kind: str
    smallest: tuple[Replay, Ran]
    questions: int

    def fails(self, candidate: Replay) -> bool:
        """Ask whether a candidate breaks the same law; keeps it if it does."""
        ran = self._ask(candidate, None)
        if ran is None:
            return False
        self.smallest = candidate, ran
        return True

    def departs_less(self, strategy: Strategy) -> bool:
        """Ask about a strategy; keeps the run if it departs less often."""
        replay, smallest = self.smallest
        ran = self._ask(replay, strategy)
        if ran is None:
            return False
        departures = ran.schedule.departures
        if len(departures) >= len(smallest.schedule.departures):
            return False
        self.smallest = attrs.evolve(replay, departures=departures), ran
        return True

    def _ask(self, candidate: Replay, strategy: Strategy | None) -> Ran | None:
        if self.questions <= 0:
            return None
        self.questions -= 1
        ran = self.run(candidate, strategy)
        same = ran.law is not None and kind_of(ran.law) == self.kind
        return ran if same else None

    def with_departures(self, departures: Departures) -> bool:
        """Ask about another schedule of the smallest run."""
        replay = self.smallest[0]
        return self.fails(attrs.evolve(replay, departures=dict(departures)))


def shrunk(
    run: Run, replay: Replay, ran: Ran, *, questions: int = 600
) -> tuple[Replay, Ran]:
    """A smaller run that breaks the same law, or the same one.

    Args:
        run: runs a candidate, under a strategy of its own if there is one.
        replay: names the run that failed.
        ran: what it gave.
        questions: how many candidates are run at the most.
    """
    assert ran.law is not None
    search = _Search(run, kind_of(ran.law), (replay, ran), questions)
    _fewer_faults(search)
    _plain_but_for(search)
    if search.smallest[0].departures is None:
        return search.smallest
    _fewer_faults(search)
    _fewer_departures(search)
    while _fewer_switches(search) or _one_for_two(search):
        pass
    _lower_ranks(search)
    return search.smallest


def _fewer_faults(search: _Search) -> None:
    """Leave out all of the plan, or one thing after the other."""
    replay, ran = search.smallest
    drawn = ran.plan.drawn
    if not drawn:
        return
    whole = ("all",)
    if search.fails(attrs.evolve(replay, without=whole)):
        return
    # Its own schedule may not fit a run without faults: it is tried plainly as well.
    if search.fails(attrs.evolve(replay, departures={}, without=whole)):
        return
    for name in drawn:
        replay = search.smallest[0]
        search.fails(attrs.evolve(replay, without=(*replay.without, name)))


def _plain_but_for(search: _Search) -> None:
    """Name the schedule by its departures, cut off where the run has failed already."""
    ran = search.smallest[1]
    if not search.with_departures({}):
        search.with_departures(ran.schedule.departures)


def _fewer_departures(search: _Search) -> None:
    """Leave out pieces of the schedule, from large ones to single ones."""
    _shortest_beginning(search)
    size = len(_departures(search))
    while size >= 1 and search.questions > 0:
        size = max(size // 2, 1)
        left_out = False
        at = len(_departures(search))
        while at > 0 and search.questions > 0:
            kept = _departures(search)
            begin = max(at - size, 0)
            if search.with_departures(dict([*kept[:begin], *kept[at:]])):
                left_out = True
            at = begin
        if size == 1 and not left_out:
            break


def _shortest_beginning(search: _Search) -> None:
    """What comes after the failure does not matter: find out where that is."""
    low, high = 0, len(_departures(search))
    while low < high and search.questions > 0:
        middle = (low + high) // 2
        if search.with_departures(dict(_departures(search)[:middle])):
            high = middle
        else:
            low = middle + 1


def _fewer_switches(search: _Search) -> bool:
    """Leave out one switch, as what it is and not where it is; says if one could go."""
    switches = search.smallest[1].schedule.switches
    for at in range(len(switches)):
        kept = dict([*switches[:at], *switches[at + 1 :]])
        if search.departs_less(SwitchingStrategy(kept)):
            return True
    return False


def _one_for_two(search: _Search) -> bool:
    """Put one departure in the place of two in a row; says if one could be."""
    schedule = search.smallest[1].schedule
    departures = sorted(schedule.departures.items())
    for first in range(len(departures) - 1):
        kept = dict([*departures[:first], *departures[first + 2 :]])
        begin, end = departures[first][0], departures[first + 1][0] + _BEYOND
        for at in range(begin, min(end, len(schedule.choices))):
            for rank in range(1, schedule.choices[at].among):
                if search.departs_less(DepartingStrategy({**kept, at: rank})):
                    return True
    return False


def _lower_ranks(search: _Search) -> None:
    for at, rank in _departures(search):
        if rank > 1:
            search.with_departures({**dict(_departures(search)), at: 1})


def _departures(search: _Search) -> list[tuple[int, int]]:
    departures: Iterable[tuple[int, int]] = (
        search.smallest[0].departures or {}
    ).items()
    return sorted(departures)
