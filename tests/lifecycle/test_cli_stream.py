"""`--output-format stream-json`: a line for whatever happens, and the result last."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

import ramet as ramet_module
from ramet import ModelRequest, ModelResponse, SqliteReader
from ramet.lifecycle.cli import main as ramet
from ramet.lifecycle.cli_stream import JsonLines
from ramet.mailbox.events import Ended, Journaled
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.commands import started
from tests.lifecycle.test_cli_run import here, named, script

__all__ = ["here"]

TYPES = (
    "started ended turn delta step tool_result message outcome budget phase log call"
    " result"
).split()

FAMILY = """
import ramet
from ramet.testing import ScriptedModel, call, step

async def look(place: str) -> str:
    "Look."
    raise ValueError(place)

SCOUT = ramet.AgentSpec("scout", tools=[look])
specs = [SCOUT]
policy = ramet.Policy(nudges=0)
usage = ramet.Usage(1, 10, 2)
model = ScriptedModel({
    "scout": [
        step("I look at the wall.", [call("look", place="wall")], usage=usage),
        step("", [call("report", output="moss")]),
        step("That was all there is to say of it."),
    ],
    "oracle": [step("First I think about it.", [call("reply", value=["é"])])],
    "short": [step("I do not reply.")],
}, stream=True)

async def main(flow):
    flow.phase("look")
    child = await flow.spawn("Look.", spec=SCOUT)
    await child.outcome()
    flow.log("seen")
    limits = ramet.Limits(requests=1)
    spec = ramet.AgentSpec("short", policy={"nudges": 3})
    try:
        await flow.agent("Well?", spec=spec, limits=limits)
    except ramet.AgentStoppedError:
        pass
    return await flow.agent("Well?", spec=ramet.AgentSpec("oracle"))
