"""Held loops: a schedule decides every step, time is virtual, a lost hook says so."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest
import trio
from anyio.lowlevel import checkpoint

from ramet.lifecycle.held import Held, StuckError
from ramet.lifecycle.held_loops import BackendName, let_pass, run_held
from ramet.lifecycle.held_trio import _NAMES, _Dice
from ramet.lifecycle.schedules import (
    PriorityStrategy,
    Schedule,
    Strategy,
    WalkStrategy,
)
from ramet.testing import HookLostError

T = TypeVar("T")

Strategies = Callable[[int], Strategy]

BACKENDS: tuple[BackendName, ...] = ("asyncio", "trio")

both = pytest.mark.parametrize("backend", BACKENDS)


def run_seeded(
    function: Callable[..., Awaitable[T]],
    *arguments: Any,
    backend: BackendName,
    seed: int,
    strategy: Strategies = WalkStrategy,
) -> T:
    """Run a function under the schedule of a seed."""

    async def run(_: Held) -> T:
        return await function(*arguments)

    return run_held(run, Schedule(strategy(seed)), backend)


async def steps(tasks: int = 3, each: int = 3) -> str:
    """Who took a step, one after the other."""
    taken: list[str] = []

    async def walk(name: str) -> None:
        for _ in range(each):
            taken.append(name)
            await checkpoint()

    async with anyio.create_task_group() as group:
        for name in "abcdefgh"[:tasks]:
            group.start_soon(walk, name)
    return "".join(taken)


@both
def test_the_hook_is_there_and_asked(backend: BackendName) -> None:
    """When this fails after an update of trio or Python, mend the hook first: every
    other failure of a seed is a consequence."""
    orders = {run_seeded(steps, backend=backend, seed=seed)[:3] for seed in range(300)}
    assert {"abc", "acb", "bac", "bca", "cab", "cba"} <= orders


@both
@pytest.mark.parametrize("strategy", [WalkStrategy, PriorityStrategy])
def test_one_seed_gives_one_order_and_others_give_others(
    backend: BackendName, strategy: Strategies
) -> None:
    def orders() -> list[str]:
        seeds = range(10)
        return [
            run_seeded(steps, backend=backend, seed=s, strategy=strategy) for s in seeds
        ]

    first = orders()
    assert first == orders()
    assert len(set(first)) > 3


@both
def test_a_walk_takes_a_task_many_times_while_others_wait(backend: BackendName) -> None:
    orders = {run_seeded(steps, 2, 3, backend=backend, seed=s) for s in range(60)}
    assert {"aaabbb", "bbbaaa"} <= orders


@both
def test_time_is_virtual_and_stands_while_anybody_can_run(backend: BackendName) -> None:
    async def wait() -> tuple[list[str], float]:
        order: list[str] = []
        begin = anyio.current_time()

        async def sleep(seconds: float) -> None:
            await anyio.sleep(seconds)
            order.append(f"{seconds}")

        async with anyio.create_task_group() as group:
            group.start_soon(sleep, 7200.0)
            group.start_soon(sleep, 3600.0)
            for _ in range(100):
                await checkpoint()
            order.append("busy")
        return order, anyio.current_time() - begin

    order, passed = run_seeded(wait, backend=backend, seed=1)
    assert order == ["busy", "3600.0", "7200.0"]
    assert passed == pytest.approx(7200.0)


@both
def test_a_task_that_only_looks_starves_nobody_under_priorities(
    backend: BackendName,
) -> None:
    async def spin() -> bool:
        done = False

        async def work() -> None:
            nonlocal done
            await checkpoint()
            done = True

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            while not done:
                await checkpoint()
        return done

    for seed in range(20):
        assert run_seeded(spin, backend=backend, seed=seed, strategy=PriorityStrategy)


@both
def test_a_run_that_never_ends_is_given_up(
    backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.lifecycle.held.MOST_STEPS", 500)

    async def endless() -> None:
        while True:
            await checkpoint()

    with pytest.raises(StuckError, match="made no end") as stuck:
        run_seeded(endless, backend=backend, seed=1)
    assert stuck.value.kind == "livelock"
    assert re.search(
        r"of the last steps: .*endless \(test_held_loops", str(stuck.value)
    )


@both
def test_a_run_that_waits_for_nothing_is_given_up_and_says_who_waits(
    backend: BackendName,
) -> None:
    async def forlorn() -> None:
        await anyio.Event().wait()

    with pytest.raises(StuckError, match="nobody can run") as stuck:
        run_seeded(forlorn, backend=backend, seed=1)
    assert stuck.value.kind == "deadlock"
    assert re.search(r"forlorn \(test_held_loops.py:\d+\)", str(stuck.value))


async def spin() -> None:
    while True:
        await checkpoint()


async def alone() -> None:
    with anyio.CancelScope(shield=True):
        await spin()


async def together() -> None:
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(spin)
            group.start_soon(spin)


async def deaf() -> None:
    while True:
        with contextlib.suppress(anyio.get_cancelled_exc_class()):
            await spin()


@both
@pytest.mark.parametrize("stubborn", [alone, together, deaf])
def test_a_run_that_takes_no_cancellation_is_broken_off(
    backend: BackendName,
    stubborn: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ramet.lifecycle.held.MOST_STEPS", 500)

    with pytest.raises(StuckError, match="takes no cancellation") as stuck:
        run_seeded(stubborn, backend=backend, seed=1)
    assert str(stuck.value).count("takes no cancellation") == 1


@both
def test_who_lets_others_pass_goes_on_before_time_does(backend: BackendName) -> None:
    async def wait() -> list[str]:
        order: list[str] = []

        async def sleep() -> None:
            await anyio.sleep(1.0)
            order.append("slept")

        async def let() -> None:
            await let_pass(1000)
            order.append("let pass")

        async with anyio.create_task_group() as group:
            group.start_soon(sleep)
            group.start_soon(let)
        return order

    assert run_seeded(wait, backend=backend, seed=1) == ["let pass", "slept"]


@both
def test_who_lets_others_pass_waits_for_that_many_steps(backend: BackendName) -> None:
    async def wait() -> int:
        taken = 0

        async def walk() -> None:
            nonlocal taken
            while taken < 100:
                taken += 1
                await checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(walk)
            await let_pass(30)
            return taken
        raise AssertionError

    assert 15 < run_seeded(wait, backend=backend, seed=1) < 40


@both
def test_what_asks_for_a_thread_runs_in_the_loops_own(backend: BackendName) -> None:
    async def threads() -> list[int]:
        found = [await anyio.to_thread.run_sync(threading.get_ident)]
        if backend == "asyncio":
            found.append(await asyncio.to_thread(threading.get_ident))
        else:
            found.append(await trio.to_thread.run_sync(threading.get_ident))
        return found

    assert run_seeded(threads, backend=backend, seed=1) == [threading.get_ident()] * 2
    assert anyio.to_thread.run_sync.__module__ == "anyio.to_thread"


@both
def test_what_the_function_raises_comes_out(backend: BackendName) -> None:
    async def fail() -> None:
        await checkpoint()
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        run_seeded(fail, backend=backend, seed=1)


@pytest.mark.parametrize("name", _NAMES)
def test_a_private_name_of_trio_that_is_gone_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(f"trio._core._run.{name}")
    with pytest.raises(HookLostError, match=f"has no {name}"):
        run_seeded(steps, backend="trio", seed=1)


def test_a_loop_that_leaves_something_of_a_batch_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shuffle(self: _Dice, x: Any) -> None:
        """As in a trio that goes through a copy."""
        copy = list(x)
        self.hook.begin(copy)
        x[:] = copy

    monkeypatch.setattr(_Dice, "shuffle", shuffle)
    with pytest.raises(HookLostError, match="otherwise than until it is empty"):
        run_seeded(steps, backend="trio", seed=1)


@both
def test_a_loop_that_never_asks_is_told(
    backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.lifecycle.held_asyncio.anyio.run", lambda *_, **__: None)

    with pytest.raises(HookLostError, match=f"the loop of {backend} ran, but never"):
        run_seeded(steps, backend=backend, seed=1)
