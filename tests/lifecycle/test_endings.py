"""Interrupt, cancel, drain and leaving `open` on the running runtime."""

from __future__ import annotations

import logging
import threading
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    AgentSpec,
    AssistantMessage,
    ModelRequest,
    Policy,
    Setup,
    TextDelta,
    ToolCall,
    ToolMessage,
)
from ramet.mailbox.events import (
    Activated,
    CallEnded,
    Concluded,
    Discarded,
    Ended,
    Interrupted,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
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
    texts,
)

pytestmark = pytest.mark.anyio


def held(*names: str, hold: Gate, more: int = 0) -> ScriptedModel:
    steps = [step("x", hold=hold), *[step("more")] * more]
    return ScriptedModel(dict.fromkeys(names, steps))


class Stubborn:
    """A tool that refuses cancellation until it is let go."""

    def __init__(self) -> None:
        self.inside = Gate()
        self.spec = AgentSpec("scout", tools=[self.refuse])

    async def refuse(self) -> str:
        """Refuse to be cancelled."""
        with anyio.CancelScope(shield=True):
            await self.inside.passed()
        return "late"

    def steps(self) -> list[Any]:
        return [step(calls=[call("refuse")])]


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


# -- cancel ----------------------------------------------------------------------------


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


@pytest.mark.case("R-115", "R-117", "R-213")
async def test_a_tool_that_blocks_its_thread_is_abandoned(stage: Stage) -> None:
    release = threading.Event()
    inside = Gate()
    done = threading.Event()

    def block() -> str:
        """Block a thread."""
        anyio.from_thread.run_sync(_arrive, inside)
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
        await anyio.to_thread.run_sync(done.wait)


def _arrive(gate: Gate) -> None:
    gate.arrivals += 1
    if gate._arrived is not None:
        gate._arrived.set()
        gate._arrived = None


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


# -- drain -----------------------------------------------------------------------------


@pytest.mark.case("R-158", "R-159", "R-160", "R-167", "R-170")
async def test_a_drain_ends_everything_and_the_next_open_goes_on_in_order(
    stored: Stage,
) -> None:
    hold = Gate()
    names = ("lead", "scout", "oracle", "digger")
    stored.whole = False
    async with stored.open(held(*names, hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        begun = await sup.start_call(scout, ORACLE, "x")
        await start(sup, resident(sup, begun.child_id), DIGGER)
        first = await sup.tell(root, "open")
        await hold.reached(4)
        kept = [await sup.tell(root, text) for text in "ab"]
        below = [await sup.followup(root, scout.id, text) for text in "cd"]
        await sup.report_from(scout, "staged")
        async with anyio.create_task_group() as group:
            group.start_soon(sup.drain)
            group.start_soon(sup.drain)
        assert sup.statistics()["agents"] == 0
        outcome = await sup.wait(first)
        assert (outcome.status, outcome.cause) == ("cancelled", "drain")
        with pytest.raises(ramet.DrainingError):
            await sup.tell(root, "x")
    ends = [e.session for e in stored.entries if isinstance(e.event, Ended)]
    assert ends[-1] == root.id
    assert ends[-2] == scout.id
    assert ends[1] == begun.child_id
    logs = [e.event for e in stored.entries]
    assert not of(logs, Discarded)
    model = ScriptedModel({"lead": [step("ok")] * 5, "scout": [step("ok")] * 4})
    async with stored.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        opened = of(stored.log(root), TurnOpened)[1:]
        assert [m for e in opened for m in e.claimed] == kept
        assert "staged" in texts(model.requests_of("lead")[0])
        new = await sup.followup(again, scout.id, "new")
        assert (await sup.wait(new)).status == "completed"
        opened = of(stored.log(scout), TurnOpened)[1:]
        assert [m for e in opened for m in e.claimed] == [*below, new]


@pytest.mark.case("R-162", "R-163", "R-164")
async def test_a_scoped_drain_brings_only_what_is_below_to_rest(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("p", hold=hold), step("q")],
            "scout": [step("x", hold=hold)] * 2,
            "digger": [step("x", hold=hold)] * 2,
        }
    )
    stage.whole = False
    async with stage.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        other = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        beside = await start(sup, other, SCOUT)
        below = await start(sup, beside, DIGGER)
        await sup.tell(root, "busy")
        await hold.reached(5)
        await sup.report_from(scout, "x", key="k")
        await sup.followup(root, scout.id, "x", key="k")
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(lambda: sup.drain(below=root))
        assert (scout.state, digger.state) == ("gone", "gone")
        assert root.state == "running"
        assert beside.state == "running"
        attempt: Any
        for attempt in (
            lambda agent: sup.start_child(agent, DIGGER, "x"),
            lambda agent: sup.call(agent, ORACLE, "x"),
            lambda agent: sup.start_call(agent, ORACLE, "x"),
            lambda agent: sup.followup(agent, scout.id, "x", key="k"),
            lambda agent: sup.inject(agent, scout.id, "x"),
        ):
            for agent in (root, scout, digger):
                with pytest.raises(ramet.DrainingError):
                    await attempt(agent)
        with pytest.raises(ramet.DrainingError):
            await sup.report_from(scout, "x", key="k")
        await sup.report_from(beside, "fine")
        await sup.followup(other, beside.id, "fine")
        # The root of a scoped drain that is a child itself still reports.
        await sup.drain(below=beside)
        assert below.state == "gone"
        assert beside.state == "running"
        await sup.report_from(beside, "still here")
        with pytest.raises(ramet.DrainingError):
            await sup.start_child(beside, DIGGER, "x")
        with pytest.raises(ramet.DrainingError):
            await sup.report_from(below, "x")
        hold.open()
        await root.wait_idle()
        await gone(beside)
        assert not of([e.event for e in stage.observer.entries], Discarded)


