"""Tests of canonical text, by the vectors, by hand and by chance."""

from __future__ import annotations

import enum
import json
import math
import struct
import sys
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.mailbox.canonical import (
    MAX_DEPTH,
    canonical_json,
    data_fault,
    digest_text,
    freeze,
    indented_json,
    read_canonical,
)
from ramet.mailbox.errors import UsageError
from tests.vectors import rows

ANY_TEXT = st.text(st.characters(), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | ANY_TEXT
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4)
    ),
    max_leaves=12,
)


class Color(enum.StrEnum):
    RED = "red"


class Text(str):
    pass


@pytest.mark.case("A-128")
@pytest.mark.parametrize("row", rows("canonical"))
def test_a_row_of_canonical_has_its_text_which_is_its_own_canonical_text(
    row: dict[str, Any],
) -> None:
    text = canonical_json(json.loads(row["raw"]))
    assert text == row["canonical"]
    assert canonical_json(json.loads(text)) == text


@pytest.mark.case("A-030")
@pytest.mark.parametrize("row", rows("duplicates"))
def test_values_are_equal_when_their_canonical_texts_are(row: dict[str, Any]) -> None:
    first, second = (json.loads(row[key]) for key in ("first", "second"))
    assert (canonical_json(first) == canonical_json(second)) is row["same"]


@pytest.mark.case("A-128")
@given(DATA)
def test_the_canonical_text_of_any_data_reads_back_to_the_same_text(value: Any) -> None:
    text = canonical_json(value)
    text.encode("utf-8")
    assert canonical_json(read_canonical(text)) == text
    assert canonical_json(json.loads(indented_json(value))) == text
    assert canonical_json(freeze(value)) == text
    assert data_fault(value) is None


@given(st.binary(min_size=8, max_size=8))
def test_the_digits_of_any_double_are_the_shortest_that_read_back(raw: bytes) -> None:
    (number,) = struct.unpack("<d", raw)
    if not math.isfinite(number):
        with pytest.raises(UsageError, match="not a finite number"):
            canonical_json(number)
        return
    text = canonical_json(number)
    assert float(text) == number
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    shortest = repr(number).lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert digits == shortest
    assert ("e" in text) is (number != 0 and not 1e-6 <= abs(number) < 1e21)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-5, "0.000015"),
        (9.99e-7, "9.99e-7"),
        (5e-324, "5e-324"),
        (123456789012345680000.0, "123456789012345680000"),
        (999999999999999900000.0, "999999999999999900000"),
        (1.5e21, "1.5e+21"),
        (-1e100, "-1e+100"),
        (10**308, "1" + "0" * 308),
        (-(2**70), "-1180591620717411303424"),
    ],
)
def test_numbers_are_spelled_by_the_rule(number: float, text: str) -> None:
    assert canonical_json(number) == text


@pytest.mark.case("A-108")
def test_a_whole_number_keeps_all_its_digits() -> None:
    assert canonical_json(9007199254740993) == "9007199254740993"
    assert read_canonical("9007199254740993") == 9007199254740993


def test_the_float_and_the_integer_of_twenty_two_digits_are_two_values() -> None:
    assert canonical_json(1e21) != canonical_json(10**21)
    assert canonical_json(1e20) == canonical_json(10**20)


def test_controls_and_unpaired_surrogates_are_escaped_and_nothing_else() -> None:
    value = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é😄\ud800x\udc00'
    expected = '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028é😄\\ud800x\\udc00"'
    assert canonical_json(value) == expected


def test_a_pair_of_surrogates_is_the_character_that_it_stands_for() -> None:
    assert canonical_json("\ud83d\ude04") == canonical_json("😄")
    assert canonical_json({"\ud83d\ude04": 1}) == canonical_json({"😄": 1})
    with pytest.raises(UsageError, match="two spellings"):
        canonical_json({"\ud83d\ude04": 1, "😄": 2})


def test_keys_are_sorted_by_utf16_code_units() -> None:
    assert canonical_json({"\uffff": 1, "😄": 2, "a": 3}) == '{"a":3,"😄":2,"\uffff":1}'


@pytest.mark.case("A-106")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((1, 2), r"\$: .*tuple"),
        ({1: "a"}, r"\$: has a key that is not a string"),
        ({"a": [{None: 1}]}, r'\$\["a"\]\[0\]: .*null'),
        ({Text("a"): 1}, "key"),
        ([float("nan")], r"\$\[0\]: is not a finite number"),
        ([float("inf")], "finite"),
        (10**400, "too large"),
        (-(10**400), "too large"),
        (Decimal("1"), "Decimal"),
        (b"x", "bytes"),
        ({"a"}, "set"),
        (Color.RED, "Color"),
        (Text("x"), "Text"),
        (OrderedDict(a=1), "OrderedDict"),
        ([object()], "object"),
    ],
)
def test_what_is_not_data_is_refused_by_its_place(value: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        canonical_json(value)
    with pytest.raises(UsageError, match=words):
        freeze(value)
    assert data_fault(value) is not None


def test_a_value_that_holds_itself_is_refused() -> None:
    array: list[Any] = []
    array.append([array, array])
    members: dict[str, Any] = {}
    members["m"] = members
    for value in (array, members):
        with pytest.raises(UsageError, match="holds itself"):
            canonical_json(value)
        with pytest.raises(UsageError, match="holds itself"):
            freeze(value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_nesting_is_bound_by_a_fixed_depth_and_never_crashes() -> None:
    assert canonical_json(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert freeze(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(UsageError, match="nested deeper"):
            canonical_json(nested(depth))
        with pytest.raises(UsageError, match="nested deeper"):
            freeze(nested(depth))


def test_a_caller_near_the_end_of_its_stack_gets_an_error_and_no_crash() -> None:
    def deeper() -> str:
        try:
            return deeper()
        except RecursionError:
            return canonical_json(nested(MAX_DEPTH))

    with pytest.raises((UsageError, RecursionError)):
        deeper()
    assert sys.getrecursionlimit() >= 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.0",
        "[1, 2]",
        '{"b":1,"a":2}',
        "NaN",
        "1e400",
        '{"a":1,"a":1}',
        "nul",
        "1 2",
    ],
)
def test_a_text_that_is_not_canonical_is_not_read(text: str) -> None:
    with pytest.raises(UsageError, match="canonical"):
        read_canonical(text)


def test_indented_text_has_two_spaces_and_canonical_order() -> None:
    value = {"b": [1.0, {}, []], "a": {"é": "\n"}}
    expected = (
        '{\n  "a": {\n    "é": "\\n"\n  },\n  "b": [\n    1,\n    {},\n    []\n  ]\n}'
    )
    assert indented_json(value) == expected


@pytest.mark.case("A-129")
def test_a_digest_is_that_of_the_utf8_bytes() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_text("") == empty
    assert digest_text("é") != digest_text("e\u0301")
    assert len(digest_text("\ud800")) == 64


def test_a_value_that_no_stack_can_hold_is_no_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walk(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("ramet.mailbox.canonical._walk", walk)
    fault = data_fault([])
    assert fault is not None
    assert fault[0] == ()
    assert "nested deeper" in fault[1]
