"""Many sessions at rest: what a store costs that has grown for years.

Lives here: a SQLite file with very many settled sessions, and what is asked of it: to
be opened, to give one session back, to be listed page by page.  The file is filled
through the store port, in large batches, with the events that such sessions really
have; `ramet` itself then opens it.  Each measurement is a process of its own, since
memory can only be told of a fresh one.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from time import perf_counter

import bare
from memory import resident_bytes
from rounds import Measured

import ramet
from ramet.mailbox.events import (
    Accepted,
    Activated,
    Created,
    Ended,
    Event,
    Kind,
    SpecRecord,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.session import fold
from ramet.mailbox.store import Batch, Entry

FAMILY = 1_000
"""How many sessions a root and its children are together."""

PARENT = ramet.AgentSpec("parent")
WORKER = ramet.AgentSpec("worker", "Answer.")

_TEXT = "a finding of the usual length, which says what was looked at and what it means"
_RESUMED = 1_000
_PAGE = 100
_BEGUN = 1_700_000_000_000


def fill(path: str, sessions: int) -> None:
    """A file with so many settled sessions: roots with their settled children."""
    store = ramet.SqliteStore(path)
    store.open()
    try:
        for first in range(0, sessions, FAMILY):
            batch = list(_family(first, min(FAMILY, sessions - first)))
            entries = [
                Entry(name, seq, event)
                for name, log in batch
                for seq, event in enumerate(log)
            ]
            summaries = {name: fold(log).summary() for name, log in batch}
            names = list(summaries)
            store.append(
                Batch(
                    "filling",
                    entries,
                    dict.fromkeys(names, 0),
                    dict.fromkeys(names, 1),
                    summaries,
                    names,
                )
            )
    finally:
        store.close()


def _family(first: int, count: int) -> Iterator[tuple[str, list[Event]]]:
    root = _name(first)
    for number in range(first, first + count):
        child = number != first
        name, at = _name(number), _BEGUN + number
        spec = WORKER if child else PARENT
        record = SpecRecord(spec.name, spec.instructions)
        kind: Kind = "continuable" if child else "interactive"
        parent = root if child else None
        sender, source = (root, "prompt") if child else ("host", "tell")
        yield (
            name,
            [
                Created(name, parent, int(child), kind, record, at),
                Activated(f"a{number:018}", at),
                Accepted(f"m{number:018}", source, sender, (_TEXT,), "wakeup", at),
                TurnOpened(1, (f"m{number:018}",), at),
                StepEnded(_TEXT, (), "end", at),
                TurnEnded("completed", None, at),
                Ended("settled" if child else "drain", True, at),
            ],
        )


def _name(number: int) -> str:
    return f"s{number:018}"


async def ask(backend: bare.Bare, *, path: str, sessions: int) -> dict[str, float]:
    """Open the file, resume and list, and weigh what that leaves in memory."""

    async def mind(request: ramet.ModelRequest) -> str:
        return "ok"

    before = resident_bytes()
    began = perf_counter()
    opened = ramet.open(
        path,
        specs=[PARENT, WORKER],
        model=ramet.FunctionModel(mind),
        policy=ramet.Policy(notices="off"),
    )
    async with opened as supervisor:
        found = {"open_ms": (perf_counter() - began) * 1e3}
        dice = random.Random(1)
        roots = [_name(number) for number in range(0, sessions, FAMILY)]
        root = await supervisor.resume(dice.choice(roots))
        first = int(root.id[1:])
        below = range(first + 1, min(first + FAMILY, sessions))
        times = []
        for number in dice.choices(below, k=min(_RESUMED, sessions)):
            child = _name(number)
            began = perf_counter()
            await supervisor.followup(root, child, "go on")
            times.append(perf_counter() - began)
            agent = supervisor.agent(child)
            if agent is not None:
                await agent.wait_gone()
        found["resume_ms"] = statistics.median(times) * 1e3
        times = []
        for _ in range(min(_RESUMED, sessions)):
            after = _name(dice.choice(below))
            began = perf_counter()
            page = await supervisor.children(root.id, after=after, limit=_PAGE)
            times.append(perf_counter() - began)
            assert len(page) <= _PAGE
        found["page_ms"] = statistics.median(times) * 1e3
        found["bytes"] = float(resident_bytes() - before)
    return found


def in_a_process(backend: str, path: str, sessions: int) -> dict[str, float]:
    """Run this file in a process of its own."""
    command = [sys.executable, __file__, backend, path, str(sessions)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(
    backend: str, sessions: int, directory: str | None, kept: str | None
) -> list[Measured]:
    """All of it, on one file; beside it a small file, to tell what grows.

    Args:
        backend: asyncio or trio.
        sessions: how many the large file has.
        directory: where the files are made.
        kept: a file that is used again where it is there, and left; else a new one.
    """
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        for count in (max(sessions // 100, 100), sessions):
            path = os.path.join(folder, f"{count}.db")
            if kept is not None and count == sessions:
                path = kept
            if not os.path.exists(path):
                fill(path, count)
            asked = in_a_process(backend, path, count)
            large = count == sessions
            for name, unit, key, goal in (
                ("open", "ms", "open_ms", 1000.0),
                ("cold resume, p50", "ms", "resume_ms", 2.0),
                (f"a page of {_PAGE}, p50", "ms", "page_ms", None),
                ("memory after it", "B", "bytes", None),
            ):
                one = Measured(
                    "store",
                    f"{count:,} sessions: {name}",
                    backend,
                    unit,
                    goal=goal if large else None,
                )
                one.values.append(asked[key])
                found.append(one)
    return found


def main(backend: str, path: str, sessions: str) -> None:
    asking = partial(ask, path=path, sessions=int(sessions))
    print(json.dumps(bare.run(backend, asking)))


if __name__ == "__main__":
    main(*sys.argv[1:])
