"""Calls: awaited, in the background, and by a model's own tool.

Lives here: sections 5, 6, 20 and 21 of the acceptance list on the running runtime.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import attrs
import pytest

import ramet
from ramet import AgentSpec, Call, Choice, Limits, Reply, Returns, Schema, Text
from ramet.actors.render import render
from ramet.mailbox.events import Accepted, CallEnded, Concluded, Created
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import reply, results_in
from tests.lifecycle.stage import (
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    of,
    resident,
)

pytestmark = pytest.mark.anyio

USAGE = ramet.Usage(1, 10, 1)
SECRET = "prose that nobody asked for"


def delegate(agent: str, prompt: str = "go", **more: Any) -> Call:
    """A call of the tool `agent`."""
    return call("agent", agent=agent, prompt=prompt, **more)


@attrs.frozen
class Answer:
    """What an oracle may be asked for."""

    word: str


CONTRACTS: list[tuple[ramet.Contract[Any], Any, Any]] = [
    (Reply(), [1], [1]),
    (Choice(["a", "b"]), "b", "b"),
    (Schema({"type": "integer"}), 3, 3),
    (Returns(Answer), {"word": "yes"}, Answer("yes")),
    (Text(), "the text", "the text"),
]


def answering(contract: ramet.Contract[Any], value: Any) -> list[Any]:
    """The steps of an agent that returns a value at once."""
    if contract.kind == "text":
        return [step(value)]
    return [step(calls=[reply(value)])]


@pytest.mark.case("A-189", "A-047", "A-083")
@pytest.mark.parametrize(
    ("contract", "value", "expected"),
    CONTRACTS,
    ids="reply choice schema returns text".split(),
)
async def test_a_call_in_the_background_comes_to_what_an_awaited_one_comes_to(
    stored: Stage, contract: Any, value: Any, expected: Any
) -> None:
    steps = answering(contract, value) * 2
    model = ScriptedModel({"lead": [step("thanks")], "oracle": steps})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        limits = Limits(requests=5)
        awaited = await sup.call(root, ORACLE, "go", contract=contract, limits=limits)
        begun = await sup.start_call(
            root, ORACLE, "go", contract=contract, limits=limits
        )
        waited = await sup.wait(begun.message_id)
        assert await sup.outcome(begun.message_id) == waited
        assert waited.unwrap() == awaited.unwrap() == expected
        assert type(waited.value) is type(awaited.value)
        fields = ("status", "cause", "value", "acceptance", "available", "usage")
        for name in fields:
            assert getattr(waited, name) == getattr(awaited, name), name
        headers = [
            of(stored.log(one.session_id), Created)[0] for one in (awaited, waited)
        ]
        assert headers[0].contract == headers[1].contract
        assert headers[0].spec.limits == headers[1].spec.limits == limits.record()
        receipts = [receipt_of(stored, one.session_id) for one in (awaited, waited)]
        for receipt in receipts:
            del receipt["session"], receipt["message"]
        assert receipts[0] == receipts[1]
        await root.wait_idle()


def receipt_of(stage: Stage, session: str) -> dict[str, Any]:
    (concluded,) = of(stage.log(session), Concluded)
    receipt: dict[str, Any] = json.loads(concluded.receipt or "")
    return receipt


@pytest.mark.case("A-042")
@pytest.mark.parametrize("background", [False, True])
async def test_every_call_has_one_outcome_with_a_status_and_a_cause_of_the_table(
    stage: Stage, background: bool
) -> None:
    """What is blocked, stopped, cancelled and failed, also before any request."""
    held = Gate()
    blocked = ramet.FunctionModel(
        unasked, capabilities=ramet.ModelCapabilities(narrowing=False)
    )
    specs = {
        "done": AgentSpec("done"),
        "failed": AgentSpec("failed", policy={"nudges": 0}),
        "stopped": AgentSpec("stopped", limits=Limits(requests=1)),
        "cancelled": AgentSpec("cancelled"),
        "blocked": AgentSpec("blocked", model=blocked),
    }
    model = ScriptedModel(
        {
            "done": [step(calls=[reply(1)])],
            "failed": [step(SECRET)],
            "stopped": [step(SECRET)],
            "cancelled": [step("x", hold=held)],
        }
    )
    stage.whole = False
    outcomes: dict[str, ramet.Outcome[Any]] = {}
    async with stage.open(model, specs=[LEAD, *specs.values()]) as sup:
        root = await sup.start_root(LEAD, interactive=True)

        async def ask(name: str) -> None:
            contract = Choice(["a", "b"]) if name == "blocked" else Reply()
            if background:
                begun = await sup.start_call(root, specs[name], "go", contract=contract)
                outcomes[name] = await sup.wait(begun.message_id)
            else:
                outcomes[name] = await sup.call(
                    root, specs[name], "go", contract=contract
                )

        async with anyio.create_task_group() as group:
            for name in specs:
                group.start_soon(ask, name)
            await held.reached()
            (line,) = [
                one for one in await sup.children(root.id) if one.name == "cancelled"
            ]
            group.start_soon(sup.cancel, line.id)
        found = {name: (one.status, one.cause) for name, one in outcomes.items()}
        assert found == {
            "done": ("completed", None),
            "failed": ("failed", "no-reply"),
            "stopped": ("stopped", "request-budget"),
            "cancelled": ("cancelled", "cancelled"),
            "blocked": ("blocked", "output-contract-unavailable"),
        }
        assert outcomes["blocked"].usage.own.requests == 0
        for one in outcomes.values():
            log = stage.log(one.session_id)
            assert len(of(log, Concluded)) == 1
            again = await sup.outcome(one.message_id)
            assert again == one


async def unasked(request: ramet.ModelRequest) -> str:
    raise AssertionError("no request may be made")


@pytest.mark.case("A-049", "A-069")
async def test_usage_of_the_top_is_the_sum_of_every_request_below_it_once(
    stored: Stage,
) -> None:
    """Calls below calls, one cancelled, one not measured, one settled and resumed."""
    held = Gate()
    usages = {"digger": USAGE, "cut": None, "lead": USAGE, "oracle": USAGE}

    async def mind(request: ramet.ModelRequest) -> ramet.ModelResponse:
        if request.name == "cut":
            await held.passed()
        usage = usages[request.name]
        done = results_in(request)
        if request.name == "oracle" and not done:
            calls = (delegate("digger"), delegate("digger"), call("cancel_one"))
            return ramet.ModelResponse(calls=calls, usage=usage)
        if request.name in ("oracle", "digger"):
            return ramet.ModelResponse(calls=(reply(len(done)),), usage=usage)
        return ramet.ModelResponse("ok", usage=usage)

    async def cancel_one(call: ramet.ToolCall) -> str:
        """Start an agent and cancel it in the middle of its request."""
        begun = await sup.start_child(call.agent, cut, "x")
        await held.reached()
        await sup.cancel(begun.child_id)
        return "cancelled"

    cut, digger = AgentSpec("cut"), AgentSpec("digger")
    oracle = AgentSpec("oracle", tools=[cancel_one])
    specs = [LEAD, cut, digger, oracle]
    async with stored.open(ramet.FunctionModel(mind), specs=specs) as sup:
        sup.register_setup(ramet.delegation_setup([digger]))
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, oracle, "go")
        assert outcome.unwrap() == 3
        assert outcome.usage.own == ramet.Usage(2, 20, 2, tool_calls=3)
        total = await sup.usage(root.id)
        # Two requests of the oracle, two of diggers, and one that was cut.
        assert outcome.usage.subtree.requests == 5
        assert outcome.usage.subtree.input_tokens == 40
        assert total.subtree.requests == 5
        (cut_line,) = [
            one for one in await sup.children(outcome.session_id) if one.name == "cut"
        ]
        assert (cut_line.requests, cut_line.input_tokens) == (1, None)
        await root.wait_idle()
        again = await sup.outcome(outcome.message_id)
        assert again == outcome


@pytest.mark.case("A-050", "A-052")
async def test_when_a_call_returns_its_agent_and_all_below_are_gone_and_it_is_told_once(
    stored: Stage,
) -> None:
    held, scouting = Gate(), Gate()
    model = ScriptedModel(
        {
            "oracle": [step(calls=[reply(1)], hold=held)],
            "scout": [step("x", hold=scouting)] * 2,
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        done: list[Any] = []

        async def ask() -> None:
            done.append(await sup.call(root, ORACLE, "go"))
            done.append([sup.agent(name) for name in ids])
            done.append(root.statistics()["children"])

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await held.reached()
            (line,) = await sup.children(root.id)
            oracle = resident(sup, line.id)
            child = await sup.start_child(oracle, SCOUT, "x")
            grandchild = await sup.start_child(
                resident(sup, child.child_id), SCOUT, "x"
            )
            ids = [oracle.id, child.child_id, grandchild.child_id]
            await scouting.reached(2)
            held.open()
        assert done[0].unwrap() == 1
        assert done[1:] == [[None, None, None], 0]
        await root.wait_idle()
        heard = {one.source for one in of(stored.log(root), Accepted)}
        assert not heard


@pytest.mark.case("A-051")
async def test_a_caller_that_is_cancelled_ends_the_agent_and_records_its_outcome(
    stored: Stage,
) -> None:
    """The backend's own cancellation comes out, after a bounded, shielded step."""
    hold = Gate()
    model = ScriptedModel({"oracle": [step(calls=[reply(1)], hold=hold)]})
    seen: list[type[BaseException]] = []
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)

        async def ask() -> None:
            try:
                await sup.call(root, ORACLE, "go")
            except BaseException as error:
                seen.append(type(error))
                raise

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await hold.reached()
                scope.cancel()
        assert seen == [anyio.get_cancelled_exc_class()]
        (line,) = await sup.children(root.id)
        assert sup.agent(line.id) is None
        (concluded,) = of(stored.log(line.id), Concluded)
        assert (concluded.status, concluded.cause) == ("cancelled", "cancelled")
        outcome = await sup.wait(concluded.message)
        assert outcome.detail == "its caller was cancelled"


