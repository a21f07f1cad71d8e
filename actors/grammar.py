"""How a tool's parameters become a grammar that a local model cannot leave.

Lives here: the translation of a JSON schema to a GBNF grammar for compact JSON.  What
the grammar accepts is a part of what the schema accepts: free texts, lists and numbers
get bounds, since a small model fills an unbounded text for ever.  A keyword that the
grammar cannot say is refused, never ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..mailbox.message import record
from .grammar_pattern import Expression, PatternError, literal, pattern_expression

__all__ = ["GrammarError", "TextRule", "schema_expression", "text_rules"]

_LARGEST_DEPTH = 24
_LARGEST_LIST = 8
_LARGEST_DIGITS = 15

_ANNOTATIONS = frozenset(
    (
        "$comment",
        "$schema",
        "default",
        "deprecated",
        "description",
        "examples",
        "format",
        "readOnly",
        "title",
        "writeOnly",
    )
)
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "array": frozenset(("items", "minItems", "maxItems")),
    "boolean": frozenset(),
    "integer": frozenset(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    ),
    "null": frozenset(),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "object": frozenset(("properties", "required", "additionalProperties")),
    "string": frozenset(("minLength", "maxLength", "pattern")),
}
_ANYWHERE = frozenset(("anyOf", "const", "enum", "oneOf", "type"))


class GrammarError(ValueError):
    """Raised when a schema holds what the grammar cannot say; it names the path."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{what} at {path}")


@record
class TextRule:
    """How a free text is written.

    `characters` is the most that a text may have.  With `sentence`, a text whose schema
    says nothing of its length or form is one plain sentence.
    """

    characters: int = 240
    sentence: bool = False


def text_rules(rule: TextRule) -> str:
    """Return the rules that expressions refer to."""
    most = rule.characters - 17
    length = f"{{{min(20, most)},{most}}}"
    return "\n".join(
        (
            r'char ::= [^"\\\x00-\x1F\x7F-\x9F] | "\\" ["\\nt]',
            r'prose ::= [^"\\\x00-\x1F\x7F-\x9F{}<>.`\[\]]',
            rf'sentence ::= [A-Z] [a-z]{{1,14}} " " prose{length} "."',
        )
    )


def schema_expression(
    schema: Mapping[str, Any], rule: TextRule, path: str = "$", depth: int = 0
) -> Expression:
    """Translate a schema.

    Raises:
        GrammarError: it holds a keyword that the grammar cannot say, or no value fits.
    """
    if not isinstance(schema, Mapping):
        raise GrammarError(path, "a schema that is not an object")
    if depth > _LARGEST_DEPTH:
        raise GrammarError(path, "a schema that is nested too deeply")
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return _union(schema, union, rule, path, depth)
    kind = schema.get("type")
    if "const" in schema or "enum" in schema:
        return _enumerated(schema, path)
    if isinstance(kind, str):
        _check_keywords(schema, kind, path)
        return _typed(schema, kind, rule, path, depth)
    if isinstance(kind, Sequence):
        found = [_typed(schema, one, rule, path, depth) for one in kind]
        return _either(found, path)
    if schema.keys() - _ANNOTATIONS:
        raise GrammarError(path, "a schema without a type")
    return _text({}, rule, path)


def _typed(
    schema: Mapping[str, Any], kind: str, rule: TextRule, path: str, depth: int
) -> Expression:
    if kind == "string":
        return _text(schema, rule, path)
    if kind == "integer":
        return _integer(schema, path)
    if kind == "number":
        return _number(schema, path)
    if kind == "boolean":
        return Expression('("true" | "false")', 5)
    if kind == "null":
        return Expression('"null"', 4)
    if kind == "array":
        return _array(schema, rule, path, depth)
    if kind == "object":
        return _object(schema, rule, path, depth)
    raise GrammarError(path, f"an unknown type {kind!r}")


def _check_keywords(schema: Mapping[str, Any], kind: str, path: str) -> None:
    known = _KEYWORDS.get(kind, frozenset())
    unknown = sorted(schema.keys() - known - _ANNOTATIONS - _ANYWHERE)
    if unknown:
        raise GrammarError(path, f"the keyword {unknown[0]!r}")


def _either(found: Sequence[Expression], path: str) -> Expression:
    if not found:
        raise GrammarError(path, "a schema that no value fits")
    if len(found) == 1:
        return found[0]
    text = " | ".join(one.text for one in found)
    return Expression(f"({text})", max(one.longest for one in found))


def _union(
    schema: Mapping[str, Any], union: str, rule: TextRule, path: str, depth: int
) -> Expression:
    beside = schema.keys() - _ANNOTATIONS - {union, "type"}
    if beside or not isinstance(schema[union], Sequence):
        raise GrammarError(path, f"the keyword {union!r} beside others")
    return _either(
        [
            schema_expression(one, rule, f"{path}.{union}[{place}]", depth + 1)
            for place, one in enumerate(schema[union])
        ],
        path,
    )


def _enumerated(schema: Mapping[str, Any], path: str) -> Expression:
    members = [schema["const"]] if "const" in schema else list(schema["enum"])
    kinds = schema.get("type")
    if isinstance(kinds, str):
        kinds = [kinds]
    fitting = [one for one in members if kinds is None or _kind(one) & set(kinds)]
    return _either([_value(one, path) for one in fitting], path)


def _kind(value: Any) -> set[str]:
    if value is None:
        return {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"} if value == int(value) else {"number"}
    if isinstance(value, str):
        return {"string"}
    return {"object"} if isinstance(value, Mapping) else {"array"}


def _value(value: Any, path: str) -> Expression:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError):
        raise GrammarError(path, "a member that is not JSON data") from None
    return Expression(literal(text), len(text))


