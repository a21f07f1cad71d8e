"""How a script branches on what an agent chose: which branch a member takes.

Lives here: the rules of choices.  Each test of a choice is worked out for each of its
members, so that a finding says what surely happens: a branch that no member takes, one
that every member takes, or one that another member takes as well.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator

from .script_calls import Script
from .script_finding import Finding, found_at
from .script_shapes import Members, Shapes
from .script_values import UNKNOWN

__all__ = ["branches", "lookalikes", "truths"]

_PARTS = ("startswith", "endswith")


def branches(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """Tests of a choice by a text that is no member, or that is in several of them."""
    known = _all_members(script, shapes)
    for node in script.tree.nodes:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _compared(script, shapes, known, node)
        elif isinstance(node, ast.Match):
            yield from _matched(script, shapes, known, node)
        elif isinstance(node, ast.Subscript):
            yield from _looked_up(script, shapes, node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = shapes.of(node.func.value)
            if isinstance(owner, Members) and node.func.attr in _PARTS and node.args:
                given = script.values.of(node.args[0])
                if type(given) is str and len(node.args) == 1:
                    how = node.func.attr
                    taken = [it for it in owner.members if getattr(it, how)(given)]
                    yield from _part(node, owner, given, taken)


def _compared(
    script: Script, shapes: Shapes, known: list[Members], node: ast.Compare
) -> Iterator[Finding]:
    left, right, test = node.left, node.comparators[0], node.ops[0]
    if isinstance(test, (ast.Eq, ast.NotEq)):
        for one, other in ((left, right), (right, left)):
            owner, value = shapes.of(one), script.values.of(other)
            if isinstance(owner, Members) and type(value) is str:
                never = isinstance(test, ast.Eq)
                yield from _no_member(other, owner, value, known, never=never)
    elif isinstance(test, (ast.In, ast.NotIn)):
        owner, given = shapes.of(left), script.values.of(right)
        if isinstance(owner, Members) and isinstance(given, (list, tuple, set, dict)):
            written = isinstance(right, (ast.List, ast.Tuple, ast.Set))
            for value in given if written else ():
                if type(value) is str:
                    at = _item_at(script, right, value)
                    yield from _no_member(at, owner, value, known, never=False)
        owner, part = shapes.of(right), script.values.of(left)
        if isinstance(owner, Members) and type(part) is str:
            taken = [one for one in owner.members if part in one]
            yield from _part(node, owner, part, taken)


def _item_at(script: Script, node: ast.expr, value: str) -> ast.expr:
    for one in getattr(node, "elts", ()):
        if script.values.of(one) == value:
            found: ast.expr = one
            return found
    return node


def _matched(
    script: Script, shapes: Shapes, known: list[Members], node: ast.Match
) -> Iterator[Finding]:
    owner = shapes.of(node.subject)
    if not isinstance(owner, Members):
        return
    for case in node.cases:
        patterns: list[ast.pattern] = [case.pattern]
        while patterns:
            one = patterns.pop(0)
            if isinstance(one, ast.MatchOr):
                patterns[:0] = one.patterns
            elif isinstance(one, ast.MatchAs) and one.pattern is not None:
                patterns.insert(0, one.pattern)
            elif isinstance(one, ast.MatchValue):
                value = script.values.of(one.value)
                if type(value) is str:
                    yield from _no_member(one, owner, value, known, never=True)


def _looked_up(
    script: Script, shapes: Shapes, node: ast.Subscript
) -> Iterator[Finding]:
    """A table by member that lacks one: then the script fails."""
    owner = shapes.of(node.slice)
    if not isinstance(owner, Members) or not isinstance(node.ctx, ast.Load):
        return
    keys = _keys(script, node.value)
    if keys is None:
        return
    missing = [one for one in owner.members if one not in keys]
    missing = [] if _is_guarded(script, node) else _untested(script, node, missing)
    if missing:
        text = (
            f"this table lacks {_list(missing)}, which the choice of line {owner.line}"
            " may give: the script fails then"
        )
        yield found_at(node, "missing-member", text, "give each member an entry")


def _is_guarded(script: Script, node: ast.Subscript) -> bool:
    """Whether somebody looks first whether the table has an entry, or catches that."""
    if any(isinstance(outer, ast.Try) for outer in script.tree.around(node)):
        return True
    table = ast.dump(node.value)
    return any(
        isinstance(one, ast.Compare)
        and isinstance(one.ops[0], (ast.In, ast.NotIn))
        and ast.dump(one.comparators[0]) == table
        for one in ast.walk(script.tree.function(node))
    )


def _untested(script: Script, node: ast.expr, members: list[str]) -> list[str]:
    """The members that no other test of the function is about."""
    tested: set[object] = set()
    for one in ast.walk(script.tree.function(node)):
        if isinstance(one, ast.Compare):
            asked = (it for way in one.comparators for it in ast.walk(way))
            tested |= {it.value for it in asked if isinstance(it, ast.Constant)}
        elif isinstance(one, ast.MatchValue) and isinstance(one.value, ast.Constant):
            tested.add(one.value.value)
    return [one for one in members if one not in tested]


def _keys(script: Script, node: ast.expr) -> set[object] | None:
    """The keys of a table that is written out, whatever its values are."""
    if isinstance(node, ast.Name):
        found = script.tree.sole(node)
        if found is None or found.how != "value" or script.values.may_change(node.id):
            return None
        node = found.value or node
    if not isinstance(node, ast.Dict) or None in node.keys:
        return None
    keys = [script.values.of(key) for key in node.keys]
    return None if any(type(key) is not str for key in keys) else set(keys)


def _no_member(
    node: ast.AST, owner: Members, value: str, known: list[Members], *, never: bool
) -> Iterator[Finding]:
    if value in owner.members:
        return
    text = f"{value!r} is no member of the choice of line {owner.line}"
    others = [one.line for one in known if value in one.members]
    if others:
        text += f", but of that of line {others[0]}"
    if never:
        text += ": this branch is never taken"
    remedy = f"its members are {_list(owner.members)}"
    yield found_at(node, "unknown-member", text, remedy)


def _part(
    node: ast.AST, owner: Members, part: str, taken: list[str]
) -> Iterator[Finding]:
    """A test by a part of the text: it must not blur a member with another."""
    if not taken:
        text = f"no member of the choice of line {owner.line} holds {part!r} there"
        remedy = f"its members are {_list(owner.members)}"
        yield found_at(node, "unknown-member", text, remedy)
    elif part in owner.members and len(taken) > 1:
        others = [one for one in taken if one != part]
        text = f"{_list(others)} passes this test for {part!r} as well"
        remedy = f"compare the whole: == {part!r}"
        yield found_at(node, "blurred-member", text, remedy)


def _all_members(script: Script, shapes: Shapes) -> list[Members]:
    """All choices of the script, in the order of their lines."""
    found = [shapes.result(call) for call in script.of("agent")]
    choices = [one for one in found if isinstance(one, Members)]
    return sorted(choices, key=lambda one: one.line)


# -- truth -----------------------------------------------------------------------------


def truths(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """A choice that is asked whether it is true: each member is."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.expr):
            continue
        owner = shapes.of(node)
        if isinstance(owner, Members) and all(owner.members) and owner.members:
            text = (
                f"every member of the choice of line {owner.line} is true as a text,"
                f" {owner.members[-1]!r} too"
            )
            remedy = f"compare it: == {owner.members[0]!r}"
            if _is_asked(script, node):
                yield found_at(node, "always-true", text, remedy)


