"""A second reading of the schema dialect, to compare the runtime's own with.

Lives here: the dialect `ramet-json-subset-1` once more, written from the conformance
list alone, by somebody who had not read the runtime's implementation.  It is slow,
recursive and plain on purpose, and it must stay apart: it imports nothing of ramet, and
what a test finds different between the two is settled by the list, never by copying one
into the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal

import regex  # type: ignore[import-untyped]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LARGEST_COUNT = 2**53 - 1
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}

_EVERYWHERE = {"type", "enum", "title", "description", "$schema"}
_OF_TYPE: dict[str, set[str]] = {
    "null": set(),
    "boolean": set(),
    "string": {"minLength", "maxLength"},
    "number": {"minimum", "maximum"},
    "integer": {"minimum", "maximum"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}


# -- data ------------------------------------------------------------------------------


def is_json_data(value: object, above: tuple[int, ...] = ()) -> bool:
    """Whether the value is JSON data; `above` are the containers that hold it."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return True
    if kind is int or kind is float:
        return is_finite(value)
    if id(value) in above:
        return False
    below = (*above, id(value))
    if isinstance(value, list) and kind is list:
        return all(is_json_data(item, below) for item in value)
    if isinstance(value, dict) and kind is dict:
        if any(type(key) is not str for key in value):
            return False
        # Two spellings of one text would be a repeated key.
        if len({paired(key) for key in value}) < len(value):
            return False
        return all(is_json_data(member, below) for member in value.values())
    return False


def is_finite(value: object) -> bool:
    """Whether the value is a number (which a bool is not) that fits a double."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        try:
            float(value)
        except OverflowError:
            return False
        return True
    return False


def paired(text: str) -> str:
    """The text with each pair of surrogates as the character that it is.

    Only an unpaired one stays: a string of Python may hold a pair as two items.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    return units.decode("utf-16-be", "surrogatepass")


# -- canonical text --------------------------------------------------------------------


