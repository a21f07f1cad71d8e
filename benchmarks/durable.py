"""Durable acknowledgement: stored reports, beside a bare group commit on the same disk.

Lives here: senders that send their next message when the last one is stored.  Through
ramet each is a child that reports to one parent with `ack="stored"`.  The limit is one
thread and one table: what piled up while the last commit ran is the next transaction,
and one hop to the loop wakes all who waited for it.
"""

from __future__ import annotations

import collections
import os
import queue
import sqlite3
import tempfile
import threading
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import anyio.from_thread
import anyio.to_thread
from agents import HELD, PARENT, TEXT
from bare import Bare
from rounds import Measured, add_ratios

import ramet

Sender = Callable[[], Awaitable[Any]]
"""Sends one message and returns when it is stored."""

GOALS = {1: 0.70, 16: 0.75, 64: 0.60}
"""The share of the bare writer's throughput that is asked for, by number of senders."""


class BareWriter:
    """A group commit and nothing else: WAL, `synchronous=FULL`."""

    def __init__(self, bare: Bare, path: str) -> None:
        self._bare = bare
        self._path = path
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: list[tuple[tuple[Any, ...], Any]] = []
        self._sent = 0
        self._free = True

    async def send(self, sender: int, text: str) -> None:
        """Store one message; returns when it is durable."""
        promise = self._bare.promise()
        self._sent += 1
        row = (f"s{sender}", self._sent, f"{sender}-{self._sent}", text)
        self._waiting.append((row, promise))
        if self._free:
            self._free = False
            self._hand_over()
        await promise

    def _hand_over(self) -> None:
        batch, self._waiting = self._waiting, []
        self._jobs.put(batch)

    def _stored(self, batch: list[tuple[tuple[Any, ...], Any]]) -> None:
        for _, promise in batch:
            promise.set_result(None)
        if self._waiting:
            self._hand_over()
        else:
            self._free = True

    def close(self) -> None:
        self._jobs.put(None)

    def run(self, post: Callable[..., Any]) -> None:
        """The thread; `post` runs a function in the loop."""
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute("pragma synchronous = full")
        connection.execute(
            "create table message (sender text, seq integer, key text, body text)"
        )
        connection.execute("create unique index message_key on message (key)")
        while (batch := self._jobs.get()) is not None:
            connection.execute("begin immediate")
            connection.executemany(
                "insert into message values (?, ?, ?, ?)", [row for row, _ in batch]
            )
            connection.execute("commit")
            post(self._stored, batch)
        connection.close()


async def send_for(bare: Bare, senders: list[Sender], seconds: float) -> float:
    """Let all send for a while; gives stored messages in a second."""
    sent = 0
    end = perf_counter() + seconds

    def loop(send: Sender) -> Callable[[], Any]:
        async def run() -> None:
            nonlocal sent
            while perf_counter() < end:
                await send()
                sent += 1

        return run

    began = perf_counter()
    await bare.at_once([loop(send) for send in senders])
    return sent / (perf_counter() - began)


def batches(senders: int) -> list[int]:
    """How many take part."""
    return list(range(senders))


async def measured(
    bare: Bare, directory: str | None, rounds: int, seconds: float
) -> list[Measured]:
    """Both, side by side, in turns of `seconds`, for each number of senders."""

    async def held(request: ramet.ModelRequest) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    found: list[Measured] = []
    model = ramet.FunctionModel(held)
    policy = ramet.Policy(notices="quiet")
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        writer = BareWriter(bare, os.path.join(folder, "bare.db"))
        store = os.path.join(folder, "ramet.db")
        async with (
            bare_thread(bare, writer),
            ramet.open(store, model=model, policy=policy) as supervisor,
        ):
            for senders in GOALS:
                found += await _beside(
                    bare, writer, supervisor, senders, rounds, seconds
                )
    return found
