"""Figures: what `statistics()` gives, of a supervisor and of an agent."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import attrs
import pytest

import ramet
from ramet import Ambient, Limits, Policy, Spread
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.stage import LEAD, SCOUT, Stage, start

pytestmark = pytest.mark.anyio


class Wall:
    """A wall clock that a test sets, in seconds since 1970."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_supervisor_counts_its_agents_and_what_waits_for_them(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("one", hold=hold), step("two"), step("three")],
            "scout": [step("done", hold=hold)],
        }
    )
    async with stored.open(model, policy=Policy(notices="quiet")) as sup:
        at_first = sup.statistics()
        assert (at_first.agents, at_first.running, at_first.events) == (0, 0, 0)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        for text in ("one", "two", "three"):
            await sup.tell(root, text)
        await hold.reached(2)
        await sup.report_from(scout, "seen")
        found = sup.statistics()
        assert (found.agents, found.running) == (2, 2)
        assert (found.waiting_messages, found.longest_queue) == (2, 2)
        assert found.staged_messages == 1
        assert (found.operations, found.waits, found.keys) == (0, 0, 0)
        assert (found.undecided_events, found.tasks >= 2) == (0, True)
        assert found.events == sum(len(stored.log(one)) for one in (root, scout))
        assert found.commit_events.count == found.commits > 0
        assert 1 <= found.commit_events.median <= found.commit_events.most
        assert 0 <= found.commit_ms.median <= found.commit_ms.most
        assert found.waited_ms.count == 2
        hold.open()
        await scout.wait_gone()
        await root.wait_idle()
        found = sup.statistics()
        assert (found.agents, found.running) == (1, 0)
        assert (found.waiting_messages, found.staged_messages) == (0, 0)
        assert found.waited_ms.count == 4


async def test_an_agent_counts_what_it_did_and_what_waits_for_it(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("one", hold=hold), step("two")],
            "scout": [step("done", hold=hold)],
        }
    )
    async with stage.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "one")
        await hold.reached(2)
        assert root.statistics().oldest_at is None
        before = sup._runtime.ambient.now_ms()
        await sup.tell(root, "two")
        await sup.report_from(scout, "seen")
        assert (scout.statistics().reports, scout.statistics().children) == (1, 0)
        found = root.statistics()
        assert (found.waiting, found.staged, found.children) == (1, 1, 1)
        assert (found.turns, found.requests, found.tool_calls) == (1, 0, 0)
        assert found.transcript == 1
        assert found.oldest_at is not None
        assert before <= found.oldest_at <= sup._runtime.ambient.now_ms()
        hold.open()
        await scout.wait_gone()
        await root.wait_idle()
        found = root.statistics()
        assert (found.waiting, found.staged, found.children) == (0, 0, 0)
        assert (found.turns, found.requests, found.oldest_at) == (2, 2, None)
        assert found.events == len(stage.log(root))


async def test_it_is_told_how_long_messages_waited_for_their_turns() -> None:
    """By the wall clock that the supervisor was given, and of a turn its first one."""
    wall, hold = Wall(), Gate()
    model = ScriptedModel({"lead": [step("one", hold=hold), step("two")]})
    opened = ramet.open(":memory:", model=model, ambient=Ambient(wall))
    async with opened as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "one")
        await hold.reached()
        assert sup.statistics().waited_ms == Spread(1, 0, 0, 0)
        await sup.tell(root, "two")
        wall.seconds += 2.5
        hold.open()
        await root.wait_idle()
        assert sup.statistics().waited_ms == Spread(2, 0, 2_500, 2_500)


async def test_who_waits_for_a_place_is_counted() -> None:
    """One of three runs, and the others stand in the queue."""
    hold = Gate()
    model = ScriptedModel({"lead": [step("done", hold=hold)] * 3})
    limits = Limits(concurrency=1)
    async with ramet.open(":memory:", model=model, limits=limits) as sup:
        roots = [await sup.start_root(LEAD, interactive=True) for _ in range(3)]
        for root in roots:
            await sup.tell(root, "go")
        await hold.reached()
        found = sup.statistics()
        assert (found.running, found.queued_agents) == (1, 2)
        assert (found.waiting_messages, found.longest_queue) == (2, 1)
        hold.open()
        for root in roots:
            await root.wait_idle()
        assert sup.statistics().queued_agents == 0


async def test_calls_that_are_under_way_are_counted() -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("done", hold=hold)]})
    async with ramet.open(":memory:", model=model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        message = await sup.tell(root, "go")
        await hold.reached()
        async with anyio.create_task_group() as group:
            group.start_soon(sup.wait, message)
            while not sup.statistics().waits:
                await anyio.lowlevel.checkpoint()
            hold.open()
        assert sup.statistics().waits == 0


async def test_a_figure_can_be_asked_for_by_its_name() -> None:
    async with ramet.open(":memory:") as sup:
        root = await sup.start_root(LEAD, interactive=True)
        found, of_root = sup.statistics(), root.statistics()
        assert found["agents"] == found.agents == 1
        assert of_root["events"] == of_root.events == 2
        assert attrs.asdict(of_root)["oldest_at"] is None
        assert attrs.asdict(found)["waited_ms"]["count"] == 0
        for name in ("agent", "__class__", "__getitem__"):
            with pytest.raises(KeyError):
                found[name]
