"""Faults of what is stored: the gate and the stores.

Lives here: wrong rules of durability, of claims, and of a commit that failed.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from ramet.lifecycle import opening, recovery, residency
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.admission import Admission
from ramet.lifecycle.current import CURRENT
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.inquiry import Inquiry
from ramet.lifecycle.recovery import Loaded, shade_of
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.runtime import Runtime
from ramet.lifecycle.telling import telling_later
from ramet.mailbox import batch, codec, sqlite_file, store_memory
from ramet.mailbox.store_memory import MemoryStore
from ramet.mailbox.store_sqlite import SqliteStore
from ramet.mailbox.writer import Gate
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

_wait = Gate.wait


async def _wait_outside_of_agents(
    self: Gate, ticket: int, name: str | None = None
) -> None:
    if CURRENT.get() is None:
        await _wait(self, ticket, name)


async def _not_durable(self: Residency) -> None:
    await checkpoint()


def _tell_again(
    forest: Forest, child: Loaded, owner: Activation, *, crashed: bool
) -> None:
    shade = shade_of(child, owner)
    untold = child.session.untold
    view = forest.view
    told = telling_later(shade, owner, untold, crashed=crashed, view=view)
    forest.tell(owner, child.id, told)


FAULTS: tuple[Fault, ...] = (
    fault(
        "nothing inside an agent waits for its log",
        "R-174",
        put(Gate, "wait", _wait_outside_of_agents),
    ),
    fault(
        "a load does not wait for what the session wrote",
        "R-266",
        put(Residency, "_durable", _not_durable),
    ),
    fault(
        "recovery tells again",
        "R-179 R-250",
        put(recovery, "tell", _tell_again),
        put(residency, "tell", _tell_again),
    ),
    fault(
        "state changes outside of events",
        "R-184 R-200",
        edit(
            Forest,
            "open_turn",
            "    session = activation.session\n",
            "    session = activation.session\n    session.last_at += 1\n",
        ),
    ),
    fault(
        "the first message of a child is a batch of its own",
        "R-091 R-173",
        edit(
            Gate,
            "_take",
            "    self._flying, self._pending = self._pending, []\n",
            "    self._flying, self._pending = self._pending[:1], self._pending[1:]\n",
            "    touched, self._touched = self._touched, {}\n"
            "    expected, self._expected = self._expected, {}\n"
            "    self._now, self._next = self._next, _Waiting()\n"
            "    self._taken = self.ticket\n",
            "    name = self._flying[0].session\n"
            "    touched = {name: self._touched[name]}\n"
            "    expected = {name: self._flying[0].seq}\n"
            "    for entry in reversed(self._pending):\n"
            "        self._expected[entry.session] = entry.seq\n"
            "    if not self._pending:\n"
            "        self._touched, self._expected = {}, {}\n"
            "        self._now, self._next = self._next, _Waiting()\n"
            "    self._taken += 1\n",
        ),
    ),
    fault(
        "events of several sessions are stored in another order",
        "R-232",
        edit(
            Gate,
            "_take",
            "    self._flying, self._pending = self._pending, []\n",
            "    first = self._pending[0].session\n"
            "    self._flying = [e for e in self._pending if e.session != first] or "
            "self._pending\n"
            "    self._pending = [e for e in self._pending if e not in self._flying]\n",
            "    touched, self._touched = self._touched, {}\n"
            "    expected, self._expected = self._expected, {}\n",
            "    names = {e.session for e in self._flying}\n"
            "    touched = {n: self._touched.pop(n) for n in names}\n"
            "    expected = {n: self._expected.pop(n) for n in names}\n",
        ),
    ),
    fault(
        "what is written after a lease ran out is taken",
        "R-182",
        edit(MemoryStore, "_check", "if batch.holder in data.buried:", "if False:"),
        edit(batch, "check_claim", "if seq and", "if False and"),
    ),
    fault(
        "what was written when a lease ran out is dropped in silence",
        "R-182",
        edit(
            MemoryStore,
            "append",
            "            self._apply(batch, self._check(batch))\n",
            "            if batch.holder not in self.data.buried:\n"
            "                self._apply(batch, self._check(batch))\n",
        ),
    ),
    fault(
        "a dead holder keeps its claims",
        "R-003 R-181",
        edit(
            MemoryStore,
            "close",
            "self._void(holder)",
            "pass",
        ),
        edit(
            store_memory.MemoryData,
            "copy",
            "one.log.copy(), None,",
            "one.log.copy(), one.holder,",
        ),
    ),
    fault(
        "two supervisors may write one store",
        "R-181",
        edit(
            SqliteStore,
            "open",
            "    lock.acquire()\n",
            "",
        ),
    ),
    fault(
        "a failed commit is forgotten",
        "R-070 R-186 R-221",
        edit(
            Gate,
            "_fail",
            "    self.failed = error\n",
            "    self.durable = self._taken\n",
        ),
    ),
    fault(
        "after a failed commit agents go on",
        "R-186",
        edit(Runtime, "_store_failed", "self.forest.store_failed()", "pass"),
    ),
    fault(
        "leaving says nothing of a failed commit",
        "R-186",
        edit(
            opening,
            "_leave",
            "if runtime.gate.failed is not None:",
            "if False:",
        ),
    ),
    fault(
        "after a failed commit calls are told of a drain",
        "R-187",
        edit(
            Admission,
            "open",
            "if forest.gate.failed is not None:",
            "if False:",
        ),
    ),
    fault(
        "a lookup does not reopen a store that failed",
        "R-187",
        edit(
            Inquiry,
            "lookup",
            "read = runtime.storage.reopened",
            "pass",
        ),
    ),
    fault(
        "a lookup after a failed commit says that nothing is there",
        "R-071",
        edit(
            Inquiry,
            "lookup",
            "    row = await read(Reader.find, sender, key)\n",
            "    row = await read(Reader.find, sender, key)\n"
            "    if runtime.gate.failed is not None:\n        return None\n",
        ),
    ),
    fault(
        "after a failed commit the store is written again",
        "R-186",
        edit(
            SqliteStore,
            "append",
            "        self._failure = error\n",
            "",
        ),
    ),
    fault(
        "a store in a mode that is not durable is opened",
        "R-188",
        edit(
            sqlite_file, "connect_writer", "_require_durable(connection, path)", "pass"
        ),
    ),
    fault(
        "a reader writes to the file",
        "R-183",
        edit(
            sqlite_file,
            "connect_reader",
            '"ro"',
            '"rw"',
        ),
    ),
    fault(
        "an unpaired surrogate is replaced in the store",
        "R-021",
        edit(
            codec,
            "encode",
            'return _EXACT[type(event)].write(event) if "\\\\ud" in text else text',
            'return text.replace("\\\\ud800", "\\\\ufffd")',
        ),
    ),
    fault(
        "a key of one sender is a key of all",
        "R-059",
        edit(
            MemoryStore,
            "_apply",
            "data.keys.update(found.keys)",
            "data.keys.update(found.keys)\n"
            "    for sender in ['host', *data.sessions]:\n"
            "        for (_, key), row in found.keys.items():\n"
            "            data.keys.setdefault((sender, key), row)",
        ),
    ),
)
