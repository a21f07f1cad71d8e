"""Cancels on the running runtime, and what refuses them."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    AgentSpec,
    AssistantMessage,
    Policy,
    Setup,
    TextDelta,
    ToolCall,
    ToolMessage,
)
from ramet.mailbox.events import (
    Activated,
    CallEnded,
    Discarded,
    Ended,
    Interrupted,
    StepEnded,
    TurnOpened,
)
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
    left_with,
    of,
    resident,
    start,
)
from tests.lifecycle.stores import HeldClaims

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-151", "R-153")
async def test_the_first_cause_of_an_end_stands(stage: Stage) -> None:
    for first in ("cancel", "interrupt"):
        stubborn = Stubborn()
        model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")] * 2})
        stage.whole = False
        async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, stubborn.spec, "A")
            scout = resident(sup, started.child_id)
            await stubborn.inside.reached()
            if first == "interrupt":
                sup.interrupt(scout.id)

            async def cancel(reason: str, sup: Any = sup, scout: Agent = scout) -> None:
                await sup.cancel(scout, reason=reason)
                assert scout.state == "gone"

            async with anyio.create_task_group() as group:
                for reason in ("one", "two"):
                    group.start_soon(cancel, reason)
                    await anyio.wait_all_tasks_blocked()
                sup.interrupt(scout.id)
                stubborn.inside.open()
            await cancel("three")
            outcome = await sup.wait(started.message_id)
            if first == "interrupt":
                assert outcome.cause == "interrupted"
            else:
                assert (outcome.cause, outcome.detail) == ("cancelled", "one")
            log = stage.log(scout)
            assert len(of(log, Interrupted)) == (first == "interrupt")
            assert len(of(log, Ended)) == 1


@pytest.mark.case("R-152")
async def test_an_idle_agent_is_cancelled_without_a_turn(stage: Stage) -> None:
    async with stage.open(ScriptedModel({"lead": [step("ok")]})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        message = await sup.tell(root, "x")
        await root.wait_idle()
        await sup.cancel(root)
        log = stage.log(root)
        assert len(of(log, TurnOpened)) == 1
        assert not of(log, Discarded)
        assert (await sup.wait(message)).status == "completed"
        assert root.state == "gone"


@pytest.mark.case("R-153", "R-193")
async def test_a_second_cancel_waits_for_the_same_end_and_releases_nothing_twice(
    stage: Stage,
) -> None:
    stubborn = Stubborn()
    released: list[str] = []

    def contribute(setup: Setup) -> Any:
        return lambda: released.append(setup.agent_id)

    stage.whole = False
    model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")]})
    async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
        revoke = sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, stubborn.spec)
        await stubborn.inside.reached()
        ended: list[str] = []

        async def cancel() -> None:
            await sup.cancel(scout)
            ended.append(scout.state)

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            group.start_soon(cancel)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
            stubborn.inside.open()
        await cancel()
        assert ended == ["gone"] * 3
        assert released == [scout.id]
        revoke()
        revoke()
        assert released == [scout.id, root.id]
    assert released == [scout.id, root.id]


@pytest.mark.case("R-154", "R-148")
async def test_what_a_cancel_discarded_does_not_come_back(stored: Stage) -> None:
    hold = Gate()
    model = held("scout", hold=hold, more=1)
    stored.whole = False
    async with stored.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        for text in "ab":
            await sup.followup(root, scout.id, text)
        await sup.cancel(scout)
        message = await sup.followup(root, scout.id, "c")
        assert (await sup.wait(message)).status == "completed"
        log = stored.log(scout)
        assert [m for e in of(log, TurnOpened)[1:] for m in e.claimed] == [message]
        assert len(of(log, Discarded)) == 2


@pytest.mark.case("R-155")
async def test_a_cancel_goes_on_when_its_caller_is_cancelled(stage: Stage) -> None:
    stubborn = Stubborn()
    model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")]})
    stage.whole = False
    async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, stubborn.spec)
        await stubborn.inside.reached()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(sup.cancel, scout)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        assert scout.state == "closing"
        stubborn.inside.open()
        await gone(scout)


@pytest.mark.case("R-155")
async def test_the_grace_of_a_cancel_ends_when_its_caller_is_gone_too(
    stage: Stage,
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")]})
    stage.whole = False
    with left_with(ramet.TeardownError):
        async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, stubborn.spec)
            await stubborn.inside.reached()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(partial(sup.cancel, scout, grace_s=0.01))
                    while scout.state != "closing":
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            assert scope.cancelled_caught
            await gone(scout)
            stubborn.inside.open()


@pytest.mark.case("R-156", "R-205", "R-206")
async def test_the_calls_of_a_cancelled_batch_each_have_their_own_result(
    stage: Stage,
) -> None:
    before, running = Gate(), Gate()
    finished = anyio.Event()

    async def quick() -> str:
        """Finish."""
        finished.set()
        return "done"

    async def slow() -> str:
        """Run."""
        await running.passed()
        return "never"

    async def never() -> str:
        """Never start."""
        raise AssertionError("it started")

    async def hook(name: str, arguments: str, call: ToolCall) -> None:
        if name == "never":
            await before.passed()

    spec = AgentSpec("scout", tools=[quick, slow, never])
    model = ScriptedModel(
        {
            "lead": [step("n")] * 2,
            "scout": [
                step(calls=[call("slow"), call("quick"), call("never")]),
                step("again"),
            ],
        }
    )
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        sup.register_setup(lambda setup: setup.before_call(hook))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, spec)
        await running.reached()
        await before.reached()
        await finished.wait()
        await anyio.wait_all_tasks_blocked()
        await sup.cancel(scout)
        message = await sup.followup(root, scout.id, "x")
        await sup.wait(message)
        landed = model.requests_of("scout")[1].messages[2]
        assert isinstance(landed, ToolMessage)
        assert [result.error for result in landed.results] == [
            "ABORTED",
            None,
            "ABORTED_BEFORE_DISPATCH",
        ]
        assert landed.results[1].content == "done"
        await root.wait_idle()


@pytest.mark.case("R-157", "R-241", "R-209")
async def test_text_that_streamed_before_a_cancel_is_kept_and_marked(
    stage: Stage,
) -> None:
    hold = Gate()
    deltas: list[tuple[str, int, int, str]] = []

    class Listener:
        def on_delta(self, *arguments: Any) -> None:
            deltas.append(arguments)

    model = ScriptedModel(
        {
            "scout": [
                step(raw=[TextDelta("so "), TextDelta("far"), hold]),
                step(raw=[ramet.CallStarted(0, "report"), hold]),
                step("end"),
            ],
            "lead": [step("n")] * 3,
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        sup.observe(Listener())
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.cancel(scout)
        for _ in range(2):
            await sup.followup(root, scout.id, "go on")
        again = resident(sup, scout.id)
        await hold.reached(2)
        sup.interrupt(scout.id)
        await gone(again)
        log = stage.log(scout)
        assert [(e.text, e.cut) for e in of(log, StepEnded)] == [("so far", True)]
        message = await sup.followup(root, scout.id, "end")
        await sup.wait(message)
        shown = model.requests_of("scout")[-1].messages
        said = [m for m in shown if isinstance(m, AssistantMessage)]
        assert AssistantMessage("so far", (), True) in said
        assert all(m.text or m.calls for m in said)
        assert deltas == [(scout.id, 1, 0, "so "), (scout.id, 1, 0, "far")]
        assert (await sup.usage(scout.id)).own.requests == len(
            model.requests_of("scout")
        )


@pytest.mark.case("R-229", "R-121")
async def test_a_cancel_of_an_absent_child_discards_and_tells_what_it_keeps(
    stored: Stage,
) -> None:
    hold = Gate()
    model = held("scout", hold=hold)
    installed: list[str] = []

    def contribute(setup: Setup) -> None:
        installed.append(setup.name)

    stored.whole = False
    async with stored.open(model, policy=Policy(notices="quiet")) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        kept = [await sup.followup(root, scout.id, text) for text in "ab"]
        sup.interrupt(scout.id)
        await gone(scout)
        installed.clear()
        before = stored.log(scout)
        await sup.cancel(scout.id, reason="no more")
        added = stored.log(scout)[len(before) :]
        assert [e.id for e in of(added, Discarded)] == kept
        assert not of(added, Activated)
        assert installed == []
        for message in kept:
            outcome = await sup.wait(message)
            assert (outcome.status, outcome.detail) == ("cancelled", "no more")
        notices = accepted_in(stored.log(root), "notice")
        assert notices[-1].about == tuple(kept)
        await sup.cancel(scout.id)
        assert len(model.requests) == 1
        await sup.resume(scout.id)


@pytest.mark.case("R-265", "R-229")
async def test_a_cancel_of_an_absent_child_and_a_followup_do_not_mix(
    stored: Stage,
) -> None:
    for late in range(6):
        hold = Gate()
        model = held("scout", hold=hold, more=3)
        stored.whole = False
        async with stored.open(model, policy=Policy(notices="quiet")) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            kept = await sup.followup(root, scout.id, "kept")
            sup.interrupt(scout.id)
            await gone(scout)
            sent: list[str] = []

            async def send(
                sup: Any = sup,
                root: Agent = root,
                scout: Agent = scout,
                sent: list[str] = sent,
            ) -> None:
                sent.append(await sup.followup(root, scout.id, "new"))

            async with anyio.create_task_group() as group:
                group.start_soon(sup.cancel, scout.id)
                for _ in range(late):
                    await anyio.lowlevel.checkpoint()
                group.start_soon(send)
            ends = [await sup.wait(message) for message in (kept, *sent)]
            assert len({end.session_id for end in ends}) == 1


@pytest.mark.case("R-115", "R-114", "R-227", "R-213")
async def test_a_tool_that_refuses_cancellation_is_named_and_its_agent_is_gone(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")] * 2})
    stage.whole = False
    async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, stubborn.spec, "x")
        scout = resident(sup, started.child_id)
        await stubborn.inside.reached()
        with pytest.raises(ramet.TeardownError) as caught:
            await sup.cancel(scout, grace_s=0.01)
        assert len(caught.value.exceptions) == 1
        assert "'refuse'" in str(caught.value.exceptions[0])
        assert scout.state == "gone"
        assert (await sup.wait(started.message_id)).status == "cancelled"
        assert [e.error for e in of(stage.log(scout), CallEnded)] == ["ABORTED"]
        before = stage.log(scout)
        stubborn.inside.open()
        await root.wait_idle()
        while sup.statistics()["tasks"]:
            await anyio.lowlevel.checkpoint()
        assert stage.log(scout) == before


@pytest.mark.case("R-115", "R-114")
@pytest.mark.parametrize("first", ["cancel", "interrupt"])
async def test_what_a_cancel_gave_up_comes_out_of_it_whole_and_once(
    stage: Stage, first: str
) -> None:
    """Also where a tool below was ending the same agent, since its turn was stopped."""
    stubborn = Stubborn()
    asked: list[ramet.Supervisor] = []

    async def ask(call: ramet.ToolCall) -> str:
        """Ask the scout."""
        return str(await asked[0].call(call.agent, stubborn.spec, "x"))

    lead = AgentSpec("lead", tools=[ask])
    steps = {"lead": [step(calls=[call("ask")])], "scout": stubborn.steps()}
    stage.whole = False
    async with stage.open(ScriptedModel(steps), specs=[lead, stubborn.spec]) as sup:
        asked.append(sup)
        root = await sup.start_root(lead, interactive=True)
        await sup.tell(root, "x")
        await stubborn.inside.reached()
        if first == "interrupt":
            sup.interrupt(root.id)
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(ramet.TeardownError) as caught:
            await sup.cancel(root, grace_s=0.01)
        named = sorted(str(error).split()[1] for error in caught.value.exceptions)
        assert named == ["'ask'", "'refuse'"]
        stubborn.inside.open()
    # And nothing of it came out again.


@pytest.mark.case("R-229", "R-114")
async def test_what_fails_below_an_absent_session_does_not_keep_it_from_its_cancel(
    stored: Stage,
) -> None:
    stubborn = Stubborn()
    hold = Gate()
    held_steps = {name: [step("x", hold=hold)] for name in ("lead", "scout")}
    specs = [LEAD, stubborn.spec]
    stored.whole = False
    async with stored.open(ScriptedModel(held_steps), specs=specs) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "open")
        scout = await start(sup, root, stubborn.spec)
        await hold.reached(2)
        kept = await sup.tell(root, "kept")
        await sup.followup(root, scout.id, "kept")
    model = ScriptedModel({"scout": stubborn.steps()})
    async with stored.open(model, specs=specs) as sup:
        with pytest.raises(ramet.NotResumableError, match="no session 'x' is stored"):
            await sup.cancel("x")
        scout = await sup.resume(scout.id)
        await stubborn.inside.reached()
        with pytest.raises(ramet.TeardownError, match="some of it failed"):
            await sup.cancel(root.id, grace_s=0.01)
        assert scout.state == "gone"
        assert (await sup.wait(kept)).status == "cancelled"
        stubborn.inside.open()


@pytest.mark.case("R-115", "R-117", "R-213")
async def test_a_tool_that_blocks_its_thread_is_abandoned(stage: Stage) -> None:
    release = threading.Event()
    inside = Gate()
    inside.open()
    done = threading.Event()

    def block() -> str:
        """Block a thread."""
        anyio.from_thread.run(inside.passed)
        release.wait()
        done.set()
        return "late"

    spec = AgentSpec("scout", tools=[block])
    model = ScriptedModel(
        {"scout": [step(calls=[call("block")])], "lead": [step("n")] * 2}
    )
    stage.whole = False
    try:
        async with stage.open(model, specs=[LEAD, spec]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, spec)
            await inside.reached()
            await sup.cancel(scout)
            assert scout.state == "gone"
            assert [e.error for e in of(stage.log(scout), CallEnded)] == ["ABORTED"]
            await root.wait_idle()
    finally:
        release.set()
        await anyio.to_thread.run_sync(done.wait, 5)


@pytest.mark.case("R-114", "R-196", "R-168")
@pytest.mark.parametrize("how", ["cancel", "drain"])
async def test_every_branch_of_a_teardown_is_attempted_and_the_failures_come_together(
    stage: Stage, how: str
) -> None:
    hold = Gate()
    broken = {"digger": ValueError("deep"), "oracle": KeyError("beside")}

    def contribute(setup: Setup) -> Any:
        def release() -> None:
            if setup.name in broken:
                raise broken[setup.name]

        return release

    model = held("scout", "digger", "oracle", "lead", hold=hold)
    stage.whole = False
    async with stage.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        other = await start(sup, root, ORACLE)
        await hold.reached(3)
        caught: list[BaseException] = []
        try:
            await (sup.cancel(root) if how == "cancel" else sup.drain())
        except* ValueError as group:
            caught += group.exceptions
        except* KeyError as group:
            caught += group.exceptions
        assert len(caught) == 2
        assert {agent.state for agent in (root, scout, digger, other)} == {"gone"}


@pytest.mark.case("R-117", "R-229")
async def test_leaving_waits_for_a_cancel_of_a_session_that_is_not_resident(
    stage: Stage,
) -> None:
    store = HeldClaims()
    stage.use(store)
    model = ScriptedModel({"lead": [step("n")] * 2, "scout": [step("x")]})
    ends: list[str] = []

    async def cancel(sup: ramet.Supervisor, session: str) -> None:
        try:
            await sup.cancel(session)
            ends.append("cancelled")
        except ramet.RametError as error:
            ends.append(error.code)

    async with anyio.create_task_group() as group:
        stage.whole = False
        async with stage.open(model) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, SCOUT, "go")
            await sup.wait(started.message_id)
            await root.wait_idle()
            assert sup.agent(started.child_id) is None
            group.start_soon(cancel, sup, started.child_id)
            while not store.begun.is_set():
                await anyio.lowlevel.checkpoint()
            group.start_soon(_when_draining, sup, store)
    # It came too late to be admitted, and it was not left alone with a closed store.
    assert ends == ["DRAINING"]


async def _when_draining(sup: ramet.Supervisor, store: HeldClaims) -> None:
    while sup._runtime.forest.draining is None:
        await anyio.lowlevel.checkpoint()
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    store.let.set()
