"""The shapes of results: what an expression of a script holds, as far as that is sure.

Lives here: how the declaration of a call tells what its result is, and how names, loops
and fields lead from there.  A shape is what the script declared, never a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs

from .script_calls import AWAITED, FlowCall, Script
from .script_values import UNKNOWN

__all__ = ["Instance", "Members", "Node", "Pending", "Shape", "Shapes", "Started"]


@attrs.frozen
class Members:
    """One of the members of a choice, declared at some line."""

    members: tuple[str, ...]
    line: int = attrs.field(eq=False)


@attrs.frozen
class Node:
    """Data that meets a node of a schema, declared at some line."""

    schema: Any = attrs.field(eq=id)
    line: int = attrs.field(eq=False)


@attrs.frozen
class Instance:
    """An instance of an attrs class of the script."""

    declared: ast.ClassDef


@attrs.frozen
class Several:
    """A list or tuple of things of one shape."""

    item: Shape


@attrs.frozen
class Started:
    """A continuable child of the script, or one of its assignments."""

    kind: Literal["child", "assignment"]


@attrs.frozen
class Pending:
    """Something that gives its result only when it is awaited."""

    call: ast.Call = attrs.field(eq=id)
    result: Shape | None
    words: str


Shape: TypeAlias = Members | Node | Instance | Several | Started | Pending

_DEEPEST = 100
"""How far a shape is followed from name to name."""

_METHODS: dict[str, tuple[str, ...]] = {
    "child": ("send", "reports", "outcome"),
    "assignment": ("reports", "outcome"),
}

_CONTRACTS = {
    "ramet.Choice": ("choice", "members"),
    "ramet.Schema": ("schema", "node"),
    "ramet.Returns": ("returns", "declared"),
}

_ATTRS = frozenset(
    "attrs.frozen attrs.define attrs.mutable attr.s attr.attrs attr.frozen attr.define"
    " attr.dataclass attr.mutable".split()
)


class Shapes:
    """The shapes of the expressions of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._known: dict[ast.AST | None, Shape | None] = {}
        self._depth = 0

    def of(self, node: ast.AST | None) -> Shape | None:
        """The shape of what an expression gives, or `None`."""
        if node is not None and node not in self._known:
            # A name that is bound to itself is met again here, and has no shape.
            self._known[node] = None
            find = _FINDERS.get(type(node)) if self._depth < _DEEPEST else None
            self._depth += 1
            if find is not None:
                self._known[node] = find(self, node)
            self._depth -= 1
        return self._known.get(node)

    def each(self, node: ast.AST | None) -> Shape | None:
        """The shape of what a loop over an expression gives."""
        return _item_of(self.of(node))

    def result(self, call: FlowCall) -> Shape | None:
        """The shape of what an awaited call gives."""
        if call.operation == "spawn":
            return Started("child")
        if call.operation == "parallel":
            return self._of_group(call.options.get("members"))
        if call.operation != "agent" or call.is_open or "result" in call.options:
            return None
        script, line = self.script, call.node.lineno
        given = [
            name
            for name in ("contract", "choice", "schema", "returns", "text")
            if name in call.options
            and script.values.of(call.options[name]) not in (None, False)
        ]
        if len(given) != 1:
            return None
        return self._declared(given[0], call.options[given[0]], line)

    def _of_group(self, members: ast.expr | None) -> Shape | None:
        """The results of a group whose members all give the same."""
        if isinstance(members, (ast.ListComp, ast.GeneratorExp)):
            found = [self._of_function(members.elt)]
        elif isinstance(members, (ast.List, ast.Tuple)):
            found = [self._of_function(one) for one in members.elts]
        else:
            return None
        first = found[0] if found else None
        same = first is not None and all(one == first for one in found)
        return Several(first) if same and first is not None else None

    def _of_function(self, node: ast.expr) -> Shape | None:
        """What a member of a group gives: a `partial` of a call, or a lambda of one."""
        call = self.script.by_node.get(node)
        if call is not None and call.later:
            return self.result(call)
        if isinstance(node, ast.Lambda):
            shape = self.of(node.body)
            return shape.result if isinstance(shape, Pending) else None
        return None

    def is_attrs(self, node: ast.ClassDef) -> bool:
        """Whether a class is decorated as an attrs class."""
        for one in node.decorator_list:
            made = one.func if isinstance(one, ast.Call) else one
            if self.script.tree.origin(made) in _ATTRS:
                return True
        return False

    def _declared(self, kind: str, node: ast.expr, line: int) -> Shape | None:
        tree = self.script.tree
        found = tree.sole(node) if isinstance(node, ast.Name) else None
        made = node if found is None or found.value is None else found.value
        if isinstance(made, ast.Call):
            contract = _CONTRACTS.get(tree.origin(made.func) or "")
            if contract is not None:
                kind, word = contract
                words = {one.arg: one.value for one in made.keywords}
                first = made.args[0] if made.args else words.get(word)
                return None if first is None else self._of_kind(kind, first, line)
        return self._of_kind(kind, node, line)

    def _of_kind(self, kind: str, node: ast.expr, line: int) -> Shape | None:
        """The shape of what one kind of contract asks for."""
        if kind == "returns":
            return self._instance(node)
        value = self.script.values.of(node)
        if kind == "text":
            return Node({"type": "string"}, line) if value is True else None
        if kind == "choice":
            return _members(value, line)
        is_schema = kind == "schema" and isinstance(value, dict)
        return Node(value, line) if is_schema else None

    def _instance(self, node: ast.expr) -> Shape | None:
        found = self.script.tree.class_of(node)
        if found is not None and self.is_attrs(found):
            return Instance(found)
        return None

    # -- how expressions lead on -------------------------------------------------------

    def _awaited(self, node: ast.Await) -> Shape | None:
        shape = self.of(node.value)
        return shape.result if isinstance(shape, Pending) else None

    def _called(self, node: ast.Call) -> Shape | None:
        call = self.script.by_node.get(node)
        if call is not None and not call.later and call.operation in AWAITED:
            return Pending(node, self.result(call), f"flow.{call.operation}")
        if not isinstance(node.func, ast.Attribute):
            return None
        name, owner = node.func.attr, self.of(node.func.value)
        if isinstance(owner, Started) and name in _METHODS[owner.kind]:
            later = Started("assignment") if name == "send" else None
            return Pending(node, later, f"{owner.kind}.{name}")
        if isinstance(owner, Node) and name == "get" and node.args:
            return _member_of(owner, self.script.values.of(node.args[0]))
        return None

    def _name(self, node: ast.Name) -> Shape | None:
        found = self.script.tree.bindings(node)
        shapes: list[Shape | None] = []
        texts: list[str] = []
        for one in found:
            if one.how == "each":
                shapes.append(self.each(one.value))
                continue
            value = self.script.values.of(one.value) if one.how == "value" else UNKNOWN
            if type(value) is str:
                texts.append(value)
            else:
                shapes.append(self.of(one.value) if one.how == "value" else None)
        if not shapes or None in shapes:
            return None
        first = shapes[0]
        if isinstance(first, Members) and len(found) > 1:
            return _either(shapes, texts)
        if texts or any(shape != first for shape in shapes):
            return None
        return first

    def _assigned(self, node: ast.NamedExpr) -> Shape | None:
        return self.of(node.value)

    def _attribute(self, node: ast.Attribute) -> Shape | None:
        owner = self.of(node.value)
        if isinstance(owner, Started):
            is_assignment = owner.kind == "child" and node.attr == "assignment"
            return Started("assignment") if is_assignment else None
        if not isinstance(owner, Instance):
            return None
        for one in owner.declared.body:
            if (
                isinstance(one, ast.AnnAssign)
                and isinstance(one.target, ast.Name)
                and one.target.id == node.attr
            ):
                return self._hinted(one.annotation)
        return None

    def _hinted(self, hint: ast.expr) -> Shape | None:
        if isinstance(hint, ast.Name):
            return self._instance(hint)
        if not isinstance(hint, ast.Subscript):
            return None
        if self.script.tree.origin(hint.value) not in ("builtins.list",):
            return None
        item = self._hinted(hint.slice)
        return None if item is None else Several(item)

    def _subscript(self, node: ast.Subscript) -> Shape | None:
        owner = self.of(node.value)
        place = self.script.values.of(node.slice)
        if isinstance(owner, Node):
            return _member_of(owner, place)
        return _item_of(owner) if type(place) is int else None


