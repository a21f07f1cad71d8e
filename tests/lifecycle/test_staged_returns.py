"""What is staged, what is committed, and what may still come between the two.

Lives here: sections 2, 3 and 12 of the acceptance list on the running runtime.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, Choice, Entry, Limits, Schema
from ramet.mailbox.events import (
    Accepted,
    CallEnded,
    Concluded,
    Ended,
    StepEnded,
    Submitted,
    TurnOpened,
)
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import Stubborn, reply
from tests.lifecycle.stage import (
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    left_with,
    of,
    resident,
    sources,
)
from tests.lifecycle.stores import CountingStore, FailingStore, HeldStore
from tests.lifecycle.stores import stored as stored_as

pytestmark = pytest.mark.anyio

SECRET = "prose that nobody asked for"


class Waiting:
    """A tool that waits inside until it is let go or cancelled."""

    def __init__(self) -> None:
        self.inside = Gate()
        self.spec = AgentSpec("oracle", tools=[self.work])

    async def work(self) -> str:
        """Work."""
        await self.inside.passed()
        return "done"


def conclusion(stage: Stage, session: str) -> Concluded:
    (found,) = of(stage.log(session), Concluded)
    return found


@pytest.mark.case("A-011")
async def test_prose_without_a_reply_reaches_nobody(stored: Stage) -> None:
    spec = AgentSpec("oracle", policy={"nudges": 1})
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "oracle": [step(f"{SECRET} 1"), step(f"{SECRET} 2")],
        }
    )
    async with stored.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.cause) == ("failed", "no-reply")
        with pytest.raises(ramet.AgentFailedError) as caught:
            outcome.unwrap()
        assert SECRET not in f"{outcome!r} {outcome} {caught.value}"
        await root.wait_idle()
        told = accepted_in(stored.log(root), "outcome")
        assert len(told) == 1
        assert SECRET not in repr(stored.log(root))
        assert SECRET in repr(stored.log(begun.child_id))


@pytest.mark.case("A-014", "A-043", "A-045")
@pytest.mark.parametrize("how", ["cancel", "drain", "cancel of the parent"])
async def test_a_cancel_before_the_batch_has_landed_wins_over_the_staged_value(
    stored: Stage, how: str
) -> None:
    waiting = Waiting()
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "oracle": [step(calls=[call("work"), reply("staged")])],
        }
    )
    stored.whole = how == "cancel"
    async with stored.open(model, specs=[LEAD, waiting.spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, waiting.spec, "go")
        await waiting.inside.reached()
        if how == "cancel":
            await sup.cancel(begun.child_id, reason="enough")
        elif how == "drain":
            await sup.drain()
        else:
            await sup.cancel(root)
        outcome = await sup.wait(begun.message_id)
        await root.wait_idle()
    assert outcome.status == "cancelled"
    assert (outcome.value, outcome.acceptance, outcome.available) == (None, None, True)
    log = stored.log(begun.child_id)
    assert [s.value for s in of(log, Submitted)] == ['"staged"']
    concluded = conclusion(stored, begun.child_id)
    assert (concluded.value, concluded.receipt) == (None, None)
    assert {c.place for c in of(log, CallEnded)} == {0, 1}


@pytest.mark.case("A-014", "A-044", "A-147")
async def test_work_beyond_the_limit_beside_a_staged_value_stops_the_agent(
    stored: Stage,
) -> None:
    ran: list[str] = []

    async def work(name: str) -> str:
        """Work.

        Args:
            name: of the work.
        """
        ran.append(name)
        return "done"

    spec = AgentSpec("oracle", tools=[work], limits=Limits(tool_calls=1))
    calls = [call("work", name="a"), reply("staged"), call("work", name="b")]
    model = ScriptedModel({"oracle": [step(calls=calls)]})
    async with stored.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, spec, "go")
    assert (outcome.status, outcome.axis) == ("stopped", "tool_calls")
    assert (outcome.value, outcome.acceptance, outcome.available) == (None, None, True)
    assert ran == ["a"]
    log = stored.log(outcome.session_id)
    assert [s.value for s in of(log, Submitted)] == ['"staged"']
    assert of(log, Concluded)[0].receipt is None


@pytest.mark.case("A-014", "A-044", "A-043")
@pytest.mark.parametrize("kind", ["tool", "child"])
async def test_time_that_runs_out_before_the_commit_wins_over_the_staged_value(
    stage: Stage, kind: str
) -> None:
    """In a tool of the batch, and while children are waited for afterwards."""
    waiting = Waiting()
    held = Gate()

    async def beget(call: ramet.ToolCall) -> str:
        """Start a child that never ends."""
        await sup.start_child(call.agent, SCOUT, "x")
        return "started"

    spec = AgentSpec(
        "oracle",
        tools=[waiting.work, beget],
        limits=Limits(call_s=0.05),
        policy={"at_reply": "wait"},
    )
    name = "work" if kind == "tool" else "beget"
    model = ScriptedModel(
        {
            "oracle": [step(calls=[call(name), reply("staged")])],
            "scout": [step("x", hold=held)] * (kind == "child"),
        }
    )
    async with stage.open(model, specs=[LEAD, spec, SCOUT]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, spec, "go")
        assert (outcome.status, outcome.axis) == ("stopped", "call_s")
        assert outcome.cause == "call-timeout"
        assert (outcome.value, outcome.acceptance) == (None, None)
    log = stage.log(outcome.session_id)
    assert [s.verdict for s in of(log, Submitted)] == ["valid"]
    assert of(log, Concluded)[0].receipt is None


@pytest.mark.case("A-015")
@pytest.mark.parametrize("late", ["cancel", "drain", "parent", "release", "deadline"])
async def test_nothing_that_comes_after_the_commit_changes_it(
    stage: Stage, late: str
) -> None:
    """The commit is held in the store while the late thing happens."""
    store = HeldStore()
    stage.use(store)

    def contribute(setup: ramet.Setup) -> Any:
        def release() -> None:
            raise ValueError("too late")

        return release if late == "release" and setup.name == "oracle" else None

    limits = Limits(call_s=0.2) if late == "deadline" else None
    spec = AgentSpec("oracle", limits=limits)
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply("value")], hold=hold)]})
    outcomes: list[ramet.Outcome[Any]] = []

    async def run() -> None:
        async def ask() -> None:
            outcomes.append(await sup.call(root, spec, "go"))

        async with stage.open(model, specs=[LEAD, spec]) as sup:
            sup.register_setup(contribute)
            root = await sup.start_root(LEAD, interactive=True)
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await hold.reached()
                (line,) = await sup.children(root.id)
                oracle = resident(sup, line.id)
                store.free.clear()
                hold.open()
                await oracle.wait_gone()
                if late == "cancel":
                    group.start_soon(sup.cancel, oracle.id)
                elif late == "drain":
                    group.start_soon(sup.drain)
                elif late == "parent":
                    group.start_soon(sup.cancel, root)
                await anyio.wait_all_tasks_blocked()
                assert not outcomes
                store.free.set()

    if late == "release":
        with left_with(ramet.TeardownError):
            await run()
    else:
        await run()
    (outcome,) = outcomes
    assert (outcome.status, outcome.cause) == ("completed", None)
    assert outcome.unwrap() == "value"
    concluded = conclusion(stage, outcome.session_id)
    assert (concluded.status, concluded.value) == ("completed", '"value"')
    if late == "cancel":
        assert of(stage.log(outcome.session_id), Ended)[0].reason == "settled"


@pytest.mark.case("A-016")
async def test_a_kill_between_staging_and_the_commit_leaves_evidence(
    stored: Stage,
) -> None:
    waiting = Waiting()
    spec = waiting.spec
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "oracle": [step(calls=[call("work"), reply("staged")])],
        }
    )
    async with stored.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        await waiting.inside.reached()
        # What is acknowledged here was accepted after the value was staged.
        await sup.start_root(LEAD, interactive=True)
        copy = stored.crashed()
        waiting.inside.open()
        assert (await sup.wait(begun.message_id)).unwrap() == "staged"
        await root.wait_idle()
    async with copy.open(
        ScriptedModel({"lead": [step("ok")]}), specs=[LEAD, spec]
    ) as sup:
        root = await sup.resume(root.id)
        await root.wait_idle()
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.cause) == ("failed", "crashed")
        assert (outcome.value, outcome.acceptance) == (None, None)
    log = copy.log(begun.child_id)
    assert [s.value for s in of(log, Submitted)] == ['"staged"']
    assert of(log, Concluded)[0].receipt is None
    told = accepted_in(copy.log(root.id), "outcome")
    assert [one.about for one in told] == [(begun.message_id,)]


@pytest.mark.case("A-016", "A-047", "A-125")
async def test_a_kill_after_the_commit_leaves_the_value_and_it_is_told_once(
    stage: Stage,
) -> None:
    """Killed after every single batch: what is committed stands, and is told once."""
    store = CountingStore()
    stage.use(store)
    model = ScriptedModel(
        {"lead": [step("thanks")], "oracle": [step(calls=[reply("v")])]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "go")
        await sup.wait(begun.message_id)
        await root.wait_idle()
    verdicts = set()
    for cut in range(1, len(store.batches) + 1):
        kept = [entry for batch in store.batches[:cut] for entry in batch]
        committed = of([entry.event for entry in kept], Concluded)
        if begun.child_id not in {entry.session for entry in kept}:
            continue
        copy = Stage("memory", stage.folder)
        copy.use(stored_as(kept))
        copy.whole = False
        async with copy.open(ScriptedModel({"lead": [step("ok")] * 3})) as sup:
            again = await sup.resume(root.id)
            await again.wait_idle()
            outcome = await sup.outcome(begun.message_id)
            assert outcome is not None
            value = "v" if committed and committed[0].value else None
            assert outcome.value == value
            assert (outcome.acceptance is None) is (value is None)
            if value is None:
                assert outcome.status != "completed"
            verdicts.add(outcome.cause)
        told = accepted_in(copy.log(root.id), "outcome")
        assert [one.about for one in told] == [(begun.message_id,)]
    assert verdicts >= {None, "crashed"}


@pytest.mark.case("A-022", "A-049", "A-192")
async def test_a_reply_cancels_the_children_counts_them_and_spares_the_siblings(
    stored: Stage,
) -> None:
    usage = ramet.Usage(1, 10, 1)
    held, other, second = Gate(), Gate(), Gate()
    model = ScriptedModel(
        {
            "oracle": [step(calls=[reply("v")], hold=held, usage=usage)],
            "scout": [step("early", usage=usage), step("late", hold=second)],
            "digger": [step("sibling", hold=other)],
            "lead": [step("n")] * 2,
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        sibling = await sup.start_child(root, AgentSpec("digger"), "dig")
        begun = await sup.start_call(root, ORACLE, "go")
        oracle = resident(sup, begun.child_id)
        child = await sup.start_child(oracle, SCOUT, "look")
        scout = resident(sup, child.child_id)
        await sup.wait(child.message_id)
        if scout.state == "gone":
            await sup.followup(oracle, child.child_id, "more")
            scout = resident(sup, child.child_id)
        await second.reached()
        held.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == "v"
        assert scout.state == "gone"
        ends = [
            (entry.session, type(entry.event))
            for entry in stored.observer.entries
            if isinstance(entry.event, (Ended, Concluded))
        ]
        last = [one for one in ends if one[0] in (scout.id, oracle.id)]
        assert last[-3:] == [
            (scout.id, Ended),
            (oracle.id, Concluded),
            (oracle.id, Ended),
        ]
        # Each request once: two of them were measured, and one was cut.
        tree = await sup.usage(begun.child_id)
        assert tree.subtree.requests == 3
        assert tree.subtree.input_tokens == 20
        receipt = json.loads(conclusion(stored, begun.child_id).receipt or "")
        assert receipt["usage"]["requests"] == 3
        assert resident(sup, sibling.child_id).state == "running"
        other.open()
        await gone(resident(sup, sibling.child_id))
        await root.wait_idle()


@pytest.mark.case("A-023", "A-192")
@pytest.mark.parametrize("notices", ["auto", "wakeup"])
async def test_a_reply_may_wait_for_the_children_whose_notices_start_no_turn(
    stored: Stage, notices: Any
) -> None:
    spec = AgentSpec("oracle", policy={"at_reply": "wait", "notices": notices})
    held, scouting = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")],
            "oracle": [step(calls=[reply("v")], hold=held)],
            "scout": [step("x", hold=scouting)] * 2,
        }
    )
    async with stored.open(model, specs=[LEAD, spec, SCOUT]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        oracle = resident(sup, begun.child_id)
        await held.reached()
        for _ in range(2):
            await sup.start_child(oracle, SCOUT, "look")
        held.open()
        await scouting.reached(2)
        await anyio.wait_all_tasks_blocked()
        assert await sup.outcome(begun.message_id) is None
        scouting.open()
        outcome = await sup.wait(begun.message_id)
        assert outcome.unwrap() == "v"
        await root.wait_idle()
    log = stored.log(begun.child_id)
    assert len(of(log, TurnOpened)) == 1
    assert len(model.requests_of("oracle")) == 1
    assert len([one for one in of(log, Accepted) if one.source == "notice"]) == 2


@pytest.mark.case("A-023")
async def test_a_cancel_while_a_reply_waits_for_children_wins(stored: Stage) -> None:
    spec = AgentSpec("oracle", policy={"at_reply": "wait"})
    held, scouting = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")],
            "oracle": [step(calls=[reply("v")], hold=held)],
            "scout": [step("x", hold=scouting)],
        }
    )
    async with stored.open(model, specs=[LEAD, spec, SCOUT]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        await held.reached()
        await sup.start_child(resident(sup, begun.child_id), SCOUT, "look")
        held.open()
        await scouting.reached()
        await anyio.wait_all_tasks_blocked()
        await sup.cancel(begun.child_id, reason="no longer")
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.value) == ("cancelled", None)
        assert outcome.detail == "no longer"
        await root.wait_idle()
    log = stored.log(begun.child_id)
    assert [s.verdict for s in of(log, Submitted)] == ["valid"]


@pytest.mark.case("A-039")
@pytest.mark.parametrize("stop", ["length", "tool_calls"])
async def test_whole_calls_of_a_response_that_was_cut_run_and_nothing_is_spent(
    stage: Stage, stop: str
) -> None:
    ran: list[str] = []

    async def look() -> str:
        """Look."""
        ran.append("look")
        return "moss"

    spec = AgentSpec("oracle", tools=[look], policy={"nudges": 0})
    model = ScriptedModel(
        {"oracle": [step("I lo", [call("look")], stop), step(calls=[reply(1)])]}
    )
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        assert (await sup.call(root, spec, "go")).unwrap() == 1
        (line,) = await sup.children(root.id)
    log = stage.log(line.id)
    assert ran == ["look"]
    assert [s.verdict for s in of(log, Submitted)] == ["valid"]
    assert len(of(log, TurnOpened)) == 1
    assert of(log, StepEnded)[0].stop == stop


@pytest.mark.case("A-093", "A-098")
@pytest.mark.parametrize(
    ("contract", "wrong", "right"),
    [
        (Choice(["a", "b"]), "c", "b"),
        (Schema({"type": "integer"}), "1", 1),
    ],
    ids=["choice", "schema"],
)
async def test_a_correction_goes_on_in_the_same_session(
    stored: Stage, contract: Any, wrong: Any, right: Any
) -> None:
    async def look() -> str:
        """Look."""
        return "moss"

    limits = Limits(requests=3, tool_calls=1)
    spec = AgentSpec("oracle", tools=[look], limits=limits)
    model = ScriptedModel(
        {
            "oracle": [
                step(calls=[call("look")]),
                step(calls=[reply(wrong)]),
                step(calls=[reply(right)]),
            ]
        }
    )
    async with stored.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, spec, "go", contract=contract)
        assert outcome.unwrap() == right
        assert outcome.acceptance is not None
        assert outcome.acceptance.attempts == 2
        assert len(await sup.children(root.id)) == 1
        assert outcome.usage.own.requests == 3
        assert outcome.usage.own.tool_calls == 1
    requests = model.requests_of("oracle")
    assert {request.session_id for request in requests} == {outcome.session_id}
    first, last = requests[0].messages, requests[-1].messages
    assert last[: len(first)] == first
    assert [len(request.messages) for request in requests] == [1, 3, 5]
    assert sources(requests[-1]) == ["prompt"]


@pytest.mark.case("A-126", "A-045")
async def test_without_acceptance_there_is_no_receipt_and_the_log_has_the_returns(
    stored: Stage,
) -> None:
    model = ScriptedModel(
        {"oracle": [step(calls=[reply("c")]), step(calls=[reply(["b"])])]}
    )
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        contract = Choice(["a", "b"])
        outcome = await sup.call(root, ORACLE, "go", contract=contract)
        assert outcome.cause == "output-contract-exhausted"
        assert (outcome.acceptance, outcome.available) == (None, True)
    log = stored.log(outcome.session_id)
    (concluded,) = of(log, Concluded)
    assert concluded.receipt is None
    assert [(s.verdict, s.value) for s in of(log, Submitted)] == [
        ("invalid", '"c"'),
        ("invalid", '["b"]'),
    ]


@pytest.mark.case("A-125")
async def test_nobody_is_told_before_value_and_receipt_are_stored(stage: Stage) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("thanks")], "oracle": [step(calls=[reply(1)], hold=hold)]}
    )
    told: list[str] = []
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "go")
        oracle = resident(sup, begun.child_id)

        async def wait() -> None:
            await sup.wait(begun.message_id)
            told.append("waiter")

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await hold.reached()
            store.free.clear()
            hold.open()
            await oracle.wait_gone()
            await anyio.wait_all_tasks_blocked()
            assert told == []
            assert not model.requests_of("lead")
            heard = [type(entry.event) for entry in stage.observer.entries]
            assert Concluded not in heard
            store.free.set()
        assert told == ["waiter"]
        await root.wait_idle()
        receipt = json.loads(conclusion(stage, begun.child_id).receipt or "")
        assert receipt["value"] == 1
    order = [e for e in stage.entries if e.session == begun.child_id]
    kinds = [type(entry.event) for entry in order]
    assert kinds.index(Concluded) < kinds.index(Ended)


@pytest.mark.case("A-130", "A-043")
@pytest.mark.parametrize("failing", ["before", "after"])
async def test_a_value_that_could_not_be_stored_is_not_told_as_accepted(
    stage: Stage, failing: Any
) -> None:
    """In this process it is unknown; the next open says what is stored."""
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply("v")], hold=hold)]})
    outcomes: list[ramet.Outcome[Any]] = []
    stage.whole = False
    child = ""
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(model) as sup:
            root = await sup.start_root(LEAD, interactive=True)

            async def ask() -> None:
                outcomes.append(await sup.call(root, ORACLE, "go"))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await hold.reached()
                child = (await sup.children(root.id))[0].id
                store.failing = failing
                hold.open()
    # What was stored and not acknowledged, nobody has heard of.
    for name in (root.id, child):
        heard = {entry.seq for entry in stage.entries if entry.session == name}
        stage.entries += [
            Entry(name, seq, event)
            for seq, event in enumerate(stage.log(name))
            if seq not in heard
        ]
    (outcome,) = outcomes
    assert (outcome.status, outcome.cause) == ("completed", "storage-failed")
    assert (outcome.value, outcome.acceptance, outcome.available) == (None, None, False)
    with pytest.raises(ramet.OutcomeError) as caught:
        outcome.unwrap()
    assert caught.value.code == "storage-failed"
    async with stage.open(ScriptedModel({"lead": [step("ok")]})) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        stored = await sup.wait(outcome.message_id)
        if failing == "after":
            assert (stored.status, stored.value) == ("completed", "v")
            assert stored.acceptance is not None
        else:
            assert (stored.status, stored.cause) == ("failed", "crashed")
        assert stored.session_id == child


@pytest.mark.case("A-014")
async def test_a_staged_value_of_an_agent_that_refuses_its_cancel_is_no_value(
    stage: Stage,
) -> None:
    stubborn = Stubborn()
    spec = AgentSpec("oracle", tools=[stubborn.refuse])
    model = ScriptedModel(
        {
            "lead": [step("thanks")],
            "oracle": [step(calls=[call("refuse"), reply("v")])],
        }
    )
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        await stubborn.inside.reached()
        with pytest.raises(ramet.TeardownError):
            await sup.cancel(begun.child_id, grace_s=0.01)
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.value) == ("cancelled", None)
        stubborn.inside.open()
        await root.wait_idle()
