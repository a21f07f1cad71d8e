"""Who may reply: the four kinds, what filters them, and what no request asks for.

Lives here: sections 1 and 4 of the acceptance list on the running runtime.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import ramet
from ramet import AgentSpec, Choice, ModelRequest, Reply, Schema, Text
from ramet.actors.model_openai import OpenAIModel
from ramet.mailbox.events import Submitted
from ramet.testing import Gate, ScriptedModel, step
from tests.actors.chat_service import chunk, serve, tool_piece
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
    sources,
    texts,
)

pytestmark = pytest.mark.anyio

KINDS = ("interactive", "headless", "oneshot", "continuable")
RETURNING = ("headless", "oneshot")
MINE = ramet.Tool("reply", "Mine.", {"type": "object"}, lambda arguments, call: "x")


async def begun(sup: ramet.Supervisor, spec: AgentSpec, kind: str) -> ramet.Agent:
    """An agent of this kind, with its first message accepted."""
    if kind in ("interactive", "headless"):
        root = await sup.start_root(spec, interactive=kind == "interactive")
        await sup.tell(root, "go")
        return root
    lead = await sup.start_root(LEAD, interactive=True)
    if kind == "oneshot":
        return resident(sup, (await sup.start_call(lead, spec, "go")).child_id)
    return resident(sup, (await sup.start_child(lead, spec, "go")).child_id)


@pytest.mark.case("A-002")
@pytest.mark.parametrize("kind", ["interactive", "continuable"])
async def test_who_converses_is_told_so_when_it_replies_and_its_turn_goes_on(
    stored: Stage, kind: str
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * (kind == "continuable"),
            "scout": [
                step(calls=[reply("my result")], hold=hold),
                step("As I was saying."),
            ],
        }
    )
    async with stored.open(model, report=False) as sup:
        agent = await begun(sup, SCOUT, kind)
        hold.open()
        await agent.wait_idle()
        for request in model.requests_of("scout"):
            assert "reply" not in [tool.name for tool in request.tools]
            assert "reply" not in request.instructions
        (result,) = results_in(model.requests_of("scout")[-1])
        assert result.error == "TOOL_WITHHELD"
        assert "converses" in result.content
        assert not of(stored.log(agent), Submitted)
        if kind == "continuable":
            await gone(agent)
            await resident(sup, agent.parent_id or "").wait_idle()


@pytest.mark.case("A-003")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_offered_run_nudged_and_said_agree_in_each_kind(
    stage: Stage, kind: str
) -> None:
    """The same spec: an end without a reply, then a reply."""
    spec = AgentSpec("same", "Be short.", policy={"nudges": 1})
    hold = Gate()
    returns = kind in RETURNING
    steps = [step("Some words.", hold=hold)]
    if returns:
        steps.append(step(calls=[reply(7)]))
    model = ScriptedModel(
        {"lead": [step("n")] * (kind not in KINDS[:2]), "same": steps}
    )
    async with stage.open(model, specs=[LEAD, spec], report=False) as sup:
        agent = await begun(sup, spec, kind)
        hold.open()
        await (agent.wait_idle() if kind == "interactive" else gone(agent))
        if kind in ("oneshot", "continuable"):
            parent = resident(sup, agent.parent_id or "")
            await parent.wait_idle()
    requests = model.requests_of("same")
    offered = {tool.name for request in requests for tool in request.tools}
    assert offered == ({"reply"} if returns else set())
    assert ("tool reply" in requests[0].instructions) is returns
    log = stage.log(agent)
    assert len(accepted_in(log, "nudge")) == returns
    assert [s.verdict for s in of(log, Submitted)] == ["missing", "valid"] * returns


@pytest.mark.case("A-003")
async def test_no_setting_makes_a_conversing_agent_return(stage: Stage) -> None:
    """Nothing that a deployment can set offers `reply` where it is withheld."""
    with pytest.raises(ramet.DeclarationError, match="reply"):
        AgentSpec("x", tools=[MINE])
    spec = AgentSpec("scout", allow=["reply"], policy={"nudges": 3})
    model = ScriptedModel({"scout": [step(calls=[reply(1)]), step("x")]})
    async with stage.open(model, specs=[spec], report=False) as sup:
        revoke = sup.register_setup(lambda setup: setup.add_tool(MINE))
        with pytest.raises(ramet.DeclarationError, match="reply"):
            await sup.start_root(spec, interactive=True)
        revoke()
        root = await sup.start_root(spec, interactive=True)
        await sup.tell(root, "go")
        await root.wait_idle()
        assert not accepted_in(stage.log(root), "nudge")
    assert [request.tools for request in model.requests] == [(), ()]


@pytest.mark.case("A-004")
@pytest.mark.parametrize("kind", RETURNING)
async def test_an_agent_that_may_use_no_tool_may_still_reply(
    stage: Stage, kind: str
) -> None:
    async def look() -> str:
        """Look."""
        raise AssertionError("it is filtered")

    spec = AgentSpec("oracle", tools=[look], allow=())
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * (kind == "oneshot"),
            "oracle": [step(calls=[reply(1)], hold=hold)],
        }
    )
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        agent = await begun(sup, spec, kind)
        hold.open()
        await gone(agent)
        if kind == "oneshot":
            await resident(sup, agent.parent_id or "").wait_idle()
    assert [tool.name for tool in model.requests_of("oracle")[0].tools] == ["reply"]


@pytest.mark.case("A-004")
def test_reply_cannot_be_denied() -> None:
    with pytest.raises(ramet.DeclarationError) as caught:
        AgentSpec("oracle", deny=("reply",))
    assert caught.value.code == "bad-option"


@pytest.mark.case("A-007")
@pytest.mark.parametrize(
    "contract",
    [Reply(), Choice(["7", "8"]), Schema({"type": "integer"}), Text()],
    ids=lambda contract: contract.kind,
)
async def test_no_request_forces_or_names_a_tool_choice(
    stage: Stage, contract: ramet.Contract[Any]
) -> None:
    """What goes over the wire, corrections and nudges included."""
    assert "choice" not in " ".join(attrs.fields_dict(ModelRequest))
    wrong = [tool_piece(0, '{"value": [', "reply", "c1")]
    right = '{"value": "7"}' if contract.kind == "choice" else '{"value": 7}'
    with serve() as service:
        if contract.kind == "text":
            service.play(chunk("Done."), chunk(finish="stop"))
        else:
            service.play(chunk(calls=wrong), chunk(finish="tool_calls"))
            service.play(
                chunk(calls=[tool_piece(0, right, "reply", "c2")]),
                chunk(finish="tool_calls"),
            )
        async with (
            OpenAIModel("gpt", api_key="k", base_url=service.address) as model,
            stage.open(model) as sup,
        ):
            root = await sup.start_root(LEAD, interactive=True)
            outcome = await sup.call(root, ORACLE, "go", contract=contract)
            assert outcome.status == "completed"
    assert len(service.bodies) == (1 if contract.kind == "text" else 2)
    for body in service.bodies:
        assert "tool_choice" not in body
        assert ("tools" in body) is (contract.kind != "text")


@pytest.mark.case("A-036")
@pytest.mark.parametrize("source", ["nudge", "report", "notice"])
async def test_what_an_agent_hears_meanwhile_does_not_make_its_allowance_whole(
    stage: Stage, source: str
) -> None:
    """Two ends are forgiven, whatever woke the agent between them."""
    spec = AgentSpec("oracle", policy={"nudges": 2})
    first, scouting = Gate(), Gate()
    ends = [step("first"), step("second"), step("third")]
    if source != "nudge":
        ends.insert(1, step("a turn while the child lived", hold=first))
    model = ScriptedModel(
        {"lead": [], "oracle": ends, "scout": [step("x", hold=scouting)]}
    )
    stage.whole = False
    async with stage.open(model, specs=[LEAD, spec, SCOUT]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, spec, "go")
        oracle = resident(sup, begun.child_id)
        if source != "nudge":
            await first.reached()
            child = await sup.start_child(oracle, SCOUT, "look")
            scout = resident(sup, child.child_id)
            if source == "report":
                await sup.report_from(scout, "found", delivery="wakeup")
            await scouting.reached()
            scouting.open()
            await gone(scout)
            first.open()
        outcome = await sup.wait(begun.message_id)
        await gone(oracle)
        log = stage.log(oracle)
        assert (outcome.status, outcome.cause) == ("failed", "no-reply")
        assert len(accepted_in(log, "nudge")) == 2
        assert len([s for s in of(log, Submitted) if s.verdict == "missing"]) == 3
        if source != "nudge":
            heard = {
                one
                for request in model.requests_of("oracle")
                for one in sources(request)
            }
            assert source in heard


@pytest.mark.case("A-036", "A-115")
async def test_the_allowance_of_another_assignment_is_whole(stage: Stage) -> None:
    spec = AgentSpec("oracle", policy={"nudges": 1})
    model = ScriptedModel({"oracle": [step("no"), step(calls=[reply(1)])] * 3})
    async with stage.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for _ in range(3):
            assert (await sup.call(root, spec, "go")).unwrap() == 1
    nudged = [request for request in model.requests if "nudge" in sources(request)]
    assert len(nudged) == 3
    assert all(len(texts(request)) == 2 for request in nudged)


@pytest.mark.case("A-041", "A-069")
async def test_requests_of_nudges_count_in_usage_and_in_the_number_of_turns() -> None:
    usage = ramet.Usage(1, 10, 1)
    model = ScriptedModel(
        {
            "agent": [
                step("no", usage=usage),
                step("no", usage=usage),
                step(calls=[reply(1)], usage=usage),
            ]
        }
    )
    result = await ramet.run_headless(AgentSpec("agent"), "go", model=model)
    document = result.document()
    assert document["num_turns"] == 3
    assert document["usage"]["input_tokens"] == 30
    model = ScriptedModel({"agent": [step("no")] * 2})
    limits = ramet.Limits(requests=2)
    result = await ramet.run_headless(
        AgentSpec("agent"), "go", model=model, limits=limits
    )
    assert (result.outcome.status, result.outcome.axis) == ("stopped", "requests")
    assert result.document()["num_turns"] == 2
