"""Progress: the lines and the table by which a person follows a run."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any

import pytest

from ramet import Call, Usage
from ramet.lifecycle.cli_progress import PlainProgress, Watch, activity_line
from ramet.lifecycle.cli_text import Line, plain
from ramet.lifecycle.terminal_progress import TerminalProgress, progress_for
from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Ended,
    Event,
    Journaled,
    RequestFailed,
    SpecRecord,
    StepEnded,
    TurnEnded,
    TurnOpened,
)


class Heard:
    """Keeps the lines that were told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.changes = 0

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def say(self, text: str) -> None: ...

    def changed(self, told: Line | None) -> None:
        """Count a change, and keep its line without the time."""
        self.changes += 1
        if told is not None:
            self.lines.append(plain(told[1:]))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(heard: Heard) -> Watch:
    """A watch of a lead and its child."""
    made = Watch({"old": ("grey", "lead", 1)}.get)
    made.progress = heard
    tell(made, "lead", Created("lead", None, 0, "interactive", SpecRecord("lead"), 1))
    tell(made, "c", Created("c", "lead", 1, "continuable", SpecRecord("scout"), 1))
    return made


def tell(watch: Watch, session: str, *events: Event) -> None:
    for event in events:
        watch.on_event(session, 0, event)


def accepted(source: str, sender: str, text: str) -> Accepted:
    return Accepted("m", source, sender, (text,), "quiet", 1)


def test_a_child_is_followed_from_its_prompt_to_its_rest(
    watch: Watch, heard: Heard
) -> None:
    calls = (Call("report", '{"output": "found"}'),)
    child = watch.agents["c"]
    tell(
        watch,
        "c",
        Activated("a", 1),
        accepted("prompt", "lead", "look\n there"),
        TurnOpened(1, ("m",), 1),
        StepEnded("", calls, "tool_calls", 1, Usage(1, 1200, 7)),
    )
    assert child.state == "running"
    tell(watch, "lead", accepted("report", "c", "found"))
    tell(
        watch,
        "c",
        CallEnded(0, "{}", 1),
        StepEnded("done", (), "end_turn", 1, Usage(1, 1300, 3)),
        TurnEnded("completed", None, 1),
        Ended("settled", True, 1),
    )
    assert heard.lines == [
        "scout  is asked: look there",
        'scout  calls report("found") (1,200 tokens in, 7 out)',
        "scout  reports: found",
        "scout  says: done (1,300 tokens in, 3 out)",
    ]
    cells = [text for text, _ in activity_line(child, 40)]
    assert cells == ["  scout", "gone", "2", "2,500", "10", "reports: found"]


def test_a_turn_that_its_request_failed_is_told_once(
    watch: Watch, heard: Heard
) -> None:
    tell(
        watch,
        "c",
        TurnOpened(1, ("m",), 1),
        RequestFailed("overloaded", "no net", 1),
        TurnEnded("failed", "provider-error", 1, "overloaded: no net"),
        TurnOpened(2, ("n",), 1),
        TurnEnded("failed", "no-reply", 1, "no net"),
    )
    assert heard.lines == [
        "scout  request failed: no net",
        "scout  turn failed: no net",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (RequestFailed("x", "no net", 1), "request failed: no net"),
        (CallEnded(0, "x", 1, "TOOL_FAILED"), "a call failed (TOOL_FAILED): x"),
        (TurnEnded("failed", "no-reply", 1), "turn failed: no-reply"),
        (Concluded("m", "completed", None, 1, '"yes"'), 'replies "yes"'),
        (Concluded("m", "stopped", "call-timeout", 1), "stopped: call-timeout"),
        (Journaled("phase", '{"name":"one"}', 1), "phase one"),
        (Compacted("so\nfar", 1), "compacted its context: so far"),
        (Compacted("x", 1, usage=Usage(2, 5)), "compacted its context: x"),
        (Journaled("log", '{"text":"a\\nb"}', 1), "a b"),
        (StepEnded("", (Call("x", "{"),), "tool_calls", 1), "calls x({)"),
        (StepEnded("", (Call("x", "[1]"),), "tool_calls", 1), "calls x([1])"),
    ],
)
def test_what_happens_is_one_line(
    watch: Watch, heard: Heard, event: Any, line: str
) -> None:
    tell(watch, "c", event)
    assert heard.lines == [f"scout  {line}"]


def test_what_a_compaction_cost_is_counted(watch: Watch) -> None:
    tell(watch, "c", Compacted("x", 1, usage=Usage(2, 5, 6)), Compacted("y", 1))
    child = watch.agents["c"]
    assert (child.requests, child.input_tokens, child.output_tokens) == (2, 5, 6)


def test_what_a_terminal_would_obey_is_written_out(watch: Watch, heard: Heard) -> None:
    tell(watch, "lead", accepted("report", "c", "\x1b[31mred\u202e"))
    assert heard.lines == ["scout  reports: \\x1b[31mred\\u202e"]


