"""Tests of renderings, views and pieces."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.graphemes import iterate_clusters
from ramet.actors.render import piece, render, view
from ramet.mailbox.errors import UsageError
from tests.actors.test_graphemes import TEXTS

MARKER = re.compile(r"\[\.\.\. (\d+) of (\d+) bytes .*?\.\.\.\]", re.DOTALL)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.case("A-173")
def test_a_string_is_shown_as_it_is() -> None:
    text = 'two\nlines "quoted" \ud800'
    assert render(text) == text


@pytest.mark.case("A-174")
def test_any_other_value_is_indented_json_in_canonical_form() -> None:
    assert render({"b": 1.0, "a": ["é"]}) == '{\n  "a": [\n    "é"\n  ],\n  "b": 1\n}'
    assert render(None) == "null"
    with pytest.raises(UsageError, match="tuple"):
        render((1,))


@pytest.mark.case("A-177")
def test_exactly_the_cap_is_whole_and_one_byte_more_is_not() -> None:
    text = "é" * 500
    assert view(text, 1000, "m1") == text
    assert MARKER.search(view(text, 999, "m1")) is not None
    assert view(text, None, "m1") == text


@pytest.mark.case("A-176", "A-178")
def test_a_view_has_head_marker_and_tail_and_says_how_to_read_the_rest() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    shown = view(text, 16_000, "m42")
    found = MARKER.search(shown)
    assert found is not None
    assert "m42" in found[0]
    assert "read_result" in found[0]
    head, tail = shown[: found.start()], shown[found.end() :]
    assert text.startswith(head)
    assert text.endswith(tail.lstrip("\n"))
    assert int(found[2]) == len(text)
    assert int(found[1]) == len(text) - len(head) - len(tail.removeprefix("\n"))
    assert abs(len(head) - len(tail)) < 2_000
    assert head.endswith("\n")
    assert tail.removeprefix("\n").startswith("line ")


@pytest.mark.case("A-178")
@given(TEXTS, st.integers(8, 60), st.sampled_from(["", "\n", "x"]))
def test_a_cut_falls_between_clusters_and_the_view_keeps_to_the_cap(
    text: str, cap: int, end: str
) -> None:
    text = text + end
    shown = view(text, cap, "m1")
    found = MARKER.search(shown)
    if found is None:
        assert shown == text
        assert len(encoded(text)) <= cap
        return
    assert len(encoded(text)) > cap
    assert len(encoded(shown)) <= cap + len(found[0])
    places = [0]
    for cluster in iterate_clusters(text):
        places.append(places[-1] + len(cluster))
    head, tail = shown[: found.start()], shown[found.end() :]
    heads = {head, head.removesuffix("\n")}
    tails = {tail, tail.removeprefix("\n")}
    assert any(text[:at] in heads for at in places)
    assert any(text[at:] in tails for at in places)
    kept = len(encoded(text)) - int(found[1])
    assert kept <= cap


@pytest.mark.case("A-179")
@given(TEXTS, st.integers(1, 9))
def test_pieces_that_follow_each_other_are_the_whole(text: str, limit: int) -> None:
    offset: int | None = 0
    read = ""
    while offset is not None:
        found = piece(text, offset, limit)
        assert found.total == len(encoded(text))
        assert len(encoded(found.text)) <= max(limit, 4)
        read += found.text
        offset = found.next_offset
    assert encoded(read) == encoded(text)


@pytest.mark.case("A-179")
@given(TEXTS, st.integers(4, 9))
def test_pieces_at_fixed_offsets_are_the_whole_too(text: str, limit: int) -> None:
    total = len(encoded(text))
    read = [piece(text, offset, limit).text for offset in range(0, total, limit)]
    assert encoded("".join(read)) == encoded(text)


def test_an_offset_beyond_the_end_gives_nothing_more() -> None:
    found = piece("abc", 99, 10)
    assert (found.text, found.offset, found.next_offset) == ("", 3, None)
    assert piece("abc", -5, 2).text == "ab"
