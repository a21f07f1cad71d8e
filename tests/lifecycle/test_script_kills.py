"""A script of thirty agents is killed, resumed, and pays for nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lifecycle.script_kills import killed_at, resumed, undisturbed, writes_of

POINTS = 10
"""How many kills; `python -m tests.lifecycle.script_kills` makes fifty."""


@pytest.mark.case("A-156", "A-163", "A-172")
def test_a_killed_script_comes_to_the_same_end_and_asks_nothing_twice(
    tmp_path: Path,
) -> None:
    value, count = undisturbed(tmp_path)
    assert len(value["sizes"]) == len(value["colours"]) == 8
    answered = []
    for write in writes_of(count, POINTS):
        killed = killed_at(tmp_path, write)
        again, asked = resumed(killed)
        assert again == value, f"killed at write {write}"
        assert not killed.answered.intersection(asked), f"killed at write {write}"
        answered.append(len(killed.answered))
    # The kills fell before, between and after the answers.
    assert answered[0] == 0
    assert answered[-1] > 25
    assert len(set(answered)) > POINTS // 2


def test_the_writes_to_be_killed_at_are_spread_odd_and_even() -> None:
    chosen = writes_of(60, 10)
    assert chosen[0] < 5
    assert chosen[-1] > 50
    assert {number % 2 for number in chosen} == {0, 1}
    assert all(0 < number < 60 for number in writes_of(3, 10))
