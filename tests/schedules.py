"""Held runs of one function, for tests that need virtual time or a chosen order.

Lives here: the product's held loops with the schedule of a seed, in one call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ramet.lifecycle.held import Held
from ramet.lifecycle.held import StuckError as EndlessRunError
from ramet.lifecycle.held_loops import BackendName as Backend
from ramet.lifecycle.held_loops import run_held
from ramet.lifecycle.schedules import Schedule, WalkStrategy

__all__ = ["Backend", "EndlessRunError", "run_seeded"]

T = TypeVar("T")


def run_seeded(
    function: Callable[..., Awaitable[T]],
    *arguments: Any,
    backend: Backend,
    seed: int,
) -> T:
    """Run an async function to its end by the random walk of a seed."""

    async def run(_: Held) -> T:
        return await function(*arguments)

    return run_held(run, Schedule(WalkStrategy(seed)), backend)
