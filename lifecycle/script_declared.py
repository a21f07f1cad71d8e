"""What a run would refuse: declarations, judged by the very code that runs them.

Lives here: how the options of a call that are surely known are given to `declare`, and
the other things that a script makes of constants to their own classes; and which line
is at fault.  No rule of a choice, a schema or a limit is written down a second time.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.contract import Choice, Reply, Schema
from ..actors.errors import DeclarationError, UnsupportedSchemaError
from ..actors.policy import Policy
from ..mailbox.errors import RametError, UsageError
from .declaration import check_name, check_prompt, declare
from .script_calls import FlowCall, Script
from .script_finding import Finding, found_at
from .script_values import UNKNOWN

__all__ = ["bad_objects", "bad_options", "unknown_names"]


@attrs.frozen
class _Any:
    """Stands for a class of the script, which only a run can make."""


_UNSURE: dict[str, Any] = {
    "label": None,
    "title": None,
    "contract": Reply(),
    "choice": ["a", "b"],
    "choice_fallback": None,
    "schema": {"type": "null"},
    "returns": _Any,
    "text": True,
    "result": "report",
    "spec": None,
    "tools": (),
    "model": None,
    "limits": None,
    "attempts": 1,
}
"""What stands for an option that is given, and whose value is not known."""

_ABSENT = {"text": False, "tools": (), "attempts": 1}
"""What an option is when it is not given, where that is not `None`."""


@attrs.frozen
class _Made:
    """A class that scripts make objects of; `code` is what only a run can make."""

    make: Callable[..., Any]
    places: tuple[str, ...] = ()
    code: frozenset[str] = frozenset()


_MADE = {
    "ramet.Choice": _Made(Choice, ("members", "fallback")),
    "ramet.Schema": _Made(Schema, ("node",)),
    "ramet.Limits": _Made(Limits),
    "ramet.Policy": _Made(Policy),
    "ramet.AgentSpec": _Made(
        AgentSpec,
        ("name", "instructions"),
        frozenset(("tools", "model", "policy", "limits", "settings", "instructions")),
    ),
}

_STEP = re.compile(r'\.(items)|\.properties\["((?:[^"\\]|\\.)*)"\]')

_REFUSED = "change it here: a run refuses it before anything starts"

_REMEDIES = {
    "blank-prompt": "say what the agent is asked",
    "unsupported-schema": (
        "stay within the dialect ramet-json-subset-1, or ask for it in the prompt and"
        " check it in the script"
    ),
}


# -- calls -----------------------------------------------------------------------------


def bad_options(script: Script) -> Iterator[Finding]:
    """Calls whose options a run would refuse."""
    for call in script.of("agent"):
        yield from _misfits(call)
        yield from _agent(script, call)
    for call in script.of("spawn"):
        yield from _misfits(call)
        for option in ("label", "key"):
            yield from _name(script, call, option)
        yield from _prompt(script, call)
    for call in script.of("phase", "log"):
        yield from _misfits(call)
        yield from _spoken(script, call)
    for call in script.of("parallel", "items"):
        yield from _misfits(call)


def _misfits(call: FlowCall) -> Iterator[Finding]:
    """Arguments that the method does not take, or that it lacks."""
    for name, node in call.extra:
        told = f"the option {name!r}" if name else "a further argument without a name"
        text = f"flow.{call.operation} does not take {told}"
        remedy = f"it takes {', '.join(call.names)}"
        yield found_at(node, "bad-option", text, remedy)
    if call.names and call.names[0] not in call.options and not call.is_open:
        text = f"flow.{call.operation} lacks its {call.names[0]}"
        yield found_at(call.node, "bad-option", text, "give it first")


def _agent(script: Script, call: FlowCall) -> Iterator[Finding]:
    yield from _name(script, call, "key")
    options = {name: _option(script, call, name) for name in _UNSURE}
    if script.known(call, "choice") is UNKNOWN:
        options["choice_fallback"] = None
    try:
        declare(_known_prompt(script, call), **options)
    except RametError as error:
        yield _refusal(call, error, script)


def _option(script: Script, call: FlowCall, name: str) -> Any:
    """What `declare` is given for an option: its value, or what stands for it."""
    node = call.options.get(name)
    if node is not None:
        value = script.values.of(node)
        if value is not UNKNOWN:
            return value
        if script.values.is_given(node):
            return _UNSURE[name]
    return _ABSENT.get(name)


def _known_prompt(script: Script, call: FlowCall) -> Any:
    value = script.values.of(call.options.get("prompt"))
    return "(not known)" if value is UNKNOWN else value


def _refusal(call: FlowCall, error: RametError, script: Script) -> Finding:
    """Where a refusal belongs, and how it is told."""
    text = str(error)
    named = [name for name in call.options if re.search(rf"\b{name}\b", text)]
    first = min(named, key=text.index, default="")
    return _told(script, call.options.get(first, call.node), error, call.options)


def _told(
    script: Script, node: ast.expr, error: RametError, options: dict[str, ast.expr]
) -> Finding:
    text = str(error)
    remedy = _REMEDIES.get(error.code, _REFUSED)
    if error.code == "blank-prompt":
        node = options.get("prompt", node)
    if isinstance(error, UnsupportedSchemaError):
        node = _node_at(script, options.get("schema", node), error.path)
        text = f"{text}: {error.__cause__}"
    member = re.match(r"choice\[(\d+)\]", text)
    if member is not None:
        node = _member_at(options.get("choice", node), int(member[1]))
        remedy = "give at least two different texts, none blank"
    elif text.startswith("choice_fallback must"):
        remedy = "take one of the members, letter by letter"
    elif text.startswith("choice "):
        remedy = "give at least two different texts, none blank"
    elif "exclude each other" in text:
        remedy = "keep one of them"
    elif text == "choice_fallback needs choice":
        remedy = "give choice, or leave the fallback out"
    return found_at(node, error.code, text, remedy)


def _member_at(node: ast.expr, index: int) -> ast.expr:
    """The member of a choice that is written out, else the whole."""
    members = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    if any(isinstance(one, ast.Starred) for one in members):
        return node
    return members[index] if index < len(members) else node


def _node_at(script: Script, node: ast.expr, path: str) -> ast.expr:
    """The node of a schema that a path names, as far as it is written out."""
    for step in _STEP.finditer(path):
        words = ["items"] if step[1] else ["properties", step[2]]
        for word in words:
            inner = _entry(script, node, word)
            if inner is None:
                return node
            node = inner
    return node


def _entry(script: Script, node: ast.expr, word: str) -> ast.expr | None:
    found = script.tree.sole(node) if isinstance(node, ast.Name) else None
    value = node if found is None else found.value
    entries: dict[object, ast.expr] = {}
    if isinstance(value, ast.Dict):
        for key, entry in zip(value.keys, value.values, strict=True):
            entries[key.value if isinstance(key, ast.Constant) else None] = entry
    return entries.get(word)


def _name(script: Script, call: FlowCall, option: str) -> Iterator[Finding]:
    value = script.known(call, option)
    if value is not UNKNOWN:
        try:
            check_name(option, value)
        except DeclarationError as error:
            yield _told(script, call.options[option], error, call.options)


def _prompt(script: Script, call: FlowCall) -> Iterator[Finding]:
    try:
        check_prompt(_known_prompt(script, call))
    except DeclarationError as error:
        yield _told(script, call.node, error, call.options)


def _spoken(script: Script, call: FlowCall) -> Iterator[Finding]:
    """A phase or a line of the journal that is no text."""
    for node in call.options.values():
        value = script.values.of(node)
        if value is UNKNOWN:
            continue
        blank = call.operation == "phase" and not str(value).strip()
        if type(value) is not str or blank:
            text = f"flow.{call.operation} takes a text, not {value!r:.60}"
            yield found_at(node, UsageError.code, text, "say it in words")


# -- objects ---------------------------------------------------------------------------


def bad_objects(script: Script) -> Iterator[Finding]:
    """Contracts, limits, policies and specs that are made of what they refuse."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.Call):
            continue
        made = _MADE.get(script.tree.origin(node.func) or "")
        if made is None:
            continue
        given = _arguments(script, node, made)
        if given is None:
            continue
        options, values = given
        try:
            made.make(**values)
        except RametError as error:
            yield _object_refusal(script, node, error, options)
        except TypeError as error:
            text = re.sub(r"^\w+\.__init__\(\)", made.make.__name__, str(error))
            yield found_at(node, "bad-option", text, "give what its signature names")


