"""Drains, whole and scoped, and leaving `open`."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, Policy, Reader, Setup
from ramet.mailbox.events import Concluded, Discarded, Ended, TurnEnded, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import Stubborn, held
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    gone,
    left_with,
    of,
    resident,
    start,
    texts,
)
from tests.schedules import Backend, run_seeded

pytestmark = pytest.mark.anyio


# -- interrupt -------------------------------------------------------------------------


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


@pytest.mark.case("R-162", "R-163")
async def test_a_scoped_drain_lasts_until_its_root_is_gone(stored: Stage) -> None:
    model = ScriptedModel(
        {"lead": [step("n")] * 5, "scout": [step("x")] * 2, "digger": [step("x")]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        child = await sup.start_child(root, SCOUT, "go")
        await sup.wait(child.message_id)
        await sup.drain(below=root)
        with pytest.raises(ramet.DrainingError, match=f"cancel {root.id} or let it"):
            await sup.followup(root, child.child_id, "more")
        # It itself is not stopped: the host tells it things, and it answers.
        told = await sup.tell(root, "still there?")
        assert (await sup.wait(told)).status == "completed"
        await sup.cancel(root)
        again = await sup.resume(root.id)
        more = await sup.followup(again, child.child_id, "more")
        assert (await sup.wait(more)).status == "completed"
        begun = await sup.start_child(again, DIGGER, "go")
        assert (await sup.wait(begun.message_id)).status == "completed"
        await again.wait_idle()


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


@pytest.mark.case("R-227")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_leaving_says_every_five_seconds_for_how_many_it_waits(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    inside: list[bool] = []

    async def refuse() -> str:
        """Refuse to be cancelled for twelve seconds."""
        inside.append(True)
        with anyio.CancelScope(shield=True):
            await anyio.sleep(12)
        return "late"

    spec = AgentSpec("lead", tools=[refuse])
    model = ScriptedModel({"lead": [step(calls=[call("refuse")])]})

    async def run() -> None:
        async with ramet.open(":memory:", specs=[spec], model=model) as sup:
            root = await sup.start_root(spec, interactive=True)
            await sup.tell(root, "x")
            while not inside:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(ramet.TeardownError):
                await sup.cancel(root, grace_s=0)

    with caplog.at_level(logging.WARNING, logger="ramet"):
        run_seeded(run, backend=backend, seed=0)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["leaving waits for 1 tasks that refuse to be cancelled"] * 2


@pytest.mark.case("R-166")
async def test_a_drain_waits_until_a_start_on_its_way_is_undone(stage: Stage) -> None:
    asked = Gate()
    ended: list[str] = []
    async with stage.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        storage: Any = sup._runtime.storage
        read = storage.read

        async def slow(method: Any, *arguments: Any) -> Any:
            if method is Reader.find:
                await asked.passed()
            return await read(method, *arguments)

        async def begin() -> None:
            with pytest.raises(ramet.DrainingError):
                await sup.start_child(root, SCOUT, "x", key="k")
            ended.append("refused")

        async def drain() -> None:
            await sup.drain()
            ended.append("drained")

        storage.read = slow
        async with anyio.create_task_group() as group:
            group.start_soon(begin)
            await asked.reached()
            group.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
            asked.open()
        assert ended == ["refused", "drained"]
        assert await sup.children(root.id) == []


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
