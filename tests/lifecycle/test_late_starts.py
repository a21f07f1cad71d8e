"""Who was not let start in time has never started, in whatever it is told later.

Seeds of the whole protocol found each of these; in virtual time they need no seed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from ramet import (
    Agent,
    AgentSpec,
    AgentStoppedError,
    FunctionModel,
    Limits,
    ModelRequest,
    Outcome,
    Supervisor,
)
from ramet.lifecycle.held_loops import BackendName
from ramet.testing import NO_FAULTS, Scenario, World, simulate

LEAD, SCOUT = AgentSpec("lead"), AgentSpec("scout")

LIMITS = Limits(concurrency=1, agents=1, start_deadline_s=5.0)

BUSY_S = 60.0

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])
on_each_store = pytest.mark.parametrize("store", ["memory", "sqlite"])


async def busy(request: ModelRequest) -> str:
    """Hold the only place for a minute."""
    if request.name != "scout":
        await anyio.sleep(BUSY_S)
    return "done"


def play(scenario: Any, backend: BackendName, store: Any = "memory") -> None:
    """Play a scenario under a few schedules; what it asserts holds in each."""
    found = Scenario(scenario, store=store, faults=NO_FAULTS)
    simulate(found, seeds=range(6), backend=backend).check()


async def busy_root(supervisor: Supervisor, spec: AgentSpec = LEAD) -> Agent:
    """A root in a turn that holds the place."""
    root = await supervisor.start_root(spec, interactive=True)
    await supervisor.tell(root, "be busy")
    await anyio.sleep(1.0)
    return root


def check_late(outcome: Outcome[Any]) -> None:
    """It was stopped since it was too late for a start, and spent nothing."""
    assert (outcome.status, outcome.cause) == ("stopped", "start-deadline")
    assert outcome.usage.own.requests == 0


@on_both
@pytest.mark.case("A-150", "A-151")
def test_with_two_assignments_it_is_too_late_twice(backend: BackendName) -> None:
    """The simulator itself compares what was counted with the logs."""

    async def twice(world: World) -> None:
        model = FunctionModel(busy)
        async with world.open(
            specs=[LEAD, SCOUT], model=model, limits=LIMITS
        ) as supervisor:
            root = await busy_root(supervisor)
            started = await supervisor.start_child(root, SCOUT, "look")
            more = await supervisor.followup(root, started.child_id, "and again")
            check_late(await supervisor.wait(started.message_id))
            check_late(await supervisor.wait(more))

    play(twice, backend)


@on_both
@on_each_store
@pytest.mark.case("A-150")
def test_when_it_is_resumed_it_is_too_late_still(
    backend: BackendName, store: str
) -> None:
    async def resumed(world: World) -> None:
        model = FunctionModel(busy)
        async with world.open(
            specs=[LEAD, SCOUT], model=model, limits=LIMITS
        ) as supervisor:
            root = await busy_root(supervisor)
            started = await supervisor.start_child(root, SCOUT, "look")
            check_late(await supervisor.wait(started.message_id))
            await world.rest()
            with pytest.raises(AgentStoppedError) as refused:
                await supervisor.followup(root, started.child_id, "and again")
            assert refused.value.code == "start-deadline"

    play(resumed, backend, store)


@on_both
@on_each_store
@pytest.mark.case("A-145", "A-151")
def test_in_the_next_process_it_does_not_count_until_it_starts(
    backend: BackendName, store: str
) -> None:
    boss = AgentSpec("boss", limits=LIMITS)
    quick = FunctionModel(partial(_answer, "done"))

    async def reopened(world: World) -> None:
        specs = [boss, SCOUT]
        async with world.open(specs=specs, model=FunctionModel(busy)) as supervisor:
            root = await busy_root(supervisor, boss)
            started = await supervisor.start_child(root, SCOUT, "look")
            check_late(await supervisor.wait(started.message_id))
        async with world.open(specs=specs, model=quick) as supervisor:
            root = await supervisor.resume(root.id)
            await supervisor.start_child(root, SCOUT, "the first that starts")
            with pytest.raises(AgentStoppedError) as refused:
                await supervisor.followup(root, started.child_id, "one too many")
            assert refused.value.code == "agent-budget"

    play(reopened, backend, store)


async def _answer(text: str, request: ModelRequest) -> str:
    return text
