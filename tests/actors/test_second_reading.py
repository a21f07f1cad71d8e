"""Tests of the dialect against two independent readings of it.

Lives here: declarations and values drawn at random, judged by the runtime, by the
second reading (`second_reading.py`) and, where no length is counted, by stock
`jsonschema`.  A difference is a fault of one of them, and the conformance list says of
which.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ramet import InvalidArgumentsError, UnsupportedSchemaError, parse_arguments
from ramet.actors.schema import Schema
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.errors import UsageError
from tests.actors import second_reading as second
from tests.vectors import rows

NAMES = st.sampled_from(["a", "b", "", "type", "\ud800", "\U0001f600", "é", "$schema"])
# Clusters, half clusters, controls and unpaired surrogates, to be put together.
PIECES = st.sampled_from(
    "a e \u0301 \u200d \U0001f469 \U0001f1e9 \U0001f1ea \ud83d \ude04 \u1100 \u1161"
    " \u0915 \u094d \u0937 \ufe0f \r \n".split(" ")
)
TEXTS = st.lists(PIECES, max_size=5).map("".join) | NAMES
NUMBERS = (
    st.integers(-3, 4)
    | st.sampled_from([-1.5, -0.0, 0.5, 1.0, 2.5, 3.0, 1e21, 10**21, 2**53 - 1, 2**53])
    | st.sampled_from([9007199254740993, 10**308, 10**400, 1e-7, 123e-8, 5e-324])
    | st.floats()
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(NAMES, below, max_size=3)
    ),
    max_leaves=8,
)
COUNTS = st.integers(0, 4) | st.sampled_from([2.0, 2**53 - 1])
KINDS = ["null", "boolean", "string", "number", "integer", "array", "object"]
WORDS = st.sampled_from(
    "type enum title description $schema minLength maxLength minimum maximum items"
    " minItems maxItems properties required additionalProperties pattern const x-a"
    " Type".split()
)
TOKENS = st.sampled_from(
    '{"a": {"b": "a" } ] [ , 1 -0.0 1e400 NaN null 01 // \ufeff "\ud83d" "\t" \n'
    ' "\\ud83d\\ude04" "\\ud83d"'.split(" ")
) | st.just(" ")
LENGTHS = frozenset({"minLength", "maxLength"})


@st.composite
def nodes(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """Nodes that are mostly in order: bounds may cross, an enum may repeat itself."""
    kind = draw(st.sampled_from(KINDS if depth else KINDS[:5]))
    optional: dict[str, st.SearchStrategy[Any]] = {
        "enum": st.lists(SCALARS, min_size=1, max_size=4),
        "title": TEXTS,
        "description": TEXTS,
        "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
    }
    if kind == "string":
        optional |= {"minLength": COUNTS, "maxLength": COUNTS}
    if kind in ("number", "integer"):
        optional |= {"minimum": NUMBERS, "maximum": NUMBERS}
    if kind == "array":
        optional |= {"minItems": COUNTS, "maxItems": COUNTS, "items": nodes(depth - 1)}
    if kind == "object":
        optional |= {"additionalProperties": st.booleans()}
        members = draw(st.dictionaries(NAMES, nodes(depth - 1), max_size=3))
        required = [name for name in members if draw(st.booleans())]
        shown = {"properties": members, "required": required}
        chosen = {key: shown[key] for key in shown if draw(st.integers(0, 5))}
        node = {"type": kind} | chosen
    else:
        node = {"type": kind}
    return node | draw(_some(optional))


def _some(
    optional: dict[str, st.SearchStrategy[Any]],
) -> st.SearchStrategy[dict[str, Any]]:
    """Few of the optional words, so that most nodes can still be met by a value."""
    words = st.lists(st.sampled_from(sorted(optional)), max_size=2, unique=True)
    return words.flatmap(
        lambda chosen: st.fixed_dictionaries({word: optional[word] for word in chosen})
    )


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """A node in which up to three places were altered."""
    node = draw(nodes())
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(list(_inner_nodes(node))))
        if draw(st.booleans()) and place:
            del place[draw(st.sampled_from(sorted(place)))]
        else:
            place[draw(WORDS)] = draw(VALUES | nodes(1) | st.just(place.get("type")))
    return node


def _inner_nodes(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [inner for item in node for inner in _inner_nodes(item)]
    if isinstance(node, dict):
        return [
            node,
            *(inner for item in node.values() for inner in _inner_nodes(item)),
        ]
    return []


@st.composite
def aimed(draw: st.DrawFn, node: Any) -> Any:
    """A value that mostly meets the node, so that both verdicts are seen often."""
    if not draw(st.integers(0, 7)):
        return draw(VALUES)
    if "enum" in node and draw(st.integers(0, 3)):
        return copy.deepcopy(draw(st.sampled_from(node["enum"])))
    kind = node["type"]
    if kind == "array":
        items = node.get("items")
        return draw(st.lists(aimed(items) if items else VALUES, max_size=4))
    if kind == "object":
        members = node.get("properties", {})
        chosen = [name for name in members if draw(st.integers(0, 4))]
        known = {name: draw(aimed(members[name])) for name in chosen}
        return draw(st.dictionaries(NAMES, VALUES, max_size=1)) | known
    ordinary = {
        "null": st.none(),
        "boolean": st.booleans(),
        "string": TEXTS,
        "number": NUMBERS,
        "integer": NUMBERS,
    }
    return draw(ordinary[kind])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A node that can be declared, and a value aimed at it."""
    node = draw(nodes().filter(lambda node: second.refusal(node) is None))
    return node, draw(aimed(node))


