"""The limiter: what limits mean for lives, step by step, over a forest without
drivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ramet.actors.budget import Limits
from ramet.actors.contract import Reply
from ramet.actors.errors import AgentStoppedError
from ramet.actors.turn import COMPLETED
from ramet.lifecycle.activation import Activation, Closing, Life
from ramet.lifecycle.allowance import Account, Allowance
from ramet.lifecycle.limiter import Limiter
from ramet.mailbox.events import Concluded, Ended, TurnEnded, TurnOpened
from tests.lifecycle.residents import Woods, own, resident

NEVER = float("inf")


class Scope:
    """A cancel scope whose time and cancel are written down."""

    def __init__(self) -> None:
        self.cancel_called = False
        self.deadline = NEVER

    def cancel(self) -> None:
        self.cancel_called = True


class Grove(Woods):
    """A forest whose limiter has a clock and alarms that the test moves."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self.now = 0.0
        self.alarms: list[tuple[float, Callable[[], None]]] = []
        self.limiter = self.forest.limiter
        self.limiter.clock = lambda: self.now
        self.limiter.alarm = self._alarm
        if limits is not None:
            self.limiter.run = Account(limits, "the run")

    def _alarm(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        entry = (when, callback)
        self.alarms.append(entry)
        return lambda: self.alarms.remove(entry)

    def ring(self) -> None:
        """Let the next alarm ring."""
        self.now, callback = self.alarms.pop(0)
        callback()

    def grow(
        self,
        kind: Any = "continuable",
        session: str = "c",
        parent: Activation | None = None,
        *,
        charged: bool = False,
        **options: Any,
    ) -> Activation:
        """A resident that is covered as one that is published now."""
        if kind in ("oneshot", "headless"):
            options["contract"] = Reply()
        made = resident(kind, session=session, **options)
        if parent is not None:
            own(parent, made)
        account = self.limiter.charge(parent) if charged else None
        self.limiter.cover(made, charged=account)
        return self.add(made)

    def asked(self, activation: Activation) -> None:
        """Give an activation something to claim; all is durable."""
        self.forest.accept(activation, "prompt", "p", ("x",), "wakeup")
        self.gate.commit()

    def ends(self, activation: Activation) -> None:
        """The driver of an activation ends its turn and goes on or is over."""
        self.driven.remove(activation)
        self.forest.end_turn(activation, COMPLETED)
        if activation.life is Life.LIVE and self.forest.go_on(activation):
            self.driven.append(activation)
        else:
            self.forest.rest_driver(activation)


def allowance_of(activation: Activation) -> Allowance:
    allowance = activation.allowance
    assert allowance is not None
    return allowance


def test_an_agent_that_no_limit_covers_has_no_allowance() -> None:
    grove = Grove()
    assert grove.grow().allowance is None
    assert grove.limiter.charge(None, root=True) is None
    assert Limiter(lambda _: True, lambda *_: None).clock() == 0.0
    assert grove.limiter.account_of(None) is None


def test_a_limiter_without_clock_and_alarms_takes_limits_all_the_same() -> None:
    woods = Woods()
    limits = Limits(concurrency=1, start_deadline_s=9)
    woods.forest.limiter.run = Account(limits, "the run")
    for name in "ab":
        made = woods.add(resident(session=name))
        woods.forest.limiter.cover(made, charged=woods.forest.limiter.run)
        woods.forest.accept(made, "prompt", "p", ("x",), "wakeup")
    woods.gate.commit()
    assert [one.id for one in woods.driven] == ["a"]
    woods.forest.close([woods.forest.live["b"]], Closing("cancelled"))


@pytest.mark.case("A-145", "A-150")
def test_a_start_is_charged_to_the_parent_and_a_root_only_asks_the_time() -> None:
    grove = Grove(Limits(agents=1, start_deadline_s=10))
    root = grove.grow("interactive", "r")
    assert grove.limiter.charge(None, root=True) is None
    account = grove.limiter.charge(root)
    assert account is grove.limiter.run
    with pytest.raises(AgentStoppedError, match="agents=1 of the run") as caught:
        grove.limiter.charge(root)
    outcome = caught.value.outcome
    assert (outcome.status, outcome.cause, outcome.axis) == (
        *("stopped", "agent-budget", "agents"),
    )
    assert caught.value.code == "agent-budget"
    grove.now = 10.0
    with pytest.raises(AgentStoppedError, match="start_deadline_s=10"):
        grove.limiter.charge(None, root=True)


def test_own_limits_make_an_account_below_that_of_the_parent() -> None:
    grove = Grove()
    root = grove.grow("interactive", "r", limits=Limits(agents=9))
    child = grove.grow("continuable", "c", root, limits=Limits(tool_calls=3))
    leaf = grove.grow("continuable", "l", child)
    account = allowance_of(child).account
    assert account.above is allowance_of(root).account
    assert allowance_of(leaf).account is account
    grove.limiter.cover(child, agents=4, tool_calls=2)
    account = allowance_of(child).account
    assert (account.agents, account.tool_calls) == (4, 2)


@pytest.mark.case("A-144")
def test_the_queue_is_in_the_order_of_acceptance() -> None:
    grove = Grove(Limits(concurrency=1))
    one, two, three = [grove.grow(session=name) for name in "123"]
    for activation in (two, one, three):
        grove.forest.accept(activation, "prompt", "p", ("x",), "wakeup")
    grove.gate.commit()
    assert grove.driven == [two]
    grove.ends(two)
    assert grove.driven == [one]
    assert two.gone
    grove.ends(one)
    assert grove.driven == [three]
    grove.ends(three)
    assert not grove.driven


def test_who_gets_a_place_before_its_message_is_durable_waits_for_that() -> None:
    grove = Grove(Limits(concurrency=1))
    one, two = [grove.grow(session=name) for name in "12"]
    grove.asked(one)
    grove.forest.accept(two, "prompt", "p", ("x",), "wakeup")
    grove.ends(one)
    assert not grove.driven
    assert two.session.turn == 0
    grove.gate.commit()
    assert grove.driven == [two]


def test_who_cannot_use_its_place_leaves_it_to_the_next() -> None:
    grove = Grove(Limits(concurrency=1))
    one, two, three = [grove.grow(session=name) for name in "123"]
    grove.asked(one)
    grove.asked(two)
    grove.asked(three)
    two.session.inbox.parked = True
    grove.ends(one)
    assert grove.driven == [three]
    two.session.inbox.parked = False
    grove.forest.wake(two)
    grove.ends(three)
    assert grove.driven == [two]


def test_a_failed_store_lets_nobody_in() -> None:
    grove = Grove(Limits(concurrency=1))
    one, two = [grove.grow(session=name) for name in "12"]
    grove.asked(one)
    grove.asked(two)
    grove.gate.failed = OSError()
    grove.ends(one)
    assert not grove.driven
    assert not allowance_of(two).place.held  # type: ignore[union-attr]


def test_one_call_keeps_its_place_between_turns_and_a_talker_does_not() -> None:
    grove = Grove(Limits(concurrency=1))
    call = grove.grow("oneshot", "call")
    talker = grove.grow("interactive", "talker")
    other = grove.grow("interactive", "other")
    grove.asked(call)
    grove.asked(talker)
    grove.forest.accept(call, "nudge", "ramet", ("again",), "wakeup")
    grove.ends(call)
    assert grove.driven == [call]
    grove.ends(call)
    assert grove.driven == [talker]
    grove.asked(talker)
    grove.ends(talker)
    assert grove.driven == [talker]
    grove.asked(other)
    grove.asked(talker)
    grove.ends(talker)
    assert grove.driven == [other]
    grove.ends(other)
    grove.gate.commit()
    assert grove.driven == [talker]


@pytest.mark.case("A-150")
def test_who_is_in_the_queue_when_the_last_start_is_over_is_stopped() -> None:
    grove = Grove(Limits(concurrency=1, start_deadline_s=5, agents=3))
    root = grove.grow("interactive", "r")
    first = grove.grow("continuable", "1", root, charged=True)
    call = grove.grow("oneshot", "2", root, charged=True)
    talker = grove.grow("continuable", "3", root, charged=True)
    account = grove.limiter.run
    assert account is not None
    for one in (first, call, talker):
        grove.asked(one)
    grove.asked(talker)
    assert [when for when, _ in grove.alarms] == [5.0, 5.0]
    assert account.agents == 3
    grove.ring()
    grove.ring()
    assert call.gone
    assert talker.gone
    assert account.agents == 1
    assert [it.axis for it in grove.logged("2") if isinstance(it, Concluded)] == [
        "start_deadline_s"
    ]
    ends = [it for it in grove.logged("3") if isinstance(it, TurnEnded)]
    assert [(it.status, it.cause) for it in ends] == [("stopped", "start-deadline")] * 2
    assert grove.driven == [first]


@pytest.mark.case("A-150")
def test_who_would_start_too_late_is_stopped_however_many_they_are() -> None:
    grove = Grove(Limits(concurrency=1, start_deadline_s=5))
    root = grove.grow("interactive", "r")
    grove.asked(root)
    late = [grove.grow("oneshot", str(n), root, charged=True) for n in range(3000)]
    for one in late:
        grove.asked(one)
    grove.now = 5.0
    grove.driven.remove(root)
    grove.forest.end_turn(root, COMPLETED)
    grove.forest.rest_driver(root)
    assert all(one.gone for one in late)
    assert not grove.alarms


@pytest.mark.case("A-144")
def test_who_is_cancelled_before_it_runs_charged_nothing() -> None:
    grove = Grove(Limits(concurrency=1, agents=2))
    root = grove.grow("interactive", "r")
    first = grove.grow("oneshot", "1", root, charged=True)
    second = grove.grow("oneshot", "2", root, charged=True)
    account = grove.limiter.run
    assert account is not None
    grove.asked(first)
    grove.asked(second)
    grove.forest.close([second], Closing("cancelled"))
    assert second.gone
    assert account.agents == 1
    grove.forest.close([first], Closing("cancelled"))
    assert account.agents == 1
    assert account.pool is not None
    assert account.pool.head() is None


@pytest.mark.case("A-149")
def test_a_call_that_waits_between_its_turns_ends_when_its_time_is_over() -> None:
    grove = Grove()
    root = grove.grow("interactive", "r")
    top = grove.grow("oneshot", "t", root, limits=Limits(call_s=60))
    below = grove.grow("continuable", "b", top)
    grove.now = 3.0
    grove.asked(top)
    assert allowance_of(top).deadline == 63.0
    assert not grove.alarms
    grove.asked(below)
    grove.ends(top)
    assert [when for when, _ in grove.alarms] == [63.0]
    grove.asked(top)
    assert not grove.alarms
    grove.ends(top)
    grove.ring()
    assert top.life is Life.CLOSING
    assert below.life is Life.CLOSING
    concluded = [it for it in grove.logged("t") if isinstance(it, Concluded)]
    assert [(it.status, it.axis) for it in concluded] == [("stopped", "call_s")]
    grove.driven.remove(below)
    grove.forest.rest_driver(below)
    assert top.gone
    assert [type(it) for it in grove.logged("t")][-1] is Ended


@pytest.mark.case("A-141")
def test_who_is_gone_knows_what_it_left_of_its_time() -> None:
    grove = Grove(Limits(concurrency=1))
    first = grove.grow("interactive", "f")
    call = grove.grow("oneshot", "c", limits=Limits(call_s=60))
    grove.asked(first)
    grove.asked(call)
    grove.now = 100.0
    grove.ends(first)
    grove.now = 115.0
    grove.forest.close([call], Closing("cancelled"))
    grove.forest.rest_driver(call)
    grove.now = 500.0
    assert call.gone
    assert allowance_of(call).left == 45.0


def test_an_alarm_that_comes_too_late_does_nothing() -> None:
    grove = Grove()
    top = grove.grow("oneshot", "t", limits=Limits(call_s=60))
    grove.grow("continuable", "b", top)
    grove.asked(top)
    grove.ends(top)
    when, over = grove.alarms[0]
    assert when == 60.0
    grove.asked(top)
    assert grove.driven == [top]
    over()
    assert top.life is Life.LIVE
    top.life = Life.CLOSING
    grove.forest.rest_driver(top)
    over()
    assert not [it for it in grove.logged("t") if isinstance(it, Concluded)]


def test_a_root_that_was_never_told_anything_has_nothing_to_stop() -> None:
    grove = Grove()
    root = grove.grow("headless", "r", limits=Limits(call_s=1))
    refusal = allowance_of(root).call_s
    assert refusal is not None
    grove.forest.expire(root, refusal)
    assert root.life is Life.LIVE
    grove.limiter.rested(root, allowance_of(root))
    assert not grove.alarms


def turn_of(grove: Grove, activation: Activation) -> tuple[Allowance, Scope, Any]:
    """The open turn of an activation, as a driver has it."""
    grove.asked(activation)
    scope = activation.scope = Scope()
    allowance = allowance_of(activation)
    if allowance.deadline is not None:
        scope.deadline = allowance.deadline
    return allowance, scope, allowance.begin_turn()


@pytest.mark.case("A-186")
def test_who_waits_for_a_child_lets_it_run_and_comes_back_at_its_end() -> None:
    grove = Grove(Limits(concurrency=1))
    top = grove.grow("oneshot", "t", limits=Limits(call_s=60))
    allowance, scope, strand = turn_of(grove, top)
    below = grove.grow("oneshot", "b", top)
    new = grove.grow("interactive", "n")
    grove.asked(below)
    grove.asked(new)
    assert grove.driven == [top]
    grove.limiter.wait(strand)
    assert grove.driven == [top, below]
    grove.now = 10.0
    below.on_gone = [lambda: grove.limiter.go_on(strand)]
    back: list[float] = []
    grove.forest.close([below], Closing("cancelled"))
    grove.driven.remove(below)
    allowance.back.append(lambda: back.append(scope.deadline))
    grove.forest.rest_driver(below)
    assert below.gone
    assert back == [60.0]
    assert allowance.place is not None
    assert allowance.place.held
    grove.limiter.go_on(strand)
    grove.ends(top)
    assert grove.driven == [top]
    grove.ends(top)
    assert grove.driven == [new]


def test_the_clock_of_who_waits_to_come_back_stands() -> None:
    grove = Grove(Limits(concurrency=1))
    top = grove.grow("oneshot", "t", limits=Limits(call_s=60))
    allowance, scope, strand = turn_of(grove, top)
    other = grove.grow("interactive", "o")
    grove.asked(other)
    grove.limiter.wait(strand)
    assert other in grove.driven
    grove.now = 20.0
    grove.limiter.go_on(strand)
    assert allowance.place is not None
    assert allowance.place.queued
    assert scope.deadline == NEVER
    grove.limiter.go_on(strand)
    grove.now = 100.0
    grove.ends(other)
    assert scope.deadline == 140.0
    assert allowance.place.held


def test_calls_of_a_batch_wait_together() -> None:
    grove = Grove(Limits(concurrency=1))
    top = grove.grow("oneshot", "t")
    allowance, _, _ = turn_of(grove, top)
    other = grove.grow("interactive", "o")
    grove.asked(other)
    one, two = allowance.begin_batch(2)
    grove.limiter.wait(one)
    assert other not in grove.driven
    grove.limiter.end_strand(two)
    assert other in grove.driven
    grove.limiter.go_on(one)
    grove.ends(other)
    assert allowance.place is not None
    assert allowance.place.held
    grove.limiter.end_strand(one)
    assert allowance.place.held


def test_who_must_end_does_not_come_back() -> None:
    for stop in ("interrupt", "close", "time", "gone"):
        grove = Grove(Limits(concurrency=1))
        top = grove.grow("interactive", "t")
        allowance, scope, strand = turn_of(grove, top)
        other = grove.grow("interactive", "o")
        grove.asked(other)
        grove.limiter.wait(strand)
        if stop == "time":
            scope.cancel()
        elif stop == "gone":
            top.scope = None
        elif stop == "interrupt":
            grove.forest.interrupt(top, "host")
        else:
            grove.forest.close([top], Closing("cancelled"))
        grove.limiter.go_on(strand)
        assert allowance.place is not None
        assert not allowance.place.queued


def test_who_waits_to_come_back_is_let_go_when_it_must_end() -> None:
    grove = Grove(Limits(concurrency=1))
    top = grove.grow("interactive", "t")
    allowance, _, strand = turn_of(grove, top)
    other = grove.grow("interactive", "o")
    grove.asked(other)
    grove.limiter.wait(strand)
    grove.limiter.go_on(strand)
    let_go: list[bool] = []
    allowance.back.append(lambda: let_go.append(True))
    grove.forest.interrupt(top, "host")
    assert let_go == [True]
    assert allowance.place is not None
    assert not allowance.place.queued
    grove.ends(top)
    assert not allowance.place.held
    assert isinstance(grove.logged("t")[-1], TurnEnded)
    grove.asked(top)
    assert allowance.place.queued
    grove.ends(other)
    assert [type(it) for it in grove.logged("t")][-1] is TurnOpened


def test_a_turn_that_began_without_a_limit_needs_no_place_to_go_on() -> None:
    grove = Grove()
    top = grove.grow("interactive", "t", limits=Limits(agents=1))
    allowance = allowance_of(top)
    strand = allowance.begin_turn()
    grove.limiter.wait(strand)
    grove.limiter.go_on(strand)
    assert allowance.place is None
    grove.limiter.let_end(top, allowance)


def test_a_parent_that_comes_back_covers_what_lives_below_it() -> None:
    grove = Grove(Limits(requests=9))
    parent = grove.grow("continuable", "p", limits=Limits(concurrency=1, requests=2))
    orphan = grove.grow("continuable", "o", limits=Limits(concurrency=5, requests=7))
    plain = grove.grow("continuable", "q", orphan)
    bare = grove.grow("continuable", "b", limits=Limits(agents=4))
    for one in (orphan, bare):
        own(parent, one)
        grove.limiter.adopt(parent, one)
    above = allowance_of(parent).account
    assert allowance_of(orphan).account.above is above
    assert allowance_of(plain).account is allowance_of(orphan).account
    assert allowance_of(plain).requests == allowance_of(parent).requests
    assert allowance_of(bare).account.pool is above.pool
    grove.asked(plain)
    grove.asked(bare)
    assert grove.driven == [plain]
    grove.limiter.adopt(parent, orphan)


def test_a_parent_without_limits_of_its_own_changes_nothing_at_its_return() -> None:
    grove = Grove()
    parent = grove.grow("continuable", "p")
    orphan = grove.grow("continuable", "o")
    own(parent, orphan)
    grove.limiter.adopt(parent, orphan)
    assert orphan.allowance is None
    limited = grove.grow("continuable", "l", limits=Limits(agents=1))
    own(limited, orphan)
    grove.limiter.adopt(limited, orphan)
    assert allowance_of(orphan).account is allowance_of(limited).account
    nested = grove.grow("continuable", "n", orphan, limits=Limits(concurrency=2))
    grove.limiter.adopt(limited, orphan)
    assert allowance_of(nested).account.pool is not None