"""


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.case("A-184", "A-185", "A-068")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_thing_that_happens_is_one_line_and_the_result_the_last(
    here: Path, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", script(here, FAMILY), "--output-format", "stream-json"]
    assert ramet([*words, "--backend", backend]) == 0
    lines = lines_of(capsys.readouterr().out)
    assert {line["type"] for line in lines} == {*TYPES}
    assert all(line["session_id"].startswith("s") for line in lines)
    assert [line["type"] for line in lines].index("result") == len(lines) - 1
    assert lines[-1]["result"] == ["é"]
    for line in lines:
        assert ("seq" in line) is (line["type"] not in ("delta", "result"))
    told = [json.dumps(line) for line in lines if "seq" in line]
    assert len(set(told)) == len(told)
    _check_order(lines)
    _check_deltas(here, lines)
    found = {line["type"]: line for line in lines}
    assert found["phase"]["name"] == "look"
    said = [line["text"] for line in lines if line["type"] == "log"]
    assert "seen" in said
    calls = [line["event"] for line in lines if line["type"] == "call"]
    assert calls == ["queued", "started", "ended"] * 2
    assert found["budget"]["axis"] == "requests"
    started_ = [line for line in lines if line["type"] == "started"]
    assert [(one["name"], one["kind"], one["depth"]) for one in started_] == [
        ("job", "interactive", 0),
        ("scout", "continuable", 1),
        ("short", "oneshot", 1),
        ("oracle", "oneshot", 1),
    ]
    root = started_[0]["session_id"]
    assert [one["parent"] for one in started_] == [None, root, root, root]
    assert lines[-1]["session_id"] == root


def _check_order(lines: list[dict[str, Any]]) -> None:
    last: dict[str, int] = {}
    for line in lines:
        if "seq" in line:
            assert line["seq"] >= last.get(line["session_id"], 0)
            last[line["session_id"]] = line["seq"]
    scout = next(line["session_id"] for line in lines if line.get("name") == "scout")
    own = [line for line in lines if line["session_id"] == scout]
    kinds = [line["type"] for line in own if line["type"] != "delta"]
    whole = "started turn message step tool_result step tool_result step turn"
    assert kinds == [*whole.split(), "outcome", "ended"]
    result, sent = (line for line in own if line["type"] == "tool_result")
    assert (result["name"], result["code"]) == ("look", "TOOL_FAILED")
    assert (sent["name"], sent["code"]) == ("report", None)
    steps = [line for line in own if line["type"] == "step"]
    assert steps[0]["calls"][0]["arguments"] == '{"place":"wall"}'
    assert steps[0]["usage"]["input_tokens"] == 10
    assert steps[2]["usage"] is None
    (outcome,) = [line for line in own if line["type"] == "outcome"]
    message = next(line for line in own if line["type"] == "message")
    assert message["source"] == "prompt"
    assert outcome["message_id"] == message["message_id"]
    assert (outcome["status"], outcome["cause"]) == ("completed", None)
    heard = [line for line in lines if line["type"] == "message"]
    assert {"report", "notice"} <= {line["source"] for line in heard}


def _check_deltas(folder: Path, lines: list[dict[str, Any]]) -> None:
    streamed: dict[tuple[Any, ...], str] = {}
    for line in lines:
        place = (line["session_id"], line.get("turn"), line.get("step"))
        if line["type"] == "delta":
            streamed[place] = streamed.get(place, "") + line["text"]
        elif line["type"] == "step":
            assert streamed.pop(place, "") == line["text"]
    assert streamed == {}
    assert sum(line["type"] == "delta" for line in lines) > 6
    # No delta is in a log: the text is there once, whole.
    reader = SqliteReader(folder / "ramet.db")
    for session in {line["session_id"] for line in lines}:
        kinds = [type(event).__name__ for event in reader.load(session)]
        assert "Delta" not in "".join(kinds)
    reader.close()


@pytest.mark.case("A-185")
@pytest.mark.anyio
async def test_what_was_kept_of_a_text_that_was_cut_is_what_was_streamed() -> None:
    written: list[str] = []
    lines = JsonLines(written.append)
    gate = Gate()
    raw: list[Any] = [
        ramet_module.TextDelta("Once upon "),
        ramet_module.TextDelta("a ti"),
        gate,
    ]
    model = ScriptedModel({"lead": [step(raw=raw)]}, stream=True)
    async with ramet_module.open(":memory:", model=model) as sup:
        sup.observe(lines)
        root = await sup.start_root(ramet_module.AgentSpec("lead"), interactive=True)
        await sup.tell(root, "a story")
        await gate.reached()
        sup.interrupt(root.id)
        await root.wait_idle()
    found = lines_of("\n".join(written))
    streamed = "".join(line["text"] for line in found if line["type"] == "delta")
    (kept,) = [line for line in found if line["type"] == "step"]
    assert (kept["text"], kept["cut"]) == (streamed, True) == ("Once upon a ti", True)
    ended = [line for line in found if line["type"] == "turn"][-1]
    assert (ended["status"], ended["cause"]) == ("cancelled", "interrupted")


@pytest.mark.anyio
@pytest.mark.case("A-184")
async def test_of_an_agent_that_converses_every_assignment_has_its_outcome() -> None:
    """One that a limit stopped, and one that a cancel discarded."""
    written: list[str] = []
    lines = JsonLines(written.append)
    hold = Gate()
    model = ScriptedModel({"lead": [step("one"), step("two", hold=hold)]})
    limits = ramet_module.Limits(requests=2)
    spec = ramet_module.AgentSpec("lead", limits=limits)
    async with ramet_module.open(":memory:", model=model) as sup:
        sup.observe(lines)
        root = await sup.start_root(spec, interactive=True)
        await sup.tell(root, "1")
        await root.wait_idle()
        ids = [await sup.tell(root, text) for text in "234"]
        await hold.reached()
        hold.open()
        await root.wait_idle()
        late = ramet_module.FunctionModel(sleeping)
        other = await sup.start_root(
            ramet_module.AgentSpec("late", model=late), interactive=True
        )
        ids += [await sup.tell(other, text) for text in "56"]
        await sup.cancel(other)
    found = lines_of("\n".join(written))
    outcomes = {
        line["message_id"]: (line["status"], line["cause"], line["axis"])
        for line in found
        if line["type"] == "outcome"
    }
    stopped = ("stopped", "request-budget", "requests")
    cancelled = ("cancelled", "cancelled", None)
    assert list(map(outcomes.get, ids)) == [
        *(("completed", None, None), stopped, stopped),
        *(cancelled, cancelled),
    ]
    budgets = [line["axis"] for line in found if line["type"] == "budget"]
    assert budgets == ["requests", "requests"]


async def sleeping(request: ModelRequest) -> str:
    await anyio.sleep_forever()
    raise AssertionError


def test_of_a_session_that_is_not_known_from_its_beginning_nothing_is_told() -> None:
    written: list[str] = []
    lines = JsonLines(written.append)
    lines.on_event("s", 7, Ended("settled", True, 1))
    assert written == []


@pytest.mark.case("A-184")
def test_a_resumed_run_tells_only_what_is_new(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    import os, pathlib, signal
    import anyio
    import ramet
    from ramet.testing import ScriptedModel, call, step
    reply = step(calls=[call("reply", value=1)])
    model = ScriptedModel({"oracle": [reply], "again": [reply]})

    async def main(flow):
        await flow.agent("One", spec=ramet.AgentSpec("oracle"))
        if not pathlib.Path("go").exists():
            os.kill(os.getpid(), signal.SIGINT)
            await anyio.sleep_forever()
        return await flow.agent("Two", spec=ramet.AgentSpec("again"))
    """
    name = script(here, text)
    assert ramet(["run", name, "--output-format", "stream-json"]) == 130
    first = lines_of(capsys.readouterr().out)
    (here / "go").touch()
    assert ramet(["resume", "--output-format", "stream-json"]) == 0
    second = lines_of(capsys.readouterr().out)
    places = [
        (line["session_id"], line["seq"], line["type"])
        for line in first + second
        if "seq" in line
    ]
    assert len(set(places)) == len(places)
    assert [line["type"] for line in second][-1] == "result"
    assert second[-1]["result"] == 1
    names = [line["name"] for line in second if line["type"] == "started"]
    assert names == ["job", "again"]


