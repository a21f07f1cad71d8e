"""The workloads: what one piece of each means for every system, and the goals.

Lives here: names, words, counts and ratios, and nothing that runs.  How a system does a
workload is in its own file, `system_*.py`; the bare limits are in `limits.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

BURST = "tell, a burst"
STREAM = "tell, a stream"
AT_ONCE = "turns at once"
IN_A_ROW = "turns in a row"
DELEGATION = "delegation"


@dataclass(frozen=True)
class Workload:
    """Something that every system does in its own way, or not at all."""

    name: str
    means: str
    """What one piece is, whichever system does it."""
    limit: str
    """What the bare limit does instead."""
    count: int
    """Pieces in a round."""
    least: int = 5
    """Pieces in a round that only shows that it runs."""


WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            BURST,
            "One of 3,000 messages to one actor or agent: until the last of them was"
            " handled, or, for ramet, accepted; then also until the last was committed."
            " An actor that is a thread has hardly begun by then, since a thread of"
            " Python has 5 ms before it hands over.",
            "appends to the deque of a task that drains it",
            count=3_000,
            least=100,
        ),
        Workload(
            STREAM,
            "The same with 30,000 messages. Here threads hand over to each other, and"
            " what keeps each message has them in memory.",
            "appends to the deque of a task that drains it",
            count=30_000,
            least=200,
        ),
        Workload(
            AT_ONCE,
            "One turn of an agent whose model answers at once with a word. All turns of"
            " a round are begun together, each of an agent or a conversation of its"
            " own.",
            "actors, each with one stub answer, told all together",
            count=400,
            least=20,
        ),
        Workload(
            IN_A_ROW,
            "The same turn, each begun when the one before it has ended.",
            "one actor with a stub answer, asked again and again",
            count=400,
            least=20,
        ),
        Workload(
            DELEGATION,
            "One of a hundred children which a parent asks in parallel, each for one"
            " answer of its model; all answers go back to the parent.",
            "an actor makes actors, which answer once and tell it",
            count=100,
        ),
    )
}


@dataclass(frozen=True)
class Goal:
    """At most this many times what the other system costs."""

    workload: str
    system: str
    times: float

    def __str__(self) -> str:
        if self.times < 1:
            return f"{1 / self.times:g} times faster"
        if self.times == 1:
            return "not slower"
        return f"at most {self.times:g} times its cost"


GOALS = (
    Goal(BURST, "pykka", 1.4),
    Goal(STREAM, "pykka", 1.4),
    Goal(BURST, "autogen-core", 1 / 14),
    Goal(STREAM, "autogen-core", 1 / 14),
    Goal(AT_ONCE, "autogen-agentchat", 1.0),
    Goal(AT_ONCE, "openai-agents", 1 / 14),
    Goal(IN_A_ROW, "autogen-agentchat", 1.0),
    Goal(IN_A_ROW, "openai-agents", 1 / 14),
    Goal(DELEGATION, "langgraph", 1 / 8),
)
