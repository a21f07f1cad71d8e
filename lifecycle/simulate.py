"""Simulation: any race of a program, from a seed.

Lives here: the searches over schedules, by seed or one after the other, and what they
report.  A run that broke a law is run again, which must give the same run, and shrunk;
the report names the seed, the law and the shortest schedule found.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

import attrs

from ..mailbox.errors import UsageError
from .fault_plan import Faults
from .held_loops import BackendName
from .schedules import FifoStrategy, Strategy
from .simulate_draw import Trace
from .simulate_report import Failure, Progress, SimulationReport
from .simulate_run import (
    Ran,
    Replay,
    Scenario,
    ScenarioFunction,
    as_scenario,
    run_one,
)
from .simulate_shrink import kind_of, shrunk
from .simulate_world import StoreKind

__all__ = ["explore", "schedules", "simulate"]

_FEW = 2
_SOME = 3
_SIMPLEST_STEPS = 200_000


class _Search:
    """One search: counts, judges and keeps what failed."""

    def __init__(
        self,
        scenario: Scenario,
        backend: BackendName,
        *,
        shrink: bool,
        most_failures: int,
        progress: Progress | None,
    ) -> None:
        if backend not in ("asyncio", "trio"):
            raise UsageError(f"backend must be 'asyncio' or 'trio', not {backend!r}")
        self.scenario = scenario
        self.backend: BackendName = backend
        self.report = SimulationReport(scenario.name, backend, scenario.store)
        self._shrink = shrink
        self._most = most_failures
        self._progress = progress
        self._kinds: set[str] = set()
        self._whole = hashlib.sha256()
        self._began = time.perf_counter(), time.process_time()
        self._aside_s = 0.0

    def run(self, replay: Replay, strategy: Strategy | None = None) -> Ran:
        """Run it as the replay says, or under another strategy."""
        return run_one(self.scenario, self.backend, replay, strategy=strategy)

    def take(self, replay: Replay, ran: Ran, again: Callable[[], Ran]) -> bool:
        """Judge a run; says whether the search goes on.

        `again` makes the same run once more, and is asked for the first one and for any
        that failed.
        """
        report = self.report
        report.runs += 1
        report.steps += ran.steps
        report.events += len(ran.order)
        report.requests += ran.requests
        if ran.law is not None or report.runs == 1:
            begin = time.process_time()
            self._look_again(replay, ran, again)
            self._aside_s += time.process_time() - begin
        self._whole.update(ran.digest().encode())
        self._clock()
        if self._progress is not None:
            self._progress(report)
        return len(report.failures) < self._most

    def _look_again(self, replay: Replay, ran: Ran, again: Callable[[], Ran]) -> None:
        """Make the same run once more, and keep it if a law is broken."""
        difference = _difference(ran, again())
        if difference is not None:
            law = "22 the same seed gave two runs: something in it is left to chance"
            self._add(replay, attrs.evolve(ran, law=law, detail=difference))
        elif ran.law is not None:
            self._add(*self._smallest(replay, ran))

    def done(self) -> SimulationReport:
        """The report, complete."""
        self.report.digest = self._whole.hexdigest()[:16]
        self._clock()
        return self.report

    def _clock(self) -> None:
        wall, processor = self._began
        self.report.seconds = time.perf_counter() - wall
        spent_s = time.process_time() - processor
        self.report.processor_s = spent_s - self._aside_s

    def _smallest(self, replay: Replay, ran: Ran) -> tuple[Replay, Ran]:
        """The first failure of each kind is shrunk; others are as they were found."""
        kind = kind_of(ran.law or "")
        if not self._shrink or kind in self._kinds:
            return replay, ran
        self._kinds.add(kind)
        smallest = shrunk(self.run, replay, ran)
        if len(smallest[1].schedule.departures) > _FEW or smallest[1].plan.drawn:
            return self._simplest(smallest, kind)
        return smallest

    def _simplest(self, smallest: tuple[Replay, Ran], kind: str) -> tuple[Replay, Ran]:
        """Look among the schedules with very few departures, without any fault."""
        steps = 0
        most = max(_FEW, min(_SOME, len(smallest[1].schedule.departures) - 1))
        for replay, ran in schedules(self.run, smallest[0].seed, bound=most):
            if ran.law is not None and kind_of(ran.law) == kind:
                return replay, ran
            steps += ran.steps
            if steps > _SIMPLEST_STEPS:
                break
        return smallest

    def _add(self, replay: Replay, ran: Ran) -> None:
        faults = tuple(n for n in ran.plan.drawn if n not in ("steps", "threaded"))
        self.report.failures.append(
            Failure(
                replay.seed,
                ran.law or "",
                str(replay),
                len(ran.schedule.departures),
                faults,
                ran.detail,
                Trace(ran.order, ran.notes, ran.law),
                "steps" in ran.plan.drawn or "threaded" in ran.plan.drawn,
            )
        )


def simulate(
    scenario: Scenario | ScenarioFunction,
    *,
    seeds: Iterable[int] = range(100),
    backend: BackendName = "trio",
    replay: int | str | None = None,
    faults: Faults | None = None,
    store: StoreKind | None = None,
    fifo: bool = False,
    shrink: bool = True,
    most_failures: int = 5,
    progress: Progress | None = None,
) -> SimulationReport:
    """Run a scenario once for each seed, and judge each run.

    A seed decides who goes next (a random walk, or priorities with a few changes), how
    long everything takes, what fails, and the scenario's own `world.dice`.  After each
    run, everything is brought to rest and every law is checked.

    Args:
        scenario: an `async def scenario(world)`, or a `Scenario`.
        seeds: the seeds.
        backend: on which loop.
        replay: run this one instead: a seed, or the `replay` of a failure.
        faults: what may go wrong, instead of what the scenario says.
        store: on which store, instead of what the scenario says.
        fifo: whether who has waited longest always goes next, as on an ordinary loop.
        shrink: whether the first failure of each kind is shrunk.
        most_failures: after how many failures the search ends.
        progress: told after every run.

    Raises:
        HookLostError: this release of the backend does not let a schedule choose.
        UsageError: an argument is outside its contract.
    """
    found = as_scenario(scenario)
    if faults is not None:
        found = attrs.evolve(found, faults=faults)
    if store is not None:
        found = attrs.evolve(found, store=store)
    search = _Search(
        found,
        backend,
        # What is named exactly is shown as it is.
        shrink=shrink and not fifo and (replay is None or ":" not in str(replay)),
        most_failures=most_failures,
        progress=progress,
    )
    listed = seeds if replay is None else (replay,)
    if isinstance(listed, (range, list, tuple)):
        search.report.planned = len(listed)
    for one in listed:
        named = Replay.read(one)

        strategy = FifoStrategy() if fifo else None
        run = partial(run_one, found, backend, named, strategy=strategy)
        ran = run()
        went = ran.schedule.departures
        for at, rank in (named.departures or {}).items():
            search.report.unmet += went.get(at) != rank
        if not search.take(named, ran, run):
            break
    return search.done()


def explore(
    scenario: Scenario | ScenarioFunction,
    *,
    backend: BackendName = "trio",
    bound: int = 2,
    counting: Literal["departures", "preemptions"] = "departures",
    most: int = 100_000,
    store: StoreKind | None = None,
    most_failures: int = 1,
    progress: Progress | None = None,
) -> SimulationReport:
    """Run a scenario under every schedule within a bound, the simplest ones first.

    Nothing fails and nothing is slow, but that each commit, its answer and each read of
    the store are steps of their own.  If the scenario calls `world.race`, only the
    schedules of what races are tried, and everything else is in plain order.

    Args:
        scenario: an `async def scenario(world)`, or a `Scenario`.
        backend: on which loop.
        bound: how many departures from the plain order a schedule may have.
        counting: what counts as one: `"departures"`, any; or `"preemptions"`, only one
            that cuts off who could go on, so that who goes first after somebody had to
            wait is tried in every way.  Those are many more schedules.
        most: how many schedules are run at the most.
        store: on which store, instead of what the scenario says.
        most_failures: after how many failures the search ends.
        progress: told after every run.

    Raises:
        HookLostError, UsageError: as `simulate` raises them.
    """
    found = as_scenario(scenario)
    if store is not None:
        found = attrs.evolve(found, store=store)
    search = _Search(
        found, backend, shrink=False, most_failures=most_failures, progress=progress
    )
    for replay, ran in schedules(search.run, 0, bound=bound, counting=counting):
        if not search.take(replay, ran, partial(search.run, replay)):
            break
        if search.report.runs >= most:
            break
    else:
        search.report.exhausted = True
    return search.done()


def schedules(
    run: Callable[[Replay], Ran],
    seed: int,
    *,
    bound: int,
    counting: Literal["departures", "preemptions"] = "departures",
) -> Iterator[tuple[Replay, Ran]]:
    """Every schedule of a run without faults within a bound, each once.

    Those with fewer departures come first.
    """
    levels: list[list[tuple[tuple[int, int], ...]]] = [[] for _ in range(bound + 1)]
    levels[0].append(())
    for cost, level in enumerate(levels):
        while level:
            departures = level.pop()
            replay = Replay(seed, dict(departures), ("all",))
            ran = run(replay)
            yield replay, ran
            _next_schedules(ran, departures, cost, levels, counting)


def _next_schedules(
    ran: Ran,
    departures: tuple[tuple[int, int], ...],
    cost: int,
    levels: list[list[tuple[tuple[int, int], ...]]],
    counting: Literal["departures", "preemptions"],
) -> None:
    """The schedules with one departure more, behind the last; each comes up once."""
    schedule = ran.schedule
    begin = departures[-1][0] + 1 if departures else 0
    for at in range(begin, len(schedule.choices)):
        choice = schedule.choices[at]
        if schedule.focused and not choice.open:
            continue
        free = counting == "preemptions" and not choice.goes_on
        more = cost if free else cost + 1
        if more < len(levels):
            for rank in range(choice.among - 1, 0, -1):
                levels[more].append((*departures, (at, rank)))


def _difference(one: Ran, other: Ran) -> str | None:
    """Where two runs differ that should be the same."""
    if one.digest() == other.digest():
        return None
    lines, others = one.lines(), other.lines()
    for place, (first, second) in enumerate(zip(lines, others, strict=False)):
        if first != second:
            return f"line {place} of the trace:\n  {first}\n  {second}"
    return "the events are the same, but not who went next"
