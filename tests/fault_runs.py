"""Running tests under a planted fault: a pytest plugin.

Lives here: `--fault NAME` plants one fault of the table for the whole run, before any
test is imported.  `--fault-cases` keeps only the tests that are marked with one of
these cases, and once a case is broken its other tests are passed over.  A test that
hangs ends the run; `--fault-out FILE` says, as JSON, how each test ended, and
`tests/faults.py` reads it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.planted.fault import HUNG

__all__ = ["pytest_addoption", "pytest_configure"]

_ACTIVE = 0.02
"""Seconds of work in each look at a test, from which on it is not idle."""

_ENDLESS_S = 60.0
"""How long a test may take that works."""

_WAITING = ("test_cli_processes", "test_harm", "test_store_sqlite")
"""Files whose tests wait for other processes, and so do nothing for longer."""

_PATIENCE = 10

_LAST = (
    "test_mutants",
    "test_races",
    "test_simulate",
    "test_simulate_protocol",
    "test_recovery",
    "test_found_by_seeds",
    "test_durable",
    "test_session_machine",
)
"""Files with slow tests, which are run last: what others break they need not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--fault", metavar="NAME", help="plant this fault")
    parser.addoption("--fault-out", metavar="FILE", help="write how each test ended")
    parser.addoption("--fault-cases", metavar="CASES", help="with commas between")
    parser.addoption(
        "--fault-hang-s",
        metavar="SECONDS",
        type=float,
        default=4.0,
        help="how long a test may do nothing",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Plant the fault, and watch the tests, if the run was asked to."""
    name: str | None = config.getoption("--fault")
    if name is not None:
        from tests.planted.table import FAULTS

        if name not in FAULTS:
            raise pytest.UsageError(f"there is no fault {name!r}")
        patch = pytest.MonkeyPatch()
        config.add_cleanup(patch.undo)
        FAULTS[name].plant(patch)
        # What fails need not be made small.
        phases = [Phase.explicit, Phase.generate]
        settings.register_profile(
            "planted", deadline=None, derandomize=True, database=None, phases=phases
        )
        settings.load_profile("planted")
    path: str | None = config.getoption("--fault-out")
    if path is not None:
        cases: str | None = config.getoption("--fault-cases")
        chosen = None if cases is None else frozenset(cases.split(","))
        hang_s = float(config.getoption("--fault-hang-s") or 0)
        run = FaultRun(chosen, hang_s, Path(path))
        config.pluginmanager.register(run, "fault_run")


class FaultRun:
    """One run under a fault.

    Args:
        cases: the cases that should be broken; `None`: every test is run.
        hang_s: how long a test may do nothing.
        path: the file to write.
    """

    def __init__(self, cases: frozenset[str] | None, hang_s: float, path: Path) -> None:
        self._wanted = cases
        self._hang_s = hang_s
        self._path = path
        self._cases: dict[str, set[str]] = {}
        self._broken: set[str] = set()
        self._outcomes: dict[str, str] = {}
        self._running: str | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep what may break a case, and put the slow files last."""
        if self._wanted is None:
            return
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            marks = {n for mark in item.iter_markers("case") for n in mark.args}
            self._cases[item.nodeid] = marks & self._wanted
            (kept if self._cases[item.nodeid] else left).append(item)
        kept.sort(key=lambda item: item.path.stem in _LAST)
        items[:] = kept
        config.hook.pytest_deselected(items=left)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Pass over what can tell nothing new."""
        if self._wanted is not None and self._cases[item.nodeid] <= self._broken:
            pytest.skip("its cases are broken already")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Watch the test."""
        self._running = nodeid

    def pytest_runtest_logfinish(self) -> None:
        """Stop watching."""
        self._running = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended: its worst phase decides."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
            self._broken |= self._cases.get(report.nodeid, set())
        elif report.when == "call" and report.passed:
            self._outcomes[report.nodeid] = "passed"

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        self._write()

    def _watch(self) -> None:
        """End the run when a test hangs: it does nothing, or the same without end."""
        watched, began, active_at, spent = None, 0.0, 0.0, 0.0
        while True:
            time.sleep(0.25)
            now, used = time.monotonic(), time.process_time()
            if self._running != watched:
                watched, began, active_at = self._running, now, now
            if used - spent > _ACTIVE:
                active_at = now
            spent = used
            hang_s = self._hang_s
            if watched is not None and any(
                f"/{name}.py" in watched for name in _WAITING
            ):
                hang_s *= _PATIENCE
            idle = now - active_at > hang_s
            if watched is not None and (idle or now - began > _ENDLESS_S):
                self._outcomes[watched] = "hung"
                self._write()
                os._exit(HUNG)

    def _write(self) -> None:
        self._path.write_text(json.dumps(self._outcomes), encoding="utf-8")
