"""Interrupts on the running runtime: what stops, what is parked, what goes on."""

from __future__ import annotations

import anyio
import pytest

import ramet
from ramet import ModelRequest
from ramet.mailbox.events import CallEnded, Interrupted, TurnEnded, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import Stubborn, held
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    of,
    resident,
    start,
    texts,
)

pytestmark = pytest.mark.anyio


# -- interrupt -------------------------------------------------------------------------


@pytest.mark.case("R-135", "R-136", "R-137", "R-149")
async def test_an_interrupt_stops_the_turn_and_parks_what_waits(
    stored: Stage,
) -> None:
    hold, deep = Gate(), Gate()
    model = ScriptedModel(
        {
            "scout": [step("0", hold=hold), step("B"), step("C2"), step("D2")],
            "digger": [step("x", hold=deep)],
            "lead": [step("n")] * 3,
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "A")
        scout = resident(sup, started.child_id)
        await start(sup, scout, DIGGER)
        await hold.reached()
        waiting = [await sup.followup(root, scout.id, text) for text in ("B", "C2")]
        sup.interrupt(scout.id)
        assert scout._activation.session.interrupted == "host"
        outcome = await sup.wait(started.message_id)
        assert (outcome.status, outcome.cause) == ("cancelled", "interrupted")
        await scout.wait_idle()
        assert (scout.pending, scout.state) == (2, "waiting")
        log = stored.log(scout)
        assert len(of(log, Interrupted)) == 1
        assert of(log, TurnEnded)[0].cause == "interrupted"
        assert len(model.requests_of("scout")) == 1
        # Without an open turn another interrupt does nothing.
        sup.interrupt(scout.id, by=root)
        assert len(of(stored.log(scout), Interrupted)) == 1
        last = await sup.followup(root, scout.id, "D2")
        assert (await sup.wait(last)).status == "completed"
        for message in waiting:
            assert (await sup.wait(message)).status == "completed"
        turns = [e.claimed for e in of(stored.log(scout), TurnOpened)]
        assert turns[1:] == [(message,) for message in (*waiting, last)]


@pytest.mark.case("R-138")
async def test_an_interrupt_without_an_open_turn_does_nothing(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")] * 2, "scout": [step("x", hold=hold)]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        hold.open()
        await gone(scout)
        await root.wait_idle()
        before = [stage.log(root), stage.log(scout)]
        for name in (root.id, scout.id, "s-absent"):
            sup.interrupt(name)
        await anyio.wait_all_tasks_blocked()
        assert [stage.log(root), stage.log(scout)] == before
        message = await sup.tell(root, "x")
        assert (await sup.wait(message)).status == "completed"


@pytest.mark.case("R-139", "R-140")
async def test_an_interrupt_leaves_children_alone_and_their_notice_wakes_the_queue(
    stage: Stage,
) -> None:
    hold, deep = Gate(), Gate()
    model = ScriptedModel(
        {
            "scout": [step("0", hold=hold), step("B"), step("C2"), step("n")],
            "digger": [step("done", hold=deep)],
            "lead": [step("n")] * 2,
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        await hold.reached()
        await deep.reached()
        for text in ("B", "C2"):
            await sup.followup(root, scout.id, text)
        sup.interrupt(scout.id)
        await scout.wait_idle()
        assert digger.state == "running"
        deep.open()
        await gone(digger)
        await gone(scout)
        opened = of(stage.log(scout), TurnOpened)
        notice = accepted_in(stage.log(scout), "notice")[0]
        assert notice.given == "wakeup"
        assert len(opened) == 4
        assert opened[3].claimed == (notice.id,)
        asked = [texts(r)[-1] for r in model.requests_of("scout")[1:3]]
        assert asked == ["B", "C2"]


@pytest.mark.case("R-141", "R-145")
async def test_a_wakeup_while_an_interrupted_turn_unwinds_lets_the_queue_run(
    stage: Stage,
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel(
        {"lead": [step("n")], "scout": [*stubborn.steps(), step("B"), step("late")]}
    )
    stage.whole = False
    async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, stubborn.spec, "A")
        await stubborn.inside.reached()
        waiting = await sup.followup(root, started.child_id, "B")
        sup.interrupt(started.child_id)
        sup.interrupt(started.child_id)
        late = await sup.followup(root, started.child_id, "late")
        stubborn.inside.open()
        for message in (waiting, late):
            assert (await sup.wait(message)).status == "completed"
        outcome = await sup.wait(started.message_id)
        assert (outcome.status, outcome.cause) == ("cancelled", "interrupted")
        log = stage.log(started.child_id)
        assert len(of(log, Interrupted)) == 1
        # The tool had ended when the turn did: its real result stands.
        assert [(e.content, e.error) for e in of(log, CallEnded)] == [("late", None)]


@pytest.mark.case("R-146")
@pytest.mark.parametrize("interrupted", [True, False])
async def test_a_parked_queue_stays_parked_over_a_kill_until_the_next_wakeup(
    stored: Stage, interrupted: bool
) -> None:
    hold = Gate()
    stored.whole = False
    async with stored.open(held("lead", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "A")
        await hold.reached()
        await sup.tell(root, "B")
        if interrupted:
            sup.interrupt(root.id)
            await root.wait_idle()
        copy = stored.crashed()
    model = ScriptedModel({"lead": [step("b"), step("c")]})
    async with copy.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        assert again.pending == (1 if interrupted else 0)
        await sup.tell(again, "C")
        await again.wait_idle()
        assert [texts(r)[-1] for r in model.requests] == ["B", "C"]


@pytest.mark.case("R-147")
async def test_returning_agents_are_not_interrupted(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"oracle": [step(calls=[call("reply", value=1)], hold=hold)], "lead": []}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        await hold.reached()
        before = stage.log(begun.child_id)
        sup.interrupt(begun.child_id)
        sup.interrupt(begun.child_id, by=root)
        assert stage.log(begun.child_id) == before
        hold.open()
        assert (await sup.wait(begun.message_id)).unwrap() == 1


@pytest.mark.case("R-145")
async def test_an_interrupt_that_meets_the_end_of_a_turn_ends_it_once(
    stage: Stage,
) -> None:
    async def mind(request: ModelRequest) -> str:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return "ok"

    async with stage.open(ramet.FunctionModel(mind)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for late in range(12):
            message = await sup.tell(root, "x")
            for _ in range(late):
                await anyio.lowlevel.checkpoint()
            sup.interrupt(root.id)
            outcome = await sup.wait(message)
            await root.wait_idle()
            interrupts = of(stage.log(root), Interrupted)
            ends = of(stage.log(root), TurnEnded)
            assert len(ends) == late + 1
            assert len([e for e in ends if e.cause == "interrupted"]) == len(interrupts)
            assert (outcome.status == "cancelled") is (outcome.cause == "interrupted")


@pytest.mark.case("R-138")
async def test_a_parent_interrupts_its_settled_child_and_nothing_happens(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        hold.open()
        await gone(scout)
        await root.wait_idle()
        before = stage.log(scout)
        sup.interrupt(scout.id, by=root)
        sup.interrupt("s-unknown", by=root)
        sup.interrupt(scout.id)
        assert stage.log(scout) == before
