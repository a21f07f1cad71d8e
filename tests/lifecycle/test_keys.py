"""Keys, acknowledgement and status of messages on the running runtime."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Call,
    CallResult,
    Setup,
    Supervisor,
    ToolCall,
    ToolMessage,
)
from ramet.mailbox.events import Accepted, Activated, TurnOpened
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
    start,
)
from tests.lifecycle.stores import CountingStore, FailingStore, HeldStore

pytestmark = pytest.mark.anyio


def held(*names: str, hold: Gate) -> ScriptedModel:
    return ScriptedModel({name: [step("x", hold=hold)] * 3 for name in names})


@pytest.mark.case("R-057", "R-001", "R-058")
async def test_a_repeated_key_gives_the_same_id_and_another_content_is_refused(
    stored: Stage,
) -> None:
    stored.whole = False
    async with stored.open(held("scout", "lead", hold=Gate())) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first = await sup.report_from(scout, "x", key="k")
        assert await sup.report_from(scout, "x", key="k") == first
        assert await sup.report_from(scout, "x", key="k", ack="accepted") == first
        # Another delivery is no conflict.
        again = await sup.report_from(scout, "x", key="k", delivery="wakeup")
        assert again == first
        assert await sup.lookup(scout.id, "k") == first
        assert (await sup.message(first)).message_id == first
        log = stored.log(root)
        assert [e.id for e in accepted_in(log, "report")] == [first]
        attempt: Any
        for attempt in (
            lambda: sup.report_from(scout, "y", key="k"),
            lambda: sup.start_child(scout, DIGGER, "x", key="k"),
            lambda: sup.call(scout, ORACLE, "x", key="k"),
            lambda: sup.start_call(scout, ORACLE, "x", key="k"),
            lambda: sup.followup(scout, root.id, "x", key="k"),
        ):
            with pytest.raises(ramet.KeyConflictError):
                await attempt()
        assert stored.log(root) == log
        assert await sup.children(scout.id) == []
        assert await sup.report_from(scout, "x") != first


@pytest.mark.case("R-058")
async def test_a_key_that_named_another_recipient_is_refused(stage: Stage) -> None:
    stage.whole = False
    async with stage.open(held("scout", "digger", hold=Gate())) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.followup(root, scout.id, "x", key="k")
        await sup.inject(root, scout.id, "x", key="q")
        log = stage.log(digger)
        with pytest.raises(ramet.KeyConflictError):
            await sup.followup(root, digger.id, "x", key="k")
        with pytest.raises(ramet.KeyConflictError):
            await sup.inject(root, scout.id, "x", key="k")
        with pytest.raises(ramet.KeyConflictError):
            await sup.inject(root, digger.id, "x", key="q")
        assert accepted_in(stage.log(digger), "followup") == []
        assert len(stage.log(digger)) >= len(log)


@pytest.mark.case("R-059")
async def test_a_key_belongs_to_its_sender(stored: Stage) -> None:
    stored.whole = False
    async with stored.open(held("scout", "digger", "lead", hold=Gate())) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        sent = {
            scout.id: await sup.report_from(scout, "x", key="1"),
            digger.id: await sup.report_from(digger, "x", key="1"),
            root.id: await sup.followup(root, scout.id, "x", key="1"),
            "host": await sup.tell(root, "x", key="1"),
        }
        assert len(set(sent.values())) == 4
        for sender, message in sent.items():
            assert await sup.lookup(sender, "1") == message
        for wrong in ("", " ", "ramet:x", 7):
            with pytest.raises(ramet.UsageError):
                await sup.tell(root, "x", key=wrong)  # type: ignore[arg-type]


@pytest.mark.case("R-060", "R-154")
async def test_a_key_is_known_for_good(stored: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1"), step("2")],
            "scout": [step("x", hold=hold)],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        early = await sup.tell(root, "a", key="a")
        await first.reached()
        late = await sup.report_from(scout, "b", key="b", delivery="wakeup")
        first.open()
        await root.wait_idle()
        assert await sup.tell(root, "a", key="a") == early
        assert await sup.report_from(scout, "b", key="b") == late
        doomed = await sup.followup(root, scout.id, "c", key="c")
        await sup.cancel(scout)
        assert (await sup.message(doomed)).state == "discarded"
        assert await sup.followup(root, scout.id, "c", key="c") == doomed
        assert sup.agent(scout.id) is None
        await root.wait_idle()
    async with stored.open(ScriptedModel({})) as sup:
        root = await sup.resume(root.id)
        assert await sup.tell(root, "a", key="a") == early
        assert await sup.followup(root, scout.id, "c", key="c") == doomed
        assert sup.agent(scout.id) is None
        await root.wait_idle()
        assert len(accepted_in(stored.log(root), "tell")) == 1
        with pytest.raises(ramet.KeyConflictError):
            await sup.tell(root, "other", key="a")


@pytest.mark.case("R-062", "R-035", "R-017")
async def test_a_providers_call_id_is_no_key(stage: Stage) -> None:
    same = Call("report", '{"output":"again"}', "call-1")
    hold = Gate()
    model = ScriptedModel(
        {
            "scout": [
                step(calls=[same, same]),
                step(calls=[same]),
                step("x", hold=hold),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        reports = accepted_in(stage.log(root), "report")
        assert len(reports) == 3
        results = [
            result.content
            for message in model.requests_of("scout")[2].messages
            if isinstance(message, ToolMessage)
            for result in message.results
        ]
        told = [ramet.parse_arguments(text) for text in results]
        assert told == [{"message_id": report.id} for report in reports]
        assert scout.state == "running"


@pytest.mark.case("R-065")
async def test_a_tool_is_given_a_key_of_its_own_for_every_call(stage: Stage) -> None:
    keys: list[str] = []

    async def note(call: ToolCall) -> str:
        """Note the key."""
        keys.append(call.key)
        assert call.agent.id in call.key
        return "noted"

    lead = AgentSpec("lead", tools=[note])
    same = Call("note", "{}", "call-1")
    model = ScriptedModel(
        {"lead": [step(calls=[same, same]), step(calls=[same]), step("end")] * 2}
    )
    async with stage.open(model, specs=[lead]) as sup:
        for _ in range(2):
            root = await sup.start_root(lead, interactive=True)
            await sup.tell(root, "go")
            await root.wait_idle()
    assert len(keys) == len(set(keys)) == 6


@pytest.mark.case("R-063")
async def test_a_report_that_came_back_as_an_error_is_not_sent_twice_in_its_turn(
    stage: Stage,
) -> None:
    spoiled = 1

    def spoil(name: str, result: CallResult, call: ToolCall) -> CallResult | None:
        nonlocal spoiled
        if name == "report" and spoiled:
            spoiled -= 1
            return CallResult("it failed", "TOOL_FAILED")
        return None

    def contribute(setup: Setup) -> None:
        setup.after_call(spoil)

    hold = Gate()
    again = call("report", output="once")
    model = ScriptedModel(
        {
            "scout": [
                step(calls=[again]),
                step(calls=[call("report", output="other"), again]),
                step(calls=[again]),
                step("first turn"),
                step(calls=[again]),
                step("second turn", hold=hold),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.followup(root, scout.id, "once more")
        await hold.reached()
        reports = accepted_in(stage.log(root), "report")
        # The last one is of another turn.
        assert [e.content[0] for e in reports] == ["once", "other", "once"]
        second = model.requests_of("scout")[2].messages[-1]
        assert isinstance(second, ToolMessage)
        assert ramet.parse_arguments(second.results[1].content) == {
            "message_id": reports[0].id
        }


@pytest.mark.case("R-064")
async def test_every_operation_with_a_key_may_be_repeated_at_the_same_time(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "scout": [step("x", hold=hold), step("y", hold=hold)],
            "digger": [step("x", hold=hold)],
            "oracle": [
                step(calls=[call("reply", value="v")], hold=hold),
                step(calls=[call("reply", value="v")], hold=hold),
            ],
            "lead": [step("n", hold=hold)] * 9,
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        operations: dict[str, Callable[[], Awaitable[Any]]] = {
            "tell": lambda: sup.tell(root, "x", key="tell"),
            "followup": lambda: sup.followup(root, scout.id, "x", key="followup"),
            "inject": lambda: sup.inject(root, scout.id, "x", key="inject"),
            "start": lambda: sup.start_child(root, DIGGER, "x", key="start"),
            "call": lambda: sup.call(root, ORACLE, "x", key="call"),
            "begin": lambda: sup.start_call(root, ORACLE, "x", key="begin"),
        }
        answers: dict[str, list[Any]] = {name: [] for name in operations}

        async def run(name: str) -> None:
            answers[name].append(await operations[name]())

        async with anyio.create_task_group() as group:
            for name in operations:
                for _ in range(3):
                    group.start_soon(run, name)
            while len(await sup.children(root.id)) < 4:
                await anyio.lowlevel.checkpoint()
            hold.open()
        assert all(len(set(map(repr, some))) == 1 for some in answers.values())
        for name in operations:
            before = len(stored.log(root))
            await run(name)
            assert len(stored.log(root)) >= before
        assert all(len(set(map(repr, some))) == 1 for some in answers.values())
        assert len(await sup.children(root.id)) == 4
        await root.wait_idle()
        assert len(accepted_in(stored.log(root), "tell")) == 1
        assert len(accepted_in(stored.log(scout), "followup")) == 1
        assert len(accepted_in(stored.log(scout), "inject")) == 1


@pytest.mark.case("R-066", "R-171")
async def test_a_stored_acknowledgement_means_that_a_copy_has_the_message(
    stored: Stage,
) -> None:
    hold = Gate()
    stored.whole = False
    async with stored.open(held("scout", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        message = await sup.report_from(scout, "durable")
        copy = stored.crashed()
    async with copy.open(ScriptedModel({"lead": [step("n")]})) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        assert [e.id for e in accepted_in(copy.log(root), "report")] == [message]


@pytest.mark.case("R-066", "R-068", "R-174", "R-047")
async def test_before_it_is_durable_a_message_is_accepted_and_wakes_nobody(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("read", hold=hold)], "scout": [step("x", hold=hold)]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        store.free.clear()
        message = await sup.report_from(
            scout, "x", delivery="wakeup", ack="accepted", key="k"
        )
        assert (await sup.message(message)).state == "accepted"
        assert not accepted_in(stage.log(root), "report")
        assert root.statistics()["turns"] == 0
        assert await sup.report_from(scout, "x", key="k", ack="accepted") == message
        store.free.set()
        await hold.reached(2)
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)
        hold.open()
        await root.wait_idle()


@pytest.mark.case("R-256", "R-222", "R-255", "R-054")
async def test_a_repeat_waits_for_the_first_message_to_be_durable(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    async with stage.open(held("scout", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        store.free.clear()
        answers: list[str] = []

        async def send() -> None:
            answers.append(await sup.report_from(scout, "x", key="k"))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(send)
            while sup.statistics()["keys"] == 0:
                await anyio.lowlevel.checkpoint()
            group.start_soon(send)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert answers == []
            store.free.set()
        assert len(answers) == 5
        assert len(set(answers)) == 1
        assert len(accepted_in(stage.log(root), "report")) == 1
        assert sup.statistics()["keys"] == 0


@pytest.mark.case("R-032", "R-094", "R-107")
async def test_a_caller_cancelled_after_acceptance_has_sent(stage: Stage) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    async with stage.open(held("scout", "digger", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()

        async def cut(send: Callable[[], Coroutine[Any, Any, Any]]) -> None:
            store.free.clear()
            before = sup.statistics()["keys"]
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(send)
                    while sup.statistics()["keys"] == before:
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert scope.cancelled_caught
            store.free.set()

        await cut(lambda: sup.report_from(scout, "x", key="r"))
        report = await sup.report_from(scout, "x", key="r")
        assert [e.id for e in accepted_in(stage.log(root), "report")] == [report]
        assert await sup.lookup(scout.id, "r") == report
        await cut(lambda: sup.start_child(root, DIGGER, "x", key="s"))
        started = await sup.start_child(root, DIGGER, "x", key="s")
        assert (await sup.message(started.message_id)).session_id == started.child_id
        await hold.reached(2)
        await cut(lambda: sup.followup(root, scout.id, "x", key="f"))
        await sup.followup(root, scout.id, "x", key="f")
        assert len(accepted_in(stage.log(scout), "followup")) == 1


@pytest.mark.case("R-223", "R-086")
async def test_without_a_callers_key_the_store_is_asked_for_none(
    stage: Stage,
) -> None:
    store = CountingStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {
            "scout": [
                step(calls=[call("report", output="x")]),
                step("y", hold=hold),
                step("z", hold=hold),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.report_from(scout, "x")
        await sup.followup(root, scout.id, "x")
        await sup.inject(root, scout.id, "x")
        assert store.finds == []
        await sup.report_from(scout, "x", key="k")
        assert store.finds == [(scout.id, "k")]
        store.loads.clear()
        await sup.children(root.id)
        await sup.descendants(root.id)
        assert store.loads == []


@pytest.mark.case("R-254")
async def test_a_repeated_followup_resumes_nobody(stored: Stage) -> None:
    first = Gate()
    model = ScriptedModel(
        {"lead": [step("n")], "scout": [step("0", hold=first), step("1", hold=first)]}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.followup(root, scout.id, "x", key="k")
        first.open()
        await gone(scout)
        await root.wait_idle()
        log = stored.log(scout)
        assert await sup.followup(root, scout.id, "x", key="k") == message
        with pytest.raises(ramet.KeyConflictError):
            await sup.followup(root, scout.id, "y", key="k")
        assert sup.agent(scout.id) is None
        assert stored.log(scout) == log
        assert len(of(log, Activated)) == 1


# -- a commit that fails ---------------------------------------------------------------


@pytest.mark.case("R-070", "R-071", "R-186", "R-187", "R-221", "R-256")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_failed_commit_is_unknown_until_lookup_settles_it(
    stage: Stage, when: Any
) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    unknown: list[ramet.SendUnknownError] = []
    with left_with(ramet.PersistenceUnavailableError) as left:
        async with stage.open(held("scout", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            other = await sup.report_from(scout, "fine", key="fine")
            store.failing = when

            async def send(key: str | None) -> None:
                with pytest.raises(ramet.SendUnknownError) as caught:
                    await sup.report_from(scout, "x", key=key)
                unknown.append(caught.value)

            store.free.clear()
            store.spare = 1
            await sup.report_from(scout, "flying", ack="accepted")
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as group:
                group.start_soon(send, "k")
                group.start_soon(send, "k")
                group.start_soon(send, None)
                while root.statistics()["transcript"] < 4:
                    await anyio.lowlevel.checkpoint()
                accepted = await sup.report_from(scout, "y", ack="accepted")
                await anyio.wait_all_tasks_blocked()
                store.free.set()
            assert len(unknown) == 3
            keys = {error.key for error in unknown}
            assert "k" in keys
            assert len(keys) == 2
            assert (await sup.message(accepted)).state == "unknown"
            attempt: Any
            for attempt in (
                lambda: sup.report_from(scout, "z"),
                lambda: sup.report_from(scout, "x", key="k"),
                lambda: sup.tell(root, "z"),
                lambda: sup.followup(root, scout.id, "z"),
                lambda: sup.start_child(root, SCOUT, "z"),
                lambda: sup.call(root, SCOUT, "z"),
                lambda: sup.start_root(LEAD, interactive=True),
                lambda: sup.resume(scout.id),
                lambda: sup.cancel("s-absent"),
            ):
                with pytest.raises(ramet.PersistenceUnavailableError):
                    await attempt()
            is_stored = when == "after"
            for key in keys:
                found = await sup.lookup(scout.id, key)
                assert (found is not None) is is_stored
                assert await sup.lookup(scout.id, key) == found
            assert await sup.lookup(scout.id, "fine") == other
            status = await sup.message(accepted)
            assert status.state == ("stored" if is_stored else "lost")
            await scout.wait_gone()
            await root.wait_gone()
    assert isinstance(left[0].__cause__, OSError)
    reports = [e.content[0] for e in accepted_in(stage.log(root), "report")]
    assert reports == ["fine", "flying", *(["x", "x", "y"] if is_stored else [])]
    # The next open is the recovery, and the same send goes once.
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=Gate())]})
    async with stage.open(model) as sup:
        root = await sup.resume(root.id)
        await sup.followup(root, scout.id, "go on")
        again = resident(sup, scout.id)
        await sup.report_from(again, "x", key="k")
        reports = [e.content[0] for e in accepted_in(stage.log(root), "report")]
        assert reports.count("x") == (2 if is_stored else 1)


@pytest.mark.case("R-187", "R-186")
async def test_lookup_fails_only_when_the_store_cannot_be_reached_again(
    stage: Stage,
) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(held("scout", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            store.failing = "before"
            with pytest.raises(ramet.SendUnknownError):
                await sup.report_from(scout, "x", key="k")
            store.unreachable = True
            with pytest.raises(ramet.PersistenceUnavailableError):
                await sup.lookup(scout.id, "k")
            store.unreachable = False
            assert await sup.lookup(scout.id, "k") is None


@pytest.mark.case("R-186", "R-070")
async def test_nobody_waits_for_ever_when_a_commit_has_failed(stage: Stage) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    ended: list[str] = []
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(held("scout", "oracle", "lead", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, SCOUT, "x")
            scout = resident(sup, started.child_id)
            await hold.reached()

            async def wait() -> None:
                with pytest.raises(ramet.PersistenceUnavailableError):
                    await sup.wait(started.message_id)
                ended.append("wait")

            async def call_one() -> None:
                outcome: ramet.Outcome[Any] = await sup.call(root, ORACLE, "x")
                assert outcome.status == "cancelled"
                ended.append("call")

            async def follow() -> None:
                async for _ in scout.events():
                    pass
                ended.append("events")

            async def follow_all() -> None:
                async for _ in sup.events():
                    pass
                ended.append("all")

            async with anyio.create_task_group() as group:
                for one in (wait, call_one, follow, follow_all):
                    group.start_soon(one)
                await hold.reached(2)
                await anyio.wait_all_tasks_blocked()
                store.failing = "before"
                with pytest.raises(ramet.SendUnknownError):
                    await sup.tell(root, "x")
                await root.wait_gone()
            assert sorted(ended) == ["all", "call", "events", "wait"]


# -- the order of checks ---------------------------------------------------------------


async def _order(
    sup: Supervisor, sender: Agent, send: Callable[..., Awaitable[Any]]
) -> None:
    """Usage, then the caller's scope, then drain, whatever else is wrong too."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(ramet.UsageError):
            await send(sender, "", key="k")
        with pytest.raises(ramet.UsageError):
            await send(sender, "x", key="")
    for key in (None, "k"):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await send(sender, "x", key=key)
        assert scope.cancelled_caught
        with pytest.raises(ramet.DrainingError):
            await send(sender, "x", key=key)


