"""Mutants: small wrong rules of the runtime, of the kind that a hand makes.

Lives here: each as a function that plants it for as long as a `MonkeyPatch` lasts, and
the table of them: by which law the simulator finds each, and within how many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from anyio.lowlevel import checkpoint

from ramet import Agent
from ramet.actors.contributions import Installation
from ramet.actors.ledger import Ledger
from ramet.actors.submission import Judged
from ramet.actors.turn import Finish
from ramet.lifecycle import forest as forest_module
from ramet.lifecycle import recovery, residency
from ramet.lifecycle.activation import Activation, Closing, Life, may_settle
from ramet.lifecycle.admission import Admission
from ramet.lifecycle.current import CURRENT
from ramet.lifecycle.driver import Driver, _Turn
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.inquiry import _Changed
from ramet.lifecycle.protocol import PROTOCOL
from ramet.lifecycle.recovery import Loaded, shade_of
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.runtime import Runtime
from ramet.lifecycle.sending import Sending
from ramet.lifecycle.teardown import Teardown
from ramet.lifecycle.telling import Telling, telling_later
from ramet.mailbox import session as session_module
from ramet.mailbox.events import Accepted, Interrupted
from ramet.mailbox.inbox import Inbox, Placed
from ramet.mailbox.keys import KeyTable
from ramet.mailbox.session import Session
from ramet.mailbox.writer import Gate
from ramet.testing import Scenario
from tests.lifecycle import scenarios

__all__ = ["MUTANTS", "Mutant", "Patch"]

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

    async def wait(self: Gate, ticket: int) -> None:
        if CURRENT.get() is None:
            await real(self, ticket)

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


def a_key_is_never_remembered(patch: Patch) -> None:
    patch.setattr(KeyTable, "known", lambda *_, **__: None)


def a_closing_root_is_looked_at_one_step_too_early(patch: Patch) -> None:
    async def tell(self: Sending, root: Agent, content: str, *, key: str | None) -> str:
        runtime = self._runtime
        send = self._send("tell", content, key, "wakeup")
        async with runtime.asked("host", key) as stored:
            recipient = runtime.admission.sender(root)
            known = runtime.admission.known(
                "host", attrs.evolve(send, stored=stored), recipient.id
            )
            if known is not None:
                await runtime.stored(known.row.message, known.ticket, key)
                return known.row.message
            await checkpoint()
            message, ticket = runtime.admission._accept(recipient, "host", send)
        await runtime.stored(message, ticket, key)
        return message

    patch.setattr(Sending, "tell", tell)


def a_notice_overtakes_the_reports_of_its_child(patch: Patch) -> None:
    real = Inbox.enter

    def enter(self: Inbox, claimed: list[Placed]) -> list[Accepted]:
        entering = real(self, claimed)
        return sorted(entering, key=lambda message: message.source != "notice")

    patch.setattr(Inbox, "enter", enter)


def a_parent_ends_before_its_children(patch: Patch) -> None:
    def rest(self: Forest, activation: Activation | None) -> None:
        while (
            activation is not None
            and not activation.driving
            and activation.life is not Life.GONE
        ):
            if activation.life is Life.LIVE:
                if activation.children or not may_settle(activation):
                    return
                activation.life = Life.CLOSING
            parent = activation.parent
            self._end(activation, parent)
            activation = parent

    patch.setattr(Forest, "rest", rest)


def the_last_reply_wins(patch: Patch) -> None:
    real = Ledger.submit

    def submit(self: Ledger, place: int, raw: str) -> Judged:
        self._accepted = None
        return real(self, place, raw)

    patch.setattr(Ledger, "submit", submit)


def a_budget_is_looked_at_after_spending(patch: Patch) -> None:
    real = _Turn._refused

    def refused(self: _Turn) -> Finish | None:
        usage = self._session.usage
        self._session.usage = attrs.evolve(usage, requests=max(usage.requests - 1, 0))
        try:
            return real(self)
        finally:
            self._session.usage = usage

    patch.setattr(_Turn, "_refused", refused)


def an_interrupt_does_not_park(patch: Patch) -> None:
    def interrupted(self: Session, event: Interrupted) -> None:
        self.interrupted = event.by

    patch.setitem(session_module._APPLY, Interrupted, interrupted)


def what_was_revoked_still_runs(patch: Patch) -> None:
    patch.setattr(Installation, "drop", lambda *_: [])


def an_undecided_notice_is_never_promoted(patch: Patch) -> None:
    patch.setattr(forest_module, "promotable", lambda activation: ())


def two_may_load_one_session_at_once(patch: Patch) -> None:
    async def busy(self: Residency, session_id: str) -> bool:
        return False

    patch.setattr(Residency, "busy", busy)


def a_drain_still_admits(patch: Patch) -> None:
    patch.setattr(Admission, "open", lambda self: None)


def a_cancel_returns_at_once(patch: Patch) -> None:
    async def bring_down(
        self: Teardown, tops: Sequence[Activation], closing: Closing, grace_s: float
    ) -> None:
        self._forest.close(tops, closing)

    patch.setattr(Teardown, "bring_down", bring_down)


def a_stopped_request_is_not_counted(patch: Patch) -> None:
    patch.setattr(_Turn, "keep_partial", lambda self: None)


def who_waits_is_not_told(patch: Patch) -> None:
    patch.setattr(_Changed, "tell", lambda self: None)


def recovery_forgets_the_children(patch: Patch) -> None:
    patch.setattr(residency, "recover_children", lambda *_: None)


def a_wakeup_joins_the_open_turn(patch: Patch) -> None:
    real = Inbox.accept

    def accept(self: Inbox, message: Accepted, *, safe: bool) -> bool:
        if not safe and message.given == "wakeup" and message.source == "report":
            message = attrs.evolve(message, given="quiet")
        return real(self, message, safe=safe)

    patch.setattr(Inbox, "accept", accept)


def an_ended_child_tells_nobody(patch: Patch) -> None:
    real = Forest._tell

    def tell(
        self: Forest, activation: Activation, parent: Activation | None, now: int
    ) -> None:
        quiet = activation.reports > 0
        real(self, activation, None if quiet else parent, now)

    patch.setattr(Forest, "_tell", tell)


@attrs.frozen
class Mutant:
    """A wrong rule: how it is planted, and which law a search says that it breaks.

    `scenario` is what is searched: the whole protocol, or the race that the rule is
    about where it is rare in that.  `within` is the number of seeds in which both
    backends must find it: some five times what it takes on the average, since any
    change of the runtime moves the seeds.
    """

    plant: Callable[[Patch], None]
    law: str
    within: int = 150
    scenario: Scenario = PROTOCOL

    @property
    def name(self) -> str:
        """What is wrong."""
        return self.plant.__name__


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        a_wake_is_lost_between_the_last_look_and_parking,
        "5 a wake of",
        scenario=Scenario(scenarios.wake_against_park),
    ),
    Mutant(a_quiet_message_wakes, "4 a quiet message of"),
    Mutant(a_quiet_message_overtakes_a_wakeup_of_its_sender, "3 order of"),
    Mutant(nothing_inside_an_agent_waits_for_its_log, "before its log is durable"),
    Mutant(
        a_message_is_acknowledged_before_it_is_stored, "acknowledged and not stored"
    ),
    Mutant(
        a_key_leaves_its_table_while_somebody_asks_for_it,
        "something is never stored|a commit failed",
    ),
    Mutant(
        a_load_does_not_wait_for_what_the_session_wrote,
        "something is never stored|a commit failed",
    ),
    Mutant(a_cancel_forgets_the_grandchildren, "closing|below"),
    Mutant(a_drain_discards, "20 .* discarded by"),
    Mutant(a_parent_in_a_turn_gets_no_notice, "that were told"),
    Mutant(an_agent_settles_with_a_wakeup_that_waits, "settled with a wakeup"),
    Mutant(the_end_of_a_turn_forgets_the_interrupt, "forgot an interrupt"),
    Mutant(a_claim_is_never_given_back, "epochs are left"),
    Mutant(state_changes_outside_of_events, "R-184"),
    Mutant(recovery_tells_again, "were told|was told"),
    Mutant(a_key_is_never_remembered, "something is never stored|a commit failed"),
    Mutant(
        a_closing_root_is_looked_at_one_step_too_early,
        ".",
        scenario=Scenario(scenarios.tell_against_cancel),
    ),
    Mutant(a_notice_overtakes_the_reports_of_its_child, "3 order of"),
    Mutant(a_parent_ends_before_its_children, "10 "),
    Mutant(the_last_reply_wins, "13 "),
    Mutant(a_budget_is_looked_at_after_spending, "16 .* requests"),
    Mutant(an_interrupt_does_not_park, "R-140"),
    Mutant(what_was_revoked_still_runs, "17 "),
    Mutant(
        an_undecided_notice_is_never_promoted,
        "unread for ever",
        scenario=Scenario(scenarios.notice_against_open_turn),
    ),
    Mutant(
        two_may_load_one_session_at_once,
        ".",
        scenario=Scenario(scenarios.two_followups_to_an_absent_child),
    ),
    Mutant(a_drain_still_admits, "6 |R-117|20 |11 ", within=400),
    Mutant(a_cancel_returns_at_once, "14 ", within=500),
    Mutant(a_stopped_request_is_not_counted, "21 "),
    Mutant(who_waits_is_not_told, "11 somebody waits|deadlock"),
    Mutant(recovery_forgets_the_children, "10 |R-179|11 |R-117"),
    Mutant(a_wakeup_joins_the_open_turn, "R-002"),
    Mutant(an_ended_child_tells_nobody, "11 |R-179"),
)
"""All of them."""
