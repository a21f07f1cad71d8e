"""Quiet and waking messages on the running runtime: who wakes, what enters when."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    AgentSpec,
    AssistantMessage,
    ModelRequest,
    Policy,
    ToolMessage,
    UserMessage,
)
from ramet.mailbox.events import Accepted, Activated, Ended, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import frames
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


@pytest.mark.case("R-036", "R-046", "R-019", "R-124")
async def test_a_quiet_report_to_an_idle_parent_enters_and_starts_nothing(
    stored: Stage,
) -> None:
    hold, other = Gate(), Gate()
    model = ScriptedModel(
        {"scout": [step("done", hold=hold)], "digger": [step("done", hold=other)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await start(sup, root, DIGGER)
        message = await sup.report_from(scout, "found it")
        assert root.statistics()["transcript"] == 1
        assert root.state == "waiting"
        hold.open()
        await gone(scout)
        await root.wait_idle()
        events = stored.log(root)
        assert not of(events, TurnOpened)
        assert [e.given for e in of(events, Accepted)] == ["quiet", "quiet"]
        assert accepted_in(events, "report")[0].id == message
        assert (await sup.message(message)).state == "stored"
        assert not model.requests_of("lead")


@pytest.mark.case("R-037", "R-259", "R-067")
async def test_a_quiet_report_enters_a_busy_turn_after_the_results_of_its_batch(
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
            "lead": [step(calls=[call("dig"), call("dig")]), step("ok")],
            "scout": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, specs=[lead, SCOUT]) as sup:
        root = await sup.start_root(lead, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await inside.reached(2)
        await sup.report_from(scout, "in between")
        inside.open()
        await root.wait_idle()
        request = model.requests_of("lead")[1]
        kinds = [type(m) for m in request.messages]
        assert kinds == [UserMessage, AssistantMessage, ToolMessage, UserMessage]
        assert texts(request) == ["begin", "in between"]
        assert len(of(stage.log(root), TurnOpened)) == 1


@pytest.mark.case("R-038", "R-069")
async def test_a_quiet_report_to_a_last_step_enters_after_the_turn_and_wakes_nobody(
    stage: Stage,
) -> None:
    last, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("first", hold=last), step("second")],
            "scout": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await last.reached()
        message = await sup.report_from(scout, "late")
        assert root.statistics()["staged"] == 1
        last.open()
        await root.wait_idle()
        assert root.statistics()["staged"] == 0
        assert len(model.requests_of("lead")) == 1
        assert (await sup.message(message)).state == "stored"
        await sup.tell(root, "again")
        await root.wait_idle()
        assert texts(model.requests_of("lead")[1]) == ["begin", "late", "again"]
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 2)


@pytest.mark.case("R-039")
async def test_a_quiet_report_to_a_waiting_child_enters_at_once_and_does_not_wake_it(
    stage: Stage,
) -> None:
    hold = Gate()
    stage.whole = False
    first = Gate()
    model = ScriptedModel(
        {"scout": [step("waiting", hold=first)], "digger": [step("done", hold=hold)]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        first.open()
        await scout.wait_idle()
        assert scout.state == "waiting"
        before = scout.statistics()["transcript"]
        await sup.report_from(digger, "still digging")
        assert scout.statistics()["transcript"] == before + 1
        assert scout.state == "waiting"
        assert len(model.requests_of("scout")) == 1


@pytest.mark.case("R-040", "R-002", "R-044")
async def test_a_waking_report_to_an_idle_parent_becomes_one_turn(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("thanks")], "scout": [step("done", hold=hold)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.report_from(scout, "wake up", delivery="wakeup")
        await root.wait_idle()
        opened = of(stored.log(root), TurnOpened)
        assert [turn.claimed for turn in opened] == [(message,)]
        assert frames(model.requests_of("lead")[0]) == [
            (f"Background subagent {scout.id} reported:", "wake up")
        ]


@pytest.mark.case("R-041", "R-042")
async def test_waking_messages_to_a_busy_parent_become_turns_of_their_own_in_order(
    stage: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1"), step("2"), step("3")],
            "scout": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await first.reached()
        sent = [await sup.report_from(scout, text, delivery="wakeup") for text in "abc"]
        assert root.pending == 3
        first.open()
        await root.wait_idle()
        opened = of(stage.log(root), TurnOpened)
        assert [turn.turn for turn in opened] == [1, 2, 3, 4]
        assert [turn.claimed for turn in opened[1:]] == [(m,) for m in sent]
        asked = model.requests_of("lead")
        assert texts(asked[0]) == ["begin"]
        assert [texts(request)[-1] for request in asked[1:]] == ["a", "b", "c"]
        for turn, message in enumerate(sent, start=2):
            status = await sup.message(message)
            assert (status.state, status.turn) == ("claimed", turn)


@pytest.mark.case("R-043")
async def test_a_policy_may_let_one_turn_claim_all_that_waits(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1")],
            "scout": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, policy=Policy(claim="all")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await first.reached()
        for text, delivery in (("a", "wakeup"), ("b", "quiet"), ("c", "wakeup")):
            await sup.report_from(scout, text, delivery=delivery)  # type: ignore[arg-type]
        await sup.tell(root, "d")
        first.open()
        await root.wait_idle()
        opened = of(stage.log(root), TurnOpened)
        assert [len(turn.claimed) for turn in opened] == [1, 3]
        assert texts(model.requests_of("lead")[1]) == ["begin", "a", "b", "c", "d"]


@pytest.mark.case("R-044", "R-098", "R-109")
async def test_a_waiting_child_is_woken_in_the_same_activation(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [],
            "scout": [step("0", hold=first), step("1"), step("2"), step("3")],
            "digger": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        first.open()
        await scout.wait_idle()
        await sup.followup(root, scout.id, "more")
        await scout.wait_idle()
        await sup.report_from(digger, "wake", delivery="wakeup")
        await scout.wait_idle()
        events = stage.log(scout)
        assert len(of(events, Activated)) == 1
        assert [turn.turn for turn in of(events, TurnOpened)] == [1, 2, 3]
        assert scout.state == "waiting"
        hold.open()
        await gone(digger)
        await gone(scout)
        events = stage.log(scout)
        notice = accepted_in(events, "notice")
        assert len(notice) == 1
        assert isinstance(events[-1], Ended)


@pytest.mark.case("R-045")
async def test_a_wake_around_the_end_of_a_turn_is_never_lost(stage: Stage) -> None:
    async def mind(request: ModelRequest) -> str:
        return "ok"

    model = ramet.FunctionModel(mind)
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for late in range(12):
            await sup.tell(root, "first")
            for _ in range(late):
                await anyio.lowlevel.checkpoint()
            second = await sup.tell(root, "second")
            await root.wait_idle()
            assert (await sup.message(second)).state == "claimed"
        assert root.pending == 0


@pytest.mark.case("R-047", "R-046")
async def test_a_child_with_a_waiting_wakeup_does_not_settle(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "scout": [step("0", hold=first), step("1"), step("2")],
            "digger": [step("done", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        first.open()
        await scout.wait_idle()
        message = await sup.report_from(
            digger, "wake", delivery="wakeup", ack="accepted"
        )
        await sup.cancel(digger)
        await gone(scout)
        events = stage.log(scout)
        claimed = [m for turn in of(events, TurnOpened) for m in turn.claimed]
        assert message in claimed


@pytest.mark.case("R-049")
async def test_a_quiet_message_to_an_absent_child_is_refused(stage: Stage) -> None:
    first = Gate()
    model = ScriptedModel({"lead": [step("ok")], "scout": [step("x", hold=first)]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        before = stage.log(scout)
        with pytest.raises(ramet.NotResidentError):
            await sup.inject(root, scout.id, "hello")
        assert sup.agent(scout.id) is None
        assert stage.log(scout) == before


@pytest.mark.case("R-034", "R-225")
async def test_the_policy_of_the_child_decides_how_reports_go(stage: Stage) -> None:
    hold = Gate()
    loud = AgentSpec("loud", policy={"report_delivery": "wakeup"})
    model = ScriptedModel(
        {
            "lead": [step("ok")],
            "scout": [step("x", hold=hold)],
            "loud": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, specs=[LEAD, SCOUT, loud]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        other = await start(sup, root, loud)
        await sup.report_from(scout, "quietly")
        await sup.report_from(other, "loudly")
        await root.wait_idle()
        given = [e.given for e in accepted_in(stage.log(root), "report")]
        assert given == ["quiet", "wakeup"]
        before = stage.log(root)
        wrong: Any
        for wrong in ({"delivery": "loud"}, {"ack": "never"}, {"delivery": 1}):
            with pytest.raises(ramet.UsageError):
                await sup.report_from(scout, "x", **wrong)
            nobody: Any = "nobody"
            with pytest.raises(ramet.UsageError):
                await sup.report_from(nobody, "x", **wrong)
        assert stage.log(root) == before


@pytest.mark.case("R-072", "R-073")
async def test_past_the_wake_budget_messages_come_quietly_until_outside_input(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("ok")] * 4, "scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, policy=Policy(wake_budget=2)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        sent = []
        for text in "abc":
            sent.append(await sup.report_from(scout, text, delivery="wakeup"))
            await root.wait_idle()
        assert len(model.requests_of("lead")) == 2
        status = await sup.message(sent[2])
        assert status.deferred
        assert status.state == "stored"
        await sup.tell(root, "hello")
        await root.wait_idle()
        assert texts(model.requests_of("lead")[2]) == ["a", "b", "c", "hello"]
        await sup.report_from(scout, "d", delivery="wakeup")
        await root.wait_idle()
        assert len(model.requests_of("lead")) == 4


@pytest.mark.case("R-074")
@pytest.mark.parametrize("wrong", [-1, True, 1.5, "2"])
async def test_a_wake_budget_is_a_whole_number_or_unbounded(wrong: Any) -> None:
    with pytest.raises(ramet.UsageError):
        Policy(wake_budget=wrong)


@pytest.mark.case("R-074", "R-072")
async def test_a_wake_budget_of_zero_never_wakes(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, policy=Policy(wake_budget=0)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.report_from(scout, "wake", delivery="wakeup")
        await sup.cancel(scout)
        await root.wait_idle()
        assert not of(stage.log(root), TurnOpened)


@pytest.mark.case("R-224")
async def test_the_last_child_of_a_waiting_returning_agent_wakes_past_the_budget(
    stage: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "oracle": [
                step("I wait", hold=first),
                step(calls=[call("reply", value="seen")]),
            ],
            "scout": [step("done", hold=hold)],
        }
    )
    async with stage.open(model, policy=Policy(wake_budget=0)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "well?")
        oracle = resident(sup, begun.child_id)
        await start(sup, oracle, SCOUT)
        first.open()
        await oracle.wait_idle()
        assert oracle.state == "waiting"
        hold.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == "seen"


@pytest.mark.case("R-203")
async def test_a_full_inbox_refuses_what_agents_send_but_no_notice(
    stage: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first)] + [step("n")] * 3,
            "scout": [step("x", hold=hold)],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, policy=Policy(inbox_limit=2)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.tell(root, "begin")
        await first.reached()
        await sup.report_from(scout, "one", delivery="wakeup")
        await sup.report_from(scout, "two")
        before = stage.log(root)
        with pytest.raises(ramet.InboxFullError):
            await sup.report_from(scout, "three")
        with pytest.raises(ramet.InboxFullError):
            await sup.tell(root, "three", key="again")
        assert stage.log(root) == before
        await sup.cancel(digger)
        assert len(accepted_in(stage.log(root), "notice")) == 1
        first.open()
        await root.wait_idle()
        await sup.tell(root, "three", key="again")
        await root.wait_idle()


@pytest.mark.case("R-203")
async def test_a_followup_that_a_full_stored_inbox_refuses_resumes_nobody(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    calls: list[str] = []

    def contribute(setup: ramet.Setup) -> None:
        calls.append(setup.agent_id)

    stored.whole = False
    async with stored.open(model, policy=Policy(inbox_limit=2, inbox_bytes=20)) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.followup(root, scout.id, "one")
        await sup.followup(root, scout.id, "two")
        sup.interrupt(scout.id)
        await gone(scout)
        await root.wait_idle()
        before, set_up = stored.log(scout), list(calls)
        with pytest.raises(ramet.InboxFullError, match="holds 2 messages"):
            await sup.followup(root, scout.id, "three", key="three")
        assert sup.agent(scout.id) is None
        assert stored.log(scout) == before
        assert calls == set_up
        assert await sup.lookup(root.id, "three") is None


@pytest.mark.case("R-203")
async def test_a_start_whose_prompt_is_more_than_an_inbox_takes_leaves_nothing(
    stage: Stage,
) -> None:
    async with stage.open(policy=Policy(inbox_bytes=10)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for begin in (sup.start_child, sup.start_call, sup.call):
            with pytest.raises(ramet.InboxFullError, match="would hold 11 bytes"):
                await begin(root, SCOUT, "x" * 11)
        with pytest.raises(ramet.InboxFullError, match="would hold 11 bytes"):
            await sup.tell(root, "x" * 11)
        assert await sup.children(root.id) == []
