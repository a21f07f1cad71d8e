"""Faults of what a session keeps: the inbox, the fold, content and keys.

Lives here: wrong rules of the pure files of the room `mailbox`.
"""

from __future__ import annotations

from ramet.actors import compaction
from ramet.mailbox import errors, ids, keys, message, session, shortening
from ramet.mailbox.inbox import Inbox
from ramet.mailbox.keys import KeyTable
from ramet.mailbox.session import Session
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "a quiet message overtakes a wakeup of its sender",
        "R-051 R-056",
        edit(Inbox, "accept", "if safe and sender not in self._blocking:", "if safe:"),
    ),
    fault(
        "what is staged enters before a wakeup that it follows",
        "R-050 R-056",
        edit(Inbox, "enter", "earlier[0] < placed[0]", "False"),
    ),
    fault(
        "what is staged waits for a wakeup that follows it",
        "R-050",
        edit(Inbox, "enter", " and earlier[0] < placed[0]", ""),
    ),
    fault(
        "a wakeup of anybody holds a quiet message back",
        "R-051",
        edit(Inbox, "accept", "sender not in self._blocking", "not self._blocking"),
    ),
    fault(
        "a message enters between a call and its result",
        "R-037 R-038 R-205",
        edit(Inbox, "accept", "if safe and sender", "if sender"),
    ),
    fault(
        "what is staged does not enter at the end of a turn",
        "R-038 R-150",
        edit(Session, "_turn_ended", "self._enter_staged()", "pass"),
    ),
    fault(
        "what is staged does not enter at the end of a turn that was stopped",
        "R-150",
        edit(
            Session,
            "_turn_ended",
            "self._enter_staged()",
            'self._enter_staged() if event.status != "cancelled" else None',
        ),
    ),
    fault(
        "what is staged does not enter after results",
        "R-037",
        edit(Session, "_call_ended", "self._enter_staged()", "pass"),
    ),
    fault(
        "what is staged does not enter after a discard",
        "R-056",
        edit(Session, "_discarded", "self._enter_staged()", "pass"),
    ),
    fault(
        "what stays staged is lost",
        "R-048 R-050",
        edit(Inbox, "enter", "self.staged = keep", "self.staged = []"),
    ),
    fault(
        "what enters together enters in another order",
        "R-043 R-054 R-055",
        edit(Inbox, "enter", "entering.sort(key=_place)", "entering.reverse()"),
    ),
    fault(
        "a wakeup joins the open turn",
        "R-041 R-042 R-002",
        edit(
            Session,
            "_accepted",
            "safe=self.open is None)",
            "safe=self.open is None) or self.open",
        ),
    ),
    fault(
        "a turn claims all that waits",
        "R-041 R-042",
        edit(Inbox, "next_claim", "if everything:", "if True:"),
    ),
    fault(
        "a turn never claims all that waits",
        "R-043",
        edit(Inbox, "next_claim", "if everything:", "if False:"),
    ),
    fault(
        "the last that came is claimed first",
        "R-042 R-052 R-096",
        edit(
            Inbox,
            "accept",
            "self.waiting.append((place, message))",
            "self.waiting.insert(0, (place, message))",
        ),
    ),
    fault(
        "a followup overtakes reports",
        "R-052",
        edit(
            Inbox,
            "accept",
            "self.waiting.append((place, message))",
            "self.waiting.append((place, message)); self.waiting.sort("
            "key=lambda p: p[1].source in ('report', 'notice', 'outcome'))",
        ),
    ),
    fault(
        "notices that wait together are claimed one by one",
        "R-130",
        edit(Inbox, "next_claim", 'first.source != "notice" or', "True or"),
    ),
    fault(
        "notices overtake what stands between them",
        "R-130",
        edit(Inbox, "next_claim", "break", "continue"),
    ),
    fault(
        "a wakeup does not un-park",
        "R-136 R-140 R-141",
        edit(Inbox, "accept", "self.parked = False", "pass"),
    ),
    fault(
        "an interrupt parks nothing",
        "R-135 R-137 R-146",
        edit(Session, "_interrupted", "self.inbox.parked = True", "pass"),
    ),
    fault(
        "a promotion keeps its message staged",
        "R-260",
        edit(
            Inbox,
            "promote",
            "placed = self.staged.pop(index)",
            "placed = self.staged[index]",
        ),
    ),
    fault(
        "a discard drops what stands behind it too",
        "R-198",
        edit(Inbox, "discard", "del self.waiting[index]", "del self.waiting[index:]"),
    ),
    fault(
        "a discarded wakeup still holds back its sender",
        "R-056",
        edit(Inbox, "discard", "self._unblock(message.sender, place)", "pass"),
    ),
    fault(
        "a claim takes what does not stand first",
        "R-199",
        edit(Inbox, "claim", "tuple([m.id for _, m in taken]) != ids", "False"),
    ),
    fault(
        "an event is refused after it changed the state",
        "R-199",
        edit(
            Session,
            "_turn_opened",
            "if (\n        self.activation is None",
            "self.step = -1\n    if (\n        self.activation is None",
        ),
    ),
    fault(
        "a sequence number is left out",
        "R-008",
        edit(Session, "apply", "self.seq += 1", "self.seq += 1 + (kind is Ended)"),
    ),
    fault(
        "reading back forgets an interrupt",
        "R-184 R-200 R-146",
        edit(
            session,
            "fold",
            "session.apply(event)",
            "session.apply(event)\n        session.inbox.parked = False",
        ),
    ),
    fault(
        "an outcome is written again",
        "R-118",
        edit(
            Session,
            "_concluded",
            "if self.concluded is not None or event",
            "if event",
        ),
        edit(
            Session,
            "_turn_ended",
            "self._outcome(message.id, event.status, event.cause, event.detail)",
            "self._outcome(message.id, event.status, event.cause, event.detail)"
            "; self._outcome(message.id, event.status, event.cause, event.detail)",
        ),
    ),
    fault(
        "a turn that answers several assignments ends the first alone",
        "R-118 R-120",
        edit(
            Session,
            "_turn_ended",
            "for message in self.open:",
            "for message in self.open[:1]:",
        ),
    ),
    fault(
        "every outcome bears the id of the first assignment",
        "R-009 R-120",
        edit(
            Session,
            "_turn_ended",
            "self._outcome(message.id,",
            "self._outcome(self.assignment,",
        ),
    ),
    fault(
        "a discarded assignment has no outcome",
        "R-118 R-121 R-229",
        edit(Session, "_discarded", "if not self.returning and", "if False and"),
    ),
    fault(
        "an empty answer is kept as a message",
        "R-209",
        edit(Session, "_step_ended", "if event.text or event.calls:", "if True:"),
    ),
    fault(
        "results stand in the order in which they came",
        "R-206",
        edit(
            Session,
            "_call_ended",
            "results[event.place] = CallResult(",
            "results[results.index(None)] = CallResult(",
        ),
    ),
    fault(
        "a failed request is not counted",
        "R-211",
        edit(
            Session,
            "_request_failed",
            "self._count_request(event.usage)",
            "pass",
        ),
    ),
    fault(
        "a summary does not name the live children",
        "R-236",
        edit(shortening, "summary_of", "if live else", "if False else"),
    ),
    fault(
        "a compaction is forgotten by the next request",
        "R-236",
        edit(
            Session,
            "_compacted",
            "self.transcript = shorten(self.transcript, event)",
            "shorten(self.transcript, event)",
        ),
    ),
    fault(
        "a compaction drops the open assignment",
        "R-237",
        edit(
            compaction,
            "compacted_by",
            "_open_assignment(session) | unshown(transcript)",
            "set()",
        ),
    ),
    fault(
        "a compaction empties the inbox",
        "R-237",
        edit(
            Session,
            "_compacted",
            "    if event.usage is not None:\n",
            "    self.inbox = Inbox()\n    if event.usage is not None:\n",
        ),
    ),
    fault(
        "what is staged does not enter with a compaction",
        "R-238",
        edit(Session, "_compacted", "self._enter_staged()", "pass"),
    ),
    fault(
        "a report has another frame",
        "R-019 R-243",
        edit(message, "frame", "reported:", "wrote:"),
    ),
    fault(
        "a report that begins like a frame gets none",
        "R-020",
        edit(
            message,
            "frame",
            'if source == "report":',
            'if source == "report" and "reported:" not in "".join(content):',
        ),
    ),
    fault(
        "outer blanks of a text are cut off",
        "R-021",
        edit(message, "to_blocks", "= (content,)", "= (content.strip(),)"),
    ),
    fault(
        "a blank text is content",
        "R-022 R-201",
        edit(message, "to_blocks", "if block and not block.isspace():", "if True:"),
    ),
    fault(
        "a block may carry a source",
        "R-007 R-201",
        edit(
            message,
            "_block",
            'block.keys() == {"type", "text"}',
            'block.keys() >= {"type", "text"}',
        ),
    ),
    fault(
        "a key is never known",
        "R-001 R-057 R-060 R-061 R-064 R-222 R-251 R-254",
        put(KeyTable, "known", lambda *_, **__: None),
    ),
    fault(
        "a key leaves its table while somebody asks for it",
        "R-222 R-255",
        edit(KeyTable, "is_durable", "if self._asking:", "if False:"),
    ),
    fault(
        "a durable key never leaves its table",
        "R-255",
        edit(KeyTable, "is_durable", "self._rows.pop((sender, key), None)", "pass"),
    ),
    fault(
        "a repeat does not wait for the first message",
        "R-256",
        edit(
            KeyTable,
            "known",
            "        return known\n    raise",
            "        return Known(row, 0)\n    raise",
        ),
    ),
    fault(
        "a key may come back with other content",
        "R-058 R-254",
        edit(KeyTable, "known", "row.digest != digest", "False"),
    ),
    fault(
        "a key may come back for another recipient",
        "R-058",
        edit(KeyTable, "known", "recipient is not None and", "False and"),
    ),
    fault(
        "a key may come back for another operation",
        "R-058",
        edit(KeyTable, "known", "row.operation != operation", "False"),
    ),
    fault(
        "a caller may use the keys of the runtime",
        "R-059",
        edit(keys, "check_key", "key.startswith(RESERVED)", "False"),
    ),
    fault(
        "ids come from the operating system",
        "R-220",
        edit(
            ids.Ambient,
            "__init__",
            "random.Random() if chance is None else chance",
            "random.SystemRandom()",
        ),
    ),
    fault(
        "a pickled error loses its causes",
        "R-218",
        edit(errors.RametError, "__reduce__", "_texts(self.__cause__)", "()"),
    ),
)
