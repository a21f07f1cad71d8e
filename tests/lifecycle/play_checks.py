"""What must hold of a play at rest and after its end.

Lives here: checks over a running supervisor that has come to rest, over what is left of
one that was left, and over what was refused and acknowledged.  What logs alone can
break is in `laws.py`, which is called from here.
"""

from __future__ import annotations

from collections import defaultdict

from ramet.lifecycle.activation import Activation, Life
from ramet.mailbox.events import Ended, Event, TurnEnded, TurnOpened
from ramet.mailbox.message import AssistantMessage, UserMessage
from ramet.mailbox.session import fold
from tests.lifecycle.laws import check_laws, logs_of
from tests.lifecycle.play_hosts import Waiters
from tests.lifecycle.play_world import World

__all__ = ["check_end", "check_logs", "check_rest"]


async def check_rest(world: World, waiters: Waiters) -> None:
    """Nobody can run: then nobody has a reason to (laws 4, 5, 10, 11)."""
    runtime = world.supervisor._runtime
    gate = runtime.gate
    world.need(gate.durable == gate.ticket, "19 something is never stored")
    world.need(not runtime.calls.count, "a call hangs", runtime.calls.count)
    for activation in list(runtime.forest.live.values()):
        _check_resting(world, activation)
    for message, session in list(waiters.open.items()):
        outcome = await world.supervisor.outcome(message)
        world.need(outcome is None, "11 a wait for what has ended", message)
        # What a drain keeps waits for the next activation, as does who waits for it.
        kept = session in runtime.forest.live or _ends(world, session)[-1] != "settled"
        world.need(kept, "R-264 a wait for what is parked", message, session)


def _check_resting(world: World, activation: Activation) -> None:
    session, name = activation.session, activation.id
    world.need(not activation.driving, "a turn hangs", name)
    world.need(not session.inbox.claimable, "5 a wake was lost", name)
    world.need(activation.life is Life.LIVE, "10 closing for ever", name)
    same = fold(world.store.load(name)) == session
    world.need(same, "R-184 the fold of the log is not the state", name)
    if activation.children:
        return
    child = activation.parent is not None
    world.need(not child, "10 an idle child did not settle", name)
    over = session.returning and session.assignment is not None
    world.need(not over, "11 a returning root rests without an end", name)
    if not session.inbox.parked and session.unread and name not in world.resumed:
        _check_unread(world, activation)


def _ends(world: World, name: str) -> list[str]:
    return [it.reason for it in world.store.load(name) if isinstance(it, Ended)]


def _check_unread(world: World, activation: Activation) -> None:
    """What was sent to it is read one day, if its last turn ended well (R-127)."""
    policy = activation.bound.policy
    if policy.notices != "auto" or policy.wake_budget is not None:
        return
    ends = [it for it in world.store.load(activation.id) if isinstance(it, TurnEnded)]
    unread = []
    for message in reversed(activation.session.transcript):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, UserMessage):
            unread.append(message.source)
    left = "report" in unread and bool(ends) and ends[-1].status == "completed"
    world.need(not left, "4 unread for ever", activation.id)


def check_end(world: World) -> None:
    """The open block was left: nothing is left of it (R-117)."""
    runtime = world.supervisor._runtime
    gate, forest = runtime.gate, runtime.forest
    left = {
        "agents": len(forest.live),
        "loads": len(world.supervisor._residency._resuming),
        "calls": runtime.calls.count,
        "tasks": runtime.backend.tasks(),
        "drains": len(forest.below),
        "errors": len(forest.errors),
    }
    if gate.failed is None:
        left |= {
            "keys": len(forest.keys),
            "epochs": len(gate.epochs),
            "events": len(gate.undecided()),
            "callbacks": len(gate._now.callbacks + gate._next.callbacks),
            "waiters": len(gate._now.waiters + gate._next.waiters),
            "claims": len(_claimed(world)),
        }
    else:
        planned = world.setting.fails_at is not None and type(gate.failed) is OSError
        world.need(planned, "19 a commit failed by itself", repr(gate.failed))
    _check_limits(world)
    for what, count in left.items():
        world.need(not count, f"R-117 {what} are left", count)


def _check_limits(world: World) -> None:
    """Nothing is left of what was reserved and not spent (A-151)."""
    account = world.supervisor._runtime.forest.limiter.run
    if account is None:
        return
    if account.pool is not None:
        free = not account.pool.held and account.pool.head() is None
        world.need(free, "A-144 a place is held, or waited for, by nobody")
    if world.supervisor._runtime.gate.failed is not None:
        return
    logs = logs_of(world.store)
    started = [
        name
        for name, events in logs.items()
        if fold(events).header.parent and any(isinstance(e, TurnOpened) for e in events)
    ]
    calls = sum(fold(events).usage.tool_calls for events in logs.values())
    world.need(account.agents == len(started), "A-151 agents", account.agents, started)
    world.need(account.tool_calls == calls, "A-151 calls", account.tool_calls, calls)
    for axis, count in (("agents", account.agents), ("tool_calls", calls)):
        most = getattr(account.limits, axis)
        world.need(most is None or count <= most, "A-145", axis, count, most)


def _claimed(world: World) -> list[str]:
    rows = map(world.store.row, logs_of(world.store))
    return [row.session for row in rows if row is not None and row.holder is not None]


def check_logs(world: World) -> None:
    """What is stored keeps the laws, and holds what was promised and nothing more.

    Raises:
        AssertionError: a law of `laws.py` is broken.
    """
    policy = world.setting.policy
    check_laws(
        world.store,
        world.requests,
        world.order,
        told=policy.notices != "off",
        orphans=world.resumed,
    )
    logs: dict[str, list[Event]] = defaultdict(list)
    for entry in world.order:
        gapless = entry.seq == len(logs[entry.session])
        world.need(gapless, "R-173 a gap", entry.session, entry.seq)
        logs[entry.session].append(entry.event)
    world.need(dict(logs) == logs_of(world.store), "R-232 not what was committed")
    accepted = world.accepted()
    texts = {text for event in accepted.values() for text in event.content}
    for code, content in world.refused:
        world.need(content not in texts, "7 refused and there", code, content)
    for message in world.acknowledged:
        world.need(message in accepted, "19 acknowledged and lost", message)
    if not world.failed:
        _check_ended(world, logs)


def _check_ended(world: World, logs: dict[str, list[Event]]) -> None:
    """An orderly end leaves nothing open, and tells what can be told."""
    for name, events in logs.items():
        session = fold(events)
        world.need(session.open is None, "11 a turn without an end", name)
        world.need(session.activation is None, "R-117 an agent without an end", name)
        ends = [event for event in events if isinstance(event, Ended)]
        told = all(event.told for event in ends) or name in world.resumed
        world.need(told, "11 an outcome that nobody was told", name)