def _text(schema: Mapping[str, Any], rule: TextRule, path: str) -> Expression:
    least = int(schema.get("minLength", 0))
    most = schema.get("maxLength")
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            inner = pattern_expression(pattern, int(most or rule.characters))
        except PatternError as error:
            raise GrammarError(path, f"a pattern with {error}") from None
        return Expression(rf'"\"" {inner.text} "\""', inner.longest + 2)
    if rule.sentence and most is None and least <= 20:
        return Expression(r'"\"" sentence "\""', rule.characters + 2)
    most = rule.characters if most is None else min(int(most), rule.characters)
    most = max(most, least)
    return Expression(rf'"\"" char{{{least},{most}}} "\""', most + 2)


def _bounds(schema: Mapping[str, Any]) -> tuple[float | None, float | None]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is not None:
        over = math.floor(above) + 1
        low = over if low is None else max(low, over)
    if below is not None:
        under = math.ceil(below) - 1
        high = under if high is None else min(high, under)
    return low, high


def _integer(schema: Mapping[str, Any], path: str) -> Expression:
    low, high = _bounds(schema)
    farthest = 10**_LARGEST_DIGITS - 1
    least = -farthest if low is None else max(math.ceil(low), -farthest)
    most = farthest if high is None else min(math.floor(high), farthest)
    found = []
    if least < 0:
        between = _digits(max(1, -most), -least)
        found += [f'"-" {one}' for one in between]
    if most >= 0:
        found += _digits(max(0, least), most)
    return _either([Expression(one, _LARGEST_DIGITS + 1) for one in found], path)


def _number(schema: Mapping[str, Any], path: str) -> Expression:
    """Translate a number; one with bounds becomes a whole one, or one of its bounds."""
    low, high = _bounds(schema)
    if low is None and high is None:
        return Expression(r'"-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,6})?', 23)
    if low is None or high is None or math.ceil(low) <= math.floor(high):
        return _integer(schema, path)
    ends = [
        end
        for end in (schema.get("minimum"), schema.get("maximum"))
        if end is not None and low <= end <= high
    ]
    return _either([_value(end, path) for end in ends], path)


def _digits(low: int, high: int) -> list[str]:
    """Write the whole numbers from `low` to `high`, neither of them negative."""
    if low > high:
        return []
    found = []
    for length in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (length - 1) if length > 1 else 0)
        most = min(high, 10**length - 1)
        found.append(_same_length(str(least), str(most)))
    return found


def _same_length(low: str, high: str) -> str:
    if low == high:
        return literal(low)
    if len(low) == 1:
        return f"[{low}-{high}]"
    rest = len(low) - 1
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return f"[{low[0]}-{high[0]}] [0-9]{{{rest}}}"
    if low[0] == high[0]:
        return f"{literal(low[0])} {_same_length(low[1:], high[1:])}"
    parts = [f"{literal(low[0])} {_same_length(low[1:], '9' * rest)}"]
    if int(high[0]) - int(low[0]) > 1:
        inner = f"[{int(low[0]) + 1}-{int(high[0]) - 1}]"
        parts.append(f"{inner} [0-9]{{{rest}}}")
    parts.append(f"{literal(high[0])} {_same_length('0' * rest, high[1:])}")
    return "(" + " | ".join(parts) + ")"


def _array(
    schema: Mapping[str, Any], rule: TextRule, path: str, depth: int
) -> Expression:
    item = schema_expression(schema.get("items", {}), rule, f"{path}.items", depth + 1)
    least = int(schema.get("minItems", 0))
    most = max(_LARGEST_LIST, least)
    if "maxItems" in schema:
        most = min(int(schema["maxItems"]), most)
    if most < least:
        raise GrammarError(path, "a list that no value fits")
    longest = 2 + most * (item.longest + 1)
    if most == 0:
        return Expression('"[]"', 2)
    repeated = f'({item.text}) ("," ({item.text})){{{max(0, least - 1)},{most - 1}}}'
    if least == 0:
        repeated = f"({repeated})?"
    return Expression(f'"[" {repeated} "]"', longest)


def _object(
    schema: Mapping[str, Any], rule: TextRule, path: str, depth: int
) -> Expression:
    """Translate an object; it gets no other members than those declared."""
    properties = schema.get("properties", {})
    required = list(schema.get("required", ()))
    missing = [name for name in required if name not in properties]
    if missing:
        raise GrammarError(path, f"the required member {missing[0]!r} without a schema")
    members: dict[str, Expression] = {}
    for name, node in properties.items():
        where = f"{path}.properties[{json.dumps(name)}]"
        value = schema_expression(node, rule, where, depth + 1)
        key = _value(name, path)
        members[name] = Expression(
            f'{key.text} ":" {value.text}', key.longest + value.longest + 2
        )
    always = [members[name].text for name in properties if name in required]
    perhaps = [members[name].text for name in properties if name not in required]
    body = ' "," '.join(always)
    if always:
        body += "".join(f' ("," {one})?' for one in perhaps)
    elif perhaps:
        firsts = []
        for place, one in enumerate(perhaps):
            firsts.append(one + "".join(f' ("," {x})?' for x in perhaps[place + 1 :]))
        body = "(" + " | ".join(firsts) + ")?"
    longest = 2 + sum(one.longest for one in members.values())
    return Expression(f'"{{" {body} "}}"', longest)
