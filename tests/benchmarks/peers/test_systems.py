from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import systems
from benchmarks.peers.systems import OURS, OURS_ON_TRIO, PEERS, SYSTEMS, chosen
from benchmarks.peers.workloads import GOALS, WORKLOADS

FOLDER = Path(systems.__file__).parent


def names(*only: str, heavy: bool = False, quick: bool = False) -> list[str]:
    return [one.name for one in chosen(only, heavy=heavy, quick=quick)]


def test_a_quick_run_has_ramet_alone_whatever_else_was_asked_for() -> None:
    assert names("pykka", heavy=True, quick=True) == [OURS, OURS_ON_TRIO]


def test_heavy_peers_come_when_asked_for() -> None:
    assert set(names(heavy=True)) - set(names()) == {
        "async-pykka",
        "deepagents",
        "pydantic-ai",
    }


def test_named_peers_come_alone_also_heavy_ones() -> None:
    assert names("deepagents", "pykka") == [OURS, OURS_ON_TRIO, "pykka", "deepagents"]


def test_a_system_that_needs_a_later_python_says_so() -> None:
    (one,) = (one for one in SYSTEMS if one.name == "async-pykka")
    said = systems.reason_against(one, (3, 11))
    assert said == "needs Python 3.13 or later, and this is 3.11"
    assert systems.reason_against(one, (3, 13)) is None


def test_every_goal_names_a_peer_that_does_its_workload() -> None:
    does = {one.name: one.does for one in SYSTEMS}
    for goal in GOALS:
        assert goal.system in PEERS
        assert goal.workload in does[goal.system]
        assert goal.workload in does[OURS]


@pytest.mark.parametrize("one", SYSTEMS, ids=lambda one: one.name)
def test_every_system_has_its_file_and_does_what_is_known(one: systems.System) -> None:
    assert (FOLDER / f"{one.module}.py").is_file()
    assert one.does
    assert set(one.does) <= set(WORKLOADS)
    assert bool(one.pins) == bool(one.environment)


def test_systems_of_one_environment_have_the_same_pins() -> None:
    pins: dict[str, tuple[str, ...]] = {}
    for one in SYSTEMS:
        assert pins.setdefault(one.environment, one.pins) == one.pins
