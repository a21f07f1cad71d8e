"""The driver: does what a turn needs, and waits where it must.

Lives here: the one loop of an agent at work.  It asks the model, runs the calls and
feeds the results in; what follows from them is decided by the pure cores.  The scope
around a turn is its only one, and serves interrupt, cancel and shielding alike; after
each wait it looks at the state again, and how a turn ends is read from the state.
"""

from __future__ import annotations

from collections.abc import Callable

from ..actors.compaction import Compact, Compaction
from ..actors.errors import ModelError, RequestTimeoutError
from ..actors.model import Model, ModelRequest, TextDelta
from ..actors.response import Assembled, ResponseAssembler, ResponseFault
from ..actors.scope import Scope
from ..actors.submission import Accept, Decision, Plan
from ..actors.turn import COMPLETED, Finish, after_response
from ..mailbox.backend import Backend
from ..mailbox.backend_trio import protected
from ..mailbox.errors import SendUnknownError
from ..mailbox.events import Event, RequestFailed, StepEnded
from ..mailbox.message import Call
from .activation import Activation, Closing, Life
from .calls import Calls, log_submission, passes_through
from .compacting import shorten_by, text_of
from .current import CURRENT, STRAND
from .forest import Forest
from .handle import Agent
from .notices import promotable
from .observe import Stage
from .returning import (
    concluded_by,
    finished_by,
    instructions_of,
    reply_tool,
    stopped_by,
)
from .teardown import until_gone

__all__ = ["Driver"]

_TOO_LONG = "context-overflow"


class Driver:
    """Drives the turns of every agent of one forest."""

    def __init__(
        self,
        forest: Forest,
        stage: Stage,
        backend: Backend,
        agent: Callable[[Activation], Agent],
    ) -> None:
        self._forest = forest
        self._stage = stage
        self._backend = backend
        self._agent = agent

    @protected
    async def run(self, activation: Activation) -> None:
        """Drive an activation with an open turn until nothing is claimable.

        What a model or a tool does ends the turn, not the process; only a
        `KeyboardInterrupt` or a native cancel comes out, after the agent has ended.
        """
        forest = self._forest
        fatal: BaseException | None = None
        while True:
            try:
                finish = await self._turn(activation)
            except BaseException as error:
                fatal = error
                closing = Closing("cancelled", f"{type(error).__name__} in the turn")
                forest.close([activation], closing)
                finish = Finish("cancelled", "cancelled", closing.detail)
            activation.scope = None
            if activation.gone:
                return
            forest.end_turn(activation, finish)
            if activation.life is not Life.LIVE or not forest.go_on(activation):
                break
        forest.rest_driver(activation)
        if fatal is not None:
            raise fatal
        if activation.on_idle is not None and not activation.gone:
            waiting, activation.on_idle = activation.on_idle, None
            for callback in waiting:
                callback()

    async def _turn(self, activation: Activation) -> Finish:
        turn = _Turn(self._forest, self._stage, self._backend, activation, self._agent)
        allowance = activation.allowance
        CURRENT.set((activation, activation.session.turn))
        try:
            with self._backend.shield() as activation.scope:
                if allowance is not None:
                    if allowance.deadline is not None:
                        activation.scope.deadline = allowance.deadline
                    if allowance.place is not None:
                        STRAND.set(allowance.begin_turn())
                finish = await turn.run()
                if finish.conclusion is not None and activation.children:
                    finish = await turn.without_children(finish)
                return finish
        except SendUnknownError:
            return Finish("cancelled", "drain", "the store failed")
        except (Exception, SystemExit) as error:
            return turn.failed("unclassified", text_of(error))
        finally:
            turn.keep_partial()
        if not activation.stopped and allowance is not None and allowance.call_s:
            now = self._forest.ambient.now_ms()
            return stopped_by(activation, allowance.call_s, now)
        return Finish("cancelled", "cancelled")


