"""Kills: a script of more than thirty agents, killed at a write to its store, resumed.

Lives here: the script, a store that kills its process at the n-th commit, and what must
hold afterwards: the result is that of an undisturbed run, no answer that had been
accepted was asked for again, counted at the model, and the journal is whole.

    python -m tests.lifecycle.script_kills --points 50

kills at fifty writes on each backend, and says how long that took.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import attrs

import ramet
from ramet import SqliteReader, SqliteStore
from ramet.lifecycle.runs import Run, check_replay, runs
from ramet.lifecycle.script import ScriptRun
from ramet.lifecycle.script_file import ScriptFile
from ramet.mailbox.events import (
    Accepted,
    Concluded,
    Journaled,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import AssistantMessage, ToolMessage, UserMessage
from ramet.mailbox.store import Batch

__all__ = [
    "BACKENDS",
    "Killed",
    "Point",
    "killed_at",
    "main",
    "points_of",
    "resumed",
    "undisturbed",
    "unpaired",
]

PROJECT = Path(__file__).resolve().parent.parent.parent

ROOT = ramet.AgentSpec("lead", policy={"notices": "quiet", "wake_budget": 0})
CLERK = ramet.AgentSpec("clerk", "You answer.")
SCOUT = ramet.AgentSpec("scout", "You look and report.")

NUMBER = {"type": "integer", "minimum": 0}


# -- the script ------------------------------------------------------------------------


@attrs.frozen
class Size:
    """What a member of the second group returns."""

    wide: int


async def script(flow: ramet.Flow) -> dict[str, Any]:
    """Two groups, a loop over work units, a child with a followup, and a last word."""
    flow.phase("sort")
    watch = await flow.spawn("watch the gate", spec=SCOUT, label="watch")
    colours = await flow.parallel(
        [
            partial(
                flow.agent, f"colour {n}", spec=CLERK, choice=["red", "green", "blue"]
            )
            for n in range(8)
        ]
    )
    flow.phase("measure")

    async def measure(unit: str) -> list[int]:
        size = await flow.agent(f"size {unit}", spec=CLERK, returns=Size)
        count = await flow.agent(
            f"count {unit} of {size.wide}", spec=CLERK, schema=NUMBER, label=unit
        )
        return [size.wide, count]

    sizes = await flow.parallel(
        [item.bind(measure) for item in flow.items("unit", list("abcdefgh"))]
    )
    first = await watch.outcome()
    flow.phase("sum")
    sums: list[int] = []
    for item in flow.items("sum", [1, 2, 3, 4]):
        with item:
            sums.append(
                await flow.agent(
                    f"number {item.value} after {sums}", spec=CLERK, schema=NUMBER
                )
            )
    more = await watch.send("and the door?")
    second = await more.outcome()
    seen = await watch.reports()
    words = [await flow.agent(f"word {n}", spec=CLERK) for n in range(3)]
    last = await flow.agent(f"say {seen} {words}", spec=CLERK, text=True)
    return {
        "colours": colours,
        "sizes": sizes,
        "sums": sums,
        "watch": [first.status, second.status, seen],
        "words": words,
        "last": last,
    }


SCRIPT = ScriptFile("kills.py", "digest", script, ROOT, (CLERK, SCOUT))


class Mind:
    """A model whose every answer follows from what it is asked.

    Args:
        asked: the file to which it writes the prompt of each request.
    """

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    async def __call__(self, request: ramet.ModelRequest) -> ramet.ModelResponse:
        """Answer one request."""
        said = [one for one in request.messages if isinstance(one, UserMessage)]
        prompt = said[-1].blocks[-1] if request.name == "scout" else said[0].blocks[-1]
        with self._asked.open("a") as file:
            file.write(f"{json.dumps(prompt)}\n")
        if request.name == "scout":
            return self._look(request, prompt)
        kind, _, rest = prompt.partition(" ")
        if kind == "say":
            return ramet.ModelResponse(f"the last word on {len(rest)} letters")
        number = sum(map(ord, rest))
        value: Any = {
            "colour": ["red", "green", "blue"][number % 3],
            "size": {"wide": number % 10},
            "count": number % 7,
            "number": number % 5,
            "word": f"word of {rest}",
        }[kind]
        wrong = kind == "number" and not any(
            isinstance(one, ToolMessage) for one in request.messages
        )
        return _calls("reply", {"value": "none" if wrong else value})

    def _look(self, request: ramet.ModelRequest, prompt: str) -> ramet.ModelResponse:
        """Report once what was asked, also when a turn was cut in between."""
        output = f"seen: {prompt}"
        calls: tuple[ramet.Call, ...] = ()
        for one in request.messages:
            if isinstance(one, AssistantMessage):
                calls = one.calls
            elif isinstance(one, ToolMessage):
                for call, result in zip(calls, one.results, strict=True):
                    told = json.loads(call.arguments)["output"]
                    if told == output and result.error is None:
                        return ramet.ModelResponse("done")
        return _calls("report", {"output": output})


def _calls(name: str, arguments: dict[str, Any]) -> ramet.ModelResponse:
    call = ramet.Call(name, json.dumps(arguments))
    return ramet.ModelResponse("", (call,), "tool_calls")


# -- runs of it ------------------------------------------------------------------------


BACKENDS = ("asyncio", "trio")


@attrs.frozen
class Point:
    """When a process dies: before or after which of its writes, on which backend."""

    write: int
    after: bool
    backend: str

    def __str__(self) -> str:
        moment = "after" if self.after else "before"
        return f"{moment} write {self.write} on {self.backend}"


def points_of(count: int, points: int, backends: Sequence[str]) -> list[Point]:
    """Points spread evenly over a run: different writes, as long as there are enough.

    Args:
        count: how many writes a run has; its last one is left out, since the run is
            over by then.
        points: how many are wanted.
        backends: each in its turn.
    """
    moments = 2 * (count - 1)
    if points > moments:
        raise ValueError(f"a run of {count} writes has {moments} points")
    chosen = [n * moments // points for n in range(points)]
    return [
        Point(one // 2 + 1, one % 2 == 1, backends[n % len(backends)])
        for n, one in enumerate(chosen)
    ]


class KillingStore(SqliteStore):
    """Kills its process before or after a commit, unless that is `None`."""

    def __init__(self, path: Path, point: Point | None) -> None:
        super().__init__(path)
        self.writes = 0
        self._point = point

    def append(self, batch: Batch) -> None:
        """Store a batch, or die."""
        self.writes += 1
        self._die(after=False)
        super().append(batch)
        self._die(after=True)

    def _die(self, *, after: bool) -> None:
        point = self._point
        if point is not None and (point.write, point.after) == (self.writes, after):
            os.kill(os.getpid(), signal.SIGKILL)


def _to_go_on_with(path: Path) -> Run | None:
    """The run of a store that can be taken up again, if it has one."""
    if not path.exists():
        return None
    reader = SqliteReader(path)
    found = list(runs(reader))
    reader.close()
    for one in found:
        try:
            check_replay(
                one, digest="digest", sources={}, data=None, args=(), allowed=False
            )
        except ramet.ReplayRefusedError as error:
            if error.code != "no-recorded-calls":
                raise
        else:
            return one
    return None


async def _run(store: SqliteStore, asked: Path, path: Path) -> Any:
    """Run the script in a store: fresh, or its run that can be taken up again."""
    run = _to_go_on_with(path)
    model = ramet.FunctionModel(Mind(asked))
    specs = (ROOT, CLERK, SCOUT)
    async with ramet.open(store, specs=specs, model=model) as supervisor:
        supervisor.register_setup(ramet.report_setup())
        script_run = ScriptRun(supervisor, SCRIPT)
        if run is None:
            root = await script_run.begin()
        else:
            root = await script_run.take_up(run)
        result = await script_run.finish(root)
    assert result.error is None, result.error
    return result.value


def undisturbed(folder: Path) -> tuple[Any, int]:
    """The result of a run that nobody kills, and how many writes it has at the least.

    What is stored together depends on the moment, so that not every run has as many.
    """
    counts, values = [], []
    for backend in BACKENDS:
        store = KillingStore(folder / f"whole-{backend}.db", None)
        run = partial(_run, store, folder / "whole.txt", folder / "nothing.db")
        values.append(anyio.run(run, backend=backend))
        counts.append(store.writes)
    assert values[0] == values[1]
    return values[0], min(counts)


@attrs.frozen
class Killed:
    """What a kill left: the store, what was asked, and which prompts were answered."""

    point: Point
    store: Path
    asked: Path
    before: list[str]
    answered: frozenset[str]


def killed_at(folder: Path, point: Point) -> Killed:
    """Run the script in a process of its own that is killed at a point.

    A run that had fewer writes than that, and came to its end, is killed earlier.
    """
    for earlier in (0, 3, 6, 9):
        found = attrs.evolve(point, write=max(1, point.write - earlier))
        name = f"{found}".replace(" ", "-")
        store, asked = folder / f"{name}.db", folder / f"{name}.txt"
        words = [sys.executable, "-m", "tests.lifecycle.script_kills", "--child"]
        path = os.pathsep.join((str(PROJECT), str(PROJECT / "src")))
        moment = "after" if found.after else "before"
        done = subprocess.run(
            [*words, str(store), str(asked), str(found.write), moment, found.backend],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
            capture_output=True,
            timeout=120,
        )
        if done.returncode == -signal.SIGKILL:
            return Killed(found, store, asked, _lines(asked), _answered(store))
        assert done.returncode == 0, done.stderr.decode()
    raise AssertionError(f"a run ended before it could be killed {point}")


def resumed(killed: Killed) -> tuple[Any, list[str]]:
    """The result of the resumed run, and what the model was asked in it."""
    value = anyio.run(
        _run,
        SqliteStore(killed.store),
        killed.asked,
        killed.store,
        backend=killed.point.backend,
    )
    return value, _lines(killed.asked)[len(killed.before) :]


def unpaired(store: Path) -> list[str]:
    """Calls and groups of a run's journal that have no end, or more than one."""
    reader = SqliteReader(store)
    *_, run = runs(reader)
    found = []
    for name, begin in (("call", "queued"), ("group", "started")):
        begun: list[str] = []
        ended: Counter[str] = Counter()
        for event in reader.load(run.id):
            if not isinstance(event, Journaled):
                continue
            if event.kind == f"{name}.{begin}":
                begun.append(json.loads(event.data)[name])
            elif event.kind == f"{name}.ended":
                ended[json.loads(event.data)[name]] += 1
        found += [f"{one}: {ended[one]} ends" for one in begun if ended[one] != 1]
        found += [f"{one} never began" for one in ended if one not in begun]
    reader.close()
    return found


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _answered(store: Path) -> frozenset[str]:
    """The prompts whose answer is stored."""
    if not store.exists():
        return frozenset()
    recovered = SqliteStore(store)
    recovered.open()
    recovered.close()
    reader = SqliteReader(store)
    found = set()
    for run in runs(reader):
        for row in reader.children(run.id, None, 1000):
            prompts: dict[str, str] = {}
            claimed: tuple[str, ...] = ()
            for event in reader.load(row.session):
                if isinstance(event, Accepted):
                    prompts[event.id] = event.content[-1]
                elif isinstance(event, TurnOpened):
                    claimed = event.claimed
                elif isinstance(event, Concluded) and event.status == "completed":
                    found.add(prompts[event.message])
                elif (
                    isinstance(event, TurnEnded)
                    and event.status == "completed"
                    and row.kind == "continuable"
                ):
                    found.update(prompts[one] for one in claimed)
    reader.close()
    return frozenset(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill and resume at many writes; gives 0 when all is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.lifecycle.script_kills")
    parser.add_argument("--points", type=int, default=50, help="on each backend")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        store, asked, write, moment, backend = options.child
        point = Point(int(write), moment == "after", backend)
        run = partial(_run, KillingStore(Path(store), point), Path(asked), Path(store))
        anyio.run(run, backend=backend)
        return 0
    bad = kills = 0
    began = time.monotonic()
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            value, count = undisturbed(folder)
            for point in points_of(count, options.points, [backend]):
                killed = killed_at(folder, point)
                again, asked = resumed(killed)
                faults = sorted(killed.answered.intersection(asked))
                faults += unpaired(killed.store)
                if again != value:
                    faults.append("another result")
                bad += bool(faults)
                kills += 1
                said = f"BAD: {'; '.join(faults)}" if faults else "good"
                print(
                    f"{killed.point}, of {count}: {len(killed.answered)} answered,"
                    f" {len(asked)} asked again: {said}",
                    flush=True,
                )
    print(f"{kills} kills, {bad} bad, in {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
