"""Durable acknowledgement: stored reports, beside a bare group commit on the same disk.

Lives here: senders that send their next message when the last one is stored.  Through
ramet each is a child that reports to one parent with `ack="stored"`.  The limit is one
thread and one table: what piled up while the last commit ran is the next transaction,
and one hop to the loop wakes all who waited for it.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import anyio
from agents import HELD, PARENT
from bare import Bare, Promise
from bare_work import TEXT
from rounds import Measured, add_ratios

import ramet

GOALS = {1: 0.70, 16: 0.75, 64: 0.60}
"""The share of the bare writer's throughput that is asked for, by number of senders."""

Send: TypeAlias = Callable[[], Awaitable[Any]]
"""Sends one message and returns when it is stored."""

Row: TypeAlias = tuple[str, int, str, str]


class BareWriter:
    """A group commit and nothing else: WAL, `synchronous=FULL`, one thread."""

    def __init__(self, bare: Bare, path: str) -> None:
        self._bare = bare
        self._path = path
        self._queue: queue.SimpleQueue[tuple[Row, Promise] | None]
        self._queue = queue.SimpleQueue()
        self._sent = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    async def send(self, sender: int) -> None:
        """Store one message; returns when it is durable."""
        promise = self._bare.promise()
        self._sent += 1
        row = (f"s{sender}", self._sent, f"m{self._sent}", TEXT)
        self._queue.put((row, promise))
        await promise

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute("pragma synchronous = full")
        connection.execute(
            "create table message (sender text, seq integer, key text, body text)"
        )
        connection.execute("create unique index message_key on message (key)")
        while (first := self._queue.get()) is not None:
            batch = [first]
            for _ in range(self._queue.qsize()):
                more = self._queue.get()
                assert more is not None
                batch.append(more)
            connection.execute("begin immediate")
            connection.executemany(
                "insert into message values (?, ?, ?, ?)", [row for row, _ in batch]
            )
            connection.execute("commit")
            self._bare.post(_tell, [promise for _, promise in batch])
        connection.close()


def _tell(promises: list[Promise]) -> None:
    for promise in promises:
        promise.set_result(None)


async def throughput(bare: Bare, sends: list[Send], seconds: float) -> float:
    """Let all send for a while; gives stored messages in a second."""
    stored = 0
    began = perf_counter()

    async def loop(send: Send) -> None:
        nonlocal stored
        while perf_counter() - began < seconds:
            await send()
            stored += 1

    await bare.at_once([partial(loop, send) for send in sends])
    return stored / (perf_counter() - began)


@asynccontextmanager
async def reporting(
    store: str, count: int
) -> AsyncIterator[tuple[ramet.Supervisor, list[ramet.Agent]]]:
    """An idle root with children that are in a turn."""

    async def held(request: ramet.ModelRequest) -> str:
        await anyio.sleep_forever()
        raise AssertionError("it sleeps for ever")

    async with ramet.open(store, model=ramet.FunctionModel(held)) as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)
        children = []
        for _ in range(count):
            started = await supervisor.start_child(root, HELD, "wait")
            child = supervisor.agent(started.child_id)
            assert child is not None
            children.append(child)
        yield supervisor, children


async def measure(
    bare: Bare, directory: str | None, rounds: int, seconds: float
) -> list[Measured]:
    """Both by turns on one disk, each for `seconds`, for each number of senders."""
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        writer = BareWriter(bare, os.path.join(folder, "bare.db"))
        store = os.path.join(folder, "ramet.db")
        try:
            async with reporting(store, max(GOALS)) as (supervisor, children):
                report = partial(supervisor.report_from, content=TEXT, ack="stored")
                for count, goal in GOALS.items():
                    ours = [partial(report, child) for child in children[:count]]
                    bares = [partial(writer.send, place) for place in range(count)]
                    found += await _beside(bare, ours, bares, goal, rounds, seconds)
        finally:
            writer.close()
    return found


async def _beside(
    bare: Bare,
    ours: list[Any],
    bares: list[Any],
    goal: float,
    rounds: int,
    seconds: float,
) -> list[Measured]:
    many = "1 sender" if len(ours) == 1 else f"{len(ours)} senders"
    limit = Measured("durable", f"limit: bare commit, {many}", bare.name, "/s")
    one = Measured(
        "durable",
        f"stored reports, {many}",
        bare.name,
        "/s",
        goal=goal,
        limit=limit.name,
        more_is_better=True,
    )
    for turn in range(rounds + 1):
        pair = [(one, ours), (limit, bares)]
        for what, sends in pair if turn % 2 else pair[::-1]:
            value = await throughput(bare, sends, seconds)
            if turn:  # the first round only warms up
                what.values.append(value)
    add_ratios(one, limit)
    return [one, limit]
