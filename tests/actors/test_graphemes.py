"""Tests of grapheme clusters."""

from __future__ import annotations

import time
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.graphemes import boundaries_near, count_clusters, iterate_clusters
from tests.vectors import rows

ALPHABET = "ab\r\né\u0301\u200d👩👧🇳🇿\u0600\u0915\u094d\u1100\u1161漢\ud800\ufe0f"
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=40)
MANY = 10**9


@pytest.mark.case("A-107")
@pytest.mark.parametrize("row", rows("grapheme_divergent"))
def test_a_row_of_grapheme_divergent_counts_by_uax29(row: dict[str, Any]) -> None:
    assert len(row["text"]) == row["code_points"]
    assert count_clusters(row["text"], MANY) == row["uax29"]


@given(TEXTS)
def test_clusters_are_those_of_the_regex_package(text: str) -> None:
    clusters = list(iterate_clusters(text))
    assert clusters == regex.findall(r"\X", text)
    assert count_clusters(text, MANY) == len(clusters)


@pytest.mark.parametrize("lead", ["", "x", "\u0600", "é"])
@pytest.mark.parametrize("tail", ["", "x", "\u0301", "🇿\u0301"])
@pytest.mark.parametrize("count", [63, 64, 65, 66, 127, 128, 129, 130])
def test_a_long_row_of_flags_is_paired_from_its_beginning(
    lead: str, tail: str, count: int
) -> None:
    text = lead + "🇳" * count + tail
    assert list(iterate_clusters(text)) == regex.findall(r"\X", text)


@pytest.mark.parametrize(
    "text",
    ["🇳" * 200_000, "a" + "\u0301" * 500_000, "👩\u200d" * 200_000, "\r\n" * 200_000],
)
def test_a_hostile_text_is_counted_soon(text: str) -> None:
    begun = time.perf_counter()
    assert count_clusters(text, MANY) > 0
    assert time.perf_counter() - begun < 5


def test_counting_stops_when_it_is_enough() -> None:
    assert count_clusters("é" * 1000, 10) == 10
    assert count_clusters("ab", 1) == 1


def test_an_unpaired_surrogate_counts_one_and_a_pair_is_a_character() -> None:
    assert count_clusters("\ud800\ud800", MANY) == 2
    assert count_clusters("\ud83d\ude04", MANY) == 1


@given(TEXTS, st.integers(0, 40))
def test_the_boundaries_near_a_place_are_the_closest_ones(
    text: str, index: int
) -> None:
    index = min(index, len(text))
    ends = [0]
    for cluster in regex.findall(r"\X", text):
        ends.append(ends[-1] + len(cluster))
    expected = (max(e for e in ends if e <= index), min(e for e in ends if e >= index))
    assert boundaries_near(text, index) == expected
