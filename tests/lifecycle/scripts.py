"""Runs of supervisor scripts inside a test: no file, no command line.

Lives here: a script made of a function, and its run on a stage, fresh or taken up.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ramet import AgentSpec, Model
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.runs import Run, read_run, runs
from ramet.lifecycle.script import ScriptResult, ScriptRun
from ramet.lifecycle.script_file import ScriptFile
from ramet.mailbox.events import Journaled
from tests.lifecycle.stage import DIGGER, ORACLE, SCOUT, Stage

__all__ = [
    "BOSS",
    "begun",
    "in_order",
    "journal_of",
    "of_kind",
    "reasons",
    "run_of",
    "run_script",
    "script_of",
]

Main = Callable[[Flow], Awaitable[Any]]

BOSS = AgentSpec("boss", policy={"notices": "quiet", "wake_budget": 0})


def script_of(main: Main) -> ScriptFile:
    """A script whose `main` is this function."""
    return ScriptFile("script.py", "digest", main, BOSS)


async def run_script(
    stage: Stage,
    main: Main,
    model: Model | None = None,
    *,
    take_up: bool = False,
    data: Any = None,
    args: Sequence[str] = (),
    rerun: str | None = None,
) -> ScriptResult:
    """Run a script on a stage to its end, or take its one run up again."""
    async with stage.open(model, specs=(BOSS, SCOUT, DIGGER, ORACLE)) as supervisor:
        run = ScriptRun(supervisor, script_of(main), data=data, args=args, rerun=rerun)
        if take_up:
            root = await run.take_up(run_of(stage))
        else:
            root = await run.begin()
        return await run.finish(root)


async def begun(stage: Stage, main: Main, model: Model | None = None) -> Stage:
    """Run a script until its `main` has returned, and give what a kill then leaves."""
    copies: list[Stage] = []

    async def until(flow: Flow) -> None:
        await main(flow)
        copies.append(stage.crashed())

    await run_script(stage, until, model)
    return copies[0]


def journal_of(stage: Stage, run: str | None = None) -> list[tuple[str, Any]]:
    """The journal of the only run in a store: kinds and data, in order."""
    run = run_of(stage).id if run is None else run
    events = [event for event in stage.log(run) if isinstance(event, Journaled)]
    return [(event.kind, json.loads(event.data)) for event in events]


def of_kind(journal: list[tuple[str, Any]], kind: str) -> list[Any]:
    """The data of the events of one kind; `log CODE` names a code."""
    name, _, code = kind.partition(" ")
    return [
        data
        for found, data in journal
        if found == name and (not code or data.get("code") == code)
    ]


def reasons(stage: Stage) -> list[str | None]:
    """Of the run as it was taken up last: why each call ran fresh, or `replayed`.

    Members of a group stand in their order.
    """
    journal = journal_of(stage)
    starts = [
        i
        for i, (kind, _) in enumerate(journal)
        if kind in ("run.started", "run.resumed")
    ]
    latest = journal[starts[-1] :]
    ended = {data["call"]: data for data in of_kind(latest, "call.ended")}
    return [
        "replayed" if ended.get(data["call"], {}).get("replayed") else data.get("fresh")
        for data in in_order(of_kind(latest, "call.queued"))
    ]


def in_order(calls: list[Any]) -> list[Any]:
    """Calls as they were queued; those of one group by their index."""
    first: dict[str, int] = {}
    for number, data in enumerate(calls):
        if data["group"] is not None:
            first.setdefault(data["group"]["id"], number)

    def place(numbered: tuple[int, Any]) -> tuple[int, int]:
        number, data = numbered
        group = data["group"]
        return (number, 0) if group is None else (first[group["id"]], group["index"])

    return [data for _, data in sorted(enumerate(calls), key=place)]


def run_of(stage: Stage) -> Run:
    """The only run in a store."""
    reader = stage.reader()
    try:
        (run,) = runs(reader)
        return read_run(reader, run.id)
    finally:
        reader.close()
