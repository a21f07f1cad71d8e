"""Figures: what `statistics()` gives, of a supervisor and of an agent.

Lives here: what is counted, in words, and where each figure comes from.  Pure: it looks
at what is resident and writes nothing.  Most of it is counted when asked, so that it
costs nothing while nobody asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from ..mailbox.samples import Spread
from .activation import Activation

__all__ = ["AgentStatistics", "Statistics", "agent_statistics", "queues"]


class _Figures:
    """A figure can be asked for by its name too."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        if name not in attrs.fields_dict(type(self)):  # type: ignore[arg-type]
            raise KeyError(name)
        return getattr(self, name)


@attrs.frozen
class Statistics(_Figures):
    """What a supervisor is doing, and how it did lately.

    Every figure is also an item, `statistics["agents"]`, and `attrs.asdict` gives them
    all.

    Attributes:
        agents: resident agents, at work or idle.
        running: those with an open turn.
        waiting_messages: waking messages that no turn has claimed yet, of all agents.
        staged_messages: messages that enter at their agent's next safe position.
        longest_queue: the most waking messages that wait for one agent.
        queued_agents: agents that wait for a place (`concurrency`).
        operations: calls of the supervisor that are under way and may write.
        waits: calls of `wait` that are under way.
        tasks: tasks of the supervisor: one for each agent at work, and its own.
        keys: keys of senders that are kept in memory, since they are not durable yet or
            may still be asked for.
        events: events that are durable, since the store was opened.
        undecided_events: events that are accepted and not durable yet.
        commits: batches that are durable, since the store was opened.
        commit_events: how many events a batch had, over the last thousand batches.
        commit_ms: milliseconds from the hand-over of a batch to its answer.
        waited_ms: milliseconds by the wall clock, whole ones, from the acceptance of a
            waking message to the turn that claimed it, over the last thousand turns.
    """

    agents: int
    running: int
    waiting_messages: int
    staged_messages: int
    longest_queue: int
    queued_agents: int
    operations: int
    waits: int
    tasks: int
    keys: int
    events: int
    undecided_events: int
    commits: int
    commit_events: Spread
    commit_ms: Spread
    waited_ms: Spread


@attrs.frozen
class AgentStatistics(_Figures):
    """What an agent has done and has before it.

    Every figure is also an item, `statistics["waiting"]`, and `attrs.asdict` gives them
    all.

    Attributes:
        events: events of its log, those included that are not durable yet.
        turns: turns that were opened.
        waiting: waking messages that no turn has claimed yet.
        staged: messages that enter at its next safe position.
        oldest_at: milliseconds since 1970 at which the first of those that wait was
            accepted, or `None`.
        children: children that are resident.
        requests: model requests.
        tool_calls: tool calls, answers and reports left out.
        reports: reports that it made in this activation.
        transcript: messages that its next request is made from.
    """

    events: int
    turns: int
    waiting: int
    staged: int
    oldest_at: int | None
    children: int
    requests: int
    tool_calls: int
    reports: int
    transcript: int


def agent_statistics(activation: Activation) -> AgentStatistics:
    """The figures of one agent."""
    session = activation.session
    waiting = session.inbox.waiting
    return AgentStatistics(
        events=session.seq,
        turns=session.turn,
        waiting=len(waiting),
        staged=len(session.inbox.staged),
        oldest_at=waiting[0][1].at if waiting else None,
        children=len(activation.children or ()),
        requests=session.usage.requests,
        tool_calls=session.usage.tool_calls,
        reports=activation.reports,
        transcript=len(session.transcript),
    )


def queues(live: Iterable[Activation]) -> dict[str, int]:
    """What waits for the agents of a forest, and who has an open turn."""
    agents = running = waiting = staged = longest = queued = 0
    for one in live:
        agents += 1
        running += one.session.open is not None
        inbox = one.session.inbox
        length = len(inbox.waiting)
        waiting += length
        longest = max(longest, length)
        staged += len(inbox.staged)
        allowance = one.allowance
        if allowance is not None and allowance.place is not None:
            queued += allowance.place.queued
    return {
        "agents": agents,
        "running": running,
        "waiting_messages": waiting,
        "staged_messages": staged,
        "longest_queue": longest,
        "queued_agents": queued,
    }
