"""Which notices wake a parent on the running runtime, and which do not."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, Policy, Setup
from ramet.mailbox.events import Promoted, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import reply
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
    sources,
    start,
)

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-124", "R-125", "R-126", "R-127", "R-131")
@pytest.mark.parametrize(
    ("policy", "how", "reported", "sibling", "wakes"),
    [
        ("auto", "completed", True, True, False),
        ("auto", "completed", True, False, True),
        ("auto", "completed", False, True, True),
        ("auto", "failed", True, True, True),
        ("auto", "cancelled", True, True, True),
        ("auto", "stopped", True, True, True),
        ("wakeup", "completed", True, True, True),
        ("quiet", "completed", False, False, False),
        ("quiet", "failed", True, False, False),
        ("off", "completed", False, False, False),
        ("off", "failed", False, False, False),
    ],
)
async def test_the_policy_and_the_end_of_a_child_decide_whether_its_notice_wakes(
    stage: Stage, policy: Any, how: str, reported: bool, sibling: bool, wakes: bool
) -> None:
    first, hold = Gate(), Gate()
    last = {
        "failed": step(error=ramet.ModelError("broken"), hold=first),
        "stopped": step(calls=[call("unknown")], hold=first),
    }.get(how, step("done", hold=first))
    limits = ramet.Limits(requests=1) if how == "stopped" else None
    spec = AgentSpec("scout", limits=limits)
    model = ScriptedModel(
        {
            "lead": [step("read")],
            "scout": [last],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    stage.told = policy != "off"
    async with stage.open(
        model, policy=Policy(notices=policy), specs=[LEAD, spec, DIGGER]
    ) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        if sibling:
            await start(sup, root, DIGGER)
        started = await sup.start_child(root, spec, "go")
        scout = resident(sup, started.child_id)
        await first.reached()
        if reported:
            await sup.report_from(scout, "found")
        if how == "cancelled":
            await sup.cancel(scout)
        first.open()
        await gone(scout)
        await root.wait_idle()
        assert (await sup.wait(started.message_id)).status == how
        log = stage.log(root)
        notices = accepted_in(log, "notice")
        assert len(notices) == (policy != "off")
        assert len(of(log, TurnOpened)) == wakes
        if policy == "off":
            return
        assert notices[0].given == ("wakeup" if wakes else "quiet")
        if wakes:
            asked = model.requests_of("lead")
            expected = ["report", "notice"] if reported else ["notice"]
            assert [sources(request) for request in asked] == [expected]


@pytest.mark.case("R-128")
async def test_a_completion_by_itself_is_not_unread_context(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("ok")], "scout": [step("done", hold=hold)]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.report_from(scout, "found")
        await sup.tell(root, "what is new?")
        await root.wait_idle()
        hold.open()
        await gone(scout)
        await root.wait_idle()
        notice = accepted_in(stage.log(root), "notice")[0]
        assert notice.given == "quiet"
        assert len(model.requests_of("lead")) == 1


@pytest.mark.case("R-129", "R-260", "R-259", "R-002")
async def test_a_report_and_a_notice_after_the_last_step_are_read_by_one_more_turn(
    stored: Stage,
) -> None:
    last, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=last), step("1")],
            "scout": [step("done", hold=hold)],
            "digger": [step("done", hold=hold)],
        }
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.tell(root, "begin")
        await last.reached()
        await sup.report_from(scout, "found")
        await sup.report_from(digger, "dug")
        hold.open()
        await gone(scout)
        await gone(digger)
        given = [n.given for n in accepted_in(stored.log(root), "notice")]
        assert given == ["undecided", "undecided"]
        last.open()
        await root.wait_idle()
        log = stored.log(root)
        promoted = [event.id for event in of(log, Promoted)]
        assert promoted == [n.id for n in accepted_in(log, "notice")]
        opened = of(log, TurnOpened)
        assert len(opened) == 2
        assert list(opened[1].claimed) == promoted
        seen = sources(model.requests_of("lead")[1])
        assert sorted(seen) == ["notice", "notice", "report", "report", "tell"]


@pytest.mark.case("R-259", "R-260")
async def test_an_undecided_notice_enters_quietly_when_its_turn_reads_on(
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
            "lead": [step(calls=[call("dig")]), step("read")],
            "scout": [step("done", hold=hold)],
        }
    )
    async with stage.open(model, specs=[lead, SCOUT]) as sup:
        root = await sup.start_root(lead, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await inside.reached()
        await sup.report_from(scout, "found")
        hold.open()
        await gone(scout)
        inside.open()
        await root.wait_idle()
        log = stage.log(root)
        assert accepted_in(log, "notice")[0].given == "undecided"
        assert not of(log, Promoted)
        assert len(of(log, TurnOpened)) == 1
        assert sources(model.requests_of("lead")[1]) == ["tell", "report", "notice"]


@pytest.mark.case("R-261", "R-260")
async def test_nothing_is_promoted_at_the_end_of_an_interrupted_turn(
    stage: Stage,
) -> None:
    last, hold = Gate(), Gate()
    model = ScriptedModel(
        {"lead": [step("0", hold=last)], "scout": [step("done", hold=hold)]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await last.reached()
        await sup.report_from(scout, "found")
        hold.open()
        await gone(scout)
        sup.interrupt(root.id)
        await root.wait_idle()
        assert not of(stage.log(root), Promoted)
        assert root.statistics()["staged"] == 0
        assert root.pending == 0


@pytest.mark.case("R-130")
async def test_notices_that_wait_together_are_claimed_by_one_turn(
    stage: Stage,
) -> None:
    last, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=last), step("1"), step("2"), step("3")],
            "scout": [step("done", hold=hold)],
            "digger": [step("done", hold=hold)],
        }
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        pair = [await start(sup, root, spec) for spec in (SCOUT, DIGGER)]
        await sup.tell(root, "begin")
        await last.reached()
        for agent in pair:
            await sup.cancel(agent)
        await sup.tell(root, "between")
        stage.whole = False
        begun = await sup.start_child(root, AgentSpec("nobody"), "x")
        await sup.wait(begun.message_id)
        last.open()
        await root.wait_idle()
        opened = of(stage.log(root), TurnOpened)
        assert [len(turn.claimed) for turn in opened] == [1, 2, 1, 1]


@pytest.mark.case("R-131", "R-224")
@pytest.mark.parametrize("policy", ["auto", "wakeup", "quiet", "off"])
async def test_the_last_child_wakes_a_returning_agent_under_every_policy(
    stage: Stage, policy: Any
) -> None:
    hold, deep = Gate(), Gate()
    model = ScriptedModel(
        {
            "oracle": [step("waiting", hold=hold), step(calls=[reply("seen")])],
            "digger": [step("done", hold=deep)],
            "lead": [step("ok")] * 2,
        }
    )
    stage.whole = False
    stage.told = policy != "off"
    async with stage.open(model, policy=Policy(notices=policy)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        oracle = resident(sup, begun.child_id)
        digger = await start(sup, oracle, DIGGER)
        await sup.report_from(digger, "found")
        hold.open()
        await oracle.wait_idle()
        assert oracle.state == "waiting"
        deep.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == "seen"


@pytest.mark.case("R-132", "R-158", "R-160")
@pytest.mark.parametrize("how", ["cancel", "drain"])
async def test_the_end_of_a_deep_tree_makes_no_request(stored: Stage, how: str) -> None:
    hold = Gate()
    names = ["lead", "scout", "digger"]
    model = ScriptedModel({name: [step("x", hold=hold)] for name in names})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await start(sup, scout, DIGGER)
        await sup.tell(root, "x")
        await hold.reached(3)
        await (sup.cancel(root) if how == "cancel" else sup.drain())
        assert root.state == "gone"
    assert len(model.requests) == 3
    for name in (root.id, scout.id):
        notice = accepted_in(stored.log(name), "notice")[0]
        assert notice.given == "quiet"
        cause = "cancelled" if how == "cancel" else "drain"
        assert f"cancelled ({cause})" in notice.content[0]
    async with stored.open(ScriptedModel({"lead": [step("ok")]})) as sup:
        again = await sup.resume(root.id)
        await sup.tell(again, "what happened?")
        await again.wait_idle()


@pytest.mark.case("R-133")
async def test_what_a_child_of_an_absent_parent_did_is_told_at_its_next_resume(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        for text in "ab":
            await sup.followup(root, scout.id, text)
    model = ScriptedModel({"scout": [step("a"), step("b")], "lead": [step("read")] * 2})
    async with stored.open(model) as sup:
        before = stored.log(root)
        again = await sup.resume(scout.id)
        await gone(again)
        assert stored.log(root) == before
        told = accepted_in(before, "notice")
        resumed = await sup.resume(root.id)
        await resumed.wait_idle()
        notices = accepted_in(stored.log(root), "notice")[len(told) :]
        assert len(notices) == 1
        assert len(notices[0].about) == 2
        assert "notice" in sources(model.requests_of("lead")[0])
    async with stored.open(ScriptedModel({})) as sup:
        await (await sup.resume(root.id)).wait_idle()
    assert len(accepted_in(stored.log(root), "notice")) == len(told) + 1


@pytest.mark.case("R-134")
async def test_a_start_that_failed_is_told_to_nobody(stage: Stage) -> None:
    def contribute(setup: Setup) -> None:
        if setup.name == "scout":
            raise ValueError("no")

    async with stage.open(ScriptedModel({})) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        before = stage.log(root)
        for begin in (sup.start_child, sup.start_call, sup.call):
            with pytest.raises(ValueError, match="no"):
                await begin(root, SCOUT, "x")
        assert stage.log(root) == before
        assert await sup.children(root.id) == []


@pytest.mark.case("R-262", "R-127")
async def test_a_call_that_ends_last_wakes_an_idle_parent_with_unread_reports(
    stage: Stage,
) -> None:
    hold, deep = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("read")],
            "scout": [step("done", hold=hold)],
            "oracle": [step(calls=[reply(1)], hold=deep)],
        }
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.report_from(scout, "found")
        outcomes: list[ramet.Outcome[Any]] = []

        async def ask() -> None:
            outcomes.append(await sup.call(root, ORACLE, "x"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await deep.reached()
            hold.open()
            await gone(scout)
            await root.wait_idle()
            assert not model.requests_of("lead")
            deep.open()
        assert outcomes[0].unwrap() == 1
        await root.wait_idle()
        seen = [sources(request) for request in model.requests_of("lead")]
        assert seen == [["report", "notice", "notice"]]
        assert accepted_in(stage.log(root), "notice")[-1].about == ()


@pytest.mark.case("R-262")
async def test_a_child_without_an_outcome_to_tell_gives_no_notice(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")] * 2, "scout": [step("x", hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        hold.open()
        await gone(scout)
        await root.wait_idle()
        again = await sup.resume(scout.id)
        again.release()
        await gone(again)
        await root.wait_idle()
        assert len(accepted_in(stored.log(root), "notice")) == 1
        # With something unread in its idle parent it gives one, which names nothing.
        third = await sup.resume(scout.id)
        await sup.report_from(third, "by the way")
        third.release()
        await gone(third)
        await root.wait_idle()
        notices = accepted_in(stored.log(root), "notice")
        assert [len(notice.about) for notice in notices] == [1, 0]
        assert notices[1].given == "wakeup"