def test_an_agent_that_began_before_has_its_name_and_one_that_is_unknown_is_left_out(
    watch: Watch, heard: Heard
) -> None:
    tell(watch, "old", Activated("a", 1))
    tell(watch, "nobody", Activated("a", 1))
    assert [agent.name for agent in watch.tree()] == ["lead", "scout", "grey"]
    assert heard.changes == 3


def test_the_tree_has_parents_before_children(watch: Watch) -> None:
    deep = Created("d", "c", 2, "oneshot", SpecRecord("deep"), 1)
    tell(watch, "e", Created("e", "lead", 1, "continuable", SpecRecord("late"), 1))
    tell(watch, "d", deep)
    assert [agent.name for agent in watch.tree()] == ["lead", "scout", "deep", "late"]


def test_lines_go_to_a_pipe_whole_and_a_terminal_gets_a_tree() -> None:
    pipe = io.StringIO()
    progress = progress_for(pipe, list)
    assert isinstance(progress, PlainProgress)
    progress.say("hello")
    progress.changed((("1s ", "dim"), ("x" * 300, "")))
    assert pipe.getvalue() == f"ramet: hello\n1s {'x' * 300}\n"


def journaled(kind: str, **data: Any) -> Journaled:
    return Journaled(kind, json.dumps(data), 1)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("wall", "scout (wall)"),
        ("a\x1b", "scout (a\\x1b)"),
        ("out", "scout (out)"),
        ("scout", "scout"),
        (None, "scout"),
    ],
)
def test_agents_of_one_spec_are_told_apart_by_the_labels_of_their_calls(
    watch: Watch, heard: Heard, label: str | None, name: str
) -> None:
    tell(
        watch,
        "lead",
        journaled("call.queued", call="c1", label=label),
        journaled("call.started", call="c1", session="c"),
        journaled("call.started", call="c9", session="c"),
        journaled("log", text="", code="spawned", session="elsewhere", label="x"),
    )
    tell(watch, "c", Concluded("m", "completed", None, 1, "1"))
    assert heard.lines == [f"{name}  replies 1"]


def test_a_child_that_a_script_labels_is_told_by_its_label(watch: Watch) -> None:
    told = journaled("log", text="", code="spawned", session="c", label="gate")
    tell(watch, "lead", told, told)
    assert watch.agents["c"].name == "scout (gate)"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_tree_is_drawn_and_stays(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    progress = progress_for(screen, watch.tree)
    assert isinstance(progress, TerminalProgress)
    watch.progress = progress
    progress.start()
    progress.say("hello")
    tell(watch, "lead", accepted("report", "c", "found"))
    progress.stop()
    progress.stop()
    shown = screen.getvalue()
    assert "ramet: hello" in shown
    assert "scout" in shown[shown.rindex("AGENT") :]


def test_what_a_script_says_and_prints_passes_above_the_tree(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    before = sys.stdout
    progress = watch.progress = progress_for(screen, watch.tree)
    progress.start()
    tell(watch, "lead", journaled("log", text="said by the script"))
    print("printed by it")
    progress.stop()
    assert sys.stdout is before
    shown = screen.getvalue()
    assert shown.index("said by the script") < shown.index("printed by it")
    assert shown.index("printed by it\n") < shown.rindex("AGENT")


def test_many_agents_are_counted_where_they_do_not_fit(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for number in range(40):
        made = Created(f"c{number}", "lead", 1, "oneshot", SpecRecord("x"), 1)
        tell(watch, f"c{number}", made)
    screen = Terminal()
    progress = TerminalProgress(screen, watch.tree)
    progress.start()
    progress.stop()
    assert "and 12 agents before" in screen.getvalue()


def test_a_row_has_age_and_turns_and_what_is_gone_keeps_its_age(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    clock = [1000.0]
    monkeypatch.setattr("ramet.lifecycle.cli_progress.time.monotonic", lambda: clock[0])
    made = Created("n", "lead", 1, "oneshot", SpecRecord("new"), 1)
    tell(watch, "n", made)
    tell(watch, "n", TurnOpened(1, ("m",), 1))
    clock[0] += 75
    tell(watch, "n", Ended("settled", True, 1))
    clock[0] += 1000
    screen = Terminal()
    progress = TerminalProgress(screen, watch.tree)
    progress.start()
    progress.stop()
    bare = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert re.search(r"AGENT +STATE +AGE +TURNS +REQUESTS +IN +OUT +LAST", bare)
    assert re.search(r"new +gone +1m 15s +1 +0", bare)


def test_a_narrow_screen_shows_one_line(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "36")
    tell(watch, "lead", accepted("report", "c", "found"))
    screen = Terminal()
    progress = TerminalProgress(screen, watch.tree)
    progress.start()
    progress.stop()
    bare = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "AGENT" not in bare
    assert re.search(r"2 agents, \d running", bare)
    assert max(map(len, bare.splitlines())) <= 36
