"""Faults of delivery: what a message does, and what its sender is told.

Lives here: wrong rules of waking, of acknowledgement and of the wake budget.
"""

from __future__ import annotations

from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ramet.lifecycle import calls
from ramet.lifecycle.activation import Activation, Life
from ramet.lifecycle.driver import Driver
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.runtime import Asked, Runtime
from ramet.lifecycle.sending import Sending
from ramet.lifecycle.supervisor import Supervisor
from ramet.mailbox.writer import Gate
from tests.planted.fault import Fault, Patch, edit, fault, put

__all__ = ["FAULTS"]


async def _run_that_parks_late(self: Driver, activation: Activation) -> None:
    forest = self._forest
    while True:
        finish = await self._turn(activation)
        activation.scope = None
        if activation.gone:
            return
        forest.end_turn(activation, finish)
        if activation.life is not Life.LIVE or not forest.go_on(activation):
            break
    await forest.gate.wait(activation.ticket)
    forest.rest_driver(activation)


async def _stored_at_once(self: Runtime, *_: object) -> None:
    await checkpoint()


async def _stored_after_every_turn(
    self: Runtime, name: str, ticket: int, key: str | None
) -> None:
    await self.gate.wait(ticket, key or name)
    while any(one.driving for one in self.forest.live.values()):
        await checkpoint()


async def _stored_or_taken_back(
    self: Runtime, name: str, ticket: int, key: str | None
) -> None:
    try:
        await self.gate.wait(ticket, key or name)
    except anyio.get_cancelled_exc_class():
        flying: Any = self.gate._flying
        for entries in (flying, self.gate._pending):
            del entries[:]
        raise


def _without_validators(patch: Patch) -> None:
    patch.setattr("attr._config._run_validators", False)


FAULTS: tuple[Fault, ...] = (
    fault(
        "a wake is lost between the last look and parking",
        "R-045",
        put(Driver, "run", _run_that_parks_late),
    ),
    fault(
        "a quiet message wakes",
        "R-036 R-038 R-039 R-046 R-018",
        edit(
            Forest,
            "accept",
            'given = "wakeup" if asked == "wakeup" else "quiet"',
            'given = "wakeup"',
        ),
    ),
    fault(
        "a wakeup is delivered quietly",
        "R-002 R-040 R-044 R-047 R-098",
        edit(Forest, "accept", 'given = "wakeup" if asked', 'given = "quiet" if asked'),
    ),
    fault(
        "a wake only starts a driver, which opens the turn later",
        "R-040 R-263",
        edit(
            Forest,
            "wake",
            "if self.open_turn(activation):",
            "if activation.session.inbox.claimable:",
        ),
        edit(
            Driver,
            "run",
            "    while True:\n        try:",
            "    from anyio.lowlevel import checkpoint\n    await checkpoint()\n"
            "    forest.open_turn(activation)\n    while True:\n        try:",
        ),
    ),
    fault(
        "who waits for children is not woken",
        "R-044 R-098",
        edit(
            Forest,
            "wake",
            "activation.driving\n",
            "activation.driving\n        or activation.children\n",
        ),
    ),
    fault(
        "a wake fires before its message is durable",
        "R-174",
        edit(
            Forest,
            "accept",
            "self.gate.when_durable(activation.ticket, partial(self.wake, activation))",
            "self.wake(activation)",
        ),
    ),
    fault(
        "a message is acknowledged before it is stored",
        "R-066 R-171",
        put(Runtime, "stored", _stored_at_once),
    ),
    fault(
        "the caller of a failed commit is told no key",
        "R-070",
        edit(Gate, "wait", "if name is not None:", "if False:"),
    ),
    fault(
        "an acknowledgement waits for the turn of the recipient",
        "R-067 R-088",
        put(Runtime, "stored", _stored_after_every_turn),
    ),
    fault(
        "what a cancelled caller had sent is taken back",
        "R-032 R-094 R-107 R-252",
        put(Runtime, "stored", _stored_or_taken_back),
    ),
    fault(
        "a caller whose scope is cancelled already still sends",
        "R-031 R-093 R-107",
        edit(Asked, "__aenter__", "await runtime.backend.check_cancelled()", "pass"),
        edit(Sending, "report", "await runtime.backend.check_cancelled()", "pass"),
    ),
    fault(
        "the store is asked for every key",
        "R-223",
        edit(
            Asked,
            "__aenter__",
            "if self._key is None:\n            return None",
            'self._key = self._key or "none"',
        ),
    ),
    fault(
        "the store is never asked for a key",
        "R-060 R-064 R-172",
        edit(Asked, "__aenter__", "if self._key is None:", "if True:"),
    ),
    fault(
        "the wake budget is not looked at",
        "R-072",
        edit(Forest, "_spend_wake", "if budget is not None:", "if False:"),
    ),
    fault(
        "past the wake budget a message is not delivered",
        "R-072",
        edit(
            Forest,
            "accept",
            '    message_id = self.ambient.new("m")\n',
            '    message_id = self.ambient.new("m")\n'
            '    if asked == "wakeup" and given == "quiet":\n'
            "        return message_id\n",
        ),
    ),
    fault(
        "any turn fills the wake budget",
        "R-073",
        edit(
            Forest,
            "open_turn",
            "any(m.source in ASSIGNING for m in session.open or ())",
            "True",
        ),
    ),
    fault(
        "nothing fills the wake budget",
        "R-073",
        edit(Forest, "open_turn", "if activation.wakes and", "if False and"),
    ),
    fault(
        "a wake budget of zero is none",
        "R-072 R-074",
        edit(Forest, "_spend_wake", "if budget is not None:", "if budget:"),
    ),
    fault(
        "what a policy says is not checked",
        "R-034 R-074 R-092",
        _without_validators,
    ),
    fault(
        "the wake budget holds a waiting agent's last child back",
        "R-224",
        edit(
            Forest,
            "_spend_wake",
            "activation.wakes >= budget and not forced",
            "activation.wakes >= budget",
        ),
    ),
    fault(
        "the claim policy of the supervisor alone counts",
        "R-043",
        edit(
            Forest,
            "open_turn",
            'everything = activation.bound.policy.claim == "all"',
            "everything = False",
        ),
    ),
    fault(
        "a start waits for the first turn of its child",
        "R-088",
        edit(
            Sending,
            "_start",
            "    return Started(child, message)\n",
            "    live = runtime.forest.live.get(child)\n"
            "    while live is not None and not live.session.usage.requests:\n"
            "        await runtime.backend.checkpoint()\n"
            "    return Started(child, message)\n",
        ),
    ),
    fault(
        "a background call waits for its answer",
        "R-244",
        edit(
            Supervisor,
            "start_call",
            "return await self._sending.start_call(",
            "started = await self._sending.start_call(",
            "background=True,\n    )\n",
            "background=True,\n    )\n"
            "    await self.wait(started.message_id)\n    return started\n",
        ),
    ),
    fault(
        "what a batch sends is accepted in reverse order",
        "R-035",
        edit(
            calls.Calls,
            "run",
            "self._in_order, calls, sending)",
            "self._in_order, calls, sending[::-1])",
        ),
    ),
)