def _is_asked(script: Script, node: ast.expr) -> bool:
    parent = script.tree.parents.get(node)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is node
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    if isinstance(parent, ast.BoolOp):
        # A chain that nobody asks gives a value: `verdict or "none"`.
        return _is_asked(script, parent)
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)


# -- members ---------------------------------------------------------------------------


def lookalikes(script: Script, shapes: Shapes) -> Iterator[Finding]:
    """Members that read alike: a run tells them apart, and a model may not."""
    for call in script.of("agent"):
        value = script.values.of(call.options.get("choice"))
        if value is UNKNOWN or not isinstance(value, (list, tuple)):
            continue
        seen: dict[str, str] = {}
        for member in value:
            if type(member) is not str:
                continue
            first = seen.setdefault(_read_as(member), member)
            if first != member:
                text = f"{member!r} reads like the other member {first!r}"
                remedy = "name the branches by different words"
                at = call.options["choice"]
                yield found_at(
                    _item_at(script, at, member), "lookalike-members", text, remedy
                )


def _read_as(member: str) -> str:
    """A member as it sounds: without case, signs between words and Unicode forms."""
    plain = unicodedata.normalize("NFKC", member).casefold()
    words = re.sub(r"[\s_\-.]+", " ", plain).strip()
    return words or member


def _list(members: tuple[str, ...] | list[str]) -> str:
    shown = [repr(one) for one in members[:8]]
    return ", ".join(shown) + (", ..." if len(members) > 8 else "")
