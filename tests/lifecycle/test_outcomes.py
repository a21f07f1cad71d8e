"""Assignments, outcomes and calls on the running runtime."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, ModelRequest, Policy, Setup, UserMessage
from ramet.mailbox.events import Concluded, Discarded, Ended, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import reply
from tests.lifecycle.stage import (
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    left_with,
    of,
    resident,
    sources,
    start,
    texts,
)
from tests.lifecycle.stores import HeldStore

pytestmark = pytest.mark.anyio


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
    with left_with(ramet.TeardownError) as caught:
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
            told = f"Assignment {started.message_id}: completed."
            assert told in notice.content[0].split("\n")
    assert caught[0].exceptions == (broken,)


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


@pytest.mark.case("R-244")
async def test_a_child_does_not_settle_before_its_background_call_is_gone(
    stage: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")],
            "scout": [step("0", hold=first), step("read")],
            "oracle": [step(calls=[reply(42)], hold=hold)],
        }
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await first.reached()
        begun = await sup.start_call(scout, ORACLE, "x")
        await hold.reached()
        first.open()
        await scout.wait_idle()
        assert scout.state == "waiting"
        hold.open()
        await gone(scout)
        await root.wait_idle()
        ended = [
            e.session for e in stage.observer.entries if isinstance(e.event, Ended)
        ]
        assert ended == [begun.child_id, scout.id]


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


async def test_a_task_that_outlives_the_turn_of_its_tool_may_wait(stage: Stage) -> None:
    waited: list[str] = []
    over = anyio.Event()

    async def outlive() -> None:
        with pytest.raises(ramet.SelfWaitError):
            await roots[0].wait_idle()
        begun.set()
        await over.wait()
        await roots[0].wait_idle()
        waited.append("idle")
        await roots[0].wait_gone()
        waited.append("gone")

    async def begin() -> str:
        """Start a task that goes on for longer than the turn."""
        tasks.start_soon(outlive)
        await begun.wait()
        return "begun"

    begun = anyio.Event()
    roots: list[Any] = []
    model = ScriptedModel(
        {"lead": [step(calls=[call("begin")]), step("one"), step("two")]}
    )
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            lead = AgentSpec("lead", tools=[begin])
            async with stage.open(model, specs=[lead]) as sup:
                roots.append(await sup.start_root(lead, interactive=True))
                await sup.tell(roots[0], "x")
                await roots[0].wait_idle()
                over.set()
                await anyio.wait_all_tasks_blocked()
                await sup.tell(roots[0], "y")
                await roots[0].wait_idle()
    assert waited == ["idle", "gone"]


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


@pytest.mark.case("A-031", "R-149")
async def test_no_request_follows_a_return_whatever_waits(stored: Stage) -> None:
    hold, busy = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "oracle": [
                step(calls=[call("reply", value="yes")], hold=hold),
            ],
            "scout": [step("x", hold=busy)],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "well?")
        oracle = resident(sup, begun.child_id)
        await hold.reached()
        scout = await start(sup, oracle, SCOUT)
        report = await sup.report_from(scout, "wait!", delivery="wakeup")
        hold.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == "yes"
        await gone(oracle)
        assert len(model.requests_of("oracle")) == 1
        assert report in [e.id for e in of(stored.log(oracle), Discarded)]
        status = await sup.message(report)
        assert status.state == "discarded"
        assert "end" in (status.cause or "")


@pytest.mark.case("A-146", "A-147")
async def test_a_batch_beyond_the_tool_calls_runs_the_first_and_stops(
    stage: Stage,
) -> None:
    ran: list[int] = []

    async def dig(place: int) -> str:
        """Dig.

        Args:
            place: where.
        """
        ran.append(place)
        return "dug"

    spec = AgentSpec("worker", tools=[dig], limits=ramet.Limits(tool_calls=3))
    model = ScriptedModel(
        {"worker": [step(calls=[call("dig", place=n) for n in range(5)])]}
    )
    async with stage.open(model, specs=[spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, spec, "dig")
        assert (outcome.status, outcome.axis) == ("stopped", "tool_calls")
        assert sorted(ran) == [0, 1, 2]
        line = (await sup.children(root.id))[0]
        assert line.tool_calls == 3


@pytest.mark.case("A-148")
async def test_the_limits_of_open_hold_for_each_agent(stage: Stage) -> None:
    asked: list[str] = []

    async def mind(request: ModelRequest) -> str:
        asked.append(request.name)
        return "no reply"

    spec = AgentSpec("worker", model=ramet.FunctionModel(mind))
    store = ramet.MemoryStore()
    limits = ramet.Limits(requests=2)
    async with ramet.open(store, specs=[spec], limits=limits) as sup:
        root = await sup.start_root(spec, interactive=True)
        outcome = await sup.call(root, spec, "go")
        assert (outcome.status, outcome.axis) == ("stopped", "requests")
        assert outcome.cause == "request-budget"
        assert asked == ["worker", "worker"]


@pytest.mark.case("A-008")
@pytest.mark.parametrize(
    "contract",
    [ramet.Choice(["yes", "no"]), ramet.Schema({"type": "null"})],
    ids=["choice", "schema"],
)
async def test_a_choice_or_a_schema_is_blocked_where_the_tools_cannot_be_narrowed(
    stage: Stage, contract: ramet.Contract[Any]
) -> None:
    async def mind(request: ModelRequest) -> str:
        raise AssertionError("no request may be made")

    capabilities = ramet.ModelCapabilities(narrowing=False)
    model = ramet.FunctionModel(mind, capabilities=capabilities)
    spec = AgentSpec("worker", model=model)
    async with ramet.open(":memory:", specs=[spec]) as sup:
        root = await sup.start_root(spec, interactive=True)
        outcome = await sup.call(root, spec, "go", contract=contract)
        assert (outcome.status, outcome.cause) == (
            "blocked",
            "output-contract-unavailable",
        )
        assert outcome.usage.own.requests == 0
        with pytest.raises(ramet.AgentBlockedError):
            outcome.unwrap()


@pytest.mark.case("A-051", "A-050")
async def test_a_call_that_is_cancelled_before_it_is_durable_leaves_no_agent(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    model = ScriptedModel({"oracle": [step("x", hold=Gate())]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        store.free.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_accepted, sup, store, group)
            await sup.call(root, ORACLE, "ask")
        (line,) = await sup.children(root.id)
        assert sup.agent(line.id) is None
        (concluded,) = of(stage.log(line.id), Concluded)
        assert (concluded.status, concluded.cause) == ("cancelled", "cancelled")


async def _cancel_when_accepted(
    sup: ramet.Supervisor, store: HeldStore, group: anyio.abc.TaskGroup
) -> None:
    while sup.statistics()["agents"] < 2:
        await anyio.lowlevel.checkpoint()
    group.cancel_scope.cancel()
    store.free.set()
