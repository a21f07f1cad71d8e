"""A long life: nothing in memory grows with the number of agents that came and went.

Lives here: a census of everything that the collector knows, before and after many
lives below one root.  It counts objects and measures no time.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import ramet
from ramet import Agent, AgentSpec, ModelRequest, ModelResponse, Policy, Supervisor
from ramet.testing import call
from tests.lifecycle.minds import reply
from tests.lifecycle.stage import LEAD, Stage

pytestmark = pytest.mark.anyio

WARMED = 10
LIVES = 25

AGENTS_A_LIFE = 5


def census() -> Counter[str]:
    """How many objects of each kind there are that the collector knows.

    Weak references are left out: a connection of `sqlite3` keeps up to 200 dead ones.
    """
    gc.collect()
    kinds = Counter(type(one) for one in gc.get_objects())
    del kinds[weakref.ReferenceType]
    return Counter({f"{k.__module__}.{k.__qualname__}": n for k, n in kinds.items()})


def looked(what: str) -> str:
    """Look at something."""
    return f"looked at {what}"


async def mind(request: ModelRequest) -> ModelResponse:
    """Look, report if that is offered, and end: by a reply, by words or by failing."""
    names = {tool.name for tool in request.tools}
    last = request.messages[-1]
    if request.step == 0:
        return ModelResponse(calls=(call("looked", what="it"),))
    if request.name == "clumsy":
        raise ramet.ModelError("it fell")
    if "reply" in names:
        return ModelResponse(calls=(reply("seen"),))
    if request.step == 1 and "report" in names:
        return ModelResponse(calls=(call("report", output=f"seen {last!r:.20}"),))
    return ModelResponse(text="done")


async def lives(sup: Supervisor, root: Agent, number: int) -> None:
    """Every way in which an agent below a root comes and goes, with its keys."""
    spec = AgentSpec("scout", tools=[looked])
    started = await sup.start_child(root, spec, "go", key=f"start-{number}")
    assert (await sup.wait(started.message_id)).status == "completed"
    message = await sup.followup(root, started.child_id, "more", key=f"more-{number}")
    assert (await sup.wait(message)).status == "completed"
    clumsy = await sup.start_child(root, AgentSpec("clumsy", tools=[looked]), "go")
    assert (await sup.wait(clumsy.message_id)).status == "failed"
    ended = await sup.start_child(root, AgentSpec("scout", tools=[looked]), "go")
    await sup.cancel(ended.child_id)
    oracle = AgentSpec("oracle", tools=[looked])
    outcome = await sup.call(root, oracle, "say", key=f"call-{number}")
    assert outcome.unwrap() == "seen"
    begun = await sup.start_call(root, oracle, "say")
    assert (await sup.wait(begun.message_id)).status == "completed"


@pytest.fixture(params=["sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Stage]:
    """A stage whose store is no part of this process's memory."""
    made = Stage(request.param, tmp_path)
    made.told = False
    yield made
    made.check()


async def test_nothing_grows_with_the_number_of_settled_agents(kept: Stage) -> None:
    """What a root was told goes with its compaction, and all else with its agent."""

    async def compact(compaction: ramet.Compaction) -> ramet.Shortened:
        return ramet.Shortened("children came and went", verbatim=False)

    async def lead(request: ModelRequest) -> ModelResponse:
        if request.name != "lead":
            return await mind(request)
        if len(request.messages) > 1:
            raise ramet.ContextOverflowError("only one message fits")
        return ModelResponse(text="well")

    specs = [LEAD, AgentSpec("scout", tools=[looked])]
    policy = Policy(notices="off", compact=compact)
    model = ramet.FunctionModel(lead)
    async with kept.open(model, specs=specs, policy=policy) as sup:
        root = await sup.start_root(LEAD, interactive=True)

        async def live(first: int, last: int) -> Counter[str]:
            for number in range(first, last):
                await lives(sup, root, number)
            await sup.wait(await sup.tell(root, "how are they?"))
            await root.wait_idle()
            kept.observer.entries.clear()
            return census()

        before = await live(0, WARMED)
        after = await live(WARMED, WARMED + LIVES)
        grown = {kind: after[kind] - before[kind] for kind in after}
        agents = AGENTS_A_LIFE * LIVES
        assert sum(grown.values()) < agents // 2, Counter(grown).most_common(10)
        own = {k: n for k, n in grown.items() if k.startswith("ramet.") and n > 0}
        assert sum(own.values()) < agents // 20, own
        statistics = sup.statistics()
        assert (statistics["agents"], statistics["keys"]) == (1, 0)
        assert len(await sup.children(root.id, limit=10_000)) == (
            AGENTS_A_LIFE * (WARMED + LIVES)
        )
