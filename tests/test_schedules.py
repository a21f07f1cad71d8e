"""Schedules: a seed decides who goes next, and a lost hook says so."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.schedules import (
    Backend,
    EndlessRunError,
    HookLostError,
    Kind,
    PriorityStrategy,
    run_seeded,
)

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
KINDS: tuple[Kind, ...] = ("walk", "pct")

both = pytest.mark.parametrize("backend", BACKENDS)


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
def test_the_hook_is_there_and_asked(backend: Backend) -> None:
    """When this fails after an update of trio or Python, mend the hook first: every
    other failure of a seed is a consequence."""
    orders = {run_seeded(steps, backend=backend, seed=seed)[:3] for seed in range(300)}
    assert {"abc", "acb", "bac", "bca", "cab", "cba"} <= orders


@both
@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_gives_one_order_and_others_give_others(
    backend: Backend, kind: Kind
) -> None:
    def orders() -> list[str]:
        seeds = range(10)
        return [run_seeded(steps, backend=backend, seed=s, kind=kind) for s in seeds]

    first = orders()
    assert first == orders()
    assert len(set(first)) > 3


@both
def test_a_walk_takes_a_task_many_times_while_others_wait(backend: Backend) -> None:
    orders = {run_seeded(steps, 2, 3, backend=backend, seed=s) for s in range(60)}
    assert {"aaabbb", "bbbaaa"} <= orders


@both
def test_time_is_virtual_and_stands_while_anybody_can_run(backend: Backend) -> None:
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
    backend: Backend,
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
        assert run_seeded(spin, backend=backend, seed=seed, kind="pct")


def test_priorities_hold_until_a_fall() -> None:
    strategy = PriorityStrategy(1, changes=0, patience=2)
    first = strategy.choose([0, 1])
    assert [strategy.choose([0, 1]) for _ in range(2)] == [first, 1 - first]


@both
def test_a_run_that_never_ends_is_given_up(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.schedules._MOST_PASSES", 500)

    async def endless() -> None:
        while True:
            await checkpoint()

    with pytest.raises(EndlessRunError, match="did not end within 500 passes"):
        run_seeded(endless, backend=backend, seed=1)


@both
def test_a_run_that_waits_for_nothing_is_given_up(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.schedules._MOST_PASSES", 500)

    async def forlorn() -> None:
        await anyio.Event().wait()

    with pytest.raises(EndlessRunError, match=r"did not end|nobody can run"):
        run_seeded(forlorn, backend=backend, seed=1)


@both
def test_what_the_function_raises_comes_out(backend: Backend) -> None:
    async def fail() -> None:
        await checkpoint()
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        run_seeded(fail, backend=backend, seed=1)


@pytest.mark.parametrize(
    "name", ["_r", "_ALLOW_DETERMINISTIC_SCHEDULING", "GLOBAL_RUN_CONTEXT"]
)
def test_a_private_name_of_trio_that_is_gone_is_told(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(f"trio._core._run.{name}")
    with pytest.raises(HookLostError, match=f"has no {name}"):
        run_seeded(steps, backend="trio", seed=1)


@both
def test_a_loop_that_never_asks_is_told(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.schedules.anyio.run", lambda *_, **__: None)
    with pytest.raises(HookLostError, match=f"the loop of {backend} ran, but never"):
        run_seeded(steps, backend=backend, seed=1)
