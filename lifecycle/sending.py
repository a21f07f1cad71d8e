"""Sending: every operation that starts an agent or gives one a message.

Lives here: what is awaited around the accepting spans: the key before, durability
after, the routing of a followup to a child that is closing or not resident, and the
wait of a call.  What is accepted, and in which order it is checked, is
`admission.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import Limits, check_limits
from ..actors.contract import Contract, Reply
from ..actors.errors import DeclarationError
from ..actors.outcome import Outcome
from ..mailbox.errors import SendUnknownError, UsageError
from ..mailbox.events import Journaled
from ..mailbox.keys import RESERVED, check_key
from ..mailbox.message import Content, to_blocks
from ..mailbox.store import KeyRow, Reader
from .activation import Activation, Closing
from .admission import Newborn, Send
from .handle import Agent
from .inquiry import Inquiry
from .lending import Lending
from .residency import Residency
from .returning import child_outcome
from .runtime import Runtime
from .teardown import until_gone, until_over

__all__ = ["Sending", "Started"]

_ANYTHING = Reply()
_CRASHED = "crashed"


@attrs.frozen
class Started:
    """What a start gives: the child's session, and the message that it was given."""

    child_id: str
    message_id: str


class Sending:
    """Starts and sends, for one runtime."""

    def __init__(
        self, runtime: Runtime, residency: Residency, inquiry: Inquiry
    ) -> None:
        self._runtime = runtime
        self._residency = residency
        self._inquiry = inquiry
        # Of a child that a key names, how many calls wait for it.
        self._callers: dict[str, int] = {}

    # -- starting ----------------------------------------------------------------------

    async def start_root(
        self,
        spec: AgentSpec,
        *,
        interactive: bool,
        contract: Contract[Any] | None,
        journal: tuple[str, str] | None = None,
    ) -> Agent:
        """Start a root; a headless one has a contract.

        `journal` is a kind and a canonical text that its log begins with, in the same
        batch as its header.
        """
        runtime = self._runtime
        if type(interactive) is not bool:
            raise UsageError("interactive must be True or False")
        bound = runtime.bind_by_name(spec)
        newborn = Newborn(
            "interactive" if interactive else "headless",
            bound,
            contract,
            None if contract is None else runtime.declare(contract),
        )
        async with runtime.asked("host", None):
            activation = runtime.admission.start_root(newborn)
            if journal is not None:
                now = runtime.ambient.now_ms()
                runtime.forest.log(activation, Journaled(*journal, now))
        await runtime.stored(activation.id, activation.ticket, None)
        return runtime.agent(activation)

    async def start_child(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        key: str | None,
        own: bool = False,
        known: bool = False,
    ) -> Started:
        """Start a continuable child.

        `own`: under a key of the runtime's own, which the store is asked for only where
        it may be `known`.
        """
        if not own:
            check_key(key)
        newborn = Newborn("continuable", self._runtime.bind_by_name(spec))
        asks = known or not own
        return await self._start(parent, newborn, prompt, key, asks=asks)

    async def start_call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: Contract[Any] | None,
        limits: Limits | None,
        key: str | None,
        background: bool,
        own: bool = False,
        known: bool = False,
        accepted: list[str] | None = None,
        identities: str | None = None,
        begun: Callable[[str, str], None] | None = None,
        waits: bool = True,
    ) -> Started:
        """Start a one-shot child; under a key whose outcome is a crash, once more.

        A repeat of a crashed call is one fresh agent under a key of the runtime's own
        (A-058); `own` and `known` are those of `start_child`.  `accepted` gets the id
        of the child as soon as there is one, before it is durable.  `identities` is
        what its receipt says of a script, as canonical text.  `begun` is called in the
        span in which the child comes to be, with its id and that of its prompt.
        `waits` is whether it is stored on return; a repeat has to be.
        """
        newborn = self._oneshot(spec, contract, limits, background=background)
        if identities is not None:
            newborn = attrs.evolve(newborn, identities=identities)
        if not own:
            check_key(key)
        asks = known or not own
        started = await self._start(
            parent,
            newborn,
            prompt,
            key,
            asks=asks,
            accepted=accepted,
            begun=begun,
            waits=waits or (key is not None and not own),
        )
        attempt = 1
        live = self._runtime.forest.live
        while key is not None and not own and started.child_id not in live:
            outcome = await self._inquiry.outcome(started.message_id)
            if outcome is None or outcome.cause != _CRASHED:
                break
            attempt += 1
            again = f"{RESERVED}again.{attempt}.{key}"
            started = await self._start(
                parent, newborn, prompt, again, accepted=accepted
            )
        return started

    async def _start(
        self,
        parent: Agent,
        newborn: Newborn,
        prompt: Content,
        key: str | None,
        *,
        asks: bool = True,
        accepted: list[str] | None = None,
        begun: Callable[[str, str], None] | None = None,
        waits: bool = True,
    ) -> Started:
        runtime = self._runtime
        blocks = to_blocks(prompt)
        digest = ""
        if key is not None:
            extra = f"{newborn.kind} {newborn.bound.name} {newborn.record or ''}"
            digest = runtime.forest.digest("prompt", blocks, extra)
        send = Send("prompt", blocks, digest, "wakeup", key)
        asked = key if asks else None
        async with runtime.asked(id_of(parent), asked, own=True) as stored:
            if stored is not None and stored.digest != digest:
                row = await runtime.storage.read(Reader.row, stored.session)
                send = attrs.evolve(send, kind=None if row is None else row.kind)
            before = len(runtime.forest.live)
            child, message, ticket = runtime.admission.start_child(
                parent, newborn, _with(send, stored)
            )
            if begun is not None and len(runtime.forest.live) > before:
                begun(child, message)
        if accepted is not None:
            accepted.append(child)
            if key is not None:
                self._callers[child] = self._callers.get(child, 0) + 1
        if waits:
            await runtime.stored(message, ticket, key)
        return Started(child, message)

    def _oneshot(
        self,
        spec: AgentSpec,
        contract: Contract[Any] | None,
        limits: Limits | None,
        *,
        background: bool,
    ) -> Newborn:
        if contract is None:
            contract = _ANYTHING
        elif not isinstance(contract, Contract):
            raise DeclarationError(f"contract must be a Contract, not {contract!r}")
        check_limits(limits)
        bound = self._runtime.bind(spec)
        if limits is not None:
            bound = bound.within(limits)
        record = self._runtime.declare(contract)
        return Newborn("oneshot", bound, contract, record, background)

    async def call(
        self,
        parent: Agent,
        spec: AgentSpec,
        prompt: Content,
        *,
        contract: Contract[Any] | None,
        limits: Limits | None,
        key: str | None,
        own: bool = False,
        known: bool = False,
        identities: str | None = None,
        begun: Callable[[str, str], None] | None = None,
    ) -> Outcome[Any]:
        """Call a one-shot child and wait for its outcome.

        A caller who is cancelled cancels the child, from its acceptance on, unless
        another one waits for it under the same key: nobody else will be told what
        became of it (A-051).
        """
        runtime = self._runtime
        gate = runtime.gate
        accepted: list[str] = []
        try:
            started = await self.start_call(
                parent,
                spec,
                prompt,
                contract=contract,
                limits=limits,
                key=key,
                background=False,
                own=own,
                known=known,
                accepted=accepted,
                identities=identities,
                begun=begun,
                waits=False,
            )
            activation = runtime.forest.live.get(started.child_id)
            # Under a key that the store was asked for, the start is stored by now.
            ticket = 0
            if key is None or own:
                ticket = gate.ticket if activation is None else activation.ticket
            if activation is not None:
                # It asks nothing before its start is stored: one wait is enough.
                lending = runtime.lending()
                if lending.lends:
                    await self._lend_until_gone(lending, activation)
                else:
                    await until_over(runtime.backend, activation, gate)
            if ticket > gate.durable:
                await gate.wait(ticket, key or started.message_id)
        except BaseException:
            await self._call_off(accepted)
            raise
        finally:
            if key is not None:
                self._forget_caller(accepted)
        if activation is None:
            outcome = await self._inquiry.outcome(started.message_id)
            if outcome is None:
                return await self._inquiry.wait(started.message_id)
            return outcome
        return await self._told(activation)

    async def _lend_until_gone(self, lending: Lending, activation: Activation) -> None:
        """Lend a place until an agent is gone; a caller who is cancelled ends it first.

        It holds the place that the caller is to have back.
        """
        async with lending:
            try:
                await until_gone(lending, activation)
            except BaseException:
                await self._call_off([activation.id])
                raise

    def _forget_caller(self, accepted: list[str]) -> None:
        callers = self._callers
        for child in accepted:
            callers[child] -= 1
            if not callers[child]:
                del callers[child]

    async def _call_off(self, accepted: list[str]) -> None:
        """End what a call started, shielded and bounded; it is stored on return.

        What fails in it comes out of the cancel or the drain that this is part of, and
        where there is none, when `open` is left.
        """
        runtime = self._runtime
        live, callers = runtime.forest.live, self._callers
        alone = [child for child in accepted if callers.get(child, 1) <= 1]
        started = [live[child] for child in alone if child in live]
        if not started:
            return
        with anyio.CancelScope(shield=True):
            closing = Closing("cancelled", "its caller was cancelled")
            await runtime.teardown.end(started, closing, 5.0)
            await runtime.quiet()

    async def _told(self, activation: Activation) -> Outcome[Any]:
        """The outcome of a call that is over, once it is durable (A-125, A-130)."""
        runtime = self._runtime
        outcome = child_outcome(activation)
        if activation.ticket <= runtime.gate.durable:
            return outcome
        try:
            await runtime.gate.wait(activation.ticket)
        except SendUnknownError as error:
            if outcome.status != "completed":
                return outcome
            return attrs.evolve(
                outcome,
                cause="storage-failed",
                value=None,
                acceptance=None,
                available=False,
                error=error,
            )
        return outcome

    # -- messages ----------------------------------------------------------------------

    async def tell(self, root: Agent, content: Content, *, key: str | None) -> str:
        """Outside input to a root."""
        runtime = self._runtime
        send = self._send("tell", content, key, "wakeup")
        async with runtime.asked("host", key) as stored:
            message, ticket = runtime.admission.tell(root, _with(send, stored))
        await runtime.stored(message, ticket, key)
        return message

    async def inject(
        self, parent: Agent, child_id: str, content: Content, *, key: str | None
    ) -> str:
        """A quiet message to a resident child."""
        runtime = self._runtime
        send = self._send("inject", content, key, "quiet")
        async with runtime.asked(id_of(parent), key) as stored:
            message, ticket = runtime.admission.inject(
                parent, child_id, _with(send, stored)
            )
        await runtime.stored(message, ticket, key)
        return message

    async def report(
        self,
        child: Agent,
        content: Content,
        *,
        delivery: str | None,
        key: str | None,
        ack: str,
        own: bool = False,
    ) -> str:
        """A report to the direct parent; `own`: under a key of the runtime's own."""
        runtime = self._runtime
        if delivery not in (None, "quiet", "wakeup"):
            raise UsageError(f"delivery must be 'quiet' or 'wakeup', not {delivery!r}")
        if ack not in ("accepted", "stored"):
            raise UsageError(f"ack must be 'accepted' or 'stored', not {ack!r}")
        if delivery is None:
            delivery = "quiet"
            if type(child) is Agent:
                delivery = child._activation.bound.policy.report_delivery
        send = self._send("report", content, key, delivery)
        if key is None or own:
            runtime.calls.enter()
            try:
                await runtime.backend.check_cancelled()
                message, ticket = runtime.admission.report(child, send)
            finally:
                runtime.calls.leave()
        else:
            async with runtime.asked(id_of(child), key) as stored:
                message, ticket = runtime.admission.report(child, _with(send, stored))
        if ack == "stored":
            await runtime.stored(message, ticket, key)
        return message

    async def followup(
        self,
        parent: Agent,
        child_id: str,
        content: Content,
        *,
        key: str | None,
        own: bool = False,
        known: bool = False,
    ) -> str:
        """A waking message to a child, wherever it is.

        `own` and `known` are those of `start_child`.
        """
        runtime = self._runtime
        if type(child_id) is not str:
            raise UsageError("a child is named by its session id")
        if not own:
            check_key(key)
        send = self._send("followup", content, key, "wakeup")
        asked = key if known or not own else None
        async with runtime.asked(id_of(parent), asked, own=True) as stored:
            message, ticket = await self._route(parent, child_id, _with(send, stored))
        await runtime.stored(message, ticket, key)
        return message

    async def _route(self, parent: Agent, child_id: str, send: Send) -> tuple[str, int]:
        """Every pass ends in an accepting span or follows a real end."""
        runtime = self._runtime
        while True:
            found = runtime.admission.followup(parent, child_id, send, None)
            if isinstance(found, tuple):
                return found
            if isinstance(found, Activation):
                await until_gone(runtime.backend, found)
            elif not await self._residency.busy(child_id):
                async with self._residency.loading(child_id) as loaded:
                    revive = partial(self._residency.revive_child, loaded, send.content)
                    found = runtime.admission.followup(parent, child_id, send, revive)
                if isinstance(found, tuple):
                    return found

    def _send(
        self, operation: str, content: Content, key: str | None, asked: str
    ) -> Send:
        blocks = to_blocks(content)
        digest = "" if key is None else self._runtime.forest.digest(operation, blocks)
        return Send(operation, blocks, digest, asked, key)


def _with(send: Send, stored: KeyRow | None) -> Send:
    if stored is None:
        return send
    return attrs.evolve(send, stored=stored)


def id_of(agent: object) -> str:
    """The id under which an agent's keys are asked for; anything else has none."""
    return agent.id if type(agent) is Agent else ""
