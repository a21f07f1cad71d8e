"""A planted fault: one wrong rule, and the cases that it breaks.

Lives here: what a fault is, and the means of planting one.  A fault is a small change
of the shipped runtime, of the kind that a hand makes; it lasts as long as the
`MonkeyPatch` that it was planted with.  The faults themselves are in the files beside
this one, and `table.py` has them all.
"""

from __future__ import annotations
import __future__

import inspect
import itertools
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

import attrs
import pytest

__all__ = ["HUNG", "Fault", "Patch", "edit", "fault", "put"]

HUNG = 70
"""The exit status of a run that a hanging test has ended."""

Patch: TypeAlias = pytest.MonkeyPatch
Plant: TypeAlias = Callable[[Patch], None]

_serial = itertools.count()


@attrs.frozen
class Fault:
    """A wrong rule.

    Attributes:
        name: the wrong rule in words.
        breaks: the numbered cases of which at least one test fails under it.
        plants: what plants it.
    """

    name: str
    breaks: tuple[str, ...]
    plants: tuple[Plant, ...]

    def plant(self, patch: Patch) -> None:
        """Plant it, until `patch` is undone."""
        for plant in self.plants:
            plant(patch)


def fault(name: str, breaks: str, *plants: Plant) -> Fault:
    """A fault that breaks the cases which a text names."""
    return Fault(name, tuple(breaks.split()), plants)


def put(owner: Any, name: str, value: object) -> Plant:
    """Plants another value in the place of an attribute."""

    def plant(patch: Patch) -> None:
        patch.setattr(owner, name, value, raising=False)

    return plant


def edit(owner: type | ModuleType, name: str, *changes: str) -> Plant:
    """Plants a function whose source reads otherwise in one place, or in several.

    Args:
        owner: the class or module that has the function.
        name: its name.
        changes: what stands there, once, and what is to stand there instead; and so on.

    Raises:
        LookupError: by the plant, when what should stand there does not stand there
            exactly once: the runtime was changed, and the fault must be written anew.
    """

    def plant(patch: Patch) -> None:
        present = vars(owner)[name]
        changed = _rewritten(_function_of(present), changes)
        if isinstance(present, property):
            patch.setattr(owner, name, property(changed))
            return
        patch.setattr(owner, name, changed)
        for place, key in _others_with(present):
            if isinstance(place, dict):
                patch.setitem(place, key, changed)
            else:
                patch.setattr(place, key, changed)

    return plant


def _function_of(present: Any) -> Callable[..., Any]:
    if isinstance(present, property):
        present = present.fget
    if isinstance(present, (staticmethod, classmethod)):
        present = present.__func__
    function: Callable[..., Any] = inspect.unwrap(present)
    return function


def _rewritten(function: Callable[..., Any], changes: tuple[str, ...]) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        if source.count(old) != 1:
            raise LookupError(
                f"{function.__qualname__} has {source.count(old)} times, not once,"
                f" what a planted fault changes: {old!r}"
            )
        source = source.replace(old, new)
    filename = f"<a fault in {function.__qualname__}, {next(_serial)}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = len(source), None, lines, filename
    flags = __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    code = compile(source, filename, "exec", flags=flags)
    exec(code, vars(sys.modules[function.__module__]), made)
    found = made[function.__name__]
    return found.fget if isinstance(found, property) else found


def _others_with(present: object) -> Iterator[tuple[Any, Any]]:
    """Where else modules of the runtime hold the same function."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("ramet"):
            continue
        for key, value in list(vars(module).items()):
            if value is present:
                yield module, key
            elif type(value) is dict and not key.startswith("__"):
                for inner, held in list(value.items()):
                    if held is present:
                        yield value, inner
