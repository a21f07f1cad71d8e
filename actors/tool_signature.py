"""Signatures: what a function's hints and docstring say of the tool that it makes.

Lives here: the reading of a declaration, its JSON schema, and the conversion of
arguments to the objects that the hints name.  Nothing here knows what a tool is or
runs one.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import attrs
import docstring_parser
import msgspec

from ..mailbox.canonical import canonical_json
from ..mailbox.errors import InvalidArgumentsError, UsageError
from .errors import DeclarationError

__all__ = ["Signature", "read_signature"]

_REFERENCE = re.compile(r'"\$ref": "#/\$defs/([^"]+)"')

_Arguments: TypeAlias = dict[str, Any]


@attrs.frozen
class Signature:
    """What a function says of itself.

    `injected` names the parameter that gets the call, if there is one.  `convert`
    checks arguments and gives the objects that the hints name.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    convert: Callable[[_Arguments], _Arguments]
    injected: str | None


def read_signature(function: Callable[..., Any], injected_type: type) -> Signature:
    """Read the hints and the docstring of a function.

    Args:
        function: a plain function or a bound method.
        injected_type: the type of the parameter that is given and not shown.

    Raises:
        DeclarationError: as `tool_from` says.
    """
    name = _function_name(function)
    hints = _hints(function, name)
    documentation = docstring_parser.parse(inspect.getdoc(function) or "")
    described = {it.arg_name: it.description for it in documentation.params}
    fields: list[tuple[str, Any, Any]] = []
    defaults: dict[str, Any] = {}
    injected = None
    for parameter in inspect.signature(function).parameters.values():
        hint = _hint_of(name, parameter, hints)
        if hint is injected_type:
            if injected is not None:
                raise DeclarationError(f"{name} takes more than one ToolCall")
            injected = parameter.name
            continue
        default: Any = msgspec.NODEFAULT
        if parameter.default is not parameter.empty:
            hint = typing.Union[hint, msgspec.UnsetType]  # noqa: UP007
            default = msgspec.UNSET
            defaults[parameter.name] = parameter.default
        text = described.get(parameter.name)
        if text:
            hint = Annotated[hint, msgspec.Meta(description=text)]
        fields.append((parameter.name, hint, default))
    struct, parameters = _struct(name, fields, defaults)
    text = _description(documentation)
    return Signature(name, text, parameters, _StructConversion(struct), injected)


def _function_name(function: object) -> str:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise DeclarationError(
            f"a tool is made from a function or a Tool, not from {function!r:.100}"
        )
    name = function.__name__
    if name == "<lambda>":
        raise DeclarationError("a lambda has no name and no hints, so it makes no tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(f"{name} is a generator, which makes no tool")
    return name


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise DeclarationError(
            f"the type hints of {name} cannot be read: {error}"
        ) from error


def _hint_of(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise DeclarationError(
            f"{name} takes {parameter}: a tool needs each parameter by its name"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise DeclarationError(
            f"the parameter {parameter.name} of {name} cannot be passed by its name"
        )
    if parameter.name not in hints:
        raise DeclarationError(
            f"the parameter {parameter.name} of {name} has no type hint"
        )
    return hints[parameter.name]


def _description(documentation: docstring_parser.Docstring) -> str:
    parts = (documentation.short_description, documentation.long_description)
    return "\n\n".join(part.strip() for part in parts if part)


def _struct(
    name: str, fields: list[tuple[str, Any, Any]], defaults: dict[str, Any]
) -> tuple[type[msgspec.Struct], dict[str, Any]]:
    """Make the struct that checks the arguments, and the schema that a model sees."""
    for field, hint, _ in fields:
        try:
            msgspec.json.schema(hint)
        except Exception as error:
            reason = str(error).strip().rpartition("\n")[2]
            raise DeclarationError(
                f"the parameter {field} of {name} has a type that makes no JSON schema:"
                f" {reason}"
            ) from error
    struct = msgspec.defstruct(
        name.replace("-", "_"),
        [
            (field, hint) if default is msgspec.NODEFAULT else (field, hint, default)
            for field, hint, default in fields
        ],
        forbid_unknown_fields=True,
        kw_only=True,
    )
    schema = msgspec.json.schema(struct)
    definitions = schema.get("$defs", {})
    root = schema["$ref"].rpartition("/")[2]
    parameters: dict[str, Any] = _inlined(definitions.pop(root), definitions, ())
    del parameters["title"]
    parameters.setdefault("required", [])
    for field, default in defaults.items():
        node = parameters["properties"][field]
        try:
            node["default"] = msgspec.to_builtins(default)
            canonical_json(node)
        except (TypeError, UsageError, RecursionError):
            node.pop("default", None)
    kept = _referenced(parameters, definitions)
    if kept:
        parameters["$defs"] = {key: definitions[key] for key in sorted(kept)}
    return struct, parameters


def _inlined(
    node: Any, definitions: dict[str, Any], open_names: tuple[str, ...]
) -> Any:
    """Put definitions in the place of references to them, but for recursive ones."""
    if isinstance(node, list):
        return [_inlined(item, definitions, open_names) for item in node]
    if not isinstance(node, dict):
        return node
    name = node.get("$ref", "").rpartition("/")[2] if "$ref" in node else None
    if name is None or name in open_names or _recurs(name, definitions):
        return {k: _inlined(it, definitions, open_names) for k, it in node.items()}
    beside = {key: item for key, item in node.items() if key != "$ref"}
    return _inlined({**definitions[name], **beside}, definitions, (*open_names, name))


def _recurs(name: str, definitions: dict[str, Any]) -> bool:
    return name in _referenced(definitions[name], definitions)


def _referenced(node: Any, definitions: dict[str, Any]) -> set[str]:
    """Give the names of all definitions that a node leads to."""
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        for name in _REFERENCE.findall(json.dumps(waiting.pop())):
            if name not in seen:
                seen.add(name)
                waiting.append(definitions[name])
    return seen


class _StructConversion:
    """Checks arguments by the hints of a function and gives the objects that it wants.

    What the model left out stays out, so that the function's own defaults apply.
    """

    __slots__ = ("struct",)

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self.struct = struct

    def __call__(self, arguments: _Arguments) -> _Arguments:
        plain = json.loads(canonical_json(arguments))
        try:
            made = msgspec.convert(plain, self.struct, strict=True)
        except msgspec.ValidationError as error:
            raise InvalidArgumentsError(f"{error}"[:500]) from None
        names = self.struct.__struct_fields__
        values = ((name, getattr(made, name)) for name in names)
        return {name: it for name, it in values if it is not msgspec.UNSET}
