"""Settling, owning and listing on the running runtime."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import Policy, Supervisor
from ramet.mailbox.events import Accepted, Activated, Ended, TurnEnded
from ramet.mailbox.store import Batch
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.minds import state_of
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    gone,
    of,
    resident,
    start,
)
from tests.lifecycle.stores import CountingStore

pytestmark = pytest.mark.anyio


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
        assert state_of(again) == "waiting"
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
        assert state_of(digger) == "gone"
        # Nothing that it reported stays unread: its end wakes the scout, and so on.
        await hold.reached()
        hold.open()
        await gone(scout)
        await again.wait_idle()
        assert state_of(again) == "parked"


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
    """A slow task holds the commit, so that nothing holds the claim and the load."""
    free = anyio.Event()
    first = Gate()
    model = ScriptedModel(
        {"lead": [step("n")] * 3, "scout": [step("0", hold=first), step("1")]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await first.reached()
        storage: Any = sup._runtime.storage
        append = storage.append

        async def slow(batch: Batch) -> None:
            await free.wait()
            await append(batch)

        storage.append = slow
        first.open()
        await scout.wait_gone()
        resumed: list[ramet.Agent] = []

        async def resume() -> None:
            resumed.append(await sup.resume(scout.id))

        async with anyio.create_task_group() as group:
            group.start_soon(resume)
            await anyio.wait_all_tasks_blocked()
            assert resumed == []
            free.set()
        log = stage.log(scout)
        assert [type(e) for e in log][-2:] == [Ended, Activated]
        resumed[0].release()


@pytest.mark.case("R-084", "R-082")
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


STORE_READS = ("load", "row", "children", "unfinished", "find", "place", "usage")


def _refuse_to_read(*_: object) -> None:
    raise AssertionError("a plain question read the store")


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
        await hold.reached()
        for method in STORE_READS:
            setattr(store, method, _refuse_to_read)
        assert sup.agent(scout.id) is scout
        assert sup.agent("s-absent") is None
        assert _names(sup) == 2
        assert scout.statistics()["children"] == 0
        assert (scout.kind, scout.parent_id, scout.depth) == ("continuable", root.id, 1)
        for method in STORE_READS:
            delattr(store, method)
