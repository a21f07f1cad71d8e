"""What a search over schedules found: its report, and the runs that broke a law.

Lives here: the words and numbers in which a search is told.  How it searches is in
`simulate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from .held_loops import BackendName
from .laws_log import LawBrokenError
from .simulate_draw import Trace
from .simulate_world import StoreKind

__all__ = ["Failure", "Progress", "SimulationReport"]

Progress: TypeAlias = "Callable[[SimulationReport], None]"
"""Told after every run."""


@attrs.frozen
class Failure:
    """A run that broke a law.

    Attributes:
        seed: of the run.
        law: what it broke: the number of a law of the design or of a case and the rule;
            `deadlock` or `livelock`; or the error that came out of the scenario.
        replay: names the smallest such run: give it to `simulate(replay=)`.
        departures: how often its schedule departs from the plain order.
        faults: what of the seed's plan is still in it.
        detail: where it was, if that is known.
        trace: everything that happened in it.
        timings: whether the store takes as long as the seed says; else it is quick.
    """

    seed: int
    law: str
    replay: str
    departures: int
    faults: tuple[str, ...]
    detail: str
    trace: Trace
    timings: bool = False

    def __str__(self) -> str:
        met = ", ".join(name.removesuffix("_s") for name in self.faults)
        met = met.replace("_", " ") or "no fault of the seed"
        if self.timings:
            met = f"{met}, with the timings of seed {self.seed}"
        count = f"{self.departures} departure{'s' * (self.departures != 1)}"
        lines = [
            f"seed {self.seed} broke: {self.law}",
            f"schedule: {count} from the plain order, {met}",
            f"replay: {self.replay}",
        ]
        return "\n".join([*lines, self.detail] if self.detail else lines)


@attrs.define
class SimulationReport:
    """What a search found.

    Attributes:
        scenario: its name.
        backend: on which loop.
        store: on which store.
        runs: how many runs it made, without those of shrinking.
        planned: how many it is to make, if that is known.
        steps: of all runs together; so with `events` and `requests`.
        seconds: how long it took, with all that belongs to it.
        processor_s: the processor's time for these runs, without that for running
            failures again and shrinking them.
        exhausted: whether `explore` tried every schedule within its bound.
        digest: stands for every event of every run.
        failures: the runs that broke a law.
        unmet: of a replay, how many of its departures did not come up: it was found on
            another backend or store, by another release, or in another program.
    """

    scenario: str
    backend: BackendName
    store: StoreKind
    runs: int = 0
    planned: int | None = None
    steps: int = 0
    events: int = 0
    requests: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    exhausted: bool = False
    digest: str = ""
    failures: list[Failure] = attrs.field(factory=list)
    unmet: int = 0

    @property
    def ok(self) -> bool:
        """Whether no run broke a law."""
        return not self.failures

    @property
    def per_second(self) -> float:
        """Runs for each second of one processor's time.

        A run is a whole one: its world is made, it is played to its end, recovered if
        the seed says so, judged by every law, and its trace has a digest.
        """
        return self.runs / self.processor_s if self.processor_s else 0.0

    def check(self) -> None:
        """Raise if a run broke a law.

        Raises:
            LawBrokenError: its text is that of this report.
        """
        if self.failures:
            raise LawBrokenError(str(self))

    def __str__(self) -> str:
        broken = f"{len(self.failures)} failed" if self.failures else "none failed"
        head = (
            f"{self.scenario} on {self.backend} ({self.store}): {self.runs} runs in"
            f" {self.seconds:.1f} s, {broken}; {self.per_second:.0f} runs a processor"
            f" second, each played to its end and judged; {self.steps} steps,"
            f" {self.events} events, {self.requests} requests"
        )
        return "\n".join([head, *(f"\n{failure}" for failure in self.failures)])
