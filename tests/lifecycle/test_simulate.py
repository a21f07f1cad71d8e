"""The simulator's face: it finds, shrinks, replays, and tells what it cannot hold."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, FunctionModel, ModelRequest
from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.simulate_run import Replay
from ramet.lifecycle.simulate_shrink import kind_of
from ramet.testing import (
    NO_FAULTS,
    Faults,
    Gate,
    LawBrokenError,
    Scenario,
    ScriptedModel,
    World,
    call,
    explore,
    simulate,
    step,
)

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_each_store = pytest.mark.parametrize("store", ["memory", "sqlite"])

LEAD = AgentSpec("lead")
SCOUT = AgentSpec("scout")


async def lost_update(world: World) -> None:
    """Agents add to a total, each reading it before it writes: a fault of theirs."""
    total = 0

    async def add(request: ModelRequest) -> str:
        nonlocal total
        before = total
        await world.checkpoint()
        total = before + 1
        return "added"

    async with world.open(specs=[LEAD, SCOUT], model=FunctionModel(add)) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await world.race(
            lambda: supervisor.start_child(root, SCOUT, "go"),
            lambda: supervisor.start_child(root, SCOUT, "go"),
        )
        await world.rest()
        assert total == len(world.requests), f"{total} were counted"


@on_both
@pytest.mark.case("R-220")
def test_a_race_of_ones_own_is_found_shrunk_and_replayed(backend: BackendName) -> None:
    report = simulate(lost_update, seeds=range(300), backend=backend, most_failures=1)
    (failure,) = report.failures
    assert failure.law.startswith("AssertionError: ")
    assert failure.departures <= 3
    assert failure.faults == ()
    again = simulate(lost_update, replay=failure.replay, backend=backend)
    assert [kind_of(one.law) for one in again.failures] == [kind_of(failure.law)]
    assert str(again.failures[0].trace) == str(failure.trace)
    by_seed = simulate(lost_update, replay=failure.seed, backend=backend, shrink=False)
    assert not by_seed.ok
    told = str(report)
    assert f"seed {failure.seed} broke: " in told
    assert f"replay: {failure.replay}" in told
    with pytest.raises(LawBrokenError, match="1 failed"):
        report.check()


@on_both
def test_every_schedule_is_tried_with_the_fewest_departures_first(
    backend: BackendName,
) -> None:
    report = explore(lost_update, backend=backend, bound=2)
    (failure,) = report.failures
    assert 1 <= failure.departures <= 2
    assert not report.exhausted
    fewer = explore(lost_update, backend=backend, bound=failure.departures - 1)
    assert fewer.ok
    assert fewer.exhausted
    assert not simulate(lost_update, replay=failure.replay, backend=backend).ok


async def small_race(world: World) -> None:
    async with world.open(specs=[LEAD]) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await world.race(
            lambda: supervisor.tell(root, "a"), lambda: supervisor.tell(root, "b")
        )


@on_both
def test_counting_preemptions_tries_more_schedules(backend: BackendName) -> None:
    departures = explore(small_race, backend=backend, bound=1)
    preemptions = explore(
        small_race, backend=backend, bound=0, counting="preemptions", most=200
    )
    assert departures.exhausted
    assert departures.ok
    assert preemptions.ok
    assert preemptions.runs > 1
    assert explore(small_race, backend=backend, bound=1, most=7).runs == 7


@on_both
@pytest.mark.case("R-220")
def test_one_seed_gives_one_run_on_every_store(backend: BackendName) -> None:
    digests = {
        simulate(small_race, seeds=range(8), backend=backend, store=store).digest
        for store in ("memory", "sqlite", "memory", "sqlite")
    }
    assert len(digests) == 1
    assert simulate(small_race, seeds=[9], backend=backend).digest not in digests


@on_both
def test_what_is_left_to_chance_is_told(backend: BackendName) -> None:
    counter = itertools.count()

    async def chancy(world: World) -> None:
        async with world.open(specs=[LEAD]) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            await supervisor.tell(root, f"number {next(counter)}")

    report = simulate(chancy, seeds=[1], backend=backend, faults=NO_FAULTS)
    (failure,) = report.failures
    assert failure.law.startswith("22 the same seed gave two runs")
    assert "number 0" in failure.detail
    assert "number 1" in failure.detail


@on_both
def test_who_waits_for_ever_is_a_deadlock_and_who_never_ends_a_livelock(
    backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forlorn(world: World) -> None:
        async with world.open(specs=[LEAD]) as supervisor:
            await supervisor.start_root(LEAD, interactive=True)
            await Gate().passed()

    (failure,) = simulate(
        forlorn, seeds=[2], backend=backend, faults=NO_FAULTS
    ).failures
    assert failure.law == "deadlock"
    assert "agent lead" in failure.detail
    assert "forlorn" in failure.detail

    async def restless(world: World) -> None:
        async with world.open(specs=[LEAD]) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            while True:
                await supervisor.tell(root, "and again")

    monkeypatch.setattr("ramet.lifecycle.held.MOST_STEPS", 3000)
    (failure,) = simulate(
        restless, seeds=[2], backend=backend, faults=NO_FAULTS, shrink=False
    ).failures
    assert failure.law == "livelock"
    assert "restless" in failure.detail


@on_both
def test_an_agent_that_hangs_keeps_a_run_from_rest(backend: BackendName) -> None:
    async def hang(request: ModelRequest) -> str:
        await anyio.sleep_forever()
        return ""

    async def hanging(world: World) -> None:
        async with world.open(specs=[LEAD], model=FunctionModel(hang)) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            await supervisor.tell(root, "go")

    report = simulate(hanging, seeds=[2], backend=backend, faults=NO_FAULTS)
    assert report.failures[0].law.startswith("11 nothing comes to rest")
    assert "it waits for its model" in report.failures[0].law


@on_both
@on_each_store
@pytest.mark.case("R-060", "R-172")
def test_a_crash_keeps_what_was_durable_and_nothing_else(
    backend: BackendName, store: Any
) -> None:
    async def killed(world: World) -> None:
        stored = []
        async with world.open(specs=[LEAD]) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            stored.append(await supervisor.tell(root, "first", key="1"))
            world.crash()
            await supervisor.tell(root, "never sent", key="2")
            raise AssertionError("the process is dead")
        assert stored
        async with world.open(specs=[LEAD]) as supervisor:
            again = await supervisor.resume(root.id)
            assert await supervisor.tell(again, "first", key="1") == stored[0]
            assert await supervisor.lookup("host", "2") is None

    faults = Faults(crash=0.0, failed_commit=0.0)
    seeds = range(30)
    simulate(killed, seeds=seeds, backend=backend, store=store, faults=faults).check()


@on_both
@on_each_store
@pytest.mark.case("R-186", "R-187")
@pytest.mark.parametrize("stored", [False, True])
def test_a_commit_that_was_planned_to_fail_fails(
    backend: BackendName, store: Any, stored: bool
) -> None:
    async def failing(world: World) -> None:
        unknown = None
        async with world.open(specs=[LEAD]) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            world.fault("failed-commit", stored=stored)
            try:
                await supervisor.tell(root, "go", key="k")
            except ramet.SendUnknownError as error:
                unknown = error
            with pytest.raises(ramet.PersistenceUnavailableError):
                await supervisor.tell(root, "more")
            found = await supervisor.lookup("host", "k")
            assert (found is not None) is stored
        assert unknown is not None
        assert unknown.key == "k"

    seeds = range(10)
    simulate(
        failing, seeds=seeds, backend=backend, store=store, faults=NO_FAULTS
    ).check()


@on_both
@pytest.mark.case("R-182")
def test_a_paused_process_that_lost_its_claim_writes_nothing_more(
    backend: BackendName,
) -> None:
    async def paused(world: World) -> None:
        taken, told = Gate(), []

        async def first() -> None:
            async with world.open(specs=[LEAD], rest=False) as supervisor:
                root = await supervisor.start_root(LEAD, interactive=True)
                roots.append(root.id)
                world.pause()
                taken.open()
                with pytest.raises(ramet.SendUnknownError):
                    await supervisor.tell(root, "of the first")
                told.append("unknown")
                with pytest.raises(ramet.PersistenceUnavailableError):
                    await supervisor.tell(root, "of the first, again")

        async def second() -> None:
            await taken.passed()
            async with world.open(specs=[LEAD]) as supervisor:
                root = await supervisor.resume(roots[0])
                await supervisor.tell(root, "of the second")
                world.unpause()
                await supervisor.tell(root, "more of the second")

        roots: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            group.start_soon(second)
        assert told == ["unknown"]
        texts = [event.content[0] for event in world.accepted()]
        assert texts == ["of the second", "more of the second"]

    simulate(paused, seeds=range(20), backend=backend, faults=NO_FAULTS).check()


@on_both
def test_time_is_virtual_and_slow_models_take_it(backend: BackendName) -> None:
    async def patient(world: World) -> None:
        async with world.open(specs=[LEAD]) as supervisor:
            world.fault("slow-models", seconds=3600.0)
            world.fault("late-commits", seconds=60.0)
            root = await supervisor.start_root(LEAD, interactive=True)
            for _ in range(12):
                await supervisor.tell(root, "go")
            await root.wait_idle()
            assert world.now_s >= 3600.0

    simulate(patient, seeds=range(3), backend=backend, faults=NO_FAULTS).check()


@on_both
def test_a_law_of_ones_own_fails_the_run_also_from_inside_a_tool(
    backend: BackendName,
) -> None:
    async def scenario(world: World) -> None:
        async def work() -> str:
            """Work."""
            world.need(False, "mine", "about this")
            raise AssertionError("only fails the call")

        model = ScriptedModel(
            {
                "lead": [
                    step(calls=[call("work")]),
                    step("done"),
                ]
            }
        )
        spec = AgentSpec("lead", tools=[work])
        async with world.open(specs=[spec], model=model) as supervisor:
            root = await supervisor.start_root(spec, interactive=True)
            await supervisor.tell(root, "go")

    report = simulate(scenario, seeds=[2], backend=backend, faults=NO_FAULTS)
    assert [failure.law for failure in report.failures] == ["mine: about this"]


def test_a_trace_is_drawn_as_text_and_as_a_page() -> None:
    async def scenario(world: World) -> None:
        async with world.open(specs=[LEAD, SCOUT]) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            begun = await supervisor.start_child(root, SCOUT, "<a&b>")
            await supervisor.wait(begun.message_id)
            world.note("the scout is back")
            world.need(False, "drawn")

    (failure,) = simulate(scenario, seeds=[2], faults=NO_FAULTS).failures
    drawing = failure.trace.text()
    assert "lead.1" in drawing
    assert "prompt '<a&b>'" in drawing
    assert "== the scout is back" in drawing
    assert drawing.endswith("== BROKEN: drawn")
    page = failure.trace.page("a <title>")
    assert page.startswith("<!doctype html>")
    assert "a &lt;title&gt;" in page
    assert "&lt;a&amp;b&gt;" in page
    assert page.count("<line") >= 4


@pytest.mark.parametrize(
    "text", ["7", "7:3=1,9=2", "7:", "7:3=1:all", "7:*:crash,late_commits_s"]
)
def test_a_replay_is_its_text(text: str) -> None:
    assert str(Replay.read(text)) == text


@pytest.mark.parametrize(
    "text", ["", "x", "7:1", "7:1=x", "7:-1=1", "7::nothing", "1:2=3:all:more"]
)
def test_a_text_that_names_no_run_is_refused(text: str) -> None:
    with pytest.raises(ramet.UsageError):
        Replay.read(text)


def test_wrong_use_is_told() -> None:
    with pytest.raises(ramet.UsageError, match="asyncio"):
        simulate(small_race, backend="curio")  # type: ignore[arg-type]
    with pytest.raises(ramet.UsageError, match="share"):
        Faults(crash=2.0)
    with pytest.raises(ramet.UsageError, match="store"):
        Scenario(small_race, store="disk")  # type: ignore[arg-type]
    with pytest.raises(ramet.UsageError, match="function"):
        Scenario("no function")  # type: ignore[arg-type]
    with pytest.raises(ramet.UsageError, match="Faults"):
        Scenario(small_race, faults=0.5)  # type: ignore[arg-type]

    async def nothing(world: World) -> None:
        return

    (failure,) = simulate(nothing, seeds=[1]).failures
    assert "never opened the world" in failure.law