def _arguments(
    script: Script, node: ast.Call, made: _Made
) -> tuple[dict[str, ast.expr], dict[str, Any]] | None:
    """What a class is given, when that is known; code need not be."""
    options = dict(zip(made.places, node.args, strict=False))
    if len(node.args) > len(made.places):
        return None
    for word in node.keywords:
        if word.arg is None or word.arg in options:
            return None
        options[word.arg] = word.value
    values = {}
    for name, one in options.items():
        value = script.values.of(one)
        if value is not UNKNOWN:
            values[name] = value
        elif name not in made.code:
            return None
    return options, values


def _object_refusal(
    script: Script, node: ast.Call, error: RametError, options: dict[str, ast.expr]
) -> Finding:
    if isinstance(error, UnsupportedSchemaError):
        return _told(script, options["node"], error, {})
    if "members" in options:
        shown = {"choice": options["members"]}
        is_fallback = str(error).startswith("choice_fallback")
        at = options["fallback" if is_fallback else "members"]
        return _told(script, at, error, shown)
    place: ast.expr = node
    for name, one in options.items():
        if re.search(rf"\b{name}\b", str(error)):
            place = one
    return found_at(place, error.code, str(error), _REFUSED)


# -- names -----------------------------------------------------------------------------


def unknown_names(script: Script) -> Iterator[Finding]:
    """What is asked of the flow and it has not."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.Attribute) or not script.is_flow(node.value):
            continue
        if node.attr in script.face or node.attr.startswith("__"):
            continue
        close = difflib.get_close_matches(node.attr, script.face, n=1)
        remedy = f"did you mean flow.{close[0]}?" if close else "see docs/scripts.md"
        yield found_at(node, "unknown-name", f"a flow has no {node.attr!r}", remedy)
