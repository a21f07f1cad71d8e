"""langgraph: a graph of one stub node, and a graph that fans out to such graphs.

With a saver the outer graph keeps a checkpoint of each step, in memory.
"""

from __future__ import annotations

import operator
from functools import partial
from itertools import count as numbers
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from .subjects import ANSWER, PROMPT, Piece
from .turns import Turn, turns
from .workloads import DELEGATION

if TYPE_CHECKING:
    from bare import Bare


class Turned(TypedDict):
    """The state of one conversation."""

    messages: Annotated[list[dict[str, str]], operator.add]


class Spread(TypedDict):
    """The state of the parent."""

    count: int
    results: Annotated[list[str], operator.add]


ASKED = {"messages": [{"role": "user", "content": PROMPT}]}


async def model(state: Turned) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": ANSWER}]}


def thread(place: int) -> dict[str, Any]:
    return {"configurable": {"thread_id": str(place)}}


def conversation(saver: InMemorySaver | None = None) -> Any:
    graph = StateGraph(Turned)
    graph.add_node("model", model)
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    return graph.compile(checkpointer=saver)


def spreading(saver: InMemorySaver | None) -> Any:
    child = conversation()

    async def run(state: dict[str, Any]) -> dict[str, Any]:
        ended = await child.ainvoke(ASKED)
        return {"results": [ended["messages"][-1]["content"]]}

    def spread(state: Spread) -> list[Send]:
        return [Send("child", {}) for _ in range(state["count"])]

    graph = StateGraph(Spread)
    graph.add_node("lead", lambda state: {"count": state["count"]})
    graph.add_node("child", run)
    graph.add_node("gather", lambda state: {})
    graph.add_edge(START, "lead")
    graph.add_conditional_edges("lead", spread, ["child"])
    graph.add_edge("child", "gather")
    graph.add_edge("gather", END)
    return graph.compile(checkpointer=saver)


async def ready(count: int, *, saved: bool) -> list[Turn]:
    graph = conversation(InMemorySaver() if saved else None)

    async def run(place: int) -> str:
        ended = await graph.ainvoke(ASKED, thread(place))
        return str(ended["messages"][-1]["content"])

    return [partial(run, place) for place in range(count)]


def pieces(system: str) -> list[Piece]:
    saved = system == "langgraph, saved"
    graph = spreading(InMemorySaver() if saved else None)
    threads = numbers()

    async def delegate(bare: Bare, count: int) -> float:
        began = perf_counter()
        asked = {"count": count, "results": []}
        ended = await graph.ainvoke(asked, thread(next(threads)))
        seconds = perf_counter() - began
        assert ended["results"] == [ANSWER] * count
        return seconds

    return [*turns(partial(ready, saved=saved)), Piece(DELEGATION, delegate)]
