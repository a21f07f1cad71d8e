"""Scenes about the supervisor and its agents: each cuts one of their coroutines once.

Lives here: for every coroutine what it is called for, and what must be true afterwards
whether its caller was cut off or not.  A send is repeated with its key: then it is
there once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import checkpoint

import ramet
from ramet import Agent, Outcome, Started, Supervisor
from ramet.mailbox.events import Accepted, Activated
from ramet.testing import turn_ended
from tests.lifecycle.minds import state_of
from tests.lifecycle.scene import STUBBORN, Scene, scene
from tests.lifecycle.stage import LEAD, ORACLE, SCOUT, accepted_in, of

T = TypeVar("T")


def same(first: T | None, second: T) -> T:
    """What was given before the repeat, if anything was, is given again."""
    assert first is None or first == second
    return second


# -- starts ----------------------------------------------------------------------------


@scene("Supervisor.start_root")
async def a_root_is_started(it: Scene, sup: Supervisor) -> None:
    agent = await it.cut(sup.start_root(LEAD, interactive=True))
    await it.rest()
    listed = await sup.children(None)
    assert len(listed) <= 1
    if agent is not None:
        assert [line.id for line in listed] == [agent.id]
    for line in listed:
        root = sup.agent(line.id)
        assert root is not None
        assert (await sup.wait(await sup.tell(root, "x"))).status == "completed"


@scene("Supervisor.start_child")
async def a_child_is_started(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    first = await it.cut(sup.start_child(root, SCOUT, "go", key="k"))
    again = same(first, await sup.start_child(root, SCOUT, "go", key="k"))
    assert (await sup.wait(again.message_id)).status == "completed"
    assert [line.id for line in await sup.children(root.id)] == [again.child_id]


@scene("Supervisor.start_child")
async def a_child_is_started_without_a_key(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    started = await it.cut(sup.start_child(root, SCOUT, "go"))
    await it.rest()
    children = await sup.children(root.id)
    assert len(children) <= 1
    assert started is None or [line.id for line in children] == [started.child_id]


@scene("Supervisor.call")
async def a_call_is_made(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    call: Any = sup.call(root, ORACLE, "ask", key="k")
    outcome: Outcome[Any] | None = await it.cut(call)
    live = sup.statistics()["agents"]
    assert live == 1, "A-050: its agent is gone when a call is over"
    again: Outcome[Any] = await sup.call(root, ORACLE, "ask", key="k")
    assert len(await sup.children(root.id)) == 1
    assert await sup.outcome(again.message_id) == again
    if outcome is not None:
        assert outcome.unwrap() == again.unwrap() == 1
    elif again.status != "completed":
        assert (again.status, again.cause) == ("cancelled", "cancelled")


@scene("Supervisor.call")
async def a_call_is_made_of_an_agent_that_takes_no_cancellation(
    it: Scene, sup: Supervisor
) -> None:
    root = await it.root()
    call: Any = sup.call(root, STUBBORN, "ask", key="k")
    async with anyio.create_task_group() as group:
        group.start_soon(it.soon, it.gate.open)
        await it.cut(call)
    again: Outcome[Any] = await sup.call(root, STUBBORN, "ask", key="k")
    assert await sup.outcome(again.message_id) == again
    assert len(await sup.children(root.id)) == 1


@scene("Supervisor.start_call")
async def a_call_is_started(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    first = await it.cut(sup.start_call(root, ORACLE, "ask", key="k"))
    again = same(first, await sup.start_call(root, ORACLE, "ask", key="k"))
    assert (await sup.wait(again.message_id)).unwrap() == 1
    await root.wait_idle()
    told = accepted_in(it.stage.log(root), "outcome")
    assert [event.about for event in told] == [(again.message_id,)]


# -- messages --------------------------------------------------------------------------


@scene("Supervisor.tell")
async def a_root_is_told(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    first = await it.cut(sup.tell(root, "x", key="k"))
    again = same(first, await sup.tell(root, "x", key="k"))
    assert (await sup.wait(again)).status == "completed"
    assert [e.id for e in accepted_in(it.stage.log(root), "tell")] == [again]


async def _followup(it: Scene, sup: Supervisor, root: Agent, child: str) -> None:
    first = await it.cut(sup.followup(root, child, "more", key="k"))
    again = same(first, await sup.followup(root, child, "more", key="k"))
    it.gate.open()
    assert (await sup.wait(again)).status == "completed"
    log = accepted_in(it.stage.log(child), "followup")
    assert [event.id for event in log if event.key == "k"] == [again]


@scene("Supervisor.followup")
async def a_followup_goes_to_a_child_that_runs(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    await _followup(it, sup, root, (await it.held(root)).id)


@scene("Supervisor.followup")
async def a_followup_resumes_a_child(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    child = await it.settled(root)
    await _followup(it, sup, root, child)
    assert len(of(it.stage.log(child), Activated)) == 2


@scene("Supervisor.followup")
async def a_followup_waits_for_a_child_that_is_closing(
    it: Scene, sup: Supervisor
) -> None:
    root = await it.root()
    child = await it.held(root, STUBBORN)
    async with anyio.create_task_group() as group:
        group.start_soon(sup.cancel, child)
        while state_of(child) != "closing":
            await checkpoint()
        group.start_soon(it.soon, it.gate.open)
        await _followup(it, sup, root, child.id)


@scene("Supervisor.followup")
async def two_followups_meet_at_a_child_that_is_not_resident(
    it: Scene, sup: Supervisor
) -> None:
    root = await it.root()
    child = await it.settled(root)
    async with anyio.create_task_group() as group:
        group.start_soon(sup.followup, root, child, "of another")
        await _followup(it, sup, root, child)
    assert len(accepted_in(it.stage.log(child), "followup")) == 2


@scene("Supervisor.inject")
async def a_child_is_given_context(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    child = await it.held(root)
    first = await it.cut(sup.inject(root, child.id, "note", key="k"))
    again = same(first, await sup.inject(root, child.id, "note", key="k"))
    assert [e.id for e in accepted_in(it.stage.log(child), "inject")] == [again]


@scene("Supervisor.report_from")
async def a_child_reports(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    child = await it.held(root)
    first = await it.cut(sup.report_from(child, "found", delivery="wakeup", key="k"))
    again = same(
        first, await sup.report_from(child, "found", delivery="wakeup", key="k")
    )
    assert [e.id for e in accepted_in(it.stage.log(root), "report")] == [again]


@scene("Supervisor.report_from")
async def a_child_reports_without_a_key(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    child = await it.held(root)
    first = await it.cut(sup.report_from(child, "found"))
    await sup._runtime.quiet()
    reports = [e.id for e in accepted_in(it.stage.log(root), "report")]
    assert len(reports) <= 1
    assert first is None or reports == [first]


@scene("Supervisor.wait")
async def an_outcome_is_waited_for(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    started = await sup.start_child(root, SCOUT, "go")
    outcome = await it.cut(sup.wait(started.message_id))
    assert same(outcome, await sup.wait(started.message_id)).status == "completed"


@scene("Supervisor.resume")
async def a_session_is_resumed(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    child = await it.settled(root)
    it.resumed.add(child)
    agent = await it.cut(sup.resume(child))
    await it.rest()
    found = sup.agent(child)
    if agent is not None:
        assert found is agent
    if found is None:
        found = await sup.resume(child)
    else:
        try:
            await sup.resume(child)
            raise AssertionError("a session was resumed twice")
        except ramet.SessionHeldError:
            pass
    found.release()
    await found.wait_gone()
    await _followup_once(sup, root, child)


async def _followup_once(sup: Supervisor, root: Agent, child: str) -> None:
    message = await sup.followup(root, child, "go on")
    assert (await sup.wait(message)).status == "completed"


# -- ends ------------------------------------------------------------------------------


async def _below(it: Scene, sup: Supervisor) -> tuple[Agent, Agent, Agent, str]:
    """A root, a child and its child in their turns, and a message that waits."""
    root = await it.root()
    child = await it.held(root)
    grandchild = await it.held(child)
    return root, child, grandchild, await sup.followup(root, child.id, "waits")


@scene("Supervisor.cancel")
async def an_agent_is_cancelled(it: Scene, sup: Supervisor) -> None:
    root, child, grandchild, waiting = await _below(it, sup)
    await it.cut(sup.cancel(child))
    if it.knife.began:
        assert child.state in ("closing", "gone"), "it begins in its first step"
    await sup.cancel(child)
    assert (child.state, grandchild.state) == ("gone", "gone")
    outcome = await sup.wait(waiting)
    assert (outcome.status, outcome.cause) == ("cancelled", "cancelled")
    assert root.state != "gone"


@scene("Supervisor.cancel")
async def an_agent_that_takes_no_cancellation_is_cancelled(
    it: Scene, sup: Supervisor
) -> None:
    root = await it.root()
    child = await it.held(root, STUBBORN)
    async with anyio.create_task_group() as group:
        group.start_soon(it.soon, it.gate.open)
        await it.cut(sup.cancel(child))
    await sup.cancel(child.id)
    assert child.state == "gone"


@scene("Supervisor.cancel")
async def a_session_that_is_not_resident_is_cancelled(
    it: Scene, sup: Supervisor
) -> None:
    root = await it.root()
    child = await it.held(root)
    kept = await sup.followup(root, child.id, "waits")
    sup.interrupt(child.id)
    await child.wait_gone()
    await it.cut(sup.cancel(child.id))
    await sup.cancel(child.id)
    outcome = await sup.wait(kept)
    assert (outcome.status, outcome.cause) == ("cancelled", "cancelled")
    assert len(of(it.stage.log(child), Activated)) == 1


@scene("Supervisor.drain")
async def everything_below_is_drained(it: Scene, sup: Supervisor) -> None:
    root, child, grandchild, waiting = await _below(it, sup)
    await it.cut(sup.drain(below=root))
    await sup.drain(below=root)
    assert (child.state, grandchild.state) == ("gone", "gone")
    assert await sup.outcome(waiting) is None
    assert (await sup.message(waiting)).state == "stored"


@scene("Supervisor.drain")
async def everything_is_drained(it: Scene, sup: Supervisor) -> None:
    root, child, grandchild, waiting = await _below(it, sup)
    await it.cut(sup.drain())
    await sup.drain()
    assert {one.state for one in (root, child, grandchild)} == {"gone"}
    assert await sup.outcome(waiting) is None


@scene("Agent.wait_idle")
async def a_rest_is_waited_for(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    message = await sup.tell(root, "x")
    await it.cut(root.wait_idle())
    await root.wait_idle()
    outcome = await sup.outcome(message)
    assert outcome is not None
    assert outcome.status == "completed"


@scene("Agent.wait_gone")
async def an_end_is_waited_for(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    started = await sup.start_child(root, SCOUT, "go")
    child = sup.agent(started.child_id)
    assert child is not None
    await it.cut(child.wait_gone())
    await child.wait_gone()
    assert child.state == "gone"


# -- questions -------------------------------------------------------------------------


async def _family(it: Scene, sup: Supervisor) -> tuple[Agent, str, str]:
    """A root, a child that has settled, and its message."""
    root = await it.root()
    started: Started = await sup.start_child(root, SCOUT, "go", key="k")
    await sup.wait(started.message_id)
    await it.rest()
    return root, started.child_id, started.message_id


@scene("Supervisor.children")
async def children_are_listed(it: Scene, sup: Supervisor) -> None:
    root, child, _ = await _family(it, sup)
    lines = await it.cut(sup.children(root.id))
    lines = same(lines, await sup.children(root.id))
    assert [line.id for line in lines] == [child]


@scene("Supervisor.descendants")
async def descendants_are_listed(it: Scene, sup: Supervisor) -> None:
    root, child, _ = await _family(it, sup)
    lines = await it.cut(sup.descendants(root.id))
    lines = same(lines, await sup.descendants(root.id))
    assert [line.id for line in lines] == [child]


@scene("Supervisor.message")
async def a_message_is_asked_for(it: Scene, sup: Supervisor) -> None:
    _, _, message = await _family(it, sup)
    status = await it.cut(sup.message(message))
    assert same(status, await sup.message(message)).state == "claimed"


@scene("Supervisor.lookup")
async def a_key_is_looked_up(it: Scene, sup: Supervisor) -> None:
    root, _, message = await _family(it, sup)
    found = await it.cut(sup.lookup(root.id, "k"))
    assert same(found, await sup.lookup(root.id, "k")) == message


@scene("Supervisor.outcome")
async def an_outcome_is_asked_for(it: Scene, sup: Supervisor) -> None:
    _, _, message = await _family(it, sup)
    outcome = same(await it.cut(sup.outcome(message)), await sup.outcome(message))
    assert outcome is not None


@scene("Supervisor.usage")
async def usage_is_asked_for(it: Scene, sup: Supervisor) -> None:
    root, _, _ = await _family(it, sup)
    usage = same(await it.cut(sup.usage(root.id)), await sup.usage(root.id))
    assert usage.subtree.requests >= 3


@scene("Supervisor.explain")
async def a_state_is_explained(it: Scene, sup: Supervisor) -> None:
    _, child, _ = await _family(it, sup)
    same(await it.cut(sup.explain(child)), await sup.explain(child))


async def _taken(stream: AsyncIterator[T], into: list[T], count: int) -> None:
    """Read on until so many are there, or the stream ends."""
    while len(into) < count:
        try:
            into.append(await anext(stream))
        except StopAsyncIteration:
            return


@scene("Agent.events")
async def a_handle_is_followed(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    started = await sup.start_child(root, SCOUT, "go")
    child = sup.agent(started.child_id)
    assert child is not None
    stream = child.events()
    heard: list[Any] = []
    await it.cut(_taken(stream, heard, 10_000))
    # The same stream goes on where its reader was cut off, and nothing is missing.
    await _taken(stream, heard, 10_000)
    log = it.stage.log(child)
    assert [entry.event for entry in heard] == log
    assert [entry.seq for entry in heard] == list(range(len(log)))


@scene("Supervisor.events")
async def a_session_is_followed(it: Scene, sup: Supervisor) -> None:
    _, child, _ = await _family(it, sup)
    log = it.stage.log(child)
    stream: AsyncIterator[Any] = sup.events(child)
    heard: list[Any] = []
    await it.cut(_taken(stream, heard, len(log)))
    await _taken(stream, heard, len(log))
    assert [entry.event for entry in heard] == log


@scene("Supervisor.events")
async def everything_is_followed(it: Scene, sup: Supervisor) -> None:
    stream: AsyncIterator[Any] = sup.events()
    root = await it.root()
    heard: list[Any] = []
    async with anyio.create_task_group() as group:
        group.start_soon(sup.tell, root, "x")
        await it.cut(_taken(stream, heard, 6))
    await root.wait_idle()
    log = it.stage.log(root)
    await _taken(stream, heard, len(log))
    assert [entry.event for entry in heard] == log
    assert len(of(log, Accepted)) == 1


@scene("testing.turn_ended")
async def a_turn_is_waited_for(it: Scene, sup: Supervisor) -> None:
    root = await it.root()
    await sup.tell(root, "x")
    await it.cut(turn_ended(root))
    assert await turn_ended(root) == 1
