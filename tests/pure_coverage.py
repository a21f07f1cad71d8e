"""The check that tests reach every line and every branch of the pure files.

Lives here: a program for `make coverage`.  It reads what a run of the tests under
coverage left, and prints for each pure file the lines and branches that no test
reached.  Which files are pure is said by the table of `test_architecture.py`.

Run it from the root of the project: `python -m tests.pure_coverage`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import coverage
from coverage.exceptions import NoDataError

from tests.test_architecture import PROJECT, PURE

__all__ = ["gaps", "main", "read_report"]


def read_report(data: Path, root: Path, config: Path | None = None) -> dict[str, Any]:
    """What a run left, by file, each named by its path below `root`."""
    settings = str(config) if config is not None else False
    measured = coverage.Coverage(str(data), config_file=settings)
    measured.load()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        try:
            measured.json_report(outfile=str(path))
        except NoDataError:
            return found
        report = json.loads(path.read_text(encoding="utf-8"))
    for name, told in report["files"].items():
        path = (root / name).resolve()
        if path.is_relative_to(root):
            found[path.relative_to(root).as_posix()] = told
    return found


def gaps(report: dict[str, Any], names: Iterable[str]) -> list[str]:
    """One line for each of the files that some test does not wholly reach.

    Args:
        report: what was measured, by file.
        names: the files that must be reached.
    """
    lines = []
    for name in sorted(names):
        told = report.get(name)
        if told is None:
            lines.append(f"{name}: no test reaches it")
            continue
        if "missing_branches" not in told:
            lines.append(f"{name}: branches were not measured")
            continue
        missed = [f"line {line}" for line in told["missing_lines"]]
        missed += [
            f"branch {start} to {'the end' if end < 0 else end}"
            for start, end in told["missing_branches"]
            if not {start, end} & set(told["missing_lines"])
        ]
        if missed:
            lines.append(f"{name}: no test reaches {', '.join(missed)}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit status: 0 good, 1 not good, 2 nothing to read."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pure_coverage",
        description="Which branches of the pure files no test reaches.",
    )
    parser.add_argument(
        "--data", type=Path, default=PROJECT / ".coverage", help="what a run left"
    )
    options = parser.parse_args(arguments)
    if not options.data.is_file():
        print(f"pure coverage: no {options.data}: run the tests under coverage first")
        return 2
    report = read_report(options.data, PROJECT, PROJECT / "pyproject.toml")
    found = gaps(report, PURE)
    print("".join(f"{line}\n" for line in found), end="")
    verdict = f"{len(found)} NOT WHOLLY REACHED" if found else "all reached"
    print(f"pure coverage: {len(PURE)} files, {verdict}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
