"""What must hold of a running supervisor: at each commit, at rest, and after its end.

Lives here: checks over what is in memory.  What logs alone can break is in `laws.py`.
Each gives the laws that are broken, as sentences, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..mailbox.events import Activated, Concluded, Discarded, Ended, TurnEnded
from ..mailbox.message import AssistantMessage, UserMessage
from ..mailbox.session import Session
from ..mailbox.store import Entry, Reader
from .activation import Activation, Life
from .laws import Walks
from .readers import explain_session
from .supervisor import Supervisor

if TYPE_CHECKING:
    from .simulate_opening import Opening

__all__ = [
    "check_ended",
    "check_left",
    "check_registry",
    "check_resting",
    "check_spent",
    "check_wait",
    "told_by",
]


_OUTCOMES = (Concluded, Discarded, TurnEnded)
"""What gives an assignment its outcome."""


def check_registry(supervisor: Supervisor) -> list[str]:
    """Ownership is one tree, and nobody lives below who is gone (laws 1, 10)."""
    live = supervisor._runtime.forest.live
    broken = []
    for name, activation in live.items():
        parent = activation.parent
        if activation.life is Life.GONE:
            broken.append(f"1 {name} is gone and still resident")
        if parent is None:
            continue
        if live.get(parent.id) is not parent:
            broken.append(f"10 {name} lives below {parent.id}, which is gone")
        elif (parent.children or {}).get(name) is not activation:
            broken.append(f"10 {parent.id} does not know its child {name}")
        elif parent.life is not Life.LIVE and activation.life is Life.LIVE:
            broken.append(f"10 {name} lives on below {parent.id}, which is closing")
    return broken


def check_resting(
    supervisor: Supervisor,
    durable: Mapping[str, Session],
    statuses: Mapping[str, str],
    resumed: Collection[str],
) -> list[str]:
    """Nobody can run: then nobody has a reason to (laws 4, 5, 10, 11).

    Args:
        supervisor: who has come to rest.
        durable: the fold of what is durable of each session.
        statuses: how the last turn of each session ended.
        resumed: the sessions that the host made resident.
    """
    runtime = supervisor._runtime
    broken = check_registry(supervisor)
    if runtime.gate.durable != runtime.gate.ticket:
        broken.append("19 something is never stored")
    if runtime.calls.count:
        broken.append(f"11 {runtime.calls.count} calls hang")
    for activation in runtime.forest.live.values():
        if durable.get(activation.id) != activation.session:
            broken.append(f"R-184 the fold of the log of {activation.id} is not it")
        broken += _check_one(activation, activation.id in resumed)
        ended_well = statuses.get(activation.id) == "completed"
        if ended_well and activation.id not in resumed:
            broken += _check_unread(activation)
    return broken


def _check_one(activation: Activation, resumed: bool) -> list[str]:
    session, name = activation.session, activation.id
    if activation.driving:
        return [f"11 a turn of {name} hangs"]
    if session.inbox.claimable:
        return [f"5 a wake of {name} was lost"]
    if activation.life is not Life.LIVE:
        return [f"10 {name} is closing for ever"]
    if activation.children:
        return []
    if activation.parent is not None and not resumed:
        return [f"10 {name} is an idle child and did not settle"]
    if session.returning and session.assignment is not None:
        return [f"11 {name} returns, and rests without an end"]
    return []


def _check_unread(activation: Activation) -> list[str]:
    """What was sent to it is read one day, if its last turn ended well (R-127)."""
    policy, session = activation.bound.policy, activation.session
    if policy.notices != "auto" or policy.wake_budget is not None:
        return []
    if activation.children or session.inbox.parked or not session.unread:
        return []
    unread = []
    for message in reversed(session.transcript):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, UserMessage):
            unread.append(message.source)
    left = "report" in unread
    return [f"4 a report to {activation.id} stays unread for ever"] if left else []


async def check_wait(supervisor: Supervisor, message: str) -> list[str]:
    """Nobody waits for what has ended, or can only end by a wake (law 11, R-264)."""
    runtime = supervisor._runtime
    if await supervisor.outcome(message) is not None:
        return [f"11 somebody waits for {message}, which has ended"]
    session = await runtime.storage.read(Reader.place, message)
    if session is None or session in runtime.forest.live:
        return []
    events = await runtime.storage.read(Reader.load, session)
    ends = [it.reason for it in events if isinstance(it, Ended)]
    if ends and ends[-1] == "settled":
        return [f"R-264 somebody waits for {message}, which is parked in {session}"]
    return []


def check_left(supervisor: Supervisor, *, planned: bool) -> list[str]:
    """The open block was left: nothing is left of it (R-117)."""
    runtime = supervisor._runtime
    gate, forest = runtime.gate, runtime.forest
    left = {
        "agents": len(forest.live),
        "loads": len(supervisor._residency._resuming),
        "calls": runtime.calls.count,
        "tasks": runtime.backend.tasks(),
        "drains": len(forest.below),
        "errors": len(forest.errors),
    }
    broken = []
    if gate.failed is None:
        left |= {
            "keys": len(forest.keys),
            "epochs": len(gate.epochs),
            "events": len(gate.undecided()),
            "callbacks": len(gate._now.callbacks + gate._next.callbacks),
            "waiters": len(gate._now.waiters + gate._next.waiters),
        }
    elif not planned:
        broken.append(f"19 a commit failed by itself: {gate.failed!r}")
    broken += _check_account(supervisor)
    broken += [
        f"R-117 {count} {what} are left" for what, count in left.items() if count
    ]
    return broken


def _check_account(supervisor: Supervisor) -> list[str]:
    """No place is held, or waited for, by nobody (A-144)."""
    account = supervisor._runtime.forest.limiter.run
    if account is None or account.pool is None:
        return []
    if not account.pool.held and account.pool.head() is None:
        return []
    return ["A-144 a place is held, or waited for, by nobody"]


def check_spent(supervisor: Supervisor, walks: Walks) -> list[str]:
    """What a run has spent is exactly what its logs hold (A-145, A-151).

    Whose time to start was over gave its start back, and has a turn all the same; with
    each followup it has one more, and never starts.
    """
    account = supervisor._runtime.forest.limiter.run
    if account is None:
        return []
    sessions = [walk.session for walk in walks.values()]
    late = Counter(
        name
        for name, walk in walks.items()
        for event in walk.all(TurnEnded)
        if event.cause == "start-deadline"
    )
    started = [
        one
        for one in sessions
        if one.header.parent and one.turn > late[one.header.session]
    ]
    spent = {
        "agents": len(started),
        "tool_calls": sum(one.usage.tool_calls for one in sessions),
    }
    broken = []
    for axis, count in spent.items():
        counted, most = getattr(account, axis), getattr(account.limits, axis)
        if counted != count:
            broken.append(f"A-151 {counted} {axis} were counted, and there are {count}")
        if most is not None and count > most:
            broken.append(f"A-145 {count} {axis} of {most}")
    return broken


def check_ended(
    walks: Walks, resumed: Collection[str], order: Sequence[Entry], *, killed: bool
) -> list[str]:
    """An orderly end leaves nothing open, and tells what can be told (R-179).

    After a kill this is so for a session whose parent is resident again.
    """
    broken = []
    for name, walk in walks.items():
        session = walk.session
        parent = session.header.parent
        if killed and (parent or name) not in resumed:
            continue
        if session.open is not None:
            broken.append(f"11 a turn of {name} has no end")
        if session.activation is not None:
            broken.append(f"R-117 {name} has no end")
        silent = killed and session.untold and parent is not None
        if silent and _could_hear(order, name, parent):
            broken.append(f"R-179 an outcome of {name} that nobody was told")
    for name, walk in walks.items():
        silent = any(not event.told for event in walk.all(Ended))
        if silent and not killed and name not in resumed:
            broken.append(f"11 {name} ended and nobody was told")
    return broken


def _could_hear(order: Sequence[Entry], name: str, parent: str | None) -> bool:
    """Whether a parent was live when, or after, the last outcome of a child came."""
    live = heard = False
    for entry in order:
        if entry.session == parent and isinstance(entry.event, (Activated, Ended)):
            live = isinstance(entry.event, Activated)
            heard = heard or live
        elif entry.session == name and isinstance(entry.event, _OUTCOMES):
            heard = live
    return heard


def told_by(opening: Opening) -> str:
    """Why each live agent is in its state, a line each."""
    if opening.supervisor is None:
        return "the store is being opened"
    runtime = opening.supervisor._runtime
    lines = []
    for activation in runtime.forest.live.values():
        told = explain_session(activation)
        lines.append(f"  agent {activation.name} {told.id} is {told.state}: {told.why}")
    if runtime.gate.durable < runtime.gate.ticket and runtime.gate.failed is None:
        waiting = runtime.gate.ticket - runtime.gate.durable
        lines.append(f"  {waiting} events wait to be stored")
    if runtime.calls.count:
        lines.append(f"  {runtime.calls.count} operations are under way")
    return "\n".join(lines) or "  no agent is live"
