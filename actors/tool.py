"""Tools: what a model may call, and the reading of a call's arguments.

Lives here: the tool itself and the checks of its declaration and of its arguments.
How a function tells what it takes is in `tool_signature.py`, running is in
`tool_run.py`, and which agent may call what in `scope.py`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ..mailbox.canonical import (
    canonical_json,
    data_fault,
    digest_text,
    freeze,
    value_path,
)
from ..mailbox.errors import InvalidArgumentsError
from .arguments import parse_arguments
from .dialect import MARGIN
from .errors import DeclarationError, UnsupportedSchemaError
from .model import ToolSchema
from .schema import Schema
from .tool_signature import read_signature

__all__ = ["Tool", "ToolCall", "as_tool", "call_key", "read_call", "tool_from"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN = 1500

_Arguments: TypeAlias = dict[str, Any]


@attrs.frozen(kw_only=True)
class ToolCall:
    """Which call a tool is running for; a function asks for it by a parameter of this
    type.

    `key` names the call for good: it is the same whenever this call is dispatched
    again, and another one for every other call (R-065), so that a tool can be safe to
    repeat.
    """

    agent: Any
    """The live `Agent` that calls; its exact object is its authority."""

    place: int
    """The place of the call in its batch, from 0."""

    call_id: str
    """The provider's own id of the call; providers use them again."""

    key: str
    """The key of the call, made of session, turn, step and place (`call_key`)."""

    epoch: int
    """The epoch of the claim under which the session runs; a later one fences it
    off."""


def call_key(session: str, turn: int, step: int, place: int) -> str:
    """Make the key of a tool call from its place in its session's log (R-062,
    R-065)."""
    return f"{session}/{turn}/{step}/{place}"


def _checked_name(name: str) -> str:
    if type(name) is str and _NAME.fullmatch(name) is not None:
        return name
    raise DeclarationError(
        f"a tool's name has 1 to 64 letters, digits, _ or -, unlike {name!r:.100}"
    )


def _checked_text(text: str) -> str:
    if type(text) is str:
        return text
    raise DeclarationError(
        f"a tool's description must be text, not {type(text).__name__}"
    )


def _check_callable(tool: Tool, attribute: attrs.Attribute[Any], run: Any) -> None:
    if not callable(run):
        raise DeclarationError(f"a tool's run must be a function, not {run!r:.100}")


def _checked_parameters(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    fault = data_fault(parameters, MARGIN)
    if fault is not None:
        raise DeclarationError(
            f"a tool's parameters are not JSON data: {value_path(fault[0])} {fault[1]}"
        )
    node = freeze(parameters)
    if not isinstance(node, dict) or node.get("type") != "object":
        raise DeclarationError(
            "a tool's parameters must be a JSON schema of the type object"
        )
    for keyword, kind in (("properties", dict), ("required", list)):
        if not isinstance(node.get(keyword, kind()), kind):
            raise DeclarationError(
                f"{keyword} of a tool's parameters must be a {kind.__name__}"
            )
    return node


@attrs.frozen(eq=False)
class Tool:
    """A tool: what a model sees of it, and what runs.

    Raises:
        DeclarationError: a name that providers refuse, or parameters that are no JSON
            schema of an object.
    """

    name: str = attrs.field(converter=_checked_name)
    """Letters, digits, `_` and `-`, 64 at most."""

    description: str = attrs.field(converter=_checked_text)
    """What a model reads to know when to call it."""

    parameters: Mapping[str, Any] = attrs.field(converter=_checked_parameters)
    """The JSON schema of the arguments, an object.

    Arguments are checked against it before `run`: members against their nodes where
    these are within the dialect, and always what is required and what is allowed.
    """

    run: Callable[[_Arguments, ToolCall], Any] = attrs.field(validator=_check_callable)
    """Called with the arguments and the call.  It gives text or JSON data, or an
    awaitable of it; what it raises becomes an error result."""

    blocking: bool = attrs.field(
        kw_only=True,
        default=attrs.Factory(
            lambda self: not inspect.iscoroutinefunction(self.run), takes_self=True
        ),
    )
    """Whether `run` may block and so belongs in a worker thread; by default any
    function that is not a coroutine function does."""

    convert: Callable[[_Arguments], _Arguments] = attrs.field(
        kw_only=True,
        default=attrs.Factory(
            lambda self: _MemberChecks(self.parameters), takes_self=True
        ),
    )
    """Checks the arguments and gives what `run` gets.  It raises
    `InvalidArgumentsError`."""

    digest: str = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: _digest_of(self), takes_self=True),
    )
    """The digest of what a model sees of it."""

    @property
    def schema(self) -> ToolSchema:
        """What a model request carries of it."""
        return ToolSchema(self.name, self.description, self.parameters)