class _Turn:
    """One open turn."""

    __slots__ = (
        "_activation",
        "_agent",
        "_assembler",
        "_backend",
        "_compacted",
        "_decision",
        "_forest",
        "_ledger",
        "_narrowed",
        "_plan",
        "_scope",
        "_session",
        "_stage",
    )

    def __init__(
        self,
        forest: Forest,
        stage: Stage,
        backend: Backend,
        activation: Activation,
        agent: Callable[[Activation], Agent],
    ) -> None:
        self._forest = forest
        self._stage = stage
        self._backend = backend
        self._activation = activation
        self._agent = agent
        self._session = activation.session
        self._assembler: ResponseAssembler | None = None
        self._plan: Plan | None = None
        self._decision: Decision | None = None
        self._narrowed = False
        self._compacted = False
        # Before its assignment a headless root has nothing to return.
        assigned = activation.session.assignment is not None
        self._ledger = activation.ledger if assigned else None
        self._scope = Scope(
            activation.session.header.kind,
            activation.bound,
            activation.installation,
            reply_tool(self._ledger),
        )

    async def run(self) -> Finish:
        """Step until the turn is over; the state may overrule what this gives."""
        activation = self._activation
        forest = self._forest
        gate = forest.gate
        while True:
            await gate.wait(activation.ticket)
            if activation.stopped:
                return COMPLETED
            refused = self._refused()
            if refused is not None:
                return refused
            response = await self._ask()
            if response is None:
                continue
            if isinstance(response, Finish):
                return response
            if activation.gone or activation.stopped:
                self._keep_late(response)
                return COMPLETED
            finish = self._after(response)
            if finish is None and isinstance(response, Assembled):
                if any(map(_runs, response.calls)):
                    # A tool's body waits for the log; a return has none.
                    await gate.wait(activation.ticket)
                calls = Calls(
                    forest,
                    self._backend,
                    activation,
                    self._scope,
                    self._agent,
                    self._plan,
                    self._narrowed,
                )
                await calls.run(response.calls)
                if activation.gone or activation.stopped:
                    return COMPLETED
                finish = self._landed(calls)
            if finish is not None:
                return finish

    # -- the model ---------------------------------------------------------------------

    def _refused(self) -> Finish | None:
        """Why the next request may not be made, if it may not."""
        activation = self._activation
        if activation.allowance is not None:
            most = activation.allowance.requests
            if most is not None and self._session.usage.requests >= most.value:
                return stopped_by(activation, most, self._forest.ambient.now_ms())
        ledger, model = self._ledger, activation.bound.model
        counts = ledger is not None and ledger.contract.kind in ("choice", "schema")
        if counts and model is not None and not model.capabilities.narrowing:
            text = "the model port cannot narrow its tools to reply (A-008)"
            finish = Finish("blocked", "output-contract-unavailable", text)
            return concluded_by(activation, finish, self._forest.ambient.now_ms())
        return None

    def _request(self) -> ModelRequest:
        activation = self._activation
        session = self._session
        narrowed = self._ledger is not None and self._ledger.narrowed
        return ModelRequest(
            session.header.spec.name,
            activation.id,
            session.turn,
            session.step,
            instructions_of(activation),
            tuple(session.transcript),
            self._scope.offered(narrowed=narrowed),
            activation.bound.settings,
        )

    async def _ask(self) -> Assembled | ResponseFault | Finish | None:
        """One model request; a failure of it is logged and ends the turn.

        `None` when the transcript was too long and is shorter now: it is to be made
        again (A-183).
        """
        model = self._activation.bound.model
        if model is None:
            return self.failed("unclassified", "no model was given to this agent")
        request = self._request()
        try:
            response = await self._stream(model, request)
        except BaseException as error:
            if passes_through(error, self._backend, self._activation):
                raise
            failure = _leaf(error)
            finish = self._request_failed(failure)
            overflow = isinstance(failure, ModelError) and failure.code == _TOO_LONG
            compaction = Compaction(request, model, text_of(failure))
            del failure
        else:
            self._compacted = False
            return response
        compact = self._activation.bound.policy.compact
        if not overflow or compact is None or self._compacted:
            return finish
        self._compacted = True
        return await self._compact(compact, compaction, finish)

    async def _compact(
        self, compact: Compact, compaction: Compaction, overflow: Finish
    ) -> Finish | None:
        """Have the transcript shortened; `None` when it was.

        It is asked once for a request; the next one must be answered before it is asked
        again, so that a function which helps little ends in the overflow.
        """
        activation = self._activation
        await self._forest.gate.wait(activation.ticket)
        if activation.stopped:
            return COMPLETED
        refused = self._refused()
        if refused is not None:
            return refused
        why_not = await shorten_by(
            compact, compaction, self._forest, self._backend, activation
        )
        if activation.gone or activation.stopped:
            return COMPLETED
        if why_not is None:
            return None
        return self.failed("provider-error", f"{overflow.detail}; {why_not}")

    async def _stream(
        self, model: Model, request: ModelRequest
    ) -> Assembled | ResponseFault:
        self._assembler = assembler = ResponseAssembler()
        self._activation.asked = len(request.messages)
        tell = self._stage.delta()
        async with model.request(request) as events:
            async for event in events:
                assembler.add(event)
                if tell is not None and type(event) is TextDelta:
                    tell(request.session_id, request.turn, request.step, event.text)
        self._assembler = None
        return assembler.end()

    def _request_failed(self, error: BaseException) -> Finish:
        """Log a failed request; a `SystemExit` of a model ends no process (R-267)."""
        self._assembler = None
        cause = code = "unclassified"
        usage = None
        if isinstance(error, ModelError):
            timed_out = isinstance(error, RequestTimeoutError)
            cause = "request-timeout" if timed_out else "provider-error"
            code, usage = str(error.code), error.usage
        text = text_of(error)
        if not self._activation.gone:
            now = self._forest.ambient.now_ms()
            self._forest.log(self._activation, RequestFailed(code, text, now, usage))
        return self.failed(cause, f"{code}: {text}" if code != cause else text)

    def keep_partial(self) -> None:
        """Keep what streamed before the request was stopped (R-157)."""
        assembler, self._assembler = self._assembler, None
        if assembler is None or self._activation.gone:
            return
        if self._session.open is None or self._session.calls is not None:
            return
        now = self._forest.ambient.now_ms()
        text = assembler.partial()
        if text:
            event = StepEnded(text, (), "cut", now, None, cut=True)
            self._forest.log(self._activation, event)
        else:
            failed = RequestFailed("cancelled", "the request was stopped", now)
            self._forest.log(self._activation, failed)

    def _keep_late(self, response: Assembled | ResponseFault) -> None:
        """Keep what was answered when the turn had been stopped already (law 21).

        Its calls are not run, so they are not kept; what it cost was spent.
        """
        activation = self._activation
        if activation.gone or self._session.open is None:
            return
        now, usage = self._forest.ambient.now_ms(), response.usage
        if isinstance(response, Assembled) and response.text:
            event: Event = StepEnded(response.text, (), "cut", now, usage, cut=True)
        else:
            text = "it was answered after the turn had been stopped"
            event = RequestFailed("cancelled", text, now, usage)
        self._forest.log(activation, event)

    def _after(self, response: Assembled | ResponseFault) -> Finish | None:
        """Log a response; gives how the turn ends, `None`: its calls are to be run."""
        activation = self._activation
        forest = self._forest
        now = forest.ambient.now_ms()
        finish = after_response(response)
        if isinstance(response, ResponseFault):
            forest.log(
                activation,
                RequestFailed(response.code, response.reason, now, response.usage),
            )
            return self.failed(response.code, response.reason)
        forest.log(
            activation,
            StepEnded(
                response.text, response.calls, response.stop, now, response.usage
            ),
        )
        ledger = self._ledger
        if ledger is None:
            return finish
        if response.refusal is not None:
            return self.failed("output-refused", response.refusal[:200] or None)
        if response.calls:
            self._narrowed = ledger.narrowed
            self._plan = ledger.plan(response.calls)
            log_submission(forest, activation, self._plan.submission)
            return None
        waits = len(activation.children or ()) + len(self._session.inbox.waiting)
        waits += len(promotable(activation))
        decision = ledger.turn_ended(response.stop, response.text or None, waits)
        log_submission(forest, activation, decision.submission)
        self._decision = decision
        return finished_by(activation, decision, now) or COMPLETED

    def _landed(self, calls: Calls) -> Finish | None:
        """What follows when every call of the batch has its result."""
        ledger = self._ledger
        now = self._forest.ambient.now_ms()
        self._plan = None
        if calls.over is not None:
            return stopped_by(self._activation, calls.over, now)
        if ledger is None:
            return None
        self._decision = ledger.landed()
        return finished_by(self._activation, self._decision, now)

    # -- the end -----------------------------------------------------------------------

    def failed(self, cause: str, detail: str | None) -> Finish:
        """The turn failed, and with it the assignment of a returning agent."""
        finish = Finish("failed", cause, detail)
        return concluded_by(self._activation, finish, self._forest.ambient.now_ms())

    async def without_children(self, finish: Finish) -> Finish:
        """Before an outcome is committed, no child lives (A-022, A-023).

        What the children spent meanwhile is in the receipt too.
        """
        activation = self._activation
        children = list((activation.children or {}).values())
        if activation.bound.policy.at_reply == "cancel" or finish.status != "completed":
            self._forest.close(children, Closing("cancelled", "its parent replied"))
        if activation.allowance is not None:
            self._forest.limiter.leave(activation.allowance)
        while activation.children:
            for child in list(activation.children.values()):
                await until_gone(self._backend, child)
        if activation.stopped:
            return COMPLETED
        if isinstance(self._decision, Accept):
            now = self._forest.ambient.now_ms()
            return finished_by(activation, self._decision, now) or finish
        return finish


def _runs(call: Call) -> bool:
    return call.name != "reply"


def _leaf(error: BaseException) -> BaseException:
    """The only error of a group, which a port's own task group may have made."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
