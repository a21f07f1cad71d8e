"""How a script uses what its agents give: before it is there, or what it never holds.

Lives here: the rules of awaiting, of fields and of what becomes the result of the run.
Those of choices are in `script_branches.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..mailbox.canonical import freeze
from ..mailbox.errors import UsageError
from ..mailbox.frozen import FrozenDict
from .script_calls import Script
from .script_finding import Finding, found_at
from .script_shapes import Instance, Node, Pending, Shapes
from .script_values import UNKNOWN

__all__ = ["bad_results", "changed_results", "not_awaited", "unknown_fields"]

_READING = (ast.FormattedValue, ast.BinOp, ast.Starred)
"""What always reads the result that something gives, and not the thing itself."""

_LISTING = (ast.List, ast.Tuple, ast.Starred, ast.ListComp, ast.GeneratorExp)
"""What may hold the members of a group."""

_TAKING = frozenset(
    f"builtins.{name}"
    for name in (
        "all any dict enumerate iter len list max min reversed set sorted sum tuple zip"
    ).split()
)
"""What reads an argument at once, so that what was not awaited fails there."""

_OF_A_COROUTINE = frozenset(("close", "send", "throw", "cr_frame", "cr_running"))

_WRITING = frozenset(
    "append extend insert remove pop popitem clear update setdefault sort".split()
)

_PLAIN = ("phase", "log", "items")


# -- awaiting --------------------------------------------------------------------------


def not_awaited(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """Results that are used, or dropped, before they were awaited."""
    for node in script.tree.nodes:
        if isinstance(node, ast.Call):
            shape = shapes.of(node)
            if isinstance(shape, Pending):
                yield from _dropped(script, node, shape)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            shape = shapes.of(node)
            if isinstance(shape, Pending) and _reads(script, node):
                text = (
                    f"{node.id!r} is used before it was awaited: it is the call"
                    f" {shape.words} of line {shape.call.lineno}, not its result"
                )
                yield found_at(node, "not-awaited", text, f"write: await {node.id}")
        elif isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            call = script.by_node.get(node.value)
            if call is not None and call.operation in _PLAIN and not call.later:
                text = f"flow.{call.operation} is no coroutine, and is not awaited"
                yield found_at(node, "not-awaited", text, "leave the await out")


def _dropped(script: Script, node: ast.Call, shape: Pending) -> Iterator[Finding]:
    """A call whose result is read, or whose coroutine nobody can await any more."""
    parent = script.tree.parents.get(node)
    text = None
    if isinstance(parent, ast.Expr):
        text = f"{shape.words} is called and never awaited: nothing happens"
    elif _reads(script, node):
        text = f"the result of {shape.words} is used before it was awaited"
    elif isinstance(parent, ast.Return) and script.tree.function(node) is script.main:
        text = f"main returns the call {shape.words}, and not its result"
    elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
        names = [one for one in ast.walk(parent) if isinstance(one, ast.Name)]
        stored = [one.id for one in names if isinstance(one.ctx, ast.Store)]
        if isinstance(parent, ast.Assign) and len(parent.targets) > 1:
            return
        if len(stored) == 1 and not _is_loaded(script, stored[0]):
            text = f"{shape.words} is never awaited: nothing happens"
    if text is not None:
        yield found_at(node, "not-awaited", text, "write await before it")
    yield from _given_to_group(script, node, shape)


def _given_to_group(
    script: Script, node: ast.Call, shape: Pending
) -> Iterator[Finding]:
    """A call that stands where a group or a task group wants a function."""
    inner: ast.AST = node
    outer = script.tree.parents[node]
    while isinstance(outer, _LISTING):
        inner, outer = outer, script.tree.parents[outer]
    if not isinstance(outer, ast.Call) or inner not in outer.args:
        return
    call = script.by_node.get(outer)
    method = outer.func.attr if isinstance(outer.func, ast.Attribute) else ""
    if call is not None and call.operation == "parallel":
        text = f"flow.parallel takes functions, and {shape.words} is called"
        remedy = f"give functools.partial({shape.words}, ...)"
        yield found_at(node, "not-awaited", text, remedy)
    elif method == "start_soon" and outer.args[0] is node:
        text = f"start_soon takes a function, and {shape.words} is called"
        remedy = f"give the function: start_soon({shape.words}, ...)"
        yield found_at(node, "not-awaited", text, remedy)


def _is_loaded(script: Script, name: str) -> bool:
    if name in script.tree.shared or name == "_":
        return name != "_"
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, (ast.Load, ast.Del))
        for node in script.tree.nodes
    )


def _reads(script: Script, node: ast.expr) -> bool:
    """Whether the place of an expression reads its result at once."""
    parent = script.tree.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _OF_A_COROUTINE
    if isinstance(parent, ast.Subscript):
        return parent.value is node
    if isinstance(parent, ast.Compare):
        return not any(isinstance(one, (ast.Is, ast.IsNot)) for one in parent.ops)
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node
    if isinstance(parent, ast.Match):
        return parent.subject is node
    if isinstance(parent, ast.Call):
        return node in parent.args and script.tree.origin(parent.func) in _TAKING
    if isinstance(parent, (ast.If, ast.While, ast.BoolOp, ast.UnaryOp)):
        # `task = task or ...` asks whether there is one; a fresh call always is.
        return isinstance(node, ast.Call)
    return isinstance(parent, _READING)


# -- fields ----------------------------------------------------------------------------


def unknown_fields(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """Fields that are read and that the declaration of the result does not have."""
    for node in script.tree.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from _item(script, shapes, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _attribute(script, shapes, node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = shapes.of(node.func.value)
            if isinstance(owner, Node) and node.func.attr == "get" and node.args:
                yield from _field(script, owner, node.args[0], sure=False)


def _item(script: Script, shapes: Shapes, node: ast.Subscript) -> Iterator[Finding]:
    owner = shapes.of(node.value)
    if isinstance(owner, Node):
        yield from _field(script, owner, node.slice, sure=True)
    elif isinstance(owner, Instance):
        place = script.values.of(node.slice)
        if type(place) is str and not _has(owner, "__getitem__"):
            name = owner.declared.name
            text = f"an instance of {name} has no items: {place!r} is no way to read it"
            remedy = f"write .{place}" if place.isidentifier() else "read its fields"
            yield found_at(node.slice, "unknown-field", text, remedy)


def _field(
    script: Script, owner: Node, node: ast.expr, *, sure: bool
) -> Iterator[Finding]:
    place = script.values.of(node)
    kind = owner.schema.get("type")
    if type(place) is not str or type(kind) is not str:
        return
    if kind != "object":
        text = f"what line {owner.line} declares is of the type {kind}: it has no field"
        remedy = "read an item of it" if kind == "array" else "read it as it is"
        yield found_at(node, "unknown-field", f"{text} {place!r}", remedy)
        return
    properties = owner.schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return
    if place not in properties:
        if owner.schema.get("additionalProperties") is True:
            return
        text = f"the schema of line {owner.line} declares no field {place!r}"
        remedy = f"it declares: {', '.join(map(repr, properties))}"
        yield found_at(node, "unknown-field", text, remedy)
    elif place in owner.schema.get("required", ()) or not sure:
        return
    elif not _is_guarded(script, node, place):
        text = f"the field {place!r} is not required: it may be absent"
        remedy = f"require it in the schema of line {owner.line}, or read it by get"
        yield found_at(node, "optional-field", text, remedy)


def _is_guarded(script: Script, node: ast.expr, place: str) -> bool:
    """Whether something around looks first whether the field is there."""
    for outer in script.tree.around(node):
        if isinstance(outer, ast.Try):
            return True
    return any(
        _looks_for(script, one, place) for one in ast.walk(script.tree.function(node))
    )


def _looks_for(script: Script, node: ast.AST, place: str) -> bool:
    """Whether an expression asks whether there is a field: by `in`, or by `get`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return script.values.of(node.left) in (place, UNKNOWN)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        asked = script.values.of(node.args[0]) if node.args else None
        return node.func.attr == "get" and asked == place
    return False


