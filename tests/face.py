"""The face: every coroutine that a user of ramet can await, found by looking.

Lives here: the inspection of what `ramet` and `ramet.testing` export.  A coroutine is
an async function, or a plain one that gives something to await, to iterate over or to
enter.  It knows no scenario; `tests/lifecycle/test_cuts.py` compares it with them.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import ramet
import ramet.testing

__all__ = ["coroutines"]

_ASYNC = ("__await__", "__aiter__", "__anext__", "__aenter__")
_SPECIAL = ("__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__")


def coroutines() -> list[str]:
    """Their names: `run_headless`, `Supervisor.tell`, `testing.turn_ended` ...

    Suites of tests that the kit ships, and protocols, which nobody calls, are left out,
    and so is the world of a simulation, which cuts and kills by its own seeds.
    """
    found = [*_exported(ramet, [*ramet.__all__, "open"], "")]
    found += _exported(ramet.testing, ramet.testing.__all__, "testing.")
    return sorted(found)


def _exported(module: ModuleType, names: list[str], prefix: str) -> Iterator[str]:
    for name in names:
        value = getattr(module, name)
        if not inspect.isclass(value):
            if callable(value) and is_async(value):
                yield prefix + name
        elif not _is_left_out(value):
            for method in sorted(set(_methods(value))):
                yield f"{prefix}{name}.{method}"


def _is_left_out(kind: type) -> bool:
    if kind is ramet.testing.World or getattr(kind, "_is_protocol", False):
        return True
    return any(name.startswith("test_") for name in dir(kind))


def _methods(kind: type) -> Iterator[str]:
    for owner in kind.__mro__:
        if not owner.__module__.startswith("ramet"):
            continue
        for name, value in vars(owner).items():
            function = value
            if isinstance(value, (classmethod, staticmethod)):
                function = value.__func__
            public = not name.startswith("_") or name in _SPECIAL
            if public and inspect.isfunction(function) and is_async(function):
                yield name


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something that is awaited, iterated over or entered."""
    plain = inspect.unwrap(function)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        return True
    given = getattr(plain, "__annotations__", {}).get("return")
    if isinstance(given, str):
        try:
            given = eval(given, vars(sys.modules[plain.__module__]))
        except NameError:
            return given.split("[")[0].startswith(("Async", "Awaitable", "Coroutine"))
    given = typing.get_origin(given) or given
    return inspect.isclass(given) and any(hasattr(given, name) for name in _ASYNC)
