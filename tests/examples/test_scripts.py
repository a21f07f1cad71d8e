"""The example scripts, each run by the command with a mind that a test holds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ramet import Call, FunctionModel, ModelRequest, ModelResponse, UserMessage
from ramet.lifecycle import models
from ramet.lifecycle.cli import main as ramet
from tests.lifecycle.commands import command, started
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
            return reply("Multiply.")
        return reply(verdict)

    found, asked = run(monkeypatch, capsys, mind, "review.py", "--input", '"x = 1"')
    assert (found["verdict"], found["verdicts"]) == (verdict, [verdict] * 2)
    notes = {"approve": "It is merged.", "change": "Multiply."}
    assert found["note"] == notes.get(verdict, "It is closed.")
    assert len(asked) == (3 if verdict == "change" else 2)
    assert len(set(asked)) == len(asked)


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
        return reply(f"sum of {prompt.splitlines()[-1]}")

    words = ("map_reduce.py", "--", "a.md", "nowhere.md", "b.md")
    found, asked = run(monkeypatch, capsys, mind, *words)
    assert found["summaries"] == {
        "a.md": "sum of This is a.md.",
        "b.md": "sum of This is b.md.",
    }
    assert found["without"] == ["nowhere.md"]
    assert found["whole"] == "sum of sum of This is b.md."
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
        "sum of This is c.md.",
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


def test_files_that_cannot_be_summed_up_are_said_and_nobody_sums_up_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        raise AssertionError("nobody is asked")

    found, asked = run(monkeypatch, capsys, mind, "map_reduce.py", "--", "nowhere.md")
    assert found == {"summaries": {}, "without": ["nowhere.md"], "whole": None}
    assert asked == []


@contextlib.contextmanager
def person(word: str) -> Iterator[None]:
    """Somebody at another terminal, who answers when a pipe is there."""
    os.mkfifo("leave")

    def answers() -> None:
        # Opening waits for the reader.
        with open("leave", "w") as pipe:
            pipe.write(f"{word}\n")

    answering = threading.Thread(target=answers)
    answering.start()
    yield
    answering.join(timeout=60)


@pytest.mark.parametrize("word", ["yes", "no", "Yes", ""])
def test_what_an_agent_wants_to_do_waits_for_a_person_whose_word_alone_counts(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
) -> None:
    def mind(name: str, prompt: str, request: ModelRequest) -> ModelResponse:
        if results_in(request):
            # It is not asked what became of it.
            return ModelResponse("It was allowed, and is not on the board.")
        return calls("publish", notice="Water at six.")

    with person(word):
        found, _ = run(monkeypatch, capsys, mind, "approval.py")
    board = ["Water at six."] if word.lower() == "yes" else []
    assert found == {
        "about": "the new watering hours",
        "the clerk says": "It was allowed, and is not on the board.",
        "on the board": board,
    }
    assert not (here / "leave").exists()
    assert (here / "board.txt").exists() is bool(board)


def test_a_run_that_is_interrupted_while_a_person_is_asked_asks_again(
    here: Path,
) -> None:
    (here / "leave").write_text("yes\n")
    (here / "approval.py").write_text(
        (EXAMPLES / "approval.py").read_text()
        + "\nimport json\n\n\n"
        + "async def mind(request):\n"
        + "    if request.step:\n"
        + "        return 'done'\n"
        + "    words = json.dumps({'notice': 'Water at six.'})\n"
        + "    return ramet.ModelResponse(calls=(ramet.Call('publish', words),))\n"
        + "\n\nmodel = ramet.FunctionModel(mind)\n"
    )
    running = started("run", "approval.py", cwd=here)
    assert running.stderr is not None
    for line in running.stderr:
        if "answer from another terminal" in line:
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, ""), err
    assert not (here / "board.txt").exists()
    again = started("resume", cwd=here)
    assert again.stderr is not None
    for line in again.stderr:
        if "answer from another terminal" in line:
            break
    with open(here / "leave", "w") as pipe:
        pipe.write("yes\n")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert json.loads(out)["on the board"] == ["Water at six."]


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


# -- the small model -------------------------------------------------------------------


def by_the_small_model(*words: str) -> Any:
    """What an example gives with the local model, in a process of its own."""
    name, *rest = words
    done = command(
        "run",
        str(EXAMPLES / name),
        *("--model", "local", "--store", f"{name}.db", *rest),
        cwd=Path.cwd(),
        CI="1",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_sentence(text: object) -> bool:
    """Whether it is of the form that a grammar holds a sentence to."""
    return (
        isinstance(text, str) and re.fullmatch(r"[A-Z][^\n]{5,240}\.", text) is not None
    )


@pytest.fixture
def slow(full_sweeps: bool) -> None:
    """Only for a run that takes its time."""
    if not full_sweeps:
        pytest.skip("slow; make sweeps runs it")


@pytest.mark.real_model
@pytest.mark.usefixtures("slow")
def test_the_small_model_reviews(here: Path) -> None:
    found = by_the_small_model("review.py", "--input", '"def one(): return 1"')
    verdicts = {"approve", "change", "reject"}
    assert {*found["verdicts"], found["verdict"]} <= verdicts
    notes = {"approve": "It is merged.", "reject": "It is closed."}
    if found["verdict"] == "change":
        assert is_sentence(found["note"])
    else:
        assert found["note"] == notes[found["verdict"]]


@pytest.mark.real_model
def test_the_small_model_sums_up_files(here: Path) -> None:
    (here / "kettle.md").write_text("# Kettle\n\nIt boils water and rings a bell.\n")
    found = by_the_small_model("map_reduce.py", "--", "kettle.md", "nowhere.md")
    assert found["without"] == ["nowhere.md"]
    assert list(found["summaries"]) == ["kettle.md"]
    assert is_sentence(found["summaries"]["kettle.md"])
    assert is_sentence(found["whole"])


@pytest.mark.real_model
@pytest.mark.usefixtures("slow")
def test_the_small_model_researches_with_a_helper(here: Path) -> None:
    found = by_the_small_model("researchers.py", "--", "the moon")
    topic = found["topics"]["the moon"]
    assert topic["first"] == "completed"
    assert len(topic["reports"]) == 2
    assert all(is_sentence(one) for one in topic["reports"])
    tree = command("ps", "--store", "researchers.py.db", "--json", cwd=here)
    assert tree.stdout.count('"helper"') == 2


@pytest.mark.real_model
def test_the_small_model_asks_a_person(here: Path) -> None:
    with person("yes"):
        found = by_the_small_model("approval.py")
    (notice,) = found["on the board"]
    assert is_sentence(notice)
    assert (here / "board.txt").read_text() == f"{notice}\n"


@pytest.mark.real_model
@pytest.mark.usefixtures("slow")
def test_the_small_model_is_a_team_that_goes_on_the_next_day(here: Path) -> None:
    first = by_the_small_model("team.py", "--", "a note about rain")
    (rain,) = first["done"]
    assert is_sentence(rain["text"])
    assert all(is_sentence(one) for one in rain["said"])
    words = ("--resume", "team", "--allow-changed-source", "--")
    both = by_the_small_model("team.py", *words, rain["task"], "a note about snow")
    assert both["done"][0] == rain
    assert is_sentence(both["done"][1]["text"])
    assert (both["writer"], both["editor"]) == (first["writer"], first["editor"])
