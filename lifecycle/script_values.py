"""What an expression of a script surely is, worked out without running it.

Lives here: constants, and the names and operations that make constants of constants.
Whatever may be changed elsewhere in the script is not known, and neither is what would
take more than a bound to work out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from .script_tree import Tree

__all__ = ["UNKNOWN", "Values"]


UNKNOWN: Final[object] = object()
"""The value of what cannot be known without running the script."""

_LARGEST = 100_000
_DEEPEST = 100
"""How large a value may become, and how far it is followed."""

_SIZED = (str, bytes, list, tuple, set, dict)

_LISTS: dict[str, Callable[[Any], Any]] = {
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.sorted": sorted,
}

_ONLY_READ = frozenset(
    "len list tuple sorted set frozenset dict str repr print enumerate zip any all min"
    " max reversed isinstance join format keys values items get index count copy"
    " agent spawn Choice Schema check dumps log partial".split()
)
"""Functions and methods that do not change what they are given or belong to."""

_CONTRACTS = ("Reply", "Choice", "Schema", "Returns", "Text")
_MAKERS = (*(f"ramet.{name}" for name in _CONTRACTS), *_LISTS)

_HOLDING = (ast.Starred, ast.keyword, ast.List, ast.Tuple, ast.Dict)

_DISPLAYS = (
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""What makes a new object, whatever it holds."""


