"""The comparison of the numbered cases with the tests that hold them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import (
    KEPT,
    LISTS,
    main,
    read_cases,
    read_excused,
    summarise,
    write_cases,
)

CASES = {"A-001": "Given one.", "R-001": "Given two.", "R-002": "Given three."}


def test_the_kept_list_has_every_case_of_the_lists(tmp_path: Path) -> None:
    assert read_cases(LISTS, KEPT) == read_cases(tmp_path / "missing", KEPT)


def test_a_list_is_read_and_kept(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text(
        "# A list\n\n- **R-002** Given three.\n  And more.\n- **R-001** Given two.\n"
        "- **A-001** Given one.\n- no case\n",
        encoding="utf-8",
    )
    cases = read_cases(tmp_path, KEPT)
    assert list(cases.items()) == list(CASES.items())
    write_cases(cases, tmp_path / "kept.txt")
    assert read_cases(tmp_path / "missing", tmp_path / "kept.txt") == CASES


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no case in"),
        ("- **R-001** a\n- **R-001** b\n", "a number twice: R-001"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "one.md").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        read_cases(tmp_path, KEPT)


def test_a_wrong_line_of_the_kept_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("R-1 Given\n", encoding="utf-8")
    with pytest.raises(ValueError, match="not a case: 'R-1 Given'"):
        read_cases(tmp_path / "missing", tmp_path / "kept.txt")


def test_each_case_is_told_with_its_tests() -> None:
    record = {
        "A-001": {"t.py::a[asyncio]": "passed", "t.py::a[trio]": "passed"},
        "R-001": {"t.py::b[asyncio]": "passed", "t.py::b[trio]": "skipped"},
    }
    faults = {"it rains": ["R-001"], "it snows": ["R-001", "A-001"]}
    excused = frozenset({"R-002"})
    lines, good = summarise(CASES, record, [], faults=faults, excused=excused)
    assert lines == [
        "A-001  held    Given one.",
        "                t.py::a (2 passed)",
        "                broken when it snows",
        "R-001  none    Given two.",
        "                t.py::b (1 passed, 1 skipped)",
        "                broken when it rains",
        "                broken when it snows",
        "R-002  none    Given three.",
        "                broken by nothing: 0026-what-no-fault-breaks.md says why",
        "",
        "cases A: 1 of 1 held, 0 with a failing test, 0 without a passing test",
        "cases R: 0 of 2 held, 0 with a failing test, 2 without a passing test",
        "cases R: 0 broken by no fault",
        "cases: good",
    ]
    assert good


def test_a_required_list_needs_a_passing_test_for_each_case() -> None:
    record = {"A-001": {"t.py::a": "passed"}, "R-001": {"t.py::b": "skipped"}}
    faults = {"it rains": ["R-001", "R-002"]}
    assert summarise(CASES, record, ["A"], faults=faults)[1]
    lines, good = summarise(CASES, record, ["A", "R"], faults=faults)
    assert not good
    assert lines[-1] == "cases: NOT GOOD"


def test_a_required_list_needs_a_fault_for_each_case_or_a_reason() -> None:
    record = {name: {"t.py::a": "passed"} for name in CASES}
    faults = {"it rains": ["R-001"]}
    assert summarise(CASES, record, ["A"], faults=faults)[1]
    lines, good = summarise(CASES, record, ["A", "R"], faults=faults)
    assert not good
    assert "                broken by no planted fault" in lines
    assert "cases R: 1 broken by no fault" in lines
    excused = frozenset({"R-002"})
    assert summarise(CASES, record, ["R"], faults=faults, excused=excused)[1]


def test_a_page_says_which_cases_no_fault_breaks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n- **R-002** since it is so.\n- no case\n", "utf-8")
    assert read_excused(page) == {"R-002"}


def test_a_failing_test_and_an_unknown_number_are_never_good() -> None:
    failing = {"A-001": {"t.py::a": "passed", "t.py::b": "failed"}}
    lines, good = summarise(CASES, failing, [], faults={})
    assert lines[0] == "A-001  FAILED  Given one."
    assert not good
    unknown = {"R-999": {"t.py::a": "passed"}}
    lines, good = summarise(CASES, unknown, [], faults={})
    assert "R-999  UNKNOWN: no list has this number; held by t.py::a" in lines
    assert not good


def test_the_program_reads_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"R-014": {"t.py::a": "passed"}}), encoding="utf-8")
    assert main(["--record", str(record)]) == 0
    assert main(["--record", str(record), "--require", "R"]) == 1
    assert "t.py::a (1 passed)" in capsys.readouterr().out


def test_a_run_records_how_each_holder_ended(tmp_path: Path) -> None:
    done = run_planted(
        tmp_path,
        """
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError

@pytest.mark.case("R-001", "A-001")
@pytest.mark.case("R-002")
def test_good(): pass

@pytest.mark.case("R-001")
@pytest.mark.parametrize("place", [1, 2])
def test_bad(place): assert place == 1

@pytest.mark.case("R-001")
def test_bad_end(broken): pass

@pytest.mark.case("R-002")
@pytest.mark.skip
def test_skipped(): pass

@pytest.mark.case("R-002")
@pytest.mark.xfail
def test_expected(): assert 0
""",
    )
    assert done.returncode == 1, done.stdout
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8")) == {
        "A-001": {"test_planted.py::test_good": "passed"},
        "R-001": {
            "test_planted.py::test_bad[1]": "passed",
            "test_planted.py::test_bad[2]": "failed",
            "test_planted.py::test_bad_end": "failed",
            "test_planted.py::test_good": "passed",
        },
        "R-002": {
            "test_planted.py::test_expected": "xfailed",
            "test_planted.py::test_good": "passed",
            "test_planted.py::test_skipped": "skipped",
        },
    }


@pytest.mark.parametrize("arguments", ["", '"R-14"', "14", 'number="R-014"'])
def test_a_marker_that_names_no_case_is_refused(tmp_path: Path, arguments: str) -> None:
    done = run_planted(
        tmp_path,
        f"import pytest\n@pytest.mark.case({arguments})\ndef test_a(): pass\n",
    )
    assert done.returncode == 4
    assert "test_planted.py::test_a" in done.stderr


def run_planted(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a planted test file with the plugin alone, and let it write a record."""
    (folder / "test_planted.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = case\n", encoding="utf-8")
    project = Path(__file__).resolve().parent.parent
    program = (
        f"import sys; sys.path.insert(0, {str(project)!r}); import pytest; "
        "sys.exit(pytest.main(['-q', '-p', 'tests.case_records', "
        "'-p', 'no:cacheprovider', '--cases-out=record.json']))"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
