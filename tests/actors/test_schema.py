"""Tests of the dialect: what may be declared, and what a schema means for a value."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.dialect import DIALECT
from ramet.actors.errors import DeclarationError, UnsupportedSchemaError
from ramet.actors.graphemes import REGEX_VERSION
from ramet.actors.schema import LINE_LENGTH, LINES, Schema
from ramet.mailbox.canonical import canonical_json, digest_text
from tests.mailbox.test_canonical import DATA
from tests.vectors import rows


@pytest.mark.case("A-081", "A-084")
@pytest.mark.parametrize("row", rows("unsupported"))
def test_a_row_of_unsupported_is_refused_with_its_path(row: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        Schema(row["schema"])
    assert str(caught.value) == f"unsupported-schema at {row['at']}"
    assert caught.value.path == row["at"]
    assert caught.value.code == "unsupported-schema"
    assert isinstance(caught.value, DeclarationError)
    assert str(caught.value.__cause__)


@pytest.mark.case("A-084")
@pytest.mark.parametrize("row", rows("non_json_schemas"))
def test_a_row_of_non_json_schemas_has_its_verdict(row: dict[str, Any]) -> None:
    node = eval(row["schema_py"])
    if not row["unsupported"]:
        Schema(node)
        return
    with pytest.raises(UnsupportedSchemaError, match=r"^unsupported-schema at \$$"):
        Schema(node)


@pytest.mark.case("A-106")
@pytest.mark.parametrize("row", rows("vectors"))
def test_a_row_of_vectors_has_its_verdict(row: dict[str, Any]) -> None:
    schema = Schema(row["schema"])
    before = canonical_json(row["value"])
    assert (schema.check(row["value"]) == ()) is row["valid"]
    assert schema.judge_value(row["value"]).valid is row["valid"]
    assert canonical_json(row["value"]) == before


@pytest.mark.case("A-106")
@pytest.mark.parametrize("row", rows("non_json_values"))
def test_a_row_of_non_json_values_has_its_verdict(row: dict[str, Any]) -> None:
    errors = Schema(row["schema"]).check(eval(row["value_py"]))
    assert (errors == ()) is row["valid"]


@pytest.mark.case("A-105", "A-110")
@pytest.mark.parametrize("row", rows("raw_envelopes"))
def test_a_row_of_raw_envelopes_has_its_verdict_and_text(row: dict[str, Any]) -> None:
    verdict = Schema(row["schema"]).judge(row["raw"])
    assert verdict.valid is (row["verdict"] == "accept")
    assert bool(verdict.errors) is not verdict.valid
    if verdict.valid:
        assert verdict.canonical == row["canonical"]


@pytest.mark.case("A-107")
@pytest.mark.parametrize("row", rows("grapheme_divergent"))
def test_lengths_count_clusters(row: dict[str, Any]) -> None:
    count = row["uax29"]
    exact = {"type": "string", "minLength": count, "maxLength": count}
    assert Schema(exact).check(row["text"]) == ()
    assert Schema({"type": "string", "maxLength": count - 1}).check(row["text"]) != ()
    assert Schema({"type": "string", "minLength": count + 1}).check(row["text"]) != ()


@pytest.mark.case("A-111")
@pytest.mark.parametrize("row", rows("strict_sampling"))
def test_strict_decoding_is_preferred_where_it_changes_no_meaning(
    row: dict[str, Any],
) -> None:
    assert Schema(row["schema"]).strict_preferred is row["strict_preferred"]


NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-3, 3) | st.sampled_from([-1.5, 0.5, 1.0, 2.5])
WHOLE = st.integers(0, 3)


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    kinds = ["null", "boolean", "string", "number", "integer", "array", "object"]
    node: dict[str, Any] = {"type": draw(st.sampled_from(kinds[: 7 if depth else 5]))}
    if node["type"] in ("number", "integer"):
        node |= draw(st.fixed_dictionaries({}, optional={"minimum": NUMBERS}))
    if node["type"] == "array":
        low = draw(WHOLE)
        bounds: dict[str, st.SearchStrategy[Any]] = {
            "minItems": st.just(low),
            "maxItems": st.integers(low, 4),
        }
        items: dict[str, st.SearchStrategy[Any]] = {"items": nodes(depth - 1)}
        node |= draw(st.fixed_dictionaries({}, optional=bounds | items))
    if node["type"] == "object":
        members = draw(st.dictionaries(NAMES, nodes(depth - 1), max_size=3))
        node["properties"] = members
        node["required"] = [name for name in members if draw(st.booleans())]
        if draw(st.booleans()):
            node["additionalProperties"] = draw(st.booleans())
    elif node["type"] != "array" and draw(st.booleans()):
        node["enum"] = draw(
            st.lists(
                st.sampled_from(["a", "b", 1, 2.5, True, None]),
                min_size=1,
                unique_by=canonical_json,
            )
        )
    return node


VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | NAMES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(nodes(), VALUES)
def test_verdicts_are_those_of_another_validator(node: Any, value: Any) -> None:
    stock = jsonschema.Draft202012Validator(node)
    errors = Schema(node).check(value)
    assert (errors == ()) is stock.is_valid(value), errors


@given(DATA, DATA)
def test_any_data_is_a_schema_or_refused_and_any_value_gets_a_verdict(
    node: Any, value: Any
) -> None:
    try:
        schema = Schema(node)
    except UnsupportedSchemaError:
        schema = Schema({"type": "array"})
    assert all(len(line) <= LINE_LENGTH for line in schema.check(value))


def test_a_nodes_own_faults_come_before_those_of_its_children() -> None:
    child = {"type": "nothing"}
    node = {"type": "object", "properties": {"a": child}, "required": ["b"]}
    with pytest.raises(UnsupportedSchemaError, match=r"at \$$"):
        Schema(node)
    node["required"] = ["a"]
    with pytest.raises(UnsupportedSchemaError, match=r'at \$\.properties\["a"\]$'):
        Schema(node)


def test_bounds_and_enums_that_no_value_meets_are_not_refused() -> None:
    assert Schema({"type": "integer", "minimum": 1.2, "maximum": 1.8}).check(1)
    assert Schema({"type": "object", "enum": ["x"]}).check({})


@pytest.mark.case("A-109")
def test_errors_are_bounded_and_each_names_its_path() -> None:
    names = [f"member {index}" for index in range(100)]
    node = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
    lines = Schema(node).check({})
    assert len(lines) == LINES
    assert lines[0] == '$["member 0"]: required member is missing'
    lines = Schema(node).check({"k" * 2000: 1} | dict.fromkeys(names, 1))
    assert len(lines) == LINES
    assert all(len(line) <= LINE_LENGTH and ": " in line for line in lines)


def test_messages_say_what_is_wanted_and_what_came() -> None:
    node = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "s": {"type": "string", "maxLength": 2},
            "e": {"type": "string", "enum": ["x", "y"]},
            "l": {"type": "array", "items": {"type": "null"}, "maxItems": 1},
            "b": {"type": "boolean"},
        },
        "additionalProperties": False,
    }
    value = {"n": 0, "s": "abc", "e": "z", "l": [None, 1], "b": 1, "extra": 1}
    assert Schema(node).check(value) == (
        '$["n"]: must be at least 1, not 0',
        '$["s"]: must have at most 2 characters',
        '$["e"]: must be one of "x", "y", not the string "z"',
        '$["l"]: must have at most 1 items, not 2',
        '$["l"][1]: must be null, not 1',
        '$["b"]: must be true or false, not 1',
        '$["extra"]: is not allowed',
    )


def nested(depth: int) -> Any:
    node: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        node = {"type": "array", "items": node}
    return node


def test_hostile_schemas_are_refused_and_deep_ones_within_the_bound_work() -> None:
    value: Any = "x"
    for _ in range(239):
        value = [value]
    schema = Schema(nested(239))
    assert schema.check(value) == ()
    assert Schema(nested(238)).check(value) != ()
    canonical_json({"contract": schema.record(), "tools": [schema.parameters()]})
    for depth in (240, 256, 100_000):
        with pytest.raises(UnsupportedSchemaError, match=r"at \$$"):
            Schema(nested(depth))
    cyclic: dict[str, Any] = {"type": "array"}
    cyclic["items"] = cyclic
    with pytest.raises(UnsupportedSchemaError, match=r"at \$$"):
        Schema(cyclic)


def test_hostile_values_get_a_verdict_soon() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested deeper" in Schema({"type": "array"}).check(deep)[0]
    begun = time.perf_counter()
    many = Schema({"type": "array", "items": {"type": "string"}}).check([1] * 1_000_000)
    assert len(many) == LINES
    bounded = Schema({"type": "string", "minLength": 5, "maxLength": 5})
    assert bounded.check("🇳" * 1_000_000) != ()
    assert time.perf_counter() - begun < 5


@pytest.mark.case("A-006")
def test_a_schema_is_not_changed_by_its_maker() -> None:
    node: dict[str, Any] = {"type": "string", "enum": ["a", "b"]}
    schema = Schema(node)
    node["enum"].append("c")
    assert schema.check("c") != ()
    with pytest.raises(TypeError):
        schema.node["type"] = "null"


@pytest.mark.case("A-100")
def test_parameters_hold_the_declared_schema_unchanged_and_nothing_else() -> None:
    node = {"type": "object", "properties": {"b": {"type": "null"}, "a": nested(1)}}
    parameters = Schema(node).parameters()
    assert parameters == {
        "type": "object",
        "properties": {"value": node},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert json.dumps(parameters["properties"]["value"]) == json.dumps(node)


@pytest.mark.case("A-101")
def test_a_null_root_accepts_null_and_refuses_nothing_at_all() -> None:
    schema = Schema({"type": "null"})
    assert schema.judge('{"value": null}').valid
    assert schema.value("null") is None
    assert not schema.judge('{"value": null}').empty
    assert not schema.judge("{}").valid


@pytest.mark.case("A-123", "A-124", "A-129")
def test_the_record_names_dialect_schema_digest_and_what_counted() -> None:
    node = {"type": "string", "maxLength": 3}
    schema = Schema(node)
    assert schema.record() == {
        "kind": "schema",
        "version": 1,
        "dialect": DIALECT,
        "schema": node,
        "digest": digest_text(canonical_json(node)),
        "regex": REGEX_VERSION,
    }
    assert schema.dialect == "ramet-json-subset-1"


def test_equal_schemas_are_equal_and_can_be_pickled() -> None:
    schema = Schema({"type": "integer", "minimum": 1.0})
    assert schema == Schema({"minimum": 1, "type": "integer"})
    assert hash(schema) == hash(pickle.loads(pickle.dumps(schema)))
    assert schema != Schema({"type": "integer"})
    assert "minimum" in repr(schema)


@pytest.mark.case("A-025")
def test_the_value_is_what_the_canonical_text_reads_as() -> None:
    schema = Schema({"type": "number"})
    verdict = schema.judge('{"value": 1.0}')
    value = schema.value(verdict.canonical)
    assert (value, type(value)) == (1, int)


def test_a_small_object_is_checked_in_microseconds() -> None:
    item = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "t": {"type": "string"}},
        "required": ["n", "t"],
        "additionalProperties": False,
    }
    schema = Schema({"type": "array", "items": item, "maxItems": 100})
    value = [{"n": index, "t": "some text " * 5} for index in range(30)]
    assert len(json.dumps(value)) > 2000
    best = min(_timed(schema, value) for _ in range(20))
    assert best < 0.0005


def _timed(schema: Schema, value: Any) -> float:
    begun = time.perf_counter()
    assert schema.check(value) == ()
    return time.perf_counter() - begun


def raise_recursion(*_: Any) -> None:
    raise RecursionError


def test_a_schema_that_no_stack_can_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ramet.actors.schema._compiled", raise_recursion)
    with pytest.raises(UnsupportedSchemaError) as caught:
        Schema({"type": "null"})
    assert caught.value.path == "$"


def test_a_value_that_no_stack_can_hold_does_not_conform() -> None:
    schema = Schema({"type": "null"})
    schema._check = raise_recursion
    assert schema.check(None) == ("$: is nested too deeply to be checked here",)


def test_a_member_is_found_however_its_characters_are_put_together() -> None:
    schema = Schema({"type": "string", "enum": ["\U0001f331", "b"]})
    assert schema.check("\ud83c\udf31") == ()
