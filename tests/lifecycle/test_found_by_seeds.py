"""What random plays found, each as a small test that does not depend on a seed."""

from __future__ import annotations

import anyio
import pytest

from ramet import Outcome, Policy
from ramet.mailbox.events import Promoted, TurnOpened
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.minds import reply
from tests.lifecycle.stage import LEAD, ORACLE, SCOUT, Stage, gone, of, resident, start
from tests.lifecycle.stores import HeldStore

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-224", "R-260")
async def test_a_spent_wake_budget_does_not_keep_a_returning_agent_waiting(
    stage: Stage,
) -> None:
    """The notice of its last child is promoted at the end of a turn without a return:
    if the budget refused that, nobody would wake the agent, or nudge it."""
    thinks, digs = Gate(), Gate()
    steps = [step("hm", hold=thinks), step(calls=[reply("42")])]
    model = ScriptedModel({"oracle": steps, "scout": [step("x", hold=digs)]})
    async with stage.open(model, policy=Policy(wake_budget=0)) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_call(root, ORACLE, "why?")
        await thinks.reached()
        oracle = resident(supervisor, begun.child_id)
        scout = await start(supervisor, oracle, SCOUT)
        await supervisor.report_from(scout, "half of it")
        digs.open()
        await gone(scout)
        thinks.open()
        outcome = await supervisor.wait(begun.message_id)
        assert outcome.unwrap() == "42"
    assert len(of(stage.log(begun.child_id), Promoted)) == 1
    assert len(of(stage.log(begun.child_id), TurnOpened)) == 2


async def test_a_wait_in_a_drain_is_not_refused_while_the_outcome_is_being_stored(
    stage: Stage,
) -> None:
    store, thinks = HeldStore(), Gate()
    stage.use(store)
    stage.whole = False
    model = ScriptedModel({"oracle": [step("hm", hold=thinks)]})
    found: list[Outcome[object]] = []
    async with stage.open(model) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_call(root, ORACLE, "why?")
        await thinks.reached()
        oracle = resident(supervisor, begun.child_id)

        async def wait() -> None:
            found.append(await supervisor.wait(begun.message_id))

        async with anyio.create_task_group() as group:
            store.free.clear()
            group.start_soon(supervisor.drain)
            await oracle.wait_gone()
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            store.free.set()
    assert [(it.status, it.cause) for it in found] == [("cancelled", "drain")]