@pytest.mark.case("A-053", "A-052", "A-175")
async def test_a_model_that_calls_an_agent_reads_the_value_or_one_line(
    stored: Stage,
) -> None:
    """A value, none, and the ends without one, which are errors without prose."""
    model = ScriptedModel(
        {
            "lead": [
                step(
                    calls=[
                        delegate("value"),
                        delegate("empty"),
                        delegate("silent"),
                        delegate("stopped"),
                    ]
                ),
                step("done"),
            ],
            "value": [step(SECRET, [reply({"b": [1], "a": "x\ny"})])],
            "empty": [step(SECRET, [reply("")])],
            "silent": [step(SECRET)],
            "stopped": [step(SECRET)],
        }
    )
    specs = [
        AgentSpec("value"),
        AgentSpec("empty"),
        AgentSpec("silent", policy={"nudges": 0}),
        AgentSpec("stopped", limits=Limits(requests=1)),
    ]
    async with stored.open(model, specs=[LEAD, *specs]) as sup:
        sup.register_setup(ramet.delegation_setup(specs))
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "ask them")
        await root.wait_idle()
        children = {one.name: one.id for one in await sup.children(root.id)}
        value, empty, silent, stopped = results_in(model.requests_of("lead")[-1])
        assert value.content == '{\n  "a": "x\\ny",\n  "b": [\n    1\n  ]\n}'
        assert (value.error, empty.error) == (None, None)
        assert empty.content.startswith("completed without a value; assignment m")
        assert silent.error == "no-reply"
        assert silent.content.startswith("failed (no-reply); assignment m")
        assert stopped.error == "request-budget"
        assert "stopped (request-budget) on axis requests" in stopped.content
        for name, result in (("silent", silent), ("stopped", stopped)):
            assert children[name] in result.content
        assert SECRET not in repr(stored.log(root))
        # The outcome is the result of the call, and no notice tells it again.
        sources = {one.source for one in accepted(stored, root)}
        assert sources == {"tell"}


