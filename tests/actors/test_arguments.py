"""Tests of the strict reading of arguments, hostile texts included."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.arguments import parse_arguments
from ramet.mailbox.canonical import MAX_DEPTH, canonical_json
from ramet.mailbox.errors import InvalidArgumentsError, UsageError
from tests.mailbox.test_canonical import DATA

REFUSED = [
    "",
    "  \n",
    "\ufeff{}",
    "```json\n{}\n```",
    "{} x",
    "{}{}",
    "// x\n{}",
    "{'a':1}",
    "{a:1}",
    '{"a":1,}',
    "[1,]",
    '{"a":1,"a":1}',
    '[{"x":{"a":1,"b":2,"a":3}}]',
    '"\n"',
    '"\x00"',
    '"\\x41"',
    '"\\u12G4"',
    "NaN",
    "[Infinity]",
    "-Infinity",
    "1e400",
    "-1e400",
    "1" * 310,
    "-" + "9" * 309,
    "01",
    "+1",
    ".5",
    "1.",
    "0x10",
    "True",
    "None",
    "\u00a0{}",
    "\u0661",
]


@pytest.mark.case("A-105")
@pytest.mark.parametrize("raw", REFUSED)
def test_a_text_that_is_not_strict_is_refused(raw: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="the text is not"):
        parse_arguments(raw)


@pytest.mark.case("A-105")
@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (' \t\r\n{"value" : "x" } ', {"value": "x"}),
        ("1e-400", 0.0),
        ("-0", 0),
        ("9007199254740993", 9007199254740993),
        ('"\\ud83d\\ude04"', "😄"),
        ('"\\ud83d"', "\ud83d"),
        ('"\ud83d\ude04"', "😄"),
        ('"\ud83d\\ude04"', "😄"),
        ('{"":{"__proto__":null}}', {"": {"__proto__": None}}),
        ("9" * 308, int("9" * 308)),
    ],
)
def test_a_strict_text_is_read_as_any_json_value(raw: str, value: Any) -> None:
    assert parse_arguments(raw) == value


@given(DATA, st.booleans())
def test_whatever_json_writes_is_read_back(value: Any, ascii_only: bool) -> None:
    try:
        raw = json.dumps(value, ensure_ascii=ascii_only)
        canonical = canonical_json(value)
    except ValueError:
        return
    assert canonical_json(parse_arguments(raw)) == canonical


@given(st.text())
def test_any_text_is_read_or_refused(raw: str) -> None:
    try:
        value = parse_arguments(raw)
    except InvalidArgumentsError as refused:
        message = str(refused)
    else:
        message = canonical_json(value)[:0]
    assert len(message) < 500


def test_a_repeated_key_is_named() -> None:
    with pytest.raises(InvalidArgumentsError, match="'k' is repeated"):
        parse_arguments('{"k":1,"l":2,"k":1}')


def test_a_key_repeated_in_another_spelling_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"spelling|repeated"):
        parse_arguments('{"😄":1,"\ud83d\\ude04":2}')


def test_only_text_is_read() -> None:
    with pytest.raises(UsageError, match="bytes"):
        parse_arguments(b"{}")  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["[{}]", '{{"a":{}}}'])
def test_nesting_is_bound_by_a_fixed_depth(container: str) -> None:
    raw = "0"
    for _ in range(MAX_DEPTH):
        raw = container.format(raw)
    parse_arguments(raw)
    with pytest.raises(InvalidArgumentsError, match="nested deeper than 256"):
        parse_arguments(container.format(raw))


def test_brackets_in_a_string_are_no_nesting() -> None:
    text = "[{" * 1000
    assert parse_arguments(json.dumps(text)) == text


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("[" * 100_000, id="open"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="deep"),
        pytest.param('{"a":' * 100_000, id="deep objects"),
        pytest.param("1" * 10_000_000, id="whole number"),
        pytest.param("1e" + "9" * 1_000_000, id="exponent"),
        pytest.param('["' + "x" * 50_000_000, id="long text"),
        pytest.param(" " * 10_000_000, id="blank"),
    ],
)
def test_a_hostile_text_is_refused_soon(raw: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(InvalidArgumentsError) as caught:
        parse_arguments(raw)
    assert time.perf_counter() - begun < 5
    assert len(str(caught.value)) < 500


@pytest.mark.case("A-020")
def test_a_large_text_is_read_whole() -> None:
    text = "é" * 2_500_000
    assert parse_arguments(json.dumps({"value": text})) == {"value": text}
    many = {f"k{index}": index for index in range(200_000)}
    assert parse_arguments(json.dumps(many)) == many
    assert parse_arguments("1." + "1" * 1_000_000) == pytest.approx(10 / 9)


def test_a_text_that_is_wide_and_not_deep_is_read() -> None:
    wide = "[" + ",".join(["[]"] * MAX_DEPTH) + "]"
    assert parse_arguments(wide) == [[]] * MAX_DEPTH
