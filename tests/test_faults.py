"""The planted faults: each can be planted, a sample is run, and what runs tell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from ramet.mailbox.inbox import Inbox
from tests.cases import EXCUSED, KEPT, LISTS, read_cases, read_excused
from tests.faults import Found, Record, Runner, judge, main, marked_tests, run_fault
from tests.planted import table
from tests.planted.fault import HUNG, Fault, edit, fault, put
from tests.planted.table import FAULTS

SAMPLE = (
    "a message enters between a call and its result",
    "a repeated key of arguments is taken",
    "the last end wakes who has read everything",
    "contributions are released in their order",
)
SAMPLED = (
    "tests/mailbox/test_session.py",
    "tests/actors/test_arguments.py",
    "tests/actors/test_tool.py",
    "tests/actors/test_contributions.py",
    "tests/lifecycle/test_notices.py",
)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_can_be_planted_and_names_known_cases(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[name].plant(monkeypatch)
    breaks = FAULTS[name].breaks
    assert breaks
    assert len(set(breaks)) == len(breaks)
    assert set(breaks) <= read_cases(LISTS, KEPT).keys()


def test_no_two_faults_have_one_name() -> None:
    assert sum(len(part.FAULTS) for part in table.FILES) == len(FAULTS)


def test_each_case_of_report_is_broken_by_a_fault_or_a_page_says_why_none_can() -> None:
    cases = {number for number in read_cases(LISTS, KEPT) if number[0] == "R"}
    broken = {number for one in FAULTS.values() for number in one.breaks}
    excused = read_excused(EXCUSED)
    assert cases - broken == excused


def test_a_sample_breaks_its_cases(runner: Runner) -> None:
    record = marked_tests(runner, SAMPLED)
    for name in SAMPLE:
        found = run_fault(_narrowed(FAULTS[name], record), record, runner)
        assert judge([found], record) == []
        assert found.broken


def _narrowed(whole: Fault, record: Record) -> Fault:
    """A fault with those of its cases that the sampled files hold."""
    held = tuple(number for number in whole.breaks if number in record)
    return attrs.evolve(whole, breaks=held)


def test_a_case_that_a_fault_does_not_break_is_a_complaint(
    runner: Runner,
) -> None:
    record = marked_tests(runner, ("tests/mailbox/test_session.py",))
    harmless = attrs.evolve(FAULTS[SAMPLE[0]], breaks=("R-008", "R-999"))
    assert judge([run_fault(harmless, record, runner)], record) == [
        f"{SAMPLE[0]}: every test of R-008 passes under it",
        f"{SAMPLE[0]}: no test is marked with R-999",
    ]


def test_a_run_that_says_nothing_is_a_complaint(runner: Runner) -> None:
    unknown = fault("nothing of the kind", "R-008")
    record = {"R-008": {"tests/mailbox/test_session.py::test_a": "passed"}}
    found = run_fault(unknown, record, runner)
    assert not found.broken
    (line,) = judge([found], record)
    assert line.startswith("nothing of the kind: pytest ended with status 4")
    assert judge([Found(unknown, {"R-008": "t.py::a"})], record) == []


def test_a_test_that_hangs_ends_the_run_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(
        """
import threading
import pytest

@pytest.mark.case("R-037")
def test_passes(): pass

@pytest.mark.case("R-038")
def test_not_asked_for(): assert 0

@pytest.mark.case("R-037")
def test_fails(): assert 0

@pytest.mark.case("R-037")
def test_passed_over(): assert 0

@pytest.mark.case("R-205")
def test_hangs(): threading.Event().wait()
""",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = case\n", encoding="utf-8")
    project = Path(__file__).resolve().parent.parent
    options = [
        *("-q", "-p", "tests.fault_runs", "-p", "no:cacheprovider"),
        *(f"--fault={SAMPLE[0]}", "--fault-cases=R-037,R-205"),
        *("--fault-out=told.json", "--fault-hang-s=0.5"),
    ]
    program = (
        f"import sys; sys.path.insert(0, {str(project)!r}); import pytest; "
        f"sys.exit(pytest.main({options!r}))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == HUNG
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8")) == {
        "test_planted.py::test_passes": "passed",
        "test_planted.py::test_fails": "failed",
        "test_planted.py::test_hangs": "hung",
    }


def test_the_command_lists_and_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "enters between"]) == 0
    line = f"{SAMPLE[0]}: {' '.join(FAULTS[SAMPLE[0]].breaks)}\n"
    assert capsys.readouterr().out == line
    assert main(["no fault has these words"]) == 1


def test_a_text_that_is_not_there_cannot_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present = Inbox.claim
    with pytest.raises(LookupError, match=r"Inbox.claim has 0 times, not once"):
        edit(Inbox, "claim", "no such text", "pass")(monkeypatch)
    assert Inbox.claim is present


def test_a_plant_lasts_as_long_as_its_patch() -> None:
    before = vars(Inbox)["claimable"], Inbox.claim
    with pytest.MonkeyPatch.context() as patch:
        edit(Inbox, "claimable", "not self.parked", "self.parked")(patch)
        edit(Inbox, "claim", "self.parked", "not self.parked")(patch)
        edit(Inbox, "claim", "not ids or", "ids and")(patch)
        put(Inbox, "promote", None)(patch)
        assert not Inbox().claimable
        assert (vars(Inbox)["claimable"], Inbox.claim) != before
    assert (vars(Inbox)["claimable"], Inbox.claim) == before
