"""`ramet chat` as a person runs it: at a terminal, and through pipes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ramet import SqliteReader
from ramet.lifecycle.cli import main as ramet
from ramet.lifecycle.terminal_chat import FileLines, PlainChat, TerminalChat
from ramet.mailbox.events import Accepted, TurnEnded
from tests.lifecycle import chat_process
from tests.lifecycle.commands import FakeTerminal, command, environment, make_finished
from tests.lifecycle.stage import of

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
PROGRAM = [sys.executable, chat_process.__file__, "chat", "--model", "test"]


def piped(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        env=environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Terminal:
    """A conversation at a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        ours, theirs = pty.openpty()
        self.running = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=folder,
            env=environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._screen = os.fdopen(ours, encoding="utf-8", newline="")
        self._keys = os.dup(ours)
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until this was shown; gives what came before it."""
        seen = ""
        while not seen.endswith(text):
            seen += self._screen.read(1)
        self.seen += seen
        return seen.removesuffix(text)

    def type(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def end(self) -> int:
        """Read what is left, and give the exit status."""
        with contextlib.suppress(OSError):
            while piece := self._screen.read(1):
                self.seen += piece
        return self.running.wait(60)

    def close(self) -> None:
        self.running.kill()
        self.running.wait()
        os.close(self._keys)
        with contextlib.suppress(OSError):
            self._screen.close()


@contextlib.contextmanager
def terminal(folder: Path, *words: str) -> Iterator[Terminal]:
    made = Terminal(folder, *words)
    try:
        yield made
    finally:
        made.close()


def session_in(text: str) -> str:
    found = re.search(r"ramet chat --resume (s\w+)", text)
    assert found is not None, text
    return found[1]


# -- at a terminal ---------------------------------------------------------------------


@BACKENDS
def test_a_conversation_at_a_terminal(tmp_path: Path, backend: str) -> None:
    with terminal(tmp_path, "--backend", backend) as person:
        assert "Ctrl-C stops the answer" in person.until("> ")
        person.type("hello\n")
        assert "You said: hello" in person.until("> ")
        person.type("ask\n")
        shown = person.until("> ")
        pieces = ["I ask.", "calls agent", "is asked: look", "replies", "found moss."]
        places = [shown.index(piece) for piece in pieces]
        assert places == sorted(places)
        person.type("/agents\n")
        assert "helper" in person.until("> ")
        person.type("\x04")
        assert person.end() == 0
        assert "goes on with this conversation" in person.seen


@BACKENDS
def test_the_first_key_stops_the_turn_and_the_second_leaves(
    tmp_path: Path, backend: str
) -> None:
    with terminal(tmp_path, "--backend", backend) as person:
        person.until("> ")
        person.type("hang\n")
        # Its turn is open when the store says so.
        session = _opened(tmp_path)
        person.type("\x03")
        person.until("stopped; Ctrl-C once more leaves")
        person.until("> ")
        person.type("and now?\n")
        assert "You said: and now?" in person.until("> ")
        person.type("\x03")
        person.until("Ctrl-C once more leaves")
        person.until("> ")
        person.type("\x03")
        assert person.end() == 130
        assert session_in(person.seen) == session
    reader = SqliteReader(tmp_path / "ramet.db")
    ends = [(e.status, e.cause) for e in of(reader.load(session), TurnEnded)]
    reader.close()
    assert ends == [("cancelled", "interrupted"), ("completed", None)]


def _opened(folder: Path) -> str:
    """Wait until the only session has an open turn; gives it."""
    following = subprocess.Popen(
        [sys.executable, "-m", "ramet", "log", "chat", "-f"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    for line in following.stdout:
        if "turn 1 answers" in line:
            break
    following.kill()
    following.communicate()
    shown = json.loads(command("ps", "--json", cwd=folder).stdout)
    (line,) = shown["sessions"]
    return str(line["id"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_conversation_comes_to_rest(
    tmp_path: Path, number: signal.Signals
) -> None:
    with terminal(tmp_path) as person:
        person.until("> ")
        person.running.send_signal(number)
        assert person.end() == 130
        assert "goes on with this conversation" in person.seen


def test_a_conversation_is_gone_on_with(tmp_path: Path) -> None:
    first = piped(tmp_path, "hello\n")
    session = session_in(first.stderr)
    with terminal(tmp_path, "--resume", session[-6:]) as person:
        assert "You said: hello" in person.until("> ")
        person.type("more\n")
        person.until("You said: more")
        person.until("> ")
        person.type("\x04")
        assert person.end() == 0
    reader = SqliteReader(tmp_path / "ramet.db")
    told = [e.content[0] for e in of(reader.load(session), Accepted)]
    reader.close()
    assert told == ["hello", "more"]


# -- through pipes ---------------------------------------------------------------------


@BACKENDS
def test_through_pipes_only_answers_are_on_standard_output(
    tmp_path: Path, backend: str
) -> None:
    done = piped(tmp_path, "hello\n\nask\nwithout an end", "--backend", backend)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "You said: hello",
        "I ask.",
        "The helper found moss.",
        "You said: without an end",
    ]
    assert "helper  is asked: look around" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_lines_of_a_file_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")
    with open(tmp_path / "lines") as lines:
        done = subprocess.run(
            PROGRAM,
            cwd=tmp_path,
            env=environment(),
            stdin=lines,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.stdout == "You said: one\nYou said: two\n"


def test_without_agents_of_its_own_it_is_offered_none(tmp_path: Path) -> None:
    done = piped(tmp_path, "ask\n", "--no-agents")
    assert "I ask." in done.stdout
    assert "a call failed (UNKNOWN_TOOL)" in done.stderr


def test_a_failed_turn_is_told_on_standard_error(tmp_path: Path) -> None:
    done = piped(tmp_path, "break\nhello\n")
    assert done.stdout == "You said: hello\n"
    assert done.stderr.count("the service is not there") == 1
    assert "chat  request failed: ModelError: the service is not there\n" in done.stderr
    assert done.returncode == 1


def test_a_person_who_saw_a_failure_and_leaves_has_not_failed(tmp_path: Path) -> None:
    with terminal(tmp_path) as person:
        person.until("> ")
        person.type("break\n")
        person.until("the service is not there")
        person.until("> ")
        person.type("\x04")
        assert person.end() == 0
        assert person.seen.count("the service is not there") == 1


# -- refusals --------------------------------------------------------------------------


def test_what_cannot_be_talked_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    assert ramet(["chat"]) == 2
    assert "needs --model" in capsys.readouterr().err
    ids = make_finished(tmp_path / "ramet.db")
    words = ["chat", "--model", "local", "--resume"]
    assert ramet([*words, ids["oracle"]]) == 2
    assert "is oneshot: nobody talks to it" in capsys.readouterr().err
    assert ramet([*words, "s-nothing"]) == 2
    assert ramet([*words, ids["lead"], "--instructions", "x"]) == 2
    assert "keeps the instructions" in capsys.readouterr().err
    (tmp_path / "job.py").write_text("async def main(flow):\n    return 1\n")
    done = command("run", "job.py", "--store", "other.db", cwd=tmp_path)
    assert done.returncode == 0
    assert ramet([*words, "job", "--store", "other.db"]) == 2
    assert "`ramet resume` goes on with it" in capsys.readouterr().err


# -- its parts -------------------------------------------------------------------------


@pytest.mark.anyio
async def test_lines_come_as_they_are_written_whatever_the_pieces() -> None:
    ours, theirs = os.pipe()
    lines = FileLines(ours)
    got: list[Any] = []

    async def read() -> None:
        while (line := await lines.next()) is not None:
            got.append(line)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        for piece in (b"a", b"b\nc", b"\r\n", b"\xc3", b"\xa9\n", b"\n\xff"):
            os.write(theirs, piece)
            await anyio.wait_all_tasks_blocked()
        os.close(theirs)
    os.close(ours)
    assert got == ["ab", "c", "é", "", "\ufffd"]
    assert await lines.next() is None


def test_the_prompt_gives_way_and_nothing_of_an_answer_moves_the_cursor() -> None:
    stream = FakeTerminal()
    screen = TerminalChat(stream)
    screen.ask()
    screen.answer("a\x1b[2J\nb")
    screen.note("stop")
    screen.ask()
    screen.activity((("scout", "name"), ("  ", ""), ("x" * 500, "")))
    screen.end_answer()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert shown.startswith("> \r\x1b[Ka\\x1b[2J\nb\n(stop)\n> \r\x1b[K  scout  xx")
    assert max(map(len, shown.split("\n"))) < 200


def test_without_a_terminal_an_answer_is_as_it_is() -> None:
    answers, remarks = io.StringIO(), io.StringIO()
    screen = PlainChat(answers, remarks)
    screen.ask()
    screen.answer("a\x1b[2J")
    screen.end_answer()
    screen.note("stop\x1b")
    assert answers.getvalue() == "a\x1b[2J\n"
    assert remarks.getvalue() == "ramet: stop\\x1b\n"
