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
from ..mailbox.canonical import canonical_json, freeze
from ..mailbox.errors import RametError, UsageError
from .flow import Flow, journal
from .handle import Agent
from .recall import Recall
from .runs import ENDED, RESUMED, STARTED, Run
from .script_file import ScriptFile

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = [
    "ScriptExitedError",
    "ScriptResult",
    "ScriptResultError",
    "ScriptRun",
    "code_of",
]


class ScriptResultError(RametError):
    """Raised at the end of a run whose script gave what is not JSON data (A-162)."""

    code = "result-not-json-safe"


class ScriptExitedError(RametError):
    """Raised at the end of a run whose script called `sys.exit`, and gave nothing."""

    code = "script-exited"


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
        self._recall: Recall | None = None

    async def begin(self) -> Agent:
        """Start the root of a fresh run; durable, with `run.started`, on return."""
        data = {
            "script": self._script.path,
            "digest": self._script.digest,
            "args": list(self._args),
            "input": self._input,
            "limits": stated(self._limits, self._sources),
            "python": platform.python_version(),
            **self._about,
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
        """
        root = await self._supervisor.resume(run.id)
        await journal(
            self._supervisor,
            root,
            RESUMED,
            {
                "digest": self._script.digest,
                "limits": stated(self._limits, self._sources),
                **self._about,
            },
        )
        return root

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
        )
        self._recall = flow._recall
        value: Any = None
        error: Exception | None = None
        try:
            value = _json_value(await self._script.main(flow))
        except Exception as raised:
            await flow._recall.hold()
            error = _sole(raised)
        except SystemExit as raised:
            error = ScriptExitedError(f"the script called sys.exit({raised.code!r})")
        status = _status(error)
        usage = await self._supervisor.usage(root.id)
        end: dict[str, Any] = {"status": status, "result": value}
        if error is not None:
            end["error"] = {"code": code_of(error), "message": str(error)[:2000]}
        await journal(self._supervisor, root, ENDED, end)
        return ScriptResult(root.id, status, value, error, usage)

    def interrupt(self) -> None:
        """Say that the run is being brought to rest and will be cancelled then.

        What fails from now on does not reach the script: it is no answer.
        """
        if self._recall is not None:
            self._recall.interrupted = True


def _sole(error: Exception) -> Exception:
    """The only exception of a group of one, so that its code is not lost in it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
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
