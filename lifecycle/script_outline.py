"""The outline of a script: that it is Python, and has what a script is known by.

Lives here: how the bytes of a file become a tree, or one finding that says why not; and
the rules about `main` and the other names of the module that `ramet run` looks for.
"""

from __future__ import annotations

import ast
import tokenize
import warnings
from collections.abc import Iterator

from .script_calls import Script
from .script_finding import Finding, found_at
from .script_tree import Function
from .script_values import UNKNOWN

__all__ = ["LARGEST", "module_names", "read_module", "text_of"]

LARGEST = 2_000_000
"""How many bytes of a script are read: a person wrote it."""

_TOO_LARGE = "it cannot be checked"


def read_module(source: bytes) -> ast.Module | Finding:
    """The syntax of a script, or what is wrong with it.

    Nothing of it is run: it is parsed and compiled, as a run would do first.
    """
    if len(source) > LARGEST:
        text = f"{_TOO_LARGE}: it has more than {LARGEST:,} bytes"
        return Finding(1, 1, "too-large", text, "keep data in files of their own")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source)
            compile(source, "script", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        # A text that cannot be one of Python's has no line.
        text = f"this is not Python: {getattr(error, 'msg', error)}"
        line = getattr(error, "lineno", None) or 1
        column = getattr(error, "offset", None) or 1
        remedy = "mend it: a run refuses the whole file"
        return Finding(max(line, 1), max(column, 1), "not-python", text, remedy)
    except (RecursionError, MemoryError):
        text = f"{_TOO_LARGE}: something in it is nested too deeply"
        return Finding(1, 1, "too-large", text, "write it in more and smaller parts")
    return module


def text_of(source: bytes) -> str:
    """The text of a script that is Python, with the encoding that it declares."""
    lines = iter(source.splitlines(keepends=True))
    try:
        encoding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
        return source.decode(encoding, "replace")
    except (SyntaxError, ValueError, LookupError):
        # Python takes a comment of any bytes, and a few encodings more.
        return source.decode("utf-8", "replace")


# -- rules -----------------------------------------------------------------------------


def module_names(script: Script) -> Iterator[Finding]:
    """`main` and the other names that a run looks for in the module."""
    tree = script.tree
    found = tree.top.bindings.get("main", [])
    if not found:
        if not tree.star:
            text = "there is no `async def main(flow)`"
            remedy = "write it: it is what `ramet run` calls"
            yield Finding(1, 1, "no-main", text, remedy)
    elif script.main is not None:
        yield from _main(script, script.main)
    else:
        value = script.values.of(found[-1].value) if len(found) == 1 else UNKNOWN
        if value is not UNKNOWN:
            text = f"main must be an `async def`, and is {value!r:.60}"
            yield found_at(found[0].node, "no-main", text, "call it something else")
    for name, wanted in _WANTED.items():
        yield from _named(script, name, wanted)


def _main(script: Script, main: Function) -> Iterator[Finding]:
    if main.decorator_list:
        return
    if isinstance(main, ast.FunctionDef):
        text = "main must be an `async def`: it is awaited"
        yield found_at(main, "no-main", text, "write: async def main(flow)")
        return
    for node in ast.walk(main):
        yields = isinstance(node, (ast.Yield, ast.YieldFrom))
        if yields and script.tree.function(node) is main:
            text = "main yields, so that it is no coroutine and has no result"
            yield found_at(node, "no-main", text, "return the result once")
            return
    arguments = main.args
    places = [*arguments.posonlyargs, *arguments.args]
    needed = len(places) - len(arguments.defaults)
    named = [one for one in arguments.kw_defaults if one is None]
    if needed > 1 or named or not (places or arguments.vararg):
        text = "main must take one argument, the flow"
        yield found_at(main, "no-main", text, "write: async def main(flow)")


_WANTED = {
    "root": "an AgentSpec",
    "specs": "a list of AgentSpec objects",
    "model": "a model or its name",
    "policy": "a Policy",
}


def _named(script: Script, name: str, wanted: str) -> Iterator[Finding]:
    """A name that a run reads, and that is surely something else."""
    found = script.tree.top.bindings.get(name, [])
    if len(found) != 1 or found[0].how != "value" or found[0].value is None:
        return
    node = found[0].value
    value = script.values.of(node)
    is_wrong = value is not UNKNOWN and not (
        (name == "specs" and isinstance(value, (list, tuple)) and not value)
        or (name == "model" and isinstance(value, str))
        or (name != "specs" and value is None)
    )
    if name == "specs" and isinstance(node, ast.Call):
        is_wrong = script.tree.origin(node.func) == "ramet.AgentSpec"
    if is_wrong:
        text = f"the name {name!r} of the module must be {wanted}: a run reads it"
        yield found_at(node, "bad-name", text, "give it that, or another name")
