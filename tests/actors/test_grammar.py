"""Tests of the translation of schemas to grammars: what comes out always conforms."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.actors.grammar import GrammarError, TextRule, schema_expression, text_rules
from tests.actors.gbnf import as_regex

RULE = TextRule(60)
PROSE = TextRule(60, sentence=True)


def closed(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


SCHEMAS: list[dict[str, Any]] = [
    {"type": "null"},
    {"type": "boolean"},
    {"type": "string"},
    {"type": "string", "maxLength": 4},
    {"type": "string", "minLength": 3, "maxLength": 500},
    {"type": "string", "minLength": 70},
    {"type": "string", "maxLength": 0},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,5}\\.$"},
    {"type": "string", "enum": ["a.md", 'quo"te', "back\\slash", "new\nline", "日本"]},
    {"enum": [1, None, True, "x", 1.5]},
    {"type": "integer", "enum": [1, "x", 2.5, 3.0]},
    {"const": "yes"},
    {"const": {"a": [1, "b"]}},
    {"type": "integer"},
    {"type": "integer", "minimum": 3},
    {"type": "integer", "maximum": -7},
    {"type": "integer", "minimum": -12, "maximum": 345},
    {"type": "integer", "minimum": 0.5, "maximum": 1.5},
    {"type": "integer", "exclusiveMinimum": 8, "exclusiveMaximum": 12},
    {"type": "integer", "minimum": 995, "maximum": 100200},
    {"type": "number"},
    {"type": "number", "minimum": 0},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"type": "number", "minimum": -2.5, "maximum": 2.5},
    {"type": ["string", "null"], "maxLength": 5},
    {"type": "array"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": {"type": "null"}, "maxItems": 0},
    {"type": "array", "items": {"type": "integer"}, "minItems": 10},
    {"type": "object"},
    {"type": "object", "additionalProperties": True},
    closed(),
    closed(a={"type": "null"}, b={"type": "boolean"}),
    closed(["b"], a={"type": "null"}, b={"type": "boolean"}, c={"type": "null"}),
    closed([], a={"type": "null"}, b={"type": "boolean"}, c={"type": "null"}),
    closed(None, **{'odd "key"': closed(x={"type": "array", "items": closed()})}),
    {"anyOf": [{"type": "null"}, closed(a={"type": "boolean"})]},
    {"oneOf": [{"type": "null"}, {"type": "boolean"}], "description": "either"},
    {"title": "anything"},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
@pytest.mark.parametrize("rule", [RULE, PROSE], ids=["free", "prose"])
@settings(max_examples=8)
@given(data=st.data())
def test_what_the_grammar_accepts_conforms_to_the_schema(
    schema: dict[str, Any], rule: TextRule, data: st.DataObject
) -> None:
    expression = schema_expression(schema, rule)
    regex = as_regex(expression.text, text_rules(rule))
    text = data.draw(st.from_regex(regex, fullmatch=True))
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    assert len(text) <= expression.longest + 2 * text.count("\\")


def accepts(schema: dict[str, Any], value: Any, rule: TextRule = RULE) -> bool:
    regex = as_regex(schema_expression(schema, rule).text, text_rules(rule))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.fullmatch(regex, text) is not None


@given(st.integers(-3000, 3000), st.integers(0, 3000), st.integers(-7000, 7000))
def test_exactly_the_whole_numbers_in_range_are_accepted(
    low: int, width: int, value: int
) -> None:
    schema = {"type": "integer", "minimum": low, "maximum": low + width}
    for number in (value, low, low + width, low - 1, low + width + 1):
        assert accepts(schema, number) is (low <= number <= low + width)


def test_every_member_of_an_enum_is_accepted_and_nothing_else() -> None:
    members = ["docs/a.md", 'quo"te', "back\\slash", "new\nline", "日本 🎉", "\ud800"]
    schema = {"type": "string", "enum": members}
    assert all(accepts(schema, member) for member in members[:-1])
    assert not accepts(schema, "docs/b.md")
    assert r"\\ud800" in schema_expression(schema, RULE).text


def test_optional_members_may_be_there_or_not() -> None:
    null = {"type": "null"}
    schema = closed(["b"], a=null, b=null, c=null)
    assert accepts(schema, {"b": None})
    assert accepts(schema, {"b": None, "a": None, "c": None})
    assert not accepts(schema, {"a": None})
    free = closed([], a=null, b=null)
    assert all(accepts(free, v) for v in ({}, {"a": None}, {"b": None}))
    assert accepts(free, {"a": None, "b": None})


def test_a_text_without_bounds_is_a_sentence_where_the_rule_says_so() -> None:
    sentence = "The sea is salt since rivers carry it."
    assert accepts({"type": "string"}, sentence, PROSE)
    assert not accepts({"type": "string"}, "report.json.json", PROSE)
    assert accepts({"type": "string"}, "report.json.json", RULE)
    assert accepts({"type": "string", "maxLength": 20}, "x.json", PROSE)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "strnig"}, r"unknown type 'strnig' at \$"),
        ({"not": {}}, "without a type"),
        ({"type": "array", "uniqueItems": True}, "'uniqueItems'"),
        ({"type": "integer", "multipleOf": 2}, "'multipleOf'"),
        ({"type": "object", "minProperties": 1}, "'minProperties'"),
        ({"type": "string", "minimum": 1}, "'minimum'"),
        ({"type": "string", "pattern": "^(?=a)$"}, "a pattern with a special group"),
        ({"anyOf": []}, "no value fits"),
        ({"anyOf": [{"type": "null"}], "minLength": 1}, "beside others"),
        ({"type": "integer", "minimum": 2, "maximum": 1}, "no value fits"),
        ({"type": "string", "enum": [1]}, "no value fits"),
        ({"type": "object", "required": ["a"]}, "'a' without a schema"),
        (
            closed(a={"type": "array", "items": {"type": "x"}}),
            r'at \$\.properties\["a"\]\.items',
        ),
        ({"const": {1, 2}}, "not JSON data"),
    ],
)
def test_what_the_grammar_cannot_say_is_refused_with_its_path(
    schema: dict[str, Any], says: str
) -> None:
    with pytest.raises(GrammarError, match=says):
        schema_expression(schema, RULE)


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(GrammarError, match="too deeply"):
        schema_expression(schema, RULE)


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("null", ["null"]),
        ("boolean", ["true"]),
        ("integer", ["2"]),
        ("number", ["1.5", "2"]),
        ("string", ['"a"']),
        ("object", ['{"a":1}']),
        ("array", ["[]"]),
    ],
)
def test_a_list_of_values_keeps_those_of_the_type_beside_it(
    kind: str, members: list[str]
) -> None:
    values: list[Any] = [None, True, 1.5, 2, "a", {"a": 1}, []]
    found = schema_expression({"type": kind, "enum": values}, RULE)
    for value in values:
        text = json.dumps(value, separators=(",", ":"))
        fits = re.fullmatch(as_regex(found.text, ""), text)
        assert bool(fits) == (text in members)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("x", "not an object"),
        ({"type": "array", "items": "x"}, "not an object"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "no value fits"),
    ],
)
def test_what_is_no_schema_or_fits_nothing_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        schema_expression(schema, RULE)
