"""The asynchronous face of a store: threads, answers, and its end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from ramet import MemoryStore, PersistenceUnavailableError
from ramet.mailbox.backend import current_backend
from ramet.mailbox.events import Event
from ramet.mailbox.storage import Storage
from ramet.mailbox.store import Reader, SessionRow

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """A store whose opening waits until it may go on."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.free = threading.Event()
        self.closed = 0

    def open(self) -> None:
        self.begun.set()
        self.free.wait()
        super().open()

    def close(self) -> None:
        self.closed += 1
        super().close()


class WatchedStore(MemoryStore):
    """A store that notes in which thread it is called, and waits when it is told to."""

    def __init__(self, *, blocking: bool) -> None:
        super().__init__()
        self.blocking = blocking
        self.threads: dict[str, str] = {}
        self.free = threading.Event()
        self.free.set()
        self.opens = 0
        self.broken = False

    def open(self) -> None:
        self.threads["open"] = threading.current_thread().name
        if self.broken:
            raise PersistenceUnavailableError("not today")
        self.opens += 1
        super().open()

    def load(self, session: str, after: int = 0) -> list[Event]:
        self.free.wait()
        self.threads["load"] = threading.current_thread().name
        return super().load(session, after)

    def row(self, session: str) -> SessionRow | None:
        raise ValueError(f"no row of {session}")

    def reader(self) -> Reader:
        return self


@asynccontextmanager
async def storage_of(store: WatchedStore) -> AsyncIterator[Storage]:
    async with anyio.create_task_group() as group:
        storage = Storage(store, current_backend(group))
        await storage.start()
        yield storage
        await storage.stop()


async def test_a_store_that_blocks_has_a_writing_and_a_reading_thread() -> None:
    store = WatchedStore(blocking=True)
    async with storage_of(store) as storage:
        assert await storage.read(Reader.load, "s") == []
        assert store.threads == {"open": "ramet-writer", "load": "ramet-reader"}
    assert not [t for t in threading.enumerate() if t.name.startswith("ramet-")]


async def test_a_store_that_does_not_block_is_called_in_the_loop() -> None:
    store = WatchedStore(blocking=False)
    async with storage_of(store) as storage:
        assert await storage.read(Reader.load, "s") == []
        here = threading.current_thread().name
        assert store.threads == {"open": here, "load": here}


@pytest.mark.parametrize("blocking", [True, False])
async def test_what_a_store_raises_comes_out_of_the_call(blocking: bool) -> None:
    async with storage_of(WatchedStore(blocking=blocking)) as storage:
        with pytest.raises(ValueError, match="no row of s"):
            await storage.read(Reader.row, "s")
        assert await storage.read(Reader.sessions) == 0


async def test_a_cancelled_reader_leaves_the_others_undisturbed() -> None:
    store = WatchedStore(blocking=True)
    async with storage_of(store) as storage:
        store.free.clear()
        with anyio.move_on_after(0) as scope:
            await storage.read(Reader.load, "s")
        assert scope.cancelled_caught
        store.free.set()
        assert await storage.read(Reader.sessions) == 0


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_store_that_does_not_open_leaves_no_thread(blocking: bool) -> None:
    store = WatchedStore(blocking=blocking)
    store.broken = True
    async with anyio.create_task_group() as group:
        storage = Storage(store, current_backend(group))
        with pytest.raises(PersistenceUnavailableError, match="not today"):
            await storage.start()
    assert not [t for t in threading.enumerate() if t.name.startswith("ramet-")]


@pytest.mark.parametrize("blocking", [True, False])
async def test_after_the_stop_every_call_says_that_the_block_was_left(
    blocking: bool,
) -> None:
    async with storage_of(WatchedStore(blocking=blocking)) as storage:
        pass
    with pytest.raises(PersistenceUnavailableError, match="was left"):
        await storage.read(Reader.sessions)
    with pytest.raises(PersistenceUnavailableError, match="was left"):
        await storage.claim("s", "h")


@pytest.mark.case("R-187")
@pytest.mark.parametrize("blocking", [True, False])
async def test_reading_for_good_reopens_the_store_once(blocking: bool) -> None:
    store = WatchedStore(blocking=blocking)
    async with storage_of(store) as storage:
        assert await storage.reopened(Reader.find, "host", "k") is None
        assert await storage.reopened(Reader.place, "m") is None
        assert store.opens == 2


@pytest.mark.case("R-187")
async def test_reading_for_good_says_so_when_the_store_does_not_open_again() -> None:
    store = WatchedStore(blocking=True)
    async with storage_of(store) as storage:
        store.broken = True
        with pytest.raises(PersistenceUnavailableError, match="not today"):
            await storage.reopened(Reader.find, "host", "k")
        store.broken = False
        assert await storage.reopened(Reader.find, "host", "k") is None


@pytest.mark.case("R-117")
async def test_a_store_whose_opening_is_cancelled_is_closed_again() -> None:
    store = SlowStore()
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        storage = Storage(store, current_backend(group))
        with scope:
            group.start_soon(_cancel_when_begun, store, scope)
            await storage.start()
    assert scope.cancelled_caught
    assert store.closed == 1
    left = [thread.name for thread in threading.enumerate()]
    assert not [name for name in left if name.startswith("ramet-")]
    store.open()


async def _cancel_when_begun(store: SlowStore, scope: anyio.CancelScope) -> None:
    while not store.begun.is_set():
        await anyio.lowlevel.checkpoint()
    # The thread goes on only when nobody waits for it any more.
    threading.Timer(0.0, store.free.set).start()
    scope.cancel()