def refusal(node: Any) -> str | None:
    try:
        Schema(node)
    except UnsupportedSchemaError as error:
        return error.path
    return None


def written(value: Any) -> str | None:
    try:
        return canonical_json(value)
    except UsageError:
        return None


@given(broken())
def test_both_readings_refuse_a_declaration_at_the_same_place(node: Any) -> None:
    assert refusal(node) == second.refusal(node)


@given(pairs())
@example(({"type": "string", "maxLength": 1}, "\ud83d\ude04"))
@example(({"type": "string", "enum": ["\U0001f604"]}, "\ud83d\ude04"))
def test_both_readings_judge_a_value_alike(pair: tuple[Any, Any]) -> None:
    node, value = pair
    assert (Schema(node).check(value) == ()) is second.conforms(node, value)


@given(pairs().filter(lambda pair: second.is_json_data(pair[1])))
def test_the_stock_validator_agrees_where_no_length_is_counted(
    pair: tuple[Any, Any],
) -> None:
    node, value = pair
    for inner in _inner_nodes(node):
        for word in LENGTHS & inner.keys() if inner.get("type") == "string" else ():
            del inner[word]
    stock = jsonschema.Draft202012Validator(node)
    errors = Schema(node).check(value)
    assert (errors == ()) is stock.is_valid(value), errors


@given(VALUES)
@example("\ud83d\ude04")
@example({"\ud83d\ude04": 1, "\U0001f604": 2})
def test_both_readings_write_a_value_alike(value: Any) -> None:
    expected = second.canonical(value) if second.is_json_data(value) else None
    assert written(value) == expected


@given(VALUES.filter(second.is_json_data), st.sampled_from([None, 2]), st.booleans())
def test_both_readings_read_a_text_alike(
    value: Any, indent: int | None, escaped: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert canonical_json(parse_arguments(raw)) == second.canonical(
        second.parsed(raw)[0]
    )


@given(st.lists(TOKENS, max_size=7).map("".join))
@example('{"a":1,"a":1}')
def test_both_readings_refuse_the_same_texts(raw: str) -> None:
    try:
        expected: str | None = second.canonical(second.parsed(raw)[0])
    except ValueError:
        expected = None
    try:
        found: str | None = canonical_json(parse_arguments(raw))
    except InvalidArgumentsError:
        found = None
    assert found == expected


@pytest.mark.parametrize("row", rows("vectors"))
def test_the_second_reading_gives_the_stated_verdicts(row: dict[str, Any]) -> None:
    assert second.refusal(row["schema"]) is None
    assert second.conforms(row["schema"], row["value"]) is row["valid"]


@pytest.mark.parametrize("row", rows("unsupported"))
def test_the_second_reading_refuses_at_the_stated_path(row: dict[str, Any]) -> None:
    assert second.refusal(row["schema"]) == row["at"]


@pytest.mark.parametrize("row", rows("canonical"))
def test_the_second_reading_writes_the_stated_text(row: dict[str, Any]) -> None:
    (value,) = second.parsed(row["raw"])
    assert second.canonical(value) == row["canonical"]


@pytest.mark.parametrize("row", rows("grapheme_divergent"))
def test_the_second_reading_counts_the_stated_clusters(row: dict[str, Any]) -> None:
    assert second.length(row["text"]) == row["uax29"]
