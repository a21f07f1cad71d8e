"""Report mode: a call as an observation, for an answer and for three failures."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import ramet
from ramet import AgentFailedError, AgentStoppedError, Limits, ModelError
from ramet.actors.outcome import Outcome
from ramet.lifecycle.call_report import report_of_failure
from ramet.lifecycle.flow import Flow
from ramet.testing import ScriptedModel, call, step
from tests.lifecycle.scripts import (
    begun,
    journal_of,
    of_kind,
    reasons,
    run_of,
    run_script,
)
from tests.lifecycle.stage import ORACLE, SCOUT, Stage

pytestmark = pytest.mark.anyio


def reply(value: Any) -> Any:
    return step(calls=[call("reply", value=value)])


@pytest.mark.case("A-131")
async def test_an_answer_is_told_whole_with_the_statement_of_what_it_is(
    stage: Stage,
) -> None:
    whole = "x" * 40_000

    async def main(flow: Flow) -> Any:
        named = await flow.agent(
            "x", spec=ORACLE, label="one", title="The one", result="report"
        )
        lines = named.split("\n")
        assert lines[:3] == ["Label: one", "Title: The one", "Status: completed"]
        assert "records what the agent answered" in lines[3]
        assert "Nobody has checked" in lines[3]
        assert lines[4:] == ["", "Answer:", "{", '  "a": [', "    1", "  ]", "}"]
        plain = await flow.agent("x", spec=ORACLE, result="report")
        assert plain.startswith("Status: completed\n")
        assert plain.endswith(f"\nAnswer:\n{whole}")
        empty = await flow.agent("x", spec=ORACLE, result="report")
        assert empty.endswith("there is nothing to say.)")
        text = await flow.agent("x", spec=SCOUT, result="report", text=True)
        assert text.endswith("\nAnswer:\n as it is ")

    replies = [reply({"a": [1]}), reply(whole), reply(None)]
    model = ScriptedModel({"oracle": replies, "scout": [step(" as it is ")]})
    assert (await run_script(stage, main, model)).error is None


FAILURES: list[tuple[list[Any], dict[str, Any], str]] = [
    ([step(error=ModelError("down"))], {}, "provider-error"),
    ([step(" ")], {"text": True}, "empty-answer"),
    ([step("I think so")] * 4, {}, "no-reply"),
]


@pytest.mark.case("A-132", "A-134")
@pytest.mark.parametrize(("steps", "options", "cause"), FAILURES)
async def test_a_captured_failure_is_a_text_and_stays_failed_everywhere_else(
    stage: Stage, steps: list[Any], options: dict[str, Any], cause: str
) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent(
            "x", spec=SCOUT, label="look", title="Look", result="report", **options
        )

    result = await run_script(stage, main, ScriptedModel({"scout": steps}))
    assert result.status == "completed"
    lines = result.value.split("\n")
    assert lines[:4] == [
        "Label: look",
        "Title: Look",
        "Status: failed",
        f"Cause: {cause}",
    ]
    assert lines[4].startswith("Summary: ")
    assert "There is no accepted answer." in lines
    assert f"- model requests: {len(steps)}" in lines
    journal = journal_of(stage)
    (ended,) = of_kind(journal, "call.ended")
    assert (ended["status"], ended["cause"]) == ("failed", cause)
    assert lines[-1].startswith(f"Transcript: session {ended['session']};")
    assert "I think so" not in result.value
    (captured,) = of_kind(journal, "log report-captured")
    assert (captured["call"], captured["cause"]) == (ended["call"], cause)


@pytest.mark.case("A-133")
async def test_any_other_cause_comes_out_as_without_report_mode(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        with pytest.raises(AgentStoppedError):
            await flow.agent(
                "x", spec=SCOUT, result="report", limits=Limits(requests=1)
            )
        with pytest.raises(AgentFailedError) as caught:
            await flow.agent("x", spec=ORACLE, result="report", text=True)
        assert caught.value.code == "unparseable-answer"

    model = ScriptedModel({"scout": [step("no")], "oracle": [step("")]})
    assert (await run_script(stage, main, model)).error is None
    assert of_kind(journal_of(stage), "log report-captured") == []


@pytest.mark.case("A-135")
async def test_a_provider_error_is_captured_on_the_first_attempt(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=SCOUT, result="report", attempts=3)

    model = ScriptedModel({"scout": [step(error=ModelError("down"))]})
    result = await run_script(stage, main, model)
    assert "Cause: provider-error" in result.value
    assert len(of_kind(journal_of(stage), "call.started")) == 1


@pytest.mark.case("A-136", "A-137")
async def test_a_group_gives_every_text_and_a_resume_runs_only_the_failure_again(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        ask = partial(flow.agent, "x", result="report")
        return await flow.parallel(
            [
                partial(ask, spec=ORACLE, label="a", title="A"),
                partial(ask, spec=SCOUT, label="b", text=True),
            ]
        )

    kept: list[Any] = []

    async def first(flow: Flow) -> Any:
        kept.extend(await main(flow))

    steps = {"oracle": [reply({"b": 1.0, "a": None})], "scout": [step("  ")]}
    copy = await begun(stored, first, ScriptedModel(steps))
    assert "Status: completed" in kept[0]
    assert "Cause: empty-answer" in kept[1]
    again = ScriptedModel({"scout": [step("now")]})
    result = await run_script(copy, main, again, take_up=True)
    assert result.value[0] == kept[0]
    assert result.value[1].endswith("\nAnswer:\nnow")
    assert reasons(copy) == ["replayed", "recorded-failure"]
    run = run_of(copy)
    assert run.id not in kept[0]


def test_a_failure_without_a_log_is_told_all_the_same() -> None:
    outcome: Outcome[Any] = Outcome(status="failed", cause="other", session_id="s1")
    text = report_of_failure(None, None, outcome, None)
    assert text.split("\n") == [
        "Status: failed",
        "Cause: other",
        "Summary: The agent came to no answer.",
        "There is no accepted answer.",
        "",
        "Diagnostics:",
        "",
        "Transcript: session s1; `ramet log s1` shows it",
    ]
    assert ramet.Outcome is Outcome
