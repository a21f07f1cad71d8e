"""Every coroutine of the face, cut at every await: no law is broken, nothing is left.

An undisturbed run counts the awaits of the caller; then each of them is cut, while it
waits and as it resumes, natively on asyncio and by a cancel scope on both backends.
How many were cut is shown after the results of the run.
"""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from ramet.lifecycle.sending import Sending
from tests.face import coroutines
from tests.lifecycle import scenes_outside, scenes_script, scenes_supervisor
from tests.lifecycle.cuts import Cut, Instant, Knife, LostCancelError, ways
from tests.lifecycle.scene import SCENES, Scenario
from tests.lifecycle.stage import HANG_S, Stage

assert all((scenes_outside, scenes_script, scenes_supervisor))

INSTANTS: tuple[Instant, ...] = ("waits", "resumes")
ROWS = [
    (name, kind)
    for name, scenario in SCENES.items()
    for kind in ("memory", "sqlite")
    if kind == "memory" or scenario.stored
]
"""Each scenario with each store that it uses."""


@pytest.fixture(scope="module")
def counted(remark: Callable[[str], None]) -> Iterator[Counter[str]]:
    """Counts the awaits that were cut, by the coroutine that the scenario is about."""
    counts: Counter[str] = Counter()
    yield counts
    if counts:
        each = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        remark(f"cancel sweep: {counts.total()} awaits cut: {each}")


def _stages(kind: str, folder: Path) -> Iterator[Stage]:
    """A new stage for each play."""
    for number in itertools.count():
        place = folder / str(number)
        place.mkdir()
        stage = Stage(kind, place)
        stage.whole = False
        yield stage


def _cuts(backend: str, kind: str, *, full: bool) -> Iterator[Iterator[Cut]]:
    """Cuts at one await after the other, for each way to cut.

    On SQLite an ordinary run takes one way for each backend, and on trio, where a cut
    as one await resumes is a cut as the next one waits, one instant.
    """
    whole = full or kind == "memory"
    chosen = ways(backend) if whole else ways(backend)[:1]
    instants = INSTANTS if whole or backend == "asyncio" else INSTANTS[:1]
    for way, instant in itertools.product(chosen, instants):
        first = 1 if instant == "resumes" else 0
        yield (Cut(way, instant, at) for at in itertools.count(first))


async def _play(scenario: Scenario, stage: Stage, knife: Knife) -> None:
    with anyio.fail_after(HANG_S):
        await scenario.play(stage, knife)
    stage.check()


@pytest.mark.anyio
@pytest.mark.case("R-093", "R-094", "R-107", "R-252", "A-051")
@pytest.mark.parametrize(("name", "kind"), ROWS)
async def test_a_caller_that_is_cut_at_any_await_breaks_no_law(
    name: str,
    kind: str,
    anyio_backend: str,
    tmp_path: Path,
    counted: Counter[str],
    full_sweeps: bool,
) -> None:
    scenario = SCENES[name]
    stages = _stages(kind, tmp_path)
    whole = Knife()
    await _play(scenario, next(stages), whole)
    assert whole.awaits, f"{name}: there is no await to cut"
    done = 0
    for series in _cuts(anyio_backend, kind, full=full_sweeps):
        for cut in series:
            knife = Knife(cut)
            try:
                await _play(scenario, next(stages), knife)
            except BaseException as error:
                error.add_note(f"{name} on {anyio_backend}: cut {cut}")
                raise
            if not knife.used:
                break
            done += 1
    assert done > 1, f"{name}: nothing was cut but a caller that had not begun"
    # What was not closed warns when it is collected, and that fails the test.
    gc.collect()
    for about in scenario.about:
        counted[about] += done


@pytest.mark.anyio
async def test_a_call_that_leaves_its_agent_alone_is_found(
    anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: nobody calls off what a call has started."""

    async def nobody(self: Sending, accepted: list[str]) -> None:
        return

    monkeypatch.setattr(Sending, "_call_off", nobody)
    stages = _stages("memory", tmp_path)
    found = []
    for cut in itertools.islice(next(_cuts(anyio_backend, "memory", full=False)), 6):
        try:
            await _play(SCENES["a call is made"], next(stages), Knife(cut))
        except AssertionError as error:
            found.append(str(error).split("\n")[0])
    assert "A-050: its agent is gone when a call is over" in found


def test_every_coroutine_of_the_face_has_a_scenario() -> None:
    covered = {name for scenario in SCENES.values() for name in scenario.about}
    assert sorted(covered) == coroutines()


# The knife itself.


async def _three() -> int:
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    return 3


async def _swallows() -> int:
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        pass
    return 3


@pytest.mark.anyio
@pytest.mark.parametrize("instant", INSTANTS)
async def test_the_knife_cuts_the_await_that_it_is_told_and_no_other(
    instant: Instant, anyio_backend: str
) -> None:
    whole = Knife()
    assert await whole.run(_three()) == 3
    assert whole.awaits == 3
    for way in ways(anyio_backend):
        knife = Knife(Cut(way, instant, 2))
        assert await knife.run(_three()) is None
        assert knife.used
        assert knife.cancelled
        beyond = Knife(Cut(way, instant, 4))
        assert await beyond.run(_three()) == 3
        assert (beyond.awaits, beyond.used, beyond.cancelled) == (3, False, False)


@pytest.mark.anyio
async def test_a_coroutine_that_swallows_its_cancellation_is_found(
    anyio_backend: str,
) -> None:
    for way in ways(anyio_backend):
        with pytest.raises(LostCancelError):
            await Knife(Cut(way, "waits", 1)).run(_swallows())