class Values:
    """The values of the expressions of one script.

    Args:
        tree: the script.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._known: dict[ast.AST, Any] = {}
        self._depth = 0
        self._weights: dict[int, int] = {}
        self._held: list[Any] = []
        self._changed: dict[str, bool] = {}

    def of(self, node: ast.expr | None) -> Any:
        """The value of an expression, or `UNKNOWN`."""
        if node is None:
            return UNKNOWN
        if node not in self._known:
            # A name that is bound to itself is met again here, and is not known.
            self._known[node] = UNKNOWN
            find = _FINDERS.get(type(node)) if self._depth < _DEEPEST else None
            self._depth += 1
            value = UNKNOWN if find is None else find(self, node)
            self._depth -= 1
            if value is not UNKNOWN and self._weigh(value) <= _LARGEST:
                self._known[node] = value
        return self._known[node]

    def is_given(self, node: ast.expr) -> bool:
        """Whether what has no known value is surely something else than `None`."""
        if isinstance(node, ast.Name):
            found = self.tree.sole(node)
            if found is None:
                return False
            if isinstance(found.node, ast.ClassDef):
                return True
            return found.how == "value" and isinstance(found.value, _DISPLAYS)
        if isinstance(node, ast.Call):
            return self.tree.origin(node.func) in _MAKERS
        return isinstance(node, _DISPLAYS)

    def may_change(self, name: str) -> bool:
        """Whether what a name means may be changed in place, anywhere in the script."""
        if name not in self._changed:
            self._changed[name] = any(
                isinstance(node, ast.Name)
                and node.id == name
                and isinstance(node.ctx, ast.Load)
                and not _only_reads(self.tree, node)
                for node in self.tree.nodes
            )
        return self._changed[name]

    def _weigh(self, value: Any) -> int:
        """How large a value is, counting what it holds twice twice."""
        if not isinstance(value, _SIZED):
            return 1
        weight = self._weights.get(id(value))
        if weight is None:
            weight = 1 + len(value)
            if isinstance(value, dict):
                weight += sum(map(self._weigh, value.values()))
            elif not isinstance(value, (str, bytes)):
                weight += sum(map(self._weigh, value))
            if not isinstance(value, (str, bytes)):
                self._weights[id(value)] = weight
                self._held.append(value)
        return weight


def _constant(values: Values, node: ast.Constant) -> Any:
    return node.value


def _items(values: Values, node: ast.List | ast.Tuple | ast.Set) -> Any:
    found: list[Any] = []
    for one in node.elts:
        if isinstance(one, ast.Starred):
            more = values.of(one.value)
            if not isinstance(more, (list, tuple)):
                return UNKNOWN
            found.extend(more)
        else:
            found.append(values.of(one))
    if any(one is UNKNOWN for one in found):
        return UNKNOWN
    if isinstance(node, ast.Set):
        try:
            return set(found)
        except TypeError:
            return UNKNOWN
    return found if isinstance(node, ast.List) else tuple(found)


def _dict(values: Values, node: ast.Dict) -> Any:
    found: dict[Any, Any] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        value = values.of(item)
        if key is None:
            if not isinstance(value, dict):
                return UNKNOWN
            found |= value
            continue
        name = values.of(key)
        if value is UNKNOWN or not isinstance(name, (str, int, float, type(None))):
            return UNKNOWN
        found[name] = value
    return found


def _name(values: Values, node: ast.Name) -> Any:
    found = values.tree.sole(node)
    if found is None or found.how != "value":
        return UNKNOWN
    value = values.of(found.value)
    if isinstance(value, (list, dict, set)) and values.may_change(node.id):
        return UNKNOWN
    return value


def _only_reads(tree: Tree, name: ast.Name) -> bool:
    """Whether the place where a name stands surely changes nothing of it."""
    node: ast.AST = name
    parent = tree.parents[node]
    while isinstance(parent, (ast.Subscript, ast.Attribute, *_HOLDING)):
        if isinstance(parent, (ast.Subscript, ast.Attribute)):
            if parent.value is not node:
                return True
            if not isinstance(parent.ctx, ast.Load):
                return False
        node, parent = parent, tree.parents[parent]
    if isinstance(parent, ast.Call):
        called = parent.func
        last = called.attr if isinstance(called, ast.Attribute) else None
        if isinstance(called, ast.Name):
            last = called.id
        return last in _ONLY_READ
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        # Another name for it, or a part of another constant.
        return node is not name and isinstance(node, (ast.List, ast.Dict))
    return not isinstance(parent, (ast.AugAssign, ast.Yield))


def _joined(values: Values, node: ast.JoinedStr) -> Any:
    found = []
    for one in node.values:
        if isinstance(one, ast.FormattedValue):
            plain = one.conversion == -1 and one.format_spec is None
            value = values.of(one.value) if plain else UNKNOWN
        else:
            value = values.of(one)
        if type(value) is not str:
            return UNKNOWN
        found.append(value)
    return "".join(found)


def _added(values: Values, node: ast.BinOp) -> Any:
    left = values.of(node.left)
    right = values.of(node.right)
    if type(left) is not type(right):
        return UNKNOWN
    if isinstance(node.op, ast.Add) and isinstance(left, (str, list, tuple)):
        return left + right
    if isinstance(node.op, ast.BitOr) and isinstance(left, dict):
        return left | right
    return UNKNOWN


def _negative(values: Values, node: ast.UnaryOp) -> Any:
    value = values.of(node.operand)
    if isinstance(node.op, ast.USub) and type(value) in (int, float):
        return -value
    return UNKNOWN


def _item(values: Values, node: ast.Subscript) -> Any:
    value = values.of(node.value)
    place = values.of(node.slice)
    if not isinstance(value, (list, tuple, dict)) or place is UNKNOWN:
        return UNKNOWN
    try:
        return value[place]
    except (LookupError, TypeError):
        return UNKNOWN


def _called(values: Values, node: ast.Call) -> Any:
    if len(node.args) != 1 or node.keywords:
        return UNKNOWN
    name = values.tree.origin(node.func) or ""
    if name in ("typing.get_args", "typing_extensions.get_args"):
        return _literal(values, node.args[0])
    make = _LISTS.get(name)
    value = values.of(node.args[0])
    if make is None or not isinstance(value, (list, tuple)):
        return UNKNOWN
    try:
        return make(value)
    except TypeError:
        return UNKNOWN


def _literal(values: Values, node: ast.expr) -> Any:
    """The members of `Literal[...]`, which may have a name."""
    if isinstance(node, ast.Name):
        found = values.tree.sole(node)
        if found is None or found.how != "value" or found.value is None:
            return UNKNOWN
        node = found.value
    if not isinstance(node, ast.Subscript):
        return UNKNOWN
    if values.tree.origin(node.value) not in (
        "typing.Literal",
        "typing_extensions.Literal",
    ):
        return UNKNOWN
    value = values.of(node.slice)
    members = value if isinstance(value, tuple) else (value,)
    # `Literal` drops what it holds twice; then the numbers here would not be its own.
    if any(type(one) is not str for one in members) or len(set(members)) < len(members):
        return UNKNOWN
    return members


_FINDERS: dict[type[ast.AST], Callable[[Values, Any], Any]] = {
    ast.Constant: _constant,
    ast.List: _items,
    ast.Tuple: _items,
    ast.Set: _items,
    ast.Dict: _dict,
    ast.Name: _name,
    ast.JoinedStr: _joined,
    ast.BinOp: _added,
    ast.UnaryOp: _negative,
    ast.Subscript: _item,
    ast.Call: _called,
}
