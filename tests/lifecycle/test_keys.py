"""Keys and the order of checks on the running runtime."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Call,
    CallResult,
    Limits,
    Setup,
    Supervisor,
    ToolCall,
    ToolMessage,
)
from ramet.mailbox.events import Accepted, Activated, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import held, reply
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    of,
    start,
)
from tests.lifecycle.stores import CountingStore

pytestmark = pytest.mark.anyio


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


@pytest.mark.case("A-058")
async def test_a_call_that_is_repeated_with_other_limits_gives_the_earlier_outcome(
    stored: Stage,
) -> None:
    model = ScriptedModel({"oracle": [step("hm"), step(calls=[reply("never")])]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        few, many = Limits(requests=1), Limits(requests=9)
        first = await sup.call(root, ORACLE, "x", limits=few, key="k")
        assert (first.status, first.axis) == ("stopped", "requests")
        again = await sup.call(root, ORACLE, "x", limits=many, key="k")
        assert (again.status, again.session_id) == ("stopped", first.session_id)
        with pytest.raises(ramet.KeyConflictError, match="other content"):
            await sup.call(root, ORACLE, "x", contract=ramet.Text(), key="k")


@pytest.mark.case("R-058")
async def test_a_conflict_of_a_start_and_a_call_says_which_was_first(
    stored: Stage,
) -> None:
    model = ScriptedModel(
        {
            "lead": [step("n")] * 2,
            "scout": [step("x")],
            "oracle": [step(calls=[reply(1)])],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_child(root, SCOUT, "x", key="start")
        for _ in range(2):
            with pytest.raises(ramet.KeyConflictError, match="names the start of a"):
                await sup.call(root, SCOUT, "x", key="start")
            await sup.wait(begun.message_id)
        await sup.call(root, ORACLE, "x", key="call")
        with pytest.raises(ramet.KeyConflictError, match="names a call, not the start"):
            await sup.start_child(root, ORACLE, "x", key="call")
        await root.wait_idle()


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


@pytest.mark.case("R-069")
async def test_a_quiet_message_is_claimed_as_soon_as_its_turn_asks(
    stage: Stage,
) -> None:
    hold, busy = Gate(), Gate()
    model = ScriptedModel(
        {"lead": [step("n", hold=busy)], "scout": [step("x", hold=hold)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.report_from(scout, "x")
        assert (await sup.message(message)).state == "stored"
        await sup.tell(root, "read")
        await busy.reached()
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)
        late = await sup.report_from(scout, "y")
        assert (await sup.message(late)).state == "stored"
