"""The check of the pure files finds each line and branch that no test reaches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests import pure_coverage
from tests.pure_coverage import gaps, main, read_report

SOURCE = """
def sign(number):
    word = "none"
    if number > 0:
        word = "plus"
    if number < 0:
        word = "minus"
    return word
"""


def measured(folder: Path, *numbers: int, branches: bool = True) -> dict[str, Any]:
    """Run the source with some numbers; gives what was measured."""
    room = folder / "mailbox"
    room.mkdir()
    source = room / "sign.py"
    calls = "".join(f"sign({number})\n" for number in numbers)
    source.write_text(SOURCE + calls, encoding="utf-8")
    data = folder / "data"
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={data}"]
    if branches:
        command.append("--branch")
    subprocess.run([*command, str(source)], check=True, cwd=folder)
    return read_report(data, folder)


@pytest.mark.parametrize(
    ("numbers", "missed"),
    [
        ((1, -1), []),
        ((1,), ["line 7"]),
        ((-1,), ["line 5"]),
        ((), [*(f"line {line}" for line in range(3, 9))]),
    ],
)
def test_lines_that_no_test_reaches_are_named(
    tmp_path: Path, numbers: tuple[int, ...], missed: list[str]
) -> None:
    found = gaps(measured(tmp_path.resolve(), *numbers), ["mailbox/sign.py"])
    told = ", ".join(line for line in found)
    for line in missed:
        assert line in told
    assert bool(found) == bool(missed)


def test_a_branch_that_no_test_takes_is_named() -> None:
    told = {
        "missing_lines": [9],
        "missing_branches": [[4, 6], [8, 9], [9, 10], [12, -1]],
    }
    assert gaps({"mailbox/a.py": told}, ["mailbox/a.py"]) == [
        "mailbox/a.py: no test reaches line 9, branch 4 to 6, branch 12 to the end"
    ]


def test_a_file_that_was_not_measured_is_named(tmp_path: Path) -> None:
    assert gaps({}, ["mailbox/b.py", "mailbox/a.py"]) == [
        "mailbox/a.py: no test reaches it",
        "mailbox/b.py: no test reaches it",
    ]
    without = measured(tmp_path.resolve(), 1, -1, branches=False)
    assert gaps(without, ["mailbox/sign.py"]) == [
        "mailbox/sign.py: branches were not measured"
    ]


def test_the_program_says_what_it_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--data", str(tmp_path / "nothing")]) == 2
    assert "run the tests under coverage" in capsys.readouterr().out
    data = tmp_path / "data"
    (tmp_path / "a.py").write_text("a = 1\n", encoding="utf-8")
    empty = coverage.CoverageData(str(data))
    empty.add_arcs({str(tmp_path / "a.py"): [(-1, 1)]})
    empty.write()
    monkeypatch.setattr(pure_coverage, "PURE", frozenset(["mailbox/gone.py"]))
    assert main(["--data", str(data)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "mailbox/gone.py: no test reaches it",
        "pure coverage: 1 files, 1 NOT WHOLLY REACHED",
    ]
    monkeypatch.setattr(pure_coverage, "PURE", frozenset())
    assert main(["--data", str(data)]) == 0
