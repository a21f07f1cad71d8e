"""Waits for assignments that nothing in this opening is about to run (law 11)."""

from __future__ import annotations

import anyio
import pytest

import ramet
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.stage import LEAD, SCOUT, Stage, gone, start

pytestmark = pytest.mark.anyio


async def refused(sup: ramet.Supervisor, message: str) -> ramet.ParkedError:
    """The refusal of a wait."""
    with pytest.raises(ramet.ParkedError) as caught:
        await sup.wait(message)
    return caught.value


@pytest.mark.case("R-264", "R-159")
async def test_what_a_drain_of_a_subtree_kept_is_not_waited_for_in_vain(
    stored: Stage,
) -> None:
    hold = Gate()
    answers = [step("0", hold=hold), step("B"), step("C")]
    model = ScriptedModel({"lead": [step("n")] * 3, "scout": answers})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        kept = [await sup.followup(root, scout.id, text) for text in "BC"]
        raised: list[ramet.ParkedError] = []

        async def wait() -> None:
            raised.append(await refused(sup, kept[0]))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await sup.drain(below=root)
        raised.append(await refused(sup, kept[1]))
        assert [error.session_id for error in raised] == [scout.id, scout.id]
        assert "a resume, runs it, and a cancel discards it" in str(raised[0])
        assert await sup.outcome(kept[0]) is None

        # What the text says runs it: a wait that was refused before gives its outcome.
        again = await sup.resume(scout.id)
        for message in kept:
            assert (await sup.wait(message)).status == "completed"
        await gone(again)
        await root.wait_idle()


async def cut_twice(stored: Stage) -> tuple[Stage, ramet.Agent, str, str, str]:
    """A copy of a store in which a root and its child were cut, each with a queue."""
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("x", hold=hold)], "scout": [step("x", hold=hold)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "cut")
        await sup.tell(root, "cut too")
        await hold.reached(2)
        told = await sup.tell(root, "waits")
        follow = await sup.followup(root, started.child_id, "waits")
        return stored.crashed(), root, started.message_id, told, follow


@pytest.mark.case("R-264", "R-159")
async def test_what_a_crash_left_is_waited_for_once_it_can_run(stored: Stage) -> None:
    left, root, cut, told, follow = await cut_twice(stored)
    model = ScriptedModel({"lead": [step("n")] * 4, "scout": [step("B"), step("C")]})
    async with left.open(model) as sup:
        for message in (cut, told, follow):
            error = await refused(sup, message)
            assert "was cut off and is not resident: a resume of it" in str(error)
        outcomes: list[ramet.Outcome[None]] = []

        async def wait(message: str) -> None:
            outcomes.append(await sup.wait(message))

        again = await sup.resume(root.id)
        assert (await sup.wait(cut)).cause == "crashed"
        assert (await sup.wait(told)).status == "completed"
        # The child is repaired, and not resumed by that.
        child = (await refused(sup, follow)).session_id
        last = await sup.followup(again, child, "C")
        async with anyio.create_task_group() as group:
            for message in (follow, last):
                group.start_soon(wait, message)
        assert [outcome.status for outcome in outcomes] == ["completed"] * 2
        await again.wait_idle()


@pytest.mark.case("R-264")
async def test_a_wait_that_meets_a_resume_sees_it_through(stored: Stage) -> None:
    left, root, cut, told, _ = await cut_twice(stored)
    model = ScriptedModel({"lead": [step("n")] * 4})
    async with left.open(model) as sup:
        outcomes: list[ramet.Outcome[None]] = []

        async def wait(message: str) -> None:
            outcomes.append(await sup.wait(message))

        async with anyio.create_task_group() as group:
            # The resume has its latch before the waits have read anything.
            group.start_soon(sup.resume, root.id)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            for message in (cut, told):
                group.start_soon(wait, message)
        assert sorted(str(outcome.cause) for outcome in outcomes) == ["None", "crashed"]


@pytest.mark.case("R-264", "R-161")
async def test_what_a_whole_drain_keeps_is_for_the_next_open(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "open")
        await hold.reached()
        kept = await sup.tell(root, "kept")
        await sup.drain()
        with pytest.raises(ramet.DrainingError, match="for the next open"):
            await sup.wait(kept)
    async with stored.open(ScriptedModel({"lead": [step("n")]})) as sup:
        error = await refused(sup, kept)
        assert str(error).endswith("a resume runs it, and a cancel discards it")
        await sup.cancel(root.id)
        assert (await sup.wait(kept)).status == "cancelled"
