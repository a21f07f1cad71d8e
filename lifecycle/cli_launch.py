"""Launching: what `ramet run` and `ramet resume` do with an open store.

Lives here: a run on an open store under signals, with progress on standard error, and
what of its end is to be printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import AXES, Limits, stated
from ..actors.errors import OutcomeError
from ..actors.outcome import Acceptance, Outcome, TreeUsage
from ..actors.render import render
from ..actors.tools_talk import report_setup
from ..mailbox.canonical import freeze
from ..mailbox.errors import RametError
from ..mailbox.store import Reader
from .cli_progress import Progress, Watch
from .cli_stream import JsonLines
from .handle import Agent
from .headless import Headless, HeadlessResult
from .interruption import Interruption, interruptible
from .opening import open as open_supervisor
from .runs import Run
from .script import ScriptResult, ScriptRun, code_of
from .script_exit import ScriptExitedError
from .script_file import ScriptFile
from .supervisor import Supervisor
from .terminal_progress import progress_for

__all__ = [
    "Begun",
    "Launch",
    "Printed",
    "launch_prompt",
    "launch_script",
    "printed_of",
    "printed_of_broken",
]

_FAILED = 1
_STOPPED = 3
_INTERRUPTED = 130


class Begun:
    """What is known of a run outside of the loop that it runs in.

    `run_id` is the session of its root, and blank before that is there.
    """

    def __init__(self) -> None:
        self.run_id = ""
        self._at = time.monotonic()

    @property
    def spent_ms(self) -> int:
        """How long ago it was launched, in whole milliseconds."""
        return round((time.monotonic() - self._at) * 1000)


@attrs.frozen(kw_only=True, eq=False)
class Launch:
    """What is to be run.

    Attributes:
        store: the path of the store.
        option: how a command names that store, beginning with a blank; or nothing,
            where it is the default.
        model: the name of the model, or `None`.
        backend: what it runs on.
        script: the script; or, with `None`, `prompt` and `spec`.
        run: the run that is taken up again, or `None`.
        input: JSON data for the script.
        args: words for the script.
        prompt: what one agent is asked.
        spec: what that agent is made from.
        lines: where everything that happens is written as JSON, or `None`.
        limits: what the command line allows; it stands before what the script says.
        rerun: who allows that calls with uncertain effects run again, or `None`.
        begun: learns the id of the run.
    """

    store: str
    option: str = ""
    model: str | None
    backend: str
    script: ScriptFile | None = None
    run: Run | None = None
    input: Any = None
    args: tuple[str, ...] = ()
    prompt: str = ""
    spec: AgentSpec | None = None
    lines: JsonLines | None = None
    limits: Limits = Limits()
    rerun: str | None = None
    begun: Begun = attrs.field(factory=Begun)

    def limited(self) -> tuple[Limits, dict[str, str]]:
        """The limits of the run, and who set which axis."""
        declared = None if self.script is None else self.script.limits
        values: dict[str, float] = {}
        sources: dict[str, str] = {}
        for given, source in ((declared, "script"), (self.limits, "--limit")):
            for axis in AXES:
                value = None if given is None else getattr(given, axis)
                if value is not None:
                    values[axis], sources[axis] = value, source
        return Limits(**values), sources  # type: ignore[arg-type]


@attrs.frozen(kw_only=True, eq=False)
class Printed:
    """What is printed of the end of a run.

    Attributes:
        result: the result, for its document.
        text: the rendered value; `None` when there is none.
        status: the exit status.
        hint: what a person should know, in a sentence; or `None`.
        fault: what is shown with its traceback; or `None`.
    """

    result: HeadlessResult
    text: str | None
    status: int
    hint: str | None = None
    fault: Exception | None = None


class _Watching:
    """What stands around a run: progress and signals."""

    def __init__(self, interruption: Interruption, progress: Progress) -> None:
        self.interruption = interruption
        self.say = progress.say
        self._began = anyio.current_time()

    @property
    def spent_ms(self) -> int:
        """How long it took, in whole milliseconds."""
        return round((anyio.current_time() - self._began) * 1000)


@asynccontextmanager
async def _opened(launch: Launch, *specs: AgentSpec) -> AsyncIterator[Supervisor]:
    script = launch.script
    model: Any = launch.model
    if model is None and script is not None:
        model = script.model
    async with open_supervisor(
        launch.store,
        specs=specs,
        model=model,
        policy=None if script is None else script.policy,
        limits=launch.limited()[0],
    ) as supervisor:
        supervisor.register_setup(report_setup())
        if launch.lines is not None:
            if launch.run is not None:
                await _know(supervisor, launch.lines, launch.run.id)
            supervisor.observe(launch.lines)
        yield supervisor


async def _know(supervisor: Supervisor, lines: JsonLines, run_id: str) -> None:
    """Read what an earlier process stored of a run, so that only news is told."""
    storage = supervisor._runtime.storage
    waiting = [run_id]
    while waiting:
        session_id = waiting.pop()
        lines.know(session_id, await storage.read(Reader.load, session_id))
        after = None
        while True:
            page = await supervisor.children(session_id, after=after)
            if not page:
                break
            waiting += [line.id for line in page]
            after = page[-1].id


@asynccontextmanager
async def _watched(supervisor: Supervisor) -> AsyncIterator[_Watching]:
    """A block that shows progress and that signals end."""

    def named(session_id: str) -> tuple[str, str | None, int] | None:
        agent = supervisor.agent(session_id)
        return None if agent is None else (agent.name, agent.parent_id, agent.depth)

    watch = Watch(named)
    progress = watch.progress = progress_for(sys.stderr, watch.tree)
    stop = supervisor.observe(watch)
    progress.start()
    try:
        async with interruptible(supervisor, progress.say) as interruption:
            yield _Watching(interruption, progress)
    finally:
        stop()
        progress.stop()


async def launch_script(launch: Launch) -> Printed:
    """Run a script, or take its run up again."""
    script = launch.script
    assert script is not None
    limits, sources = launch.limited()
    async with _opened(launch, script.root, *script.specs) as supervisor:
        run = ScriptRun(
            supervisor,
            script,
            data=launch.input,
            args=launch.args,
            limits=limits,
            sources=sources,
            model=_model_name(launch.model or script.model),
            about={
                "model": launch.model,
                "backend": launch.backend,
                "folder": os.getcwd(),
            },
            rerun=launch.rerun,
        )
        root: Agent | None = None
        result: ScriptResult | None = None
        async with _watched(supervisor) as watching:
            watching.interruption.before = run.interrupt
            if launch.run is None:
                root = await run.begin()
                watching.say(_started(launch, root))
            else:
                root = await run.take_up(launch.run)
                watching.say(f"run {root.id} in {launch.store} goes on")
            launch.begun.run_id = root.id
            watching.say(f"limits: {stated(limits, sources)}")
            result = await run.finish(root)
        if result is None:
            run_id = "" if root is None else root.id
            usage = await supervisor.usage(run_id)
            return _interrupted(watching, run_id, usage, limits, launch.option)
        return _script_end(watching, result, limits)


def _model_name(model: object) -> str | None:
    """How a person calls a model: by its name, or by what it is made of."""
    return model if model is None or isinstance(model, str) else repr(model)


def printed_of(run: Run, usage: TreeUsage) -> Printed:
    """What is printed of a run that completed in an earlier process."""
    value = freeze(run.result)
    document = HeadlessResult(
        outcome=_completed(run.id, value),
        usage=usage.subtree,
        turns=usage.own.requests,
        duration_ms=max(0, (run.ended_at or run.started_at) - run.started_at),
        limits=Limits(),
        session_id=run.id,
    )
    hint = f"run {run.id} had completed: this is its result"
    return Printed(result=document, text=_shown(value), status=0, hint=hint)


def printed_of_broken(
    launch: Launch, usage: TreeUsage, error: ScriptExitedError | None
) -> Printed:
    """What is printed of a run whose loop was ended from within, without its end.

    Args:
        launch: what was launched; its run had begun.
        usage: what the run spent.
        error: what the script did; `None`: the process was interrupted.
    """
    run_id = launch.begun.run_id
    outcome: Outcome[Any]
    if error is None:
        outcome = Outcome(status="cancelled", cause="interrupted", detail="by a signal")
        status, hint = _INTERRUPTED, "interrupted"
    else:
        outcome = Outcome(status="failed", cause=error.code, detail=str(error))
        status, hint = _FAILED, f"the run broke off: {error} [{error.code}]"
    if launch.script is not None:
        hint += f"; `ramet resume {run_id}{launch.option}` goes on with it"
    document = HeadlessResult(
        outcome=attrs.evolve(outcome, session_id=run_id),
        usage=usage.subtree,
        turns=usage.own.requests,
        duration_ms=launch.begun.spent_ms,
        limits=launch.limited()[0],
        session_id=run_id,
    )
    return Printed(result=document, text=None, status=status, hint=hint)


def _shown(value: Any) -> str | None:
    """The result of a script as text; one that gave nothing prints nothing."""
    return None if value is None else render(value)


def _completed(run_id: str, value: Any) -> Outcome[Any]:
    return Outcome(
        status="completed",
        value=value,
        acceptance=Acceptance("script"),
        session_id=run_id,
    )


def _script_end(watching: _Watching, result: ScriptResult, limits: Limits) -> Printed:
    error = result.error
    if error is None:
        outcome = _completed(result.run, result.value)
    elif isinstance(error, OutcomeError) and hasattr(error, "outcome"):
        outcome = attrs.evolve(error.outcome, value=None, acceptance=None)
        if outcome.status == "completed":
            outcome = attrs.evolve(outcome, status="failed")
    else:
        outcome = Outcome(
            status="failed",
            cause=code_of(error),
            detail=str(error),
            session_id=result.run,
        )
    document = _document(watching, outcome, result.run, result.usage, limits)
    if error is None:
        return Printed(result=document, text=_shown(result.value), status=0)
    status = _STOPPED if result.status == "stopped" else _FAILED
    if isinstance(error, RametError):
        hint = f"the run failed: {error} [{error.code}]"
        return Printed(result=document, text=None, status=status, hint=hint)
    hint = f"the run failed, since its script raised {type(error).__name__}"
    return Printed(result=document, text=None, status=status, hint=hint, fault=error)


def _started(launch: Launch, root: Agent) -> str:
    return f"run {root.id} in {launch.store}; `ramet ps{launch.option}` shows it"


def _interrupted(
    watching: _Watching,
    run_id: str,
    usage: TreeUsage,
    limits: Limits,
    option: str = "",
) -> Printed:
    """A run that signals ended before it came to its own end (A-064)."""
    cause = "interrupted" if watching.interruption.count == 1 else "cancelled"
    outcome: Outcome[Any] = Outcome(
        status="cancelled", cause=cause, session_id=run_id, detail="by a signal"
    )
    hint = "interrupted"
    if run_id:
        hint = f"interrupted; `ramet resume {run_id}{option}` goes on with it"
    return Printed(
        result=_document(watching, outcome, run_id, usage, limits),
        text=None,
        status=_INTERRUPTED,
        hint=hint,
    )


def _document(
    watching: _Watching,
    outcome: Outcome[Any],
    run_id: str,
    usage: TreeUsage,
    limits: Limits,
) -> HeadlessResult:
    return HeadlessResult(
        outcome=outcome,
        usage=usage.subtree,
        turns=usage.own.requests,
        duration_ms=watching.spent_ms,
        limits=limits,
        session_id=run_id,
    )


async def launch_prompt(launch: Launch) -> Printed:
    """Ask one headless agent."""
    assert launch.spec is not None
    limits, sources = launch.limited()
    async with _opened(launch, launch.spec) as supervisor:
        result: HeadlessResult | None = None
        root: Agent | None = None
        message = ""
        async with _watched(supervisor) as watching:
            headless = Headless(supervisor, launch.spec, sources=sources)
            root, message = await headless.begin(launch.prompt)
            launch.begun.run_id = root.id
            watching.say(_started(launch, root))
            watching.say(f"limits: {stated(limits, sources)}")
            result = await headless.finish(root, message)
        if result is None or watching.interruption.count:
            session_id = "" if root is None else root.id
            usage = await supervisor.usage(session_id)
            printed = _interrupted(watching, session_id, usage, limits)
            return attrs.evolve(printed, hint="interrupted")
        if result.is_error:
            return Printed(
                result=result,
                text=None,
                status=result.exit_status,
                hint=f"the run failed: {result.outcome}",
            )
        empty = result.outcome.cause == "empty"
        return Printed(
            result=result,
            text=None if empty else render(result.value),
            status=result.exit_status,
        )
