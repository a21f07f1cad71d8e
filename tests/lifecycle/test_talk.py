"""What models see: their tools and the results of their calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ramet
from ramet import AgentSpec, Call, CallResult, ModelRequest, ToolCall
from ramet.mailbox.events import CallEnded, TurnEnded
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import results_in
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    of,
    resident,
    sources,
    start,
)

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"


async def look(place: str) -> str:
    """Look at a place.

    Args:
        place: Where to look.
    """
    return place


@pytest.mark.case("R-242", "R-011", "R-014", "R-075", "R-078", "R-024")
@pytest.mark.parametrize("kind", ["interactive", "headless", "oneshot", "continuable"])
async def test_the_tools_of_each_kind_are_those_of_its_golden_file(
    stage: Stage, kind: str
) -> None:
    spec = AgentSpec("same", "Be short.", tools=[look])
    hold = Gate()
    model = ScriptedModel({"same": [step("x", hold=hold)] * 2})
    stage.whole = False
    async with stage.open(model, specs=[spec, LEAD]) as sup:
        sup.register_setup(ramet.control_setup())
        sup.register_setup(ramet.delegation_setup([AgentSpec("scout", "Look around.")]))
        root = await sup.start_root(
            LEAD if kind in ("oneshot", "continuable") else spec,
            interactive=kind != "headless",
        )
        if kind == "oneshot":
            await sup.start_call(root, spec, "x")
        elif kind == "continuable":
            await sup.start_child(root, spec, "x")
        else:
            await sup.tell(root, "x")
        await hold.reached()
    request = model.requests[0]
    seen = {
        "instructions": request.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(ramet.canonical_json(tool.parameters)),
            }
            for tool in request.tools
        ],
    }
    golden = json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))
    assert seen == golden


@pytest.mark.case("R-243", "R-019")
async def test_what_a_parent_reads_of_a_report_is_its_golden_file(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("read")],
            "scout": [
                step(calls=[call("report", output="found\n\nit")]),
                step("x", hold=hold),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.tell(root, "what is new?")
        await root.wait_idle()
        names = {scout.id: "CHILD", "host": "host"}
        seen = [
            {
                "source": message.source,
                "sender": names[message.sender],
                "blocks": [b.replace(scout.id, "CHILD") for b in message.blocks],
            }
            for message in model.requests_of("lead")[0].messages
            if isinstance(message, ramet.UserMessage)
        ]
        golden = json.loads((GOLDEN / "report.json").read_text(encoding="utf-8"))
        assert seen == golden


@pytest.mark.case("R-015", "R-022", "R-208", "R-017")
@pytest.mark.parametrize(
    "raw",
    [
        "{}",
        '{"output": 7}',
        '{"output": "x", "to": "s-other"}',
        '{"output": ""}',
        '{"output": " \\n"}',
        '{"output": "x", "output": "y"}',
        "[]",
        '"x"',
        "{",
        "",
    ],
)
async def test_wrong_arguments_of_report_send_nothing_and_the_turn_goes_on(
    stage: Stage, raw: str
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"scout": [step(calls=[Call("report", raw)]), step("x", hold=hold)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await start(sup, root, SCOUT)
        await hold.reached()
        assert [r.error for r in results_in(model.requests[1])] == ["INVALID_ARGS"]
        assert not accepted_in(stage.log(root), "report")


@pytest.mark.case("R-014", "R-012", "R-081")
async def test_a_tool_that_an_agent_may_not_call_is_withheld(stage: Stage) -> None:
    async def sing() -> str:
        """Sing."""
        raise AssertionError("it ran")

    spec = AgentSpec("lead", tools=[sing], deny=["sing"])
    calls = [call(name) for name in ("report", "reply", "sing", "nothing")]
    model = ScriptedModel(
        {
            "lead": [step(calls=calls), step("end")],
            "oracle": [
                step(calls=[call("report", output="x")]),
                step(calls=[call("reply", value=1)]),
            ],
        }
    )
    async with stage.open(model, specs=[spec, ORACLE]) as sup:
        root = await sup.start_root(spec, interactive=True)
        await sup.tell(root, "x")
        await root.wait_idle()
        assert model.requests[0].tools == ()
        assert [r.error for r in results_in(model.requests[1])] == [
            "TOOL_WITHHELD",
            "TOOL_WITHHELD",
            "TOOL_WITHHELD",
            "UNKNOWN_TOOL",
        ]
        assert (await sup.call(root, ORACLE, "x")).unwrap() == 1
        result = results_in(model.requests_of("oracle")[1])[0]
        assert result.error == "TOOL_WITHHELD"
        assert not accepted_in(stage.log(root), "report")


@pytest.mark.case("R-076", "R-077", "R-078", "R-079", "R-142")
async def test_a_model_controls_its_children_and_nobody_else(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    ids: dict[str, str] = {}
    answers: list[CallResult] = []
    alone: list[CallResult] = []

    async def mind(request: ModelRequest) -> Any:
        if request.name == "scout":
            await (hold if first.is_open else first).passed()
            return "x"
        if request.name == "digger":
            await hold.passed()
            return "x"
        done = results_in(request)
        if done or sources(request)[-1] == "notice":
            (alone if request.session_id == ids["alone"] else answers)[:] = done
            return "done"
        if request.session_id == ids["alone"]:
            listing = (call("list_agents"), call("list_agents", scope="descendants"))
            return ramet.ModelResponse(calls=listing, stop="tool_calls")
        calls = (
            call("send_message", agent_id=ids["settled"], message="again"),
            call("send_message", agent_id="s-absent", message="x"),
            call("send_message", agent_id=ids["cousin"], message="x"),
            call("send_message", agent_id=ids["settled"], message=" "),
            call("interrupt_agent", agent_id=ids["running"]),
            call("interrupt_agent", agent_id=ids["cousin"]),
            call("interrupt_agent", agent_id=ids["stranger"]),
            call("list_agents"),
            call("list_agents", scope="descendants"),
            call("list_agents", scope="everything"),
        )
        return ramet.ModelResponse(calls=calls, stop="tool_calls")

    stage.whole = False
    async with stage.open(
        ramet.FunctionModel(mind), policy=ramet.Policy(notices="quiet")
    ) as sup:
        sup.register_setup(ramet.control_setup())
        root = await sup.start_root(LEAD, interactive=True)
        other = await sup.start_root(LEAD, interactive=True)
        settled = await start(sup, root, SCOUT)
        await first.reached()
        first.open()
        await gone(settled)
        running = await start(sup, root, DIGGER)
        cousin = await start(sup, other, DIGGER)
        deep = await start(sup, running, DIGGER)
        await hold.reached(3)
        stranger = await start(sup, other, DIGGER)
        await sup.cancel(stranger)
        single = await sup.start_root(LEAD, interactive=True)
        ids.update(settled=settled.id, running=running.id, cousin=cousin.id)
        ids.update(stranger=stranger.id, alone=single.id)
        log = stage.log(cousin)
        await sup.tell(root, "act")
        await root.wait_idle()
        assert [answer.error for answer in answers] == [
            None,
            "NOT_RESUMABLE",
            "UNAUTHORIZED",
            "INVALID_ARGS",
            None,
            "UNAUTHORIZED",
            "UNAUTHORIZED",
            None,
            None,
            "INVALID_ARGS",
        ]
        message = accepted_in(stage.log(settled), "followup")[0]
        assert message.sender == root.id
        assert json.loads(answers[0].content) == {"message_id": message.id}
        listed = [[line.split()[0] for line in a.content.split("\n")] for a in answers]
        assert listed[7] == [settled.id, running.id]
        assert listed[8] == [settled.id, running.id, deep.id]
        assert "pending=" in answers[7].content
        await sup.tell(single, "list")
        await single.wait_idle()
        assert [a.content for a in alone] == ["There are no agents."] * 2
        assert stage.log(cousin) == log
        hold.open()
        await gone(running)
        assert of(stage.log(running), TurnEnded)[0].cause == "interrupted"


@pytest.mark.case("R-205", "R-206", "R-207", "R-210")
async def test_results_stand_in_the_order_of_calls_whatever_happens_to_them(
    stage: Stage,
) -> None:
    last = Gate()

    async def slow() -> str:
        """Be slow."""
        await last.passed()
        return "slow"

    async def fast() -> str:
        """Be fast."""
        last.open()
        return "fast"

    async def fail() -> str:
        """Fail."""
        raise ValueError("broken " * 1000)

    async def leave() -> str:
        """Leave the process."""
        raise SystemExit(3)

    def block() -> str:
        """Leave the process, from a thread."""
        raise SystemExit(4)

    spec = AgentSpec("lead", tools=[slow, fast, fail, leave, block])
    names = ["slow", "fail", "leave", "block", "fast"]
    model = ScriptedModel(
        {
            "lead": [
                step(calls=[call(name) for name in names], stop="length"),
                step("end"),
            ]
        }
    )
    async with stage.open(model, specs=[spec]) as sup:
        root = await sup.start_root(spec, interactive=True)
        message = await sup.tell(root, "x")
        assert (await sup.wait(message)).status == "completed"
        results = results_in(model.requests[1])
        assert [r.error for r in results] == [
            None,
            "TOOL_FAILED",
            "TOOL_FAILED",
            "TOOL_FAILED",
            None,
        ]
        assert len(results[1].content) < 2000
        ended = of(stage.log(root), CallEnded)
        assert ended[0].place != 0
        assert (await sup.usage(root.id)).own.tool_calls == 5


@pytest.mark.case("R-209", "R-211")
async def test_nothing_of_an_empty_or_failed_answer_is_in_a_transcript(
    stage: Stage,
) -> None:
    model = ScriptedModel(
        {
            "lead": [
                step(""),
                step(
                    raw=[ramet.TextDelta("half an answer")],
                    error=ramet.ModelError("cut"),
                ),
                step("end"),
            ]
        }
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for text in "abc":
            await sup.tell(root, text)
            await root.wait_idle()
        assert [type(m).__name__ for m in model.requests[2].messages] == [
            "UserMessage"
        ] * 3
        assert (await sup.usage(root.id)).own.requests == 3


@pytest.mark.case("R-080")
async def test_a_built_in_tool_without_a_calling_agent_changes_nothing(
    stage: Stage,
) -> None:
    hold = Gate()
    tools: dict[str, Any] = {}

    def contribute(setup: ramet.Setup) -> None:
        for contribution in (ramet.report_setup(), ramet.control_setup()):
            kind: Any = setup.kind
            inner = ramet.Setup(
                kind, setup.agent_id, setup.parent_id, setup.name, setup.host
            )
            contribution(inner)
            tools.update({tool.name: tool for tool in inner._tools})

    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, report=False) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        log = stage.log(root)
        arguments = {
            "report": {"output": "x"},
            "send_message": {"agent_id": scout.id, "message": "x"},
            "interrupt_agent": {"agent_id": scout.id},
            "list_agents": {},
        }
        for name, given in arguments.items():
            nobody = ToolCall(agent=None, place=0, call_id="", key="k", epoch=1)
            with pytest.raises(ramet.UnauthorizedError):
                await tools[name].run(tools[name].convert(given), nobody)
        assert stage.log(root) == log
        assert resident(sup, scout.id).state == "running"
