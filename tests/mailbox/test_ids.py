"""Ids sort by their time, never occur twice, and are the same for the same seed."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.mailbox.ids import Ambient

ALPHABET = set("0123456789abcdefghjkmnpqrstvwxyz")


class Clock:
    """A wall clock that a test sets."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def test_an_id_is_its_kind_and_eighteen_characters_of_a_small_alphabet() -> None:
    made = Ambient().new("m")
    assert made[0] == "m"
    assert len(made) == 19
    assert set(made[1:]) <= ALPHABET


def test_the_time_is_read_from_the_clock_that_was_given() -> None:
    clock = Clock(12.3456)
    ambient = Ambient(clock)
    assert ambient.now_ms() == 12345
    clock.now_s = 99
    assert ambient.now_ms() == 99000


def test_without_arguments_it_is_the_clock_and_the_chance_of_the_machine() -> None:
    before = int(time.time() * 1000)
    first, second = Ambient(), Ambient()
    assert before <= first.now_ms() <= int(time.time() * 1000)
    assert first.new("s")[-7:] != second.new("s")[-7:]


@pytest.mark.case("R-220")
def test_the_same_seed_and_clock_give_the_same_ids() -> None:
    runs = []
    for _ in range(2):
        ambient = Ambient(Clock(), random.Random(7))
        runs.append([ambient.new("m") for _ in range(2000)])
    assert runs[0] == runs[1]


def test_two_supervisors_of_one_millisecond_make_different_ids() -> None:
    clock = Clock()
    one = Ambient(clock, random.Random(1))
    other = Ambient(clock, random.Random(2))
    assert not {one.new("m") for _ in range(50)} & {other.new("m") for _ in range(50)}


def test_a_full_counter_goes_on_in_the_next_millisecond() -> None:
    ambient = Ambient(Clock(), random.Random(1))
    made = [ambient.new("m") for _ in range(3 * 1024 + 5)]
    assert made == sorted(set(made))


@given(st.lists(st.integers(-2_000_000, 2_000_000), max_size=60))
def test_ids_rise_also_when_the_clock_runs_backwards(jumps_ms: list[int]) -> None:
    clock = Clock()
    ambient = Ambient(clock, random.Random(1))
    made = [ambient.new("m")]
    for jump in jumps_ms:
        clock.now_s += jump / 1000
        made.append(ambient.new("m"))
    assert all(one < other for one, other in pairwise(made))


def test_the_time_in_an_id_is_that_of_the_clock() -> None:
    letters = "0123456789abcdefghjkmnpqrstvwxyz"
    made = Ambient(Clock(1_700_000_000.123)).new("a")
    milliseconds = 0
    for letter in made[1:10]:
        milliseconds = milliseconds * 32 + letters.index(letter)
    assert milliseconds == 1_700_000_000_123