@pytest.mark.case("R-168", "R-227")
async def test_past_its_deadline_a_drain_forces_the_rest_and_names_it(
    stored: Stage,
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel(
        {"scout": stubborn.steps(), "digger": [step("x", hold=Gate())]}
    )
    stored.whole = False
    async with stored.open(model, specs=[LEAD, stubborn.spec, DIGGER]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, stubborn.spec)
        digger = await start(sup, root, DIGGER)
        await stubborn.inside.reached()
        kept = await sup.followup(root, scout.id, "kept")
        with pytest.raises(ramet.TeardownError) as caught:
            await sup.drain(deadline_s=0.01)
        assert "'refuse'" in str(caught.value.exceptions)
        assert {root.state, scout.state, digger.state} == {"gone"}
        assert (await sup.message(kept)).state == "stored"
        stubborn.inside.open()


@pytest.mark.case("R-161")
async def test_questions_are_answered_while_and_after_everything_drains(
    stored: Stage,
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel({"scout": stubborn.steps()})
    stored.whole = False
    async with stored.open(model, specs=[LEAD, stubborn.spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, stubborn.spec, "x", key="k")
        await stubborn.inside.reached()

        async def ask() -> None:
            assert (await sup.message(started.message_id)).state == "claimed"
            assert len(await sup.children(root.id)) == 1
            assert await sup.lookup(root.id, "k") == started.message_id
            assert (await sup.usage(root.id)).subtree.requests == 1
            assert (await sup.explain(root.id)).state in ("closing", "gone")
            await sup.outcome(started.message_id)

        async with anyio.create_task_group() as group:
            group.start_soon(sup.drain)
            await anyio.wait_all_tasks_blocked()
            await ask()
            for attempt in (
                lambda: sup.tell(root, "x"),
                lambda: sup.resume(root.id),
                lambda: sup.start_root(LEAD, interactive=True),
            ):
                with pytest.raises(ramet.DrainingError):
                    await attempt()
            stubborn.inside.open()
        await ask()
    async with stored.open(ScriptedModel({"lead": [step("ok")]})) as sup:
        again = await sup.resume(root.id)
        await sup.tell(again, "x")
        await again.wait_idle()


# -- leaving ---------------------------------------------------------------------------


@pytest.mark.case("R-169", "R-230")
@pytest.mark.parametrize("how", ["exception", "group", "host cancel"])
async def test_leaving_open_drains_and_what_left_it_comes_out_as_it_is(
    stored: Stage, how: str
) -> None:
    hold = Gate()
    stored.whole = False
    error: BaseException = ValueError("of the body")
    if how == "group":
        error = ExceptionGroup("of the body", [ValueError("one")])
    ids: list[str] = []

    async def body() -> None:
        async with stored.open(held("scout", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, SCOUT, "x")
            await hold.reached()
            await sup.followup(root, started.child_id, "kept")
            ids.extend((root.id, started.child_id, started.message_id))
            if how == "host cancel":
                scope.cancel()
                await anyio.lowlevel.checkpoint()
                raise AssertionError("it was not cancelled")
            raise error

    with anyio.CancelScope() as scope:
        if how == "host cancel":
            await body()
        else:
            with pytest.raises(type(error)) as caught:
                await body()
            assert caught.value is error
    assert scope.cancelled_caught is (how == "host cancel")
    root, scout, _ = ids
    assert [e.cause for e in of(stored.log(scout), TurnEnded)] == ["drain"]
    for name in (scout, root):
        assert isinstance(stored.log(name)[-1], (Ended,)) or name == root
        assert of(stored.log(name), Ended)[0].reason == "drain"
    model = ScriptedModel({"scout": [step("kept"), step("n")], "lead": [step("n")] * 2})
    async with stored.open(model) as sup:
        again = await sup.resume(root)
        message = await sup.followup(again, scout, "next")
        assert (await sup.wait(message)).status == "completed"
        assert texts(model.requests_of("scout")[0])[-1] == "kept"
        await again.wait_idle()


@pytest.mark.case("R-230", "R-227")
async def test_leaving_waits_for_a_coroutine_that_still_refuses(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    model = ScriptedModel({"scout": stubborn.steps(), "lead": [step("n")]})
    stage.whole = False
    left: list[str] = []

    async def run() -> None:
        async with stage.open(model, specs=[LEAD, stubborn.spec]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, stubborn.spec)
            await stubborn.inside.reached()
            with pytest.raises(ramet.TeardownError):
                await sup.cancel(scout, grace_s=0)
        left.append("left")

    with caplog.at_level(logging.WARNING, logger="ramet"):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await stubborn.inside.reached()
            await anyio.wait_all_tasks_blocked()
            assert left == []
            stubborn.inside.open()
    assert left == ["left"]


@pytest.mark.case("R-169")
async def test_what_a_run_leaves_is_one_group_only_when_there_are_several(
    stage: Stage,
) -> None:
    def contribute(setup: Setup) -> Any:
        def release() -> None:
            raise ValueError("release")

        return release

    body = ValueError("of the body")
    with left_with(ValueError) as caught:
        async with stage.open(ScriptedModel({})) as sup:
            sup.register_setup(contribute)
            await sup.start_root(LEAD, interactive=True)
            raise body
    assert caught == [body]
    assert any("TeardownError" in note for note in body.__notes__)


@pytest.mark.case("R-118", "R-158")
async def test_a_headless_root_that_is_drained_has_one_outcome(stored: Stage) -> None:
    hold = Gate()
    stored.whole = False
    async with stored.open(held("oracle", hold=hold)) as sup:
        root = await sup.start_root(ORACLE, interactive=False)
        message = await sup.tell(root, "x")
        await hold.reached()
    concluded = of(stored.log(root), Concluded)
    assert [(c.message, c.status, c.cause) for c in concluded] == [
        (message, "cancelled", "drain")
    ]


@pytest.mark.case("R-202", "R-267", "R-207")
@pytest.mark.parametrize("error", [ramet.ModelError("no"), SystemExit(3), OSError("x")])
async def test_a_failed_turn_is_closed_and_the_next_message_is_claimed(
    stage: Stage, error: BaseException
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step(error=error, hold=hold), step("fine")]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        first = await sup.tell(root, "a")
        await hold.reached()
        second = await sup.tell(root, "b")
        hold.open()
        outcome = await sup.wait(first)
        assert outcome.status == "failed"
        if isinstance(error, SystemExit):
            assert outcome.cause == "unclassified"
            assert "SystemExit" in (outcome.detail or "")
        assert (await sup.wait(second)).status == "completed"


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
