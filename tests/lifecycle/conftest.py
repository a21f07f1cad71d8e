"""Fixtures of the tests of the running runtime.

Lives here: the stage, in memory and on SQLite, with the laws checked after every test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage on a store in memory."""
    made = Stage("memory", tmp_path)
    yield made
    made.check()


@pytest.fixture(params=["memory", "sqlite"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage where storage matters: in memory and on SQLite."""
    made = Stage(request.param, tmp_path)
    yield made
    made.check()
