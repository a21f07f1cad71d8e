"""Random plays over the running runtime: a few seeds of many, on every run.

A failure names its seed and the command that plays it again; long searches are made by
the same command (`python -m tests.lifecycle.play --help`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lifecycle.play import play, run_again
from tests.lifecycle.recover import recover
from tests.schedules import Backend, Kind

PROJECT = Path(__file__).resolve().parent.parent.parent

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])
both_kinds = pytest.mark.parametrize("kind", ["walk", "pct"])

SEEDS = range(60)
BREAKING = range(1000, 1020)
LIMITED = range(3000, 3030)
RECOVERED = range(2000, 2008)


@on_both
@both_kinds
@pytest.mark.case("R-002", "R-003", "R-008", "R-033", "R-045", "R-102", "R-111")
@pytest.mark.case("R-117", "R-118", "R-119", "R-145", "R-148", "R-149", "R-174")
@pytest.mark.case("R-184", "R-200", "R-205", "R-212", "R-222", "R-255", "R-261")
@pytest.mark.case("R-265")
def test_no_play_breaks_a_law(backend: Backend, kind: Kind) -> None:
    rested = 0
    for seed in SEEDS:
        rested += play(backend, kind, seed).counts["plays that rested"]
    assert rested > len(SEEDS) // 3


@on_both
@both_kinds
@pytest.mark.case("R-070", "R-071", "R-173", "R-186", "R-232")
def test_no_play_with_a_failing_store_breaks_a_law(
    backend: Backend, kind: Kind
) -> None:
    failed = 0
    for seed in BREAKING:
        counts = play(backend, kind, seed, breaking=True).counts
        failed += counts["commits that failed"]
    assert failed > len(BREAKING) // 5


@on_both
@both_kinds
@pytest.mark.case("A-144", "A-145", "A-151", "A-152", "A-186")
def test_no_play_with_limits_breaks_a_law(backend: Backend, kind: Kind) -> None:
    rested = refused = 0
    for seed in LIMITED:
        counts = play(backend, kind, seed, limited=True).counts
        rested += counts["plays that rested"]
        refused += counts["agent-budget"]
    assert rested > len(LIMITED) // 3
    assert refused > 0


@on_both
@both_kinds
@pytest.mark.case("R-060", "R-172", "R-175", "R-177", "R-179")
def test_a_kill_at_any_batch_is_recovered_from_also_when_that_is_killed(
    backend: Backend, kind: Kind
) -> None:
    recovered = 0
    for seed in RECOVERED:
        recovered += recover(backend, kind, seed)["recoveries of a recovery"]
    assert recovered > len(RECOVERED) * 2


@on_both
@both_kinds
def test_one_seed_gives_one_play_event_for_event(backend: Backend, kind: Kind) -> None:
    for seed in range(5):
        first, second = play(backend, kind, seed), play(backend, kind, seed)
        assert first.order == second.order
        assert first.marks == second.marks
    assert play(backend, kind, 1).digest() != play(backend, kind, 2).digest()


@on_both
def test_one_seed_gives_one_play_in_every_process(backend: Backend) -> None:
    def digest(hash_seed: str) -> str:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, *run_again(backend, "walk", 3).split()[1:]]
        command[command.index("--seeds") + 1] = "8"
        run = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert "8 seeds" in run.stdout
        return run.stdout.rpartition("digest ")[2]

    assert digest("1") == digest("2")
