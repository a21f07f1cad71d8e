"""The supervisor: the public face of a running forest.

Lives here: the operations that callers have, with their contracts.  Nothing is decided
here: starts and sends are `sending.py`'s, resuming is `residency.py`'s, questions are
`inquiry.py`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Literal, TypeVar, overload

import anyio
import anyio.lowlevel

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.contract import Contract, Reply
from ..actors.contributions import Contribution
from ..actors.model import Model
from ..actors.outcome import Outcome, TreeUsage
from ..actors.policy import Policy
from ..mailbox.backend import Backend
from ..mailbox.errors import UnauthorizedError, UsageError
from ..mailbox.ids import Ambient
from ..mailbox.message import Content
from ..mailbox.storage import Storage
from ..mailbox.store import Entry
from .activation import Activation, Closing, Life
from .bureau import Bureau
from .errors import SetupReleaseError
from .figures import Statistics, queues
from .handle import Agent
from .inquiry import Inquiry
from .observe import Gap
from .readers import Explanation, Listing, MessageStatus
from .residency import Residency
from .runtime import Runtime
from .sending import Sending, Started
from .teardown import check_seconds, until_gone

__all__ = ["Supervisor"]

T = TypeVar("T")


class Supervisor:
    """Owns every life and settles every race.  Received from `ramet.open`, never made.

    Every operation that admits work raises `DrainingError` once a drain has begun, and
    `PersistenceUnavailableError` after a commit has failed.
    """

    _runtime: Runtime
    _sending: Sending
    _residency: Residency
    _inquiry: Inquiry

    def __init__(self) -> None:
        raise TypeError("a supervisor is received from ramet.open, not made")

    @classmethod
    def _make(
        cls,
        storage: Storage,
        backend: Backend,
        ambient: Ambient,
        *,
        specs: Iterable[AgentSpec],
        model: Model | str | None,
        policy: Policy,
        limits: Limits | None,
    ) -> Supervisor:
        supervisor = object.__new__(cls)
        runtime = Runtime(
            storage,
            backend,
            ambient,
            specs=specs,
            model=model,
            policy=policy,
            limits=limits,
            host=Bureau(supervisor),
            owner=supervisor,
        )
        supervisor._runtime = runtime
        supervisor._residency = Residency(runtime)
        supervisor._inquiry = Inquiry(runtime, supervisor._residency.busy)
        supervisor._sending = Sending(
            runtime, supervisor._residency, supervisor._inquiry
        )
        return supervisor

    # -- starting ----------------------------------------------------------------------

    async def start_root(self, spec: AgentSpec, *, interactive: bool) -> Agent:
        """Start a root; returns when it is durable.

        Args:
            spec: what it is.
            interactive: whether it converses and parks at rest, or returns a value.

        Raises:
            UsageError: an argument is outside its contract; nothing happened.
        """
        contract = None if interactive else Reply()
        return await self._sending.start_root(
            spec, interactive=interactive, contract=contract
        )

    async def start_child(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        key: str | None = None,
    ) -> Started:
        """Start a continuable child; returns when its prompt is durable.

        Args:
            parent: the exact live agent that will own it.
            spec: what it is.
            prompt: its first assignment.
            key: makes a repeat give the same ids (R-064).

        Raises:
            DepthExceededError: it would be deeper than the parent's `max_depth`.
            InboxFullError: the prompt alone has more bytes than its `inbox_bytes`.
            SetupRevokedError: a contribution was revoked meanwhile.
            UnauthorizedError, ActivationClosingError, KeyConflictError: nothing
            happened.
            SendUnknownError: the commit failed.
        """
        return await self._sending.start_child(parent, spec, prompt, key=key)

    @overload
    async def call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: Contract[T],
        limits: Limits | None = None,
        key: str | None = None,
    ) -> Outcome[T]: ...

    @overload
    async def call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: None = None,
        limits: Limits | None = None,
        key: str | None = None,
    ) -> Outcome[Any]: ...

    async def call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: Contract[Any] | None = None,
        limits: Limits | None = None,
        key: str | None = None,
    ) -> Outcome[Any]:
        """Call a one-shot child and wait for its outcome.

        Its agent and everything below it are gone when this returns (A-050).  A caller
        who is cancelled cancels the child; the outcome is stored and the cancellation
        comes out (A-051).  `contract` is `Reply()` when it is left out.  `key` stands
        for kind, name of the spec, prompt and contract: a repeat with other `limits` is
        no conflict and gives the earlier outcome, under the limits of the first.

        Raises:
            what `start_child` raises; how the call ended is in the outcome.
        """
        return await self._sending.call(
            parent, spec, prompt, contract=contract, limits=limits, key=key
        )

    async def start_call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: Contract[Any] | None = None,
        limits: Limits | None = None,
        key: str | None = None,
    ) -> Started:
        """Call a one-shot child in the background; returns when its prompt is durable.

        Its outcome enters the parent as one waking message; `wait` of the `message_id`
        gives it as an object.

        Raises:
            what `start_child` raises.
        """
        return await self._sending.start_call(
            parent,
            spec,
            prompt,
            contract=contract,
            limits=limits,
            key=key,
            background=True,
        )

    # -- messages ----------------------------------------------------------------------

    async def tell(
        self, root: Agent, content: Content, *, key: str | None = None
    ) -> str:
        """Send a root outside input, which becomes one turn; gives its `MessageId`.

        It returns when the message is durable, and does not wait for the turn.

        Raises:
            UsageError, UnauthorizedError, ActivationClosingError, KeyConflictError,
            InboxFullError: nothing happened.
            SendUnknownError: the commit failed; `lookup("host", key)` settles it.
        """
        return await self._sending.tell(root, content, key=key)

    async def followup(
        self, parent: Agent, child_id: str, content: Content, *, key: str | None = None
    ) -> str:
        """Send a child a message that becomes one later turn; gives its `MessageId`.

        A child that is not resident is resumed; one that is closing is waited for.

        Raises:
            NotResumableError: the id names no session that can be continued.
            UnauthorizedError: it is not a child of `parent`, or `parent` is not live.
            and what `tell` raises.
        """
        return await self._sending.followup(parent, child_id, content, key=key)

    async def inject(
        self, parent: Agent, child_id: str, content: Content, *, key: str | None = None
    ) -> str:
        """Send a resident child a quiet message; gives its `MessageId`.

        Raises:
            NotResidentError: the child is not resident, or closing.
            and what `tell` raises.
        """
        return await self._sending.inject(parent, child_id, content, key=key)

    async def report_from(
        self,
        child: Agent,
        content: Content,
        *,
        delivery: Literal["quiet", "wakeup"] | None = None,
        key: str | None = None,
        ack: Literal["accepted", "stored"] = "stored",
    ) -> str:
        """Send a report to the direct parent; gives its `MessageId`.

        Args:
            child: the exact live agent that reports; its lineage names the parent.
            content: what it reports.
            delivery: `quiet` or `wakeup`; `None` takes the child's policy.
            key: makes a repeat give the same id.
            ack: whether to return at acceptance, or once the message is durable.

        Raises:
            ParentUnavailableError: the parent is closing or gone; nothing happened.
            and what `tell` raises.
        """
        return await self._sending.report(
            child, content, delivery=delivery, key=key, ack=ack
        )

    async def wait(self, message_id: str) -> Outcome[Any]:
        """Wait for the outcome of the assignment that a message opened.

        Raises:
            UnknownMessageError: no log holds it.
            ParkedError: it waits in a session that is not resident, and nothing in this
                opening is about to run it: an interrupt parked it (R-264), a drain kept
                it, or a crash cut the session off.  The text says what would run it;
                after that a wait gives its outcome.
            DrainingError: the same, and the whole supervisor is draining.
            SelfWaitError: it is the open assignment of the calling agent.
        """
        return await self._inquiry.wait(message_id)

    async def resume(self, session_id: str) -> Agent:
        """Make a stored session resident; what waits in it runs.

        It stays until its next turn, or a child of it, has ended, or until
        `agent.release()`.

        Raises:
            SessionHeldError: it is resident, or being resumed.
            NotResumableError: it cannot be continued; the text says why.
        """
        return await self._residency.resume(session_id)

    # -- ending ------------------------------------------------------------------------

    def interrupt(self, target_id: str, *, by: Agent | None = None) -> None:
        """Stop the current turn of an agent; its queue is kept and parked.

        Without an open turn nothing happens, and so it is with a session that is not
        resident, whoever asks: a plain call cannot read its lineage.  It awaits no
        durability.

        Args:
            target_id: the session.
            by: an exact live ancestor of it, or `None`: the host.

        Raises:
            UnauthorizedError: `by` is no live ancestor of it (R-142).
        """
        forest = self._runtime.forest
        target = forest.live.get(target_id)
        name = "host"
        if by is not None:
            name = self._right_to_interrupt(target_id, target, by)
        if target is not None:
            forest.interrupt(target, name)

    def _right_to_interrupt(
        self, target_id: str, target: Activation | None, by: Agent
    ) -> str:
        live = self._runtime.forest.live
        exact = (
            type(by) is Agent
            and live.get(by.id) is by._activation
            and by._activation._agent is by
        )
        if not exact:
            raise UnauthorizedError("only an exact live ancestor interrupts")
        inside = by._activation is target or by.id == target_id
        if inside or (target is not None and by._activation not in target.lineage()):
            raise UnauthorizedError(f"{by.id} is no ancestor of {target_id}")
        return by.id

    async def cancel(
        self, target: Agent | str, *, reason: str | None = None, grace_s: float = 5.0
    ) -> None:
        """End an agent and everything below it; what waits in them is discarded.

        Of a session that is not resident, what it keeps is discarded and told (R-229).
        Called again, it waits for the same end.  When it returns, what it wrote is
        durable.

        Args:
            target: an agent, or the id of a session.
            reason: what is recorded as the cause.
            grace_s: seconds after which a driver that does not come back is given up.

        Raises:
            NotResumableError: no session has that id.
            TeardownError: a branch failed; everything was attempted and is gone.  It
                comes out once, and not again when `open` is left, which still waits for
                a coroutine that refuses to be cancelled.
        """
        if reason is not None and type(reason) is not str:
            raise UsageError("reason must be text")
        check_seconds(grace_s, "grace_s")
        await anyio.lowlevel.checkpoint_if_cancelled()
        closing = Closing("cancelled", reason)
        live = self._runtime.forest.live
        target_id = target.id if type(target) is Agent else target
        teardown = self._runtime.teardown
        orphans = await self._residency.orphans_below(target_id)
        ended = await teardown.end(orphans, closing, grace_s)
        if isinstance(target, str):
            while (found := live.get(target)) is None:
                if await self._residency.cancel_absent(target, closing):
                    teardown.raise_errors(ended)
                    return
        elif type(target) is Agent:
            found = target._activation
            if target._owner is not self or found._agent is not target:
                raise UnauthorizedError(
                    "this agent is a copy, or of another supervisor: cancel by its id"
                )
        else:
            raise UsageError("target must be an Agent or the id of a session")
        try:
            ended |= await teardown.end([found], closing, grace_s)
        finally:
            await self._runtime.quiet()
        teardown.raise_errors(ended)

    async def drain(
        self,
        *,
        below: Agent | Iterable[Agent] | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """Close admission and bring a forest to rest; every waiting message is kept.

        Without `below` admission is closed for good.  With it, it stays closed below
        those agents also after this has returned, until each of them is gone: until
        then start, call, followup and inject by it or by what is below it raise
        `DrainingError`, and so do reports from below.  It goes on with its own turns,
        reports and tells.  To have agents below it again, cancel it or let it settle,
        and resume it; a `resume` by the host also runs what was kept in one session.

        Args:
            below: exact live agents whose descendants come to rest, while they
                themselves stay; `None`: everything.
            deadline_s: seconds after which the rest is forced; `None`: the policy's.

        Raises:
            UsageError: an argument is outside its contract; nothing happened.
            UnauthorizedError: one of `below` is not the exact live agent.
            TeardownError: a branch failed; everything was attempted and is at rest.
        """
        runtime = self._runtime
        if deadline_s is None:
            deadline_s = runtime.policy.rest_deadline_s
        check_seconds(deadline_s, "deadline_s")
        if below is None:
            await self._drain(Closing("drain"), deadline_s)
            return
        if isinstance(below, str) or not isinstance(below, Iterable | Agent):
            raise UsageError(f"below must be live agents, not {below!r:.100}")
        agents = [below] if isinstance(below, Agent) else list(below)
        roots = [self._exact(agent) for agent in agents]
        tops = []
        for root in roots:
            runtime.forest.below[root] = None
            tops += list((root.children or {}).values())
        try:
            await runtime.teardown.bring_down(tops, Closing("drain"), deadline_s)
        finally:
            await runtime.quiet()

    async def _drain(self, closing: Closing, deadline_s: float) -> None:
        runtime = self._runtime
        forest = runtime.forest
        if forest.draining is None:
            forest.draining = closing
        tops = [one for one in forest.live.values() if one.parent is None]
        try:
            await runtime.teardown.bring_down(tops, closing, deadline_s)
        finally:
            await runtime.calls.none()
            await runtime.quiet()

    def _exact(self, agent: object) -> Activation:
        live = self._runtime.forest.live
        if type(agent) is Agent:
            activation = agent._activation
            if live.get(activation.id) is activation and activation._agent is agent:
                return activation
        raise UnauthorizedError("drain needs the exact live agent")

    # -- contributions and observers ---------------------------------------------------

    def register_setup(self, contribution: Contribution) -> Callable[[], None]:
        """Register a set-up contribution; gives what revokes it.

        Agents get it at their next activation.  When the revocation has returned, no
        new call of its tools starts anywhere (law 17).

        Raises:
            UsageError: it is not a plain function.
            SetupReleaseError: raised by the revocation when releases failed.
        """
        undo = self._runtime.contributions.register(contribution)

        def revoke() -> None:
            errors = undo()
            if errors:
                raise SetupReleaseError(
                    "the contribution is revoked, but releases failed", errors
                )

        return revoke

    def observe(self, observer: object) -> Callable[[], None]:
        """Tell an observer what happens from now on; gives what stops that.

        See `ramet.Observer` for its methods, each of which is optional.
        """
        return self._runtime.stage.observe(observer)

    # -- questions ---------------------------------------------------------------------

    def agent(self, session_id: str) -> Agent | None:
        """The live agent of a session, or `None`; never reads the store."""
        live = self._runtime.forest.live.get(session_id)
        return None if live is None else self._runtime.agent(live)

    def statistics(self) -> Statistics:
        """What it is doing: agents, queues, commits, and how long messages waited.

        It looks at every resident agent, and never reads the store.
        """
        runtime = self._runtime
        forest, gate = runtime.forest, runtime.gate
        return Statistics(
            **queues(forest.live.values()),
            operations=runtime.calls.count,
            waits=runtime.waits.count,
            tasks=runtime.backend.tasks(),
            keys=len(forest.keys),
            events=gate.durable,
            undecided_events=gate.ticket - gate.durable,
            commits=gate.commits,
            commit_events=gate.sizes.spread(),
            commit_ms=gate.took_ms.spread(),
            waited_ms=forest.waited_ms.spread(),
        )

    async def children(
        self,
        session_id: str | None = None,
        *,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Listing]:
        """A page of the direct children of a session (`None`: the roots)."""
        return await self._inquiry.children(session_id, after, limit)

    async def descendants(
        self, session_id: str, *, after: str | None = None, limit: int = 100
    ) -> list[Listing]:
        """A page of everything below a session, parents before children."""
        return await self._inquiry.descendants(session_id, after, limit)

    async def message(self, message_id: str) -> MessageStatus:
        """What became of a message.

        Raises:
            UnknownMessageError: no log holds it.
        """
        return await self._inquiry.message(message_id)

    async def lookup(self, sender: str, key: str) -> str | None:
        """What a sender's key names: a `MessageId`, or `None` if nothing was stored.

        It settles a `SendUnknownError` for good.  `sender` is a session id or `"host"`.
        """
        return await self._inquiry.lookup(sender, key)

    async def outcome(self, message_id: str) -> Outcome[Any] | None:
        """The outcome of an assignment, or `None` while it is open.

        Raises:
            UnknownMessageError: no log holds it.
        """
        return await self._inquiry.outcome(message_id)

    async def usage(self, session_id: str) -> TreeUsage:
        """What a session spent itself, and with everything below it."""
        return await self._inquiry.usage(session_id)

    async def explain(self, session_id: str) -> Explanation:
        """Why a session is in its state."""
        return await self._inquiry.explain(session_id)

    def events(
        self, session_id: str | None = None, after: int = 0
    ) -> AsyncIterator[Entry | Gap]:
        """What happens, in order, once it is durable.

        With a session, its log from the event number `after` on and then what comes.
        Without one, everything from now on; a slow reader gets a `Gap` where it missed
        something (R-216).
        """
        return self._inquiry.events(session_id, after)

    # -- what handles ask --------------------------------------------------------------

    def _follow(self, activation: Activation, after: int) -> AsyncIterator[Entry]:
        return self._inquiry.follow(activation.id, after, activation)

    def _release(self, activation: Activation) -> None:
        self._runtime.forest.rest(activation)

    async def _until_gone(self, activation: Activation) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        async with self._runtime.lending() as lending:
            await until_gone(lending, activation)

    async def _until_idle(self, activation: Activation) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        runtime = self._runtime
        async with runtime.lending():
            while activation.life is not Life.GONE and (
                activation.session.open is not None
                or activation.session.inbox.claimable
            ):
                if activation.on_idle is None:
                    activation.on_idle = []
                await runtime.backend.wait(activation.on_idle.append)
        await runtime.gate.wait(activation.ticket)
