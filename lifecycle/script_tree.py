"""A script as a tree: its syntax, and what each of its names can mean.

Lives here: scopes, bindings and the ways from a node to what is around it.  A name is
resolved only when there is no doubt: one that is bound twice, or that an inner function
may bind again, means nothing here.  It knows no agent, and it never runs what it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

__all__ = ["Binding", "Function", "Scope", "Tree"]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
How: TypeAlias = Literal["value", "each", "parameter", "import", "function", "other"]

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OPENING = (ast.Lambda, ast.ClassDef)
_WITHIN = (ast.arguments, ast.comprehension)


@attrs.frozen(eq=False)
class Binding:
    """One place where a name gets a meaning.

    Attributes:
        how: whether it gets a value, each item of one, or something else.
        node: where that stands.
        value: what it gets, or of what it gets each item; `None`: that is not known.
        origin: of an import, what is imported, with dots.
    """

    how: How
    node: ast.AST
    value: ast.expr | None = None
    origin: str | None = None


class Scope:
    """The names of one module, class, function or comprehension."""

    def __init__(self, node: ast.AST, outer: Scope | None) -> None:
        self.node = node
        self.outer = outer
        self.bindings: dict[str, list[Binding]] = {}

    def bind(self, name: str, binding: Binding) -> None:
        """Note one more place that binds a name."""
        self.bindings.setdefault(name, []).append(binding)


class Tree:
    """The tree of a script.

    Args:
        module: its syntax.
    """

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.nodes: list[ast.AST] = []
        self.shared: set[str] = set()
        """Names that some function declares `global` or `nonlocal`."""
        self.star: bool = False
        """Whether names came in by `import *`."""
        self.top: Scope = Scope(module, None)
        self._read(module)

    # -- around a node -----------------------------------------------------------------

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the nearest on."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function(self, node: ast.AST) -> ast.AST:
        """The function, lambda or module in whose body a node stands."""
        inner, outer = node, self.parents.get(node, self.module)
        while outer is not self.module and not _is_body(outer, inner):
            inner, outer = outer, self.parents[outer]
        return outer

    def below(self, node: ast.AST) -> Iterator[ast.AST]:
        """A node and what is below it, without the bodies of functions in it."""
        stack = [node]
        while stack:
            one = stack.pop()
            yield one
            for child in reversed(list(ast.iter_child_nodes(one))):
                if not isinstance(child, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
                    stack.append(child)

    # -- names -------------------------------------------------------------------------

    def bindings(self, name: ast.Name) -> list[Binding]:
        """All places that may bind a name as it is read here; empty when in doubt."""
        if name.id in self.shared:
            return []
        start = self.scopes[name]
        scope: Scope | None = start
        while scope is not None:
            inside = scope is start or not isinstance(scope.node, ast.ClassDef)
            if inside and name.id in scope.bindings:
                return scope.bindings[name.id]
            scope = scope.outer
        return []

    def sole(self, name: ast.Name) -> Binding | None:
        """The only place that binds a name, or `None`."""
        found = self.bindings(name)
        return found[0] if len(found) == 1 else None

    def origin(self, node: ast.AST) -> str | None:
        """The dotted name of what an expression means, through the imports.

        A name that nothing binds is one of `builtins`.
        """
        steps: list[str] = []
        while isinstance(node, ast.Attribute):
            steps.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.shared:
            return None
        found = self.bindings(node)
        origins = {one.origin for one in found}
        if not found:
            if self.star:
                return None
            origins = {f"builtins.{node.id}"}
        if len(origins) != 1:
            return None
        (first,) = origins
        return None if first is None else ".".join([first, *reversed(steps)])

    def defined(self, node: ast.AST) -> Function | None:
        """The function of this script that an expression names, or `None`."""
        if not isinstance(node, ast.Name):
            return None
        found = self.sole(node)
        if found is not None and isinstance(found.node, _FUNCTIONS):
            return found.node
        return None

    def class_of(self, node: ast.AST | None) -> ast.ClassDef | None:
        """The class of this script that an expression names, or `None`."""
        if not isinstance(node, ast.Name):
            return None
        found = self.sole(node)
        if found is not None and isinstance(found.node, ast.ClassDef):
            return found.node
        return None

    # -- reading -----------------------------------------------------------------------

    def _read(self, module: ast.Module) -> None:
        """Walk the whole tree once, without recursion."""
        stack: list[tuple[ast.AST, Scope]] = [(module, self.top)]
        while stack:
            node, scope = stack.pop()
            self.scopes[node] = scope
            self.nodes.append(node)
            self._bind(node, scope)
            inner = scope
            if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, *_OPENING)):
                inner = Scope(node, scope)
            outside = _outside(node)
            around = scope.outer if isinstance(node, _WITHIN) else scope
            for child in reversed(list(ast.iter_child_nodes(node))):
                self.parents[child] = node
                stack.append((child, around or scope if child in outside else inner))

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            scope.bind(node.name, Binding("function", node))
        elif isinstance(node, ast.arg):
            scope.bind(node.arg, Binding("parameter", node))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                origin = alias.name if alias.asname else name
                scope.bind(name, Binding("import", node, origin=origin))
        elif isinstance(node, ast.ImportFrom):
            self._bind_from(node, scope)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.shared.update(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._bind_name(node, scope)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if node.name is not None:
                scope.bind(node.name, Binding("other", node))
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            scope.bind(node.rest, Binding("other", node))

    def _bind_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.star = True
                continue
            origin = f"{'.' * node.level}{node.module or ''}.{alias.name}"
            name = alias.asname or alias.name
            scope.bind(name, Binding("import", node, origin=origin))

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        parent = self.parents[node]
        how: How = "other"
        value: ast.expr | None = None
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            how, value = "value", parent.value
        elif isinstance(parent, (ast.For, ast.comprehension)) and not (
            isinstance(parent, ast.comprehension) and parent.is_async
        ):
            how, value = "each", parent.iter
        if isinstance(parent, ast.NamedExpr):
            # What a comprehension names by `:=` is a name of the function around it.
            while isinstance(scope.node, _COMPREHENSIONS) and scope.outer is not None:
                scope = scope.outer
        if isinstance(parent, ast.AnnAssign) and value is None:
            return
        scope.bind(node.id, Binding(how, node, value))


def _is_body(function: ast.AST, node: ast.AST) -> bool:
    if isinstance(function, ast.Lambda):
        return node is function.body
    return isinstance(function, _FUNCTIONS) and node in function.body


def _outside(node: ast.AST) -> set[ast.AST]:
    """The children that are worked out where a function, class or loop stands."""
    if isinstance(node, ast.ClassDef):
        return {*node.bases, *node.keywords, *node.decorator_list}
    if isinstance(node, _FUNCTIONS):
        return {*node.decorator_list, *([node.returns] if node.returns else [])}
    if isinstance(node, ast.arguments):
        return {*node.defaults, *(one for one in node.kw_defaults if one)}
    return {node.iter} if isinstance(node, ast.comprehension) else set()
