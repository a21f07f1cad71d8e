"""Followups to children that run, close or are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, ModelRequest, Policy, Setup
from ramet.mailbox.events import Activated, Created, TurnOpened
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

pytestmark = pytest.mark.anyio


# -- starting --------------------------------------------------------------------------


@pytest.mark.case("R-096", "R-013", "R-011")
async def test_followups_to_a_running_child_are_turns_after_the_open_one(
    stage: Stage,
) -> None:
    hold, last = Gate(), Gate()
    only = AgentSpec("scout", allow=())
    model = ScriptedModel(
        {
            "scout": [
                step("0", hold=hold),
                step("1"),
                step("2", hold=last),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model, specs=[LEAD, only]) as sup:
        sup.register_setup(ramet.control_setup())
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, only)
        await hold.reached()
        sent = [await sup.followup(root, scout.id, text) for text in "ab"]
        assert len(set(sent)) == 2
        hold.open()
        await last.reached()
        log = stage.log(scout)
        assert len(of(log, Activated)) == 1
        assert [e.claimed[0] for e in of(log, TurnOpened)[1:]] == sent
        tools = [tool.name for tool in model.requests_of("scout")[0].tools]
        assert tools == ["report"]


@pytest.mark.case("R-097", "R-226", "R-003", "R-004")
async def test_a_followup_to_a_settled_child_resumes_it_once(stored: Stage) -> None:
    first, second = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * 2,
            "scout": [step("0", hold=first), step("1", hold=second), step("2")],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        held: list[BaseException] = []
        sent: list[str] = []

        async def send(text: str) -> None:
            sent.append(await sup.followup(root, scout.id, text))

        async def resume() -> None:
            try:
                await sup.resume(scout.id)
            except ramet.SessionHeldError as error:
                held.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(send, "a")
            group.start_soon(send, "b")
            await anyio.lowlevel.checkpoint()
            group.start_soon(resume)
        assert len(held) <= 1
        await second.reached()
        again = resident(sup, scout.id)
        assert again is not scout
        second.open()
        await gone(again)
        log = stored.log(scout)
        assert [type(e) for e in log].count(Created) == 1
        assert [e.turn for e in of(log, TurnOpened)] == [1, 2, 3]
        activations = [e.activation for e in of(log, Activated)]
        assert len(activations) == len(set(activations)) == 2
        assert {e.claimed[0] for e in of(log, TurnOpened)[1:]} == set(sent)


@pytest.mark.case("R-003", "R-181")
async def test_a_resident_session_cannot_be_resumed(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        for agent in (root, scout):
            log = stored.log(agent)
            with pytest.raises(ramet.SessionHeldError):
                await sup.resume(agent.id)
            assert stored.log(agent) == log


@pytest.mark.case("R-099")
async def test_a_followup_to_a_cancelled_child_waits_until_it_is_gone(
    stage: Stage,
) -> None:
    release = Gate()

    async def stubborn() -> str:
        """Refuse to be cancelled for a while."""
        with anyio.CancelScope(shield=True):
            await release.passed()
        return "late"

    spec = AgentSpec("scout", tools=[stubborn])
    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step(calls=[call("stubborn")]), step("1")]}
    )
    stage.whole = False
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, spec)
        await release.reached()
        sent: list[str] = []

        async def send() -> None:
            sent.append(await sup.followup(root, scout.id, "next"))

        async with anyio.create_task_group() as group:
            group.start_soon(sup.cancel, scout)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert sent == []
            assert not accepted_in(stage.log(scout), "followup")
            release.open()
        assert (await sup.wait(sent[0])).status == "completed"
        log = stage.log(scout)
        assert len(of(log, Activated)) == 2
        assert of(log, TurnOpened)[1].claimed == (sent[0],)


@pytest.mark.case("R-101", "R-077", "R-138")
async def test_only_a_continuable_child_can_be_continued(stored: Stage) -> None:
    model = ScriptedModel(
        {"oracle": [step(calls=[call("reply", value=1)])], "lead": [step("n")]}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        other = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        await sup.wait(begun.message_id)
        await root.wait_idle()
        await sup.cancel(other)
        logs = [stored.log(name) for name in (begun.child_id, other.id)]
        for name in (begun.child_id, other.id, "s-absent"):
            with pytest.raises(ramet.NotResumableError):
                await sup.followup(root, name, "x")
            sup.interrupt(name)
        with pytest.raises(ramet.NotResumableError):
            await sup.resume(begun.child_id)
        with pytest.raises(ramet.NotResumableError):
            await sup.resume("s-absent")
        with pytest.raises(ramet.NotResumableError):
            await sup.cancel("s-absent")
        assert [stored.log(name) for name in (begun.child_id, other.id)] == logs
        assert sup.agent(begun.child_id) is None


@pytest.mark.case("R-102")
async def test_a_followup_around_the_settlement_is_answered_once(
    stored: Stage,
) -> None:
    async def mind(request: ModelRequest) -> str:
        return "ok"

    async with stored.open(
        ramet.FunctionModel(mind), policy=Policy(notices="quiet")
    ) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "0")
        sent = [started.message_id]
        for late in range(14):
            for _ in range(late):
                await anyio.lowlevel.checkpoint()
            sent.append(await sup.followup(root, started.child_id, f"{late}"))
        for message in sent:
            assert (await sup.wait(message)).status == "completed"
        log = stored.log(started.child_id)
        assert [m for e in of(log, TurnOpened) for m in e.claimed] == sent


@pytest.mark.case("R-103", "R-104", "R-107", "R-226")
@pytest.mark.parametrize("what", ["replaced", "drained", "cancelled"])
async def test_what_comes_before_the_accepting_span_of_a_cold_resume_wins(
    stage: Stage, what: str
) -> None:
    first = Gate()
    disposed: list[str] = []

    def contribute(setup: Setup) -> Any:
        return lambda: disposed.append(setup.name)

    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("0", hold=first), step("1")]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        disposed.clear()
        before = stage.log(scout)
        load = type(sup._runtime.storage).read
        loading, go_on = anyio.Event(), anyio.Event()
        caught: list[BaseException] = []

        async def slow_load(self: Any, method: Any, *arguments: Any) -> Any:
            if method.__name__ == "load" and arguments[0] == scout.id:
                loading.set()
                await go_on.wait()
            return await load(self, method, *arguments)

        async def send(scope: anyio.CancelScope) -> None:
            with scope:
                try:
                    await sup.followup(root, scout.id, "never", key="k")
                except ramet.RametError as error:
                    caught.append(error)

        sup._runtime.storage.read = slow_load.__get__(sup._runtime.storage)  # type: ignore[method-assign]
        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(send, scope)
            await loading.wait()
            if what == "replaced":
                await sup.cancel(root)
                await sup.resume(root.id)
            elif what == "drained":
                group.start_soon(sup.drain)
                await anyio.wait_all_tasks_blocked()
            else:
                scope.cancel()
            go_on.set()
        if what == "cancelled":
            assert caught == []
        else:
            expected = {
                "replaced": ramet.UnauthorizedError,
                "drained": ramet.DrainingError,
            }[what]
            assert [type(error) for error in caught] == [expected]
        assert sup.agent(scout.id) is None
        assert stage.log(scout) == before
        assert disposed.count("scout") == 0
        row = sup._runtime.storage.store.row(scout.id)
        assert row is not None
        assert row.holder is None


@pytest.mark.case("R-105", "R-185", "R-191", "R-192")
async def test_a_resume_that_fails_in_set_up_leaves_everything_as_it_was(
    stored: Stage,
) -> None:
    first = Gate()
    failure: BaseException | None = None

    def contribute(setup: Setup) -> None:
        if failure is not None:
            raise failure

    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("0", hold=first), step("1")]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        before = stored.log(scout)
        for error in (ValueError("broken"), ramet.SetupRevokedError("gone")):
            failure = error
            for attempt in (
                lambda: sup.followup(root, scout.id, "x"),
                lambda: sup.resume(scout.id),
            ):
                with pytest.raises(ramet.RametError) as caught:
                    await attempt()
                if isinstance(error, ramet.RametError):
                    assert caught.value is error
                else:
                    assert isinstance(caught.value, ramet.NotResumableError)
                    assert caught.value.__cause__ is error
        failure = None
        reader = stored.reader()
        row = reader.row(scout.id)
        reader.close()
        assert row is not None
        assert row.holder is None
        assert stored.log(scout) == before
        assert sup.agent(scout.id) is None
        message = await sup.followup(root, scout.id, "x")
        assert (await sup.wait(message)).status == "completed"


@pytest.mark.case("R-105", "R-191")
async def test_a_resume_whose_set_up_was_revoked_releases_what_was_set_up(
    stored: Stage,
) -> None:
    first = Gate()
    revoking: list[Callable[[], None]] = []
    released: list[str] = []
    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("0", hold=first), step("1")]}
    )

    def lasting(setup: Setup) -> Callable[[], None]:
        return lambda: released.append(setup.agent_id)

    def revoke_another(setup: Setup) -> None:
        while revoking:
            revoking.pop()()

    async with stored.open(model) as sup:
        sup.register_setup(lasting)
        revoke = sup.register_setup(lambda setup: None)
        sup.register_setup(revoke_another)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        released.clear()
        revoking.append(revoke)
        with pytest.raises(ramet.SetupRevokedError):
            await sup.followup(root, scout.id, "x")
        assert released == [scout.id]
        assert sup.agent(scout.id) is None
        message = await sup.followup(root, scout.id, "x")
        assert (await sup.wait(message)).status == "completed"
        await root.wait_idle()


@pytest.mark.case("R-233")
async def test_a_session_whose_spec_was_not_given_cannot_be_resumed(
    stored: Stage,
) -> None:
    first = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("0", hold=first)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
    async with stored.open(ScriptedModel({}), specs=[LEAD]) as sup:
        root = await sup.resume(root.id)
        before = stored.log(scout)
        for attempt in (
            lambda: sup.followup(root, scout.id, "x"),
            lambda: sup.resume(scout.id),
        ):
            with pytest.raises(ramet.NotResumableError, match="'scout'"):
                await attempt()
        assert stored.log(scout) == before


@pytest.mark.case("R-180")
async def test_stored_texts_and_limits_decide_and_present_code_runs(
    stored: Stage,
) -> None:
    first = Gate()

    async def old() -> str:
        """Old."""
        return "old"

    async def new() -> str:
        """New."""
        return "new"

    before = AgentSpec("scout", "stored text", tools=[old])
    after = AgentSpec(
        "scout",
        "present text",
        tools=[new],
        policy={"report_delivery": "wakeup"},
        limits=ramet.Limits(requests=1),
    )
    model = ScriptedModel({"lead": [step("n")], "scout": [step("0", hold=first)]})
    async with stored.open(model, specs=[LEAD, before]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, before)
        first.open()
        await gone(scout)
        await root.wait_idle()
    model = ScriptedModel(
        {"lead": [step("n")] * 3, "scout": [step(calls=[call("new")]), step("1")]}
    )
    stored.whole = False
    async with stored.open(model, specs=[LEAD, after]) as sup:
        root = await sup.resume(root.id)
        message = await sup.followup(root, scout.id, "x")
        assert (await sup.wait(message)).status == "completed"
        request = model.requests_of("scout")[1]
        assert request.instructions == "stored text"
        assert "new" in [tool.name for tool in request.tools]
        result = request.messages[-1].results[0]  # type: ignore[union-attr]
        assert (result.content, result.error) == ("new", None)
        changed = of(stored.log(scout), Activated)[1].changed
        assert set(changed) == {"instructions", "limits", "tool old", "tool new"}


@pytest.mark.case("R-085")
async def test_a_listing_names_a_child_that_could_not_be_read(stage: Stage) -> None:
    hold = Gate()
    hold.open()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await gone(scout)
        await root.wait_idle()
        store: Any = sup._runtime.storage.store
        load = store.load

        def fail(session: str, after: int = 0) -> Any:
            if session == scout.id:
                raise ramet.CorruptLogError("broken event")
            return load(session, after)

        store.load = fail
        with pytest.raises(ramet.NotResumableError, match="broken event"):
            await sup.resume(scout.id)
        assert [line.fault for line in await sup.children(root.id)] == ["corrupt"]
        store.load = load
        await sup.resume(scout.id)
        assert [line.fault for line in await sup.children(root.id)] == [None]


@pytest.mark.case("R-084", "R-086")
async def test_descendants_in_pages_are_the_whole_tree_in_pre_order(
    stored: Stage,
) -> None:
    model = ScriptedModel(
        {"lead": [step("n")] * 9, "scout": [step("x")] * 3, "digger": [step("y")] * 6}
    )
    quiet = AgentSpec("quiet", policy={"notices": "quiet"})
    hold = Gate()
    busy = ScriptedModel({"scout": [step("x", hold=hold)] * 3})
    scout = AgentSpec("scout", model=busy, policy={"notices": "quiet"})
    stored.whole = False
    async with stored.open(model, specs=[quiet, scout]) as sup:
        root = await sup.start_root(quiet, interactive=True)
        expected: list[str] = []
        for _ in range(3):
            started = await sup.start_child(root, scout, "x")
            parent = sup.agent(started.child_id)
            assert parent is not None
            expected.append(started.child_id)
            for _ in range(2):
                below = await sup.start_child(parent, DIGGER, "y")
                expected.append(below.child_id)
        hold.open()
        await root.wait_idle()
        whole = [line.id for line in await sup.descendants(root.id)]
        assert whole == expected
        for limit in (1, 2, 3, 4):
            found: list[str] = []
            after = None
            while page := await sup.descendants(root.id, after=after, limit=limit):
                found += [line.id for line in page]
                after = page[-1].id
            assert found == expected
        assert await sup.descendants(expected[0], after=expected[3]) == []
        with pytest.raises(ramet.UsageError):
            await sup.descendants(root.id, limit=0)
