"""The seeds can fail: each fault that is planted here is found, by its law.

A fault is a small change of the runtime, of the kind that a hand makes.  Too rare for a
few seeds is a promotion at the end of a turn that was interrupted: some two seeds in a
thousand find it, and `test_notices.py` holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from anyio.lowlevel import checkpoint

from ramet.actors.turn import Finish
from ramet.lifecycle import forest as forest_module
from ramet.lifecycle import recovery, residency
from ramet.lifecycle.activation import Activation, Closing, Life
from ramet.lifecycle.current import CURRENT
from ramet.lifecycle.driver import Driver
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.recovery import Loaded, shade_of
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.runtime import Runtime
from ramet.lifecycle.telling import Telling, telling_later
from ramet.mailbox.events import Accepted
from ramet.mailbox.inbox import Inbox
from ramet.mailbox.keys import KeyTable
from ramet.mailbox.writer import Gate
from tests.lifecycle.play import BrokenPlayError, main, play
from tests.lifecycle.recover import recover
from tests.schedules import Backend, Kind

Patch = pytest.MonkeyPatch


def a_wake_is_lost_between_the_last_look_and_parking(patch: Patch) -> None:
    async def run(self: Driver, activation: Activation) -> None:
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

    patch.setattr(Driver, "run", run)


def a_quiet_message_wakes(patch: Patch) -> None:
    real = Forest.accept

    def accept(self: Forest, *arguments: Any, **options: Any) -> str:
        if arguments[-1] == "quiet":
            options["given"] = "wakeup"
        return real(self, *arguments, **options)

    patch.setattr(Forest, "accept", accept)


def a_quiet_message_overtakes_a_wakeup_of_its_sender(patch: Patch) -> None:
    real = Inbox.accept

    def accept(self: Inbox, message: Accepted, *, safe: bool) -> bool:
        if safe and message.given == "quiet":
            self._accepts += 1
            return True
        return real(self, message, safe=safe)

    patch.setattr(Inbox, "accept", accept)


def nothing_inside_an_agent_waits_for_its_log(patch: Patch) -> None:
    real = Gate.wait

    async def wait(self: Gate, ticket: int, name: str | None = None) -> None:
        if CURRENT.get() is None:
            await real(self, ticket, name)

    patch.setattr(Gate, "wait", wait)


def a_key_leaves_its_table_while_somebody_asks_for_it(patch: Patch) -> None:
    def is_durable(self: KeyTable, sender: str, key: str) -> None:
        self._rows.pop((sender, key), None)

    patch.setattr(KeyTable, "is_durable", is_durable)


def a_load_does_not_wait_for_what_the_session_wrote(patch: Patch) -> None:
    async def durable(self: Residency) -> None:
        await checkpoint()

    patch.setattr(Residency, "_durable", durable)


def a_message_is_acknowledged_before_it_is_stored(patch: Patch) -> None:
    async def stored(self: Runtime, *_: object) -> None:
        await checkpoint()

    patch.setattr(Runtime, "stored", stored)


def a_cancel_forgets_the_grandchildren(patch: Patch) -> None:
    def subtree(self: Activation) -> list[Activation]:
        return [self, *(self.children or {}).values()]

    patch.setattr(Activation, "subtree", subtree)


def a_drain_discards(patch: Patch) -> None:
    patch.setattr(Closing, "keeps", False)


def a_parent_in_a_turn_gets_no_notice(patch: Patch) -> None:
    real = Forest.tell

    def tell(
        self: Forest, parent: Activation, child: str, telling: Telling | None
    ) -> None:
        if parent.session.open is None:
            real(self, parent, child, telling)

    patch.setattr(Forest, "tell", tell)


def an_agent_settles_with_a_wakeup_that_waits(patch: Patch) -> None:
    def may_settle(activation: Activation) -> bool:
        return activation.session.header.kind == "continuable"

    patch.setattr(forest_module, "may_settle", may_settle)


def the_end_of_a_turn_forgets_the_interrupt(patch: Patch) -> None:
    real = Forest.end_turn

    def end_turn(self: Forest, activation: Activation, finish: Finish) -> None:
        activation.session.interrupted = None
        real(self, activation, finish)

    patch.setattr(Forest, "end_turn", end_turn)


def a_claim_is_never_given_back(patch: Patch) -> None:
    patch.setattr(Gate, "forget_epoch", lambda *_: None)


def state_changes_outside_of_events(patch: Patch) -> None:
    real = Forest.open_turn

    def open_turn(self: Forest, activation: Activation) -> bool:
        activation.session.last_at += 1
        return real(self, activation)

    patch.setattr(Forest, "open_turn", open_turn)


def recovery_tells_again(patch: Patch) -> None:
    def tell(
        forest: Forest, child: Loaded, owner: Activation, *, crashed: bool
    ) -> None:
        shade = shade_of(child, owner)
        untold = child.session.untold
        view = forest.view
        telling = telling_later(shade, owner, untold, crashed=crashed, view=view)
        forest.tell(owner, child.id, telling)

    patch.setattr(recovery, "tell", tell)
    patch.setattr(residency, "tell", tell)


@attrs.frozen
class Fault:
    """A fault: how it is planted, the words that name its law, and where it is found.

    `within` is the number of seeds in which both backends must find it: some five times
    what it takes on the average, since any change of the runtime moves the seeds.
    """

    plant: Callable[[Patch], None]
    law: str
    within: int = 40
    search: Callable[[Backend, Kind, int], object] = play


FAULTS = [
    Fault(a_wake_is_lost_between_the_last_look_and_parking, "a wake was lost", 150),
    Fault(a_quiet_message_wakes, "a quiet message of"),
    Fault(a_quiet_message_overtakes_a_wakeup_of_its_sender, "order of", 200),
    Fault(nothing_inside_an_agent_waits_for_its_log, "before its log is durable"),
    Fault(a_message_is_acknowledged_before_it_is_stored, "acknowledged and not stored"),
    Fault(a_key_leaves_its_table_while_somebody_asks_for_it, "used the key", 250),
    Fault(a_load_does_not_wait_for_what_the_session_wrote, "a commit failed", 80),
    Fault(a_cancel_forgets_the_grandchildren, "below who is closing", 100),
    Fault(a_drain_discards, "discarded by drain", 60),
    Fault(a_parent_in_a_turn_gets_no_notice, "that were told"),
    Fault(an_agent_settles_with_a_wakeup_that_waits, "settled with a wakeup", 150),
    Fault(the_end_of_a_turn_forgets_the_interrupt, "forgot an interrupt"),
    Fault(a_claim_is_never_given_back, "epochs are left", 60),
    Fault(state_changes_outside_of_events, "the fold of the log", 80),
    Fault(recovery_tells_again, "told of twice|was told|were told", search=recover),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_a_planted_fault_is_found_within_a_few_seeds(
    fault: Fault, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault.plant(monkeypatch)
    with pytest.raises(BrokenPlayError, match=fault.law) as found:
        _search(fault, backend)
    again = f"again: python -m tests.lifecycle.play --backend {backend} --kind "
    assert again in str(found.value)


def _search(fault: Fault, backend: Backend) -> None:
    """Play seeds until the law is named; what else the fault breaks is passed over."""
    for seed in range(fault.within):
        try:
            fault.search(backend, "walk" if seed % 2 else "pct", seed)
        except BrokenPlayError as error:
            if re.search(fault.law, str(error)):
                raise


def test_the_command_names_what_it_found_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--backend", "asyncio", "--seeds", "4", "--first", "2"]
    assert main(options) == 0
    assert " 0 broken; digest " in capsys.readouterr().out
    a_message_is_acknowledged_before_it_is_stored(monkeypatch)
    assert main(options) == 1
    shown = capsys.readouterr().out
    assert "BROKEN asyncio walk seed " in shown
    assert "\nagain: python -m tests.lifecycle.play --backend asyncio " in shown
    assert main([*options, "--recover"]) == 1
