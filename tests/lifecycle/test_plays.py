"""Random plays keep every law: operations, schedule and faults are drawn and shrunk.

A failure names the smallest play that Hypothesis found, as code that runs it again.
`--full-sweeps` draws many more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ramet import Limits, Policy
from ramet.lifecycle.fault_plan import Plan
from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.simulate_draw import Trace
from ramet.lifecycle.simulate_run import Ran
from ramet.lifecycle.simulate_world import StoreKind
from ramet.testing import LawBrokenError
from tests.lifecycle.plays import PLAYS, Life, Node, Operation, Play, Volley, written
from tests.lifecycle.plays_run import run_play
from tests.planted.table import FAULTS

Patch = pytest.MonkeyPatch

_SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
)

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@attrs.define
class Search:
    """A search among plays, and what it found.

    Attributes:
        plays: how many were run; `first` is the number of the first that failed.
        play: the smallest that failed, and how it ran.
    """

    backend: BackendName
    store: StoreKind = "memory"
    plays: int = 0
    first: int | None = None
    play: Play | None = None
    ran: Ran | None = None

    def go(self, most: int, *, shrink: bool = True, law: str = "") -> Search:
        """Draw at most so many plays, always the same; then shrink what failed."""
        phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)

        @hypothesis.seed(0)
        @settings(
            max_examples=most,
            database=None,
            deadline=None,
            derandomize=False,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=_SLOW,
        )
        @given(PLAYS)
        def look(play: Play) -> None:
            ran = run_play(play, self.backend, self.store)
            self.plays += 1
            if ran.law is not None and re.search(law, ran.law):
                self.first = self.first or self.plays
                self.play, self.ran = play, ran
                raise LawBrokenError(ran.law)

        try:
            look()
        except LawBrokenError:
            assert self.play is not None
        return self

    def check(self) -> None:
        """Raise if a play failed; the text runs it again."""
        if self.play is None or self.ran is None:
            return
        ran = self.ran
        again = f"run_play({written(self.play)}, {self.backend!r}, {self.store!r})"
        trace = Trace(ran.order, ran.notes, ran.law)
        raise LawBrokenError(f"{ran.law}\n{ran.detail}\n{again}\n{trace}")


@on_both
@pytest.mark.case("R-002", "R-117", "R-118", "R-119", "R-184", "R-222", "R-265")
def test_no_play_breaks_a_law(
    backend: BackendName, full_sweeps: bool, remark: Callable[[str], None]
) -> None:
    search = Search(backend).go(10_000 if full_sweeps else 500)
    remark(f"random plays on {backend}: {search.plays}")
    search.check()


@on_both
def test_no_play_breaks_a_law_on_sqlite(
    backend: BackendName, full_sweeps: bool
) -> None:
    Search(backend, "sqlite").go(1500 if full_sweeps else 60).check()


# Plays that failed once.

FOUND = {
    # The checker: a parent that was gone again could not be told.
    "a child is cancelled by its id as its resumed parent is cancelled": Play(
        tree=(Node(0, "parked"), Node(0)),
        lives=(
            Life((Volley((Operation("call"),)),), ends="killed"),
            Life(
                (
                    Volley(
                        (
                            Operation("cancel", whom=3, after=2),
                            Operation("cancel_agent", after=2),
                            Operation("call"),
                        )
                    ),
                )
            ),
        ),
        plan=Plan(threaded=False),
    ),
}


@on_both
@pytest.mark.parametrize("name", FOUND)
def test_what_a_play_found_stays_mended(name: str, backend: BackendName) -> None:
    assert run_play(FOUND[name], backend).law is None


# The search itself.


@on_both
def test_a_play_gives_the_same_run_each_time_and_is_code(backend: BackendName) -> None:
    names = {
        kind.__name__: kind
        for kind in (Play, Life, Volley, Operation, Node, Policy, Limits, Plan)
    }
    done = 0

    @hypothesis.seed(1)
    @settings(max_examples=40, database=None, deadline=None)
    @given(PLAYS)
    def look(play: Play) -> None:
        nonlocal done
        done += 1
        assert eval(written(play), names) == play
        one, other = run_play(play, backend), run_play(play, backend)
        assert one.digest() == other.digest()

    look()
    assert done >= 40


def a_load_takes_no_latch_but_its_own(patch: Patch) -> None:
    async def load(
        self: Residency, session_id: str, held: list[str], claimed: list[str]
    ) -> object:
        await self._durable()
        await self._claim(session_id, claimed)
        loaded = await self._load(session_id)
        for name in self._absent(loaded):
            await self._claim(name, claimed)
        return loaded

    patch.setattr(Residency, "_load_latched", load)


def nobody_waits_for_who_loads(patch: Patch) -> None:
    async def busy(self: Residency, session_id: str) -> bool:
        return False

    patch.setattr(Residency, "busy", busy)


def fault(name: str) -> Callable[[Patch], None]:
    """One of the table."""
    return FAULTS[name].plant


MUTANTS: dict[str, tuple[Callable[[Patch], None], str, int]] = {
    "a load takes no latch but its own": (
        a_load_takes_no_latch_but_its_own,
        "19 something is never stored|R-173|R-179|11 ",
        1500,
    ),
    "nobody waits for who loads": (nobody_waits_for_who_loads, ".", 500),
    **{
        name: (fault(name), law, most)
        for name, law, most in (
            ("recovery tells again", "were told|was told", 500),
            ("a drain discards", "20 .* discarded by", 600),
            ("a cancel forgets the grandchildren", "closing|below|deadlock", 600),
            ("a key is never known", "19 ", 500),
        )
    },
}
"""How each is planted, by which law it is found, and within how many plays."""


@on_both
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_is_found_within_a_few_plays(
    name: str, backend: BackendName, monkeypatch: Patch
) -> None:
    plant, law, most = MUTANTS[name]
    plant(monkeypatch)
    search = Search(backend).go(most, shrink=False, law=law)
    assert search.first is not None, f"it survived {most} plays"


def test_a_failure_shrinks_to_few_operations_and_switches(monkeypatch: Patch) -> None:
    nobody_waits_for_who_loads(monkeypatch)
    search = Search("asyncio").go(500)
    assert search.play is not None
    assert search.play.operations <= 2
    assert search.play.switches <= 2
    with pytest.raises(LawBrokenError, match=r"run_play\(Play\("):
        search.check()
    assert run_play(search.play, "asyncio").law is not None
