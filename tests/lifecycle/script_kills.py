"""Kills: a script of more than thirty agents, killed at a write to its store, resumed.

Lives here: the script, a store that kills its process at the n-th commit, and what must
hold afterwards: the result is that of an undisturbed run, and no answer that had been
accepted was asked for again, counted at the model.

    python -m tests.lifecycle.script_kills --points 50
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
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
from ramet.mailbox.events import Accepted, Concluded, TurnEnded, TurnOpened
from ramet.mailbox.message import AssistantMessage, ToolMessage, UserMessage
from ramet.mailbox.store import Batch

__all__ = ["Killed", "killed_at", "main", "resumed", "undisturbed", "writes_of"]

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


class KillingStore(SqliteStore):
    """Kills its process at the n-th commit: an odd one before it, an even one after."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path)
        self.writes = 0
        self._at = at

    def append(self, batch: Batch) -> None:
        """Store a batch, or die."""
        self.writes += 1
        if self.writes == self._at and self.writes % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        super().append(batch)
        if self.writes == self._at:
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
    """The result of a run that nobody kills, and how many writes it makes."""
    store = KillingStore(folder / "whole.db", 0)
    asked = folder / "whole.txt"
    value = anyio.run(_run, store, asked, folder / "nothing.db")
    return value, store.writes


@attrs.frozen
class Killed:
    """What a kill left: the store, what was asked, and which prompts were answered."""

    store: Path
    asked: Path
    before: list[str]
    answered: frozenset[str]


def killed_at(folder: Path, write: int) -> Killed:
    """Run the script in a process of its own that is killed at a write."""
    store, asked = folder / f"{write}.db", folder / f"{write}.txt"
    words = [sys.executable, "-m", "tests.lifecycle.script_kills", "--child"]
    path = os.pathsep.join((str(PROJECT), str(PROJECT / "src")))
    done = subprocess.run(
        [*words, str(store), str(asked), "--write", str(write)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return Killed(store, asked, _lines(asked), _answered(store))


def resumed(killed: Killed) -> tuple[Any, list[str]]:
    """The result of the resumed run, and what the model was asked in it."""
    value = anyio.run(
        _run,
        SqliteStore(killed.store),
        killed.asked,
        killed.store,
        backend="trio" if len(killed.before) % 2 else "asyncio",
    )
    return value, _lines(killed.asked)[len(killed.before) :]


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


def writes_of(count: int, points: int) -> list[int]:
    """Write numbers to be killed at, spread over all of them, odd and even."""
    step = max(count / points, 1)
    chosen = {min(count - 1, max(1, round(step * n) + n % 2)) for n in range(points)}
    return sorted(chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill and resume at many writes; gives 0 when all is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m tests.lifecycle.script_kills")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--child", nargs=2, metavar=("STORE", "ASKED"))
    parser.add_argument("--write", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.child is not None:
        store = Path(options.child[0])
        anyio.run(
            _run, KillingStore(store, options.write), Path(options.child[1]), store
        )
        return 1
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        value, count = undisturbed(folder)
        chosen = writes_of(count, options.points)
        for write in chosen:
            killed = killed_at(folder, write)
            again, asked = resumed(killed)
            twice = killed.answered.intersection(asked)
            good = again == value and not twice
            bad += not good
            said = "good" if good else f"BAD: {again != value=} {sorted(twice)}"
            print(
                f"write {write} of {count}: {len(killed.answered)} answered,"
                f" {len(asked)} asked again: {said}",
                flush=True,
            )
    print(f"{len(chosen)} kills, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
