"""Starting, routing, resuming, settling and owning on the running runtime."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, ModelRequest, Policy, Setup, Supervisor
from ramet.mailbox.events import (
    Accepted,
    Activated,
    Created,
    Ended,
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
from tests.lifecycle.stores import CountingStore, HeldStore

pytestmark = pytest.mark.anyio


# -- starting --------------------------------------------------------------------------


@pytest.mark.case("R-088", "R-089", "R-091", "R-009", "R-173")
async def test_a_start_is_one_batch_and_its_header_is_written_before_the_first_turn(
    stage: Stage,
) -> None:
    store = CountingStore()
    stage.use(store)
    hold = Gate()
    spec = AgentSpec(
        "scout",
        "Look around.",
        deny=["sing"],
        limits=ramet.Limits(requests=7),
        policy={"report_delivery": "wakeup"},
    )
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        seen: list[tuple[bool, bool]] = []
        started = await sup.start_child(root, spec, "go")
        line = (await sup.children(root.id))[0]
        seen.append((line.id == started.child_id, line.depth == 1))
        assert seen == [(True, True)]
        batch = next(
            batch
            for batch in store.batches
            if any(entry.session == started.child_id for entry in batch)
        )
        kinds = [type(entry.event) for entry in batch]
        assert kinds[:3] == [Created, Activated, Accepted]
        header = batch[0].event
        assert isinstance(header, Created)
        assert (header.parent, header.kind, header.depth) == (root.id, "continuable", 1)
        assert header.spec.name == "scout"
        assert header.spec.instructions == "Look around."
        assert header.spec.deny == ("sing",)
        assert header.spec.limits.requests == 7
        assert "wakeup" not in repr(header)
        prompt = batch[2].event
        assert isinstance(prompt, Accepted)
        assert (prompt.id, prompt.source, prompt.sender) == (
            started.message_id,
            "prompt",
            root.id,
        )
        await sup.cancel(started.child_id)
        outcome = await sup.wait(started.message_id)
        assert outcome.message_id == started.message_id
        await root.wait_idle()
        notice = accepted_in(stage.log(root), "notice")[0]
        assert notice.about == (started.message_id,)


@pytest.mark.case("R-090")
async def test_what_a_caller_changes_after_a_call_began_changes_nothing(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    content: list[Any] = ["one", {"type": "text", "text": "two"}]
    deny = ["sing"]
    spec = AgentSpec("scout", deny=deny)
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        store.free.clear()
        async with anyio.create_task_group() as group:

            async def begin() -> None:
                await sup.start_child(root, spec, content)

            group.start_soon(begin)
            while root.statistics()["children"] == 0:
                await anyio.lowlevel.checkpoint()
            content[0] = "changed"
            content[1]["text"] = "changed"
            deny.append("report")
            store.free.set()
        await hold.reached()
        request = model.requests_of("scout")[0]
        assert request.messages[0].blocks == ("one", "two")  # type: ignore[union-attr]
        header = of(stage.log(request.session_id), Created)[0]
        assert header.spec.deny == ("sing",)


@pytest.mark.case("R-092")
async def test_a_child_that_would_be_too_deep_is_refused(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    installed: list[str] = []

    def contribute(setup: Setup) -> None:
        installed.append(setup.name)

    async with stage.open(model, policy=Policy(max_depth=1)) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        for attempt in (sup.start_child, sup.call, sup.start_call):
            with pytest.raises(ramet.DepthExceededError):
                await attempt(scout, DIGGER, "x", key="k")
        assert installed == ["lead", "scout"]
        assert await sup.descendants(scout.id) == []
        assert await sup.lookup(scout.id, "k") is None


@pytest.mark.case("R-092")
@pytest.mark.parametrize("wrong", [-1, True, 1.5, float("nan"), "2", None])
async def test_a_depth_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(ramet.UsageError):
        Policy(max_depth=wrong)


async def _attempt(
    sup: Supervisor,
    begin: Any,
    root: ramet.Agent,
    spec: AgentSpec,
    late: int,
    scope: anyio.CancelScope,
) -> None:
    """Start an agent and cut it while the store is asked for its key."""
    read = type(sup._runtime.storage).read

    async def slow(self: Any, method: Any, *arguments: Any) -> Any:
        if late == 0:
            scope.cancel()
        answer = await read(self, method, *arguments)
        if late == 1:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        return answer

    storage: Any = sup._runtime.storage
    storage.read = slow.__get__(storage)
    try:
        await begin(root, spec, "x", key=spec.name)
    finally:
        del storage.read
    raise AssertionError("it was not cut")


@pytest.mark.case("R-093", "R-252")
async def test_a_start_that_is_cancelled_before_publication_leaves_nothing(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"scout": [step("x", hold=hold)], "oracle": [step("x", hold=hold)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for spec, begin in ((SCOUT, sup.start_child), (ORACLE, sup.start_call)):
            for late in range(3):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(_attempt, sup, begin, root, spec, late, scope)
            assert await sup.lookup(root.id, spec.name) is None
            assert root.statistics()["children"] == 0
        first = await sup.start_child(root, SCOUT, "x", key="scout")
        assert first == await sup.start_child(root, SCOUT, "x", key="scout")
        assert len(await sup.children(root.id)) == 1


@pytest.mark.case("R-095", "R-025")
async def test_a_closing_agent_starts_nothing(stage: Stage) -> None:
    release = Gate()

    async def stubborn() -> str:
        """Refuse to be cancelled for a while."""
        with anyio.CancelScope(shield=True):
            await release.passed()
        return "late"

    spec = AgentSpec("scout", tools=[stubborn])
    for stop, error in (
        (lambda sup, scout: sup.cancel(scout), ramet.ActivationClosingError),
        (lambda sup, scout: sup.drain(), ramet.DrainingError),
    ):
        release = Gate()
        model = ScriptedModel({"scout": [step(calls=[call("stubborn")])]})
        stage.whole = False
        async with stage.open(model, specs=[LEAD, spec]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, spec)
            await release.reached()
            async with anyio.create_task_group() as group:
                group.start_soon(stop, sup, scout)
                await anyio.wait_all_tasks_blocked()
                for begin in (sup.start_child, sup.call, sup.start_call):
                    with pytest.raises(error):
                        await begin(scout, DIGGER, "x")
                release.open()
            assert await sup.children(scout.id) == []


# -- routing of followups --------------------------------------------------------------


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
        assert stored.log(scout) == before
        assert sup.agent(scout.id) is None
        message = await sup.followup(root, scout.id, "x")
        assert (await sup.wait(message)).status == "completed"


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


# -- settling and owning ---------------------------------------------------------------


@pytest.mark.case("R-108", "R-257", "R-046")
async def test_a_child_resumed_by_the_host_stays_until_it_is_released(
    stored: Stage,
) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")],
            "scout": [step("0", hold=first), step("1")],
            "digger": [step("x", hold=hold)],
        }
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        first.open()
        await gone(scout)
        await root.wait_idle()
        again = await sup.resume(scout.id)
        await again.wait_idle()
        assert again.state == "parked"
        assert len(model.requests_of("scout")) == 1
        digger = await start(sup, again, DIGGER)
        again.release()
        assert again.state == "waiting"
        hold.open()
        await gone(digger)
        # The notice of the digger woke it, and at the end of that turn it settled.
        await gone(again)
        third = await sup.resume(scout.id)
        third.release()
        assert third.state == "gone"
        third.release()
        root.release()
        assert root.state == "parked"
        await root.wait_idle()
        await third.wait_idle()
        assert of(stored.log(scout), Ended)[-1].reason == "settled"


@pytest.mark.case("R-109", "R-111", "R-113", "R-082")
async def test_a_child_is_gone_before_its_parent_and_its_notice_comes_with_its_end(
    stage: Stage,
) -> None:
    store = CountingStore()
    stage.use(store)
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * 2,
            "scout": [step("0", hold=first), step("1")],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        first.open()
        await scout.wait_idle()
        states = {line.name: line.state for line in await sup.descendants(root.id)}
        assert states == {"scout": "waiting", "digger": "running"}
        hold.open()
        await gone(digger)
        await gone(scout)
        await root.wait_idle()
        for child, parent in ((digger, scout), (scout, root)):
            batch = next(
                batch
                for batch in store.batches
                if any(
                    e.session == child.id and isinstance(e.event, Ended) for e in batch
                )
            )
            assert any(
                e.session == parent.id
                and isinstance(e.event, Accepted)
                and e.event.source == "notice"
                for e in batch
            )


@pytest.mark.case("R-112", "R-148", "R-111")
async def test_a_cancel_closes_top_down_and_ends_children_first(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {name: [step("x", hold=hold)] for name in ("lead", "scout", "digger")}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        await sup.tell(root, "x")
        await hold.reached(3)
        for _ in range(2):
            await sup.tell(root, "y")
            await sup.followup(root, scout.id, "y")
            await sup.followup(scout, digger.id, "y")
        await sup.cancel(root, reason="stop")
        family = [root.id, scout.id, digger.id]
        assert [name for name, _ in stage.observer.closings] == family
        ends = [
            entry.session
            for entry in stage.observer.entries
            if isinstance(entry.event, Ended)
        ]
        assert ends == family[::-1]
        for name in family:
            log = stage.log(name)
            assert [e.cause for e in of(log, TurnEnded)] == ["cancelled"]
            assert [e.detail for e in of(log, TurnEnded)] == ["stop"]
        assert len(model.requests) == 3
        assert hold.arrivals == 3


@pytest.mark.case("R-116", "R-117")
async def test_idle_roots_have_no_task(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("x", hold=hold)]})
    async with stage.open(model) as sup:
        roots = [await sup.start_root(LEAD, interactive=True) for _ in range(200)]
        assert sup.statistics()["tasks"] == 0
        await sup.tell(roots[0], "x")
        await hold.reached()
        assert sup.statistics()["tasks"] == 1
        hold.open()
        await roots[0].wait_idle()
        await anyio.wait_all_tasks_blocked()
        assert sup.statistics()["tasks"] == 0
        assert sup.statistics()["agents"] == 200


@pytest.mark.case("R-258", "R-133")
async def test_a_resumed_parent_owns_its_live_children_at_once(stored: Stage) -> None:
    first, hold = Gate(), Gate()
    model = ScriptedModel({"scout": [step("0", hold=first)], "digger": [step("0")]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await start(sup, scout, DIGGER)
        await first.reached()
    model = ScriptedModel({"scout": [step("x", hold=hold)], "lead": [step("n")]})
    async with stored.open(model) as sup:
        digger_line = (await sup.descendants(root.id))[1]
        digger = await sup.resume(digger_line.id)
        assert digger.state == "parked"
        scout = await sup.resume(scout.id)
        assert scout.state == "waiting"
        scout.release()
        assert scout.state == "waiting"
        again = await sup.resume(root.id)
        assert again.state == "waiting"
        await sup.report_from(digger, "to my parent")
        await sup.report_from(scout, "to mine")
        digger.release()
        assert digger.state == "gone"
        # Nothing that it reported stays unread: its end wakes the scout, and so on.
        await hold.reached()
        hold.open()
        await gone(scout)
        await again.wait_idle()
        assert again.state == "parked"


@pytest.mark.case("R-231", "R-179")
async def test_a_resume_loads_only_the_children_that_were_live(stage: Stage) -> None:
    store = CountingStore()
    stage.use(store)
    hold, settled = Gate(), Gate()
    settled.open()
    model = ScriptedModel(
        {
            "lead": [step("n")] * 40,
            "scout": [step("x", hold=settled)] * 30,
            "digger": [step("x", hold=hold)] * 2,
        }
    )
    stage.whole = False
    async with stage.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for _ in range(30):
            started = await sup.start_child(root, SCOUT, "x")
            await sup.wait(started.message_id)
        await root.wait_idle()
        live = [await start(sup, root, DIGGER) for _ in range(2)]
        await hold.reached(2)
        copy = stage.crashed()
    counting = CountingStore()
    counting.data = copy._memory.data
    copy.use(counting)
    async with copy.open(ScriptedModel({}), policy=Policy(notices="quiet")) as sup:
        await sup.resume(root.id)
        assert sorted(counting.loads) == sorted([root.id, *(one.id for one in live)])


@pytest.mark.case("R-266")
async def test_a_load_waits_for_what_the_session_wrote_before_it_went(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    first = Gate()
    model = ScriptedModel(
        {"lead": [step("n")] * 3, "scout": [step("0", hold=first), step("1")]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await first.reached()
        store.free.clear()
        first.open()
        await scout.wait_gone()
        resumed: list[ramet.Agent] = []

        async def resume() -> None:
            resumed.append(await sup.resume(scout.id))

        async with anyio.create_task_group() as group:
            group.start_soon(resume)
            await anyio.wait_all_tasks_blocked()
            assert resumed == []
            store.free.set()
        log = stage.log(scout)
        assert [type(e) for e in log][-2:] == [Ended, Activated]
        resumed[0].release()


@pytest.mark.case("R-084", "R-082", "R-085", "R-079")
async def test_descendants_are_listed_in_pre_order_through_one_shot_agents(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {name: [step("x", hold=hold)] * 3 for name in ("scout", "digger", "oracle")}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        begun = await sup.start_call(root, ORACLE, "x")
        oracle = resident(sup, begun.child_id)
        below_oracle = await start(sup, oracle, DIGGER)
        below_scout = await start(sup, scout, DIGGER)
        await hold.reached(4)
        lines = await sup.descendants(root.id)
        expected = [scout, below_scout, oracle, below_oracle]
        assert [line.id for line in lines] == [agent.id for agent in expected]
        assert [line.depth for line in lines] == [1, 2, 1, 2]
        assert [line.parent_id for line in lines] == [a.parent_id for a in expected]
        page = await sup.descendants(root.id, limit=2)
        page += await sup.descendants(root.id, after=page[-1].id, limit=2)
        assert page == lines
        first = await sup.children(root.id, limit=1)
        rest = await sup.children(root.id, after=first[0].id)
        assert [line.id for line in (*first, *rest)] == [scout.id, oracle.id]
        await sup.cancel(root)
        assert [line.state for line in await sup.descendants(root.id)] == ["gone"] * 4


@pytest.mark.case("R-087", "R-083")
async def test_explain_names_the_state_and_its_cause(stage: Stage) -> None:
    hold, deep = Gate(), Gate()
    model = ScriptedModel(
        {"scout": [step("x", hold=hold)], "digger": [step("x", hold=deep)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        assert (await sup.explain(root.id)).state == "parked"
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        await hold.reached()
        running = await sup.explain(scout.id)
        assert running.state == "running"
        assert "turn 1" in running.why
        waiting = await sup.explain(root.id)
        assert waiting.state == "waiting"
        assert scout.id in waiting.why
        for _ in range(2):
            await sup.followup(root, scout.id, "later")
        sup.interrupt(scout.id)
        await scout.wait_idle()
        line = (await sup.children(root.id))[0]
        assert (line.pending, line.state) == (2, "waiting")
        deep.open()
        await gone(digger)
        await sup.wait(await sup.followup(root, scout.id, "go on"))


def _names(sup: Supervisor) -> int:
    return int(sup.statistics()["agents"])


@pytest.mark.case("R-239", "R-117")
async def test_plain_questions_never_read_the_store(stage: Stage) -> None:
    store = CountingStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        store.loads.clear()
        assert sup.agent(scout.id) is scout
        assert sup.agent("s-absent") is None
        assert _names(sup) == 2
        assert scout.statistics()["children"] == 0
        assert (scout.kind, scout.parent_id, scout.depth) == ("continuable", root.id, 1)
        assert store.loads == []
        assert store.finds == []
        assert texts(model.requests[0]) if model.requests else True