def _attribute(
    script: Script, shapes: Shapes, node: ast.Attribute
) -> Iterator[Finding]:
    owner, name = shapes.of(node.value), node.attr
    if isinstance(owner, Instance):
        if not _has(owner, name):
            text = f"{owner.declared.name} declares no field {name!r}"
            fields = ", ".join(sorted(_declared(owner))) or "nothing"
            yield found_at(node, "unknown-field", text, f"it declares: {fields}")
    elif isinstance(owner, Node) and owner.schema.get("type") == "object":
        text = f"an object has no attribute {name!r}: its fields are items"
        if not hasattr(FrozenDict, name):
            yield found_at(node, "unknown-field", text, f"write [{name!r}]")


def _declared(owner: Instance) -> set[str]:
    names: set[str] = set()
    for one in owner.declared.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            names.add(one.target.id)
        elif isinstance(one, ast.Assign):
            names.update(it.id for it in one.targets if isinstance(it, ast.Name))
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(one.name)
    return names


def _has(owner: Instance, name: str) -> bool:
    """Whether instances have a name, as far as the class tells; in doubt, yes."""
    node = owner.declared
    names = _declared(owner)
    if node.bases or node.keywords or "__getattr__" in names:
        return True
    plain = (ast.AnnAssign, ast.Assign, ast.FunctionDef, ast.AsyncFunctionDef)
    if not all(
        isinstance(one, (*plain, ast.ClassDef, ast.Expr, ast.Pass)) for one in node.body
    ):
        return True
    return name in names or hasattr(object, name) or name.startswith("__attrs")


