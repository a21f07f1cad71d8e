"""The benchmarks: one command that measures what the goals name, beside bare limits.

Lives here: the command line, the table and the file.  What is measured is in
`agents.py`, `scale.py`, `durable.py`, `memory.py` and `stores.py`, how in `rounds.py`,
the limits in `bare.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import agents
import bare
import durable
import growth
import long_log
import memory
import scale
import soak
import stores
from clock import CLOCK
from rounds import Measured, interleaved

BACKENDS = ("asyncio", "trio")
GROUPS = (
    *(group.name for group in agents.groups(quick=True)),
    *(group.name for group in scale.groups(quick=True)),
    "durable",
    "memory",
    "store",
    "long log",
)


def read_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only check that it runs")
    parser.add_argument("--json", metavar="FILE", help="write every round to a file")
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="GROUP")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument(
        "--processor",
        action="store_true",
        help="count processor time, where others use the machine; not for durable",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each group")
    parser.add_argument(
        "--directory", help="where stores are made: a folder on the disk to measure"
    )
    parser.add_argument(
        "--agents",
        type=int,
        default=10_000,
        metavar="N",
        help="idle agents of the group memory (10,000); its goal is for 100,000",
    )
    parser.add_argument(
        "--sessions",
        type=int,
        default=100_000,
        metavar="N",
        help="sessions of the group store (100,000); its goal is for 1,000,000",
    )
    parser.add_argument(
        "--events",
        type=int,
        default=100_000,
        metavar="N",
        help="events of the group long log (100,000)",
    )
    parser.add_argument(
        "--growth",
        metavar="FOLDER",
        help="measure how costs grow instead, and write pictures and a page there",
    )
    parser.add_argument(
        "--soak",
        action="store_true",
        help="work for an hour of virtual time instead, and tell what memory does",
    )
    parser.add_argument(
        "--kept", metavar="FILE", help="the store of that group, kept for the next time"
    )
    found = parser.parse_args(words)
    if found.rounds is not None and found.rounds < 1:
        parser.error("--rounds must be at least 1")
    return found


def measure(asked: argparse.Namespace, backend: str) -> list[Measured]:
    """Everything that was asked for, on one backend; the table grows as it goes."""
    quick: bool = asked.quick
    wanted = asked.only or GROUPS
    rounds = asked.rounds or (2 if quick else 9)
    found: list[Measured] = []

    def add(some: list[Measured]) -> None:
        for one in some:
            print(line(one), flush=True)
        found.extend(some)

    for group in (*agents.groups(quick=quick), *scale.groups(quick=quick)):
        if group.name in wanted:
            add(bare.run(backend, partial(interleaved, group=group, rounds=rounds)))
    if "durable" in wanted:
        seconds = 0.05 if quick else 0.4
        rounds = asked.rounds or (2 if quick else 15)
        writing = partial(
            durable.measure, directory=asked.directory, rounds=rounds, seconds=seconds
        )
        add(bare.run(backend, writing))
    if "memory" in wanted:
        add(memory.measure(backend, 300 if quick else asked.agents, asked.directory))
    if "store" in wanted:
        sessions = 2_000 if quick else asked.sessions
        kept = None if quick else asked.kept
        add(stores.measure(backend, sessions, asked.directory, kept))
    if "long log" in wanted:
        events = 2_000 if quick else asked.events
        ask = partial(long_log.measure, events=events, directory=asked.directory)
        add(bare.run(backend, ask))
    return found


HEADING = (
    f"{'backend':8} {'what':38} {'median':>11} {'least':>9} {'most':>9}"
    f" {'times limit':>11}  goal"
)


def line(one: Measured) -> str:
    """One line of the table."""
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    goal = ""
    if one.goal is not None:
        said = f"{one.goal:g} {one.unit}"
        if one.more_is_better:
            said = f"{one.goal:g} of it"
        goal = f"{said}: {'met' if one.met else 'missed'}"
    digits = 2 if one.unit in ("us", "ms") and one.median < 100 else 0
    least, most = min(one.values), max(one.values)
    return (
        f"{one.backend:8} {one.name:38} {one.median:8.{digits}f} {one.unit:2}"
        f" {least:9.{digits}f} {most:9.{digits}f} {ratio:>11}  {goal}"
    ).rstrip()


def machine() -> dict[str, Any]:
    """What the numbers hold for."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("anyio", "trio", "ramet")},
    }


def as_json(found: list[Measured], *, quick: bool) -> dict[str, Any]:
    """Every round of everything."""
    rows = [
        {
            "group": one.group,
            "name": one.name,
            "backend": one.backend,
            "unit": one.unit,
            "median": one.median,
            "values": one.values,
            "limit": one.limit,
            "ratio": one.ratio,
            "ratios": one.ratios,
            "goal": one.goal,
            "met": one.met,
        }
        for one in found
    ]
    return {"machine": machine(), "quick": quick, "measured": rows}


def main(words: Sequence[str] | None = None) -> int:
    asked = read_arguments(words)
    told = ", ".join(f"{name} {value}" for name, value in machine().items())
    print(told)
    if asked.processor:
        CLOCK.count_processor()
    if asked.soak:
        return soak.run(quick=asked.quick, directory=asked.directory)
    if asked.growth is not None:
        growth.measure(
            asked.backend or BACKENDS,
            Path(asked.growth),
            asked.directory,
            quick=asked.quick,
            large=asked.sessions >= 1_000_000,
            about=told,
        )
        return 0
    if asked.quick:
        print("quick: this only shows that everything runs; the numbers say nothing")
    print(HEADING)
    if asked.processor:
        print("processor: this counts processor time, but for durable and memory")
    found: list[Measured] = []
    for backend in asked.backend or BACKENDS:
        found += measure(asked, backend)
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(as_json(found, quick=asked.quick), file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