def _either(shapes: list[Shape | None], texts: list[str]) -> Shape | None:
    """A name that is given several choices, or a text first: any of the members."""
    members: dict[str, None] = dict.fromkeys(texts)
    line = 0
    for shape in shapes:
        if not isinstance(shape, Members):
            return None
        line = line or shape.line
        members |= dict.fromkeys(shape.members)
    return Members(tuple(members), line)


def _item_of(shape: Shape | None) -> Shape | None:
    if isinstance(shape, Several):
        return shape.item
    if isinstance(shape, Node) and shape.schema.get("type") == "array":
        return _node(shape.schema.get("items"), shape.line)
    return None


def _member_of(owner: Node, place: object) -> Shape | None:
    if type(place) is int:
        return _item_of(owner)
    properties = owner.schema.get("properties")
    if type(place) is str and isinstance(properties, dict):
        return _node(properties.get(place), owner.line)
    return None


def _node(schema: object, line: int) -> Shape | None:
    if not isinstance(schema, dict):
        return None
    members = schema.get("enum")
    choice = _members(members, line) if schema.get("type") == "string" else None
    return choice or Node(schema, line)


def _members(value: object, line: int) -> Members | None:
    if not isinstance(value, (list, tuple)):
        return None
    is_text = all(type(one) is str for one in value)
    return Members(tuple(value), line) if is_text else None


_FINDERS: dict[type[ast.AST], Callable[[Shapes, Any], Shape | None]] = {
    ast.Await: Shapes._awaited,
    ast.Call: Shapes._called,
    ast.Name: Shapes._name,
    ast.NamedExpr: Shapes._assigned,
    ast.Attribute: Shapes._attribute,
    ast.Subscript: Shapes._subscript,
}