def canonical(value: object) -> str:
    """The canonical text of JSON data."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return format(value, "d")
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    assert isinstance(value, dict)
    keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    members = (f"{_string(key)}:{canonical(value[key])}" for key in keys)
    return "{" + ",".join(members) + "}"


def _string(text: str) -> str:
    return '"' + "".join(map(_character, paired(text))) + '"'


def _character(one: str) -> str:
    if one in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[one]
    if one < " " or "\ud800" <= one <= "\udfff":
        return f"\\u{ord(one):04x}"
    return one


def _double(value: float) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    sign = "-" if value < 0 else ""
    # What `repr` gives are the shortest digits; a Decimal has them without a format.
    _, digits, exponent = Decimal(repr(size)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    if 1e-6 <= size < 1e21:
        point = len(text) + exponent
        if exponent >= 0:
            return sign + text + "0" * exponent
        if point > 0:
            return f"{sign}{text[:point]}.{text[point:]}"
        return f"{sign}0.{'0' * -point}{text}"
    power = len(text) - 1 + exponent
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{sign}{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"


# -- declaring -------------------------------------------------------------------------


def refusal(node: object) -> str | None:
    """The path at which a declaration is refused, or None when it can be declared."""
    if not is_json_data(node):
        return "$"
    return next(_faults(node, "$"), None)


def _faults(node: object, path: str) -> Iterator[str]:
    if not isinstance(node, dict) or _own_fault(node):
        yield path
        return
    if node["type"] == "array" and "items" in node:
        yield from _faults(node["items"], f"{path}.items")
    if node["type"] == "object":
        for name, below in node.get("properties", {}).items():
            yield from _faults(below, f"{path}.properties[{_string(name)}]")


def _own_fault(node: dict[str, object]) -> bool:
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _OF_TYPE:
        return True
    if not set(node) <= _EVERYWHERE | _OF_TYPE[kind]:
        return True
    if "$schema" in node and node["$schema"] != _DRAFT:
        return True
    if any(
        not isinstance(node.get(word, ""), str) for word in ("title", "description")
    ):
        return True
    if "enum" in node and not _is_enum(node["enum"]):
        return True
    if kind == "object":
        return _object_fault(node)
    for low, high in (("minLength", "maxLength"), ("minItems", "maxItems")):
        if any(word in node and not _is_count(node[word]) for word in (low, high)):
            return True
    low_high = ("minimum", "maximum")
    if any(word in node and not is_finite(node[word]) for word in low_high):
        return True
    return any(
        low in node and high in node and _more(node[low], node[high])
        for low, high in (
            ("minLength", "maxLength"),
            ("minItems", "maxItems"),
            ("minimum", "maximum"),
        )
    )


def _object_fault(node: dict[str, object]) -> bool:
    properties = node.get("properties", {})
    required = node.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return True
    if any(not isinstance(name, str) for name in required):
        return True
    if len(set(required)) < len(required) or not set(required) <= set(properties):
        return True
    return not isinstance(node.get("additionalProperties", True), bool)


def _is_enum(members: object) -> bool:
    if not isinstance(members, list) or not members:
        return False
    if any(isinstance(member, list | dict) for member in members):
        return False
    return len({canonical(member) for member in members}) == len(members)


def _is_count(value: object) -> bool:
    if not is_finite(value):
        return False
    assert isinstance(value, int | float)
    return value == int(value) and 0 <= value <= _LARGEST_COUNT


def _more(low: object, high: object) -> bool:
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return low > high


# -- judging ---------------------------------------------------------------------------


def conforms(node: dict[str, object], value: object) -> bool:
    """Whether a value conforms to a schema that can be declared."""
    return is_json_data(value) and _meets(node, value)


def _meets(node: dict[str, object], value: object) -> bool:
    kind = node["type"]
    assert isinstance(kind, str)
    if not _is_of(kind, value):
        return False
    members = node.get("enum")
    if isinstance(members, list) and canonical(value) not in map(canonical, members):
        return False
    if kind == "string":
        assert isinstance(value, str)
        return _between(length(value), node, "minLength", "maxLength")
    if kind in ("number", "integer"):
        return _between(value, node, "minimum", "maximum")
    if kind == "array":
        assert isinstance(value, list)
        items = node.get("items")
        return _between(len(value), node, "minItems", "maxItems") and (
            not isinstance(items, dict) or all(_meets(items, item) for item in value)
        )
    if kind == "object":
        assert isinstance(value, dict)
        return _meets_members(node, value)
    return True


def _is_of(kind: str, value: object) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "array":
        return isinstance(value, list)
    if kind == "object":
        return isinstance(value, dict)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return kind == "number" or value == math.floor(value)


def _between(value: object, node: dict[str, object], low: str, high: str) -> bool:
    if low in node and _more(node[low], value):
        return False
    return high not in node or not _more(value, node[high])


def _meets_members(node: dict[str, object], value: dict[str, object]) -> bool:
    properties = node.get("properties", {})
    required = node.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    if not set(required) <= set(value):
        return False
    if node.get("additionalProperties", True) is False and set(value) - set(properties):
        return False
    return all(
        _meets(properties[name], member)
        for name, member in value.items()
        if name in properties
    )


def length(text: str) -> int:
    """The number of grapheme clusters, where an unpaired surrogate counts one."""
    pieces = regex.split("[\ud800-\udfff]", paired(text))
    return len(pieces) - 1 + sum(len(regex.findall(r"\X", piece)) for piece in pieces)


def parsed(raw: str) -> tuple[object]:
    """The one value of a JSON text, in a tuple; `ValueError` when it is refused."""
    value = json.loads(
        raw,
        object_pairs_hook=_members,
        parse_constant=_no_constant,
        parse_float=_finite_float,
        parse_int=_finite_int,
    )
    return (value,)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is repeated")
    return members


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no number")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number does not fit a double")
    return value


def _finite_int(digits: str) -> int:
    value = int(digits)
    if not is_finite(value):
        raise ValueError("a number does not fit a double")
    return value
