"""The pytest plugin: the marker makes a search, the fixture a supervisor under trio."""

from __future__ import annotations

import pytest

import ramet
from ramet import AgentSpec, FunctionModel, Limits, ModelRequest, Supervisor
from ramet.testing import World

pytest_plugins = ["pytester"]

LEAD = AgentSpec("lead")

RUNS: list[int] = []


@pytest.mark.simulate(seeds=5, backend="trio")
async def test_a_marked_test_runs_once_for_each_seed(world: World) -> None:
    RUNS.append(world.seed)
    async with world.open(specs=[LEAD]) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "go")


def test_each_seed_was_run_and_the_first_twice() -> None:
    assert RUNS == [0, 0, 1, 2, 3, 4]


@pytest.mark.simulate(replay="7:1=1:all", backend="asyncio")
async def test_one_run_that_a_report_names(world: World) -> None:
    assert world.seed == 7
    async with world.open(specs=[LEAD]) as supervisor:
        await supervisor.start_root(LEAD, interactive=True)


@pytest.mark.simulate(bound=1)
@pytest.mark.parametrize("count", [1, 2])
async def test_a_marked_test_may_have_other_arguments(world: World, count: int) -> None:
    async with world.open(specs=[LEAD]) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        for _ in range(count):
            await supervisor.tell(root, "go")
        await world.rest()
        assert len(world.requests) == count


@pytest.mark.trio
async def test_an_hour_passes_at_once_under_an_autojump_clock(
    supervisor: Supervisor, autojump_clock: object
) -> None:
    import trio

    async def slow(request: ModelRequest) -> str:
        await trio.sleep_forever()
        return ""

    spec = AgentSpec("slow", model=FunctionModel(slow), limits=Limits(call_s=3600.0))
    root = await supervisor.start_root(LEAD, interactive=True)
    outcome = await supervisor.call(root, spec, "go")
    assert (outcome.status, outcome.cause) == ("stopped", "call-timeout")
    assert trio.current_time() >= 3600.0


FAILING = """
    import pytest, ramet
    LEAD = ramet.AgentSpec("lead")

    @pytest.mark.simulate(seeds=3)
    async def test_mine(world):
        async with world.open(specs=[LEAD]):
            world.need(False, "mine is broken")

    @pytest.mark.simulate(sed=3)
    async def test_misspelt(world):
        pass
"""


def test_a_broken_law_fails_the_test_and_says_how_to_see_it_again(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(FAILING)
    options = ["-p", "ramet.lifecycle.pytest_plugin", "-p", "no:cacheprovider"]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*seed 0 broke: mine is broken*", "*replay: 0::all*"])
    result.stdout.fnmatch_lines(["*== BROKEN: mine is broken*"])
    result.stdout.fnmatch_lines(["*takes only backend, bound, faults, replay, seeds*"])


def test_the_face_has_no_plugin_in_it() -> None:
    assert not hasattr(ramet, "world")
