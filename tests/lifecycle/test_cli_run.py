"""`ramet run` and `ramet resume`: what goes where, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ramet import FunctionModel, Model, ModelRequest, SqliteReader, SqliteStore, Usage
from ramet.lifecycle import models
from ramet.lifecycle.cli import main as ramet
from ramet.lifecycle.runs import runs
from ramet.testing import ScriptedModel, call, step
from tests.lifecycle.commands import command, environment, make_cut, started

ECHO = """
async def main(flow):
    return {"input": flow.input, "args": list(flow.args)}
"""

ASKS = """
import ramet
from ramet.testing import ScriptedModel, call, step

usage = ramet.Usage(1, 10, 2)
reply = step(calls=[call("reply", value="yes")], usage=usage)
model = ScriptedModel({"oracle": [reply]})

async def main(flow):
    return await flow.agent("well?", spec=ramet.AgentSpec("oracle"))
"""

WAITS = """
import anyio
from pathlib import Path
import ramet

async def mind(request):
    if not Path("go").exists():
        await anyio.sleep_forever()
    return ramet.ModelResponse("", (ramet.Call("reply", '{"value": "late"}'),))

model = ramet.FunctionModel(mind)

async def main(flow):
    try:
        return await flow.agent("well?", spec=ramet.AgentSpec("oracle"))
    except ramet.OutcomeError:
        return "a script must not see that it was interrupted"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which this process stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    return tmp_path


