"""Scenes about supervisor scripts: a script's call is cut, and made again.

Lives here: what a script awaits, each inside a run on an open supervisor.  A script
that is cut at a call and makes it again, under the same name, gets what there is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ramet import Flow, FlowChild, Supervisor
from ramet.lifecycle.script import ScriptRun
from ramet.mailbox.events import Concluded
from tests.lifecycle.scene import Scene, scene
from tests.lifecycle.scripts import script_of
from tests.lifecycle.stage import ORACLE, SCOUT, accepted_in, of


async def _run(
    it: Scene, sup: Supervisor, main: Callable[[Flow], Awaitable[Any]]
) -> None:
    run = ScriptRun(sup, script_of(main))
    result = await run.finish(await run.begin())
    if result.error is not None:
        raise result.error


async def _outcomes(it: Scene, sup: Supervisor, root: str) -> list[str]:
    """How the one-shot agents of a run ended; all of them must have."""
    await sup._runtime.quiet()
    lines = await sup.children(root)
    ends = [of(it.stage.log(line.id), Concluded) for line in lines]
    assert all(len(one) == 1 for one in ends), "an agent of a call that is over lives"
    return [one[0].status for one in ends]


@scene("Flow.agent")
async def a_script_calls_an_agent(it: Scene, sup: Supervisor) -> None:
    async def main(flow: Flow) -> None:
        value = await it.cut(flow.agent("ask", spec=ORACLE, key="k"))
        first = await _outcomes(it, sup, flow.root.id)
        assert await flow.agent("ask", spec=ORACLE, key="k") == 1
        ends = await _outcomes(it, sup, flow.root.id)
        # A call that came to a value is not made again; one that was cut off is.
        assert ends.count("completed") == 1
        assert len(ends) == len(first) or "completed" not in first
        assert value is None or (value, len(ends)) == (1, 1)

    await _run(it, sup, main)


@scene("Flow.parallel")
async def a_script_calls_agents_side_by_side(it: Scene, sup: Supervisor) -> None:
    async def main(flow: Flow) -> None:
        members: list[Callable[[], Awaitable[Any]]] = [
            partial(flow.agent, "ask", spec=ORACLE, key=key) for key in ("one", "two")
        ]
        values = await it.cut(flow.parallel(members))
        assert values in (None, [1, 1])
        first = await _outcomes(it, sup, flow.root.id)
        assert await flow.parallel(members) == [1, 1]
        ends = await _outcomes(it, sup, flow.root.id)
        assert ends.count("completed") == 2
        assert len(ends) - len(first) == 2 - first.count("completed")

    await _run(it, sup, main)


@scene("Flow.spawn")
async def a_script_starts_a_child(it: Scene, sup: Supervisor) -> None:
    async def main(flow: Flow) -> None:
        first = await it.cut(flow.spawn("go", spec=SCOUT, key="k"))
        again = await flow.spawn("go", spec=SCOUT, key="k")
        assert first is None or first.id == again.id
        assert (await again.outcome()).status == "completed"
        assert len(await sup.children(flow.root.id)) == 1

    await _run(it, sup, main)


async def _with_child(
    it: Scene,
    sup: Supervisor,
    act: Callable[[Flow, FlowChild], Awaitable[None]],
) -> None:
    async def main(flow: Flow) -> None:
        await act(flow, await flow.spawn("go", spec=SCOUT, label="one"))

    await _run(it, sup, main)


@scene("FlowChild.send")
async def a_script_sends_its_child_more(it: Scene, sup: Supervisor) -> None:
    async def act(flow: Flow, child: FlowChild) -> None:
        await child.outcome()
        first = await it.cut(child.send("more", key="k"))
        again = await child.send("more", key="k")
        assert first is None or first.message_id == again.message_id
        assert (await again.outcome()).status == "completed"
        sent = accepted_in(it.stage.log(child.id), "followup")
        assert [event.id for event in sent] == [again.message_id]

    await _with_child(it, sup, act)


@scene("FlowChild.outcome", "Assignment.outcome")
async def a_script_waits_for_its_child(it: Scene, sup: Supervisor) -> None:
    async def act(flow: Flow, child: FlowChild) -> None:
        await it.cut(child.outcome())
        assert (await child.outcome()).status == "completed"

    await _with_child(it, sup, act)


@scene("FlowChild.reports")
async def a_script_reads_reports(it: Scene, sup: Supervisor) -> None:
    async def act(flow: Flow, child: FlowChild) -> None:
        await child.outcome()
        await it.cut(child.reports())
        assert await child.reports() == ["found it"]

    await _with_child(it, sup, act)


@scene("Assignment.reports")
async def a_script_reads_the_reports_of_an_assignment(
    it: Scene, sup: Supervisor
) -> None:
    async def act(flow: Flow, child: FlowChild) -> None:
        more = await child.send("more")
        await more.outcome()
        await it.cut(more.reports())
        assert await more.reports() == ["found it"]
        assert await child.reports() == ["found it"] * 2

    await _with_child(it, sup, act)
