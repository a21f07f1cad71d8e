"""The flow: calls of a script, their refusals, and what a resumed run recalls."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import anyio
import attrs
import pytest

import ramet
from ramet import (
    AgentFailedError,
    AgentSpec,
    AgentStoppedError,
    DeclarationError,
    FunctionModel,
    KeyConflictError,
    Limits,
    ModelRequest,
    ModelResponse,
    UnsupportedSchemaError,
    UsageError,
)
from ramet.lifecycle.activation import Closing
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.flow_child import Assignment, FlowChild
from ramet.lifecycle.recall import GO_ON
from ramet.lifecycle.script import ScriptRun
from ramet.mailbox.events import Concluded, Journaled
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.scripts import (
    begun,
    journal_of,
    of_kind,
    run_of,
    run_script,
    script_of,
)
from tests.lifecycle.stage import DIGGER, ORACLE, SCOUT, Stage, accepted_in, of, texts
from tests.vectors import rows

pytestmark = pytest.mark.anyio


def replying(*values: Any, name: str = "oracle") -> ScriptedModel:
    return ScriptedModel({name: [step(calls=[call("reply", value=v)]) for v in values]})


def reporting(*outputs: str) -> list[Any]:
    """The steps of one turn for each output: a report, and the end of the turn."""
    pairs = [(step(calls=[call("report", output=it)]), step("done")) for it in outputs]
    return [one for pair in pairs for one in pair]


# -- calls -----------------------------------------------------------------------------


async def test_a_call_gives_the_value_itself_and_not_its_rendering(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        found = await flow.agent("what?", spec=ORACLE)
        assert found == {"a": [1, "x"]}
        with pytest.raises(TypeError):
            found["b"] = 1
        return found

    result = await run_script(stored, main, replying({"a": [1, "x"]}))
    assert (result.status, result.value) == ("completed", {"a": [1, "x"]})
    assert result.usage.subtree.requests == 1


async def test_each_option_stands_for_its_contract(stage: Stage) -> None:
    @attrs.frozen
    class Size:
        wide: int

    async def main(flow: Flow) -> Any:
        one = await flow.agent("x", choice=["a", "b"], spec=ORACLE)
        two = await flow.agent("x", schema={"type": "integer"}, spec=ORACLE)
        three = await flow.agent("x", returns=Size, spec=ORACLE)
        assert isinstance(three, Size)
        four = await flow.agent("x", contract=ramet.Choice(["c", "d"]), spec=ORACLE)
        five = await flow.agent("x", text=True, label="scout")
        return [one, two, three.wide, four, five]

    replies = [step(calls=[call("reply", value=v)]) for v in ("b", 7, {"wide": 3}, "c")]
    model = ScriptedModel({"oracle": replies, "scout": [step("as it is ")]})
    result = await run_script(stage, main, model)
    assert result.value == ["b", 7, 3, "c", "as it is "]


async def test_a_call_without_a_value_raises_the_error_of_its_outcome(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        with pytest.raises(AgentStoppedError) as caught:
            await flow.agent("x", spec=ORACLE, limits=Limits(requests=1))
        assert caught.value.code == "request-budget"
        return await flow.agent("y", text=True, spec=SCOUT)

    model = ScriptedModel({"oracle": [step("no reply")], "scout": [step(" ")]})
    result = await run_script(stage, main, model)
    assert result.status == "failed"
    assert isinstance(result.error, AgentFailedError)
    assert result.error.code == "empty-answer"


async def test_tools_and_a_model_of_a_call_are_its_own(stage: Stage) -> None:
    async def weigh(stone: str) -> str:
        """Weigh a stone."""
        return f"{stone} weighs 3"

    own = ScriptedModel(
        {
            "agent": [
                step(calls=[call("weigh", stone="flint")]),
                step(calls=[call("reply", value="3")]),
            ]
        }
    )

    async def main(flow: Flow) -> Any:
        return await flow.agent("x", tools=[weigh], model=own)

    assert (await run_script(stage, main)).value == "3"
    assert own.requests[1].messages[-1].results[0].content == "flint weighs 3"  # type: ignore[union-attr]


async def test_the_flow_gives_what_the_run_was_given(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        assert flow.input == {"a": [1]}
        with pytest.raises(TypeError):
            flow.input["a"] = 2
        assert flow.args == ("x", "--y")
        assert flow.limits == Limits()
        assert flow.root.id == run_of(stage).id
        assert flow.supervisor.agent(flow.root.id) is flow.root
        assert flow.model is None
        return flow.input

    result = await run_script(stage, main, data={"a": [1]}, args=["x", "--y"])
    assert result.value == {"a": [1]}


def test_a_script_makes_none_of_what_it_is_given() -> None:
    for kind in (Flow, FlowChild, Assignment):
        with pytest.raises(TypeError, match="not made"):
            kind()


# -- refusals --------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"choice": ["a", "b"], "schema": {"type": "null"}}, "choice and schema exclude"),
    ({"contract": ramet.Reply(), "text": True}, "contract and text exclude"),
    ({"schema": {"type": "null"}, "returns": int}, "schema and returns exclude"),
    ({"choice_fallback": "a"}, "choice_fallback needs choice"),
    ({"result": "text"}, "must be 'report' or absent"),
    ({"result": "report", "choice": ["a", "b"]}, "and choice exclude"),
    ({"result": "report", "schema": {"type": "null"}}, "and schema exclude"),
    ({"result": "report", "contract": ramet.Choice(["a", "b"])}, "'choice' exclude"),
    ({"attempts": 1.0}, "attempts must be"),
    ({"attempts": 0}, "attempts must be"),
    ({"attempts": True}, "attempts must be"),
    ({"label": 3}, "label must be text"),
    ({"label": " "}, "label must be text"),
    ({"title": b"x"}, "title must be text"),
    ({"key": ""}, "key must be text"),
    ({"text": 1}, "text must be True or False"),
    ({"limits": {}}, "limits must be Limits"),
    ({"spec": "scout"}, "spec must be an AgentSpec"),
    ({"tools": "read"}, "tools must be a list"),
    ({"contract": "reply"}, "contract must be a Contract"),
]


@pytest.mark.case("A-075", "A-077", "A-085", "A-158")
async def test_a_wrong_declaration_is_refused_and_leaves_one_line(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        for options, text in BAD:
            with pytest.raises(DeclarationError, match=text) as caught:
                await flow.agent("x", **options)
            assert caught.value.code == "bad-option"
        return await flow.agent("x", spec=ORACLE)

    result = await run_script(stage, main, replying("ordinal 1"))
    assert result.value == "ordinal 1"
    journal = journal_of(stage)
    assert len(of_kind(journal, "log bad-option")) == len(BAD)
    assert len(of_kind(journal, "call.queued")) == 1
    (prompt,) = [e for e in stage.entries if getattr(e.event, "source", "") == "prompt"]
    assert '["agent",1]' in str(getattr(prompt.event, "key", None))


@pytest.mark.case("A-080")
@pytest.mark.parametrize("prompt", ["", " \n\t", [], ["", " "]])
async def test_a_blank_prompt_starts_nothing(stage: Stage, prompt: Any) -> None:
    async def main(flow: Flow) -> Any:
        for made in (flow.agent(prompt), flow.spawn(prompt)):
            with pytest.raises(DeclarationError) as caught:
                await made
            assert caught.value.code == "blank-prompt"

    assert (await run_script(stage, main)).status == "completed"
    assert {entry.session for entry in stage.entries} == {run_of(stage).id}


@pytest.mark.case("A-081")
async def test_a_schema_outside_the_dialect_is_refused_by_its_path(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        with pytest.raises(UnsupportedSchemaError, match=r"at \$"):
            await flow.agent("x", schema={"type": "string", "pattern": "a"})

    assert (await run_script(stage, main)).status == "completed"


@pytest.mark.case("A-084")
@pytest.mark.parametrize("row", rows("option_combinations"))
async def test_combinations_of_options_are_judged_as_the_vectors_say(
    stage: Stage, row: dict[str, Any]
) -> None:
    options = eval(row["options_py"])

    async def main(flow: Flow) -> Any:
        if row["ok"]:
            await flow.agent("x", spec=ORACLE, **options)
            return
        with pytest.raises((DeclarationError, TypeError)):
            await flow.agent("x", spec=ORACLE, **options)

    stage.whole = False
    value = {"choice": "a", "schema": None}.get(next(iter(options), ""), "text")
    result = await run_script(stage, main, replying(value))
    assert result.error is None


@pytest.mark.case("A-161")
async def test_two_live_calls_share_no_label_and_calls_without_one_never_meet(
    stage: Stage,
) -> None:
    gate = Gate()

    async def main(flow: Flow) -> Any:
        async def labelled() -> None:
            await flow.agent("x", spec=ORACLE, label="one")

        async with anyio.create_task_group() as group:
            group.start_soon(labelled)
            group.start_soon(flow.agent, "y")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(DeclarationError, match="'one'") as caught:
                await labelled()
            assert caught.value.code == "slot-conflict"
            flow.phase("second")
            group.start_soon(labelled)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        await labelled()

    model = ScriptedModel(
        {
            "oracle": [step(calls=[call("reply", value=1)], hold=gate)] * 3,
            "agent": [step(calls=[call("reply", value=1)], hold=gate)],
        }
    )
    result = await run_script(stage, main, model)
    assert result.error is None


# -- children --------------------------------------------------------------------------


async def test_a_child_reports_takes_a_followup_and_settles(stored: Stage) -> None:
    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT)
        first = child.assignment
        assert (await child.outcome()).status == "completed"
        more = await child.send("and there?")
        assert (await more.outcome()).message_id == more.message_id
        assert await first.reports() == ["here"]
        assert await more.reports() == ["there", "and more"]
        assert await child.reports() == ["here", "there", "and more"]
        assert (await child.outcome()).message_id == more.message_id
        assert child.id in repr(child)
        return child.id

    steps = [*reporting("here"), *reporting("there")[:1], *reporting("and more")]
    result = await run_script(stored, main, ScriptedModel({"scout": steps}))
    assert result.error is None
    notices = accepted_in(stored.log(result.run), "notice")
    assert notices
    assert all(notice.given == "quiet" for notice in notices)


async def test_a_report_that_would_wake_does_not_wake_the_root(stage: Stage) -> None:
    loud = AgentSpec("loud", policy={"report_delivery": "wakeup"})

    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=loud)
        await child.outcome()
        return await child.reports()

    model = ScriptedModel({"loud": reporting("here")})
    assert (await run_script(stage, main, model)).value == ["here"]


async def test_a_child_is_sent_nothing_blank(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT)
        with pytest.raises(DeclarationError):
            await child.send(" ")
        await child.outcome()

    model = ScriptedModel({"scout": reporting("x")})
    assert (await run_script(stage, main, model)).error is None


# -- the journal -----------------------------------------------------------------------


async def test_phases_and_lines_are_in_the_log_of_the_root(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        flow.phase("one")
        flow.log("a line")
        for wrong in (" ", 3, None):
            with pytest.raises(UsageError):
                flow.phase(wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            flow.log(3)  # type: ignore[arg-type]

    result = await run_script(stage, main)
    journal = of(stage.log(result.run), Journaled)
    assert [event.kind for event in journal] == [
        "run.started",
        "phase",
        "log",
        "run.ended",
    ]
    assert json.loads(journal[1].data) == {"name": "one"}
    assert json.loads(journal[2].data) == {"text": "a line"}


# -- resumed runs ----------------------------------------------------------------------


@pytest.mark.case("A-163")
async def test_a_completed_call_comes_back_without_a_request(stored: Stage) -> None:
    @attrs.frozen
    class Size:
        wide: int

    async def main(flow: Flow) -> Any:
        one = await flow.agent("x", spec=ORACLE)
        two = await flow.agent("x", spec=ORACLE, label="two", returns=Size)
        assert isinstance(two, Size)
        three = await flow.agent("x", spec=ORACLE, key="three")
        return [one, two.wide, three]

    copy = await begun(stored, main, replying("a", {"wide": 2}, None))
    again = await run_script(copy, main, take_up=True)
    assert again.value == ["a", 2, None]
    assert again.usage.subtree.requests == 3


async def test_a_call_that_a_kill_cut_is_made_again_under_the_next_key(
    stored: Stage,
) -> None:
    gate = Gate()
    copies: list[Stage] = []

    async def main(flow: Flow) -> Any:
        one = await flow.agent("one", spec=SCOUT, text=True)
        return [one, await flow.agent("two", spec=ORACLE)]

    async def cut(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(main, flow)
            await anyio.wait_all_tasks_blocked()
            while len(accepted_in(heard(stored), "prompt")) < 2:
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()

    first = ScriptedModel(
        {
            "scout": [step("found")],
            "oracle": [step(calls=[call("reply", value="late")], hold=gate)],
        }
    )
    await run_script(stored, cut, first)
    second = replying("again")
    (copy,) = copies
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == ["found", "again"]
    third = await run_script(copy, main, take_up=True)
    assert third.value == ["found", "again"]
    keys = [key for key in prompt_keys(copy) if '"agent",2' in key]
    assert keys[0].endswith(".again2")


def heard(stage: Stage) -> list[Any]:
    """The events that are durable so far."""
    return [entry.event for entry in stage.observer.entries]


def prompt_keys(stage: Stage) -> list[str]:
    """The keys of the prompts that were accepted while this stage was open."""
    events = [entry.event for entry in stage.entries]
    return [event.key or "" for event in accepted_in(events, "prompt")]


@pytest.mark.case("A-164")
async def test_a_call_that_failed_is_made_again_and_another_request_is_another_call(
    stored: Stage,
) -> None:
    prompts = ["x"]

    async def main(flow: Flow) -> Any:
        try:
            return await flow.agent(prompts[0], spec=SCOUT, text=True)
        except AgentFailedError:
            return "failed"

    copy = await begun(stored, main, ScriptedModel({"scout": [step(" ")]}))
    again = await run_script(
        copy, main, ScriptedModel({"scout": [step("now")]}), take_up=True
    )
    assert again.value == "now"
    prompts[0] = "another"
    other = await run_script(
        copy, main, ScriptedModel({"scout": [step("fresh")]}), take_up=True
    )
    assert other.value == "fresh"


async def test_a_key_of_the_script_stands_for_one_request(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        one = await flow.agent("x", spec=ORACLE, key="k")
        assert await flow.agent("x", spec=ORACLE, key="k") == one
        with pytest.raises(KeyConflictError):
            await flow.agent("y", spec=ORACLE, key="k")
        return one

    assert (await run_script(stage, main, replying("once"))).value == "once"


async def test_a_child_whose_work_ended_runs_no_more(stored: Stage) -> None:
    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT, label="a")
        first = child.assignment
        await first.outcome()
        more = await child.send("more?")
        await more.outcome()
        return [child.id, await first.reports(), await more.reports()]

    copy = await begun(stored, main, ScriptedModel({"scout": reporting("1", "2")}))
    before = run_of(copy)
    again = await run_script(copy, main, take_up=True)
    assert again.value[1:] == [["1"], ["2"]]
    assert before.status is None
    assert run_of(copy).status == "completed"


async def test_a_turn_that_a_kill_cut_is_gone_on_with_in_the_same_session(
    stored: Stage,
) -> None:
    gate = Gate()
    copies: list[Stage] = []
    children: list[str] = []

    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT)
        children.append(child.id)
        outcome = await child.outcome()
        return [outcome.status, await child.assignment.reports()]

    async def cut(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(main, flow)
            while not accepted_in(heard(stored), "report"):
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()

    report = step(calls=[call("report", output="1")])
    first = ScriptedModel({"scout": [report, step("end", hold=gate)]})
    await run_script(stored, cut, first)
    (copy,) = copies
    second = ScriptedModel({"scout": reporting("2")})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == ["completed", ["1", "2"]]
    assert len(set(children)) == 1
    assert texts(second.requests[0])[-1] == "look"
    assert second.requests[0].messages[-1].blocks == (GO_ON, "look")  # type: ignore[union-attr]
    third = await run_script(copy, main, take_up=True)
    assert third.value == ["completed", ["1", "2"]]


async def test_a_followup_that_still_waits_runs_when_the_run_is_taken_up(
    stored: Stage,
) -> None:
    gate = Gate()
    copies: list[Stage] = []

    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT)
        first = child.assignment
        more = await child.send("more?")
        await more.outcome()
        await first.outcome()
        return [await first.reports(), await more.reports()]

    async def cut(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(main, flow)
            while not accepted_in(heard(stored), "followup"):
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()

    hold = step("end", hold=gate)
    first = ScriptedModel({"scout": [hold, *reporting("late")]})
    await run_script(stored, cut, first)
    (copy,) = copies
    # The message that waited runs first, then the turn that was cut is gone on with.
    second = ScriptedModel({"scout": reporting("waited", "went on")})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == [["went on"], ["waited"]]


async def test_a_followup_that_an_interrupt_parked_is_said_to_be_parked(
    stored: Stage,
) -> None:
    gate = Gate()

    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=SCOUT)
        more = await child.send("more?")
        flow.supervisor.interrupt(child.id)
        with pytest.raises(ramet.ParkedError):
            await more.outcome()

    copy = await begun(stored, main, ScriptedModel({"scout": [step("x", hold=gate)]}))
    result = await run_script(copy, main, take_up=True)
    assert result.error is None


async def test_an_orderly_rest_is_taken_up_as_a_crash_is(stored: Stage) -> None:
    gate = Gate()
    seen: Counter[str] = Counter()

    async def mind(request: ModelRequest) -> ModelResponse:
        seen[request.name] += 1
        await gate.passed()
        if request.tools and request.tools[-1].name == "reply":
            return ModelResponse(
                "", (ramet.Call("reply", '{"value": "yes"}'),), "tool_calls"
            )
        return ModelResponse("done")

    async def main(flow: Flow) -> Any:
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await flow.agent("well?", spec=ORACLE, label="ask"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            child = await flow.spawn("look", spec=DIGGER)
            answers.append((await child.outcome()).status)
        return sorted(answers)

    model = FunctionModel(mind)
    with anyio.CancelScope() as scope:
        async with stored.open(model) as supervisor:
            run = ScriptRun(supervisor, script_of(main))
            root = await run.begin()
            async with anyio.create_task_group() as group:
                group.start_soon(run.finish, root)
                while seen.total() < 2:
                    await anyio.wait_all_tasks_blocked()
                run.interrupt()
                await supervisor._drain(Closing("interrupted"), 1.0)
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            scope.cancel()
    assert run_of(stored).status is None
    gate.open()
    result = await run_script(stored, main, model, take_up=True)
    assert result.value == ["completed", "yes"]
    assert seen == {"oracle": 2, "digger": 2}


class _CancelsAtTheEnd:
    """Cancels a scope as soon as an assignment has ended and is durable."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def on_event(self, session_id: str, seq: int, event: object) -> None:
        """Look at an event."""
        if isinstance(event, Concluded):
            self._scope.cancel()


@pytest.mark.case("A-058")
async def test_a_named_call_that_completed_is_not_made_again_when_its_caller_was_cut(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        with anyio.CancelScope() as scope:
            flow.supervisor.observe(_CancelsAtTheEnd(scope))
            await flow.agent("what?", spec=ORACLE, key="one")
        assert scope.cancelled_caught
        value = await flow.agent("what?", spec=ORACLE, key="one")
        assert len(await flow.supervisor.children(flow.root.id)) == 1
        return value

    result = await run_script(stored, main, replying(1))
    assert (result.status, result.value) == ("completed", 1)