def accepted(stage: Stage, session: Any) -> list[Any]:
    return of(stage.log(session), Accepted)


@pytest.mark.case("A-054")
async def test_starting_a_continuable_agent_by_tool_gives_ids_and_waits_for_nothing(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [
                step(calls=[delegate("scout", mode="start")]),
                step("on"),
                step("n"),
            ],
            "scout": [step("x", hold=hold)],
        }
    )
    async with stored.open(model) as sup:
        sup.register_setup(ramet.delegation_setup([SCOUT]))
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "go")
        await hold.reached()
        await root.wait_idle()
        (line,) = await sup.children(root.id)
        (result,) = results_in(model.requests_of("lead")[1])
        (prompt,) = [one for one in accepted(stored, line.id) if one.source == "prompt"]
        assert result.content == f"started {line.id}; its assignment is {prompt.id}"
        assert (line.kind, result.error) == ("continuable", None)
        assert resident(sup, line.id).state == "running"
        hold.open()
        await gone(resident(sup, line.id))
        await root.wait_idle()


@pytest.mark.case("A-055")
async def test_calls_of_one_batch_run_at_the_same_time_and_answer_in_their_order(
    stage: Stage,
) -> None:
    """Each is held until all three have begun; they end in the opposite order."""
    began, gates = Gate(), [Gate(), Gate(), Gate()]
    ended: list[str] = []

    async def mind(request: ramet.ModelRequest) -> ramet.ModelResponse:
        if request.name == "lead":
            done = results_in(request)
            if done:
                seen.extend(result.content for result in done)
                return ramet.ModelResponse("done")
            calls = tuple(delegate("oracle", str(n)) for n in range(3))
            return ramet.ModelResponse(calls=calls)
        number = int(request.messages[-1].blocks[-1])  # type: ignore[union-attr]
        await began.passed()
        await gates[number].passed()
        ended.append(str(number))
        return ramet.ModelResponse(calls=(reply(f"answer {number}"),))

    seen: list[str] = []
    async with stage.open(ramet.FunctionModel(mind)) as sup:
        sup.register_setup(ramet.delegation_setup([ORACLE]))
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "go")
        await began.reached(3)
        began.open()
        for number in (2, 1, 0):
            gates[number].open()
            await anyio.wait_all_tasks_blocked()
        await root.wait_idle()
    assert ended == ["2", "1", "0"]
    assert seen == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.case("A-056")
