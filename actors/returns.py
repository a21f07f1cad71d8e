"""Classes as schemas: what an attrs class asks for, and instances made of values.

Lives here: the schema of a class in the dialect, and the building of an instance from a
value that met it.  What the dialect cannot say is refused when the class is declared.

| hint | schema | in the instance |
| --- | --- | --- |
| `str`, `bool`, `None` | `string`, `boolean`, `null` | itself |
| `int`, `float` | `integer`, `number` | an `int`, a `float` |
| `Literal[...]`, an `Enum` class of strings or of integers | `enum` | member |
| `list[X]`, `tuple[X, ...]`, `list` | `array` | immutable list, tuple |
| `dict[str, Any]`, `dict` | an open `object` | immutable dictionary |
| an attrs class | a closed `object` | an instance |
| `X | None` with the default `None` | `X`, not required | `X`, or `None` when absent |
| `Annotated[X, msgspec.Meta(...)]` | bounds, lengths, description | as `X` |
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import attrs
import msgspec

from ..mailbox.canonical import freeze, value_path
from ..mailbox.frozen import FrozenList
from .errors import DeclarationError, UnsupportedSchemaError

__all__ = ["class_schema", "make_instance"]

T = TypeVar("T")

_SIMPLE: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    None: "null",
    type(None): "null",
}


def class_schema(declared: type) -> dict[str, Any]:
    """Make the schema of an attrs class: closed, required where there is no default.

    Raises:
        UnsupportedSchemaError: the dialect cannot express it; the path names the field.
    """
    if not isinstance(declared, type) or not attrs.has(declared):
        _refuse("$", "Returns takes an attrs class")
    return _class_node(declared, "$", ())


def make_instance(declared: type[T], value: Any) -> T:
    """Make an instance of an attrs class from a value that met its schema.

    It raises whatever the class's own converters and validators raise.
    """
    arguments = {}
    for field, hint in _fields(declared):
        if field.alias in value:
            arguments[field.alias] = _made(hint, value[field.alias])
    return declared(**arguments)


def _refuse(path: str, reason: str) -> NoReturn:
    raise UnsupportedSchemaError(path) from DeclarationError(reason)


def _fields(declared: type) -> list[tuple[Any, Any]]:
    """Give the fields that the constructor takes, each with its hint."""
    hints = typing.get_type_hints(declared, include_extras=True)
    fields = [field for field in attrs.fields(declared) if field.init]
    return [(field, hints.get(field.name, field.type)) for field in fields]


def _class_node(declared: type, path: str, within: tuple[type, ...]) -> dict[str, Any]:
    if declared in within:
        _refuse(path, f"{declared.__name__} holds itself")
    try:
        fields = _fields(declared)
    except Exception as error:
        _refuse(path, f"the hints of {declared.__name__} cannot be read: {error}")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field, hint in fields:
        at = f"{path}.properties{value_path((field.alias,))[1:]}"
        if field.default is attrs.NOTHING:
            required.append(field.alias)
        elif field.default is None:
            hint = _without_none(hint)
        properties[field.alias] = _node(hint, at, (*within, declared))
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _without_none(hint: Any) -> Any:
    """Give `X` of `X | None`; what is absent is `None` then."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *extras = typing.get_args(hint)
        return typing.Annotated[(_without_none(inner), *extras)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [it for it in typing.get_args(hint) if it is not type(None)]
        if len(others) == 1:
            return others[0]
    return hint


def _node(hint: Any, path: str, within: tuple[type, ...]) -> dict[str, Any]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(_node(parts[0], path, within), parts[1:], path)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if origin is typing.Literal:
        return _enum_node(parts, path)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_node([member.value for member in hint], path)
    if isinstance(hint, type) and attrs.has(hint):
        return _class_node(hint, path, within)
    if origin is list or (origin is tuple and parts[1:] == (...,)):
        if parts[0] is Any:
            return {"type": "array"}
        return {"type": "array", "items": _node(parts[0], f"{path}.items", within)}
    if hint is list or hint is dict or (origin is dict and parts == (str, Any)):
        return {"type": "array" if hint is list else "object"}
    _refuse(path, f"{hint!r:.200} has no schema in the dialect")


def _enum_node(members: typing.Iterable[Any], path: str) -> dict[str, Any]:
    values = list(members)
    kinds = {type(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in (str, int, bool):
        _refuse(
            path, "an enum needs members that are all strings, integers or booleans"
        )
    return {"type": _SIMPLE[kind], "enum": values}


_META = (
    *("title", "description", "examples", "extra_json_schema", "pattern", "tz"),
    *("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length"),
)

_BOUNDS: dict[str, dict[str, str]] = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "integer": {"ge": "minimum", "le": "maximum"},
    "number": {"ge": "minimum", "le": "maximum"},
}


def _annotated(node: dict[str, Any], extras: Any, path: str) -> dict[str, Any]:
    for extra in extras:
        if not isinstance(extra, msgspec.Meta):
            continue
        words = {"description": "description", "title": "title"}
        words |= _BOUNDS.get(node["type"], {})
        for name in _META:
            value = getattr(extra, name)
            if value is None:
                continue
            if name not in words:
                _refuse(path, f"the dialect has no {name} for the type {node['type']}")
            node[words[name]] = value
    return node


def _made(hint: Any, value: Any) -> Any:
    """Make what a hint names from a value that met its schema."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _made(parts[0], value)
    if origin in (typing.Union, types.UnionType):
        return _made(_without_none(hint), value)
    if hint is float or hint is int:
        return hint(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if isinstance(hint, type) and attrs.has(hint):
        return make_instance(hint, value)
    if origin is list or origin is tuple:
        build: Callable[[list[Any]], Any] = tuple if origin is tuple else FrozenList
        return build([_made(parts[0], item) for item in value])
    return freeze(value)
