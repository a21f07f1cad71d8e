"""`ramet check`, the command: what it reads, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from ramet.lifecycle.cli import main
from tests.lifecycle.commands import FakeTerminal, at_terminal, command
from tests.lifecycle.test_script_check import BAD as BAD_ONES
from tests.lifecycle.test_script_check import GOOD as GOOD_ONES
from tests.lifecycle.test_script_check import PROJECT, expected

Printed = pytest.CaptureFixture[str]

GOOD = "async def main(flow):\n    return await flow.agent('Look.')\n"
BAD = """\
open("made by running it", "w").close()
import there_is_no_such_module


async def main(flow):
    flow.agent("Look.")
    verdict = await flow.agent("Go?", choice=["go", "stop"])
    return verdict == "went"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good and a bad script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "bad.py").write_text(BAD, encoding="utf-8")
    return tmp_path


def test_of_a_good_script_nothing_is_said_and_the_status_is_0(capsys: Printed) -> None:
    assert main(["check", "good.py"]) == 0
    assert capsys.readouterr() == ("", "")


def test_every_good_script_is_silent_in_the_command(here: Path) -> None:
    names = []
    for number, text in enumerate(GOOD_ONES.values()):
        names.append(f"sound{number}.py")
        (here / names[-1]).write_text(text, encoding="utf-8")
    names += [str(path) for path in sorted((PROJECT / "examples").glob("*.py"))]
    assert len(names) >= 20
    found = command("check", *names, cwd=here)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_every_bad_script_is_told_of_by_line_and_code_in_the_command(
    here: Path,
) -> None:
    wanted, names = [], []
    for number, text in enumerate(BAD_ONES.values()):
        names.append(f"wrong{number}.py")
        (here / names[-1]).write_text(text, encoding="utf-8")
        wanted += [(names[-1], str(line), code) for line, code in expected(text)]
    assert len(names) >= 30
    found = command("check", *names, cwd=here)
    assert (found.returncode, found.stderr) == (1, "")
    told = re.findall(r"^([\w.]+):(\d+):\d+  ([\w-]+)$", found.stdout, re.MULTILINE)
    assert told == wanted


def test_a_person_who_waits_is_told_that_nothing_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", seen := FakeTerminal())
    assert main(["check", "good.py", "good.py"]) == 0
    assert main(["check", "bad.py", "good.py"]) == 1
    assert main(["check", "good.py", "--json"]) == 0
    assert seen.getvalue() == "nothing found in 1 script\n"
    assert capsys.readouterr().out.startswith("bad.py:6:5  not-awaited\n")


def test_findings_have_place_code_text_and_remedy_and_the_status_is_1(
    here: Path, capsys: Printed
) -> None:
    assert main(["check", "bad.py", "good.py"]) == 1
    assert capsys.readouterr().out == (
        "bad.py:6:5  not-awaited\n"
        "    flow.agent is called and never awaited: nothing happens\n"
        "    write await before it\n"
        "bad.py:8:23  unknown-member\n"
        "    'went' is no member of the choice of line 7: this branch is never taken\n"
        "    its members are 'go', 'stop'\n"
        "bad.py: 2 findings\n"
    )
    # Nothing was run, imported or written.
    assert sorted(path.name for path in here.iterdir()) == ["bad.py", "good.py"]


def test_the_document_has_every_file_and_every_part_of_a_finding(
    capsys: Printed,
) -> None:
    assert main(["check", "good.py", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "clean": True,
        "files": [{"path": "good.py", "findings": []}],
    }
    assert main(["check", "--json", "good.py", "bad.py"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["clean"] is False
    assert [one["path"] for one in document["files"]] == ["good.py", "bad.py"]
    first, _ = document["files"][1]["findings"]
    assert first == {
        "line": 6,
        "column": 5,
        "code": "not-awaited",
        "text": "flow.agent is called and never awaited: nothing happens",
        "remedy": "write await before it",
    }


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing.py", "No such file or directory"),
        (".", "Is a directory"),
        (" ", "which is blank"),
        ("a\0b.py", "null byte"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_wrong_use(
    path: str, why: str, capsys: Printed
) -> None:
    assert main(["check", "bad.py", path]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ramet: ")
    assert why in printed.err
    assert printed.err.count("\n") == 1


def test_a_script_is_needed(capsys: Printed) -> None:
    assert main(["check"]) == 2
    assert "SCRIPT.py" in capsys.readouterr().err


def test_text_of_a_script_cannot_move_the_cursor(here: Path, capsys: Printed) -> None:
    script = GOOD.replace(
        "agent('Look.')", "agent('Go?', choice=['\\x1b[2J', 'a', 'A'])"
    )
    (here / "odd.py").write_text(script, encoding="utf-8")
    assert main(["check", "odd.py"]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_the_command_runs_by_its_entry_point_and_is_in_the_help(here: Path) -> None:
    found = command("check", "bad.py", cwd=here)
    assert (found.returncode, found.stderr) == (1, "")
    assert "bad.py:6:5  not-awaited" in found.stdout
    assert "check     what is wrong in a supervisor script" in command(cwd=here).stdout
    assert at_terminal("check", "good.py", cwd=here) == (0, "")


def test_a_narrow_terminal_gets_whole_words(here: Path) -> None:
    status, shown = at_terminal(
        "check", "bad.py", cwd=here, columns=40, TERM="dumb", COLUMNS="40"
    )
    assert status == 1
    assert max(map(len, shown.splitlines())) <= 40
    assert "    flow.agent is called and never\n    awaited: nothing happens\n" in shown


def test_a_pipe_that_was_named_is_read(here: Path) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, GOOD.encode())
    os.close(theirs)
    try:
        assert main(["check", f"/dev/fd/{ours}"]) == 0
    finally:
        os.close(ours)