async def test_a_call_that_a_kill_cut_says_so_and_names_its_child(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step(calls=[delegate("oracle")])], "oracle": [step("x", hold=hold)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        sup.register_setup(ramet.delegation_setup([ORACLE]))
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "go")
        await hold.reached()
        (line,) = await sup.children(root.id)
        copy = stored.crashed()
    later = ScriptedModel({"lead": [step("I see")]})
    async with copy.open(later) as sup:
        root = await sup.resume(root.id)
        await sup.tell(root, "well?")
        await root.wait_idle()
        (result,) = results_in(later.requests_of("lead")[0])
        assert "crashed" in result.content
        assert line.id in result.content
        assert result.error == "TOOL_OUTCOME_UNKNOWN"
        (concluded,) = of(copy.log(line.id), Concluded)
        assert (concluded.status, concluded.cause) == ("failed", "crashed")
        outcome = await sup.wait(concluded.message)
        assert (outcome.status, outcome.cause) == ("failed", "crashed")
        assert concluded.message in result.content
    copy.whole = True


@pytest.mark.case("A-058", "A-193")
@pytest.mark.parametrize("background", [False, True])
async def test_a_call_that_is_repeated_with_its_key_is_one_agent(
    stored: Stage, background: bool
) -> None:
    """At the same time, later, and after a restart; then its charge is one request."""
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("thanks")] * background,
            "oracle": [step(calls=[reply(1)], hold=hold, usage=USAGE)],
        }
    )
    outcomes: list[ramet.Outcome[Any]] = []

    async def ask(sup: ramet.Supervisor, root: ramet.Agent) -> None:
        if background:
            begun = await sup.start_call(root, ORACLE, "go", key="k")
            outcomes.append(await sup.wait(begun.message_id))
        else:
            outcomes.append(await sup.call(root, ORACLE, "go", key="k"))

    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        async with anyio.create_task_group() as group:
            group.start_soon(ask, sup, root)
            group.start_soon(ask, sup, root)
            await hold.reached()
            hold.open()
        await ask(sup, root)
        await root.wait_idle()
    async with stored.open(ScriptedModel({})) as sup:
        root = await sup.resume(root.id)
        await ask(sup, root)
        assert len(await sup.children(root.id)) == 1
        assert (await sup.usage(root.id)).subtree.requests == 1 + background
    assert len(outcomes) == 4
    assert all(one == outcomes[0] for one in outcomes)
    assert len(accepted_in(stored.log(root), "outcome")) == background


