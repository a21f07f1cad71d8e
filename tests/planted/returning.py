"""Faults of notices and outcomes: what a parent is told when a child came to an end.

Lives here: wrong rules of `notices.py` and `telling.py`, of background calls, and of
what waits for an outcome.
"""

from __future__ import annotations

from ramet.lifecycle import inquiry, notices, readers, telling
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.inquiry import Inquiry
from ramet.lifecycle.sending import Sending
from ramet.mailbox.events import TurnOpened
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "a notice comes from the runtime and not from the child",
        "R-053",
        edit(Forest, "tell", "            child_id,\n", '            "ramet",\n'),
    ),
    fault(
        "a notice comes before the reports that are staged",
        "R-053",
        edit(
            Forest,
            "tell",
            "            child_id,\n",
            '            child_id if telling.given == "wakeup" else "ramet",\n',
        ),
    ),
    fault(
        "a parent in a turn gets no notice",
        "R-119 R-259",
        edit(
            Forest,
            "tell",
            "if telling is not None:",
            "if telling is not None and parent.session.open is None:",
        ),
    ),
    fault(
        "an outcome is told twice",
        "R-119 R-245",
        edit(
            Forest,
            "_tell",
            "    if parent is not None:\n",
            "    if parent is not None and outcomes:\n"
            "        self.tell(parent, activation.id, telling_at_end(activation,"
            " parent, outcomes, last=False, view=self.view))\n"
            "    if parent is not None:\n",
        ),
    ),
    fault(
        "an awaited call is told by a notice too",
        "R-119",
        edit(
            telling,
            "telling_at_end",
            '    if header.kind == "oneshot":\n        outcomes = ()\n',
            "",
        ),
    ),
    fault(
        "a notice names its last outcome alone",
        "R-120",
        edit(
            telling,
            "_notice",
            "tuple([one.message for one in outcomes])",
            "tuple([one.message for one in outcomes[-1:]])",
        ),
    ),
    fault(
        "a notice names assignments in another order",
        "R-120",
        edit(
            telling,
            "_notice",
            "tuple([one.message for one in outcomes])",
            "tuple([one.message for one in outcomes[::-1]])",
        ),
    ),
    fault(
        "a notice holds what the child wrote",
        "R-018 R-123",
        edit(
            telling,
            "_notice",
            "notes=child.notes,",
            "notes=(*child.notes, *[m.text for m in child.session.transcript "
            "if hasattr(m, 'cut')]),",
        ),
    ),
    fault(
        "a notice does not count",
        "R-123 R-137",
        edit(
            notices,
            "notice_text",
            'lines.append(f"Reports: {known}. Messages that still wait: {pending}.")',
            "pass",
        ),
    ),
    fault(
        "a good end wakes while others live",
        "R-124",
        edit(
            notices,
            "notice_given",
            "if last and not session.inbox.claimable",
            "if not session.inbox.claimable",
        ),
    ),
    fault(
        "an end without a report is a good end",
        "R-125",
        edit(
            telling,
            "telling_at_end",
            "child.reports == 0 or any(",
            "any(",
        ),
    ),
    fault(
        "a failure after a report is a good end",
        "R-126",
        edit(
            telling,
            "telling_at_end",
            'child.reports == 0 or any(one.status != "completed" for one in outcomes)',
            "child.reports == 0",
        ),
    ),
    fault(
        "the last end does not wake who has something unread",
        "R-127",
        edit(
            notices,
            "notice_given",
            "and unread_beyond_notices(parent)",
            "and False",
        ),
    ),
    fault(
        "the last end wakes who has read everything",
        "R-128",
        edit(
            notices,
            "notice_given",
            " and unread_beyond_notices(parent)",
            "",
        ),
    ),
    fault(
        "a notice is something unread",
        "R-128",
        edit(notices, "unread_beyond_notices", 'm.source != "notice"', "True"),
    ),
    fault(
        "nothing is promoted",
        "R-129 R-260",
        edit(notices, "promotable", "return undecided", "return ()"),
    ),
    fault(
        "a notice is promoted while a child lives",
        "R-260",
        edit(notices, "promotable", "        or activation.children\n", ""),
    ),
    fault(
        "a notice is promoted while something waits",
        "R-260",
        edit(notices, "promotable", "        or session.inbox.waiting\n", ""),
    ),
    fault(
        "one of two undecided notices is promoted",
        "R-260",
        edit(notices, "promotable", "return undecided", "return undecided[:1]"),
    ),
    fault(
        "an interrupted turn promotes",
        "R-261",
        edit(notices, "promotable", "        or session.interrupted is not None\n", ""),
    ),
    fault(
        "a notice that meets an open turn is quiet at once",
        "R-129 R-259",
        edit(notices, "notice_given", 'return "undecided"', 'return "quiet"'),
    ),
    fault(
        "a notice that meets an open turn wakes",
        "R-259",
        edit(notices, "notice_given", 'return "undecided"', 'return "wakeup"'),
    ),
    fault(
        "the notice policy of a parent is not looked at",
        "R-131",
        edit(
            notices,
            "notice_given",
            "policy = parent.bound.policy.notices",
            'policy = "auto"',
        ),
    ),
    fault(
        "a notice is written under the policy off",
        "R-131",
        edit(
            telling,
            "telling_at_end",
            'parent.bound.policy.notices == "off" and not awaited',
            "False",
        ),
    ),
    fault(
        "the last child of a waiting agent obeys the policy",
        "R-131 R-224",
        edit(notices, "notice_given", "if waits and last:", "if False:"),
    ),
    fault(
        "a closing parent is woken",
        "R-132 R-261",
        edit(notices, "notice_given", "if parent.life is not Life.LIVE:", "if False:"),
    ),
    fault(
        "a closing parent is told nothing",
        "R-132 R-160",
        edit(
            Forest,
            "_tell",
            "    if parent is not None:\n",
            "    if parent is not None and parent.life is Life.LIVE:\n",
        ),
    ),
    fault(
        "what an absent parent was not told counts as told",
        "R-133",
        edit(
            Forest,
            "_tell",
            "told = header.parent is None or parent is not None or not outcomes",
            "told = True",
        ),
    ),
    fault(
        "a child with nothing to tell always writes a notice",
        "R-134 R-262",
        edit(
            telling,
            "telling_at_end",
            "if not outcomes and not _must_wake(parent, given, last):",
            "if False:",
        ),
    ),
    fault(
        "a child with nothing to tell never writes a notice",
        "R-262",
        edit(
            telling,
            "telling_at_end",
            "if not outcomes and not _must_wake(parent, given, last):",
            "if not outcomes:",
        ),
    ),
    fault(
        "the outcome of a background call is told as a notice",
        "R-245 R-246",
        edit(
            telling,
            "telling_at_end",
            'return Telling("outcome", view(child)',
            'return Telling("notice", view(child)',
        ),
    ),
    fault(
        "the outcome of a background call is quiet",
        "R-245",
        edit(
            telling,
            "telling_at_end",
            "given: Given | None = None if parent.life is Life.LIVE else",
            "given: Given | None =",
        ),
    ),
    fault(
        "an outcome message overtakes what waits",
        "R-246",
        edit(
            Forest,
            "tell",
            "forced=telling.forced,\n        )\n",
            "forced=telling.forced,\n        )\n"
            "        waiting = parent.session.inbox.waiting\n"
            "        if telling.source == 'outcome' and waiting:\n"
            "            waiting.insert(0, waiting.pop())\n",
        ),
    ),
    fault(
        "an outcome message wakes past the budget",
        "R-247",
        edit(Forest, "tell", "forced=telling.forced", "forced=True"),
    ),
    fault(
        "a closing parent of a background call is woken",
        "R-248",
        edit(
            telling,
            "telling_at_end",
            "None if parent.life is Life.LIVE else",
            "None if True else",
        ),
    ),
    fault(
        "a parent of a background call may settle before it",
        "R-244",
        edit(
            Forest,
            "rest",
            "        and not activation.children\n",
            "        and not any(not one.session.header.background "
            "for one in (activation.children or {}).values())\n",
        ),
    ),
    fault(
        "a repeated background call is made again",
        "R-251 R-064",
        edit(
            Sending,
            "_start",
            'send = Send("prompt", blocks, digest, "wakeup", key)',
            'send = Send("prompt", blocks, digest, "wakeup", '
            "None if newborn.background else key)",
        ),
    ),
    fault(
        "a crashed keyed call is not made again",
        "R-251 R-064",
        edit(
            Sending,
            "start_call",
            "outcome is None or outcome.cause != _CRASHED",
            "True",
        ),
    ),
    fault(
        "an outcome names the session and not the message",
        "R-009",
        edit(
            readers,
            "outcome_in",
            "                message_id=message_id,\n"
            "                session_id=header.session,\n            )\n"
            "        elif",
            "                message_id=header.session,\n"
            "                session_id=header.session,\n            )\n"
            "        elif",
        ),
    ),
    fault(
        "a wait for an assignment ends with an earlier turn",
        "R-009 R-120",
        put(inquiry, "TurnOpened", TurnOpened),
        edit(
            Inquiry,
            "_outcome",
            "return outcome_in(events, message_id,",
            "first = [e.claimed[0] for e in events if isinstance(e, TurnOpened)]\n"
            "    message_id = (first or [message_id])[0]\n"
            "    return outcome_in(events, message_id,",
        ),
    ),
    fault(
        "an agent concludes its assignment again",
        "R-118",
        edit(
            Forest,
            "conclude",
            "    if activation.session.concluded is not None:\n        return\n",
            "",
        ),
    ),
)
