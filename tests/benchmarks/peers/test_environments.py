from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.peers.environments import (
    STAMP,
    NotInstalledError,
    prepare,
    python_of,
    run,
)

PINS = ("one==1", "two==2")


class Shell:
    """Stands in for the machine: remembers commands, and answers as it is told."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self._answers = list(answers)
        self.commands: list[Sequence[str]] = []

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        self.commands.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(exist_ok=True)
        return self._answers.pop(0) if self._answers else (0, "")


def test_an_environment_is_made_of_this_python_and_its_pins(tmp_path: Path) -> None:
    folder, shell = tmp_path / "all" / "one", Shell()
    assert prepare(folder, PINS, shell.run) == python_of(folder)
    made, installed = shell.commands
    assert made == (sys.executable, "-m", "venv", "--clear", str(folder))
    assert installed[0] == str(python_of(folder))
    assert installed[-2:] == PINS


def test_what_was_made_is_taken_again(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    prepare(folder, PINS, Shell().run)
    shell = Shell()
    assert prepare(folder, PINS, shell.run) == python_of(folder)
    assert shell.commands == []


@pytest.mark.parametrize("changed", ["pins", "python", "cut short"])
def test_what_was_made_for_something_else_is_made_anew(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, pins = tmp_path / "one", PINS
    prepare(folder, pins, Shell().run)
    if changed == "pins":
        pins = ("one==1", "two==3")
    elif changed == "python":
        monkeypatch.setattr(sys, "version", "another")
    else:
        (folder / STAMP).write_text("{")
    shell = Shell()
    prepare(folder, pins, shell.run)
    assert [command[2] for command in shell.commands] == ["venv", "-m"]
    prepare(folder, pins, shell.run)
    assert len(shell.commands) == 2


def test_why_pins_cannot_be_installed_is_one_line_and_is_tried_again(
    tmp_path: Path,
) -> None:
    said = "WARNING: x\nERROR: no such thing\nERROR: No matching one==1\nnotice: y\n"
    folder, shell = tmp_path / "one", Shell((0, ""), (1, said))
    with pytest.raises(NotInstalledError) as caught:
        prepare(folder, PINS, shell.run)
    assert str(caught.value) == "ERROR: No matching one==1"
    prepare(folder, PINS, shell.run)
    assert len(shell.commands) == 4


@pytest.mark.parametrize(
    ("said", "reason"), [("\nno room left\n", "no room left"), ("", "status 7")]
)
def test_what_says_no_error_is_told_by_its_last_line(
    said: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(NotInstalledError, match=f"^{reason}$"):
        prepare(tmp_path / "one", PINS, Shell((7, said)).run)


def test_a_command_gives_its_status_and_all_that_it_says() -> None:
    text = "import sys; print('out'); sys.stdout.flush(); sys.exit('complaint')"
    assert run([sys.executable, "-c", text]) == (1, "out\ncomplaint\n")