@pytest.mark.case("A-058", "A-193")
async def test_a_background_call_whose_outcome_is_a_crash_is_one_fresh_agent(
    stored: Stage,
) -> None:
    hold = Gate()
    stored.whole = False
    async with stored.open(ScriptedModel({"oracle": [step("x", hold=hold)]})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        first = await sup.start_call(root, ORACLE, "go", key="k")
        await hold.reached()
        copy = stored.crashed()
    copy.whole = True
    model = ScriptedModel(
        {"lead": [step("I see")] * 2, "oracle": [step(calls=[reply(1)])]}
    )
    async with copy.open(model) as sup:
        root = await sup.resume(root.id)
        await root.wait_idle()
        assert (await sup.wait(first.message_id)).cause == "crashed"
        begun = [await sup.start_call(root, ORACLE, "go", key="k") for _ in range(3)]
        assert len(set(begun)) == 1
        assert begun[0].child_id != first.child_id
        assert (await sup.wait(begun[0].message_id)).unwrap() == 1
        await root.wait_idle()
        told = accepted_in(copy.log(root), "outcome")
        assert [one.about for one in told] == [
            (first.message_id,),
            (begun[0].message_id,),
        ]
        assert len(await sup.children(root.id)) == 2


@pytest.mark.case("A-180", "A-176", "A-190")
@pytest.mark.parametrize("how", ["tool", "background"])
async def test_the_parents_log_holds_the_view_and_the_childs_log_the_whole(
    stored: Stage, how: str
) -> None:
    value = "\n".join(f"line {number}" for number in range(100))
    steps = [step("thanks")]
    if how == "tool":
        steps.insert(0, step(calls=[delegate("oracle")]))
    model = ScriptedModel({"lead": steps, "oracle": [step(calls=[reply(value)])]})
    policy = ramet.Policy(inline_cap=200)
    async with stored.open(model, policy=policy) as sup:
        sup.register_setup(ramet.delegation_setup([ORACLE]))
        root = await sup.start_root(LEAD, interactive=True)
        if how == "tool":
            await sup.tell(root, "go")
        else:
            begun = await sup.start_call(root, ORACLE, "go")
            assert (await sup.wait(begun.message_id)).unwrap() == value
        await root.wait_idle()
        (line,) = await sup.children(root.id)
        (concluded,) = of(stored.log(line.id), Concluded)
        assert json.loads(concluded.value or "") == value
        request = model.requests_of("lead")[-1]
        if how == "tool":
            shown = results_in(request)[0].content
            assert of(stored.log(root), CallEnded)[0].content == shown
        else:
            shown = accepted_in(stored.log(root), "outcome")[0].content[0]
            assert request.messages[-1].blocks[-1] == shown  # type: ignore[union-attr]
        assert len(shown) < 450
        assert f"of {len(value)} bytes are left out" in shown
        assert f'message_id "{concluded.message}"' in shown
        assert "line 50\n" not in repr(stored.log(root))


@pytest.mark.case("A-191", "A-179")
async def test_a_background_call_by_tool_gives_ids_and_read_result_the_whole(
    stored: Stage,
) -> None:
    """The ids at once, the outcome as one message, and every byte on demand."""
    value = {"lines": ["é" * 999 + str(number) for number in range(20)]}
    whole = render(value)
    pieces: list[str] = []
    began: list[str] = []
    hold = Gate()

    async def mind(request: ramet.ModelRequest) -> ramet.ModelResponse:
        if request.name == "oracle":
            await hold.passed()
            return ramet.ModelResponse(calls=(reply(value),))
        last = request.messages[-1]
        if isinstance(last, ramet.UserMessage) and last.source == "tell":
            return ramet.ModelResponse(calls=(delegate("oracle", background=True),))
        if isinstance(last, ramet.UserMessage):
            pieces.append("")
            message = began[0].rpartition(" ")[2]
            one = call("read_result", message_id=message, offset=0)
            return ramet.ModelResponse(calls=(one,))
        text = results_in(request)[-1].content
        if not pieces:
            began.append(text)
            return ramet.ModelResponse("waiting")
        text, more, note = text.partition("\n[")
        pieces.append(text)
        if not more:
            return ramet.ModelResponse("read")
        offset = int(note.rpartition(" ")[2].rstrip("]"))
        message = began[0].rpartition(" ")[2]
        one = call("read_result", message_id=message, offset=offset)
        return ramet.ModelResponse(calls=(one,))

    async with stored.open(ramet.FunctionModel(mind)) as sup:
        sup.register_setup(ramet.delegation_setup([ORACLE]))
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "go")
        await hold.reached()
        await root.wait_idle()
        (line,) = await sup.children(root.id)
        assert began[0].startswith(f"called {line.id}; its assignment is m")
        hold.open()
        outcome = await sup.wait(began[0].rpartition(" ")[2])
        assert outcome.unwrap() == value
        await root.wait_idle()
        assert len(pieces) > 2
        assert (await sup.usage(line.id)).own.requests == 1
        assert "".join(pieces) == whole


@pytest.mark.case("A-182")
async def test_who_waits_gets_the_outcome_and_a_cancelled_waiter_changes_nothing(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("thanks")], "oracle": [step(calls=[reply(1)], hold=hold)]}
    )
    outcomes: list[ramet.Outcome[Any]] = []
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "go")

        async def wait() -> None:
            outcomes.append(await sup.wait(begun.message_id))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await hold.reached()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(wait)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
            assert outcomes == []
            assert resident(sup, begun.child_id).state == "running"
            hold.open()
        await wait()
        await root.wait_idle()
    async with stored.open(ScriptedModel({})) as sup:
        outcomes.append(await sup.wait(begun.message_id))
    assert len(outcomes) == 5
    assert all(one == outcomes[0] for one in outcomes)
    assert outcomes[0].unwrap() == 1
