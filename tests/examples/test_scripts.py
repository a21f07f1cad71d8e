"""The example scripts, each run by the command with a mind that a test holds."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramet import Call, FunctionModel, ModelRequest, ModelResponse, UserMessage
from ramet.lifecycle import models
from ramet.lifecycle.cli import main as ramet
from tests.lifecycle.minds import results_in

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

Mind = Callable[[str, str, ModelRequest], ModelResponse]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which this process stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    return tmp_path


def reply(value: Any) -> ModelResponse:
    return calls("reply", value=value)


def calls(tool: str, **arguments: Any) -> ModelResponse:
    call = Call(tool, json.dumps(arguments))
    return ModelResponse("", (call,), "tool_calls")


def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mind: Mind,
    *words: str,
) -> tuple[Any, list[str]]:
    """Run an example; gives its result, and the prompts that its agents were asked."""
    asked: list[str] = []

    async def answer(request: ModelRequest) -> ModelResponse:
        said = [one for one in request.messages if isinstance(one, UserMessage)]
        prompt = said[-1].blocks[-1]
        asked.append(prompt)
        return mind(request.name, prompt, request)

    monkeypatch.setattr(models, "resolve_model", lambda name: FunctionModel(answer))
    name, *rest = words
    capsys.readouterr()
    status = ramet(["run", str(EXAMPLES / name), "--model", "test", *rest])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out), asked


@pytest.mark.parametrize("verdict", ["approve", "change", "reject"])
def test_a_review_is_routed_by_its_verdict(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
) -> None:
    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        if name == "writer":
            return ModelResponse("Multiply.")
        return reply(verdict)

    found, asked = run(monkeypatch, capsys, mind, "review.py", "--input", '"x = 1"')
    assert (found["verdict"], found["verdicts"]) == (verdict, [verdict] * 2)
    notes = {"approve": "It is merged.", "change": "Multiply."}
    assert found["note"] == notes.get(verdict, "It is closed.")
    assert len(asked) == (3 if verdict == "change" else 2)


def test_reviewers_who_differ_are_decided_by_a_third(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first: list[str] = []

    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        if "another" in prompt:
            return reply("reject")
        first.append(prompt)
        return reply("approve" if len(first) == 1 else "change")

    found, asked = run(monkeypatch, capsys, mind, "review.py")
    assert sorted(found["verdicts"]) == ["approve", "change"]
    assert (found["verdict"], len(asked)) == ("reject", 3)


def test_files_are_summed_up_and_more_of_them_do_not_read_the_others_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (here / name).write_text(f"This is {name}.")

    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        return ModelResponse(f"sum of {prompt.splitlines()[-1]}")

    words = ("map_reduce.py", "--", "a.md", "nowhere.md", "b.md")
    found, asked = run(monkeypatch, capsys, mind, *words)
    assert found["summaries"] == {
        "a.md": "sum of This is a.md.",
        "b.md": "sum of This is b.md.",
    }
    assert found["without"] == ["nowhere.md"]
    assert found["whole"].startswith("Label: whole\nStatus: completed\n")
    assert len(asked) == 3
    resume = ("--resume", "map_reduce", "--allow-changed-source")
    more, asked = run(
        monkeypatch,
        capsys,
        mind,
        "map_reduce.py",
        *resume,
        "--",
        "a.md",
        "b.md",
        "c.md",
    )
    assert list(more["summaries"]) == ["a.md", "b.md", "c.md"]
    assert more["without"] == []
    assert [one.splitlines()[-1] for one in asked] == [
        "This is c.md.",
        "c.md: sum of This is c.md.",
    ]


def test_researchers_report_while_they_work_and_so_do_their_helpers(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        tools = {tool.name for tool in request.tools}
        done = len(results_in(request))
        if name == "helper":
            assert "report" in tools
            report = calls("report", output="it is small")
            return ModelResponse("done") if done else report
        asked = [
            block
            for one in request.messages
            if isinstance(one, UserMessage)
            for block in one.blocks
        ]
        steps = [calls("report", output=f"first: {asked[0]}")]
        if "moon" in asked[0]:
            assert "agent" in tools
            steps.append(
                calls("agent", agent="helper", prompt="how small?", mode="start")
            )
            told.extend(one for one in asked if "it is small" in one)
        if any(one.startswith("Report one thing more") for one in asked):
            steps.append(calls("report", output="more"))
        return steps[done] if done < len(steps) else ModelResponse("done")

    found, _ = run(
        monkeypatch, capsys, mind, "researchers.py", "--", "the moon", "rain"
    )
    assert set(found["topics"]) == {"the moon", "rain"}
    for topic, one in found["topics"].items():
        assert one["first"] == "completed"
        assert one["reports"] == [f"first: Find out about {topic}.", "more"]
    assert told


@pytest.mark.parametrize("word", ["yes", "no"])
def test_an_agent_waits_for_a_person_who_answers_through_a_pipe(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
) -> None:
    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        results = results_in(request)
        if not results:
            return calls("ask_person", question="May we?")
        return reply(results[-1].content)

    os.mkfifo(here / "leave")

    def person() -> None:
        # Opening waits for the reader.
        with open(here / "leave", "w") as pipe:
            pipe.write(f"{word}\n")

    answering = threading.Thread(target=person)
    answering.start()
    found, _ = run(monkeypatch, capsys, mind, "approval.py")
    answering.join(timeout=30)
    assert found == {"plan": "remove the old files", "allowed": word == "yes"}
    assert not (here / "leave").exists()


def test_a_team_is_still_there_the_next_day_and_does_nothing_twice(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        if request.step:
            return ModelResponse("done")
        return calls("report", output=f"{name}: {prompt.splitlines()[-1]}")

    store = ("team.py", "--store", "team.db")
    first, asked = run(monkeypatch, capsys, mind, *store, "--", "rain")
    assert [one["task"] for one in first["done"]] == ["rain"]
    assert first["done"][0]["text"] == "writer: Please write rain."
    assert len(set(asked)) == 3
    words = (*store, "--resume", "team", "--allow-changed-source", "--")
    second, asked = run(monkeypatch, capsys, mind, *words, "rain", "snow")
    assert (second["writer"], second["editor"]) == (first["writer"], first["editor"])
    assert second["done"][0] == first["done"][0]
    assert second["done"][1]["text"] == "writer: Please write snow."
    assert all("snow" in prompt for prompt in asked)