def read_call(tool: Tool, raw: str) -> _Arguments:
    """Read and check the raw arguments of a call of a tool (R-208).

    Raises:
        InvalidArgumentsError: they are not a strict JSON object, or do not fit the
        tool;
            the text says what is wrong and what is expected, for a model.
    """
    try:
        arguments = parse_arguments(raw)
        if type(arguments) is not dict:
            raise InvalidArgumentsError("the arguments must be a JSON object")
        return tool.convert(arguments)
    except InvalidArgumentsError as error:
        expected = json.dumps(tool.parameters, ensure_ascii=False)
        if len(expected) > _SHOWN:
            expected = f"{expected[:_SHOWN]}..."
        raise InvalidArgumentsError(
            f"The arguments of {tool.name} are refused, and it did not run.\n{error}\n"
            f"Expected is one JSON object that meets this schema: {expected}"
        ) from None


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """Give a tool as it is, and a function as the tool that it makes.

    Raises:
        DeclarationError: as `tool_from`.
    """
    return value if isinstance(value, Tool) else tool_from(value)


def tool_from(function: Callable[..., Any]) -> Tool:
    """Make a tool from a function with type hints and a docstring.

    The name is the function's, the descriptions come from its docstring and its
    `Args` section, the schema and the checks from the hints; `Annotated` with
    `msgspec.Meta` sets bounds.  A parameter of the type `ToolCall` is given and not
    shown.  A coroutine function is awaited; any other one runs in a worker thread.

    Raises:
        DeclarationError: it is not a plain function or method, a parameter has no hint,
            cannot be passed by name, or has a type that no JSON schema tells.
    """
    signature = read_signature(function, ToolCall)
    return Tool(
        signature.name,
        signature.description,
        signature.parameters,
        _Runner(function, signature.injected),
        blocking=not inspect.iscoroutinefunction(function),
        convert=signature.convert,
    )


def _digest_of(tool: Tool) -> str:
    seen = {"description": tool.description, "parameters": tool.parameters}
    return digest_text(canonical_json({"name": tool.name, **seen}))


class _Runner:
    """Calls a function with its arguments by name, and with the call where it asks."""

    __slots__ = ("call_name", "function")

    def __init__(self, function: Callable[..., Any], call_name: str | None) -> None:
        self.function = function
        self.call_name = call_name

    def __call__(self, arguments: _Arguments, call: ToolCall) -> Any:
        if self.call_name is not None:
            arguments = {**arguments, self.call_name: call}
        return self.function(**arguments)


class _MemberChecks:
    """Checks arguments by the parameters of a tool, as far as the dialect goes."""

    __slots__ = ("checks", "is_open", "required")

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self.required = parameters.get("required", ())
        self.is_open = parameters.get("additionalProperties", True) is not False
        self.checks: dict[str, Schema | None] = {}
        for name, node in parameters.get("properties", {}).items():
            try:
                self.checks[name] = Schema(node)
            except UnsupportedSchemaError:
                self.checks[name] = None

    def __call__(self, arguments: _Arguments) -> _Arguments:
        lines: list[str] = []
        for name in self.required:
            if name not in arguments:
                lines.append(f"the required member {name} is missing")
        for name, value in arguments.items():
            if name not in self.checks:
                if not self.is_open:
                    lines.append(
                        f"the member {canonical_json(name[:100])} is not allowed"
                    )
                continue
            schema = self.checks[name]
            if schema is not None:
                lines.extend(f"{name}: {line}" for line in schema.check(value))
        if lines:
            raise InvalidArgumentsError("\n".join(lines[:20]))
        return arguments
