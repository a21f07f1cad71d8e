"""Alarms: callbacks at their time, in virtual time on both backends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ramet.lifecycle.alarms import Alarms
from ramet.mailbox.backend import current_backend
from tests.schedules import Backend, run_seeded

both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def play(
    backend: Backend, scene: Callable[[Alarms, list[Any]], Awaitable[None]]
) -> Any:
    """Run a scene over alarms; gives what it wrote down and the errors."""
    heard: list[Any] = []
    errors: list[BaseException] = []

    async def run() -> float:
        async with anyio.create_task_group() as group:
            port = current_backend(group)
            alarms = Alarms(port, errors.append)
            await scene(alarms, heard)
            await port.finished()
            assert port.tasks() == 0
        return anyio.current_time()

    ended = run_seeded(run, backend=backend, seed=1)
    return heard, errors, ended


@both
def test_each_alarm_rings_at_its_time_and_once(backend: Backend) -> None:
    async def scene(alarms: Alarms, heard: list[Any]) -> None:
        began = anyio.current_time()

        def note(name: str) -> Callable[[], None]:
            return lambda: heard.append((name, round(anyio.current_time() - began)))

        alarms.set(began + 30, note("third"))
        alarms.set(began + 10, note("first"))
        await anyio.sleep(1)
        alarms.set(began + 20, note("second"))
        alarms.set(began + 5, note("new first"))
        await anyio.sleep(100)
        alarms.set(began + 50, note("past"))

    heard, errors, _ = play(backend, scene)
    assert heard == [
        *(("new first", 5), ("first", 10), ("second", 20), ("third", 30)),
        ("past", 101),
    ]
    assert not errors


@both
def test_what_is_taken_back_does_not_ring_and_nobody_waits_for_it(
    backend: Backend,
) -> None:
    async def scene(alarms: Alarms, heard: list[Any]) -> None:
        now = anyio.current_time()
        unset = [
            alarms.set(now + 3600 * n, lambda: heard.append("rang")) for n in (1, 2)
        ]
        await anyio.sleep(1)
        for one in unset:
            one()
            one()
        await anyio.lowlevel.checkpoint()
        alarms.set(now + 7200, lambda: heard.append("never"))()
        kept = alarms.set(now + 9, lambda: heard.append("kept"))
        alarms.set(now + 8, kept)

    heard, errors, ended = play(backend, scene)
    assert not heard
    assert not errors
    assert ended < 3600


@both
def test_what_an_alarm_raises_is_told_and_the_next_one_rings(backend: Backend) -> None:
    async def scene(alarms: Alarms, heard: list[Any]) -> None:
        now = anyio.current_time()

        def fail() -> None:
            raise OSError("no")

        def more() -> None:
            alarms.set(now + 3, lambda: heard.append("later"))

        alarms.set(now + 1, fail)
        alarms.set(now + 1, more)

    heard, errors, _ = play(backend, scene)
    assert heard == ["later"]
    assert [str(error) for error in errors] == ["no"]
