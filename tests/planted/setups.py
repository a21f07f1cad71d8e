"""Faults of set-ups: what contributions give, and how they are revoked.

Lives here: wrong rules of contributions and their hooks.
"""

from __future__ import annotations

from ramet.actors import (
    contributions,
    tool_run,
)
from ramet.actors.contributions import Contributions, Installation, Setup
from ramet.lifecycle.admission import Admission
from ramet.lifecycle.calls import Calls
from tests.planted.fault import Fault, edit, fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "contributions are released in their order",
        "R-189",
        edit(Installation, "release", "self._parts.pop()", "self._parts.pop(0)"),
    ),
    fault(
        "contributions are installed in reverse order",
        "R-189",
        edit(
            Contributions,
            "install",
            "for registration in tuple(self._registrations):",
            "for registration in reversed(self._registrations):",
        ),
    ),
    fault(
        "a set-up is not validated again at publication",
        "R-190 R-191",
        edit(
            Installation,
            "publish",
            "any(part.registration.revoked for part in self._parts)",
            "False",
        ),
    ),
    fault(
        "a revoked contribution is still installed",
        "R-191",
        edit(
            Contributions,
            "register",
            "self._registrations.remove(registration)",
            "pass",
        ),
    ),
    fault(
        "a refused start leaves its set-ups",
        "R-191 R-095",
        edit(
            Admission,
            "_bear",
            "for other in installation.release():",
            "for other in ():",
        ),
    ),
    fault(
        "a failed set-up leaves those before it",
        "R-192",
        edit(
            contributions,
            "_undo",
            "for other in installation.release():",
            "for other in ():",
        ),
    ),
    fault(
        "after a failed set-up the others still run",
        "R-192",
        edit(
            Contributions,
            "install",
            "            _undo(installation, error)\n            raise\n        fin",
            "            failed = error\n            disposer = None\n        fin",
            "    try:\n        installation.collect()\n",
            "    if 'failed' in locals():\n"
            "        _undo(installation, locals()['failed'])\n"
            "        raise locals()['failed']\n"
            "    try:\n        installation.collect()\n",
        ),
    ),
    fault(
        "a revocation ends other contributions too",
        "R-193",
        edit(
            Installation,
            "drop",
            "gone = [part for part in self._parts "
            "if part.registration is registration]",
            "gone = list(self._parts)",
        ),
    ),
    fault(
        "a release runs again after a revocation",
        "R-193",
        edit(
            contributions,
            "_dispose",
            "disposer, part.disposer = part.disposer, None",
            "disposer = part.disposer",
        ),
        edit(
            Installation,
            "drop",
            "self._parts = [p for p in self._parts if p.registration is not "
            "registration]",
            "pass",
        ),
    ),
    fault(
        "a revoked tool is still offered and run",
        "R-081 R-194",
        edit(Installation, "drop", "    self.collect()\n", ""),
    ),
    fault(
        "a call that waits to start is not asked about again",
        "R-194",
        edit(
            Calls,
            "_run",
            "refused = self._withdrawn(call.name) if installation.before else None",
            "refused = None",
        ),
    ),
    fault(
        "a call that waits for a thread is not asked about again",
        "R-194",
        edit(tool_run, "_attempted", "None if check is None else check()", "None"),
    ),
    fault(
        "the result of a call whose tool was revoked is dropped",
        "R-195",
        edit(
            Calls,
            "_run",
            "    result = await run_tool(tool, call.arguments, identity, check)\n",
            "    result = await run_tool(tool, call.arguments, identity, check)\n"
            "    result = self._withdrawn(call.name) or result\n",
        ),
    ),
    fault(
        "the first release that fails ends a revocation",
        "R-196",
        edit(
            Contributions,
            "register",
            "errors += installation.drop(registration)",
            "errors += installation.drop(registration)\n"
            "            if errors:\n                break",
        ),
    ),
    fault(
        "a failed release takes the revocation back",
        "R-196 R-197",
        edit(
            Contributions,
            "register",
            "        registration.installations.clear()\n",
            "        registration.installations.clear()\n"
            "        if errors:\n"
            "            registration.revoked = False\n"
            "            self._registrations.append(registration)\n",
        ),
    ),
    fault(
        "the first release that fails ends the release of an agent",
        "R-196",
        edit(
            Installation,
            "release",
            "_dispose(part, errors)",
            "_dispose(part, errors)\n        if errors:\n            break",
        ),
    ),
    fault(
        "a new contribution reaches agents that live",
        "R-197",
        edit(
            Contributions,
            "install",
            "    installation = Installation()\n",
            "    installation = Installation()\n"
            "    self.__dict__.setdefault('made', []).append("
            "(installation, kind, agent_id, parent_id, name, host))\n",
        ),
        edit(
            Contributions,
            "register",
            "    self._registrations.append(registration)\n",
            "    self._registrations.append(registration)\n"
            "    for one, *given in self.__dict__.get('made', ()):\n"
            "        setup = Setup(*given)\n"
            "        one.add(_Part(registration, setup, contribution(setup)))\n"
            "        one.collect()\n",
        ),
    ),
    fault(
        "a contribution may be a coroutine function",
        "R-234",
        edit(
            contributions,
            "_is_plain",
            "callable(function) and not inspect.iscoroutinefunction(function)",
            "callable(function)",
        ),
    ),
    fault(
        "a set-up is not told for whom it is",
        "R-234",
        edit(Setup, "__init__", "self.kind = kind", 'self.kind = "interactive"'),
    ),
    fault(
        "the texts of contributions are left out",
        "R-235",
        edit(
            Installation,
            "collect",
            "tuple(t for part in self._parts for t in part.setup._texts)",
            "()",
        ),
    ),
    fault(
        "hooks after a call are not run",
        "R-063 R-235",
        edit(Calls, "_run", "for after in installation.after:", "for after in ():"),
    ),
    fault(
        "hooks before a call are not run",
        "R-235",
        edit(Calls, "_run", "for before in installation.before:", "for before in ():"),
    ),
)
