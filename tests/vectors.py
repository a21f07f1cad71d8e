"""The vectors: data for the acceptance rules, one test for each row.

Lives here: the reading of `tests/data/acceptance.json` and its rows as parameters.  A
group whose number of rows is not the stated one is refused, so that no row is lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

__all__ = ["rows"]

_DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "acceptance.json").read_text("utf-8")
)


def rows(group: str) -> list[ParameterSet]:
    """The rows of a group, each named by its id."""
    found: list[dict[str, Any]] = _DATA[group]
    assert len(found) == _DATA["counts"][group]
    return [pytest.param(row, id=row["id"]) for row in found]
