"""The limiter: what limits mean for the lives of agents.

Lives here: the plain steps in which an agent is covered, charged, let run, made to wait
and stopped by its limits.  What is left of a limit is `allowance.py`'s and who is next
`concurrency.py`'s; `forest.py` calls this at the turning points of a life, and nothing
here costs an agent that no limit covers.  It waits for nothing: the clock and the
alarms are given to it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ..actors.errors import AgentStoppedError
from ..actors.outcome import Outcome
from ..mailbox.backend_trio import protected
from .activation import Activation, Life
from .allowance import Account, Allowance, Refusal, Strand
from .concurrency import Place, Turnstile

__all__ = ["Alarm", "Limiter"]

_NEVER = math.inf

Alarm = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Calls back at a time, and gives what takes that back."""


class Limiter:
    """The limits of one forest.

    Args:
        wake: lets an agent run that has a place now; says whether it does, or will.
        expire: ends an agent that has no turn, since a limit is spent.
    """

    def __init__(
        self,
        wake: Callable[[Activation], bool],
        expire: Callable[[Activation, Refusal], None],
    ) -> None:
        self.run: Account | None = None
        self.clock: Callable[[], float] = _no_clock
        self.alarm: Alarm = _no_alarm
        self._turnstile = Turnstile()
        self._served: deque[Place] = deque()
        self._serving = False
        self._wake = wake
        self._expire = expire

    # -- birth -------------------------------------------------------------------------

    def account_of(self, parent: Activation | None) -> Account | None:
        """The account that covers the children of an agent; of none: the run's."""
        if parent is None:
            return self.run
        allowance = parent.allowance
        return self.run if allowance is None else allowance.account

    def charge(
        self, parent: Activation | None, *, root: bool = False
    ) -> Account | None:
        """Reserve the start of a child; of a root only the time is asked.

        A child that came to rest before any turn of it ran, and gave its start back,
        starts when it is resumed; `parent` is `None` where that one is not resident.

        Raises:
            AgentStoppedError: a limit refuses it; nothing has changed.
        """
        account = self.account_of(parent)
        if account is None:
            return None
        now = self.clock()
        refusal = account.late(now) if root else account.start(now)
        if refusal is not None:
            raise AgentStoppedError(str(refusal), _outcome_of(refusal))
        return None if root else account

    def cover(
        self,
        activation: Activation,
        *,
        charged: Account | None = None,
        agents: int = 0,
        tool_calls: int = 0,
    ) -> None:
        """Give an activation its allowance, if any limits cover it.

        Args:
            activation: who is about to be published.
            charged: the account that its start is reserved in; `None`: it is no start.
            agents: how many agents it started in earlier activations.
            tool_calls: how many tool calls it and those below made in them.
        """
        account = self.account_of(activation.parent)
        bound = activation.bound
        if bound.bounded:
            account = Account(
                bound.limits,
                activation.id,
                account,
                now=self.clock(),
                agents=agents,
                tool_calls=tool_calls,
            )
        if account is None:
            return
        timed = activation.ledger is not None
        activation.allowance = Allowance(
            account, activation, charged=charged, timed=timed
        )

    def adopt(self, parent: Activation, child: Activation) -> None:
        """Put a live child, and all below it, under the limits of a parent that came
        back."""
        above = self.account_of(parent)
        if above is None or above is self.run:
            return
        for one in child.subtree():
            outer = self.account_of(one.parent)
            assert outer is not None
            allowance = one.allowance
            if allowance is None:
                timed = one.ledger is not None
                one.allowance = Allowance(outer, one, timed=timed)
                continue
            own = allowance.account
            if own.owner != one.id:
                allowance.cover(outer)
                continue
            own.above = outer
            if own.limits.concurrency is None:
                own.pool = outer.pool
            elif own.pool is not None and own.pool.above is None and outer.pool:
                self._turnstile.relink(own.pool, outer.pool)
            allowance.cover(own)

    # -- turns -------------------------------------------------------------------------

    def expect(self, activation: Activation, allowance: Allowance) -> None:
        """An agent has something to claim: it takes a place, or its place in the queue.

        It is asked when the message is accepted, so that the queue is in that order.
        """
        place = allowance.place
        if place is None or place.held or place.queued:
            return
        pool = allowance.account.pool
        assert pool is not None
        if not self._turnstile.ask(place, pool, front=allowance.front):
            self._pause(allowance)
            self._watch(activation, allowance)

    def may_run(self, activation: Activation, allowance: Allowance) -> bool:
        """Whether an agent without a driver may open its turn now."""
        if not activation.session.inbox.claimable:
            self.leave(allowance)
            return False
        if allowance.place is not None:
            self.expect(activation, allowance)
            if not allowance.place.held:
                return False
        if not allowance.started:
            until = allowance.account.starts_until()
            if until is not None and self.clock() >= until[0]:
                self.leave(allowance)
                self._expire(activation, until[1])
                return False
        return True

    def starts(self, allowance: Allowance) -> None:
        """A turn of an agent that had no driver was opened: its time runs."""
        self._silence(allowance)
        allowance.started = True
        allowance.charged = None
        self._resume(allowance)

    def may_go_on(self, activation: Activation, allowance: Allowance) -> bool:
        """Whether a driver may open the next turn, instead of letting others in.

        One call is one piece of work; who converses lets others in between turns.
        """
        self._end_turn(allowance)
        place = allowance.place
        if place is None:
            return True
        pool = allowance.account.pool
        assert pool is not None
        return place.held and (
            activation.session.returning or not self._turnstile.contended(pool)
        )

    def rested(self, activation: Activation, allowance: Allowance) -> None:
        """A driver is over and its agent lives on: the place goes to the next."""
        self._end_turn(allowance)
        allowance.front = bool(activation.children)
        self.leave(allowance)
        if activation.life is not Life.LIVE:
            return
        if activation.session.inbox.claimable:
            self.expect(activation, allowance)
            self._wake(activation)
        else:
            self._watch(activation, allowance)

    def ended(self, activation: Activation, allowance: Allowance) -> None:
        """An agent is gone: what it held and did not use is given back."""
        self._silence(allowance)
        self._pause(allowance)
        self._end_turn(allowance)
        if allowance.charged is not None:
            allowance.charged.not_started()
            allowance.charged = None
        allowance.landed(activation.session.usage.tool_calls)
        self.leave(allowance)

    def _end_turn(self, allowance: Allowance) -> None:
        """The turn is over, and whatever of it still waits for a place goes on."""
        allowance.end_turn()
        self._let_back(allowance)

    @protected
    def leave(self, allowance: Allowance) -> None:
        """Give a place back, and let in who is next, until nobody is.

        Whoever is let in may have to leave at once: the outermost call goes on with
        that, so that there is no recursion.
        """
        if allowance.place is None:
            return
        self._served += self._turnstile.leave(allowance.place)
        if self._serving:
            return
        self._serving = True
        try:
            while self._served:
                self._serve(self._served.popleft())
        finally:
            self._serving = False

    def _serve(self, place: Place) -> None:
        """An agent holds a place that it waited for."""
        activation: Activation = place.owner  # type: ignore[assignment]
        allowance = activation.allowance
        assert allowance is not None
        if allowance.started:
            self._resume(allowance)
        if activation.driving:
            self._take_time(activation, allowance)
            self._let_back(allowance)
        elif not self._wake(activation):
            self.leave(allowance)

    # -- inside a turn -----------------------------------------------------------------

    @protected
    def wait(self, strand: Strand) -> None:
        """A strand waits for another agent; when nothing else runs, others go on."""
        allowance = strand.allowance
        allowance.wait(strand)
        if allowance.idle:
            self.leave(allowance)

    def end_strand(self, strand: Strand) -> None:
        """A call of a batch is over; when the others only wait, others are let in."""
        allowance = strand.allowance
        allowance.end_strand(strand)
        if allowance.idle:
            self.leave(allowance)

    @protected
    def go_on(self, strand: Strand) -> None:
        """A wait of a strand is over: its agent goes to the front of the queue."""
        allowance = strand.allowance
        allowance.go_on(strand)
        place = allowance.place
        activation: Activation = allowance.owner  # type: ignore[assignment]
        if (
            place is None
            or place.held
            or place.queued
            or not allowance.busy
            or activation.stopped
            or activation.scope is None
            or activation.scope.cancel_called
        ):
            return
        pool = allowance.account.pool
        assert pool is not None
        if not self._turnstile.ask(place, pool, front=True):
            self._pause(allowance)
            self._take_time(activation, allowance)

    def let_end(self, activation: Activation, allowance: Allowance) -> None:
        """An agent that waits for its place inside a turn must end: it needs none."""
        if allowance.place is not None and activation.driving:
            if allowance.place.queued:
                self.leave(allowance)
            self._let_back(allowance)

    def _let_back(self, allowance: Allowance) -> None:
        waiting, allowance.back = allowance.back, []
        for callback in waiting:
            callback()

    @staticmethod
    def _take_time(activation: Activation, allowance: Allowance) -> None:
        """The scope of an open turn has the time that the clock has."""
        if activation.scope is not None and allowance.left is not None:
            deadline = allowance.deadline
            activation.scope.deadline = _NEVER if deadline is None else deadline

    # -- time --------------------------------------------------------------------------

    def _pause(self, allowance: Allowance) -> None:
        if allowance.left is not None:
            allowance.stop_clock(self.clock())

    def _resume(self, allowance: Allowance) -> None:
        if allowance.left is not None:
            allowance.start_clock(self.clock())

    def _watch(self, activation: Activation, allowance: Allowance) -> None:
        """Have an agent without a turn ended when its time is over."""
        self._silence(allowance)
        if allowance.started:
            if allowance.deadline is None or allowance.call_s is None:
                return
            when, refusal = allowance.deadline, allowance.call_s
        else:
            until = allowance.account.starts_until()
            if until is None:
                return
            when, refusal = until

        def over() -> None:
            allowance.alarm = None
            if activation.life is Life.LIVE and not activation.driving:
                self.leave(allowance)
                self._expire(activation, refusal)

        allowance.alarm = self.alarm(when, over)

    @staticmethod
    def _silence(allowance: Allowance) -> None:
        if allowance.alarm is not None:
            silence, allowance.alarm = allowance.alarm, None
            silence()


def _outcome_of(refusal: Refusal) -> Outcome[Any]:
    """The outcome of what never existed."""
    return Outcome(
        status="stopped",
        cause=refusal.cause,
        axis=refusal.axis,
        detail=str(refusal),
    )


def _no_clock() -> float:
    """Stands for the clock until the runtime gives one."""
    return 0.0


def _no_alarm(when: float, callback: Callable[[], None]) -> Callable[[], None]:
    """Stands for the alarms until the runtime gives them."""
    return _nothing


def _nothing() -> None:
    """Take nothing back."""
