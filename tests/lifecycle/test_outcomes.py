"""Assignments, outcomes and notices on the running runtime."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, ModelRequest, Policy, Setup, UserMessage
from ramet.mailbox.events import Concluded, Discarded, Ended, Promoted, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
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
    texts,
)

pytestmark = pytest.mark.anyio


def reply(value: Any) -> ramet.Call:
    return call("reply", value=value)


@pytest.mark.case("R-118", "R-120", "R-123", "R-009")
async def test_one_notice_names_every_assignment_that_a_child_answered(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "scout": [step("words of the scout", hold=hold), step("1"), step("2")],
        }
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "0")
        scout = resident(sup, started.child_id)
        ids = [started.message_id]
        ids += [await sup.followup(root, scout.id, text) for text in "12"]
        hold.open()
        await gone(scout)
        await root.wait_idle()
        for message in ids:
            outcome = await sup.outcome(message)
            assert outcome is not None
            assert (outcome.status, outcome.message_id) == ("completed", message)
            assert outcome.session_id == scout.id
        notices = accepted_in(stored.log(root), "notice")
        assert [notice.about for notice in notices] == [tuple(ids)]
        text = notices[0].content[0]
        positions = [text.index(message) for message in ids]
        assert positions == sorted(positions)
        assert "Reports: 0" in text
        assert "still wait: 0" in text
        assert f"session {scout.id}" in text
        assert "words" not in text
        assert (notices[0].source, notices[0].sender) == ("notice", scout.id)


@pytest.mark.case("R-121", "R-119")
async def test_an_unclaimed_followup_of_a_cancelled_child_is_told_as_cancelled(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        message = await sup.followup(root, scout.id, "never")
        await sup.cancel(scout, reason="not needed")
        outcome = await sup.wait(message)
        assert (outcome.status, outcome.cause) == ("cancelled", "cancelled")
        assert outcome.detail == "not needed"
        with pytest.raises(ramet.AgentCancelledError):
            outcome.unwrap()
        await root.wait_idle()
        notice = accepted_in(stored.log(root), "notice")[0]
        assert message in notice.about
        assert "not needed" in notice.content[0]


@pytest.mark.case("R-122", "R-196")
async def test_a_release_that_fails_is_in_the_notice_and_reaches_the_supervisor(
    stage: Stage,
) -> None:
    hold = Gate()
    broken = ValueError("cannot let go")

    def contribute(setup: Setup) -> Any:
        def release() -> None:
            raise broken

        return release if setup.name == "scout" else None

    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    with pytest.raises(ramet.TeardownError) as caught:
        async with stage.open(model) as sup:
            sup.register_setup(contribute)
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, SCOUT, "x")
            scout = resident(sup, started.child_id)
            hold.open()
            await gone(scout)
            assert (await sup.wait(started.message_id)).status == "completed"
            await root.wait_idle()
            notice = accepted_in(stage.log(root), "notice")[0]
            assert "cannot let go" in notice.content[0]
    assert caught.value.exceptions == (broken,)


# -- notices that wake, and those that do not ------------------------------------------


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


# -- calls -----------------------------------------------------------------------------


@pytest.mark.case("R-119")
async def test_a_caller_who_is_cancelled_cancels_its_call(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply(1)], hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(sup.call, root, ORACLE, "x")
                await hold.reached()
                scope.cancel()
        assert scope.cancelled_caught
        line = (await sup.children(root.id))[0]
        concluded = of(stored.log(line.id), Concluded)
        assert [c.status for c in concluded] == ["cancelled"]
        outcome = await sup.outcome(concluded[0].message)
        assert outcome is not None
        assert outcome.status == "cancelled"
        await root.wait_idle()
        assert not accepted_in(stored.log(root), "notice")


@pytest.mark.case("R-244", "R-245", "R-246")
@pytest.mark.parametrize("policy", ["auto", "wakeup", "quiet", "off"])
async def test_a_background_call_tells_its_outcome_as_one_waking_message(
    stage: Stage, policy: Any
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1"), step("2"), step("3")],
            "oracle": [step(calls=[reply({"answer": 42})], hold=hold)],
        }
    )
    async with stage.open(model, policy=Policy(notices=policy)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        assert root.statistics()["children"] == 1
        await sup.tell(root, "begin")
        await first.reached()
        await sup.tell(root, "before")
        hold.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == {"answer": 42}
        await sup.tell(root, "after")
        first.open()
        await root.wait_idle()
        log = stage.log(root)
        told = accepted_in(log, "outcome")
        assert [(m.about, m.sender) for m in told] == [
            ((begun.message_id,), begun.child_id)
        ]
        assert told[0].given == "wakeup"
        assert not accepted_in(log, "notice")
        last = [sources(r)[-1] for r in model.requests_of("lead")]
        assert last == ["tell", "tell", "outcome", "tell"]
        shown = model.requests_of("lead")[2].messages[-1]
        assert isinstance(shown, UserMessage)
        assert '"answer": 42' in shown.blocks[-1]


@pytest.mark.case("R-247")
async def test_past_the_wake_budget_an_outcome_message_is_deferred(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply(1)], hold=hold)]})
    async with stage.open(model, policy=Policy(wake_budget=0)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        hold.open()
        await sup.wait(begun.message_id)
        await root.wait_idle()
        told = accepted_in(stage.log(root), "outcome")[0]
        assert told.given == "quiet"
        assert (await sup.message(told.id)).deferred
        assert not of(stage.log(root), TurnOpened)


@pytest.mark.case("R-248")
@pytest.mark.parametrize("how", ["cancel", "drain"])
async def test_a_background_call_of_a_parent_that_ends_is_ended_first(
    stored: Stage, how: str
) -> None:
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply(1)], hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        await hold.reached()
        await (sup.cancel(root) if how == "cancel" else sup.drain())
    ends = [e.session for e in stored.entries if isinstance(e.event, Ended)]
    assert ends == [begun.child_id, root.id]
    told = accepted_in(stored.log(root), "outcome")
    assert [(m.about, m.given) for m in told] == [((begun.message_id,), "quiet")]
    async with stored.open(ScriptedModel({"lead": [step("ok")]})) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        outcome = await sup.wait(begun.message_id)
        cause = "cancelled" if how == "cancel" else "drain"
        assert (outcome.status, outcome.cause) == ("cancelled", cause)
        await sup.tell(again, "x")
        await again.wait_idle()


@pytest.mark.case("R-251", "R-064")
async def test_a_background_call_with_a_key_is_one_agent_and_one_outcome(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("ok")], "oracle": [step(calls=[reply(1)], hold=hold)]}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun: list[ramet.Started] = []

        async def begin() -> None:
            begun.append(await sup.start_call(root, ORACLE, "x", key="k"))

        async with anyio.create_task_group() as group:
            group.start_soon(begin)
            group.start_soon(begin)
        hold.open()
        await sup.wait(begun[0].message_id)
        await root.wait_idle()
        await begin()
    async with stored.open(ScriptedModel({})) as sup:
        root = await sup.resume(root.id)
        begun.append(await sup.start_call(root, ORACLE, "x", key="k"))
        assert len(set(begun)) == 1
        assert len(await sup.children(root.id)) == 1
        with pytest.raises(ramet.KeyConflictError):
            await sup.start_call(root, ORACLE, "y", key="k")
        assert len(accepted_in(stored.log(root), "outcome")) == 1


# -- waiting ---------------------------------------------------------------------------


@pytest.mark.case("R-217")
async def test_code_in_a_turn_cannot_wait_for_its_own_agent(stage: Stage) -> None:
    caught: list[str] = []
    waits: list[Any] = []

    async def wait() -> str:
        """Wait for oneself."""
        for one in waits:
            with pytest.raises(ramet.SelfWaitError):
                await one()
            caught.append("refused")
        return "done"

    scout_spec = AgentSpec("scout", tools=[wait])
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")],
            "scout": [step(calls=[call("wait")], hold=hold), step("done")],
        }
    )
    async with stage.open(model, specs=[LEAD, scout_spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, scout_spec, "x")
        scout = resident(sup, started.child_id)
        waits += [
            scout.wait_idle,
            scout.wait_gone,
            root.wait_gone,
            lambda: sup.wait(started.message_id),
        ]
        hold.open()
        assert (await sup.wait(started.message_id)).status == "completed"
        await root.wait_idle()
    assert len(caught) == 4


@pytest.mark.case("R-217", "R-155")
@pytest.mark.parametrize("how", ["cancel", "drain", "cancel parent"])
async def test_a_tool_that_ends_its_own_forest_ends_with_it(
    stage: Stage, how: str
) -> None:
    async def end() -> str:
        """End everything."""
        if how == "drain":
            await sup.drain()
        else:
            await sup.cancel(root if how == "cancel parent" else agent[0])
        return "never"

    agent: list[ramet.Agent] = []
    scout_spec = AgentSpec("scout", tools=[end])
    hold = Gate()
    model = ScriptedModel({"scout": [step(calls=[call("end")], hold=hold)]})
    stage.whole = False
    async with stage.open(model, specs=[LEAD, scout_spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        agent.append(await start(sup, root, scout_spec))
        hold.open()
        await gone(agent[0])
        if how != "cancel":
            await gone(root)


@pytest.mark.case("R-264", "R-137", "R-136", "R-083")
async def test_waiting_for_a_parked_assignment_says_what_un_parks_it(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("0", hold=hold)] + [step("x")] * 3}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        parked = [await sup.followup(root, scout.id, text) for text in ("B", "C2")]
        raised: list[ramet.ParkedError] = []

        async def wait() -> None:
            with pytest.raises(ramet.ParkedError) as caught:
                await sup.wait(parked[0])
            raised.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            sup.interrupt(scout.id, by=root)
            await gone(scout)
        await wait()
        assert [error.session_id for error in raised] == [scout.id, scout.id]
        assert await sup.outcome(parked[0]) is None
        await root.wait_idle()
        assert "still wait: 2" in accepted_in(stored.log(root), "notice")[0].content[0]
        line = (await sup.children(root.id))[0]
        assert (line.state, line.pending) == ("gone", 2)
        last = await sup.followup(root, scout.id, "D2")
        assert (await sup.wait(last)).status == "completed"
        for message in parked:
            assert (await sup.wait(message)).status == "completed"
        asked = [texts(request)[-1] for request in model.requests_of("scout")]
        assert asked == ["go", "B", "C2", "D2"]
        assert not of(stored.log(scout), Discarded)
        await root.wait_idle()


async def test_minds_are_asked_in_one_session_each(stage: Stage) -> None:
    async def mind(request: ModelRequest) -> str:
        return request.session_id

    async with stage.open(ramet.FunctionModel(mind)) as sup:
        roots = [await sup.start_root(LEAD, interactive=True) for _ in range(3)]
        for root in roots:
            await sup.tell(root, "who?")
        for root in roots:
            await root.wait_idle()
        assert (await sup.usage(roots[0].id)).own.requests == 1
