"""The page: what was measured, as Markdown that also reads well as it is.

Lives here: words and tables, made of rows and judgements, and nothing that measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .results import Comparison, Judgement, Row, bar, compared, faster, judged, number
from .systems import OURS, OURS_ON_TRIO, System
from .workloads import WORKLOADS, Workload

Cells = Sequence[str]


@dataclass(frozen=True)
class Report:
    """A whole run."""

    machine: Mapping[str, str]
    rounds: int
    systems: Sequence[System]
    """Those that took part, or were to."""
    rows: Sequence[Row]
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By system, then by distribution."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a system, or a piece of it, was not measured."""
    quick: bool = False

    @property
    def judgements(self) -> list[Judgement]:
        return judged(self.rows, (OURS, OURS_ON_TRIO))


def page(report: Report) -> str:
    """The whole page."""
    parts = [
        "# ramet beside others",
        _introduction(report),
        *_missing(report),
        "## Goals",
        goals(report.judgements),
        *(
            part
            for workload in WORKLOADS.values()
            for part in _workload(report, workload)
        ),
        "## What each system does here",
        _systems(report),
        *_pieces(report),
    ]
    return "\n\n".join(parts) + "\n"


def _introduction(report: Report) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    quick = (
        "This was a quick run, which only shows that everything runs: its numbers say"
        " nothing.\n\n"
        if report.quick
        else ""
    )
    return (
        f"{quick}Medians of {report.rounds} rounds on one machine ({machine}). In each"
        " round every system ran once, in a fresh process, forwards and backwards in"
        " turn. In that process the bare limit, actors made of a deque and a task, took"
        " turns with it; *times limit* is the median of those ratios, and varies less"
        " than microseconds from machine to machine. *ramet is* compares microseconds"
        " of the same round, and says the least and the most of the rounds. What a"
        " system puts off until after its last answer is not counted for it. Bars: one"
        " mark for the limit, and one more for each doubling of it."
    )


def _missing(report: Report) -> Iterator[str]:
    if report.missing:
        yield "Not measured:\n\n" + "\n".join(
            f"* {name}: {reason}" for name, reason in report.missing.items()
        )


def goals(judgements: Sequence[Judgement]) -> str:
    """One line for each goal and each way in which ramet does its workload."""
    if not any(one.found for one in judgements):
        return "No goal names anything that was measured."
    return _table(
        ("workload", "way", "beside", "goal", "ramet is", "so it is"),
        [
            (
                one.goal.workload,
                one.ours,
                one.goal.system,
                str(one.goal),
                _range(one.found),
                verdict(one),
            )
            for one in judgements
        ],
    )


def verdict(one: Judgement) -> str:
    """Whether a goal is met, and when it is missed by how much."""
    if one.found is None:
        return "not measured"
    if one.met:
        return "met"
    over = one.found.median / one.goal.times
    return f"missed: costs {number(over)} times what it may"


def _range(found: Comparison | None) -> str:
    if found is None:
        return ""
    text = faster(found.median)
    least, most = found.least, found.most
    if least == most:
        return text
    if text.endswith("faster"):
        return f"{text} ({number(1 / most)} to {number(1 / least)})"
    return f"{text} ({number(least)} to {number(most)})"


def _workload(report: Report, workload: Workload) -> Iterator[str]:
    rows = [row for row in report.rows if row.workload == workload.name]
    if not rows:
        return
    ours = [
        next((row for row in rows if row.name == name), None)
        for name in (OURS, OURS_ON_TRIO)
    ]
    lines = [
        (
            row.name,
            f"{number(row.us)} us",
            number(row.times_limit),
            *(_against(one, row) for one in ours),
            bar(row.times_limit),
        )
        for row in sorted(rows, key=lambda row: row.us)
    ]
    yield f"## {workload.name[0].upper()}{workload.name[1:]}"
    yield f"{workload.means} The limit: {workload.limit}; {_limit(report, rows)}."
    heads = ("system", "a piece", "times limit")
    yield _table((*heads, f"{OURS} is", f"{OURS_ON_TRIO} is", ""), lines)


def _limit(report: Report, rows: Sequence[Row]) -> str:
    """What the limit cost beside ramet, on each backend."""
    backends = {one.name: one.backend for one in report.systems if not one.is_peer}
    found = {backends[row.system]: row for row in rows if row.system in backends}
    return ", ".join(
        f"{number(row.limit_us)} us on {backend}"
        for backend, row in sorted(found.items())
    )


def _against(ours: Row | None, other: Row) -> str:
    if ours is None or other.system in (OURS, OURS_ON_TRIO):
        return ""
    found = compared(ours, other)
    return faster(found.median) if found else ""


def _systems(report: Report) -> str:
    return _table(
        ("system", "versions", "durable", "ids", "supervision"),
        [
            (
                name,
                ", ".join(
                    f"{distribution} {version}"
                    for distribution, version in report.versions.get(
                        one.name, {}
                    ).items()
                ),
                one.durable,
                one.ids,
                one.supervision,
            )
            for name, one in _described(report)
        ],
    )


def _described(report: Report) -> list[tuple[str, System]]:
    """Each system that ran, once: on both backends ramet does the same."""
    return [
        (one.name if one.is_peer else "ramet", one)
        for one in report.systems
        if one.name != OURS_ON_TRIO and one.name not in report.missing
    ]


def _pieces(report: Report) -> Iterator[str]:
    """One table for workloads of which everybody does the same."""
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in WORKLOADS:
        lines = tuple(
            (system, one.does[name])
            for system, one in _described(report)
            if name in one.does
        )
        names.setdefault(lines, []).append(name)
    for lines, some in names.items():
        yield f"A piece of *{'* and of *'.join(some)}*:"
        yield _table(("system", "does"), lines)


def _table(heads: Cells, lines: Sequence[Cells]) -> str:
    """A table of Markdown whose columns also stand under each other as they are."""
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    widths[-1] = len(heads[-1])
    rule = ["-" * max(width, 3) for width in widths]
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        + " |"
        for line in (heads, rule, *lines)
    )
