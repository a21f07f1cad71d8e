"""The systems: which there are, what is installed for each, and what each does.

Lives here: the table from which everything else is made, and who of it takes part.
What a system promises is said for the way in which it is used here: an option that
costs time and is not asked for in `system_*.py` is not counted for it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from .workloads import AT_ONCE, BURST, DELEGATION, IN_A_ROW, STREAM


@dataclass(frozen=True)
class System:
    """One system on one backend."""

    name: str
    module: str
    """The file beside this one that knows how it is used."""
    durable: str
    ids: str
    supervision: str
    does: dict[str, str]
    """What one piece is, by workload."""
    backend: str = "asyncio"
    pins: tuple[str, ...] = ()
    """What is installed for it; nothing where it runs in this environment."""
    environment: str = ""
    """Where; systems that share one have the same pins."""
    heavy: bool = False
    """Slow, or rarely wanted: only when asked for."""
    python: tuple[int, int] = (3, 11)
    """The first Python on which it runs."""
    distributions: tuple[str, ...] = ()
    """Whose versions are told."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What is set in the environment of its process."""

    @property
    def is_peer(self) -> bool:
        return bool(self.pins)


TRIO = "trio==0.35.0"
"""In each environment, since the bare limits of both backends are in one file."""

_NONE = "none"

_RAMET = System(
    "ramet",
    "system_ramet",
    durable="every event is logged; the store is in memory here, and a file elsewhere",
    ids="message id, source and key of each message; no message counts twice",
    supervision="a tree; the end of each child is told to its parent, cancels go down",
    does={
        **dict.fromkeys(
            (BURST, STREAM),
            "a quiet report of a child to its idle parent, which returns when it was"
            " accepted: checked, given its ids, logged, in the parent's inbox",
        ),
        AT_ONCE: "a wakeup of an idle agent by its child, and its turn, to idle again",
        IN_A_ROW: "`tell` to one root and `wait_idle`: three commits in series, and a"
        " transcript that grows",
        DELEGATION: "a `call`: a child started, its `reply` judged, settled, and a"
        " receipt; whoever asks them is host code, no turn of the parent is counted",
    },
    distributions=("ramet", "anyio", "trio"),
)


def _ramet_on(backend: str) -> System:
    return replace(_RAMET, name=f"ramet on {backend}", backend=backend)


_UNTRACED = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
_AUTOGEN = ("autogen-core==0.7.5", "autogen-agentchat==0.7.5", TRIO)
_LANGGRAPH = ("langgraph==1.2.24", TRIO)

