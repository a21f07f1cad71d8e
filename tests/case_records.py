"""The marker `case`, and the record of which test held which numbered case.

Lives here: a pytest plugin.  `@pytest.mark.case("R-014", "A-002")` says that a test
holds these cases; with `--cases-out FILE` the run writes, as JSON, for each number the
tests that hold it, and how each of them ended.  `tests/cases.py` reads that file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
]

_NUMBER = re.compile(r"[RA]-[0-9]{3}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cases-out`."""
    parser.addoption(
        "--cases-out",
        metavar="FILE",
        default=None,
        help="write, as JSON, which test held which numbered case",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin a record if the run was asked for one."""
    path: str | None = config.getoption("--cases-out")
    if path is not None:
        config.pluginmanager.register(CaseRecords(Path(path)), "case_records")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a marker that names no case."""
    for item in items:
        for mark in item.iter_markers("case"):
            numbers = mark.args
            if not numbers or mark.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: the marker case has no number")
            for number in numbers:
                if not isinstance(number, str) or not _NUMBER.fullmatch(number):
                    raise pytest.UsageError(
                        f"{item.nodeid}: {number!r} is no number of a case, "
                        "such as R-014 or A-105"
                    )


class CaseRecords:
    """The record of one run; it is written when the run ends.

    Args:
        path: the file to write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holders: dict[str, list[str]] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note who holds what among the tests that will run."""
        for item in session.items:
            for mark in item.iter_markers("case"):
                for number in mark.args:
                    holders = self._holders.setdefault(number, [])
                    if item.nodeid not in holders:
                        holders.append(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended: its worst phase decides, and only its call passes."""
        before = self._outcomes.get(report.nodeid)
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
        elif report.skipped and before != "failed":
            xfailed = hasattr(report, "wasxfail")
            self._outcomes[report.nodeid] = "xfailed" if xfailed else "skipped"
        elif report.when == "call" and before is None:
            self._outcomes[report.nodeid] = "passed"

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        record = {
            number: {
                holder: self._outcomes.get(holder, "not run") for holder in holders
            }
            for number, holders in sorted(self._holders.items())
        }
        self._path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
