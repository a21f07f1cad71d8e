"""Faults of lives: settling, and what holds an agent.

Lives here: wrong rules of rest, of interrupts, of tasks and of waiting for oneself.
"""

from __future__ import annotations

from typing import Any

from ramet.lifecycle import activation as activation_module
from ramet.lifecycle import (
    current,
    driver,
    inquiry,
)
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.driver import Driver
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.sending import Sending
from ramet.lifecycle.supervisor import Supervisor
from ramet.lifecycle.teardown import until_gone
from ramet.mailbox.backend import Backend
from ramet.mailbox.writer import Gate
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "an agent settles with a wakeup that waits",
        "R-047 R-102 R-108",
        edit(
            activation_module, "may_settle", "if session.inbox.claimable:", "if False:"
        ),
    ),
    fault(
        "a quiet message keeps its recipient resident",
        "R-046",
        edit(
            activation_module,
            "may_settle",
            "if session.inbox.claimable:",
            "if session.inbox.claimable or session.unread:",
        ),
    ),
    fault(
        "a parked queue keeps its agent resident",
        "R-137",
        edit(
            activation_module,
            "may_settle",
            "if session.inbox.claimable:",
            "if session.inbox.waiting:",
        ),
    ),
    fault(
        "an agent settles while a child of it lives",
        "R-109 R-111 R-139 R-258",
        edit(Forest, "rest", "        and not activation.children\n", ""),
    ),
    fault(
        "a continuable child never settles",
        "R-108 R-109",
        edit(activation_module, "may_settle", 'if kind == "continuable":', "if False:"),
    ),
    fault(
        "an agent with messages that wait is not ended",
        "R-110 R-148 R-158",
        edit(
            Forest,
            "rest",
            "        and activation.life is not Life.GONE\n",
            "        and activation.life is not Life.GONE\n"
            "        and not activation.session.inbox.waiting\n",
        ),
    ),
    fault(
        "publication looks whether an agent may settle",
        "R-108 R-257",
        edit(
            Residency,
            "_resume",
            "if activation.life is not Life.LIVE:",
            "if True:",
        ),
    ),
    fault(
        "a release does nothing",
        "R-257",
        edit(Supervisor, "_release", "self._runtime.forest.rest(activation)", "pass"),
    ),
    fault(
        "a release ends an agent at work",
        "R-257",
        edit(
            Supervisor,
            "_release",
            "self._runtime.forest.rest(activation)",
            'self._runtime.forest.close([activation], Closing("drain"))',
        ),
    ),
    fault(
        "a parent is not looked at when its child is gone",
        "R-109 R-111",
        edit(Forest, "rest", "activation = parent", "activation = None"),
    ),
    fault(
        "a notice is written before the end of its child",
        "R-113",
        edit(
            Forest,
            "_tell",
            "    self.log(activation, Ended(reason, told, now, activation.reports))\n",
            "",
            "            telling_at_end(activation, parent, outcomes, last=last,"
            " view=self.view),\n        )\n",
            "            telling_at_end(activation, parent, outcomes, last=last,"
            " view=self.view),\n        )\n"
            "    self.log(activation, Ended(reason, told, now, activation.reports))\n",
        ),
    ),
    fault(
        "a child is gone before its end is told",
        "R-113",
        edit(
            Forest,
            "_end",
            "    self._tell(activation, parent, now)\n"
            "    activation.life = Life.GONE\n",
            "    activation.life = Life.GONE\n"
            "    for callback in activation.on_gone or (): callback()\n"
            "    self._tell(activation, parent, now)\n",
        ),
    ),
    fault(
        "set-ups are released after the end is logged",
        "R-122 R-214",
        edit(
            Forest,
            "_end",
            "    errors = activation.installation.release()\n",
            "    self._tell(activation, parent, now)\n"
            "    errors = activation.installation.release()\n",
            '{shown}.",)\n    self._tell(activation, parent, now)\n',
            '{shown}.",)\n',
        ),
    ),
    fault(
        "a release that fails ends the assignment as failed",
        "R-122",
        edit(
            Forest,
            "_end",
            "if errors:",
            "if errors and session.untold:\n"
            "        import attrs\n"
            "        session.untold = tuple(attrs.evolve(o, status='failed') "
            "for o in session.untold)\n    if errors:",
        ),
    ),
    fault(
        "a release that fails is not told",
        "R-122 R-196",
        edit(
            Forest,
            "_end",
            "self.errors += [(activation, error) for error in errors]",
            "pass",
        ),
    ),
    fault(
        "a release that fails is not in the notice",
        "R-122",
        edit(Forest, "_end", "activation.notes += (", "_ = ("),
    ),
    fault(
        "an interrupt is forgotten at the end of the turn",
        "R-135 R-145",
        edit(Forest, "end_turn", "if session.interrupted is not None:", "if False:"),
    ),
    fault(
        "an interrupt does not stop the open turn",
        "R-135",
        edit(Forest, "interrupt", "self._cancel_turn(activation)", "pass"),
        edit(Activation, "stopped", " or self.session.interrupted is not None", ""),
    ),
    fault(
        "an interrupt of an idle agent stops its next turn",
        "R-138",
        edit(
            Forest,
            "interrupt",
            "    if (\n",
            "    if session.open is None and activation.life is Life.LIVE:\n"
            "        session.interrupted = by\n    if (\n",
        ),
    ),
    fault(
        "an interrupt reaches the children",
        "R-139",
        edit(
            Forest,
            "interrupt",
            "    self.log(activation, Interrupted(by, self.ambient.now_ms()))\n",
            "    self.log(activation, Interrupted(by, self.ambient.now_ms()))\n"
            "    for child in (activation.children or {}).values():\n"
            "        self.interrupt(child, by)\n",
        ),
    ),
    fault(
        "a returning agent is interrupted",
        "R-147",
        edit(Forest, "interrupt", "        or session.returning\n", ""),
    ),
    fault(
        "anybody interrupts anybody",
        "R-142",
        edit(
            Supervisor,
            "_right_to_interrupt",
            "if inside or (target is not None and by._activation not in "
            "target.lineage()):",
            "if False:",
        ),
    ),
    fault(
        "a stale ancestor interrupts",
        "R-142",
        edit(Supervisor, "_right_to_interrupt", "if not exact:", "if False:"),
    ),
    fault(
        "the host may not interrupt a root",
        "R-228",
        edit(
            Supervisor,
            "interrupt",
            "if target is not None:",
            "if target is not None and (by is not None or target.parent is not None):",
        ),
    ),
    fault(
        "an interrupt of a closing agent is the cause of its end",
        "R-151",
        edit(
            Forest,
            "interrupt",
            "activation.life is not Life.LIVE",
            "activation.life is Life.GONE",
        ),
    ),
    fault(
        "who waits for a parked assignment waits for ever",
        "R-264",
        edit(
            inquiry.Inquiry,
            "_refuse_endless",
            "raise error",
            "return",
        ),
    ),
    fault(
        "a failed turn parks the queue",
        "R-202",
        edit(
            Driver,
            "run",
            "if activation.life is not Life.LIVE or not forest.go_on(activation):",
            "if activation.life is not Life.LIVE or finish.status == 'failed' "
            "or not forest.go_on(activation):",
        ),
    ),
    fault(
        "a model that raises SystemExit ends the process",
        "R-267",
        edit(
            Driver,
            "_turn",
            "except (Exception, SystemExit) as error:",
            "except Exception as error:",
        ),
        edit(
            driver._Turn,
            "_ask",
            "if passes_through(error, self._backend, self._activation):",
            "if not isinstance(error, Exception):",
        ),
    ),
    fault(
        "an agent waits for itself",
        "R-217",
        edit(
            current,
            "forbid_waiting_for",
            "if activation in held:",
            "if False:",
        ),
    ),
    fault(
        "a child may wait for the end of its parent",
        "R-217",
        edit(
            current,
            "forbid_waiting_for",
            "inside.lineage() if below",
            "[inside] if below",
        ),
    ),
    fault(
        "a task of every agent goes on while it is idle",
        "R-116 R-117",
        edit(
            Forest,
            "publish",
            "    self.live[activation.id] = activation\n",
            "    self.live[activation.id] = activation\n    self._idle(activation)\n",
        ),
        put(Forest, "_idle", lambda self, one: _idle(self, one)),
    ),
    fault(
        "a claim is never given back",
        "R-117",
        put(Gate, "forget_epoch", lambda *_: None),
    ),
    fault(
        "a cancelled caller of a call leaves it running",
        "R-119",
        edit(Sending, "_call_off", "if not started:", "if True:"),
    ),
)


def _idle(forest: Forest, activation: Activation) -> None:
    """Keep a task for an agent that has nothing to do."""
    drive: Any = forest._spawn
    backend: Backend = drive.__self__.backend

    async def wait() -> None:
        await until_gone(backend, activation)

    backend.spawn(wait)
