"""Growth: how costs go with the number of agents, depth, and the size of what is kept.

Lives here: the curves, each of them one workload of the benchmarks at several sizes,
and the page that shows them.  A curve is good when it is level: it is always the cost
of one piece.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import agents
import bare
import durable
import long_log
import memory
import scale
import stores
from clock import CLOCK
from plots import Curve, plot

_ROUNDS = 3

Value = Callable[[str, int, str], float]
"""The cost on a backend, at a size, with a folder for files."""


@dataclass
class Question:
    """What a picture asks: its words, the sizes, and what is measured at each."""

    name: str
    title: str
    across: str
    up: str
    sizes: Sequence[int]
    values: dict[str, Value]


def _workload(function: Callable[[bare.Bare, int], Awaitable[float]]) -> Value:
    """Microseconds of one piece, as the median of a few rounds."""

    def value(backend: str, size: int, folder: str) -> float:
        async def one(found: bare.Bare) -> float:
            return await function(found, size)

        times = [bare.run(backend, one) for _ in range(_ROUNDS)]
        return statistics.median(times) / size * 1e6

    return value


async def sized_reports(backend: bare.Bare, size: int) -> float:
    """Stored reports of a size, in memory; scaled, so that a piece is one report."""
    count = max(min(2_000, 20_000_000 // size), 20)
    text = "x" * size
    async with agents.opened(agents.QUIET) as supervisor:
        _, child = await agents.pair(supervisor)
        began = CLOCK.now()
        for _ in range(count):
            await supervisor.report_from(child, text)
        return (CLOCK.now() - began) / count * size


async def sized_commits(backend: bare.Bare, size: int, folder: str) -> float:
    """The same into a file, many at once."""
    count = max(min(1_000, 20_000_000 // size), 20)
    path = os.path.join(folder, f"{backend.name}-{size}.db")
    async with durable.reporting(path, 1) as (supervisor, (child,)):
        report = partial(supervisor.report_from, child, "x" * size)
        began = CLOCK.now()
        await backend.at_once([report] * count)
        return (CLOCK.now() - began) / count


def _commits(backend: str, size: int, folder: str) -> float:
    asked = partial(sized_commits, size=size, folder=folder)
    return bare.run(backend, asked) * 1e6


def _log(kind: str, backend: str, size: int, folder: str) -> float:
    """Milliseconds of the quickest cold resume, or of a turn, with a compacted log."""

    path = os.path.join(folder, f"{backend}-log-{size}.db")
    marker = Path(f"{path}.id")

    async def make(found: bare.Bare) -> str:
        return await long_log.make(path, size, compacted=True)

    if not marker.exists():
        marker.write_text(bare.run(backend, make))
    session = marker.read_text()

    async def ask(found: bare.Bare) -> float:
        if kind == "resume":
            return min(await long_log.resumed(path, session, compacted=True))
        times = await long_log.turned(path, session, compacted=True)
        return statistics.median(times) / 1e3

    return bare.run(backend, ask)


def _store(key: str, backend: str, size: int, folder: str) -> float:
    path = os.path.join(folder, f"store-{size}.db")
    if not os.path.exists(path):
        stores.fill(path, size)
    return stores.in_a_process(backend, path, size)[key]


def _memory(key: str, backend: str, size: int, folder: str) -> float:
    found = memory.in_a_process(backend, folder, size, traced=False)
    for path in Path(folder).glob("resident.db*"):
        path.unlink()
    return found[key] / size * 1e3


def questions(*, quick: bool, large: bool) -> list[Question]:
    """Every picture."""

    def sizes(*wanted: int) -> list[int]:
        return [max(size // 100, 10) for size in wanted[:2]] if quick else list(wanted)

    logs = sizes(1_000, 10_000, 100_000)
    sessions = sizes(1_000, 10_000, 100_000, *([1_000_000] if large else []))
    return [
        Question(
            "agents",
            "Many agents",
            "agents",
            "us each",
            sizes(100, 1_000, 10_000),
            {
                "start, turn, settle": _workload(scale.lives_in_waves),
                "cancel in a call": _workload(scale.cancel_wide),
            },
        ),
        Question(
            "idle",
            "Idle agents: a full collection",
            "agents",
            "us each",
            sizes(1_000, 10_000, 100_000),
            {"collection": partial(_memory, "collect_more_ms")},
        ),
        Question(
            "depth",
            "Deep chains",
            "levels",
            "us a level",
            sizes(100, 1_000, 5_000),
            {
                "down and up": _workload(scale.chain),
                "cancel": _workload(scale.cancel_deep),
            },
        ),
        Question(
            "log",
            "Long logs, compacted now and then",
            "events",
            "ms",
            logs,
            {"cold resume": partial(_log, "resume"), "a turn": partial(_log, "turn")},
        ),
        Question(
            "message",
            "Large messages",
            "characters",
            "us each",
            sizes(100, 1_000, 10_000, 100_000, 1_000_000),
            {"in memory": _workload(sized_reports), "in a file": _commits},
        ),
        Question(
            "store",
            "Large stores",
            "sessions at rest",
            "ms",
            sessions,
            {
                "open": partial(_store, "open_ms"),
                "cold resume": partial(_store, "resume_ms"),
                "a page": partial(_store, "page_ms"),
            },
        ),
    ]


def measure(
    backends: Sequence[str],
    page: Path,
    directory: str | None,
    *,
    quick: bool,
    large: bool,
    about: str,
) -> None:
    """Measure every curve, and write the pictures and the page that shows them."""
    page.mkdir(parents=True, exist_ok=True)
    lines = [
        "# How costs grow",
        "",
        'Made by `make bench ARGS="--growth docs/performance"`. Each point is the cost'
        " of one piece; both",
        "axes are logarithmic, so that a level line is what one wants. What is measured"
        " is told on the page about [performance](../performance.md).",
        "",
        about,
        "",
    ]
    for question in questions(quick=quick, large=large):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            curves = list(_curves(question, backends, folder))
        picture = page / f"{question.name}.svg"
        told = plot(question.title, question.across, question.up, curves)
        picture.write_text(told, encoding="utf-8")
        lines += _section(question, curves)
    (page / "growth.md").write_text("\n".join(lines), encoding="utf-8")


def _curves(
    question: Question, backends: Sequence[str], folder: str
) -> Iterator[Curve]:
    for backend in backends:
        for name, value in question.values.items():
            points = []
            for size in question.sizes:
                found = value(backend, size, folder)
                points.append((float(size), found))
                print(
                    f"{question.name:8} {backend:8} {name:20} {size:>9,} {found:10.3f}"
                )
            yield Curve(f"{name}, {backend}", points)


def _section(question: Question, curves: Sequence[Curve]) -> list[str]:
    heads = [f"{size:,}" for size in question.sizes]
    rows = [
        f"| {curve.name} | {' | '.join(_told(y) for _, y in curve.points)} |"
        for curve in curves
    ]
    return [
        f"## {question.title}",
        "",
        f"![{question.title}]({question.name}.svg)",
        "",
        f"| {question.up}, by {question.across} | {' | '.join(heads)} |",
        f"| --- |{' --- |' * len(heads)}",
        *rows,
        "",
    ]


def _told(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"
