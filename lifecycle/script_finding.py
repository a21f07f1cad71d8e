"""A finding: one thing that is wrong in a script, where, and what to do about it.

Lives here: the finding and nothing else, so that every rule can make one.
"""

from __future__ import annotations

import ast

import attrs

__all__ = ["Finding", "found_at"]


@attrs.frozen(order=True)
class Finding:
    """One thing that is wrong in a script.

    Attributes:
        line: where, from 1.
        column: where in the line, from 1.
        code: which rule says so; it is stable. What a run would refuse has the code
            that the run would refuse it with.
        text: what is wrong, as one sentence.
        remedy: what to do about it.
    """

    line: int
    column: int
    code: str
    text: str
    remedy: str


def found_at(node: ast.AST, code: str, text: str, remedy: str) -> Finding:
    """A finding at a node; its column counts bytes, as the node's does."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return Finding(line, column + 1, code, text, remedy)
