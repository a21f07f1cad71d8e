"""Faults of births: starting, resuming, and recovery from a crash.

Lives here: wrong rules of headers, of publication, of loading and of repair.
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from ramet.actors import agent, bound
from ramet.lifecycle import recovery, telling
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.admission import Admission
from ramet.lifecycle.current import CURRENT
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.recovery import Loaded, shade_of
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.supervisor import Supervisor
from ramet.lifecycle.telling import telling_later
from ramet.mailbox import message
from ramet.mailbox.writer import Gate
from tests.planted.fault import Fault, edit, fault

__all__ = ["FAULTS"]

_wait = Gate.wait


async def _wait_outside_of_agents(self: Gate, ticket: int) -> None:
    if CURRENT.get() is None:
        await _wait(self, ticket)


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
        "a session may be resumed while it is resident",
        "R-003 R-181",
        edit(
            Residency,
            "_not_resident",
            "if session_id in self._runtime.forest.live:",
            "if False:",
        ),
    ),
    fault(
        "two resumes of a session may meet",
        "R-003",
        edit(
            Residency,
            "resume",
            "if session_id in self._resuming:",
            "if False:",
        ),
    ),
    fault(
        "a resumed session keeps its activation id",
        "R-004 R-214",
        edit(
            Forest,
            "publish",
            'Activated(self.ambient.new("a"), now, changed)',
            "Activated(activation.id, now, changed)",
        ),
    ),
    fault(
        "a resumed session gets another header",
        "R-097 R-214",
        edit(
            Forest,
            "publish",
            "    if header is None:\n",
            "    if header is None:\n        activation.session.turn = 0\n",
        ),
    ),
    fault(
        "an activation ends in no event",
        "R-214",
        edit(
            Forest,
            "_tell",
            "    self.log(activation, Ended(reason, told, now, activation.reports))\n",
            "    session.activation = None\n",
        ),
    ),
    fault(
        "a start that fails leaves its session",
        "R-091 R-134 R-191",
        edit(
            Admission,
            "_bear",
            "    installation = self.install(newborn.kind, session_id, parent_id, "
            "bound.name)\n",
            "    early = Session()\n"
            "    forest.gate.write(early, session_id, Created(session_id, parent_id, "
            "depth, newborn.kind, bound.record, forest.ambient.now_ms(), "
            "newborn.record, newborn.background))\n"
            "    installation = self.install(newborn.kind, session_id, parent_id, "
            "bound.name)\n",
        ),
    ),
    fault(
        "an agent is seen while it is set up",
        "R-091 R-190",
        edit(
            Admission,
            "_bear",
            "    installation = self.install(newborn.kind, session_id, parent_id, "
            "bound.name)\n",
            "    from ..actors.contributions import Installation\n"
            "    forest.live[session_id] = Activation(session_id, Session(), parent, "
            "bound, Installation(), None)\n"
            "    try:\n"
            "        installation = self.install(newborn.kind, session_id, parent_id, "
            "bound.name)\n"
            "    finally:\n"
            "        del forest.live[session_id]\n",
        ),
    ),
    fault(
        "the header does not name the parent",
        "R-006",
        edit(
            Admission,
            "_bear",
            "        parent_id,\n        depth,\n",
            "        parent_id and forest.live[parent_id].lineage()[-1].id,\n"
            "        depth,\n",
        ),
    ),
    fault(
        "the header holds no digests",
        "R-089",
        edit(
            bound,
            "bind",
            "ToolRecord(tool.name, tool.digest)",
            'ToolRecord(tool.name, "")',
        ),
    ),
    fault(
        "the header holds the depth of the parent",
        "R-089",
        edit(Admission, "_bear", "        depth,\n", "        max(depth - 1, 0),\n"),
    ),
    fault(
        "what a caller changes later is in the spec",
        "R-090",
        edit(
            agent.AgentSpec,
            "__attrs_post_init__",
            "dict(self.policy)",
            "self.policy",
        ),
        edit(agent, "_settings", "return dict(value)", "return value"),
    ),
    fault(
        "what a caller changes later is in the message",
        "R-090",
        edit(
            message,
            "to_blocks",
            "blocks = tuple(map(_block, content))",
            "blocks = content if all(type(b) is str for b in content) else "
            "tuple(map(_block, content))",
        ),
    ),
    fault(
        "a failed resume keeps its claim",
        "R-104 R-105 R-185",
        edit(
            Residency,
            "_unclaim",
            "for session_id in sessions:",
            "for session_id in ():",
        ),
    ),
    fault(
        "a failed resume leaves its set-ups",
        "R-105",
        edit(
            Residency,
            "_install",
            "for other in installation.release():",
            "for other in ():",
        ),
    ),
    fault(
        "what a set-up raises in a resume comes out as it is",
        "R-105",
        edit(
            Residency,
            "_install",
            "        raise NotResumableError(\n"
            '            f"session {loaded.id} could not be set up again: {error}"\n'
            "        ) from error\n",
            "        raise\n",
        ),
    ),
    fault(
        "a log that cannot be read is continued as it is",
        "R-101",
        edit(
            recovery,
            "_load_one",
            "        raise NotResumableError(\n"
            '            f"session {session_id} cannot be read, '
            'so it is not continued: {error}"\n        ) from error\n',
            "        raise\n",
        ),
    ),
    fault(
        "an unknown session is an empty one",
        "R-101",
        edit(
            recovery,
            "folded",
            "return fold(events) if events else None",
            "return fold(events)",
        ),
    ),
    fault(
        "any spec will do for a stored session",
        "R-233",
        edit(
            recovery,
            "rebound",
            "spec = specs.get(record.name)",
            "spec = specs.get(record.name) or AgentSpec(record.name)",
        ),
    ),
    fault(
        "present texts decide for a stored session",
        "R-180",
        edit(bound, "rebind", "if stored == now:", "if True:"),
    ),
    fault(
        "what differs from the stored spec is not named",
        "R-180",
        edit(bound, "rebind", "return bound, tuple(changed)", "return bound, ()"),
    ),
    fault(
        "a turn that a crash cut is run again",
        "R-175",
        edit(
            recovery,
            "repair",
            "    if session.open is not None:\n",
            "    again = session.open or ()\n    if session.open is not None:\n",
            "    rooted = session.header.parent is None\n",
            "    for one in again:\n"
            "        session.inbox.waiting.insert(0, (0, one))\n"
            "        session.inbox._blocking.setdefault(one.sender, []).insert(0, 0)\n"
            "    rooted = session.header.parent is None\n",
        ),
    ),
    fault(
        "a call that a crash cut failed",
        "R-175 R-176",
        edit(
            recovery,
            "_answer",
            '    return _UNKNOWN, "TOOL_OUTCOME_UNKNOWN"',
            '    return _UNKNOWN, "TOOL_FAILED"',
            'before this was accepted: not delivered", (\n'
            '            "TOOL_OUTCOME_UNKNOWN"\n',
            'before this was accepted: not delivered", (\n            "TOOL_FAILED"\n',
        ),
    ),
    fault(
        "a cut report does not know whether it was accepted",
        "R-176 R-062",
        edit(
            recovery,
            "_load_one",
            "row = await storage.read(Reader.find, session_id, key)",
            "row = None",
        ),
    ),
    fault(
        "repair asks for the keys of calls with a result too",
        "R-223 R-176",
        edit(recovery, "_load_one", "if result is None:", "if True:"),
    ),
    fault(
        "what waited at a kill is not run without a new send",
        "R-177",
        edit(Residency, "_revive", "if session.inbox.claimable:", "if False:"),
    ),
    fault(
        "what waited at a kill is dropped",
        "R-177 R-159 R-170",
        edit(
            Residency,
            "_revive",
            "    forest.publish(activation, changed=changed)\n",
            "    session.inbox.waiting.clear()\n"
            "    session.inbox._blocking.clear()\n"
            "    forest.publish(activation, changed=changed)\n",
        ),
    ),
    fault(
        "what was staged at a kill is dropped",
        "R-178 R-055",
        edit(
            recovery,
            "repair",
            "    now = forest.ambient.now_ms()\n",
            "    now = forest.ambient.now_ms()\n    session.inbox.staged.clear()\n",
        ),
    ),
    fault(
        "a crash is told as a drain",
        "R-179 R-250",
        edit(
            recovery,
            "repair",
            '"failed", "crashed", now, "the process ended"',
            '"cancelled", "drain", now, "the process ended"',
            '"failed", "crashed", now, detail',
            '"cancelled", "drain", now, detail',
        ),
    ),
    fault(
        "children that a crash cut are not told of",
        "R-119 R-179",
        edit(recovery, "recover_children", "if child.session.untold:", "if False:"),
    ),
    fault(
        "a notice of a crash is quiet",
        "R-179",
        edit(
            telling,
            "telling_later",
            'given = "wakeup" if wakes else "quiet"',
            'given = "quiet"',
        ),
    ),
    fault(
        "children that a crash cut are resumed",
        "R-179 R-231",
        edit(
            Supervisor,
            "resume",
            "return await self._residency.resume(session_id)",
            "resumed = await self._residency.resume(session_id)\n"
            "    for line in await self.children(session_id, limit=10):\n"
            "        if line.kind == 'continuable' and line.id not in "
            "self._runtime.forest.live:\n"
            "            await self._residency.resume(line.id)\n"
            "    return resumed",
        ),
    ),
    fault(
        "what was undecided at a kill is not judged",
        "R-170 R-260",
        edit(recovery, "_promote", "forest.promote(activation, now)", "pass"),
    ),
    fault(
        "a resume loads every child",
        "R-231",
        edit(
            recovery,
            "load",
            "storage.read(Reader.unfinished, one.id)",
            "storage.read(Reader.children, one.id, None, 10_000)",
        ),
    ),
    fault(
        "what was told of a session is not stored with its end",
        "R-133 R-250 R-249",
        edit(
            recovery,
            "tell",
            "    forest.log(shade, Told(forest.ambient.now_ms()))\n",
            "    child.session.untold = ()\n",
        ),
    ),
    fault(
        "a resumed parent does not own its live children",
        "R-258",
        edit(
            Residency,
            "_revive",
            "for orphan in list(forest.orphans.values()):",
            "for orphan in ():",
        ),
    ),
)
