"""Whole runs whose process loses its power: no law is broken, nothing stored is lost.

The shipped runtime on the shipped store, on a disk that is recorded; a kill leaves what
a power cut leaves, the next process opens that, and every law judges its recovery.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.protocol import PROTOCOL
from ramet.lifecycle.simulate_run import Replay, run_one
from ramet.mailbox import sqlite_file
from ramet.testing import Faults, Scenario, simulate
from tests.lifecycle.powered import powered
from tests.lifecycle.scenarios import cold_resume_against_crash
from tests.mailbox.power import Recording

CUT = Faults(crash=1.0, late_commits=0.2, slow_models=0.2, failed_commit=0.0)

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@on_both
@pytest.mark.case("R-173", "R-175", "R-232")
def test_no_power_cut_in_a_run_breaks_a_law(
    backend: BackendName, full_sweeps: bool, remark: Callable[[str], None]
) -> None:
    with powered() as counts:
        for scenario in (PROTOCOL, Scenario(cold_resume_against_crash)):
            seeds = range(600 if full_sweeps else 60)
            report = simulate(
                scenario, seeds=seeds, backend=backend, store="sqlite", faults=CUT
            )
            report.check()
    remark(f"power cuts in runs on {backend}: {counts}")
    assert counts.cuts > 40
    assert counts.whole > 5
    assert counts.absent > 5


def test_a_run_that_does_not_wait_for_its_disk_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite_file, "_FULL", 1)
    shipped = "pragma synchronous = full"

    def plant(recording: Recording) -> None:
        recording.said = lambda it: it.replace(shipped, "pragma synchronous = normal")

    protocol = Scenario(PROTOCOL.function, store="sqlite", faults=CUT)
    with powered(plant):
        for seed in range(30):
            law = run_one(protocol, "asyncio", Replay(seed)).law
            if law is not None and re.match("R-173|R-232|19 |R-060|NotResumable", law):
                return
    pytest.fail("it survived 30 seeds")
