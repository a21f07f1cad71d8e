"""Order between senders on the running runtime: who enters before whom."""

from __future__ import annotations

from typing import Any

import pytest

import ramet
from ramet import AgentSpec, ModelRequest
from ramet.mailbox.events import Discarded, TurnEnded
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    SCOUT,
    Stage,
    gone,
    of,
    sources,
    start,
    texts,
)

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-050")
async def test_only_a_senders_own_earlier_wakeup_holds_its_quiet_message_back(
    stage: Stage,
) -> None:
    inside, hold = Gate(), Gate()

    async def dig() -> str:
        """Dig."""
        await inside.passed()
        return "dug"

    lead = AgentSpec("lead", tools=[dig])
    model = ScriptedModel(
        {
            "lead": [step(calls=[call("dig")]), step("1"), step("2"), step("3")],
            "scout": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, specs=[lead, SCOUT]) as sup:
        root = await sup.start_root(lead, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await inside.reached()
        await sup.report_from(scout, "q1", delivery="quiet")
        await sup.report_from(scout, "w1", delivery="wakeup")
        await sup.report_from(scout, "q2", delivery="quiet")
        await sup.report_from(scout, "w2", delivery="wakeup")
        inside.open()
        await root.wait_idle()
        seen = [texts(request) for request in model.requests_of("lead")]
        assert seen == [
            ["begin"],
            ["begin", "q1"],
            ["begin", "q1", "w1", "q2"],
            ["begin", "q1", "w1", "q2", "w2"],
        ]


@pytest.mark.case("R-051", "R-150", "R-135")
async def test_a_quiet_message_stays_behind_its_senders_parked_wakeup(
    stage: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1")],
            "scout": [step("x", hold=hold)],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.tell(root, "begin")
        await first.reached()
        await sup.report_from(scout, "parked", delivery="wakeup")
        sup.interrupt(root.id)
        await root.wait_idle()
        assert root.pending == 1
        await sup.report_from(scout, "behind")
        await sup.report_from(digger, "at once")
        assert root.statistics()["staged"] == 1
        assert root.state != "running"
        await sup.tell(root, "go on")
        await root.wait_idle()
        seen = texts(model.requests_of("lead")[1])
        assert seen == ["begin", "at once", "parked", "behind"]


@pytest.mark.case("R-052")
async def test_no_kind_of_sender_overtakes_another(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step(str(n), hold=first) for n in range(5)],
            "scout": [step("x", hold=hold)],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.tell(root, "begin")
        await first.reached()
        await sup.tell(root, "F")
        await sup.report_from(scout, "C", delivery="wakeup")
        await sup.report_from(digger, "D", delivery="wakeup")
        await sup.tell(root, "G")
        first.open()
        await root.wait_idle()
        last = [texts(request)[-1] for request in model.requests_of("lead")]
        assert last == ["begin", "F", "C", "D", "G"]


@pytest.mark.case("R-053")
@pytest.mark.parametrize("deliveries", ["qq", "qw", "wq", "ww"])
async def test_a_notice_comes_after_all_reports_of_its_child(
    stage: Stage, deliveries: str
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step(str(n), hold=first) for n in range(5)],
            "scout": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await first.reached()
        for number, letter in enumerate(deliveries):
            delivery: Any = {"q": "quiet", "w": "wakeup"}[letter]
            await sup.report_from(scout, f"report {number}", delivery=delivery)
        hold.open()
        await gone(scout)
        first.open()
        await root.wait_idle()
        await sup.tell(root, "end")
        await root.wait_idle()
        seen = sources(model.requests_of("lead")[-1])
        assert [s for s in seen if s != "tell"] == ["report", "report", "notice"]


@pytest.mark.case("R-056", "R-148", "R-149", "R-110")
async def test_a_cancel_discards_the_wakeup_and_lets_the_quiet_one_behind_it_enter(
    stored: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {"lead": [step("0", hold=first)], "scout": [step("x", hold=hold)]}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await first.reached()
        wake = await sup.report_from(scout, "w1", delivery="wakeup")
        quiet = await sup.report_from(scout, "q2")
        await sup.cancel(root, reason="enough")
        status = await sup.message(wake)
        assert (status.state, status.cause) == ("discarded", "enough")
        assert (await sup.message(quiet)).state == "stored"
        assert root.statistics()["staged"] == 0
        assert root.state == "gone"
        assert scout.state == "gone"
        discarded = of(stored.log(root), Discarded)
        assert [(e.id, e.cause) for e in discarded] == [(wake, "cancelled")]


@pytest.mark.case("R-263", "R-228")
async def test_an_interrupt_right_after_a_tell_finds_an_open_turn(
    stored: Stage,
) -> None:
    async def mind(request: ModelRequest) -> str:
        return "quick"

    async with stored.open(ramet.FunctionModel(mind)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for _ in range(5):
            message = await sup.tell(root, "work")
            sup.interrupt(root.id)
            await root.wait_idle()
            outcome = await sup.wait(message)
            assert (outcome.status, outcome.cause) == ("cancelled", "interrupted")
        ends = of(stored.log(root), TurnEnded)
        assert [end.cause for end in ends] == ["interrupted"] * 5
        assert "host" in (ends[0].detail or "")
