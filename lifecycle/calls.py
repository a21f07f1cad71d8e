"""The calls of one response: judged, rationed, run at once, and logged one by one.

Lives here: what happens between a response with calls and its last result.  Returns
are judged first, in their order; what a limit does not cover is refused; the rest runs
at the same time, but for what sends messages, which keeps its order.  Each result is
logged as it comes; the fold says when the batch has landed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from ..actors.scope import Scope
from ..actors.submission import Judged, Plan, Submission
from ..actors.tool import Tool, ToolCall, call_key
from ..actors.tool_run import checked_result, failure_result, run_tool
from ..mailbox.backend import Backend
from ..mailbox.backend_trio import protected
from ..mailbox.events import CallEnded, Submitted
from ..mailbox.message import Call, CallResult
from ..mailbox.session import ANSWERS
from .activation import Activation
from .allowance import Refusal, Strand
from .current import CURRENT, STRAND
from .forest import Forest
from .handle import Agent

__all__ = ["Calls", "log_submission", "passes_through"]

_SENDING = frozenset(("report", "send_message"))
"""Tools whose calls in one batch run one after the other, to keep their order."""


class Calls:
    """Runs the calls of one response of an agent.

    Args:
        forest: where results are logged.
        backend: tells whose cancel an exception is.
        activation: whose calls they are.
        scope: which tools may run.
        agent: gives the handle that tools act by.
        plan: what the ledger makes of the response; `None` for an agent that converses.
        narrowed: whether only the return may be called.
    """

    __slots__ = (
        "_activation",
        "_agent",
        "_backend",
        "_forest",
        "_judged",
        "_narrowed",
        "_plan",
        "_scope",
        "_session",
        "_strands",
        "over",
    )

    def __init__(
        self,
        forest: Forest,
        backend: Backend,
        activation: Activation,
        scope: Scope,
        agent: Callable[[Activation], Agent],
        plan: Plan | None,
        narrowed: bool,
    ) -> None:
        self._forest = forest
        self._backend = backend
        self._activation = activation
        self._session = activation.session
        self._scope = scope
        self._agent = agent
        self._plan = plan
        self._narrowed = narrowed
        self._judged: list[CallResult | None] = []
        self._strands: list[Strand] = []
        self.over: Refusal | None = None

    async def run(self, calls: tuple[Call, ...]) -> None:
        """Run them all; `over` says which limit refused some, if one did (A-146)."""
        self._judged = [self._judge(call, place) for place, call in enumerate(calls)]
        self._ration(calls)
        self._activation.batch = set()
        if len(calls) == 1:
            await self._call(calls[0], 0)
        else:
            allowance = self._activation.allowance
            if allowance is not None and allowance.turn is not None:
                self._strands = allowance.begin_batch(len(calls))
            async with anyio.create_task_group() as group:
                sending: list[int] = []
                for place, call in enumerate(calls):
                    if call.name in _SENDING:
                        sending.append(place)
                    else:
                        group.start_soon(self._call, call, place)
                if sending:
                    group.start_soon(self._in_order, calls, sending)
            if allowance is not None and self._strands:
                allowance.end_batch()
        self._activation.batch = None
        if self._activation.allowance is not None:
            self._activation.allowance.landed(self._session.usage.tool_calls)

    def _ration(self, calls: tuple[Call, ...]) -> None:
        """Refuse the calls beyond the limit, in their order; answers are not spending.

        The batch lands all the same, and then the agent is stopped (A-146, A-147).
        """
        allowance = self._activation.allowance
        if allowance is None:
            return
        spending = [
            place
            for place, call in enumerate(calls)
            if self._judged[place] is None and call.name not in ANSWERS
        ]
        made = self._session.usage.tool_calls
        runs, self.over = allowance.ration(len(spending), made)
        if self.over is not None:
            refused = CallResult(f"not run: {self.over}", self.over.cause)
            for place in spending[runs:]:
                self._judged[place] = refused

    async def _in_order(self, calls: tuple[Call, ...], places: list[int]) -> None:
        """What one batch sends is accepted in the order of its calls (R-035)."""
        for place in places:
            await self._call(calls[place], place)

    async def _call(self, call: Call, place: int) -> None:
        """Run one call; where places are scarce, as a strand of its own."""
        if not self._strands:
            await self._answer(call, place)
            return
        strand = self._strands[place]
        STRAND.set(strand)
        try:
            await self._answer(call, place)
        finally:
            self._forest.limiter.end_strand(strand)

    @protected
    async def _answer(self, call: Call, place: int) -> None:
        activation = self._activation
        session = self._session
        if activation.stopped:
            return
        result = self._judged[place]
        if result is None:
            tool = self._scope.find(call.name, narrowed=self._narrowed)
            if isinstance(tool, CallResult):
                result = tool
            else:
                result = await self._ran(tool, call, place)
        results = session.results
        if (
            activation.gone
            or results is None
            or place >= len(results)
            or results[place] is not None
        ):
            return
        now = self._forest.ambient.now_ms()
        self._forest.log(
            activation, CallEnded(place, result.content, now, result.error)
        )

    def _judge(self, call: Call, place: int) -> CallResult | None:
        """What the ledger makes of a call; `None` when a tool is to be run."""
        plan = self._plan
        ledger = self._activation.ledger
        if plan is None or ledger is None:
            return None
        disposition = plan.dispositions[place]
        if disposition.action == "withhold":
            return disposition.result
        if disposition.action == "run":
            return None
        judged: Judged = ledger.submit(place, call.arguments)
        log_submission(self._forest, self._activation, judged.submission)
        return judged.result

    async def _ran(self, tool: Tool, call: Call, place: int) -> CallResult:
        """Run a call; a cancel exception that is nobody's cancel is its failure."""
        try:
            return await self._run(tool, call, place)
        except BaseException as error:
            if passes_through(error, self._backend, self._activation):
                raise
            return failure_result(error)

    async def _run(self, tool: Tool, call: Call, place: int) -> CallResult:
        activation = self._activation
        session = self._session
        identity = ToolCall(
            agent=self._agent(activation),
            place=place,
            call_id=call.call_id,
            key=call_key(activation.id, session.turn, session.step, place),
            epoch=self._forest.gate.epochs.get(activation.id, 1),
        )
        installation = activation.installation
        try:
            for before in installation.before:
                waiting = before(call.name, call.arguments, identity)
                if inspect.isawaitable(waiting):
                    await waiting
        except Exception as error:
            return failure_result(error)
        refused = self._withdrawn(call.name) if installation.before else None
        if refused is not None:
            return refused
        if activation.batch is not None:
            activation.batch.add(place)
        check = partial(self._withdrawn, call.name)
        result = await run_tool(tool, call.arguments, identity, check)
        try:
            for after in installation.after:
                replaced: Any = after(call.name, result, identity)
                if inspect.isawaitable(replaced):
                    replaced = await replaced
                if isinstance(replaced, CallResult):
                    result = checked_result(replaced)
        except Exception as error:
            return failure_result(error)
        return result

    def _withdrawn(self, name: str) -> CallResult | None:
        """The result of a call whose tool was revoked while it waited to start."""
        found = self._scope.find(name, narrowed=self._narrowed)
        return found if isinstance(found, CallResult) else None


