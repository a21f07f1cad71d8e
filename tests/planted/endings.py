"""Faults of endings: cancels, drains, and leaving the block.

Lives here: wrong rules of closing, of teardown and of what is discarded.
"""

from __future__ import annotations

from ramet.actors import contributions
from ramet.lifecycle import (
    admission,
    driver,
    opening,
    readers,
    teardown,
)
from ramet.lifecycle.activation import Activation, Closing
from ramet.lifecycle.errors import TeardownError
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.supervisor import Supervisor
from ramet.lifecycle.teardown import Teardown
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "a cancel forgets the grandchildren",
        "R-111 R-112 R-148",
        edit(
            Activation,
            "subtree",
            "if one.children:",
            "if one is self and one.children:",
        ),
    ),
    fault(
        "what is below closes one after the other",
        "R-112 R-028",
        edit(
            Forest,
            "close",
            "    for one in fresh:\n        one.life = Life.CLOSING\n"
            "        one.closing = closing\n    for one in fresh:\n",
            "    for one in reversed(fresh):\n        one.life = Life.CLOSING\n"
            "        one.closing = closing\n",
        ),
    ),
    fault(
        "parents are ended before their children",
        "R-111 R-158",
        edit(Forest, "close", "in reversed(list(found)):", "in list(found):"),
        edit(Forest, "rest", "        and not activation.children\n", ""),
    ),
    fault(
        "a closing is told to no observer",
        "R-112",
        edit(Forest, "close", "if self.on_closing is not None:", "if False:"),
    ),
    fault(
        "a closing does not stop the open turn",
        "R-148 R-155 R-160 R-217",
        edit(Forest, "close", "self._cancel_turn(one)", "pass"),
    ),
    fault(
        "the last cause of an end stands",
        "R-151",
        edit(
            Forest,
            "close",
            "    fresh = [",
            "    for one in found:\n        one.closing = closing\n    fresh = [",
        ),
    ),
    fault(
        "a cancel discards nothing",
        "R-121 R-148 R-154 R-056",
        edit(
            Forest,
            "_end",
            "if closing is not None and not closing.keeps:",
            "if False:",
        ),
    ),
    fault(
        "a cancel discards without a word",
        "R-148 R-002 R-121",
        edit(
            Forest,
            "_end",
            "            self.log(\n                activation,\n"
            "                Discarded("
            "message.id, closing.cause, now, closing.detail),\n"
            "            )\n",
            "            session.inbox.discard(message.id)\n",
        ),
    ),
    fault(
        "a drain discards",
        "R-149 R-158 R-159 R-160 R-167 R-170",
        put(Closing, "keeps", False),
    ),
    fault(
        "a settlement discards what is parked",
        "R-137 R-149",
        edit(
            Forest,
            "_end",
            "if closing is not None and not closing.keeps:",
            "closing = closing or Closing('settled')\n    if not closing.keeps:",
        ),
    ),
    fault(
        "a cancel is the outcome of all that came before",
        "R-152",
        edit(
            readers,
            "outcome_in",
            "    claimed: frozenset[str] = frozenset()\n",
            "    if any(getattr(e, 'reason', '') == 'cancelled' for e in events):\n"
            "        return Outcome(status='cancelled', usage=usage, "
            "message_id=message_id, session_id=header.session)\n"
            "    claimed: frozenset[str] = frozenset()\n",
        ),
    ),
    fault(
        "a second cancel does not wait",
        "R-153",
        edit(
            Teardown,
            "end",
            "    forest.close(tops, closing)\n",
            "    if all(top.life is not Life.LIVE for top in tops):\n"
            "        return own\n"
            "    forest.close(tops, closing)\n",
        ),
    ),
    fault(
        "a set-up is released again",
        "R-153 R-193",
        edit(
            contributions.Installation,
            "release",
            "part = self._parts.pop()",
            "part = self._parts.pop()\n        again = part.disposer",
            "_dispose(part, errors)",
            "_dispose(part, errors)\n        part.disposer = again\n"
            "        _dispose(part, errors)",
        ),
    ),
    fault(
        "the end of a batch says of every call that it ran",
        "R-156",
        edit(Forest, "_close_batch", "if place in started:", "if True:"),
    ),
    fault(
        "a stopped batch is left open",
        "R-156 R-205",
        edit(
            Forest,
            "end_turn",
            "        self._close_batch(activation, now)\n",
            "        session.calls = session.results = None\n",
        ),
    ),
    fault(
        "what streamed before a stop is dropped",
        "R-157",
        edit(
            driver._Turn,
            "keep_partial",
            "text = assembler.partial()",
            'text = ""',
        ),
    ),
    fault(
        "what streamed before a stop is not marked",
        "R-157",
        edit(
            driver._Turn,
            "keep_partial",
            "cut=True",
            "cut=False",
        ),
    ),
    fault(
        "a cancel of what is absent does nothing",
        "R-229",
        edit(Residency, "_cancel_loaded", "list(session.inbox.waiting)", "()"),
    ),
    fault(
        "a cancel of what is absent takes no latch",
        "R-265",
        edit(
            Residency,
            "cancel_absent",
            "        while await self.busy(session_id):\n            pass\n",
            "",
        ),
    ),
    fault(
        "a cancel of what is absent is not told",
        "R-229",
        edit(
            Residency,
            "_cancel_loaded",
            "if parent is not None and session.untold:",
            "if False:",
        ),
    ),
    fault(
        "a cancel ends with its caller",
        "R-155",
        edit(
            Teardown,
            "end",
            "self._backend.spawn(watch.run)",
            "pass",
        ),
    ),
    fault(
        "a cancel waits for ever for a tool that refuses",
        "R-115 R-155 R-168 R-227",
        edit(teardown._Watch, "run", "if grace.cancelled_caught:", "if False:"),
    ),
    fault(
        "a tool that refuses is not named",
        "R-115 R-168",
        edit(
            teardown._Watch,
            "_give_up",
            "self._forest.errors.append((one, error))",
            "pass",
        ),
    ),
    fault(
        "a failed branch ends a teardown",
        "R-114 R-196",
        edit(
            Forest,
            "_end",
            "    errors = activation.installation.release()\n",
            "    errors = activation.installation.release()\n"
            "    if errors:\n        raise errors[0]\n",
        ),
    ),
    fault(
        "one failure of a teardown hides the others",
        "R-114",
        edit(
            Teardown,
            "raise_errors",
            'but some of it failed", errors',
            'but some of it failed", errors[:1]',
        ),
    ),
    fault(
        "a split teardown error is another error",
        "R-114",
        edit(
            TeardownError.__mro__[1],
            "derive",
            "return type(self)(self.message, excs)",
            "return ExceptionGroup(self.message, excs)",
        ),
    ),
    fault(
        "leaving does not wait for who refuses",
        "R-227 R-230",
        edit(opening, "_until_drivers_ended", "while backend.tasks():", "while False:"),
    ),
    fault(
        "leaving waits for who refuses without a word",
        "R-227",
        edit(opening, "_until_drivers_ended", "supervisor._runtime.stage.say(", "str("),
    ),
    fault(
        "a scoped drain stops its root too",
        "R-162 R-164",
        edit(
            Supervisor,
            "drain",
            "tops += list((root.children or {}).values())",
            "tops.append(root)",
        ),
    ),
    fault(
        "a scoped drain admits again when it is over",
        "R-163 R-164",
        edit(
            Supervisor,
            "drain",
            'await runtime.teardown.bring_down(tops, Closing("drain"), deadline_s)',
            'await runtime.teardown.bring_down(tops, Closing("drain"), deadline_s)'
            "; runtime.forest.below.clear()",
        ),
    ),
    fault(
        "a scoped drain holds its root's own reports back",
        "R-164",
        edit(
            admission.Admission,
            "_outside_of_drains",
            " and not (above and one is activation)",
            "",
        ),
    ),
    fault(
        "a drain takes a copy for its root",
        "R-165",
        edit(
            Supervisor,
            "_exact",
            "if live.get(activation.id) is activation and activation._agent is agent:",
            "if activation.id in live:",
        ),
    ),
    fault(
        "a drain still admits",
        "R-161",
        edit(Supervisor, "_drain", "if forest.draining is None:", "if False:"),
    ),
    fault(
        "a drain does not wait for what is on its way",
        "R-166",
        edit(Supervisor, "_drain", "await runtime.calls.none()", "pass"),
    ),
    fault(
        "a start is not refused at its publication",
        "R-095 R-166",
        edit(
            admission.Admission,
            "_bear",
            "parent is not None and parent.life is not Life.LIVE",
            "False",
            "self.open()",
            "pass",
        ),
    ),
    fault(
        "leaving the block does not drain",
        "R-169 R-230",
        edit(
            opening,
            "_leave",
            'await supervisor._drain(Closing("drain"), deadline_s)',
            "supervisor._runtime.gate_scope.cancel()",
        ),
    ),
    fault(
        "the error of the body comes out in a group",
        "R-169 R-230",
        edit(
            opening,
            "open",
            "            raise body\n",
            "            raise BaseExceptionGroup('left', [body])\n",
        ),
    ),
    fault(
        "drivers are not shielded from the host",
        "R-230",
        edit(
            opening,
            "open",
            "with anyio.CancelScope(shield=True):",
            "with anyio.CancelScope():",
        ),
    ),
)
