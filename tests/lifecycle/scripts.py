"""Runs of supervisor scripts inside a test: no file, no command line.

Lives here: a script made of a function, and its run on a stage, fresh or taken up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ramet import AgentSpec, Model
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.runs import Run, read_run, runs
from ramet.lifecycle.script import ScriptResult, ScriptRun
from ramet.lifecycle.script_file import ScriptFile
from tests.lifecycle.stage import DIGGER, ORACLE, SCOUT, Stage

__all__ = ["BOSS", "begun", "run_of", "run_script", "script_of"]

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
) -> ScriptResult:
    """Run a script on a stage to its end, or take its one run up again."""
    async with stage.open(model, specs=(BOSS, SCOUT, DIGGER, ORACLE)) as supervisor:
        run = ScriptRun(supervisor, script_of(main), data=data, args=args)
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


def run_of(stage: Stage) -> Run:
    """The only run in a store."""
    reader = stage.reader()
    try:
        (run,) = runs(reader)
        return read_run(reader, run.id)
    finally:
        reader.close()
