"""What a task waits for, in the words of its own code.

Lives here: the reading of the frames of a suspended task, of either backend, for a run
that is stuck.  It knows tasks by what they have, and no loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

__all__ = ["FRAMEWORK", "ended", "told", "waits_in"]

_MOST_FRAMES = 7


def _folder(package: str) -> str:
    found = find_spec(package)
    return "" if found is None else str(Path(found.origin or "").parent)


_HERE = Path(__file__).parent

_LOOPS = ("held.py", "held_asyncio.py", "held_loops.py", "held_trio.py")

_PLUMBING = (
    *(_folder(package) for package in ("anyio", "asyncio", "trio")),
    *(str(_HERE / name) for name in _LOOPS),
)
"""Where the code of loops lies; what waits is told by the code around it."""

_AROUND = ("judge", "opening", "recovery", "run", "world")

FRAMEWORK = (
    contextlib.__file__,
    str(_HERE / "pytest_plugin.py"),
    *(str(_HERE / name) for name in _LOOPS),
    *(str(_HERE / f"simulate_{name}.py") for name in _AROUND),
)
"""The files of a simulation that stand around what is simulated."""


@attrs.frozen
class _Place:
    """A line of a coroutine that is suspended."""

    function: str
    file: str
    line: int


def told(task: Any) -> str:
    """A task by its name, and where it waits, innermost first: not the loop's code."""
    name = task.name if hasattr(task, "coro") else task.get_name()
    if "run_held" in name:
        name = "the scenario"
    own = [at for at in waits_in(task) if at.file not in FRAMEWORK]
    chain = [
        f"{at.function} ({Path(at.file).name}:{at.line})" for at in own[-_MOST_FRAMES:]
    ]
    return f"{name}: in {', of '.join(reversed(chain)) or 'the loop'}"


def waits_in(task: Any) -> list[_Place]:
    """The frames of a task that are not the loop's own, outermost first."""
    coroutine = task.coro if hasattr(task, "coro") else task.get_coro()
    places = [at for at in _places(coroutine) if not at.file.startswith(_PLUMBING)]
    return [at for at in places if "mailbox/backend_" not in at.file]


def _places(coroutine: Any) -> Iterator[_Place]:
    """The frames of a suspended coroutine, outermost first."""
    while coroutine is not None:
        frame = None
        for kind in ("cr", "gi", "ag"):
            frame = frame or getattr(coroutine, f"{kind}_frame", None)
        if frame is not None:
            code = frame.f_code
            yield _Place(code.co_qualname, code.co_filename, frame.f_lineno)
        inner = None
        for kind in ("cr_await", "gi_yieldfrom", "ag_await"):
            inner = inner or getattr(coroutine, kind, None)
        coroutine = inner


def ended(task: Any) -> bool:
    """Whether a task has come to its end."""
    if hasattr(task, "coro"):
        return getattr(task.coro, "cr_frame", True) is None
    return bool(task.done())
