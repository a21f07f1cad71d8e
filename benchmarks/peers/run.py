"""ramet beside others: one command that measures what users would pick instead.

Lives here: the command line, and the way from a plan to a page.  `systems.py` says who
takes part, `workloads.py` what is done and what is hoped for, `measure.py` what happens
in each process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers import environments, plan, processes
from benchmarks.peers.page import Report, goals, page, verdict
from benchmarks.peers.results import Sample, number, rows
from benchmarks.peers.systems import PEERS, System, chosen, reason_against

PROJECT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 180.0
"""Of one process, which measures all pieces of one system."""
HEADING = f"{'round':5} {'system':20} {'what':32} {'a piece':>12} {'times limit':>11}"


def read_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/peers/run.py", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only check that it runs: ramet and the bare limits, nothing installed",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=PEERS,
        metavar="PEER",
        help=f"beside this one alone, also a heavy one: {', '.join(PEERS)}",
    )
    parser.add_argument(
        "--heavy", action="store_true", help="beside the slow and rarer ones as well"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="3, with --quick 2")
    parser.add_argument(
        "--environments",
        type=Path,
        default=PROJECT / ".peers",
        metavar="DIR",
        help="where the peers are installed; kept for the next run (.peers)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page")
    found = parser.parse_args(words)
    if found.rounds is None:
        found.rounds = 2 if found.quick else 3
    if found.rounds < 1:
        parser.error("--rounds must be at least 1")
    return found


class Bench:
    """One run: what was found, and what could not be."""

    def __init__(self, systems: Sequence[System], *, quick: bool) -> None:
        self._systems = systems
        self._quick = quick
        self._pythons: dict[str, str] = {}
        self._ours = dict(os.environ)
        self._theirs = {
            name: value for name, value in self._ours.items() if name != "PYTHONPATH"
        }
        self.samples: list[Sample] = []
        self.versions: dict[str, dict[str, str]] = {}
        self.missing: dict[str, str] = {}

    def prepare(self, folder: Path) -> None:
        """Have every peer installed; whose is not is left out, with one line."""
        tried: dict[str, str | environments.NotInstalledError] = {}
        for one in self._systems:
            if not one.is_peer:
                self._pythons[one.name] = sys.executable
                continue
            if reason := reason_against(one):
                self._leave_out(one.name, reason)
                continue
            if one.environment not in tried:
                tried[one.environment] = self._install(folder / one.environment, one)
            found = tried[one.environment]
            if isinstance(found, str):
                self._pythons[one.name] = found
            else:
                self._leave_out(one.name, f"cannot be installed: {found}")

    def _install(
        self, folder: Path, one: System
    ) -> str | environments.NotInstalledError:
        if not environments.is_made(folder, one.pins):
            print(f"installing {', '.join(one.pins)}", flush=True)
        try:
            return str(environments.prepare(folder, one.pins))
        except environments.NotInstalledError as error:
            return error

    def _leave_out(self, name: str, reason: str) -> None:
        if self.missing.get(name) != reason:
            print(f"not measured: {name}: {reason}", flush=True)
        self.missing[name] = reason

    def measure(self, rounds: int) -> None:
        """Run all processes of the plan; the table grows as it goes."""
        able = [one for one in self._systems if one.name in self._pythons]
        print(HEADING)
        for turn, one in plan.interleaved(able, rounds):
            if one.name in self.missing:  # it would fail again
                continue
            inherited = self._theirs if one.is_peer else self._ours
            command = [self._pythons[one.name], "-m", "benchmarks.peers.measure"]
            ended = processes.run(
                [*command, one.name, *(["--quick"] if self._quick else [])],
                folder=PROJECT,
                environment={**inherited, **one.settings},
                timeout_s=TIMEOUT_S,
            )
            for line in ended.said.splitlines():
                self._take(turn, one, line)
            if ended.status != 0:
                self._leave_out(one.name, ended.reason)

    def _take(self, turn: int, one: System, line: str) -> None:
        """Understand one line of a process; a peer may say other things there."""
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            return
        if "versions" in said:
            self.versions[one.name] = said["versions"]
            return
        error = said.pop("error", None)
        if error is not None:
            self._leave_out(f"{one.name}, {said['workload']}", error)
            return
        found = Sample(system=one.name, round=turn, **said)
        self.samples.append(found)
        print(as_line(found), flush=True)


def as_line(one: Sample) -> str:
    """One line of the table."""
    what = f"{one.workload}, {one.variant}" if one.variant else one.workload
    return (
        f"{one.round:5} {one.system:20} {what:32} {number(one.us):>9} us"
        f" {number(one.times_limit):>11}"
    )


def machine() -> dict[str, str]:
    """What the numbers hold for."""
    return {
        "Python": platform.python_version(),
        "on": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def as_json(report: Report, samples: Sequence[Sample]) -> dict[str, Any]:
    """Every round of everything, and the goals."""
    return {
        "machine": dict(report.machine),
        "quick": report.quick,
        "rounds": report.rounds,
        "systems": [
            {
                "name": one.name,
                "backend": one.backend,
                "pins": one.pins,
                "versions": report.versions.get(one.name, {}),
            }
            for one in report.systems
        ],
        "missing": dict(report.missing),
        "measured": [asdict(one) for one in samples],
        "goals": [
            {
                "workload": one.goal.workload,
                "ours": one.ours,
                "beside": one.goal.system,
                "at_most_times": one.goal.times,
                "found": asdict(one.found) if one.found else None,
                "verdict": verdict(one),
            }
            for one in report.judgements
        ],
    }


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"written: {file}")


def main(words: Sequence[str] | None = None) -> int:
    asked = read_arguments(words)
    systems = chosen(asked.only or (), heavy=asked.heavy, quick=asked.quick)
    began = perf_counter()
    if asked.quick:
        print("quick: this only shows that everything runs; the numbers say nothing")
    bench = Bench(systems, quick=asked.quick)
    bench.prepare(asked.environments)
    bench.measure(asked.rounds)
    report = Report(
        machine(),
        asked.rounds,
        systems,
        rows(bench.samples),
        bench.versions,
        bench.missing,
        quick=asked.quick,
    )
    print(f"\n{goals(report.judgements)}\n\n{perf_counter() - began:.0f} s in all")
    if asked.page:
        write(asked.page, page(report))
    if asked.json:
        text = json.dumps(as_json(report, bench.samples), indent=1)
        write(asked.json, text + "\n")
    ours = {one.name for one in systems if not one.is_peer}
    broken = [name for name in bench.missing if name.partition(",")[0] in ours]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
