"""Headless runs: the value, and the document that tells it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from ramet import (
    AgentSpec,
    Choice,
    DeclarationError,
    Limits,
    Policy,
    Usage,
    UsageError,
    delegation_setup,
)
from ramet.lifecycle.headless import Headless, HeadlessResult, run_headless
from ramet.mailbox.events import TurnEnded
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import SCOUT, Stage, accepted_in, of, sources

pytestmark = pytest.mark.anyio

AGENT = AgentSpec("agent")
FIELDS = (
    "type subtype is_error result stop_reason num_turns duration_ms usage"
    " total_cost_usd budget session_id error"
).split()


def replies(*values: Any) -> ScriptedModel:
    usage = Usage(1, 10, 2)
    return ScriptedModel(
        {"agent": [step(calls=[call("reply", value=v)], usage=usage) for v in values]}
    )


def documented(result: HeadlessResult) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.to_json())
    assert sorted(document) == sorted(FIELDS)
    return document


@pytest.mark.case("A-059", "A-060", "A-175")
@pytest.mark.parametrize("value", ['"a"\nb', {"b": [1]}, [1, None], 3, False])
async def test_the_result_is_the_value_itself(value: Any) -> None:
    result = await run_headless(AGENT, "x", model=replies(value))
    assert result.value == value
    document = documented(result)
    assert document["result"] == value
    assert (document["subtype"], document["stop_reason"]) == ("success", "completed")
    assert (document["is_error"], document["error"]) == (False, None)
    assert document["num_turns"] == 1
    assert document["usage"]["input_tokens"] == 10
    assert document["usage"]["cache_read_input_tokens"] is None
    assert document["total_cost_usd"] is None
    assert document["budget"]["requests"] == "unbounded"
    assert document["duration_ms"] >= 0
    assert result.exit_status == 0


@pytest.mark.case("A-061")
async def test_empty_is_a_success_without_a_value() -> None:
    result = await run_headless(AGENT, "x", model=replies(""))
    document = documented(result)
    assert (document["subtype"], document["result"]) == ("success", None)
    assert (document["stop_reason"], result.exit_status) == ("completed", 0)


@pytest.mark.case("A-062")
async def test_no_reply_is_an_error_during_execution() -> None:
    model = ScriptedModel({"agent": [step("prose")]})
    result = await run_headless(AGENT, "x", model=model, policy=Policy(nudges=0))
    document = documented(result)
    assert document["subtype"] == "error_during_execution"
    assert (document["stop_reason"], document["result"]) == ("no_reply", None)
    assert document["error"]["code"] == "no-reply"
    assert "prose" not in result.to_json()
    assert result.exit_status == 1


@pytest.mark.case("A-063")
async def test_a_spent_axis_is_named() -> None:
    model = ScriptedModel({"agent": [step("prose")] * 2})
    limits = Limits(requests=2)
    result = await run_headless(AGENT, "x", model=model, limits=limits)
    document = documented(result)
    assert document["subtype"] == "error_max_turns"
    assert document["stop_reason"] == "requests"
    assert document["budget"]["requests"] == 2
    assert result.exit_status == 3


@pytest.mark.case("A-063")
async def test_an_exhausted_contract_is_named() -> None:
    result = await run_headless(
        AGENT, "x", model=replies("c", "d"), contract=Choice(["a", "b"])
    )
    document = documented(result)
    assert document["subtype"] == "error_max_structured_output_retries"
    assert result.exit_status == 1


@pytest.mark.case("A-068")
async def test_half_characters_are_escaped_in_the_document() -> None:
    model = ScriptedModel({"agent": [step(calls=[call("reply", value="a\ud800")])]})
    result = await run_headless(AGENT, "x", model=model)
    assert "\\ud800" in result.to_json()
    result.to_json().encode("utf-8")


@pytest.mark.case("A-066", "A-080")
async def test_a_blank_prompt_makes_no_session(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        await run_headless(AGENT, " ", store=tmp_path / "s.db")
    assert caught.value.code == "blank-prompt"
    assert not os.listdir(tmp_path)


async def test_wrong_arguments_are_refused_before_anything(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with pytest.raises(UsageError):
        await run_headless("agent", "x", store=store)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError):
        await run_headless(AGENT, "x", store=store, contract="x")  # type: ignore[arg-type]
    assert not os.listdir(tmp_path)


@pytest.mark.case("A-038", "A-192")
async def test_a_root_waits_for_its_children_and_is_nudged_when_none_is_left(
    stored: Stage,
) -> None:
    """It ends a turn while a child lives, is woken by its end, and ends one again."""
    scouting = Gate()
    model = ScriptedModel(
        {
            "agent": [
                step(calls=[call("agent", agent="scout", prompt="x", mode="start")]),
                step("I wait."),
                step("It came back."),
                step(calls=[call("reply", value="moss")]),
            ],
            "scout": [
                step(calls=[call("report", output="moss")], hold=scouting),
                step("done"),
            ],
        }
    )
    async with stored.open(model, specs=[AGENT, SCOUT]) as sup:
        sup.register_setup(delegation_setup([SCOUT]))
        headless = Headless(sup, AGENT)
        root, message = await headless.begin("go")
        await scouting.reached()
        await root.wait_idle()
        assert root.state == "waiting"
        assert not accepted_in(stored.log(root), "nudge")
        scouting.open()
        result = await headless.finish(root, message)
    assert result.value == "moss"
    document = documented(result)
    assert (document["num_turns"], result.usage.requests) == (4, 6)
    log = stored.log(root)
    assert len(accepted_in(log, "nudge")) == 1
    heard = [sources(one) for one in model.requests_of("agent")]
    assert heard[2][-1] == "notice"
    assert heard[3][-1] == "nudge"


@pytest.mark.case("A-022", "A-023", "A-069", "A-049")
@pytest.mark.parametrize("at_reply", ["cancel", "wait"])
async def test_live_children_at_the_reply_of_a_root_are_cancelled_or_waited_for(
    stored: Stage, at_reply: str
) -> None:
    usage = Usage(1, 10, 2)
    spec = AgentSpec("agent", policy={"at_reply": at_reply})
    scouting, replying = Gate(), Gate()
    start = call("agent", agent="scout", prompt="x", mode="start")
    model = ScriptedModel(
        {
            "agent": [
                step(calls=[start], usage=usage),
                step(calls=[call("reply", value=1)], usage=usage, hold=replying),
            ],
            "scout": [step("moss", usage=usage, hold=scouting)],
        }
    )
    async with stored.open(model, specs=[spec, SCOUT]) as sup:
        sup.register_setup(delegation_setup([SCOUT]))
        headless = Headless(sup, spec)
        root, message = await headless.begin("go")
        await scouting.reached()
        await replying.reached()
        replying.open()
        if at_reply == "wait":
            await anyio.wait_all_tasks_blocked()
            assert await sup.outcome(message) is None
            scouting.open()
        result = await headless.finish(root, message)
        (line,) = await sup.children(root.id)
    assert (result.value, result.exit_status) == (1, 0)
    document = documented(result)
    assert document["num_turns"] == 2
    waited = at_reply == "wait"
    # The request that was cancelled counts, and what it cost nobody has told.
    assert result.usage.requests == 3
    assert document["usage"]["input_tokens"] == (30 if waited else 20)
    (ended,) = of(stored.log(line.id), TurnEnded)
    assert ended.status == ("completed" if waited else "cancelled")
