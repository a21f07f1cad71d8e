"""Labels that are met again: calls that share one, side by side or one after the other.

Lives here: the rule of labels, and what it needs to know: which calls a loop makes at
once, in which phase a call stands, and which two calls are never both made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .script_calls import STARTING, FlowCall, Script
from .script_finding import Finding, found_at

__all__ = ["repeated_labels"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_TASKS = ("start_soon", "start", "create_task")


def repeated_labels(script: Script) -> Iterator[Finding]:
    """Calls that have one label in one phase."""
    labelled = []
    for call in script.of(*STARTING):
        label = script.text(call.options.get("label"))
        if label is not None:
            labelled.append((call, label))
    yield from _side_by_side(script, labelled)
    yield from _one_after_the_other(script, labelled)


def _side_by_side(
    script: Script, labelled: list[tuple[FlowCall, str]]
) -> Iterator[Finding]:
    """A call that a loop makes many times at once, each with the same label."""
    many = _made_at_once(script)
    for call, label in labelled:
        at = call.options["label"]
        where = [call.node, *_enclosing(script, call.node)]
        if any(one in many for one in where) and not _phases(script, where):
            text = (
                f"the label {label!r} is that of every call that runs here side by"
                " side: the second is refused (slot-conflict)"
            )
            remedy = 'make the label of what differs, such as label=f"...{item}"'
            yield found_at(at, "repeated-label", text, remedy)


def _phases(script: Script, where: list[ast.AST]) -> bool:
    """Whether a phase is named on the way, which makes other labels of the same."""
    return any(script.tree.function(call.node) in where for call in script.of("phase"))


def _enclosing(script: Script, node: ast.AST) -> Iterator[ast.AST]:
    """The functions that a call is made in, without `main`."""
    for one in script.tree.around(node):
        if isinstance(one, _FUNCTIONS) and one is not script.main:
            yield one


def _made_at_once(script: Script) -> set[ast.AST]:
    """What a loop starts again and again without waiting: calls, and functions."""
    found: set[ast.AST] = set()
    for node in script.tree.nodes:
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            if not _is_waited_for(node.elt):
                found |= _made_by(script, node.elt)
        elif isinstance(node, ast.Call) and _method(node) in _TASKS:
            for argument in node.args[:1]:
                if _in_loop(script, node):
                    found |= _made_by(script, argument)
    return found


def _is_waited_for(node: ast.expr) -> bool:
    """Whether an item is finished before the next is begun."""
    return any(isinstance(one, ast.Await) for one in ast.walk(node)) and not isinstance(
        node, ast.Lambda
    )


def _made_by(script: Script, node: ast.expr) -> set[ast.AST]:
    """The calls of the flow, and the functions, that an expression will make."""
    if isinstance(node, ast.Lambda):
        return {node} | _made_by(script, node.body)
    if isinstance(node, ast.Name):
        found = script.tree.defined(node)
        return set() if found is None else {found}
    if not isinstance(node, ast.Call):
        return set()
    if node in script.by_node:
        return {node}
    if script.tree.origin(node.func) == "functools.partial" and node.args:
        return _made_by(script, node.args[0])
    if _method(node) in ("bind", "create_task", "ensure_future") and node.args:
        return _made_by(script, node.args[0])
    return _made_by(script, node.func) if isinstance(node.func, ast.Name) else set()


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _in_loop(script: Script, node: ast.AST) -> bool:
    for one in script.tree.around(node):
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While, *_COMPREHENSIONS)):
            return True
        if isinstance(one, _FUNCTIONS):
            break
    return False


def _one_after_the_other(
    script: Script, labelled: list[tuple[FlowCall, str]]
) -> Iterator[Finding]:
    """Two calls in one function that share phase and label."""
    seen: dict[tuple[ast.AST, str, str], list[FlowCall]] = {}
    for call, label in labelled:
        function = script.tree.function(call.node)
        if isinstance(function, ast.Lambda):
            function = script.tree.function(function)
        phase = _phase_before(script, function, call)
        if phase is None:
            continue
        earlier = seen.setdefault((function, phase, label), [])
        for other in earlier:
            if not _exclude_each_other(script, other.node, call.node):
                text = (
                    f"the label {label!r} is also that of the call of line"
                    f" {other.node.lineno}, in the same phase"
                )
                remedy = "give each call a label of its own"
                yield found_at(call.options["label"], "repeated-label", text, remedy)
                break
        earlier.append(call)


def _phase_before(script: Script, function: ast.AST, call: FlowCall) -> str | None:
    """A name of the phase that a call stands in, or `None` when it is not sure.

    Functions that the script calls may name phases too, so that nothing is sure then.
    """
    last = ""
    for one in script.of("phase"):
        if script.tree.function(one.node) is not function:
            return None
        if _position(one.node) < _position(call.node):
            last = f"{one.node.lineno}:{one.node.col_offset}"
    return last


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _exclude_each_other(script: Script, first: ast.AST, second: ast.AST) -> bool:
    """Whether at most one of two nodes is reached: they stand in different branches."""
    ways = dict(_ways(script, first))
    for one, place in _ways(script, second):
        if one in ways and ways[one] != place:
            return True
    # After a branch that returns, the rest is another branch.
    for one in script.tree.around(first):
        if isinstance(one, ast.If) and second not in set(ast.walk(one)):
            block = one.body if _is_in(script, first, one.body) else one.orelse
            if isinstance(block[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                return True
    return False


def _is_in(script: Script, node: ast.AST, block: list[ast.stmt]) -> bool:
    return any(one in block for one in (node, *script.tree.around(node)))


def _ways(script: Script, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Each branching around a node, and which branch the node is in."""
    inner = node
    for outer in script.tree.around(node):
        if isinstance(outer, (ast.If, ast.IfExp)):
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if inner is not outer.test:
                yield outer, "body" if inner in body else "orelse"
        elif isinstance(outer, ast.Match):
            yield outer, str(getattr(inner, "lineno", id(inner)))
        elif isinstance(outer, (ast.Try, ast.TryStar)):
            if isinstance(inner, ast.ExceptHandler):
                yield outer, f"handler {inner.lineno}"
            elif inner in outer.body:
                yield outer, "body"
        inner = outer
