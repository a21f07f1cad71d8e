"""Limits where storage matters: exact on every store, and counted on after a resume."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

import ramet
from ramet import Agent, AgentSpec, AgentStoppedError, Limits, ModelRequest, Policy
from ramet.testing import Gate, ScriptedModel, step
from ramet.testing import call as call_of
from tests.lifecycle.minds import reply, results_in
from tests.lifecycle.stage import LEAD, SCOUT, Stage, gone

pytestmark = pytest.mark.anyio

QUIET = Policy(notices="quiet", wake_budget=0)


@pytest.mark.case("A-144", "A-145", "A-151")
async def test_a_hundred_parallel_calls_start_what_may_start_and_no_more_at_once(
    stored: Stage,
) -> None:
    running = most = 0

    async def think(request: ModelRequest) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running -= 1
        return ramet.ModelResponse(calls=(reply("done"),))

    worker = AgentSpec("worker", model=ramet.FunctionModel(think))
    ended: list[str] = []
    limits = Limits(concurrency=7, agents=37, call_s=3600, start_deadline_s=3600)
    async with stored.open(specs=[LEAD], policy=QUIET, limits=limits) as sup:
        root = await sup.start_root(LEAD, interactive=True)

        async def call() -> None:
            try:
                outcome = await sup.call(root, worker, "go")
            except AgentStoppedError as error:
                ended.append(error.code)
            else:
                ended.append(outcome.unwrap())

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(call)
        assert ended.count("done") == 37
        assert ended.count("agent-budget") == 63
        assert most == 7
        assert (await sup.usage(root.id)).subtree.requests == 37


async def settled(supervisor: ramet.Supervisor, session: str) -> None:
    """Wait until an agent is gone, if it is not yet."""
    agent = supervisor.agent(session)
    if agent is not None:
        await gone(agent)


def brancher(sup: list[ramet.Supervisor], **options: Any) -> AgentSpec:
    """A continuable agent that starts a child, or digs, as it is told."""

    async def branch(call: ramet.ToolCall) -> str:
        """Start a child."""
        assert isinstance(call.agent, Agent)
        started = await sup[-1].start_child(call.agent, leaf, "go")
        return started.child_id

    async def dig() -> str:
        """Dig."""
        return "dug"

    async def leaf_mind(request: ModelRequest) -> Any:
        if results_in(request):
            return "done"
        return ramet.ModelResponse(calls=(call_of("dig"),))

    async def think(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, ramet.UserMessage) and last.source in (
            "prompt",
            "followup",
        ):
            return ramet.ModelResponse(calls=(call_of(last.blocks[-1]),))
        return "done"

    leaf = AgentSpec("leaf", model=ramet.FunctionModel(leaf_mind), tools=[dig])
    mind = ramet.FunctionModel(think)
    return AgentSpec("brancher", model=mind, tools=[branch, dig], **options)


@pytest.mark.case("A-152")
async def test_a_resumed_agent_has_what_it_had_left(stored: Stage) -> None:
    sup: list[ramet.Supervisor] = []
    spec = brancher(sup, limits=Limits(agents=1, tool_calls=4))
    opened = partial(stored.open, specs=[LEAD, spec], policy=QUIET)
    async with opened() as supervisor:
        sup.append(supervisor)
        root = await supervisor.start_root(LEAD, interactive=True)
        started = await supervisor.start_child(root, spec, "branch")
        assert (await supervisor.wait(started.message_id)).status == "completed"
        await settled(supervisor, started.child_id)
    async with opened() as supervisor:
        sup.append(supervisor)
        root = await supervisor.resume(root.id)
        followup = partial(supervisor.followup, root, started.child_id)
        # One call of its own and one of its child are spent, and its only child.
        outcome = await supervisor.wait(await followup("branch"))
        assert outcome.status == "completed"
        assert len(await supervisor.children(started.child_id)) == 1
        assert (await supervisor.wait(await followup("dig"))).status == "completed"
        outcome = await supervisor.wait(await followup("dig"))
        assert (outcome.status, outcome.axis) == ("stopped", "tool_calls")
        assert outcome.cause == "tool-call-budget"
        assert f"tool_calls=4 of {started.child_id}" in (outcome.detail or "")


@pytest.mark.case("A-152")
async def test_a_child_that_was_resumed_first_comes_under_its_parent_again(
    stored: Stage,
) -> None:
    sup: list[ramet.Supervisor] = []
    spec = brancher(sup, limits=Limits(tool_calls=3))
    below = AgentSpec("leaf")
    async with stored.open(specs=[LEAD, spec], policy=QUIET) as supervisor:
        sup.append(supervisor)
        root = await supervisor.start_root(LEAD, interactive=True)
        started = await supervisor.start_child(root, spec, "branch")
        await supervisor.wait(started.message_id)
        await settled(supervisor, started.child_id)
        (leaf,) = await supervisor.children(started.child_id)
    specs = [LEAD, spec, below]
    async with stored.open(specs=specs, policy=QUIET) as supervisor:
        orphan = await supervisor.resume(leaf.id)
        assert orphan._activation.allowance is None
        parent = await supervisor.resume(started.child_id)
        allowance = orphan._activation.allowance
        assert allowance is not None
        above = parent._activation.allowance
        assert above is not None
        assert allowance.account is above.account
        assert allowance.account.tool_calls == 2
        for agent in (orphan, parent):
            agent.release()


@pytest.mark.case("A-151", "A-152")
async def test_a_child_that_rested_before_it_ran_starts_when_it_is_resumed(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("never", hold=hold)], "scout": [step("one"), step("two")]}
    )
    stored.whole = False
    limits = Limits(agents=1, concurrency=1)
    opened = partial(stored.open, model, policy=QUIET, limits=limits)
    async with opened() as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "hold the place")
        await hold.reached()
        started = await supervisor.start_child(root, SCOUT, "kept")
    async with opened() as supervisor:
        root = await supervisor.resume(root.id)
        followup = await supervisor.followup(root, started.child_id, "more")
        with pytest.raises(AgentStoppedError) as caught:
            await supervisor.start_child(root, SCOUT, "one too many")
        assert caught.value.code == "agent-budget"
        assert (await supervisor.wait(started.message_id)).status == "completed"
        assert (await supervisor.wait(followup)).status == "completed"
    async with opened() as supervisor:
        root = await supervisor.resume(root.id)
        await supervisor.start_child(root, SCOUT, "none of this run has started")
        for _ in range(2):
            with pytest.raises(AgentStoppedError):
                await supervisor.start_child(root, SCOUT, "one too many")


@pytest.mark.case("A-151")
async def test_a_resume_that_a_limit_refuses_changes_nothing(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("x", hold=hold)], "scout": [step("one")]})
    stored.whole = False
    async with stored.open(model, policy=QUIET, limits=Limits(concurrency=1)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "hold the place")
        await hold.reached()
        kept = [await sup.start_child(root, SCOUT, text) for text in ("a", "b")]
    before = stored.log(kept[1].child_id)
    async with stored.open(model, policy=QUIET, limits=Limits(agents=1)) as sup:
        root = await sup.resume(root.id)
        scout = await sup.resume(kept[0].child_id)
        with pytest.raises(AgentStoppedError):
            await sup.followup(root, kept[1].child_id, "more")
        with pytest.raises(AgentStoppedError):
            await sup.resume(kept[1].child_id)
        await gone(scout)
    assert stored.log(kept[1].child_id) == before
