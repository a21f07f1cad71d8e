"""A script of thirty agents is killed, resumed, and pays for nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lifecycle.script_kills import (
    BACKENDS,
    killed_at,
    points_of,
    resumed,
    undisturbed,
    unpaired,
)

POINTS = 10
"""How many kills; `--full-sweeps` makes fifty on each backend."""

MANY = 50


@pytest.mark.case("A-154", "A-156", "A-163", "A-172")
def test_a_killed_script_comes_to_the_same_end_and_asks_nothing_twice(
    tmp_path: Path, full_sweeps: bool, remark: Callable[[str], None]
) -> None:
    value, count = undisturbed(tmp_path)
    assert len(value["sizes"]) == len(value["colours"]) == 8
    points = points_of(count, POINTS, BACKENDS)
    if full_sweeps:
        points = [one for b in BACKENDS for one in points_of(count, MANY, [b])]
    answered = []
    for point in points:
        killed = killed_at(tmp_path, point)
        again, asked = resumed(killed)
        assert again == value, f"killed {point}"
        assert not killed.answered.intersection(asked), f"killed {point}"
        assert unpaired(killed.store) == [], f"killed {point}"
        answered.append(len(killed.answered))
    # The kills fell before, between and after the answers.
    assert answered[0] == 0
    assert answered[-1] > 25
    assert len(set(answered)) > POINTS // 2
    remark(f"a script of more than 30 agents was killed {len(points)} times")


def test_the_points_are_spread_over_all_writes_before_and_after_them() -> None:
    points = points_of(60, 50, BACKENDS)
    writes = [one.write for one in points]
    assert len(set(writes)) == len(points) == 50
    assert (min(writes), max(writes)) == (1, 58)
    assert [one.backend for one in points[:3]] == ["asyncio", "trio", "asyncio"]
    assert 20 <= sum(one.after for one in points) <= 30
    every = {(one.write, one.after) for one in points_of(4, 6, BACKENDS)}
    assert every == {(w, after) for w in (1, 2, 3) for after in (False, True)}
    with pytest.raises(ValueError, match="6 points"):
        points_of(4, 7, BACKENDS)