SYSTEMS = (
    _ramet_on("asyncio"),
    _ramet_on("trio"),
    System(
        "pykka",
        "system_pykka",
        durable=_NONE,
        ids="of actors, none of messages",
        supervision="none: an actor that fails is stopped",
        does=dict.fromkeys(
            (BURST, STREAM), "`tell` of a `ThreadingActor`, which counts it in a thread"
        ),
        pins=("pykka==4.5.0", TRIO),
        environment="pykka",
        distributions=("pykka",),
    ),
    System(
        "autogen-core",
        "system_autogen_core",
        durable="none: state is saved when the program asks",
        ids="an id of each message, which nothing compares",
        supervision="none: an exception is logged or goes to whoever asked",
        does={
            **dict.fromkeys(
                (BURST, STREAM),
                "`publish_message` to a topic with one subscriber, which counts it;"
                " a tenth of a stream",
            ),
            DELEGATION: "`send_message` of an agent to agents that it makes, each with"
            " a stub answer, gathered; there is no model layer",
        },
        pins=_AUTOGEN,
        environment="autogen",
        distributions=("autogen-core",),
    ),
    System(
        "autogen-agentchat",
        "system_autogen_agentchat",
        durable="none: state is saved when the program asks",
        ids="an id of each message, which nothing compares",
        supervision="none: an exception goes to the caller",
        does=dict.fromkeys(
            (AT_ONCE, IN_A_ROW),
            "`AssistantAgent.run` of an agent that was made before, without a history",
        ),
        pins=_AUTOGEN,
        environment="autogen",
        distributions=("autogen-agentchat",),
    ),
    System(
        "openai-agents",
        "system_openai_agents",
        durable="none: sessions are not used, tracing is off",
        ids=_NONE,
        supervision="none: an exception goes to the caller",
        does={
            **dict.fromkeys((AT_ONCE, IN_A_ROW), "`Runner.run` without a history"),
            DELEGATION: "one of a hundred calls of `Agent.as_tool` in one answer of the"
            " parent's model; the parent's two requests are counted",
        },
        pins=("openai-agents==0.24.0", TRIO),
        environment="openai-agents",
        distributions=("openai-agents",),
        settings={"OPENAI_AGENTS_DISABLE_TRACING": "1", "OPENAI_API_KEY": "none"},
    ),
    System(
        "langgraph",
        "system_langgraph",
        durable="none: no checkpointer",
        ids=_NONE,
        supervision="none: an exception ends the whole graph",
        does={
            **dict.fromkeys(
                (AT_ONCE, IN_A_ROW),
                "`ainvoke` of a graph whose one node is the stub; there is no model"
                " layer",
            ),
            DELEGATION: "one of a hundred `Send`s to a node that invokes such a graph;"
            " the parent's nodes are counted",
        },
        pins=_LANGGRAPH,
        environment="langgraph",
        distributions=("langgraph",),
        settings=_UNTRACED,
    ),
    System(
        "langgraph, saved",
        "system_langgraph",
        durable="a checkpoint of each step of the outer graph, in memory here",
        ids="of checkpoints",
        supervision="none: an exception ends the whole graph",
        does=dict.fromkeys(
            (AT_ONCE, IN_A_ROW, DELEGATION),
            "the same with `InMemorySaver`, each run in a thread of its own",
        ),
        pins=_LANGGRAPH,
        environment="langgraph",
        distributions=("langgraph",),
        settings=_UNTRACED,
    ),
    System(
        "pydantic-ai",
        "system_pydantic_ai",
        durable=_NONE,
        ids="of runs",
        supervision="none: an exception goes to the caller",
        does={
            **dict.fromkeys(
                (AT_ONCE, IN_A_ROW),
                "`Agent.run` with a `FunctionModel`; a quarter of the count",
            ),
            DELEGATION: "one of a hundred calls of a tool that runs an agent, in one"
            " answer of the parent's model; the parent's two requests are counted",
        },
        pins=("pydantic-ai-slim==2.68.0", TRIO),
        environment="pydantic-ai",
        heavy=True,
        distributions=("pydantic-ai-slim",),
        settings={"LOGFIRE_SEND_TO_LOGFIRE": "false"},
    ),
    System(
        "deepagents",
        "system_deepagents",
        durable="none: no checkpointer",
        ids="of messages",
        supervision="none: an exception ends the whole graph",
        does={
            **dict.fromkeys(
                (AT_ONCE, IN_A_ROW),
                "`ainvoke` of `create_deep_agent` with its lists, files and sub-agents;"
                " a tenth of the count",
            ),
            DELEGATION: "one of a hundred calls of its `task` tool in one answer of the"
            " parent's model; the parent's two requests are counted",
        },
        pins=("deepagents==0.7.32", TRIO),
        environment="deepagents",
        heavy=True,
        distributions=("deepagents", "langgraph"),
        settings={**_UNTRACED, "ANTHROPIC_API_KEY": "none"},
    ),
    System(
        "async-pykka",
        "system_async_pykka",
        durable=_NONE,
        ids="of actors, none of messages",
        supervision="none: an actor that fails is stopped",
        does=dict.fromkeys(
            (BURST, STREAM), "`tell` of an `AsyncioActor`, which counts it in a task"
        ),
        pins=("async-pykka==0.1.4", TRIO),
        environment="async-pykka",
        heavy=True,
        python=(3, 13),
        distributions=("async-pykka",),
    ),
)

OURS = SYSTEMS[0].name
"""The system that the others are compared with."""
OURS_ON_TRIO = SYSTEMS[1].name

PEERS = tuple(one.name for one in SYSTEMS if one.is_peer)


def chosen(
    only: Collection[str] = (), *, heavy: bool = False, quick: bool = False
) -> tuple[System, ...]:
    """Who takes part: ramet always, and the peers that were asked for.

    Args:
        only: Names of peers, also heavy ones; all that are not heavy when empty.
        heavy: Whether the heavy ones come with the others.
        quick: No peer at all.
    """

    def wanted(one: System) -> bool:
        if not one.is_peer:
            return True
        if quick:
            return False
        return one.name in only if only else heavy or not one.heavy

    return tuple(one for one in SYSTEMS if wanted(one))


def reason_against(one: System, version: tuple[int, int] | None = None) -> str | None:
    """Why a system cannot run on this Python, or None."""
    running = sys.version_info[:2] if version is None else version
    if running >= one.python:
        return None
    first, here = (".".join(map(str, pair)) for pair in (one.python, running))
    return f"needs Python {first} or later, and this is {here}"