@pytest.mark.case("R-253", "R-161", "R-031")
async def test_the_first_fault_in_the_order_of_checks_decides(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"scout": [step("x", hold=hold)], "digger": [step("x", hold=hold)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await hold.reached(2)
        await sup.report_from(scout, "x", key="k")
        await sup.followup(root, scout.id, "x", key="k")
        sends: list[Callable[..., Awaitable[Any]]] = [
            lambda a, c, key: sup.report_from(a, c, key=key),
            lambda a, c, key: sup.tell(a, c, key=key),
            lambda a, c, key: sup.followup(a, digger.id, c, key=key),
            lambda a, c, key: sup.inject(a, digger.id, c, key=key),
            lambda a, c, key: sup.start_child(a, SCOUT, c, key=key),
            lambda a, c, key: sup.call(a, ORACLE, c, key=key),
            lambda a, c, key: sup.start_call(a, ORACLE, c, key=key),
        ]
        # Exact sender comes before a known key, a known key before the recipient.
        for send in sends:
            with pytest.raises(ramet.UnauthorizedError):
                await send("nobody", "x", key="k")
        with pytest.raises(ramet.KeyConflictError):
            await sup.followup(root, "s-absent", "x", key="k")
        with pytest.raises(ramet.KeyConflictError):
            await sup.inject(root, "s-absent", "x", key="k")
        with pytest.raises(ramet.KeyConflictError):
            await sup.report_from(scout, "y", key="k")
        await sup.drain()
        for sender, send in itertools.product((root, scout, digger), sends):
            await _order(sup, sender, send)
        assert (await sup.message(await sup.lookup(scout.id, "k") or "")).session_id
        assert await sup.children()
        assert (await sup.usage(root.id)).subtree.requests >= 2


@pytest.mark.case("R-069")
async def test_a_quiet_message_is_claimed_by_a_turn_whose_request_failed_too(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step(error=ramet.ModelError("no answer"))],
            "scout": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.report_from(scout, "x")
        assert (await sup.message(message)).state == "stored"
        await sup.tell(root, "read it")
        await root.wait_idle()
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)
        assert len(of(stage.log(root), TurnOpened)) == 1
        assert len(of(stage.log(root), Accepted)) == 2


@pytest.mark.case("R-001")
async def test_an_unknown_id_has_no_status_and_no_outcome(stage: Stage) -> None:
    async with stage.open(ScriptedModel({})) as sup:
        for ask in (sup.message, sup.outcome, sup.wait):
            with pytest.raises(ramet.UnknownMessageError):
                await ask("m-nothing")
        assert await sup.lookup("host", "nothing") is None
