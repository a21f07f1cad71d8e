"""Faults of admission: who may send what to whom.

Lives here: wrong rules of the accepting spans, and of starts.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from ramet.actors import policy
from ramet.lifecycle import admission
from ramet.lifecycle.activation import Activation, Life
from ramet.lifecycle.admission import Admission
from ramet.lifecycle.driver import Driver
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.runtime import Runtime
from ramet.lifecycle.sending import Sending
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]


async def _run_that_parks_late(self: Driver, activation: Activation) -> None:
    forest = self._forest
    while True:
        finish = await self._turn(activation)
        activation.scope = None
        if activation.gone:
            return
        forest.end_turn(activation, finish)
        if activation.life is not Life.LIVE or not forest.open_turn(activation):
            break
    await forest.gate.wait(activation.ticket)
    activation.driving = False
    forest.rest(activation)


async def _stored_at_once(self: Runtime, *_: object) -> None:
    await checkpoint()


FAULTS: tuple[Fault, ...] = (
    fault(
        "an equal id is authority",
        "R-004 R-005 R-103",
        edit(
            Admission,
            "sender",
            "exact = live is activation and activation._agent is agent",
            "exact = live is not None",
        ),
    ),
    fault(
        "a copy of an agent is an agent",
        "R-005 R-009",
        edit(Admission, "sender", " and activation._agent is agent", ""),
    ),
    fault(
        "a closing agent may send",
        "R-025 R-028",
        edit(Admission, "sender", "if activation.life is not Life.LIVE:", "if False:"),
    ),
    fault(
        "who is drained is told that it is closing",
        "R-025 R-095 R-161",
        edit(Admission, "sender", "closing is not None and closing.keeps", "False"),
        edit(Admission, "open", "if forest.draining is not None:", "if False:"),
    ),
    fault(
        "a drain is looked at after the sender",
        "R-161 R-253",
        edit(
            Admission,
            "sender",
            "    self.open()\n",
            "",
            "    return activation\n",
            "    self.open()\n    return activation\n",
        ),
    ),
    fault(
        "a known key is answered before the sender is looked at",
        "R-004 R-025 R-253",
        edit(
            Admission,
            "report",
            "    activation = self.sender(child, above=True)\n",
            "    known = self.known(child.id, send, None)\n"
            "    if known is not None:\n"
            "        return known.row.message, known.ticket\n"
            "    activation = self.sender(child, above=True)\n",
        ),
    ),
    fault(
        "a known key is answered after the recipient is looked at",
        "R-061 R-253",
        edit(
            Admission,
            "report",
            "known = self.known(activation.id, send, header.parent)",
            "above = activation.parent\n"
            "    dead = above is None or above.life is not Life.LIVE\n"
            "    known = None if dead else "
            "self.known(activation.id, send, header.parent)",
        ),
    ),
    fault(
        "a repeated followup is routed anew",
        "R-254",
        edit(
            Admission,
            "followup",
            "if known is not None:",
            "if known is not None and child_id in self._forest.live:",
        ),
    ),
    fault(
        "limits are looked at before the recipient",
        "R-253",
        edit(
            Admission,
            "inject",
            "    child = self._forest.live.get(child_id)\n",
            "    child = self._forest.live.get(child_id)\n"
            "    if child is not None:\n"
            "        self.limits(child, send.content)\n",
        ),
    ),
    fault(
        "usage is looked at last",
        "R-034 R-253",
        edit(
            Sending,
            "report",
            "    runtime = self._runtime\n",
            "    runtime = self._runtime\n    runtime.admission.sender(child, "
            "above=True)\n",
        ),
    ),
    fault(
        "a closing agent starts children",
        "R-095",
        edit(
            Admission,
            "start_child",
            "activation = self.sender(parent)",
            "activation = parent._activation",
        ),
        edit(Admission, "_bear", "parent.life is not Life.LIVE", "False"),
    ),
    fault(
        "anybody reports",
        "R-014",
        edit(
            Admission,
            "report",
            'if header.kind != "continuable":',
            'if header.kind == "headless":',
        ),
    ),
    fault(
        "a report goes to the root",
        "R-006 R-023",
        edit(
            Admission,
            "report",
            "parent = activation.parent\n",
            "parent = activation.lineage()[-1] if activation.parent else None\n",
        ),
    ),
    fault(
        "a closing parent takes reports",
        "R-026",
        edit(Admission, "report", "or parent.life is not Life.LIVE", ""),
    ),
    fault(
        "an absent parent has another text",
        "R-026 R-027",
        put(admission, "UNAVAILABLE", "the parent is not live"),
    ),
    fault(
        "a report to an absent parent stays with its sender",
        "R-027",
        edit(
            Admission,
            "report",
            "parent = activation.parent\n",
            "parent = activation.parent or activation\n",
        ),
    ),
    fault(
        "an unforeseen error of the accepting step comes out as it is",
        "R-029",
        edit(
            Admission,
            "report",
            "raise ParentUnavailableError(UNAVAILABLE) from error",
            "raise",
        ),
    ),
    fault(
        "the end of a child takes its reports back",
        "R-030",
        edit(
            Forest,
            "_end",
            "    self._tell(activation, parent, now)\n",
            "    for _, held in list(parent.session.inbox.waiting) if parent else ():\n"
            "        if held.sender == activation.id:\n"
            '            self.log(parent, Discarded(held.id, "cancelled", now))\n'
            "    self._tell(activation, parent, now)\n",
        ),
    ),
    fault(
        "a child that ends unread loses its quiet reports",
        "R-030",
        edit(
            Forest,
            "_end",
            "    self._tell(activation, parent, now)\n",
            "    if parent is not None:\n"
            "        parent.session.transcript[:] = [\n"
            "            m for m in parent.session.transcript\n"
            "            if getattr(m, 'sender', '') != activation.id]\n"
            "    self._tell(activation, parent, now)\n",
        ),
    ),
    fault(
        "a refused report is in the log all the same",
        "R-026",
        edit(
            Admission,
            "report",
            "        raise ParentUnavailableError(UNAVAILABLE)\n",
            "        if parent is not None:\n"
            "            self._take_in(parent, activation.id, send)\n"
            "        raise ParentUnavailableError(UNAVAILABLE)\n",
        ),
    ),
    fault(
        "a raced report is in the log all the same",
        "R-033",
        edit(
            Admission,
            "sender",
            "    if activation.life is not Life.LIVE:\n",
            "    if activation.life is not Life.LIVE and above and "
            "activation.parent is not None and not activation.gone:\n"
            '        self._forest.accept(activation.parent, "report", activation.id,'
            ' ("late",), "quiet")\n'
            "    if activation.life is not Life.LIVE:\n",
        ),
    ),
    fault(
        "without a setting reports wake",
        "R-034",
        edit(
            policy,
            "merge_policy",
            "if own is None:\n        return base",
            "if own is None:\n        return "
            'attrs.evolve(base, report_delivery="wakeup")',
        ),
    ),
    fault(
        "the policy of the parent decides how reports go",
        "R-034 R-225",
        edit(
            Sending,
            "report",
            "child._activation.bound.policy",
            "(child._activation.parent or child._activation).bound.policy",
        ),
    ),
    fault(
        "the values of the supervisor beat those of a spec",
        "R-034 R-225",
        edit(
            policy,
            "merge_policy",
            "return attrs.evolve(base, **own)",
            "return base",
        ),
    ),
    fault(
        "an absent child is sent a quiet message by its parent",
        "R-049",
        edit(
            Admission,
            "inject",
            "        raise NotResidentError(",
            "        return self._forest.accept(activation, send.operation,"
            ' activation.id, send.content, "quiet"), activation.ticket\n'
            "        raise NotResidentError(",
        ),
    ),
    fault(
        "anybody sends followups to anybody",
        "R-100 R-077",
        edit(
            Admission,
            "followup",
            "if child.session.header.parent != activation.id:",
            "if False:",
        ),
        edit(Residency, "revive_child", "if header.parent != parent.id:", "if False:"),
    ),
    fault(
        "a followup to a closing child is refused",
        "R-099",
        edit(
            Admission,
            "followup",
            "        return child\n",
            '        raise NotResidentError("it is closing")\n',
        ),
    ),
    fault(
        "a followup enters a closing child",
        "R-099",
        edit(
            Admission,
            "followup",
            "if child.life is not Life.LIVE:",
            "if child.life is Life.GONE:",
        ),
    ),
    fault(
        "a one-shot child gets followups",
        "R-101",
        edit(
            Admission,
            "followup",
            'if child.session.header.kind != "continuable":',
            "if False:",
        ),
        edit(
            Residency,
            "revive_child",
            'header.parent is None or header.kind != "continuable"',
            "header.parent is None",
        ),
    ),
    fault(
        "the sender of a followup is looked at before the resume alone",
        "R-103 R-104",
        edit(
            Admission,
            "followup",
            "activation = self.sender(parent)",
            "activation = self.sender(parent) if revive is None "
            "else parent._activation",
        ),
        edit(Residency, "_install", "runtime.admission.open()", "pass"),
        edit(Residency, "_install", "parent.life is not Life.LIVE", "False"),
    ),
    fault(
        "a resumed child is published before its message is accepted",
        "R-226",
        edit(
            Admission,
            "followup",
            "        child = revive(activation)\n",
            "        revive(activation)\n        return None\n",
        ),
    ),
    fault(
        "a child may be deeper than the policy says",
        "R-092",
        edit(
            Admission,
            "start_child",
            "if depth > activation.bound.policy.max_depth:",
            "if depth > activation.bound.policy.max_depth + 1:",
        ),
    ),
    fault(
        "an inbox has no limit",
        "R-203",
        edit(
            admission,
            "_fit",
            "held >= policy.inbox_limit",
            "False",
            "size > policy.inbox_bytes",
            "False",
        ),
    ),
    fault(
        "a full inbox refuses notices too",
        "R-203",
        edit(
            Forest,
            "tell",
            "if telling is not None:",
            "if telling is not None and (parent.bound.policy.inbox_limit is None or "
            "len(parent.session.inbox.waiting) + len(parent.session.inbox.staged)"
            " < parent.bound.policy.inbox_limit):",
        ),
    ),
)
