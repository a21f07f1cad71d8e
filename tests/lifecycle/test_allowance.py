"""Allowances: what is reserved in every account above or in none, and one clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.budget import Limits
from ramet.lifecycle.allowance import Account, Allowance, Refusal


def under(*limits: Limits) -> list[Account]:
    """Accounts one below the other, the outermost first."""
    made: list[Account] = []
    for number, one in enumerate(limits):
        made.append(Account(one, f"a{number}", made[-1] if made else None, now=100.0))
    return made


@pytest.mark.case("A-151", "A-152")
def test_a_start_is_reserved_in_every_account_above_or_in_none() -> None:
    outer, inner = under(Limits(agents=3), Limits(agents=2))
    assert [inner.start(0), inner.start(0)] == [None, None]
    refusal = inner.start(0)
    assert refusal == Refusal("agents", 2, "a1")
    assert refusal is not None
    assert refusal.cause == "agent-budget"
    assert (outer.agents, inner.agents) == (2, 2)
    assert outer.start(0) is None
    inner.not_started()
    assert inner.start(0) is None
    assert outer.start(0) == Refusal("agents", 3, "a0")
    assert (outer.agents, inner.agents) == (3, 2)


@pytest.mark.case("A-150")
def test_after_the_earliest_deadline_no_start_is_reserved() -> None:
    outer, inner = under(Limits(start_deadline_s=5.0), Limits(start_deadline_s=9))
    assert inner.starts_until() == (105.0, Refusal("start_deadline_s", 5.0, "a0"))
    assert inner.start(104.9) is None
    late = inner.start(105.0)
    assert late == Refusal("start_deadline_s", 5.0, "a0")
    assert late is not None
    assert late.cause == "start-deadline"
    assert inner.agents == outer.agents == 1
    (free,) = under(Limits(agents=1))
    assert free.starts_until() is None
    assert free.late(1e9) is None


def test_the_narrowest_of_what_each_agent_may_have_counts() -> None:
    outer, inner = under(Limits(requests=3, call_s=9.0), Limits(requests=4))
    assert inner.narrowest("requests") == Refusal("requests", 3, "a0")
    assert Account(Limits(requests=2), "x", inner).narrowest("requests") == (
        Refusal("requests", 2, "x")
    )
    assert outer.narrowest("tool_calls") is None


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), max_size=30))
def test_tool_calls_never_pass_a_limit_and_none_is_lost(
    batches: list[tuple[int, int]],
) -> None:
    outer, inner = under(Limits(tool_calls=11), Limits(tool_calls=7))
    agents = [Allowance(outer, None), Allowance(inner, None)]
    made = [0, 0]
    for which, calls in batches:
        agent = agents[which]
        before = (outer.tool_calls, inner.tool_calls)
        runs, refusal = agent.ration(calls, made[which])
        room = 11 - before[0] if not which else min(11 - before[0], 7 - before[1])
        assert runs == min(calls, room)
        assert (refusal is not None) is (runs < calls)
        ran = runs // 2
        made[which] += ran
        agent.landed(made[which])
        agent.landed(made[which])
        assert outer.tool_calls == sum(made)
        assert inner.tool_calls == made[1]


def test_the_clock_of_a_call_stands_while_it_waits() -> None:
    (account,) = under(Limits(call_s=10.0))
    allowance = Allowance(account, None, timed=True)
    assert allowance.deadline is None
    allowance.stop_clock(3.0)
    allowance.start_clock(5.0)
    allowance.start_clock(9.0)
    assert allowance.deadline == 15.0
    allowance.stop_clock(8.0)
    assert (allowance.deadline, allowance.left) == (None, 7.0)
    allowance.start_clock(100.0)
    assert allowance.deadline == 107.0
    allowance.stop_clock(200.0)
    assert allowance.left == 0.0
    untimed = Allowance(account, None)
    untimed.start_clock(1.0)
    assert untimed.deadline is None


def test_an_agent_is_idle_while_all_that_runs_of_it_waits() -> None:
    (account,) = under(Limits(concurrency=1))
    allowance = Allowance(account, None)
    allowance.end_turn()
    assert not allowance.idle
    turn = allowance.begin_turn()
    assert not allowance.idle
    allowance.wait(turn)
    allowance.wait(turn)
    assert allowance.idle
    allowance.go_on(turn)
    assert allowance.idle
    allowance.go_on(turn)
    assert not allowance.idle
    one, two = allowance.begin_batch(2)
    allowance.wait(one)
    assert not allowance.idle
    allowance.end_strand(two)
    assert allowance.idle
    allowance.wait(two)
    allowance.go_on(two)
    assert allowance.idle
    allowance.end_strand(one)
    assert not allowance.idle
    allowance.go_on(one)
    assert not allowance.idle
    allowance.wait(turn)
    allowance.end_batch()
    assert allowance.idle
    allowance.go_on(turn)
    assert not allowance.idle
    allowance.wait(turn)
    allowance.begin_batch(1)
    allowance.end_batch()
    allowance.end_turn()
    assert turn.over
    assert not allowance.idle


def test_an_allowance_can_be_put_under_another_account() -> None:
    (plain,) = under(Limits(requests=5))
    allowance = Allowance(plain, "me", timed=True)
    assert (allowance.place, allowance.call_s) == (None, None)
    (narrow,) = under(Limits(requests=2, concurrency=1))
    allowance.cover(narrow)
    assert allowance.requests == Refusal("requests", 2, "a0")
    place = allowance.place
    assert place is not None
    assert place.owner == "me"
    allowance.cover(narrow)
    assert allowance.place is place
    assert narrow.pool is Account(Limits(agents=1), "b", narrow).pool
