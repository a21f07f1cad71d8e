"""The durability gate: one commit order, whole spans, and failed commits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from ramet import MemoryStore, SendUnknownError
from ramet.mailbox.backend import current_backend
from ramet.mailbox.events import Accepted, Activated, Created, Ended, SpecRecord, Told
from ramet.mailbox.session import Session
from ramet.mailbox.storage import Storage
from ramet.mailbox.store import Batch, Entry
from ramet.mailbox.writer import Gate

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """A store that records its batches, and fails from one on."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.fail_from: int | None = None

    def append(self, batch: Batch) -> None:
        if self.fail_from is not None and len(self.batches) >= self.fail_from:
            raise OSError("the disk is full")
        super().append(batch)
        self.batches.append(batch)


class Bench:
    """A gate on a store, and sessions to write to."""

    def __init__(self, gate: Gate, store: SlowStore) -> None:
        self.gate = gate
        self.store = store
        self.sessions: dict[str, Session] = {}

    def create(self, name: str) -> int:
        session = self.sessions[name] = Session()
        header = Created(name, None, 0, "interactive", SpecRecord("n"), 1)
        self.gate.write(session, name, header)
        return self.gate.write(session, name, Activated("a", 1))

    def send(self, name: str, message: str) -> int:
        event = Accepted(message, "tell", "host", ("hello",), "quiet", 2)
        return self.gate.write(self.sessions[name], name, event)


@asynccontextmanager
async def opened() -> AsyncIterator[Bench]:
    store = SlowStore()
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        storage = Storage(store, backend)
        await storage.start()
        gate = Gate(storage, backend, "h1")
        group.start_soon(gate.run)
        yield Bench(gate, store)
        gate.stop()


async def test_what_one_span_writes_is_one_batch_and_what_piles_up_is_the_next() -> (
    None
):
    async with opened() as bench:
        bench.create("s")
        first = bench.send("s", "m1")
        await bench.gate.wait(first)
        assert [len(b.entries) for b in bench.store.batches] == [3]
        bench.send("s", "m2")
        await anyio.lowlevel.checkpoint()
        bench.send("s", "m3")
        last = bench.send("s", "m4")
        await bench.gate.wait(last)
        sizes = [len(b.entries) for b in bench.store.batches]
        assert sum(sizes) == 6
        assert len(sizes) < 5
        assert bench.gate.durable == bench.gate.ticket == 6


async def test_a_batch_spans_sessions_and_says_what_must_hold() -> None:
    async with opened() as bench:
        bench.create("p")
        bench.create("c")
        ticket = bench.send("p", "m1")
        await bench.gate.wait(ticket)
        batch = bench.store.batches[0]
        assert dict(batch.expected) == {"p": 0, "c": 0}
        assert dict(batch.epochs) == {"p": 1, "c": 1}
        assert list(batch.released) == []
        assert batch.summaries["p"].activation == "a"
        ended = bench.gate.write(bench.sessions["c"], "c", Ended("settled", True, 3))
        await bench.gate.wait(ended)
        assert dict(bench.store.batches[1].expected) == {"c": 2}
        assert list(bench.store.batches[1].released) == ["c"]
        row = bench.store.row("c")
        assert row is not None
        assert row.holder is None


async def test_callbacks_run_at_their_ticket_and_not_before() -> None:
    async with opened() as bench:
        order: list[str] = []
        bench.create("s")
        one = bench.send("s", "m1")
        bench.gate.when_durable(one, lambda: order.append("one"))
        assert order == []
        await bench.gate.wait(one)
        assert order == ["one"]
        two = bench.send("s", "m2")
        bench.gate.when_durable(two, lambda: order.append("two"))
        await bench.gate.wait(two)
        assert order == ["one", "two"]
        await bench.gate.wait(one)


async def test_a_callback_that_raises_is_told_and_the_others_run() -> None:
    async with opened() as bench:
        errors: list[BaseException] = []
        bench.gate.on_error = errors.append
        ran: list[int] = []
        bench.create("s")
        ticket = bench.send("s", "m1")

        def bad() -> None:
            raise ValueError("a bug")

        bench.gate.when_durable(ticket, bad)
        bench.gate.when_durable(ticket, lambda: ran.append(1))
        await bench.gate.wait(ticket)
        await anyio.wait_all_tasks_blocked()
        assert ran == [1]
        assert [str(error) for error in errors] == ["a bug"]


async def test_commits_are_told_in_order_once() -> None:
    async with opened() as bench:
        told: list[tuple[str, int]] = []

        def hear(entries: Sequence[Entry]) -> None:
            told.extend((entry.session, entry.seq) for entry in entries)

        bench.gate.on_commit = hear
        bench.create("s")
        await bench.gate.wait(bench.send("s", "m1"))
        await bench.gate.wait(bench.send("s", "m2"))
        assert told == [("s", 0), ("s", 1), ("s", 2), ("s", 3)]


async def test_what_is_written_and_not_stored_is_undecided() -> None:
    async with opened() as bench:
        bench.create("s")
        ticket = bench.send("s", "m1")
        assert [entry.seq for entry in bench.gate.undecided()] == [0, 1, 2]
        await bench.gate.wait(ticket)
        assert bench.gate.undecided() == []


@pytest.mark.case("R-070", "R-186")
async def test_a_failed_commit_is_unknown_and_nothing_more_is_stored() -> None:
    async with opened() as bench:
        failures: list[str] = []
        bench.gate.on_failure = lambda: failures.append("told")
        bench.create("s")
        await bench.gate.wait(bench.send("s", "m1"))
        bench.store.fail_from = 1
        waits: list[str] = []

        async def wait(ticket: int) -> None:
            with pytest.raises(SendUnknownError):
                await bench.gate.wait(ticket)
            waits.append("unknown")

        async with anyio.create_task_group() as group:
            group.start_soon(wait, bench.send("s", "m2"))
            await anyio.lowlevel.checkpoint()
            group.start_soon(wait, bench.send("s", "m3"))
        assert waits == ["unknown", "unknown"]
        assert failures == ["told"]
        assert isinstance(bench.gate.failed, OSError)
        bench.store.fail_from = None
        late = bench.send("s", "m4")
        with pytest.raises(SendUnknownError):
            await bench.gate.wait(late)
        ran: list[int] = []
        bench.gate.when_durable(late, lambda: ran.append(1))
        await anyio.wait_all_tasks_blocked()
        assert ran == []
        assert len(bench.store.load("s")) == 3


async def test_a_claim_is_forgotten_with_the_batch_that_gives_it_back() -> None:
    async with opened() as bench:
        bench.create("s")
        await bench.gate.wait(bench.send("s", "m1"))
        bench.store.release("s", "h1")
        bench.gate.epochs["s"] = bench.store.claim("s", "h1")
        ticket = bench.gate.write(bench.sessions["s"], "s", Ended("settled", True, 3))
        bench.gate.forget_epoch("s", ticket)
        assert bench.gate.epochs == {"s": 2}
        await bench.gate.wait(ticket)
        assert bench.gate.epochs == {}
        assert dict(bench.store.batches[-1].epochs) == {"s": 2}


async def test_an_event_that_is_not_allowed_is_not_written() -> None:
    async with opened() as bench:
        bench.create("s")
        before = bench.gate.ticket
        with pytest.raises(Exception, match="at most one activation"):
            bench.gate.write(bench.sessions["s"], "s", Activated("b", 4))
        assert bench.gate.ticket == before
        await bench.gate.wait(bench.gate.write(bench.sessions["s"], "s", Told(5)))
