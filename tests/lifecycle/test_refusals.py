"""Reports that are refused, and what an accepted one survives."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest

import ramet
from ramet import AgentSpec, Supervisor, ToolMessage
from ramet.mailbox.events import TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step, turn_ended
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
    start,
    texts,
)

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-027", "R-061", "R-257", "R-133")
async def test_a_resumed_child_of_an_absent_parent_cannot_report_but_repeat_a_key(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [], "scout": [step("x", hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        message = await sup.report_from(scout, "before", key="k")
    async with stored.open(ScriptedModel({})) as sup:
        before = stored.log(root)
        again = await sup.resume(scout.id)
        assert again.state == "parked"
        with pytest.raises(ramet.ParentUnavailableError) as caught:
            await sup.report_from(again, "now")
        assert (
            str(caught.value) == "direct parent is not live; report was not delivered"
        )
        assert await sup.report_from(again, "before", key="k") == message
        assert sup.agent(root.id) is None
        assert stored.log(root) == before
        again.release()
        await gone(again)
        assert not of(stored.log(again)[len(before) :], TurnOpened)


@pytest.mark.case("R-028", "R-025", "R-112")
async def test_below_a_cancelled_parent_reports_find_their_own_sender_closing(
    stage: Stage,
) -> None:
    release = Gate()

    async def stubborn() -> str:
        """Refuse to be cancelled for a while."""
        with anyio.CancelScope(shield=True):
            await release.passed()
        return "late"

    scout_spec = AgentSpec("scout", tools=[stubborn])
    model = ScriptedModel({"scout": [step(calls=[call("stubborn")])]})
    async with stage.open(model, specs=[LEAD, scout_spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, scout_spec)
        await release.reached()
        await sup.report_from(scout, "x", key="k")
        before = stage.log(root)
        async with anyio.create_task_group() as group:
            group.start_soon(sup.cancel, root)
            await anyio.wait_all_tasks_blocked()
            assert scout.state == root.state == "closing"
            for key in (None, "k"):
                with pytest.raises(ramet.ActivationClosingError):
                    await sup.report_from(scout, "x", key=key)
            with pytest.raises(ramet.ActivationClosingError):
                await sup.tell(root, "x")
            assert stage.log(root) == before
            release.open()
        closings = [session for session, _ in stage.observer.closings]
        assert closings == [root.id, scout.id]


@pytest.mark.case("R-025", "R-161")
async def test_a_report_of_a_draining_child_gets_the_drain(stage: Stage) -> None:
    release = Gate()

    async def stubborn() -> str:
        """Refuse to be cancelled for a while."""
        with anyio.CancelScope(shield=True):
            await release.passed()
        return "late"

    scout_spec = AgentSpec("scout", tools=[stubborn])
    model = ScriptedModel({"scout": [step(calls=[call("stubborn")])]})
    async with stage.open(model, specs=[LEAD, scout_spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, scout_spec)
        await release.reached()
        await sup.report_from(scout, "x", key="k")
        async with anyio.create_task_group() as group:
            group.start_soon(sup.drain)
            await anyio.wait_all_tasks_blocked()
            before = stage.log(root)
            for key in (None, "k"):
                with pytest.raises(ramet.DrainingError):
                    await sup.report_from(scout, "x", key=key)
            assert stage.log(root) == before
            release.open()


@pytest.mark.case("R-029")
async def test_an_unforeseen_failure_of_the_parent_is_its_unavailability(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        before = stage.log(root)
        broken = MemoryError("no room")

        def fail(*arguments: Any, **options: Any) -> str:
            raise broken

        with monkeypatch.context() as patch:
            patch.setattr(sup._runtime.forest, "accept", fail)
            with pytest.raises(ramet.ParentUnavailableError) as caught:
                await sup.report_from(scout, "x")
        assert caught.value.__cause__ is broken
        assert stage.log(root) == before
        await sup.report_from(scout, "x")
        assert len(accepted_in(stage.log(root), "report")) == 1


@pytest.mark.case("R-030")
@pytest.mark.parametrize("delivery", ["quiet", "wakeup"])
@pytest.mark.parametrize("end", ["cancelled", "drained", "revoked and settled"])
async def test_an_accepted_report_survives_the_end_of_its_sender(
    stage: Stage, delivery: Literal["quiet", "wakeup"], end: str
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1"), step("2")],
            "scout": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model, report=False) as sup:
        revoke = sup.register_setup(ramet.report_setup())
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "begin")
        await first.reached()
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        message = await sup.report_from(
            scout, "kept", delivery=delivery, ack="accepted"
        )
        if end == "cancelled":
            await sup.cancel(scout)
        elif end == "drained":
            await sup.drain(below=root)
        else:
            revoke()
            hold.open()
            await gone(scout)
        first.open()
        await root.wait_idle()
        reports = accepted_in(stage.log(root), "report")
        assert [(e.id, e.content) for e in reports] == [(message, ("kept",))]
        assert texts(model.requests_of("lead")[-1]).count("kept") == 1
        assert (await sup.message(message)).state == "claimed"


@pytest.mark.case("R-031", "R-107", "R-093")
async def test_a_caller_whose_scope_is_cancelled_already_changes_nothing(
    stored: Stage,
) -> None:
    hold, first = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("ok")],
            "scout": [step("x", hold=first)],
            "digger": [step("x", hold=hold)],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        settled = await start(sup, root, SCOUT)
        first.open()
        await gone(settled)
        await root.wait_idle()
        child = await start(sup, root, DIGGER)
        await hold.reached()
        logs = [stored.log(agent) for agent in (root, settled, child)]
        attempt: Any
        for attempt in (
            lambda key: sup.report_from(child, "x", key=key),
            lambda key: sup.report_from(child, "x", ack="accepted", key=key),
            lambda key: sup.tell(root, "x", key=key),
            lambda key: sup.followup(root, child.id, "x", key=key),
            lambda key: sup.followup(root, settled.id, "x", key=key),
            lambda key: sup.inject(root, child.id, "x", key=key),
            lambda key: sup.start_child(root, SCOUT, "x", key=key),
            lambda key: sup.call(root, ORACLE, "x", key=key),
            lambda key: sup.start_call(root, ORACLE, "x", key=key),
            lambda key: sup.resume(settled.id),
            lambda key: sup.start_root(LEAD, interactive=True),
        ):
            for key in (None, "k"):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await attempt(key)
                assert scope.cancelled_caught
        assert sup.agent(settled.id) is None
        assert [stored.log(agent) for agent in (root, settled, child)] == logs
        assert len(await sup.children(root.id)) == 2
        assert len(await sup.children()) == 1


@pytest.mark.case("R-243", "R-016", "R-018", "R-123")
async def test_a_model_reports_and_the_next_turn_of_its_parent_reads_it(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("read")],
            "scout": [
                step(calls=[call("report", output="found it")]),
                step("a secret closing word", hold=hold),
            ],
            "digger": [step("x", hold=Gate())],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await start(sup, root, DIGGER)
        scout = await start(sup, root, SCOUT)
        hold.open()
        await turn_ended(scout, 1)
        assert not model.requests_of("lead")
        await sup.tell(root, "what is new?")
        await root.wait_idle()
        report = accepted_in(stored.log(root), "report")[0]
        first = model.requests_of("lead")[0]
        shown = frames(first)
        assert shown[0] == (
            f"Background subagent {scout.id} reported:",
            "found it",
        )
        assert shown[-1] == ("what is new?",)
        result = model.requests_of("scout")[1].messages[-1]
        assert isinstance(result, ToolMessage)
        assert result.results[0].content.split() == (
            ramet.canonical_json({"message_id": report.id})
            .replace(":", ": ")
            .replace("{", "{ ")
            .replace("}", " }")
            .split()
        )
        assert "secret" not in repr(stored.log(root))


@pytest.mark.case("R-033", "R-026", "R-030")
@pytest.mark.parametrize(
    "rival", ["cancel child", "cancel parent", "drain", "revoke", "cancel caller"]
)
@pytest.mark.parametrize("key", [None, "k"])
async def test_a_report_that_races_is_refused_whole_or_accepted_once(
    stage: Stage, rival: str, key: str | None
) -> None:
    """Every distance of a few checkpoints between the report and its rival."""
    for late in range(-4, 5):
        hold = Gate()
        model = ScriptedModel(
            {"scout": [step("x", hold=hold)], "lead": [step("n", hold=hold)]}
        )
        stage.whole = False
        async with stage.open(model, report=False) as sup:
            revoke = sup.register_setup(ramet.report_setup())
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            ends: list[str | BaseException] = []
            with anyio.CancelScope() as caller:
                async with anyio.create_task_group() as group:

                    async def report(
                        sup: Supervisor = sup,
                        scout: ramet.Agent = scout,
                        ends: list[str | BaseException] = ends,
                        late: int = late,
                    ) -> None:
                        for _ in range(max(0, -late)):
                            await anyio.lowlevel.checkpoint()
                        try:
                            ends.append(await sup.report_from(scout, "x", key=key))
                        except ramet.RametError as error:
                            ends.append(error)

                    async def race(
                        sup: Supervisor = sup,
                        scout: ramet.Agent = scout,
                        root: ramet.Agent = root,
                        revoke: Any = revoke,
                        caller: anyio.CancelScope = caller,
                        late: int = late,
                    ) -> None:
                        for _ in range(max(0, late)):
                            await anyio.lowlevel.checkpoint()
                        if rival == "revoke":
                            revoke()
                        elif rival == "cancel caller":
                            caller.cancel()
                        elif rival == "drain":
                            await sup.drain()
                        else:
                            await sup.cancel(scout if "child" in rival else root)

                    group.start_soon(report)
                    group.start_soon(race)
            await sup.lookup(scout.id, "k")
            reports = accepted_in(stage.log(root), "report")
            assert len(reports) <= 1
            if not ends:
                assert caller.cancelled_caught
            elif isinstance(ends[0], str):
                assert [one.id for one in reports] == ends
            else:
                assert isinstance(
                    ends[0],
                    (
                        ramet.ActivationClosingError,
                        ramet.DrainingError,
                        ramet.UnauthorizedError,
                        ramet.ParentUnavailableError,
                    ),
                )
                assert reports == []