def changed_results(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """Results that are written to: they cannot be changed."""
    for node in script.tree.nodes:
        owner = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            owner = shapes.of(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = shapes.of(node.func.value) if node.func.attr in _WRITING else None
        if isinstance(owner, Node) and owner.schema.get("type") in ("object", "array"):
            text = f"the result of the call of line {owner.line} cannot be changed"
            kind = "dict" if owner.schema["type"] == "object" else "list"
            yield found_at(
                node, "immutable-result", text, f"change a {kind}(...) of it"
            )


# -- the result of the run -------------------------------------------------------------


def bad_results(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """What `main` returns and is not JSON data."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        if script.main is None or script.tree.function(node) is not script.main:
            continue
        yield from _not_data(script, shapes, node.value)


def _not_data(script: Script, shapes: Shapes, root: ast.expr) -> Iterator[Finding]:
    code = "result-not-json-safe"
    value = script.values.of(root)
    if value is not UNKNOWN:
        try:
            freeze(value)
        except UsageError as error:
            text = f"the result of the script is not JSON data: {error}"
            yield found_at(root, code, text, "return texts, numbers, lists and objects")
        return
    stack = [root]
    while stack:
        node = stack.pop()
        shape = shapes.of(node)
        what = remedy = ""
        if isinstance(node, (ast.Set, ast.SetComp)):
            what, remedy = "a set", "return a sorted list"
        elif isinstance(node, ast.Tuple):
            what, remedy = "a tuple", "return a list"
        elif isinstance(node, ast.GeneratorExp):
            what, remedy = "a generator", "return a list"
        elif isinstance(node, ast.Lambda):
            what, remedy = "a function", "call it"
        elif isinstance(shape, Instance):
            what = f"an instance of {shape.declared.name}"
            remedy = "return attrs.asdict of it"
        if what:
            text = f"the result of the script is not JSON data: it holds {what}"
            yield found_at(node, code, text, remedy)
        elif isinstance(node, ast.List):
            stack.extend(node.elts)
        elif isinstance(node, ast.Dict):
            stack.extend(node.values)
        elif isinstance(node, ast.ListComp):
            stack.append(node.elt)
