"""A script as its calls: what it asks of the flow, where, and what each is to give.

Lives here: the model that every rule of `ramet check` reads: which names mean the flow,
the calls that are made of it, and the functions that start agents.  It judges nothing.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import attrs

from .script_tree import Function, Tree
from .script_values import UNKNOWN, Values

__all__ = ["AWAITED", "STARTING", "Face", "FlowCall", "Script"]

Face: TypeAlias = Mapping[str, inspect.Signature | None]
"""The names that a flow has; each method with its signature."""

STARTING = frozenset(("agent", "spawn"))
"""What starts an agent."""

AWAITED = frozenset(("agent", "spawn", "parallel"))
"""What is awaited."""

_PARTIALS = ("functools.partial",)

_NAMED = inspect.Parameter.KEYWORD_ONLY

_MOST_NAMES = 8
"""How many names may lead from one to the other."""


@attrs.frozen(eq=False)
class FlowCall:
    """One call of the flow, made here or to be made by a `partial`.

    Attributes:
        node: the call.
        operation: the name of the method.
        options: what it is given, by the names of its parameters.
        is_open: whether it may be given more, by `*` or `**`.
        later: whether it is a `partial`, which makes the call when it is called.
        names: the names of all parameters, when the method is known.
        extra: arguments that the method does not take: a name, or `None` for one too
            many, each with the node.
    """

    node: ast.Call
    operation: str
    options: dict[str, ast.expr]
    is_open: bool
    later: bool
    names: tuple[str, ...] = ()
    extra: tuple[tuple[str | None, ast.expr], ...] = ()


class Script:
    """A script, as the rules read it.

    Args:
        tree: its tree.
        face: what a flow offers.
    """

    def __init__(self, tree: Tree, face: Face) -> None:
        self.tree = tree
        self.face = face
        self.values: Values = Values(tree)
        self.main: Function | None = self._main()
        self.flows: set[ast.arg] = set(self._flow_arguments())
        self._hand_on()
        self.calls: list[FlowCall] = list(self._calls())
        self.by_node: dict[ast.AST, FlowCall] = {call.node: call for call in self.calls}
        self.starters: set[ast.AST] = self._starters()

    def of(self, *operations: str) -> Iterator[FlowCall]:
        """The calls of some operations, in the order of the text."""
        return (call for call in self.calls if call.operation in operations)

    def is_flow(self, node: ast.AST) -> bool:
        """Whether an expression surely is the flow."""
        for _ in range(_MOST_NAMES):
            found = self.tree.sole(node) if isinstance(node, ast.Name) else None
            if found is None:
                return False
            if found.node in self.flows:
                return True
            if found.how != "value" or found.value is None:
                return False
            node = found.value
        return False

    def starts(self, node: ast.AST) -> ast.Call | None:
        """The first call at or below a node that starts agents, or `None`.

        Bodies of functions that stand there are not looked into; those of functions
        that are called there are.
        """
        for one in self.tree.below(node):
            if not isinstance(one, ast.Call):
                continue
            call = self.by_node.get(one)
            if call is not None and call.operation in AWAITED and not call.later:
                return one
            if self.tree.defined(one.func) in self.starters:
                return one
        return None

    def text(self, node: ast.expr | None) -> str | None:
        """The text that an expression surely is, or `None`."""
        value = self.values.of(node)
        return value if type(value) is str else None

    # -- reading -----------------------------------------------------------------------

    def _main(self) -> Function | None:
        """The `main` of the module, when there is just one and it is a function."""
        found = self.tree.top.bindings.get("main", [])
        if len(found) != 1 or not isinstance(
            found[0].node, (ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            return None
        return found[0].node

    def _flow_arguments(self) -> Iterator[ast.arg]:
        """The parameters that are a flow by their hint, and that of main."""
        for node in self.tree.nodes:
            if isinstance(node, ast.arg) and node.annotation is not None:
                hint = node.annotation
                name = self.tree.origin(hint) or ""
                if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
                    name = f"ramet.{hint.value}"
                if re.fullmatch(r"ramet\.(.*\.)?Flow", name):
                    yield node
        if self.main is not None:
            yield from _places(self.main)[:1]

    def _hand_on(self) -> None:
        """Find the parameters that are given the flow where the script calls them."""
        before = -1
        while before != len(self.flows):
            before = len(self.flows)
            for node in self.tree.nodes:
                if isinstance(node, ast.Call):
                    self.flows.update(self._given(node))

    def _given(self, node: ast.Call) -> Iterator[ast.arg]:
        called, given = self.tree.defined(node.func), node.args
        if called is None and given:
            # `start_soon`, `partial`, `bind`: what is called then stands first.
            called, given = self.tree.defined(given[0]), given[1:]
        if called is None:
            return
        places = _places(called)
        for place, value in zip(places, given, strict=False):
            if self.is_flow(value):
                yield place
        for word in node.keywords:
            if self.is_flow(word.value):
                yield from (one for one in places if one.arg == word.arg)

    def _calls(self) -> Iterator[FlowCall]:
        for node in self.tree.nodes:
            if not isinstance(node, ast.Call):
                continue
            operation = self._operation(node.func)
            if operation is not None:
                yield self._call(node, operation, node.args, later=False)
            elif self.tree.origin(node.func) in _PARTIALS and node.args:
                operation = self._operation(node.args[0])
                if operation is not None:
                    yield self._call(node, operation, node.args[1:], later=True)

    def _operation(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute) and self.is_flow(node.value):
            return node.attr
        return None

    def _call(
        self, node: ast.Call, operation: str, given: list[ast.expr], *, later: bool
    ) -> FlowCall:
        signature = self.face.get(operation)
        parameters = () if signature is None else signature.parameters.values()
        names = tuple(one.name for one in parameters)
        places = [one.name for one in parameters if one.kind is not _NAMED]
        options: dict[str, ast.expr] = {}
        extra: list[tuple[str | None, ast.expr]] = []
        is_open = any(word.arg is None for word in node.keywords)
        for place, value in enumerate(given):
            if isinstance(value, ast.Starred):
                is_open = True
                break
            if place < len(places):
                options[places[place]] = value
            elif signature is not None:
                extra.append((None, value))
        for word in node.keywords:
            if word.arg is None:
                continue
            if signature is not None and word.arg not in names:
                extra.append((word.arg, word.value))
            else:
                options[word.arg] = word.value
        return FlowCall(node, operation, options, is_open, later, names, tuple(extra))

    def _starters(self) -> set[ast.AST]:
        """The functions of the script in whose bodies agents are started."""
        found: set[ast.AST] = set()
        for call in self.calls:
            if call.operation in STARTING:
                found.update(self._within(call.node))
        callers: dict[ast.AST, set[ast.AST]] = {}
        for node in self.tree.nodes:
            called = self.tree.defined(node)
            if called is not None and isinstance(node, ast.Name):
                callers.setdefault(called, set()).update(self._within(node))
        waiting = list(found)
        while waiting:
            for caller in callers.get(waiting.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    waiting.append(caller)
        return found

    def _within(self, node: ast.AST) -> Iterator[ast.AST]:
        """The named functions in which a node stands."""
        for one in self.tree.around(node):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield one

    def known(self, call: FlowCall, option: str) -> object:
        """The value of an option: `None` when it is absent, `UNKNOWN` in doubt."""
        node = call.options.get(option)
        if node is not None:
            return self.values.of(node)
        return UNKNOWN if call.is_open else None


def _places(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]
