"""The check of a script: every rule over one script, without running any of it.

Lives here: the rules in their order, the findings in theirs, and the comments by which
a line is excused.  It reads no file and imports nothing of what the script imports.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import tokenize
from collections.abc import Callable, Iterator

import attrs

from .flow import Flow
from .script_branches import branches, lookalikes, truths
from .script_calls import Face, Script
from .script_course import (
    changing_requests,
    late_names,
    unbounded_loops,
)
from .script_declared import bad_objects, bad_options, unknown_names
from .script_finding import Finding
from .script_labels import repeated_labels
from .script_outline import module_names, read_module, text_of
from .script_results import (
    bad_results,
    changed_results,
    not_awaited,
    unknown_fields,
)
from .script_shapes import Shapes
from .script_tree import Tree

__all__ = ["CODES", "check_script", "face_of_flow"]

CODES = (
    *("not-python", "too-large", "no-main", "bad-name", "unknown-name"),
    *("bad-option", "blank-prompt", "unsupported-schema", "USAGE"),
    *("not-awaited", "unknown-field", "optional-field", "immutable-result"),
    *("unknown-member", "blurred-member", "missing-member", "lookalike-members"),
    *("always-true", "repeated-label", "unbounded-loop", "late-binding"),
    *("changing-request", "result-not-json-safe"),
)
"""Every code that a finding can have."""

_SCRIPT_RULES: tuple[Callable[[Script], Iterator[Finding]], ...] = (
    module_names,
    unknown_names,
    bad_options,
    bad_objects,
    unbounded_loops,
    repeated_labels,
    late_names,
    changing_requests,
)

_RESULT_RULES: tuple[Callable[[Script, Shapes], Iterator[Finding]], ...] = (
    not_awaited,
    unknown_fields,
    changed_results,
    bad_results,
    branches,
    truths,
    lookalikes,
)

_NAMES = "agent parallel spawn items phase log input args limits supervisor root model"
"""What a flow has by its description, also where a release has not got to it."""

_EXCUSE = re.compile(r"#\s*ramet:\s*ignore(?:\[([\w\s,-]*)\])?")


def face_of_flow() -> Face:
    """The names of `Flow`, each method with its signature without `self`."""
    face: dict[str, inspect.Signature | None] = dict.fromkeys(_NAMES.split())
    for name, value in vars(Flow).items():
        if name.startswith("_"):
            continue
        face[name] = None
        if inspect.isfunction(value):
            whole = inspect.signature(value)
            face[name] = whole.replace(
                parameters=list(whole.parameters.values())[1:],
                return_annotation=inspect.Signature.empty,
            )
    return face


def check_script(source: bytes) -> list[Finding]:
    """What is wrong in a script, by its lines; empty when nothing was found.

    Args:
        source: the bytes of the file.

    >>> [one.code for one in check_script(b"async def main(flow): flow.agent('Hi')")]
    ['not-awaited']
    """
    module = read_module(source)
    if isinstance(module, Finding):
        return [module]
    try:
        script = Script(Tree(module), face_of_flow())
        shapes = Shapes(script)
        found = {one for rule in _SCRIPT_RULES for one in rule(script)}
        found |= {one for rule in _RESULT_RULES for one in rule(script, shapes)}
    except RecursionError:
        text = "it cannot be checked: something in it is nested too deeply"
        remedy = "write it in more and smaller parts"
        return [Finding(1, 1, "too-large", text, remedy)]
    if not found:
        return []
    text = text_of(source)
    excused = _excused(text)
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    return [
        _by_characters(one, lines)
        for one in sorted(found)
        if not excused.get(one.line, frozenset()) & {one.code, "*"}
    ]


def _by_characters(finding: Finding, lines: list[str]) -> Finding:
    """The finding with its column in characters, as an editor counts."""
    line = "".join(lines[finding.line - 1 : finding.line])
    before = line.encode("utf-8", "replace")[: finding.column - 1]
    column = len(before.decode("utf-8", "replace")) + 1
    return attrs.evolve(finding, column=column)


def _excused(text: str) -> dict[int, frozenset[str]]:
    """The codes that a comment at the end of a line excuses; `*`: all of them."""
    found: dict[int, frozenset[str]] = {}
    if _EXCUSE.search(text) is None:
        return found
    with contextlib.suppress(SyntaxError, tokenize.TokenError):
        lines = iter(re.findall(r"[^\n]*\n|[^\n]+", text))
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            match = _EXCUSE.match(token.string)
            if token.type == tokenize.COMMENT and match is not None:
                named = "*" if match[1] is None else match[1]
                codes = (code.strip() for code in named.split(","))
                found[token.start[0]] = frozenset(codes)
    return found
