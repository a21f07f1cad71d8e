"""Which numbered case is held by which test: the program behind `make cases`.

Lives here: the lists of cases, the comparison with a run's record, and its printing.
A list is a Markdown file with items `- **R-014** Given ...`.  Where the folder of the
lists is at hand, they are read from there; else from `tests/data/cases.txt`, which
`--update` writes.

A case counts only if its tests can fail: a planted fault breaks it (`tests/planted/`,
and `make faults` shows that it does), or a page says why none can.

    python tests/cases.py                     run the tests, then print every case
    python tests/cases.py --require R         fail when a case R-... has no passing test
                                              or can not be seen to fail
    python tests/cases.py --record FILE       do not run; use a run's --cases-out
    python tests/cases.py --update            write tests/data/cases.txt anew
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "Record",
    "main",
    "read_cases",
    "read_excused",
    "summarise",
    "write_cases",
]

PROJECT = Path(__file__).resolve().parent.parent
LISTS = PROJECT.parent / "shared" / "conformance"
KEPT = PROJECT / "tests" / "data" / "cases.txt"
EXCUSED = PROJECT / "docs" / "decisions" / "0026-what-no-fault-breaks.md"
"""The page that says, case by case, why no planted fault can break it."""

BREAKABLE = frozenset("R")
"""The lists whose cases are broken by planted faults."""

_ITEM = re.compile(r"^- \*\*([RA]-[0-9]{3})\*\* (.*)$", re.MULTILINE)
_KEPT_LINE = re.compile(r"([RA]-[0-9]{3}) (.*)")

Record: TypeAlias = dict[str, dict[str, str]]
"""For each case the tests that hold it, and how each ended."""


def read_cases(lists: Path, kept: Path) -> dict[str, str]:
    """The number and the first line of each case.

    Args:
        lists: a folder of Markdown lists; it may be missing.
        kept: the file to read instead.

    Raises:
        ValueError: a number occurs twice, a line cannot be read, or there is no case.
    """
    found: list[tuple[str, str]] = []
    if lists.is_dir():
        for path in sorted(lists.glob("*.md")):
            found.extend(_ITEM.findall(path.read_text(encoding="utf-8")))
    else:
        for line in kept.read_text(encoding="utf-8").splitlines():
            match = _KEPT_LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"{kept.name}: not a case: {line!r}")
            found.append((match[1], match[2]))
    cases = dict(found)
    if len(cases) != len(found):
        numbers = [number for number, _ in found]
        twice = sorted({number for number in numbers if numbers.count(number) > 1})
        raise ValueError(f"the lists have a number twice: {', '.join(twice)}")
    if not cases:
        raise ValueError(f"no case in {lists if lists.is_dir() else kept}")
    return dict(sorted(cases.items()))


def read_excused(page: Path) -> frozenset[str]:
    """The cases of which a page says why no fault breaks them."""
    return frozenset(number for number, _ in _ITEM.findall(page.read_text("utf-8")))


def write_cases(cases: dict[str, str], kept: Path) -> None:
    """Keep the cases in the project, one a line."""
    lines = (f"{number} {text}\n" for number, text in cases.items())
    kept.write_text("".join(lines), encoding="utf-8")


def summarise(
    cases: dict[str, str],
    record: Record,
    require: Sequence[str],
    *,
    faults: Mapping[str, Iterable[str]],
    excused: frozenset[str] = frozenset(),
) -> tuple[list[str], bool]:
    """The lines to print, and whether the run holds what is required.

    Args:
        cases: number and first line of each case.
        record: who held what, and how it ended.
        require: the letters of the lists of which each case needs a passing test that
            can fail.
        faults: each planted fault, and the cases that it breaks.
        excused: the cases that no fault can break, for a reason that is written down.
    """
    lines = []
    counts = {letter: [0, 0, 0] for letter in sorted({number[0] for number in cases})}
    unbroken = dict.fromkeys(counts, 0)
    breaking: dict[str, list[str]] = {}
    for fault, broken_cases in faults.items():
        for number in broken_cases:
            breaking.setdefault(number, []).append(fault)
    good = True
    for number, text in cases.items():
        tests = _by_function(record.get(number, {}))
        held = any(verdict == "passed" for verdict, _ in tests.values())
        broken = any(verdict == "failed" for verdict, _ in tests.values())
        state = "FAILED" if broken else "held" if held else "none"
        counts[number[0]][0 if state == "held" else 1 if broken else 2] += 1
        good = good and not broken and (held or number[0] not in require)
        lines.append(f"{number}  {state:6}  {_shorten(text)}")
        lines.extend(f"{'':15} {name} ({told})" for name, (_, told) in tests.items())
        by = breaking.get(number, [])
        lines.extend(f"{'':15} broken when {fault}" for fault in by)
        if number in excused:
            lines.append(f"{'':15} broken by nothing: {EXCUSED.name} says why")
        elif not by and number[0] in BREAKABLE:
            unbroken[number[0]] += 1
            good = good and number[0] not in require
            lines.append(f"{'':15} broken by no planted fault")
    for number in sorted(record.keys() - cases.keys()):
        good = False
        holders = ", ".join(_by_function(record[number]))
        lines.append(f"{number}  UNKNOWN: no list has this number; held by {holders}")
    lines.append("")
    for letter, (held_count, failed, none) in counts.items():
        total = held_count + failed + none
        required = ", required" if letter in require else ""
        lines.append(
            f"cases {letter}: {held_count} of {total} held, {failed} with a failing "
            f"test, {none} without a passing test{required}"
        )
        if letter in BREAKABLE:
            lines.append(f"cases {letter}: {unbroken[letter]} broken by no fault")
    lines.append(f"cases: {'good' if good else 'NOT GOOD'}")
    return lines, good


def _by_function(holders: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Put the variants of a test together: its verdict, and how many ended how."""
    functions: dict[str, list[str]] = {}
    for holder, outcome in holders.items():
        functions.setdefault(holder.partition("[")[0], []).append(outcome)
    together = {}
    for name, outcomes in functions.items():
        if "failed" in outcomes:
            verdict = "failed"
        elif all(outcome == "passed" for outcome in outcomes):
            verdict = "passed"
        else:
            verdict = "open"
        told = ", ".join(
            f"{outcomes.count(outcome)} {outcome}" for outcome in sorted(set(outcomes))
        )
        together[name] = (verdict, told)
    return together


