"""What random plays found, each as a small test that does not depend on a seed."""

from __future__ import annotations

import threading
from functools import partial

import anyio
import anyio.to_thread
import pytest

from ramet import (
    FunctionModel,
    ModelRequest,
    ModelResponse,
    Outcome,
    Policy,
    Reader,
    Usage,
)
from ramet.mailbox.events import Event, Promoted, StepEnded, TurnEnded, TurnOpened
from ramet.mailbox.store_memory import MemoryReader
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import reply
from tests.lifecycle.stage import (
    HANG_S,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    gone,
    of,
    resident,
    start,
)
from tests.lifecycle.stores import HeldStore

pytestmark = pytest.mark.anyio


class _WatchedStore(HeldStore):
    """A held store that counts how often a log was loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = threading.Semaphore(0)

    def reader(self) -> Reader:
        """A reader that counts."""
        return _WatchedReader(self)


class _WatchedReader(MemoryReader):
    def __init__(self, store: _WatchedStore) -> None:
        super().__init__(store.data)
        self._loads = store.loads

    def load(self, session: str, after: int = 0) -> list[Event]:
        found = super().load(session, after)
        self._loads.release()
        return found


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
    store, thinks = _WatchedStore(), Gate()
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
            try:
                found.append(await supervisor.wait(begun.message_id))
            finally:
                store.free.set()

        async with anyio.create_task_group() as group:
            store.free.clear()
            group.start_soon(supervisor.drain)
            await oracle.wait_gone()
            group.start_soon(wait)
            for _ in range(2):
                loaded = partial(store.loads.acquire, timeout=HANG_S)
                assert await anyio.to_thread.run_sync(loaded, abandon_on_cancel=True)
            # Answers come in order: after this one, the wait has its second one too.
            await supervisor.usage(root.id)
            await anyio.wait_all_tasks_blocked()
            store.free.set()
    assert [(it.status, it.cause) for it in found] == [("cancelled", "drain")]


@pytest.mark.parametrize("text", ["all of it", ""])
async def test_what_is_answered_as_the_turn_is_stopped_is_counted(
    stage: Stage, text: str
) -> None:
    """The answer is whole, and nobody awaits anything between it and the interrupt."""

    async def think(request: ModelRequest) -> ModelResponse:
        supervisor.interrupt(request.session_id)
        calls = () if text else (reply("42"),)
        return ModelResponse(text, calls, "end_turn", Usage(1, 7, 3))

    async with stage.open(FunctionModel(think)) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "go")
        await root.wait_idle()
        usage = (await supervisor.usage(root.id)).own
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 7, 3)
    kept = [event.text for event in of(stage.log(root), StepEnded)]
    assert kept == ([text] if text else [])
    assert [event.cause for event in of(stage.log(root), TurnEnded)] == ["interrupted"]


async def test_a_headless_root_without_its_assignment_has_nothing_to_return(
    stage: Stage,
) -> None:
    """A notice may wake it before: that turn ends as one that converses, and nothing of
    it is in the way of the assignment."""
    returns = step(calls=[reply("42")])
    model = ScriptedModel(
        {
            "lead": [returns, step("hm"), returns],
            "scout": [step(calls=[call("no")])] * 9,
        }
    )
    async with stage.open(model, policy=Policy(notices="wakeup")) as supervisor:
        stage.whole = False
        root = await supervisor.start_root(LEAD, interactive=False)
        scout = await start(supervisor, root, SCOUT)
        await supervisor.cancel(scout)
        await root.wait_idle()
        outcome = await supervisor.wait(await supervisor.tell(root, "why?"))
        assert outcome.unwrap() == "42"
    first, _, last = model.requests_of("lead")
    assert "reply" not in [tool.name for tool in first.tools]
    assert "reply" not in first.instructions
    assert "reply" in [tool.name for tool in last.tools]
    ends = [event.status for event in of(stage.log(root), TurnEnded)]
    assert ends == ["completed", "completed"]
