"""Mutants: small wrong rules of the runtime, of the kind that a hand makes.

Lives here: which faults of the table in `tests/planted/` the simulator is tried on, a
few more that only it can find, and for each by which law it does and within how many
seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
from anyio.lowlevel import checkpoint

from ramet import Agent
from ramet.actors.ledger import Ledger
from ramet.actors.submission import Judged
from ramet.actors.turn import Finish
from ramet.lifecycle import residency
from ramet.lifecycle.activation import Activation, Closing
from ramet.lifecycle.driver import _Turn
from ramet.lifecycle.forest import Forest
from ramet.lifecycle.inquiry import _Changed
from ramet.lifecycle.protocol import PROTOCOL
from ramet.lifecycle.residency import Residency
from ramet.lifecycle.sending import Sending
from ramet.lifecycle.teardown import Teardown
from ramet.mailbox.events import Accepted
from ramet.mailbox.inbox import Inbox, Placed
from ramet.testing import Scenario
from tests.lifecycle import scenarios
from tests.planted.table import FAULTS

__all__ = ["MUTANTS", "Mutant", "Patch"]

Patch = pytest.MonkeyPatch


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


def two_may_load_one_session_at_once(patch: Patch) -> None:
    async def busy(self: Residency, session_id: str) -> bool:
        return False

    patch.setattr(Residency, "busy", busy)


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


def a_cancel_returns_at_once(patch: Patch) -> None:
    async def end(
        self: Teardown, tops: Sequence[Activation], closing: Closing, grace_s: float
    ) -> set[Activation]:
        own = {one for top in tops for one in top.subtree()}
        self._forest.close(tops, closing)
        return own

    patch.setattr(Teardown, "end", end)


def a_stopped_request_is_not_counted(patch: Patch) -> None:
    patch.setattr(_Turn, "keep_partial", lambda self: None)


def who_waits_is_not_told(patch: Patch) -> None:
    patch.setattr(_Changed, "tell", lambda self: None)


def recovery_forgets_the_children(patch: Patch) -> None:
    patch.setattr(residency, "recover_children", lambda *_: None)


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

    rule: str | Callable[[Patch], None]
    law: str
    within: int = 150
    scenario: Scenario = PROTOCOL

    @property
    def name(self) -> str:
        """What is wrong."""
        if isinstance(self.rule, str):
            return self.rule
        return self.rule.__name__.replace("_", " ")

    def plant(self, patch: Patch) -> None:
        """Plant it, until `patch` is undone."""
        plant = FAULTS[self.rule].plant if isinstance(self.rule, str) else self.rule
        plant(patch)


def _race(function: Callable[..., object]) -> Scenario:
    return Scenario(function)  # type: ignore[arg-type]


_STORE = "19 something is never stored|19 a commit failed"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a wake is lost between the last look and parking",
        "5 a wake of|deadlock",
        scenario=_race(scenarios.wake_against_park),
    ),
    Mutant("a quiet message wakes", "4 a quiet message of"),
    Mutant("a quiet message overtakes a wakeup of its sender", "3 order of", 400),
    Mutant("nothing inside an agent waits for its log", "before its log is durable"),
    Mutant("a message is acknowledged before it is stored", "acknowledged and not"),
    Mutant("a key leaves its table while somebody asks for it", _STORE, 1000),
    Mutant("a load does not wait for what the session wrote", _STORE, 400),
    Mutant("a cancel forgets the grandchildren", "closing|below|deadlock"),
    Mutant("a drain discards", "20 .* discarded by"),
    Mutant("a parent in a turn gets no notice", "that were told"),
    Mutant("an agent settles with a wakeup that waits", "settled with a wakeup", 400),
    Mutant("an interrupt is forgotten at the end of the turn", "forgot an interrupt"),
    Mutant("a claim is never given back", "epochs are left"),
    Mutant("state changes outside of events", "R-184"),
    Mutant("recovery tells again", "were told|was told"),
    Mutant("a key is never known", _STORE),
    Mutant(a_notice_overtakes_the_reports_of_its_child, "3 order of", 400),
    Mutant("parents are ended before their children", "10 "),
    Mutant("an interrupt parks nothing", "R-140", 400),
    Mutant("a revoked tool is still offered and run", "17 "),
    Mutant(
        "nothing is promoted",
        "unread for ever",
        scenario=_race(scenarios.notice_against_open_turn),
    ),
    Mutant(
        two_may_load_one_session_at_once,
        ".",
        scenario=_race(scenarios.two_followups_to_an_absent_child),
    ),
    Mutant("a drain still admits", "6 |R-117|20 |11 ", 600),
    Mutant("a wakeup joins the open turn", "R-002|R-212|5 "),
    Mutant("an outcome is told twice", "told"),
    Mutant("a failed request is not counted", "21 "),
    Mutant(
        a_closing_root_is_looked_at_one_step_too_early,
        ".",
        scenario=_race(scenarios.tell_against_cancel),
    ),
    Mutant(the_last_reply_wins, "13 "),
    Mutant(a_budget_is_looked_at_after_spending, "16 .* requests", 600),
    Mutant(a_cancel_returns_at_once, "14 ", 600),
    Mutant(a_stopped_request_is_not_counted, "21 "),
    Mutant(who_waits_is_not_told, "11 somebody waits|deadlock|11 nothing comes"),
    Mutant(recovery_forgets_the_children, "10 |R-179|11 |R-117"),
    Mutant(an_ended_child_tells_nobody, "11 |R-179"),
)
"""All of them."""