def script(folder: Path, text: str, name: str = "job.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return name


def named(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    """Let `--model test` mean this model."""

    def resolve(name: str) -> Model:
        assert name == "test"
        return model

    monkeypatch.setattr(models, "resolve_model", resolve)


def replying(*values: Any) -> ScriptedModel:
    usage = Usage(1, 10, 2)
    return ScriptedModel(
        {"agent": [step(calls=[call("reply", value=v)], usage=usage) for v in values]}
    )


# -- what goes where -------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_result_is_alone_on_standard_output(
    here: Path, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ramet(["run", script(here, ASKS), "--backend", backend]) == 0
    out, err = capsys.readouterr()
    assert out == "yes\n"
    assert re.search(r"ramet: run s\w+ in ramet\.db; `ramet ps` shows it", err)
    assert "oracle  is asked: well?" in err
    assert 'oracle  replies "yes"' in err
    assert (here / "ramet.db").exists()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_what_a_script_prints_goes_to_standard_error(
    here: Path, backend: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ASKS.replace("    return", "    print('in main')\n    return")
    name = script(here, "print('at the top')\n" + text)
    assert ramet(["run", name, "--backend", backend, "--output-format", form]) == 0
    out, err = capsys.readouterr()
    assert "at the top\n" in err
    assert "in main\n" in err
    if form == "text":
        assert out == "yes\n"
    elif form == "json":
        assert json.loads(out)["result"] == "yes"
    else:
        found = [json.loads(line) for line in out.splitlines()]
        assert (found[-1]["type"], found[-1]["result"]) == ("result", "yes")
    assert ramet(["resume", found_run(here)]) == 0
    assert capsys.readouterr().out == "yes\n"


def found_run(folder: Path) -> str:
    """The id of the only run in the store of a folder."""
    reader = SqliteReader(folder / "ramet.db")
    with contextlib.closing(reader):
        (run,) = runs(reader)
    return run.id


@pytest.mark.case("A-068")
def test_json_output_is_one_document(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, ASKS)
    assert ramet(["run", name, "--output-format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["type"], document["subtype"]) == ("result", "success")
    assert document["result"] == "yes"
    assert document["usage"]["input_tokens"] == 10
    assert document["num_turns"] == 0


def test_input_and_words_reach_the_script(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", script(here, ECHO), "--input", '{"a": [1]}', "--store", "x.db"]
    assert ramet([*words, "--", "--store", "y", "--", "z"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "input": {"a": [1]},
        "args": ["--store", "y", "--", "z"],
    }
    assert ramet(["run", "job.py", "--"]) == 0
    assert json.loads(capsys.readouterr().out) == {"input": None, "args": []}


def test_a_script_that_gives_nothing_prints_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, "async def main(flow): ...\n")
    assert ramet(["run", name]) == 0
    assert capsys.readouterr().out == ""
    assert ramet(["run", name, "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run"], "needs a script, or --prompt"),
        (["run", "job.py", "--prompt", "x"], "and not both"),
        (["run", "--prompt", "  "], "the prompt is blank"),
        (["run", "--prompt", "x"], "needs --model NAME, for example --model local"),
        (["run", " "], "blank"),
        (["run", "none.py"], "none.py cannot be read: No such file"),
        (["run", "job.py", "--input", "{"], "--input is not JSON"),
        (["run", "job.py", "--input", '{"a":1,"a":2}'], "--input is not JSON"),
        (["run", "job.py", "--model", "bogus"], "names no model"),
        (["run", "job.py", "extra"], "has no 'extra'"),
        (["run", "job.py", "--backend", "curio"], "invalid choice"),
        (["run", "job.py", "--store", ""], "--store needs"),
        (["run", "--prompt", "x", "--", "y"], "belong to a script"),
        (["run", "--prompt", "x", "--input", "1"], "--input belongs to a script"),
        (["run", "--prompt", "x", "--resume", "s"], "--resume belongs to a script"),
    ],
)
@pytest.mark.case("A-066")
def test_wrong_words_end_with_2_and_make_nothing(
    here: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script(here, ECHO)
    assert ramet(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert err.count("\n") == 1
    assert os.listdir(here) == ["job.py"]


# -- how a script ends -----------------------------------------------------------------


def test_a_script_that_raises_ends_with_1_and_shows_where(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "async def main(flow):\n    raise ValueError('of mine')\n"
    assert ramet(["run", script(here, text)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "the run failed, since its script raised ValueError" in err
    assert "line 2, in main" in err


def test_a_call_that_fails_ends_with_1_and_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "async def main(flow):\n    await flow.agent('x')\n"
    name = script(here, text)
    assert ramet(["run", name, "--output-format", "json"]) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["is_error"] is True
    assert document["error"]["code"] == "unclassified"
    assert "no model was given" in err
    assert "Traceback" not in err


def test_a_run_that_a_limit_stopped_ends_with_3(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    import ramet
    from ramet.testing import ScriptedModel, step
    model = ScriptedModel({"agent": [step("prose")]})
    async def main(flow):
        await flow.agent("x", limits=ramet.Limits(requests=1))
    """
    name = script(here, text)
    assert ramet(["run", name, "--output-format", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["subtype"] == "error_max_turns"


CROWD = """
import ramet
from ramet.testing import ScriptedModel, call, step
model = ScriptedModel({"agent": [step(calls=[call("reply", value=1)])] * 9})
limits = ramet.Limits(agents=5, requests=7)
async def main(flow):
    flow.log(str(flow.limits))
    return [await flow.agent("x") for _ in range(3)]
"""


@pytest.mark.case("A-143", "A-153")
def test_a_run_says_its_limits_and_is_stopped_by_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, CROWD)
    words = ["run", name, "--limit", "agents=2", "--limit", "call_s=60"]
    assert ramet([*words, "--output-format", "json"]) == 3
    out, err = capsys.readouterr()
    stated = (
        "concurrency=unbounded (default), agents=2 (--limit),"
        " start_deadline_s=unbounded (default), call_s=60.0 (--limit),"
        " tool_calls=unbounded (default), requests=7 (script)"
    )
    assert f"limits: {stated}" in err
    assert "the limit agents=2 of the run is spent; what was finished" in err
    document = json.loads(out)
    assert document["subtype"] == "error_max_agents"
    assert document["budget"]["agents"] == 2
    assert document["budget"]["requests"] == 7
    assert document["budget"]["concurrency"] == "unbounded"
    assert ramet(["log", document["session_id"], "--json"]) == 0
    log = capsys.readouterr().out
    assert stated in log
    assert log.count("call_s=60.0") >= 1
    again = ["run", name, "--resume", document["session_id"], "--limit", "agents=9"]
    assert ramet(again) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [1, 1, 1]
    assert "agents=9 (--limit)" in err


@pytest.mark.case("A-143")
def test_one_agent_says_its_limits_and_keeps_to_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named(monkeypatch, ScriptedModel({"agent": [step("prose")] * 4}))
    words = ["run", "--prompt", "x", "--model", "test", "--limit", "requests=2"]
    assert ramet([*words, "--output-format", "json"]) == 3
    out, err = capsys.readouterr()
    assert "requests=2 (--limit)" in err
    document = json.loads(out)
    assert document["budget"]["requests"] == 2
    assert ramet(["log", document["session_id"], "--json"]) == 0
    assert "requests=2 (--limit)" in capsys.readouterr().out


@pytest.mark.case("A-142")
def test_a_limit_that_does_not_exist_is_a_wrong_use(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, ECHO)
    assert ramet(["run", name, "--limit", "tokens=1"]) == 2
    assert "there is no limit 'tokens'" in capsys.readouterr().err


@pytest.mark.case("A-162")
def test_a_result_that_is_not_json_ends_with_1(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, "async def main(flow):\n    return {1, 2}\n")
    assert ramet(["run", name]) == 1
    assert "[result-not-json-safe]" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.case("A-065")
def test_a_result_that_cannot_be_written_is_no_success(here: Path) -> None:
    name = script(here, ECHO)
    with open("/dev/full", "w") as full:
        running = started("run", name, cwd=here, stdout=full.fileno())
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "the result cannot be written" in err


# -- one agent -------------------------------------------------------------------------


@pytest.mark.case("A-067")
def test_one_agent_is_asked_and_its_value_rendered(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named(monkeypatch, replying("line\n two", {"b": 1, "a": 2}, ""))
    for shown in ("line\n two\n", '{\n  "a": 2,\n  "b": 1\n}\n', ""):
        assert ramet(["run", "--prompt", "x", "--model", "test"]) == 0
        assert capsys.readouterr().out == shown


@pytest.mark.case("A-062")
def test_one_agent_without_a_reply_ends_with_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named(monkeypatch, ScriptedModel({"agent": [step("prose")] * 4}))
    words = ["run", "--prompt", "x", "--model", "test", "--output-format", "json"]
    assert ramet(words) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["stop_reason"], document["num_turns"]) == ("no_reply", 4)
    assert "the run failed: failed (no-reply)" in err


# -- signals ---------------------------------------------------------------------------


@contextlib.contextmanager
def waiting(
    folder: Path, *words: str, text: str = WAITS
) -> Iterator[subprocess.Popen[str]]:
    """A run whose agent waits for its model for ever."""
    running = started(
        "run", script(folder, text), "--store", "s.db", *words, cwd=folder
    )
    assert running.stderr is not None
    try:
        until(running, "is asked")
        yield running
    finally:
        running.kill()
        running.communicate()


def until(running: subprocess.Popen[str], text: str) -> None:
    """Read what a process says until it says this."""
    assert running.stderr is not None
    for line in running.stderr:
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")


@pytest.mark.case("A-064")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_brings_to_rest_and_the_run_can_be_resumed(
    here: Path, backend: str, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--backend", backend, "--output-format", "json")
    with waiting(here, *words) as running:
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    document = json.loads(out)
    assert document["stop_reason"] == "interrupted"
    assert document["error"]["code"] == "interrupted"
    assert f"{number.name}: bringing every agent to rest" in err
    assert (
        f"`ramet resume {document['session_id']} --store s.db` goes on with it" in err
    )
    assert ramet(["ps", "--store", "s.db"]) == 0
    assert "cut" not in capsys.readouterr().out
    (here / "go").touch()
    assert ramet(["resume", "--store", "s.db"]) == 0
    assert capsys.readouterr().out == "late\n"


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_goes_away_leaves_a_run_that_can_be_resumed(
    here: Path, ignored: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets SIGHUP, and its screen is gone; `nohup` has it go on instead."""
    name = script(here, WAITS.replace("if not", "Path('asked').touch()\n    while not"))
    (here / name).write_text(
        (here / name).read_text().replace("sleep_forever()", "sleep(0.01)")
    )
    ours, theirs = pty.openpty()

    def prepare() -> None:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    running = subprocess.Popen(
        [sys.executable, "-m", "ramet", "run", name],
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        preexec_fn=prepare,
    )
    os.close(theirs)
    try:
        while b"limits" not in os.read(ours, 65536):
            pass
        os.close(ours)
        running.send_signal(signal.SIGHUP)
        if ignored:
            (here / "go").touch()
        out, _ = running.communicate(timeout=30)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == (0 if ignored else 130)
    if ignored:
        assert out == b"late\n"
        return
    (here / "go").touch()
    assert ramet(["resume"]) == 0
    assert capsys.readouterr().out == "late\n"


STUBBORN = """
import sys
import anyio
import ramet

async def mind(request):
    print("it thinks", file=sys.stderr, flush=True)
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()

model = ramet.FunctionModel(mind)

async def main(flow):
    return await flow.agent("well?", spec=ramet.AgentSpec("oracle"))
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_second_signal_gives_up_and_the_third_ends_the_process(
    here: Path, backend: str
) -> None:
    running = started("run", script(here, STUBBORN), "--backend", backend, cwd=here)
    try:
        until(running, "it thinks")
        running.send_signal(signal.SIGINT)
        until(running, "bringing every agent to rest")
        running.send_signal(signal.SIGINT)
        until(running, "giving up on oracle")
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == -signal.SIGINT
    finally:
        running.kill()
        running.communicate()


@pytest.mark.case("A-064")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_agent_that_is_interrupted_ends_with_130(
    here: Path,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def mind(request: ModelRequest) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
        raise AssertionError

    named(monkeypatch, FunctionModel(mind))
    words = ["run", "--prompt", "x", "--model", "test", "--output-format", "json"]
    assert ramet([*words, "--backend", backend]) == 130
    document = json.loads(capsys.readouterr().out)
    assert document["stop_reason"] == "interrupted"
    assert document["subtype"] == "error_during_execution"


def test_a_script_whose_agent_was_cancelled_failed_and_was_not_interrupted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WAITS.replace("except ramet.OutcomeError", "except ZeroDivisionError")
    text = text.replace(
        "async def mind(request):",
        "async def mind(request):\n"
        "    await FLOW[0].supervisor.cancel(request.session_id, grace_s=0)",
    ).replace("    try:\n", "    FLOW.append(flow)\n    try:\n")
    assert ramet(["run", script(here, "FLOW = []\n" + text)]) == 1
    assert "the run failed: cancelled" in capsys.readouterr().err


# -- resume ----------------------------------------------------------------------------


def test_resume_without_a_store_or_without_a_run_says_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ramet(["resume"]) == 1
    assert "there is no store" in capsys.readouterr().err
    assert os.listdir(here) == []
    assert ramet(["run", script(here, ECHO)]) == 0
    capsys.readouterr()
    assert ramet(["resume"]) == 2
    assert "no run in this store waits" in capsys.readouterr().err


def killed(folder: Path, *words: str) -> None:
    """A run of which only the store is left."""
    with waiting(folder, *words) as running:
        running.kill()
        running.wait(timeout=30)


def test_resume_goes_on_with_the_input_and_the_words_of_the_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WAITS.replace(
        "    try:\n", "    assert flow.args == ('x',) and flow.input == 7\n    try:\n"
    )
    running = started(
        "run", script(here, text), "--store", "s.db", "--input", "7",
        "--backend", "trio", "--", "x", cwd=here,
    )  # fmt: skip
    until(running, "is asked")
    running.kill()
    running.communicate()
    (here / "go").touch()
    assert ramet(["resume", "--store", "s.db", "--output-format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["result"] == "late"
    for form, shown in (("text", "late\n"), ("json", '"result": "late"')):
        words = ["resume", document["session_id"], "--store", "s.db"]
        assert ramet([*words, "--output-format", form]) == 0
        out, err = capsys.readouterr()
        assert shown in out
        assert "had completed: this is its result" in err


def test_several_open_runs_are_listed_and_one_can_be_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(here)
    killed(here)
    assert ramet(["resume", "--store", "s.db"]) == 2
    err = capsys.readouterr().err
    assert "several runs wait to be resumed, name one" in err
    first, second = re.findall(r"(s\w+) \(job\.py\)", err)
    (here / "go").touch()
    assert ramet(["run", "job.py", "--resume", first, "--store", "s.db"]) == 0
    assert ramet(["resume", "--store", "s.db"]) == 0
    out, err = capsys.readouterr()
    assert out == "late\nlate\n"
    assert second in err


@pytest.mark.case("A-171")
def test_a_changed_script_is_refused_unless_it_is_allowed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(here)
    (here / "go").touch()
    script(here, WAITS.replace("late", "changed"))
    assert ramet(["resume", "--store", "s.db"]) == 1
    assert "[target-changed]" in capsys.readouterr().err
    words = ["resume", "--store", "s.db", "--allow-changed-source"]
    assert ramet(words) == 0
    assert capsys.readouterr().out == "changed\n"


def test_a_root_that_is_called_something_else_is_not_taken_up(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(here)
    script(here, WAITS + "root = ramet.AgentSpec('other')\n")
    words = ["resume", "--store", "s.db", "--allow-changed-source"]
    assert ramet(words) == 1
    err = capsys.readouterr().err
    assert "needs the spec 'job'" in err
    assert "[NOT_RESUMABLE]" in err
    assert "Traceback" not in err


def test_a_session_that_is_no_run_is_not_resumed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named(monkeypatch, replying("x"))
    ramet(["run", "--prompt", "x", "--model", "test", "--output-format", "json"])
    session = json.loads(capsys.readouterr().out)["session_id"]
    assert ramet(["resume", session]) == 1
    assert "is no run of a script: only those can" in capsys.readouterr().err


def test_a_conversation_is_not_resumed_and_it_is_said_what_goes_on_with_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = make_cut(here / "ramet.db")
    assert ramet(["resume", "lead"]) == 1
    assert f"`ramet chat --resume {ids['lead']}` goes on" in capsys.readouterr().err


def the_run(folder: Path) -> str:
    """The id of the only run in a store."""
    store = SqliteStore(folder / "s.db")
    store.open()
    with contextlib.closing(store):
        (run,) = runs(store)
    return run.id


@pytest.mark.case("A-171")
def test_another_input_is_another_target_unless_it_is_allowed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(here)
    (here / "go").touch()
    words = ["run", "job.py", "--resume", the_run(here), "--store", "s.db"]
    assert ramet([*words, "--input", "1"]) == 1
    assert "the input changed" in capsys.readouterr().err
    assert ramet([*words, "--", "word"]) == 1
    assert "the words after -- changed" in capsys.readouterr().err
    assert ramet([*words, "--input", "null"]) == 0
    assert ramet([*words, "--input", "1"]) == 1
    capsys.readouterr()
    assert ramet([*words, "--input", "1", "--allow-changed-source"]) == 0
    assert "had completed" not in capsys.readouterr().err


@pytest.mark.case("A-171")
def test_a_run_without_calls_is_not_taken_up_and_changes_are_said_first(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = script(here, "async def main(flow):\n    raise ValueError\n")
    assert ramet(["run", name, "--store", "s.db"]) == 1
    words = ["run", name, "--resume", the_run(here), "--store", "s.db"]
    capsys.readouterr()
    assert ramet(words) == 1
    assert "[no-recorded-calls]" in capsys.readouterr().err
    script(here, ECHO)
    assert ramet(words) == 1
    assert "[target-changed]" in capsys.readouterr().err
    assert ramet(["run", name, "--resume", "nothing", "--store", "s.db"]) != 0
    assert "[target-changed]" not in capsys.readouterr().err
    assert ramet(["run", name, "--store", "s.db"]) == 0


@pytest.mark.case("A-171")
def test_a_module_beside_the_script_is_a_part_of_its_identity(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "beside_the_job.py").write_text("WORD = 'one'\n")
    text = WAITS.replace("import ramet", "import beside_the_job\nimport ramet")
    with waiting(here, text=text) as running:
        running.kill()
        running.wait(timeout=30)
    (here / "go").touch()
    (here / "beside_the_job.py").write_text("WORD = 'two'\n")
    assert ramet(["resume", "--store", "s.db"]) == 1
    assert "the script (beside_the_job.py) changed" in capsys.readouterr().err
    assert ramet(["resume", "--store", "s.db", "--allow-changed-source"]) == 0


@pytest.mark.case("A-171")
def test_a_completed_run_of_another_script_is_another_target_and_can_be_gone_on_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--store", "s.db"]
    assert ramet(["run", script(here, ASKS), *words]) == 0
    more = ASKS.replace('return await flow.agent("well?"', 'await flow.agent("well?"')
    name = script(here, f'{more}    return "more"\n')
    resume = ["run", name, "--resume", "job", *words]
    capsys.readouterr()
    assert ramet(resume) == 1
    assert "[target-changed]" in capsys.readouterr().err
    assert ramet([*resume, "--allow-changed-source"]) == 0
    out, err = capsys.readouterr()
    assert out == "more\n"
    assert "is replayed" in err


def test_a_run_in_a_store_of_0_1_0_is_taken_up(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = Path(__file__).parent / "golden"
    connection = sqlite3.connect(here / "s.db")
    connection.executescript((golden / "store_0_1_0.sql").read_text(encoding="utf-8"))
    connection.close()
    named(
        monkeypatch,
        ScriptedModel({"clerk": [step(calls=[call("reply", value=9)])]}),
    )
    name = str(golden / "script_0_1_0.py")
    words = ["run", name, "--resume", "lead", "--store", "s.db"]
    assert ramet([*words, "--model", "test"]) == 0
    assert json.loads(capsys.readouterr().out)["colour"] == "green"


def test_only_a_resumed_run_is_told_to_rerun_what_is_uncertain(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ramet(["run", script(here, ECHO), "--rerun-uncertain"]) == 2
    assert "that is resumed" in capsys.readouterr().err


def test_a_run_whose_store_is_being_written_is_not_taken_up(here: Path) -> None:
    with waiting(here):
        done = command("resume", "--store", "s.db", cwd=here)
    assert done.returncode == 1
    assert "[STORE_IN_USE]" in done.stderr


# -- a terminal ------------------------------------------------------------------------


def test_a_terminal_shows_the_tree_and_leaves_it_there(here: Path) -> None:
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "ramet", "run", script(here, ASKS)],
        cwd=here,
        env=environment(COLUMNS="100"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    shown = ""
    with (
        open(ours, encoding="utf-8", newline="") as screen,
        contextlib.suppress(OSError),
    ):
        while piece := screen.read(1):
            shown += piece
    out, _ = running.communicate(timeout=30)
    assert (running.returncode, out) == (0, "yes\n")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    last = plain[plain.rindex("AGENT") :]
    assert re.search(r"oracle +gone +\d+s +1 +1 +10 +2 +replies", last)
