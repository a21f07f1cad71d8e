"""The whole protocol by seed: a few seeds of many, on every run of the tests.

A failure names its seed and the shortest schedule; long searches are made by `ramet
simulate` (`make simulate`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.protocol import PROTOCOL
from ramet.testing import EVERY_FAULT, simulate

PROJECT = Path(__file__).resolve().parent.parent.parent

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@on_both
@pytest.mark.case("R-002", "R-003", "R-008", "R-033", "R-045", "R-102", "R-111")
@pytest.mark.case("R-117", "R-118", "R-119", "R-145", "R-148", "R-149", "R-174")
@pytest.mark.case("R-184", "R-200", "R-205", "R-212", "R-222", "R-255", "R-261")
@pytest.mark.case("R-265", "R-060", "R-172", "R-175", "R-177", "R-179", "R-070")
@pytest.mark.case("R-071", "R-173", "R-186", "R-232")
@pytest.mark.case("A-144", "A-145", "A-151", "A-152", "A-186")
def test_no_seed_breaks_a_law(
    backend: BackendName, remark: Callable[[str], None]
) -> None:
    report = simulate(PROTOCOL, seeds=range(250), backend=backend)
    remark(str(report))
    report.check()
    assert report.requests > 1000


@on_both
def test_no_seed_breaks_a_law_on_sqlite(
    backend: BackendName, remark: Callable[[str], None]
) -> None:
    report = simulate(
        PROTOCOL, seeds=range(1000, 1060), backend=backend, store="sqlite"
    )
    remark(str(report))
    report.check()


@on_both
def test_no_seed_breaks_a_law_when_everything_goes_wrong(backend: BackendName) -> None:
    seeds = range(2000, 2100)
    simulate(PROTOCOL, seeds=seeds, backend=backend, faults=EVERY_FAULT).check()


@on_both
@pytest.mark.case("R-220")
def test_one_seed_gives_one_run_in_every_process(backend: BackendName) -> None:
    program = (
        "import sys\n"
        "from ramet.lifecycle.protocol import PROTOCOL\n"
        "from ramet.testing import simulate\n"
        "ballast = [object() for _ in range(int(sys.argv[2]))]\n"
        "report = simulate(PROTOCOL, seeds=range(12), backend=sys.argv[1])\n"
        "print(report.digest, report.events)\n"
    )

    def digest(hash_seed: str, ballast: str) -> str:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        command = [sys.executable, "-c", program, backend, ballast]
        run = subprocess.run(
            command, cwd=PROJECT, env=environment, check=True, capture_output=True
        )
        return run.stdout.decode()

    digests = {digest("1", "0"), digest("2", "1000"), digest("3", "54321")}
    assert len(digests) == 1
    assert len(digests.pop().split()) == 2