@pytest.mark.case("A-065", "A-184")
def test_a_reader_that_goes_away_ends_the_printing_and_not_the_run(
    here: Path,
) -> None:
    os.mkfifo(here / "gate")
    text = FAMILY.replace(
        'flow.phase("look")', 'await anyio.to_thread.run_sync(open("gate").read)'
    )
    name = script(here, f"import anyio\n{text}")
    running = started("run", name, "--output-format", "stream-json", cwd=here)
    assert running.stdout is not None
    first = json.loads(running.stdout.readline())
    assert first["type"] == "started"
    running.stdout.close()
    running.stdout = None
    (here / "gate").write_text("go on")
    running.communicate(timeout=60)
    assert running.returncode == 1
    reader = SqliteReader(here / "ramet.db")
    last = reader.load(first["session_id"])[-2:]
    reader.close()
    assert isinstance(last[0], Journaled)
    assert (last[0].kind, type(last[1])) == ("run.ended", Ended)


def test_nothing_is_written_after_a_write_that_failed() -> None:
    asked: list[str] = []

    def write(line: str) -> None:
        asked.append(line)
        raise BrokenPipeError

    lines = JsonLines(write)
    lines.on_delta("s", 1, 0, "a")
    lines.on_delta("s", 1, 0, "b")
    assert len(asked) == 1
    assert isinstance(lines.failure, BrokenPipeError)


@pytest.mark.case("A-184")
def test_a_prompt_streams_too(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def mind(request: ModelRequest) -> ModelResponse:
        return ModelResponse("", (call("reply", value="a\ud800"),))

    named(monkeypatch, ramet_module.FunctionModel(mind))
    words = ["run", "--prompt", "x", "--model", "test"]
    assert ramet([*words, "--output-format", "stream-json"]) == 0
    out = capsys.readouterr().out
    out.encode("utf-8")
    lines = lines_of(out)
    assert lines[-1]["result"] == "a\ud800"
    assert [line["type"] for line in lines if line["type"] in ("step", "outcome")] == [
        "step",
        "outcome",
    ]
