"""The readers beside a process that writes, and after it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lifecycle.commands import (
    Writer,
    at_terminal,
    command,
    make_finished,
    started,
    terminal,
    writer,
)

pytestmark = pytest.mark.case("R-183")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Writer]:
    """A process that holds a turn."""
    with writer(tmp_path / "ramet.db") as process:
        yield process


def states(folder: Path, *words: str) -> dict[str, str]:
    done = command("ps", "--json", *words, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return {one["name"]: one["state"] for one in json.loads(done.stdout)["sessions"]}


def test_the_tree_shows_what_runs_beside_its_writer_and_what_was_cut_after_a_kill(
    tmp_path: Path, held: Writer
) -> None:
    alive = {"lead": "waiting", "scout": "gone", "oracle": "gone", "slow": "running"}
    assert states(tmp_path) == alive
    shown = command("ps", cwd=tmp_path).stdout
    assert f"process {held.pid} writes it" in shown
    assert "cut" not in shown
    held.kill()
    dead = {"lead": "cut", "scout": "gone", "oracle": "gone", "slow": "cut"}
    assert states(tmp_path) == dead
    shown = command("ps", cwd=tmp_path).stdout
    assert "2 sessions were cut off; go on with: ramet chat --resume s" in shown
    assert "writes it" not in shown


def test_a_log_is_read_beside_its_writer_and_after_a_kill(
    tmp_path: Path, held: Writer
) -> None:
    before = command("log", "slow", cwd=tmp_path)
    assert before.returncode == 0
    assert before.stdout.splitlines()[-1].endswith(f"turn 1 answers prompt {_id(held)}")
    held.kill()
    after = command("log", "slow", cwd=tmp_path)
    assert after.stdout == before.stdout


def _id(held: Writer) -> str:
    done = command("log", "slow", "--json", cwd=held.path.parent)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found: str = next(e["id"] for e in events if e["event"] == "accepted")
    return found


def test_explain_says_what_a_session_does_and_where_a_kill_has_cut_it(
    tmp_path: Path, held: Writer
) -> None:
    lead = command("explain", "lead", cwd=tmp_path).stdout
    assert f"it waits for 1 live child: slow {held.ids['slow']} (running)" in lead
    slow = command("explain", held.ids["slow"], cwd=tmp_path).stdout
    assert "it waits for its model (request 1 of the turn)" in slow
    held.kill()
    cut = command("explain", "slow", "--json", cwd=tmp_path)
    found = json.loads(cut.stdout)
    assert (found["state"], found["name"]) == ("cut", "slow")
    assert found["why"].startswith("the process that ran it is no more")
    assert f"ramet chat --resume {held.ids['lead']}" in found["hint"]


def test_doctor_knows_a_live_writer_and_the_sessions_that_a_dead_one_left(
    tmp_path: Path, held: Writer
) -> None:
    alive = command("doctor", cwd=tmp_path)
    assert alive.returncode == 0, alive.stdout
    assert f"process {held.pid} writes the store now" in alive.stdout
    held.kill()
    dead = command("doctor", cwd=tmp_path)
    assert dead.returncode == 0, dead.stdout
    assert "2 sessions cut off by a dead one" in dead.stdout


def test_following_a_log_shows_what_another_process_does_until_it_is_interrupted(
    tmp_path: Path, held: Writer
) -> None:
    following = started("log", "slow", "-f", cwd=tmp_path)
    assert following.stdout is not None
    for line in following.stdout:
        if "turn 1 answers" in line:
            break
    held.go_on()
    seen = ""
    for line in following.stdout:
        seen += line
        if "at rest" in line:
            break
    assert "says: late" in seen
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=60)
    assert (out, err, following.returncode) == ("", "", 0)


def test_a_live_view_follows_another_process_until_it_is_interrupted(
    tmp_path: Path, held: Writer
) -> None:
    with terminal("ps", "--watch", cwd=tmp_path) as (running, screen):
        _read_until(screen, "running")
        held.go_on()
        _read_until(screen, "parked")
        running.send_signal(signal.SIGINT)
        _read_until(screen, "\x1b[?1049l")
        left = _read_until(screen, "writes it")
        assert "slow" in left
        assert running.wait(60) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def _read_until(screen: object, text: str) -> str:
    seen = ""
    while text not in seen:
        piece = screen.read(1)  # type: ignore[attr-defined]
        assert piece, seen
        seen += piece
    return seen


def test_a_terminal_gets_colours_and_lines_and_a_pipe_gets_neither(
    tmp_path: Path,
) -> None:
    make_finished(tmp_path / "ramet.db")
    status, shown = at_terminal("ps", cwd=tmp_path)
    assert status == 0
    assert "├─ scout" in shown
    assert "└─ slow" in shown
    assert "\x1b[" in shown
    piped = command("ps", cwd=tmp_path).stdout
    assert "\x1b" not in piped
    assert piped.isascii()
    lines = piped.splitlines()
    assert len({line.index("s1") for line in lines[1:5]}) == 1
    assert [line.split()[0] for line in lines[:5]] == [
        "AGENT",
        "lead",
        "scout",
        "oracle",
        "slow",
    ]
    assert "\x1b" not in at_terminal("ps", cwd=tmp_path, TERM="dumb")[1]


@pytest.mark.parametrize("words", [("ps",), ("log", "scout"), ("usage",), ("doctor",)])
def test_a_narrow_terminal_gets_lines_that_fit(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    make_finished(tmp_path / "ramet.db")
    status, shown = at_terminal(
        *words, cwd=tmp_path, COLUMNS="40", columns=40, TERM="dumb"
    )
    assert status == 0
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) > 2


def test_no_text_of_an_agent_reaches_a_terminal_as_a_control(tmp_path: Path) -> None:
    make_finished(tmp_path / "ramet.db")
    for words in (("log", "scout"), ("log", "scout", "--full"), ("log", "slow")):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 0
        assert "\\x1b[31mred\\x1b[0m \\udcff \\u202e turned" in done.stdout
        assert "\x1b" not in done.stdout
        status, shown = at_terminal(*words, cwd=tmp_path)
        assert status == 0
        assert "\x1b[31mred" not in shown
        assert "\u202e" not in shown


def test_a_stream_that_holds_only_ascii_gets_escapes(tmp_path: Path) -> None:
    make_finished(tmp_path / "ramet.db")
    status, shown = at_terminal("ps", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert status == 0
    assert "  scout" in shown
    assert "├" not in shown


@pytest.mark.parametrize("words", [("ps",), ("log", "scout", "--json"), ("doctor",)])
def test_a_reader_of_the_output_that_goes_away_is_no_noise(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    make_finished(tmp_path / "ramet.db")
    running = started(*words, cwd=tmp_path)
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    running.stderr.close()
    assert running.wait(60) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path) -> None:
    make_finished(tmp_path / "ramet.db")
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        running = started("ps", cwd=tmp_path, stdout=full)
        _, err = running.communicate(timeout=60)
    finally:
        os.close(full)
    assert running.returncode == 1
    assert err.startswith("ramet: the operating system says")
    assert err.count("\n") == 1


def test_head_gets_its_line_and_nobody_complains(tmp_path: Path) -> None:
    make_finished(tmp_path / "ramet.db")
    running = started("log", "lead", "--json", cwd=tmp_path)
    head = subprocess.run(
        ["head", "-1"], stdin=running.stdout, capture_output=True, text=True, check=True
    )
    assert json.loads(head.stdout)["event"] == "created"
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    running.stderr.close()
    running.wait(60)
