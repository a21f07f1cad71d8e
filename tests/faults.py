"""Can each numbered case's tests fail: the program behind `make faults`.

Lives here: the runs of the table of planted faults (`tests/planted/`), and what is
demanded of them.  Each fault is planted in a process of its own, with the tests that
are marked with a case that it is said to break; at least one test of each of those
cases must fail.  The tests that failed must pass without a fault: they are run so in
one more process, or taken from the record of an ordinary run.

    python -m tests.faults                    every fault
    python -m tests.faults WORDS ...          the faults whose names hold these words
    python -m tests.faults --record FILE      take what passes from a run's --cases-out
    python -m tests.faults --survey WORDS     tell every case that a fault breaks
    python -m tests.faults --list             tell the faults, and run none
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeAlias

import attrs

from tests.planted.fault import HUNG, Fault
from tests.planted.table import FAULTS

__all__ = ["Found", "Record", "Runner", "judge", "main", "marked_tests", "run_fault"]

PROJECT = Path(__file__).resolve().parent.parent

Record: TypeAlias = Mapping[str, Mapping[str, str]]
"""For each case the tests that hold it, and how each ended."""

_MOST_HANGS = 20
_OPTIONS = (
    *("-q", "--tb=no", "-p", "no:cacheprovider"),
    # The warm process has imported plug-ins of pytest before.
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
    # What a broken test leaves behind must not fail the next one.
    *("-p", "no:unraisableexception", "-p", "no:threadexception"),
)


@attrs.frozen
class Found:
    """What one fault did.

    Attributes:
        fault: the fault.
        broken: for each case a test that failed under it, or hung.
        trouble: why the run says nothing, or `None`.
    """

    fault: Fault
    broken: Mapping[str, str]
    trouble: str | None = None


class Runner:
    """Runs pytest in forks of one warm process; a block, from one thread."""

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.fault_server"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CI": "1"},
        )
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
        self._folder.cleanup()

    def run(self, *options: str, out: str) -> tuple[int, Any, str]:
        """Run pytest; gives its exit status, what it wrote, and what it showed.

        Args:
            options: the options of pytest.
            out: the option that names a JSON file to write.
        """
        told = Path(self._folder.name) / "told.json"
        told.unlink(missing_ok=True)
        shown = Path(self._folder.name) / "shown.txt"
        # Runs beside each other must not clear each other's folders away.
        own = f"--basetemp={self._folder.name}/tests", f"{out}={told}"
        request = [[*_OPTIONS, *own, *options], str(shown)]
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(request), file=self._server.stdin, flush=True)
        status = int(self._server.stdout.readline())
        found = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
        return status, found, shown.read_text(encoding="utf-8")[-2000:]


def run_fault(
    fault: Fault, record: Record, runner: Runner, *, survey: bool = False
) -> Found:
    """Run the tests of a fault's cases under it.

    Args:
        fault: the fault.
        record: which test is marked with which case.
        runner: where they run.
        survey: whether to run the tests of every case.
    """
    left = set(record) if survey else {case for case in fault.breaks if case in record}
    broken: dict[str, str] = {}
    for _ in range(_MOST_HANGS):
        files = sorted({test.split("::")[0] for case in left for test in record[case]})
        options = [f"--fault={fault.name}", f"--fault-cases={','.join(sorted(left))}"]
        status, told, shown = runner.run(*options, *files, out="--fault-out")
        for case in sorted(left):
            for how in ("failed", "hung"):
                found = [test for test in record[case] if told.get(test) == how]
                if found:
                    broken.setdefault(case, found[0])
        left -= broken.keys()
        if status not in (0, 1, 5, HUNG):
            return Found(fault, {}, f"pytest ended with status {status}: {shown}")
        if status != HUNG or not left:
            break
    return Found(fault, broken)


def judge(found: Iterable[Found], record: Record) -> list[str]:
    """What is wrong with the runs: a line for each complaint."""
    lines = []
    for one in found:
        if one.trouble is not None:
            lines.append(f"{one.fault.name}: {one.trouble}")
            continue
        for case in one.fault.breaks:
            if not record.get(case):
                lines.append(f"{one.fault.name}: no test is marked with {case}")
            elif case not in one.broken:
                lines.append(f"{one.fault.name}: every test of {case} passes under it")
    return lines


def marked_tests(runner: Runner, files: Sequence[str] = ("tests",)) -> Record:
    """Which test of some files is marked with which case; nothing is run."""
    _, record, _ = runner.run("--collect-only", *files, out="--cases-out")
    return record  # type: ignore[no-any-return]


def _failing_without_a_fault(tests: Sequence[str], runner: Runner) -> list[str]:
    """Run tests as they are, and watched as under a fault; gives what is wrong."""
    status, told, shown = runner.run(*tests, out="--fault-out")
    lines = []
    if status not in (0, 1):
        lines.append(f"the run without a fault ended with status {status}: {shown}")
    return lines + _not_passed(tests, told)


def _not_passed(tests: Sequence[str], told: Mapping[str, str]) -> list[str]:
    return [
        f"{test}: it does not pass without a fault"
        for test in tests
        if told.get(test) != "passed"
    ]


def _run_all(
    chosen: Sequence[Fault], record: Record, runners: Sequence[Runner], *, survey: bool
) -> list[Found]:
    """Run faults on every runner at once, and tell each as it ends."""
    waiting = iter(chosen)
    found: list[Found] = []
    lock = threading.Lock()

    def work(runner: Runner) -> None:
        while True:
            with lock:
                fault = next(waiting, None)
            if fault is None:
                return
            begun = time.monotonic()
            one = run_fault(fault, record, runner, survey=survey)
            took = time.monotonic() - begun
            with lock:
                found.append(one)
                print(f"{took:5.1f} s  {_told(one, survey=survey)}", flush=True)

    with ThreadPoolExecutor(len(runners)) as workers:
        for done in [workers.submit(work, runner) for runner in runners]:
            done.result()
    return found


def _told(one: Found, *, survey: bool) -> str:
    if one.trouble is not None:
        return f"TROUBLE {one.fault.name}"
    named = [case for case in one.fault.breaks if case in one.broken]
    missing = [case for case in one.fault.breaks if case not in one.broken]
    text = f"{'good   ' if not missing else 'NOT    '} {one.fault.name}: "
    text += " ".join(named) or "nothing"
    if missing:
        text += f"; not broken: {' '.join(missing)}"
    if survey:
        others = [case for case in one.broken if case not in one.fault.breaks]
        text += f"; also: {' '.join(others)}"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit status: 0 good, 1 not good."""
    parser = argparse.ArgumentParser(
        prog="faults.py", description="Can the tests of each numbered case fail."
    )
    parser.add_argument("words", nargs="*", help="parts of the names of faults")
    parser.add_argument("--record", type=Path, help="an ordinary run's --cases-out")
    parser.add_argument("--survey", action="store_true", help="run all marked tests")
    parser.add_argument("--list", action="store_true", help="tell the faults only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args(arguments)
    words = options.words
    chosen = [
        one
        for one in FAULTS.values()
        if not words or any(word in one.name for word in words)
    ]
    if options.list:
        for one in chosen:
            print(f"{one.name}: {' '.join(one.breaks)}")
        return 0
    if not chosen:
        print("no fault has these words")
        return 1
    with ExitStack() as stack:
        runners = [stack.enter_context(Runner()) for _ in range(options.jobs)]
        if options.record is None:
            record = marked_tests(runners[0])
        else:
            record = json.loads(options.record.read_text(encoding="utf-8"))
        found = _run_all(chosen, record, runners, survey=options.survey)
        lines = judge(found, record)
        tests = sorted({test for one in found for test in one.broken.values()})
        if options.record is not None:
            told = {test: how for held in record.values() for test, how in held.items()}
            lines += _not_passed(tests, told)
        elif tests:
            lines += _failing_without_a_fault(tests, runners[0])
    for line in lines:
        print(line)
    print(f"faults: {len(chosen)} planted, {len(lines)} complaints")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
