"""The schema dialect `ramet-json-subset-1`: what a schema may say.

Lives here: the check of a declaration, node by node, by the table of its
keywords.  What a schema means for a value is in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..mailbox.canonical import (
    canonical_json,
    data_fault,
    number_text,
    value_path,
)
from ..mailbox.frozen import FrozenDict, FrozenList
from .errors import DeclarationError, UnsupportedSchemaError

__all__ = ["DIALECT", "MARGIN", "check_declaration", "keeps_meaning_when_strict"]

DIALECT = "ramet-json-subset-1"

MARGIN = 16
"""The levels of nesting that a schema leaves to the records and requests around it."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LARGEST = 2**53 - 1

_ANYWHERE = frozenset(("type", "enum", "title", "description", "$schema"))
_KEYWORDS: dict[str, frozenset[str]] = {
    "null": _ANYWHERE,
    "boolean": _ANYWHERE,
    "string": _ANYWHERE | {"minLength", "maxLength"},
    "number": _ANYWHERE | {"minimum", "maximum"},
    "integer": _ANYWHERE | {"minimum", "maximum"},
    "array": _ANYWHERE | {"items", "minItems", "maxItems"},
    "object": _ANYWHERE | {"properties", "required", "additionalProperties"},
}


def check_declaration(schema: object) -> str:
    """Refuse a schema that is outside the dialect; give its canonical text.

    A node's own faults come before those of its children, and what is not JSON data is
    refused at the root.

    Raises:
        UnsupportedSchemaError: with the path of the node at fault; its cause says
            what the fault is.
    """
    fault = data_fault(schema, MARGIN)
    if fault is not None:
        _refuse("$", f"not JSON data: {value_path(fault[0])} {fault[1]}")
    text = canonical_json(schema)
    nodes: list[tuple[Any, str]] = [(schema, "$")]
    while nodes:
        node, path = nodes.pop()
        _check_node(node, path)
        children = []
        if "items" in node:
            children.append((node["items"], f"{path}.items"))
        for name, child in node.get("properties", {}).items():
            step = value_path((name,))[1:]
            children.append((child, f"{path}.properties{step}"))
        nodes.extend(reversed(children))
    return text


def keeps_meaning_when_strict(schema: Any) -> bool:
    """Say whether a provider's strict decoding keeps what the schema means (A-111).

    That is so for closed objects with all properties required, for arrays with `items`,
    and where no length is bound.
    """
    nodes = [schema]
    while nodes:
        node = nodes.pop()
        if "minLength" in node or "maxLength" in node:
            return False
        if node["type"] == "array":
            if "items" not in node:
                return False
            nodes.append(node["items"])
        if node["type"] == "object":
            members = node.get("properties", {})
            if node.get("additionalProperties", True):
                return False
            if len(node.get("required", ())) != len(members):
                return False
            nodes.extend(members.values())
    return True


def _refuse(path: str, reason: str) -> NoReturn:
    raise UnsupportedSchemaError(path) from DeclarationError(reason)


def _is_object(value: object) -> bool:
    return type(value) is dict or type(value) is FrozenDict


def _is_array(value: object) -> bool:
    return type(value) is list or type(value) is FrozenList


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _check_node(node: Any, path: str) -> None:
    if not _is_object(node):
        _refuse(path, "a node must be an object")
    if "type" not in node:
        _refuse(path, "the keyword type is missing")
    kind = node["type"]
    if type(kind) is not str or kind not in _KEYWORDS:
        _refuse(path, f"type must be one of {', '.join(_KEYWORDS)}")
    for keyword, value in node.items():
        if keyword not in _KEYWORDS[kind]:
            _refuse(path, f"{keyword} is not a keyword of the type {kind}")
        check = _VALUES.get(keyword)
        reason = check(value) if check is not None else None
        if reason is not None:
            _refuse(path, f"{keyword} {reason}")
    for low, high in _BOUNDS:
        if low in node and high in node and node[low] > node[high]:
            _refuse(path, f"{low} is above {high}")
    for name in node.get("required", ()):
        if name not in node.get("properties", {}):
            _refuse(path, f"required names {canonical_json(name)}, not a property")


def _whole(value: Any) -> str | None:
    if not _is_number(value) or value != int(value) or not 0 <= value <= _LARGEST:
        return "must be a whole number from 0 to 2^53 - 1"
    return None


def _number(value: Any) -> str | None:
    return None if _is_number(value) else "must be a finite number"


def _text(value: Any) -> str | None:
    return None if type(value) is str else "must be a string"


def _draft(value: Any) -> str | None:
    return None if type(value) is str and value == _DRAFT else f"must be {_DRAFT}"


def _enum(value: Any) -> str | None:
    if not _is_array(value) or not value:
        return "must be a list with at least one member"
    seen = set()
    for member in value:
        if _is_array(member) or _is_object(member):
            return "must hold only null, booleans, strings and numbers"
        text = number_text(member) if _is_number(member) else canonical_json(member)
        if text in seen:
            return f"holds {text[:100]} twice"
        seen.add(text)
    return None


def _properties(value: Any) -> str | None:
    return None if _is_object(value) else "must be an object of nodes"


def _required(value: Any) -> str | None:
    if not _is_array(value) or any(type(name) is not str for name in value):
        return "must be a list of strings"
    return "repeats a name" if len(set(value)) != len(value) else None


def _boolean(value: Any) -> str | None:
    return None if type(value) is bool else "must be true or false"


_BOUNDS = (
    ("minLength", "maxLength"),
    ("minimum", "maximum"),
    ("minItems", "maxItems"),
)

_VALUES: dict[str, Callable[[Any], str | None]] = {
    "enum": _enum,
    "title": _text,
    "description": _text,
    "$schema": _draft,
    "minLength": _whole,
    "maxLength": _whole,
    "minItems": _whole,
    "maxItems": _whole,
    "minimum": _number,
    "maximum": _number,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _boolean,
}
