"""Random plays: programs of operations, their schedule and their faults, as data.

Lives here: what Hypothesis draws and shrinks.  A play first grows a tree of sessions,
some of which settle, some are parked with a message that waits, and some go on; then
come volleys, whose operations all begin at once; between two lives of the process the
store is closed in order, or the process is killed.  How a play is run is in
`plays_run.py`.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs
from hypothesis import strategies as st

from ramet import Limits, Policy
from ramet.lifecycle.fault_plan import Plan

__all__ = ["PLAYS", "Life", "Mood", "Node", "Operation", "Play", "Volley", "written"]

Fate = Literal["settled", "parked", "live"]

Name = Literal[
    "cancel",
    "resume",
    "tell",
    "follow_up",
    "start",
    "report",
    "wake",
    "inject",
    "interrupt",
    "cancel_agent",
    "release",
    "call",
    "start_call",
    "drain_below",
    "let_go",
    "lend",
    "take_back",
    "start_root",
]

Mood = Literal[
    "done", "report", "wake", "start", "call", "lent", "wait", "fail", "cancel"
]


@attrs.frozen
class Node:
    """A session of the tree: below which other it is started, and how it is left."""

    below: int
    fate: Fate = "settled"


@attrs.frozen
class Operation:
    """One operation of a host: upon whom, after how many steps of others, how often the
    same key is used; a number beyond those there are begins again."""

    name: Name
    whom: int = 0
    after: int = 0
    key: int | None = None


@attrs.frozen
class Volley:
    """Operations that begin at once, and the switches of the schedule among them.

    A switch is the number of a choice and the rank of who goes; everywhere else the
    plain order holds.  `rests`: whether all comes to rest afterwards.
    """

    operations: tuple[Operation, ...]
    switches: tuple[tuple[int, int], ...] = ()
    rests: bool = False


@attrs.frozen
class Life:
    """One process, from its opening to its end; its roots are resumed, or they rest."""

    volleys: tuple[Volley, ...]
    ends: Literal["rests", "leaves", "killed"] = "rests"
    resumes: bool = True


@attrs.frozen
class Play:
    """A whole program.

    Args:
        tree: what is grown first, below one root.
        lives: the processes, one after the other.
        moods: what minds do, request by request; then they are done.
        policy: of the deployment.
        limits: of the run.
        plan: the faults.
    """

    tree: tuple[Node, ...]
    lives: tuple[Life, ...]
    moods: tuple[Mood, ...] = ()
    policy: Policy = attrs.field(factory=Policy)
    limits: Limits | None = None
    plan: Plan = attrs.field(factory=Plan)

    @property
    def operations(self) -> int:
        """How many there are."""
        volleys = [volley for life in self.lives for volley in life.volleys]
        return sum(len(volley.operations) for volley in volleys)

    @property
    def switches(self) -> int:
        """How many there are."""
        volleys = [volley for life in self.lives for volley in life.volleys]
        return sum(len(volley.switches) for volley in volleys)


def written(value: Any) -> str:
    """A play as the code that makes it, without what is as ever."""
    if isinstance(value, tuple):
        inner = ", ".join(map(written, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if not attrs.has(type(value)):
        return repr(value)
    given = []
    for field in attrs.fields(type(value)):
        found, default = getattr(value, field.name), field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
            default = default.factory()
        if found != default:
            given.append(f"{field.name}={written(found)}")
    return f"{type(value).__name__}({', '.join(given)})"


# What is near the beginning is what a failure shrinks to.
_NODES = st.builds(
    Node, st.integers(0, 3), st.sampled_from(("settled", "parked", "live"))
)

_STEPS = st.sampled_from((0, 0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16))

_OPERATIONS = st.builds(
    Operation,
    st.sampled_from(
        (
            *("cancel", "resume", "tell", "follow_up", "start", "report", "wake"),
            *("inject", "interrupt", "cancel_agent", "release", "call", "start_call"),
            *("drain_below", "let_go", "lend", "take_back", "start_root"),
        )
    ),
    st.integers(0, 5),
    _STEPS,
    st.sampled_from((None, None, 0, 1)),
)

# Several hosts at once about sessions that nobody has in memory.
_BY_ID = st.builds(
    Operation,
    st.sampled_from(("cancel", "resume", "cancel", "resume", "follow_up", "release")),
    st.sampled_from((0, 0, 1, 1, 2, 3)),
    _STEPS,
)

_SWITCHES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 3)),
    max_size=6,
    unique_by=lambda switch: switch[0],
).map(lambda found: tuple(sorted(found)))

_VOLLEYS = st.builds(
    Volley,
    st.one_of(
        st.lists(_OPERATIONS, min_size=1, max_size=5),
        st.lists(_BY_ID, min_size=2, max_size=4),
    ).map(tuple),
    _SWITCHES,
    st.booleans(),
)

_LIVES = st.builds(
    Life,
    st.lists(_VOLLEYS, min_size=1, max_size=3).map(tuple),
    st.sampled_from(("rests", "leaves", "killed")),
    st.sampled_from((True, True, False)),
)

_MOODS = st.sampled_from(
    (
        *("done", "done", "report", "wake", "start", "call", "lent", "wait"),
        *("fail", "cancel"),
    )
)

_POLICIES = st.builds(
    Policy,
    claim=st.sampled_from(("one", "one", "all")),
    notices=st.sampled_from(("auto", "auto", "auto", "wakeup", "quiet", "off")),
    at_reply=st.sampled_from(("cancel", "wait")),
    wake_budget=st.sampled_from((None, None, None, 0, 1)),
    max_depth=st.sampled_from((5, 3)),
)

_LIMITS = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        Limits,
        concurrency=st.sampled_from((None, 1, 2)),
        agents=st.sampled_from((None, 1, 3)),
        tool_calls=st.sampled_from((None, 1, 4)),
        requests=st.sampled_from((None, 2, 5)),
    ),
)

_COMMITS = st.tuples(st.integers(0, 30), st.integers(0, 12))

_PLANS = st.builds(
    Plan,
    steps=st.sampled_from((0, 0, 1, 4)),
    threaded=st.booleans(),
    late_commits_s=st.sampled_from((None, None, None, 0.3)),
    crash=st.one_of(st.none(), st.none(), st.none(), _COMMITS),
    failed_commit=st.one_of(
        *[st.none()] * 5, st.tuples(st.integers(0, 30), st.booleans())
    ),
)

_ANYTHING = st.builds(
    Play,
    st.lists(_NODES, max_size=4).map(tuple),
    st.lists(_LIVES, min_size=1, max_size=2).map(tuple),
    st.lists(_MOODS, max_size=8).map(tuple),
    _POLICIES,
    _LIMITS,
    _PLANS,
)

# Nested sessions that nobody has in memory, and several hosts about them at once.
_ABSENT = st.builds(
    Play,
    st.lists(
        st.builds(Node, st.just(0), st.sampled_from(("settled", "parked"))),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(
            Volley, st.lists(_BY_ID, min_size=2, max_size=4).map(tuple), _SWITCHES
        ),
        min_size=1,
        max_size=2,
    ).map(lambda volleys: (Life(tuple(volleys)),)),
)

PLAYS: st.SearchStrategy[Play] = st.one_of(_ABSENT, _ANYTHING, _ANYTHING)
"""All of them."""
