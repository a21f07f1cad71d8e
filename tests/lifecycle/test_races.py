"""Each pair of parties: every schedule within a few departures, and some seeds.

An ordinary run allows one departure from plain order, `--full-sweeps` two.
"""

from __future__ import annotations

import pytest

from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.simulate_run import ScenarioFunction
from ramet.testing import Scenario, World, explore, simulate
from tests.lifecycle.scenarios import PAIRS, TREES

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def named(scenario: object) -> str:
    """The name of a scenario, for its test."""
    return getattr(scenario, "__name__", "")


@on_both
@pytest.mark.parametrize("scenario", PAIRS, ids=named)
@pytest.mark.case("R-104", "R-105", "R-138", "R-141", "R-194", "R-265")
def test_no_schedule_of_a_race_breaks_a_law(
    scenario: ScenarioFunction, backend: BackendName, full_sweeps: bool
) -> None:
    bound = 2 if full_sweeps else 1
    report = explore(scenario, backend=backend, bound=bound, most=5000)
    report.check()
    assert report.exhausted


@on_both
@pytest.mark.parametrize("scenario", PAIRS, ids=named)
def test_no_seed_of_a_race_breaks_a_law(
    scenario: ScenarioFunction, backend: BackendName
) -> None:
    simulate(scenario, seeds=range(40), backend=backend).check()


@on_both
@pytest.mark.parametrize("scenario", TREES, ids=named)
def test_no_tree_breaks_a_law(scenario: ScenarioFunction, backend: BackendName) -> None:
    report = simulate(Scenario(scenario), seeds=range(30), backend=backend)
    report.check()


def test_a_tree_is_as_deep_and_as_wide_as_it_is_said_to_be() -> None:
    depths: list[int] = []
    widths: list[int] = []
    for scenario, found in zip(TREES, (depths, widths), strict=True):

        async def watched(world: World, grow: ScenarioFunction = scenario) -> None:
            await grow(world)
            headers = [one.header for one in world.durable.values()]
            depths.append(max(header.depth for header in headers))
            below = [header.parent for header in headers]
            widths.append(max(below.count(header.session) for header in headers))

        simulate(watched, seeds=range(2, 8)).check()
        assert found
    assert max(depths) == 6
    assert max(widths) == 8
