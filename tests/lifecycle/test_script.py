"""Scripts: how a file is read, how a run begins and ends, and how it is found again."""

from __future__ import annotations

import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    AgentSpec,
    AgentStoppedError,
    Limits,
    Policy,
    SessionHeldError,
    UsageError,
)
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.runs import ReplayRefusedError, read_run, runs
from ramet.lifecycle.script import ScriptRun
from ramet.lifecycle.script_file import ScriptFile, load_script
from ramet.mailbox.events import Created, Ended, Journaled
from ramet.testing import ScriptedModel, call, step
from tests.lifecycle.scripts import BOSS, begun, run_of, run_script, script_of
from tests.lifecycle.stage import LEAD, ORACLE, SCOUT, Stage, of

ASYNC = "async def main(flow):\n    return None\n"


def written(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


# -- files -----------------------------------------------------------------------------


def test_a_script_is_loaded_with_its_digest_and_a_quiet_root(tmp_path: Path) -> None:
    path = written(tmp_path, ASYNC, "tour.py")
    script = load_script(path)
    assert script.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert script.path == str(path)
    assert script.root.name == "tour"
    assert script.root.policy == {"notices": "quiet", "wake_budget": 0}
    assert (script.model, script.policy, script.specs) == (None, None, ())
    assert not (tmp_path / "__pycache__").exists()


def test_what_a_script_declares_is_taken(tmp_path: Path) -> None:
    written(tmp_path, "SIZE = 3\n", "beside_the_script.py")
    path = written(
        tmp_path,
        """
        import ramet
        from beside_the_script import SIZE
        root = ramet.AgentSpec("lead", policy={"notices": "wakeup"})
        specs = [ramet.AgentSpec("scout")]
        model = "local"
        policy = ramet.Policy(nudges=SIZE)
        async def main(flow): ...
        """,
    )
    script = load_script(path)
    assert script.root.name == "lead"
    assert script.root.policy == {"notices": "wakeup", "wake_budget": 0}
    assert [spec.name for spec in script.specs] == ["scout"]
    assert (script.model, script.policy) == ("local", Policy(nudges=3))


def test_a_root_with_a_whole_policy_keeps_it(tmp_path: Path) -> None:
    text = "import ramet\nroot = ramet.AgentSpec('x', policy=ramet.Policy())\n"
    assert load_script(written(tmp_path, text + ASYNC)).root.policy == Policy()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "has no `async def main"),
        ("def main(flow): ...\n", "must be an `async def`"),
        ("async def main(): ...\n", "must take one argument"),
        ("async def main(a, b): ...\n", "must take one argument"),
        ("async def main(flow:\n", "line 1 is not Python"),
        ("a = 1\0\n", "is not Python"),
        (ASYNC + "root = 'lead'\n", "root of .* must be an AgentSpec, not str"),
        (ASYNC + "specs = ['lead']\n", "must be a list of AgentSpec"),
        (ASYNC + "model = 3\n", "model of .* must be a model or its name, not int"),
        (ASYNC + "policy = {}\n", "policy of .* must be a Policy, not dict"),
    ],
)
def test_what_is_no_script_is_refused_with_the_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        load_script(written(tmp_path, text))


def test_a_missing_script_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.py cannot be read: No such file"):
        load_script(tmp_path / "nowhere.py")
    with pytest.raises(UsageError, match="Is a directory"):
        load_script(tmp_path)


@pytest.mark.case("A-066")
def test_a_blank_path_is_refused() -> None:
    with pytest.raises(UsageError, match="blank"):
        load_script("  ")


