"""Supervisor scripts: one run of a script on a root, from its start to its result.

Lives here: the root of a run, the journal events that begin and end it, and how what
the script gives or raises becomes the end of the run.  What a script can do is
`flow.py`'s.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from ..actors.budget import Limits, stated
from ..actors.errors import AgentStoppedError
from ..actors.outcome import TreeUsage
from ..mailbox.canonical import canonical_json, digest_text, freeze
from ..mailbox.errors import CorruptLogError, RametError, UsageError
from ..mailbox.session import fold
from ..mailbox.store import Reader
from .flow import Flow
from .handle import Agent
from .journal import Journal, end_of_cut_group, end_of_unended
from .recall import Recall
from .recorded import ENDED, JOURNAL, RESUMED, STARTED, Recorded, read_recorded
from .runs import ReplayRefusedError, Run
from .script_exit import ends_the_run
from .script_file import ScriptFile

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = [
    "ScriptResult",
    "ScriptResultError",
    "ScriptRun",
    "code_of",
]


class ScriptResultError(RametError):
    """Raised at the end of a run whose script gave what is not JSON data (A-162)."""

    code = "result-not-json-safe"


@attrs.frozen
class ScriptResult:
    """How a run of a script ended.

    Attributes:
        run: the session of its root.
        status: `completed`, `failed` or `stopped`.
        value: what the script gave, immutable; `None` unless it completed.
        error: what it raised, or `None`.
        usage: what the whole tree spent, in this process and in earlier ones.
    """

    run: str
    status: Literal["completed", "failed", "stopped"]
    value: Any
    error: Exception | None
    usage: TreeUsage


class ScriptRun:
    """One run of a script: `begin` or `take_up`, then `finish`.

    A run that is cancelled in between writes no end, and can be taken up again.

    Args:
        supervisor: the running supervisor; `script.root` and `script.specs` are among
            its specs.
        script: the loaded script.
        data: JSON data for it, its input.
        args: words for it.
        limits: what it may spend; enforced by the supervisor that was opened with
            them.
        sources: who set which axis of them, for the journal.
        model: how its default model is called.
        about: what the journal says of the run besides: names and JSON data.
        rerun: who allows that calls with uncertain effects run again (A-188); `None`:
            nobody, and they fail closed.

    Raises:
        UsageError: the input is not JSON data, or the words are not text.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        script: ScriptFile,
        *,
        data: Any = None,
        args: Sequence[str] = (),
        limits: Limits | None = None,
        sources: Mapping[str, str] | None = None,
        model: str | None = None,
        about: dict[str, Any] | None = None,
        rerun: str | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._script = script
        self._input = freeze(data)
        self._args = tuple(args)
        if not all(type(one) is str for one in self._args):
            raise UsageError("the args of a script are texts")
        self._limits = Limits() if limits is None else limits
        self._sources = sources
        self._model = model
        self._about = about or {}
        self._rerun = rerun
        self._recorded: Recorded | None = None
        self._recall: Recall | None = None

    async def begin(self) -> Agent:
        """Start the root of a fresh run; durable, with `run.started`, on return."""
        data = {
            "script": self._script.path,
            "limits": stated(self._limits, self._sources),
            "python": platform.python_version(),
            **self._identity(),
        }
        return await self._supervisor._sending.start_root(
            self._script.root,
            interactive=True,
            contract=None,
            journal=(STARTED, canonical_json(data)),
        )

    async def take_up(self, run: Run) -> Agent:
        """Make the root of an earlier run resident again; what a crash cut is closed.

        Raises:
            NotResumableError, SessionHeldError: it cannot be continued; the text says
                why.
            ReplayRefusedError: `source-run-unusable`: its journal cannot be read.
        """
        storage = self._supervisor._runtime.storage
        events = await storage.read(Reader.load, run.id)
        try:
            self._recorded = read_recorded(events)
        except CorruptLogError as error:
            raise ReplayRefusedError(f"run {run.id}: {error}") from error
        root = await self._supervisor.resume(run.id)
        journal = Journal(self._supervisor, root)
        await self._end_unended(journal, self._recorded)
        limits = stated(self._limits, self._sources)
        journal.note(RESUMED, {"limits": limits, **self._identity()})
        await journal.stored()
        return root

    def _identity(self) -> dict[str, Any]:
        """What a run is made of, as the events say that begin it and go on with it."""
        return {
            "journal": JOURNAL,
            "digest": self._script.digest,
            "sources": dict(self._script.sources),
            "args": list(self._args),
            "input": self._input,
            "input_digest": digest_text(canonical_json(self._input)),
            **self._about,
        }

    async def _end_unended(self, journal: Journal, recorded: Recorded) -> None:
        """Write the ends of what an earlier process was killed in (A-154)."""
        ends: dict[str, str] = {}
        for one in recorded.unended:
            outcome, session = None, None
            if one.session is not None and one.message is not None:
                storage = self._supervisor._runtime.storage
                outcome = await self._supervisor.outcome(one.message)
                session = fold(await storage.read(Reader.load, one.session))
            end = end_of_unended(one, outcome, session)
            ends[end["call"]] = end["status"]
            journal.note("call.ended", end)
        for group in recorded.unended_groups:
            group.calls |= {c: s for c, s in ends.items() if c in group.calls}
            journal.note("group.ended", end_of_cut_group(group))

    async def finish(self, root: Agent) -> ScriptResult:
        """Run the script to its end; `run.ended` is durable on return.

        It raises nothing that the script raises: that is in the result.
        """
        flow = Flow._make(
            self._supervisor,
            root,
            data=self._input,
            args=self._args,
            limits=self._limits,
            model=self._model,
            source=self._script.digest,
            recorded=self._recorded,
            rerun=self._rerun,
        )
        self._recall = flow._recall
        value: Any = None
        error: Exception | None = None
        try:
            with ends_the_run(self._supervisor._runtime.backend):
                value = _json_value(await self._script.main(flow))
        except Exception as raised:
            await flow._recall.hold()
            error = _sole(raised)
        status = _status(error)
        usage = await self._supervisor.usage(root.id)
        end: dict[str, Any] = {"status": status, "result": value}
        if error is not None:
            end["error"] = {"code": code_of(error), "message": str(error)[:2000]}
        journal = Journal(self._supervisor, root)
        journal.note(ENDED, end)
        try:
            await journal.stored()
        except RametError as fault:
            if error is None:
                raise
            # What the script raised is what comes out.
            error.__context__ = fault
        return ScriptResult(root.id, status, value, error, usage)

    def interrupt(self) -> None:
        """Say that the run is being brought to rest and will be cancelled then.

        What fails from now on does not reach the script: it is no answer.
        """
        if self._recall is not None:
            self._recall.interrupted = True


def _sole(error: Exception) -> Exception:
    """The only exception of a group of one, so that its code is not lost in it.

    A group of stops is told by its first: the limit that was spent first.
    """
    while isinstance(error, ExceptionGroup):
        first, *more = error.exceptions
        if more and not all(
            isinstance(one, AgentStoppedError) for one in error.exceptions
        ):
            break
        error = first
    return error


def code_of(error: BaseException) -> str:
    """The stable code of what a script raised."""
    return error.code if isinstance(error, RametError) else "unclassified"


def _status(error: Exception | None) -> Literal["completed", "failed", "stopped"]:
    if error is None:
        return "completed"
    return "stopped" if isinstance(error, AgentStoppedError) else "failed"


def _json_value(value: Any) -> Any:
    try:
        return freeze(value)
    except UsageError as error:
        raise ScriptResultError(
            f"the result of the script is not JSON data: {error}"
        ) from error
