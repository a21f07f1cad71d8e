"""The spec of an agent: what it is told, what it may use, and within which limits.

Lives here: the frozen declaration that a caller makes, and its check.  A spec has no
state and may be used for many agents; what a caller changes after a call began cannot
reach it (R-090).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from ..mailbox.errors import UsageError
from .budget import Limits, check_limits
from .errors import DeclarationError
from .model import Model
from .policy import Policy, merge_policy
from .tool import Tool, as_tool

__all__ = ["AgentSpec"]


def _name(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not str or not value.strip():
        raise UsageError("the name of a spec must be text that is not blank")


def _text(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not str:
        raise UsageError(f"{attribute.name} of a spec must be text, not {value!r}")


def _tools(value: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise DeclarationError("tools of a spec must be a list of functions or tools")
    tools = tuple(as_tool(one) for one in value)
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise DeclarationError(f"two tools of a spec have the name {tool.name!r}")
        if tool.name == "reply":
            raise DeclarationError("the name 'reply' belongs to the runtime")
        seen.add(tool.name)
    return tools


def _names(value: Iterable[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise DeclarationError("allow and deny must be lists of tool names")
    names = tuple(value)
    if any(type(name) is not str for name in names):
        raise DeclarationError("allow and deny must be lists of tool names")
    return names


def _settings(value: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"settings of a spec must be a mapping, not {value!r:.100}")
    return dict(value)


def _deny(value: Iterable[str]) -> tuple[str, ...]:
    names = _names(value) or ()
    if "reply" in names:
        raise DeclarationError(
            "'reply' cannot be denied: a returning agent ends through it"
        )
    return names


@attrs.frozen(eq=False)
class AgentSpec:
    """What an agent is made from.

    Args:
        name: the name under which code is bound again when a stored session is resumed.
        instructions: the system text.
        tools: functions with type hints and a docstring, or `Tool` objects.
        model: a model object or its name; `None` takes the default of `open`.
        policy: a whole `Policy`, or a mapping with some of its values.
        limits: what one agent of this spec may spend.
        allow: the names of the tools it may use; `None`: all. `report` and `reply` are
            the runtime's and are not filtered.
        deny: the names of tools it may not use.
        settings: passed on to the model with every request.

    Raises:
        UsageError: a value is of the wrong type.
        DeclarationError: a tool cannot be offered, or names clash.
    """

    name: str = attrs.field(validator=_name)
    instructions: str = attrs.field(default="", validator=_text)
    tools: tuple[Tool, ...] = attrs.field(default=(), converter=_tools, kw_only=True)
    model: Model | str | None = attrs.field(default=None, kw_only=True)
    policy: Policy | Mapping[str, Any] | None = attrs.field(default=None, kw_only=True)
    limits: Limits | None = attrs.field(default=None, kw_only=True)
    allow: tuple[str, ...] | None = attrs.field(
        default=None, converter=_names, kw_only=True
    )
    deny: tuple[str, ...] = attrs.field(default=(), converter=_deny, kw_only=True)
    settings: Mapping[str, Any] = attrs.field(
        factory=dict, converter=_settings, kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        merge_policy(Policy(), self.policy)
        if isinstance(self.policy, Mapping):
            object.__setattr__(self, "policy", dict(self.policy))
        check_limits(self.limits)
