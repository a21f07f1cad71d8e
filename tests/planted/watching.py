"""Faults of what is watched: waits, streams and observers.

Lives here: wrong rules of what tells of things as they happen.
"""

from __future__ import annotations

from contextlib import suppress

import anyio

from ramet.lifecycle import driver, observe, waits
from ramet.lifecycle.driver import Driver
from ramet.lifecycle.inquiry import Inquiry
from ramet.lifecycle.observe import Stage, Subscription
from ramet.lifecycle.runtime import Runtime
from ramet.lifecycle.stream import LogStream
from ramet.lifecycle.supervisor import Supervisor
from ramet.mailbox.events import Journaled
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]


async def _stored_whatever_comes(
    self: Runtime, name: str, ticket: int, key: str | None
) -> None:
    with suppress(anyio.get_cancelled_exc_class()):
        await self.gate.wait(ticket, key or name)


FAULTS: tuple[Fault, ...] = (
    fault(
        "questions are not answered in a drain",
        "R-161",
        edit(
            Inquiry,
            "message",
            "    runtime = self._runtime\n",
            "    runtime = self._runtime\n    runtime.admission.open()\n",
        ),
    ),
    fault(
        "wait_idle does not wait for an open turn",
        "R-204",
        edit(
            Supervisor,
            "_until_idle",
            "activation.session.open is not None\n",
            "False\n",
        ),
    ),
    fault(
        "wait_idle does not wait for what waits",
        "R-204",
        edit(
            Driver,
            "run",
            "        forest.end_turn(activation, finish)\n",
            "        forest.end_turn(activation, finish)\n"
            "        for callback in activation.on_idle or ():\n"
            "            callback()\n",
        ),
        edit(
            Supervisor,
            "_until_idle",
            "while activation.life",
            "if activation.life",
        ),
    ),
    fault(
        "wait_idle does not wait for the log",
        "R-204",
        edit(
            Supervisor,
            "_until_idle",
            "await runtime.gate.wait(activation.ticket)",
            "pass",
        ),
    ),
    fault(
        "an observer that raises ends a commit",
        "R-215",
        edit(
            Stage,
            "committed",
            "_tell(hear, entry.session, entry.seq, entry.event)",
            "hear(entry.session, entry.seq, entry.event)",
        ),
    ),
    fault(
        "an observer that raises is not logged",
        "R-215",
        edit(
            observe,
            "_tell",
            '_LOG.exception("an observer of ramet raised; what it observed is '
            'unchanged")',
            "pass",
        ),
    ),
    fault(
        "a slow reader is not told what it missed",
        "R-216",
        edit(Subscription, "next", "return Gap(missed)", "pass"),
    ),
    fault(
        "a slow reader has a buffer without bound",
        "R-216",
        edit(Subscription, "put", "len(self._items) < self._limit", "True"),
    ),
    fault(
        "a stream gives an event twice",
        "R-240",
        edit(
            LogStream,
            "__anext__",
            "elif item.seq == self._after:",
            "elif item.seq <= self._after:",
        ),
    ),
    fault(
        "a stream does not leave out what came before",
        "R-240",
        edit(LogStream, "__init__", "self._after = after", "self._after = 0"),
    ),
    fault(
        "a stream does not end with its agent",
        "R-240",
        edit(
            LogStream,
            "_is_over",
            "return failed or self._after >= activation.session.seq",
            "return failed",
        ),
    ),
    fault(
        "deltas are in the log",
        "R-241",
        put(driver, "Journaled", Journaled),
        edit(
            driver._Turn,
            "_stream",
            "            assembler.add(event)\n",
            "            assembler.add(event)\n"
            "            if type(event) is TextDelta:\n"
            "                now = self._forest.ambient.now_ms()\n"
            "                delta = Journaled('delta', '{}', now)\n"
            "                self._forest.log(self._activation, delta)\n",
        ),
    ),
    fault(
        "deltas are heard in another order",
        "R-241",
        edit(
            Stage,
            "delta",
            '    hearing = self._listeners("on_delta")\n',
            '    hearing = self._listeners("on_delta")\n    held = []\n',
            "        for hear in hearing:\n",
            "        held.append(text)\n"
            "        if len(held) < 2:\n            return\n"
            "        text = held.pop()\n"
            "        for hear in hearing:\n",
        ),
    ),
    fault(
        "a plain question reads the store",
        "R-239",
        edit(
            Supervisor,
            "agent",
            "    live = self._runtime.forest.live.get(session_id)\n",
            "    live = self._runtime.forest.live.get(session_id)\n"
            "    self._runtime.storage.store.row(session_id)\n",
        ),
    ),
    fault(
        "turn_ended does not wait for a request",
        "R-243",
        edit(
            waits,
            "turn_ended",
            "elif isinstance(event, TurnEnded) and asked:",
            "elif isinstance(event, TurnOpened):",
        ),
    ),
    fault(
        "one native cancel is swallowed",
        "R-219",
        put(Runtime, "stored", _stored_whatever_comes),
    ),
)