def passes_through(
    error: BaseException, backend: Backend, activation: Activation
) -> bool:
    """Whether an error that came out of plug-in code is not its own failure.

    That is a cancel of the running task, an interrupt, or the end of a coroutine, also
    in a group; everything else, `SystemExit` too, fails the call and not the process.
    An interrupt that such code raised itself cannot be told from a real one, which may
    come up anywhere in it.
    """
    closed = _is_closed(activation)
    if closed and isinstance(error, GeneratorExit):
        # No loop is left then, so that nothing else can be asked.
        return True
    cancelled = anyio.get_cancelled_exc_class()
    kinds: tuple[type[BaseException], ...] = (cancelled, KeyboardInterrupt)
    if closed:
        kinds = (*kinds, GeneratorExit)
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)[0] is not None
    if isinstance(error, cancelled):
        return not backend.stray_cancel()
    return isinstance(error, kinds)


def _is_closed(activation: Activation) -> bool:
    """Whether the running coroutine of an agent's turn is being closed from outside.

    Who closes it, as when its task is destroyed, runs in another context than a turn.
    """
    mark = CURRENT.get()
    return mark is None or mark[0] is not activation


def log_submission(
    forest: Forest, activation: Activation, submission: Submission | None
) -> None:
    """Log what the ledger records of a return, if it is anything."""
    if submission is not None:
        forest.log(
            activation,
            Submitted(
                submission.place,
                submission.verdict,
                forest.ambient.now_ms(),
                submission.value,
                submission.errors,
            ),
        )
