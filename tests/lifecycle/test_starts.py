"""Starting continuable children on the running runtime."""

from __future__ import annotations

import copy
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, Policy, Setup, Supervisor
from ramet.mailbox.events import Accepted, Activated, Created
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    of,
    start,
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
@pytest.mark.parametrize("second", ["two", {"type": "text", "text": "two"}])
async def test_what_a_caller_changes_after_a_call_began_changes_nothing(
    stage: Stage, second: Any
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    content: list[Any] = ["one", copy.copy(second)]
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
            if type(second) is dict:
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