def test_what_the_top_level_raises_is_said_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ZeroDivisionError .*line 1") as caught:
        load_script(written(tmp_path, "1 / 0\n"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# -- the beginning and the end of a run ------------------------------------------------


@pytest.mark.anyio
async def test_a_run_begins_with_its_header_and_its_journal_in_one_batch(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        return {"b": 1, "a": None}

    result = await run_script(stored, main, data={"x": 1}, args=["y"])
    log = stored.log(result.run)
    assert [type(event) for event in log[:1]] == [Created]
    started, ended = of(log, Journaled)
    data = json.loads(started.data)
    assert (data["script"], data["digest"]) == ("script.py", "digest")
    assert (data["args"], data["input"]) == (["y"], {"x": 1})
    assert data["limits"].startswith("concurrency=unbounded")
    end = json.loads(ended.data)
    assert end == {"status": "completed", "result": {"a": None, "b": 1}}
    assert isinstance(log[-1], Ended)
    run = run_of(stored)
    assert (run.status, run.name, run.args) == ("completed", "boss", ("y",))


@pytest.mark.anyio
@pytest.mark.case("A-162")
async def test_a_result_that_is_not_json_fails_the_run_at_its_end(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return {"set": {1}}

    result = await run_script(stage, main)
    assert (result.status, result.value) == ("failed", None)
    assert isinstance(result.error, ramet.RametError)
    assert result.error.code == "result-not-json-safe"
    assert '$["set"]' in str(result.error)
    assert run_of(stage).status == "failed"


@pytest.mark.anyio
async def test_what_a_script_raises_is_in_the_result_and_in_the_journal(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        raise ValueError("of the script")

    result = await run_script(stage, main)
    assert result.status == "failed"
    assert isinstance(result.error, ValueError)
    end = json.loads(of(stage.log(result.run), Journaled)[-1].data)
    assert end["error"] == {"code": "unclassified", "message": "of the script"}


@pytest.mark.anyio
async def test_a_script_that_exits_fails_its_run_and_not_the_process(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        raise SystemExit(0)

    result = await run_script(stage, main)
    assert isinstance(result.error, ramet.RametError)
    assert result.error.code == "script-exited"
    assert run_of(stage).status == "failed"


@pytest.mark.anyio
async def test_a_run_that_a_limit_stopped_says_so_also_out_of_a_group(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                await flow.agent("x", spec=ORACLE, limits=Limits(requests=1))

            group.start_soon(ask)

    model = ScriptedModel({"oracle": [step("no reply")]})
    result = await run_script(stage, main, model)
    assert result.status == "stopped"
    assert isinstance(result.error, AgentStoppedError)


@pytest.mark.anyio
async def test_input_and_words_are_checked_before_anything(stage: Stage) -> None:
    async def main(flow: Flow) -> Any: ...

    with pytest.raises(UsageError):
        await run_script(stage, main, data={1})
    with pytest.raises(UsageError, match="texts"):
        await run_script(stage, main, args=[3])  # type: ignore[list-item]
    assert stage.entries == []


# -- runs that are found again ---------------------------------------------------------


@pytest.mark.anyio
async def test_runs_are_found_among_other_roots_oldest_first(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return 1

    first = await run_script(stage, main)
    async with stage.open(specs=(LEAD, BOSS)) as supervisor:
        other = await supervisor.start_root(LEAD, interactive=True)
        run = ScriptRun(supervisor, script_of(main))
        root = await run.begin()
    reader = stage.reader()
    found = [(run.id, run.status) for run in runs(reader)]
    assert found == [(first.run, "completed"), (root.id, None)]
    with pytest.raises(ReplayRefusedError, match="no run of a script") as caught:
        read_run(reader, other.id)
    assert caught.value.code == "source-run-unusable"
    reader.close()


@pytest.mark.anyio
async def test_a_run_is_taken_up_while_nobody_has_it(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return 1

    copy = await begun(stage, main)
    async with copy.open(specs=(BOSS,)) as supervisor:
        run = ScriptRun(supervisor, script_of(main))
        root = await run.take_up(run_of(copy))
        with pytest.raises(SessionHeldError):
            await run.take_up(run_of(copy))
        result = await run.finish(root)
    assert result.value == 1
    kinds = [event.kind for event in of(copy.log(result.run), Journaled)]
    assert kinds == ["run.started", "run.resumed", "run.ended"]


@pytest.mark.anyio
async def test_a_root_with_a_mind_of_its_own_may_be_woken(stage: Stage) -> None:
    scout = AgentSpec("finder", policy={"report_delivery": "wakeup"})

    async def main(flow: Flow) -> Any:
        child = await flow.spawn("look", spec=scout)
        await child.outcome()
        await flow.root.wait_idle()
        return (await flow.supervisor.usage(flow.root.id)).own.requests

    lead = AgentSpec("lead", policy={"notices": "quiet"})
    model = ScriptedModel(
        {
            "finder": [step(calls=[call("report", output="x")]), step("done")],
            "lead": [step("I heard")],
        }
    )
    async with stage.open(model, specs=(lead, SCOUT)) as supervisor:
        run = ScriptRun(supervisor, ScriptFile("s", "d", main, lead))
        result = await run.finish(await run.begin())
    assert result.value == 1
