"""Faults of what is asked: listings, statuses and explanations.

Lives here: wrong rules of the readers.
"""

from __future__ import annotations

from ramet.lifecycle import activation, readers
from ramet.lifecycle.inquiry import Inquiry
from ramet.lifecycle.residency import Residency
from ramet.mailbox.store_memory import MemoryReader
from ramet.mailbox.store_sqlite import _SqliteReading
from tests.planted.fault import Fault, edit, fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "who closes is said to run",
        "R-010 R-087",
        edit(
            activation,
            "state_of",
            '    if activation.life is Life.CLOSING:\n        return "closing"\n',
            "",
        ),
    ),
    fault(
        "who waits for children is said to be parked",
        "R-082 R-087",
        edit(activation, "state_of", 'return "waiting"', 'return "parked"'),
    ),
    fault(
        "who has messages parked is said to run",
        "R-083",
        edit(
            activation,
            "state_of",
            "if activation.session.inbox.claimable:",
            "if activation.session.inbox.waiting:",
        ),
    ),
    fault(
        "a listing does not count what waits in a resident",
        "R-082 R-083",
        edit(
            readers,
            "listing_of",
            "pending = len(live.session.inbox.waiting)",
            "pending = 0",
        ),
    ),
    fault(
        "a listing does not count what waits in who is not resident",
        "R-082",
        edit(
            readers,
            "listing_of",
            "pending = summary.pending",
            "pending = 0",
        ),
    ),
    fault(
        "children are listed in another order",
        "R-084",
        edit(
            Inquiry,
            "children",
            "        for row in rows\n",
            "        for row in reversed(rows)\n",
        ),
    ),
    fault(
        "descendants are listed level by level",
        "R-084",
        edit(
            Inquiry,
            "descendants",
            "line = await levels[-1].next()",
            "line = await levels[0].next()",
            "levels.pop()",
            "levels.pop(0)",
        ),
    ),
    fault(
        "descendants end at one-shot agents",
        "R-084",
        edit(
            Inquiry,
            "descendants",
            "levels.append(_Level(self, line.id, None))",
            "line.kind == 'oneshot' or levels.append(_Level(self, line.id, None))",
        ),
    ),
    fault(
        "a log that could not be read is listed like any other",
        "R-085",
        edit(
            Residency,
            "_load",
            'runtime.faults[session_id] = "unsupported"',
            "pass",
            'runtime.faults[session_id] = "corrupt"',
            "pass",
        ),
    ),
    fault(
        "what could not be read once is listed so for good",
        "R-085",
        edit(Residency, "_load", "runtime.faults.pop(session_id, None)", "pass"),
    ),
    fault(
        "a listing loads every log",
        "R-086",
        edit(
            Inquiry,
            "children",
            "    live = runtime.forest.live\n",
            "    for row in rows:\n"
            "        await runtime.storage.read(Reader.load, row.session)\n"
            "    live = runtime.forest.live\n",
        ),
    ),
    fault(
        "the pages of a listing overlap",
        "R-086 R-084",
        edit(
            MemoryReader,
            "children",
            "first = bisect_right(order, (last.header.at, after))",
            "first = max(bisect_right(order, (last.header.at, after)) - 1, 0)",
        ),
        edit(
            _SqliteReading,
            "children",
            "(created_at, session) >",
            "(created_at, session) >=",
        ),
    ),
    fault(
        "a state is explained without its cause",
        "R-087",
        edit(
            readers,
            "explain_session",
            "return Explanation(activation.id, state, why)",
            "return Explanation(activation.id, state, state)",
        ),
    ),
    fault(
        "an interrupt is not named in an explanation",
        "R-087",
        edit(
            readers,
            "explain_session",
            "elif session.inbox.parked:",
            "elif False:",
        ),
    ),
    fault(
        "a message is claimed before that is durable",
        "R-068",
        edit(
            Inquiry,
            "message",
            "    session_id, seq = await self._position(message_id)\n",
            "    session_id, seq = await self._position(message_id)\n"
            "    resident = runtime.forest.live.get(session_id)\n"
            "    if resident and any(m.id == message_id for m in "
            "resident.session.open or ()):\n"
            "        return MessageStatus(message_id, session_id, 'claimed', "
            "resident.session.turn)\n",
        ),
    ),
    fault(
        "a message is stored before it is durable",
        "R-066 R-068",
        edit(
            Inquiry,
            "message",
            'state = "accepted" if runtime.gate.failed is None',
            'state = "stored" if runtime.gate.failed is None',
        ),
    ),
    fault(
        "a claimed message is said to be stored",
        "R-068",
        edit(
            readers,
            "status_in",
            "elif isinstance(event, TurnOpened) and message_id in event.claimed:",
            "elif False:",
        ),
    ),
    fault(
        "a discarded message is said to be stored",
        "R-068",
        edit(
            readers,
            "status_in",
            "elif isinstance(event, Discarded) and event.id == message_id:",
            "elif False:",
        ),
    ),
    fault(
        "a quiet message is never claimed",
        "R-069",
        edit(
            readers,
            "status_in",
            "elif isinstance(event, (StepEnded, RequestFailed)) and place:",
            "elif False:",
            "if 0 < place <= asked and session.open is not None:",
            "if False:",
        ),
    ),
    fault(
        "a quiet message is claimed when it enters",
        "R-069",
        edit(
            readers,
            "status_in",
            "if 0 < place <= asked and session.open is not None:",
            "if place:",
        ),
    ),
    fault(
        "a deferred message does not say so",
        "R-072 R-247",
        edit(
            readers,
            "_status",
            'deferred = accepted.asked == "wakeup" and accepted.given == "quiet"',
            "deferred = False",
        ),
    ),
    fault(
        "after a failed commit a message is said to be accepted",
        "R-221",
        edit(
            Inquiry,
            "message",
            '"accepted" if runtime.gate.failed is None else "unknown"',
            '"accepted"',
        ),
    ),
    fault(
        "a lost message is said to be unknown",
        "R-221",
        edit(Inquiry, "message", "if self._settled:", "if False:"),
    ),
    fault(
        "an unknown message is said to be accepted",
        "R-001",
        edit(
            Inquiry,
            "message",
            "    session_id, seq = await self._position(message_id)\n",
            "    try:\n        session_id, seq = await self._position(message_id)\n"
            "    except UnknownMessageError:\n"
            "        return MessageStatus(message_id, '', 'accepted')\n",
        ),
    ),
    fault(
        "who waits for what a drain kept is told of an interrupt",
        "R-264",
        edit(
            readers,
            "resting_place",
            "if session.inbox.parked:",
            "if True:",
        ),
    ),
)