def _planted() -> dict[str, tuple[str, ...]]:
    """Each planted fault, and the cases that it breaks."""
    sys.path.insert(0, str(PROJECT))
    from tests.planted.table import FAULTS

    return {name: fault.breaks for name, fault in FAULTS.items()}


def _shorten(text: str) -> str:
    return text if len(text) <= 72 else text[:71] + "…"


def _run_tests(arguments: Sequence[str]) -> tuple[Record, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        command = [sys.executable, "-m", "pytest", "-q", f"--cases-out={path}"]
        done = subprocess.run([*command, *arguments], cwd=PROJECT, check=False)
        if not path.exists():
            return {}, done.returncode or 1
        return _read_record(path), done.returncode


def _read_record(path: Path) -> Record:
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit status: 0 good, 1 not good."""
    parser = argparse.ArgumentParser(
        prog="cases.py", description="Which numbered case is held by which test."
    )
    parser.add_argument(
        "--require",
        action="append",
        choices=["R", "A"],
        default=[],
        help="fail when a case of this list has no passing test; may be given twice",
    )
    parser.add_argument("--record", type=Path, help="a run's --cases-out; runs nothing")
    parser.add_argument("--update", action="store_true", help="write the kept list")
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder of the lists")
    parser.add_argument("pytest", nargs="*", help="passed on to pytest")
    options = parser.parse_args(arguments)
    cases = read_cases(options.lists, KEPT)
    if options.update:
        write_cases(cases, KEPT)
        print(f"{len(cases)} cases written to {KEPT.relative_to(PROJECT)}")
        return 0
    if options.record is not None:
        record, status = _read_record(options.record), 0
    else:
        record, status = _run_tests(options.pytest)
    lines, good = summarise(
        cases,
        record,
        options.require,
        faults=_planted(),
        excused=read_excused(EXCUSED),
    )
    print("\n".join(lines))
    if status != 0:
        print(f"cases: pytest ended with status {status}")
    return 0 if good and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
