"""An open SQLite store for a test, and a process that writes one until it is killed.

Lives here: what tests of `SqliteStore` share; they get no fixtures from here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import BookKeeper
from ramet.mailbox.store_sqlite import SqliteStore

WRITER = Path(__file__).with_name("sqlite_writer.py")


class Process:
    """A running writer."""

    def __init__(self, path: Path, pace: str) -> None:
        self.running = subprocess.Popen(
            [sys.executable, str(WRITER), str(path), pace],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        assert self.acknowledged() == 0

    def acknowledged(self) -> int:
        """The next number that the writer gives."""
        assert self.running.stdout is not None
        return int(self.running.stdout.readline())

    def step(self) -> int:
        """Let it write one batch."""
        assert self.running.stdin is not None
        self.running.stdin.write("\n")
        self.running.stdin.flush()
        return self.acknowledged()

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()


@contextlib.contextmanager
def writer(path: Path, pace: str = "step") -> Iterator[Process]:
    process = Process(path, pace)
    try:
        yield process
    finally:
        process.kill()
        for stream in (process.running.stdin, process.running.stdout):
            assert stream is not None
            stream.close()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BookKeeper]:
    store = SqliteStore(path)
    store.open()
    try:
        yield BookKeeper(store)
    finally:
        store.close()


def connection_of(keeper: BookKeeper) -> sqlite3.Connection:
    assert isinstance(keeper.store, SqliteStore)
    connection = keeper.store._connection
    assert connection is not None
    return connection


def patch_connections(
    monkeypatch: pytest.MonkeyPatch, factory: type[sqlite3.Connection]
) -> None:
    made = functools.partial(sqlite3.connect, factory=factory)
    monkeypatch.setattr("ramet.mailbox.sqlite_file.sqlite3.connect", made)
