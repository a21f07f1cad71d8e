"""What every test stands on: both backends, steady chance, and the closing remarks.

Lives here: fixtures and settings that all tests share.  What belongs to one room's
tests lives in a `conftest.py` beside them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

pytest_plugins = [
    "ramet.lifecycle.pytest_plugin",
    "tests.case_records",
    "tests.fault_runs",
]

# No test may fail because a machine is slow; a failure found by chance in continuous
# integration could not be found again, so that chance is fixed there.
settings.register_profile("everywhere", deadline=None)
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.load_profile("fixed" if os.environ.get("CI") else "everywhere")

_REMARKS = pytest.StashKey[list[str]]()


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The backend on which an async test runs; each runs on both."""
    name: str = request.param
    return name


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--full-sweeps`."""
    parser.addoption(
        "--full-sweeps",
        action="store_true",
        help="cut, kill and reopen as often as the goals ask, not as an ordinary run",
    )


@pytest.fixture(scope="session")
def full_sweeps(request: pytest.FixtureRequest) -> bool:
    """Whether this run takes the time for whole sweeps."""
    return bool(request.config.getoption("--full-sweeps"))


@pytest.fixture(scope="session")
def remark(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Gives the run a line to show after its results; it fails nothing."""
    return request.config.stash.setdefault(_REMARKS, []).append


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the remarks."""
    remarks = config.stash.get(_REMARKS, [])
    if remarks:
        terminalreporter.section("remarks")
        for line in remarks:
            terminalreporter.line(line)
