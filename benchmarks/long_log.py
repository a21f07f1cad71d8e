"""Long logs: what an agent costs that has been at work for years.

Lives here: sessions with logs of many events in a SQLite file, some that were compacted
on the way and some that never were.  What is asked of each is to be resumed cold, and
to take turns.  A log is made by a supervisor, of ordinary turns.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
from contextlib import AbstractAsyncContextManager
from time import perf_counter

import bare
from rounds import Measured

import ramet

ROOT = ramet.AgentSpec("keeper", "Answer.")

TEXT = "a finding of the usual length, which says what was looked at and what it means"

MOST = 200
"""How many messages the model of a compacted conversation takes."""

_RESUMED = 9
_TURNS = 100


def policy(*, compacted: bool) -> ramet.Policy:
    """A conversation that is shortened when it is too long, or one that never is."""

    async def compact(compaction: ramet.Compaction) -> ramet.Shortened:
        return ramet.Shortened("what was said before", keep=10)

    return ramet.Policy(compact=compact if compacted else None)


def model(*, compacted: bool) -> ramet.Model:
    """A model that answers at once, and takes so many messages, or any number."""

    async def mind(request: ramet.ModelRequest) -> str:
        if compacted and len(request.messages) > MOST:
            raise ramet.ContextOverflowError("too long")
        return TEXT

    return ramet.FunctionModel(mind)


def opened(
    path: str, *, compacted: bool
) -> AbstractAsyncContextManager[ramet.Supervisor]:
    """The store with such a conversation in it."""
    return ramet.open(
        path,
        specs=[ROOT],
        model=model(compacted=compacted),
        policy=policy(compacted=compacted),
    )


async def make(path: str, events: int, *, compacted: bool) -> str:
    """A session with a log of so many events, and at rest; gives its id."""
    async with opened(path, compacted=compacted) as supervisor:
        root = await supervisor.start_root(ROOT, interactive=True)
        while root.statistics().events < events:
            for _ in range(200):
                await supervisor.tell(root, TEXT)
            await root.wait_idle()
        return root.id


async def resumed(path: str, session: str, *, compacted: bool) -> list[float]:
    """Milliseconds of cold resumes: from the call to the agent, its repair stored."""
    found = []
    for _ in range(_RESUMED):
        async with opened(path, compacted=compacted) as supervisor:
            gc.collect()
            began = perf_counter()
            root = await supervisor.resume(session)
            found.append((perf_counter() - began) * 1e3)
            assert root.statistics().transcript
    return found


async def turned(path: str, session: str, *, compacted: bool) -> list[float]:
    """Microseconds of turns, each told and its outcome waited for, one by one."""
    found = []
    async with opened(path, compacted=compacted) as supervisor:
        root = await supervisor.resume(session)
        for _ in range(_TURNS):
            began = perf_counter()
            message = await supervisor.tell(root, TEXT)
            await supervisor.wait(message)
            found.append((perf_counter() - began) * 1e6)
    return found


async def measure(
    backend: bare.Bare, *, events: int, directory: str | None
) -> list[Measured]:
    """Logs of two lengths, compacted and not."""
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        for compacted in (True, False):
            kind = "compacted" if compacted else "whole"
            for count in (events // 100, events):
                path = os.path.join(folder, f"{kind}-{count}.db")
                session = await make(path, count, compacted=compacted)
                last = compacted and count == events
                one = Measured(
                    "long log",
                    f"{count:,} events, {kind}: resume",
                    backend.name,
                    "ms",
                    await resumed(path, session, compacted=compacted),
                    goal=20.0 if last else None,
                )
                found.append(one)
                times = await turned(path, session, compacted=compacted)
                one = Measured(
                    "long log",
                    f"{count:,} events, {kind}: a turn",
                    backend.name,
                    "us",
                    [statistics.median(times)],
                )
                found.append(one)
    return found
