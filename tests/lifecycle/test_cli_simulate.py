"""The command `simulate`: how a search is stopped, and what it says of its end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ramet.lifecycle.cli import main

RACES = """
async def loses(world):
    seen = 0

    async def think(request):
        nonlocal seen
        if request.name == "scout":
            before = seen
            await world.checkpoint()
            seen = before + 1
        return "done"

    from ramet import AgentSpec, FunctionModel
    lead, scout = AgentSpec("lead"), AgentSpec("scout")
    async with world.open(specs=[lead, scout], model=FunctionModel(think)) as sup:
        root = await sup.start_root(lead, interactive=True)
        for prompt in ("go left", "go right"):
            await sup.start_child(root, scout, prompt)
        await world.rest()
        assert seen == 2, f"{seen} of 2 scouts were counted"


async def sound(world):
    async with world.open():
        pass


sent = []


async def interrupted(world):
    import os, signal
    async with world.open():
        # The first run is made twice, and a second signal would end the process.
        if not sent:
            sent.append(os.kill(os.getpid(), signal.{signal}))
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "races.py"
    path.write_text(RACES.replace("{signal}", "SIGTERM"))
    return str(path)


def test_a_search_whose_time_is_over_tells_what_it_found(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", f"{file}:sound", "--seeds", "1000000", "--for", "0.05"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "none failed" in out
    assert "its time is over: this is what was found until then" in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_search_that_is_stopped_tells_what_it_found(
    number: signal.Signals,
    backend: str,
    file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path(file).write_text(RACES.replace("{signal}", number.name))
    before = signal.getsignal(number)
    words = ["simulate", f"{file}:interrupted", "--backend", backend]
    assert main(words) == 128 + number
    out = capsys.readouterr().out
    assert "1 runs in " in out
    assert "it was interrupted: this is what was found until then" in out
    assert signal.getsignal(number) == before


def test_failures_of_one_kind_are_told_once_and_the_end_of_the_search_too(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", f"{file}:loses", "--seeds", "500"]) == 1
    out = capsys.readouterr().out
    assert out.count("departure") == 1
    assert "schedule: 1 departure from the plain order, no fault of the seed" in out
    assert "also broken, and not shrunk: AssertionError: 1 of 2" in out
    assert "it looks no further after 5 failures" in out
    assert "again: ramet simulate" in out


def test_a_replay_that_does_not_fit_is_told(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", f"{file}:sound", "--replay", "3:0=1,900=1:all"]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "none failed" in out
    assert "departures of the replay did not come up" in out


def test_a_whole_exploration_says_so(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", f"{file}:sound", "--explore", "1"]) == 0
    assert "\nevery schedule within the bound was tried" in capsys.readouterr().out


def test_who_names_no_scenario_of_several_is_told_all_names(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", file]) == 2
    assert "it has: loses, sound, interrupted" in capsys.readouterr().err
