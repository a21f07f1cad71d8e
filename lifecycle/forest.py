"""The forest: who lives, who owns whom, and how lives end.

Lives here: everything that changes an activation or writes to a session, as plain
functions, so that no checkpoint can split it.  Publication, acceptance, waking, the end
of a turn, settling and closing are each one span.  It decides nothing that
`activation.py` and `notices.py` can decide, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ..actors.turn import Finish
from ..mailbox.backend_trio import protected
from ..mailbox.codec import content_digest
from ..mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Given,
    Interrupted,
    Promoted,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.ids import Ambient
from ..mailbox.keys import KeyTable
from ..mailbox.message import ASSIGNING
from ..mailbox.samples import Samples
from ..mailbox.store import KeyRow
from ..mailbox.writer import Gate
from .activation import Activation, Closing, Life, may_settle
from .allowance import Refusal
from .limiter import Limiter
from .notices import promotable
from .telling import Telling, telling_at_end

__all__ = ["Forest"]

_ABORTED = "the call was stopped before it ended; what it did is not known"
_NOT_DISPATCHED = "the call was not made: the turn had been stopped"


class Forest:
    """Every resident activation, and the spans that change them.

    Args:
        gate: where events go.
        ambient: time, ids and chance.
        spawn: starts the driver of an activation that has an open turn.
    """

    def __init__(
        self, gate: Gate, ambient: Ambient, spawn: Callable[[Activation], None]
    ) -> None:
        self.gate = gate
        self.ambient = ambient
        self.keys: KeyTable = KeyTable()
        self.live: dict[str, Activation] = {}
        self.orphans: dict[str, Activation] = {}
        self.draining: Closing | None = None
        self.below: dict[Activation, None] = {}
        self.errors: list[tuple[Activation, Exception]] = []
        self.on_closing: Callable[[Activation], None] | None = None
        self.view: Callable[[Activation], str] = _unseen
        self.limiter: Limiter = Limiter(self.let_run, self.expire)
        self.waited_ms: Samples = Samples()
        self._spawn = spawn

    # -- the log -----------------------------------------------------------------------

    def log(self, activation: Activation, event: Event) -> None:
        """Write an event to an activation's session."""
        activation.ticket = self.gate.write(activation.session, activation.id, event)

    # -- birth -------------------------------------------------------------------------

    def publish(
        self,
        activation: Activation,
        header: Created | None = None,
        changed: tuple[str, ...] = (),
    ) -> None:
        """Make an activation visible; the caller's span says what it begins with."""
        if header is None:
            now = self.ambient.now_ms()
        else:
            now = header.at
            self.log(activation, header)
        self.log(activation, Activated(self.ambient.new("a"), now, changed))
        self.live[activation.id] = activation
        parent = activation.parent
        if parent is None:
            if activation.session.header.parent is not None:
                self.orphans[activation.id] = activation
        else:
            if parent.children is None:
                parent.children = {}
            parent.children[activation.id] = activation

    # -- acceptance --------------------------------------------------------------------

    def accept(
        self,
        activation: Activation,
        source: str,
        sender: str,
        content: tuple[str, ...],
        asked: str,
        *,
        given: Given | None = None,
        key: str | None = None,
        about: tuple[str, ...] = (),
        digest: str = "",
        forced: bool = False,
    ) -> str:
        """Accept a message: the last step of every accepting span; gives its id.

        Args:
            activation: the recipient.
            source: why it is sent.
            sender: whose message it is; for order, a notice's is the child.
            content: its blocks.
            asked: the delivery that was asked for.
            given: the delivery, where a rule has decided it; else `asked`.
            key: the sender's key.
            about: the assignments that it tells of.
            digest: of the content, when there is a key.
            forced: whether the wake budget does not count.
        """
        if given is None:
            given = "wakeup" if asked == "wakeup" else "quiet"
        if given == "wakeup" and source not in ASSIGNING and source != "nudge":
            given = self._spend_wake(activation, forced)
        message_id = self.ambient.new("m")
        self.log(
            activation,
            Accepted(
                message_id,
                source,
                sender,
                content,
                given,
                self.ambient.now_ms(),
                asked,
                key,
                about,
                None if key is None else digest,
            ),
        )
        if key is not None:
            row = KeyRow(message_id, activation.id, source, digest)
            self.keys.add(sender, key, row, activation.ticket)
            self.gate.when_durable(
                activation.ticket, partial(self.keys.is_durable, sender, key)
            )
        if given == "wakeup" and not activation.driving:
            if activation.allowance is not None:
                self.limiter.expect(activation, activation.allowance)
            self.gate.when_durable(activation.ticket, partial(self.wake, activation))
        return message_id

    def _spend_wake(self, activation: Activation, forced: bool) -> Given:
        budget = activation.bound.policy.wake_budget
        if budget is not None:
            if activation.wakes >= budget and not forced:
                return "quiet"
            activation.wakes += 1
        return "wakeup"

    # -- turns -------------------------------------------------------------------------

    @protected
    def wake(self, activation: Activation) -> None:
        """Open a turn in this span, if something is claimable, and start a driver."""
        if (
            activation.driving
            or activation.life is not Life.LIVE
            or self.gate.failed is not None
        ):
            return
        allowance = activation.allowance
        if allowance is not None and not self.limiter.may_run(activation, allowance):
            return
        if self.open_turn(activation):
            activation.driving = True
            if allowance is not None:
                self.limiter.starts(allowance)
            self._spawn(activation)

    def let_run(self, activation: Activation) -> bool:
        """Wake an agent that has a place now, once what it is to claim is durable.

        Says whether it runs, or will.
        """
        if activation.ticket > self.gate.durable and self.gate.failed is None:
            self.gate.when_durable(activation.ticket, partial(self.wake, activation))
            return True
        self.wake(activation)
        return activation.driving

    def go_on(self, activation: Activation) -> bool:
        """Open the next turn of a driver; says whether there is one, now."""
        allowance = activation.allowance
        if allowance is not None and not self.limiter.may_go_on(activation, allowance):
            return False
        return self.open_turn(activation)

    @protected
    def rest_driver(self, activation: Activation) -> None:
        """A driver is over: its agent comes to rest, ends, or waits for its place."""
        activation.driving = False
        self.rest(activation)
        allowance = activation.allowance
        if allowance is not None and activation.life is not Life.GONE:
            self.limiter.rested(activation, allowance)

    def open_turn(self, activation: Activation) -> bool:
        """Claim what the next turn claims; says whether there is one."""
        session = activation.session
        everything = activation.bound.policy.claim == "all"
        claim = session.inbox.next_claim(everything=everything)
        if not claim:
            return False
        now = self.ambient.now_ms()
        self.log(activation, TurnOpened(session.turn + 1, claim, now))
        assert session.open is not None
        self.waited_ms.note(now - session.open[0].at)
        if activation.wakes and any(m.source in ASSIGNING for m in session.open or ()):
            activation.wakes = 0
        return True

    @protected
    def end_turn(self, activation: Activation, finish: Finish) -> None:
        """Close the open turn: promotions, results that are missing, and its end.

        How it ends is read from the state: an interrupt or a closing beats what the
        turn itself came to (R-145).
        """
        session = activation.session
        now = self.ambient.now_ms()
        self.promote(activation, now)
        if session.calls is not None:
            self._close_batch(activation, now)
        if activation.allowance is not None:
            activation.allowance.landed(session.usage.tool_calls)
        if session.interrupted is not None:
            detail = f"interrupted by {session.interrupted}"
            finish = Finish("cancelled", "interrupted", detail)
        elif activation.closing is not None:
            finish = Finish(
                "cancelled", activation.closing.cause, activation.closing.detail
            )
        self.log(activation, TurnEnded(finish.status, finish.cause, now, finish.detail))
        if finish.conclusion is not None and not activation.closing:
            self.conclude(activation, finish.conclusion)
        if finish.nudge is not None and activation.life is Life.LIVE:
            self.accept(activation, "nudge", "ramet", (finish.nudge,), "wakeup")

    def promote(self, activation: Activation, now: int) -> None:
        """Make occurrences of the undecided notices that nobody would read (R-260).

        A returning agent that waits for its children is woken whatever the budget says,
        since nothing else would (R-224).
        """
        session = activation.session
        waits = session.returning and session.concluded is None
        for message_id in promotable(activation):
            if self._spend_wake(activation, waits) == "wakeup":
                self.log(activation, Promoted(message_id, now))

    def conclude(self, activation: Activation, conclusion: Concluded) -> None:
        """Write the one outcome of a returning agent's assignment.

        From here on it is closing: nothing wakes it, and no request is made (A-031).
        What still lives below it ends.
        """
        if activation.session.concluded is not None:
            return
        self.log(activation, conclusion)
        if activation.life is Life.LIVE:
            activation.life = Life.CLOSING
        if activation.children:
            below = list(activation.children.values())
            self.close(below, Closing("cancelled", "its parent came to its end"))

    def _close_batch(self, activation: Activation, now: int) -> None:
        session = activation.session
        started = activation.batch or ()
        for place, result in enumerate(list(session.results or ())):
            if result is None:
                if place in started:
                    event = CallEnded(place, _ABORTED, now, "ABORTED")
                else:
                    event = CallEnded(
                        place, _NOT_DISPATCHED, now, "ABORTED_BEFORE_DISPATCH"
                    )
                self.log(activation, event)
        activation.batch = None

    def interrupt(self, activation: Activation, by: str) -> None:
        """Stop the open turn and park what waits; without one, nothing (R-138)."""
        session = activation.session
        if (
            activation.life is not Life.LIVE
            or session.open is None
            or session.interrupted is not None
            or session.returning
        ):
            return
        self.log(activation, Interrupted(by, self.ambient.now_ms()))
        self._cancel_turn(activation)

    def _cancel_turn(self, activation: Activation) -> None:
        if activation.scope is not None:
            activation.scope.cancel()
        if activation.allowance is not None:
            self.limiter.let_end(activation, activation.allowance)

    # -- rest and end ------------------------------------------------------------------

    @protected
    def rest(self, activation: Activation | None) -> None:
        """End who is at rest, then look at its parent, up to a fixed point.

        There is no recursion and no watcher task.
        """
        while (
            activation is not None
            and not activation.driving
            and not activation.children
            and activation.life is not Life.GONE
        ):
            if activation.life is Life.LIVE:
                if not may_settle(activation):
                    return
                activation.life = Life.CLOSING
            parent = activation.parent
            self._end(activation, parent)
            activation = parent

    def _end(self, activation: Activation, parent: Activation | None) -> None:
        """Release, then one batch: what is left of its work, ended, and the notice."""
        session = activation.session
        closing = activation.closing
        now = self.ambient.now_ms()
        if session.open is not None:
            self.end_turn(activation, Finish("cancelled", "cancelled"))
        if closing is None and session.returning:
            closing = Closing("cancelled", "its recipient had come to its end")
        if closing is not None and not closing.keeps:
            for _, message in list(session.inbox.waiting):
                self.log(
                    activation,
                    Discarded(message.id, closing.cause, now, closing.detail),
                )
        if session.returning and session.assignment is not None:
            cause = closing or Closing("cancelled")
            self.conclude(
                activation,
                Concluded(
                    session.assignment,
                    "cancelled",
                    cause.cause,
                    now,
                    detail=cause.detail,
                ),
            )
        errors = activation.installation.release()
        if errors:
            self.errors += [(activation, error) for error in errors]
            shown = "; ".join(f"{type(e).__name__}: {e}" for e in errors)
            activation.notes += (f"The release of a set-up failed: {shown}.",)
        self._tell(activation, parent, now)
        activation.life = Life.GONE
        del self.live[activation.id]
        self.orphans.pop(activation.id, None)
        self.below.pop(activation, None)
        if parent is not None:
            parent.below += activation.spent
            if parent.children is not None:
                del parent.children[activation.id]
        self._fire_gone(activation)
        if activation.allowance is not None:
            self.limiter.ended(activation, activation.allowance)

    def _fire_gone(self, activation: Activation) -> None:
        callbacks = (*(activation.on_gone or ()), *(activation.on_idle or ()))
        activation.on_gone = activation.on_idle = None
        if activation.id in self.gate.epochs:
            self.gate.forget_epoch(activation.id, activation.ticket)
        for callback in callbacks:
            callback()

    @protected
    def expire(self, activation: Activation, refusal: Refusal) -> None:
        """End what an agent without a turn is asked for, since a limit is spent.

        It waited for its place when the last start was over, or for its children when
        the time of its call was.
        """
        session = activation.session
        if session.returning and session.assignment is not None:
            now = self.ambient.now_ms()
            self.conclude(
                activation,
                Concluded(
                    session.assignment,
                    "stopped",
                    refusal.cause,
                    now,
                    axis=refusal.axis,
                    detail=str(refusal),
                ),
            )
        while activation.life is Life.LIVE and self.open_turn(activation):
            stopped = Finish("stopped", refusal.cause, str(refusal))
            self.end_turn(activation, stopped)
        self.rest(activation)

    def _tell(
        self, activation: Activation, parent: Activation | None, now: int
    ) -> None:
        """Write ended and what the parent is told, in one batch."""
        session = activation.session
        outcomes = session.untold
        header = session.header
        reason = "settled" if activation.closing is None else activation.closing.cause
        told = header.parent is None or parent is not None or not outcomes
        self.log(activation, Ended(reason, told, now, activation.reports))
        if parent is not None:
            last = len(parent.children or ()) <= 1
            self.tell(
                parent,
                activation.id,
                telling_at_end(activation, parent, outcomes, last=last, view=self.view),
            )

    def tell(self, parent: Activation, child_id: str, telling: Telling | None) -> None:
        """Write what a parent is told of a child, if it is anything."""
        if telling is not None:
            self.accept(
                parent,
                telling.source,
                child_id,
                (telling.text,),
                "wakeup",
                given=telling.given,
                about=telling.about,
                forced=telling.forced,
            )

    @protected
    def close(self, tops: Iterable[Activation], closing: Closing) -> None:
        """Begin to end activations and all below them, in one span.

        All are closing, top-down, before any is gone; then children go first.
        """
        found: dict[Activation, None] = {}
        for top in tops:
            for one in top.subtree():
                found[one] = None
        fresh = [one for one in found if one.life is Life.LIVE]
        for one in fresh:
            one.life = Life.CLOSING
            one.closing = closing
        for one in fresh:
            if self.on_closing is not None:
                self.on_closing(one)
            self._cancel_turn(one)
        for one in reversed(list(found)):
            self.rest(one)

    @protected
    def force(self, activation: Activation) -> None:
        """Give up on a driver that did not come back: its agent ends now."""
        activation.driving = False
        self.rest(activation)

    @protected
    def store_failed(self) -> None:
        """Nothing can be stored any more: admission closes and everything rests."""
        self.draining = Closing("drain", "the store failed")
        self.close(
            [one for one in self.live.values() if one.parent is None], self.draining
        )

    # -- keys --------------------------------------------------------------------------

    @staticmethod
    def digest(operation: str, content: tuple[str, ...], extra: str = "") -> str:
        """The digest under which a key stands for its content."""
        return content_digest(operation, content, extra)


def _unseen(child: Activation) -> str:
    """Stands for the view of an outcome until the runtime gives one."""
    return ""
