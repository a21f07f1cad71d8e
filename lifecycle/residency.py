"""Residency: making stored sessions resident, one at a time.

Lives here: the latch and the claim around a load, and the span in which a loaded
session becomes resident: set-ups, repair, publication, adoption of its live children,
and what a crash left below it.  At most one activation of a session can come out of
this (law 1).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from ..actors.bound import BoundSpec
from ..actors.contributions import Installation
from ..actors.ledger import Ledger
from ..mailbox.backend_trio import protected
from ..mailbox.errors import (
    ActivationClosingError,
    NotResumableError,
    PersistenceUnavailableError,
    RametError,
    SendUnknownError,
    SessionHeldError,
    UnauthorizedError,
    UnsupportedLogError,
    UsageError,
)
from ..mailbox.events import Discarded
from ..mailbox.store import Reader
from .activation import Activation, Closing, Life
from .handle import Agent
from .recovery import Loaded, load, rebound, recover_children, repair, shade_of, tell
from .returning import contract_of
from .runtime import Runtime

__all__ = ["Residency"]


class Residency:
    """Loads and revives, for one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._resuming: dict[str, list[Callable[[], None]]] = {}
        self._begun = 0

    async def busy(self, session_id: str) -> bool:
        """Wait while somebody else loads a session; says whether somebody did."""
        latch = self._resuming.get(session_id)
        if latch is None:
            return False
        await self._runtime.backend.wait(latch.append)
        return True

    @asynccontextmanager
    async def loading(self, session_id: str) -> AsyncIterator[Loaded]:
        """Load a session under its latch and its claim; the span belongs inside.

        What is below it and not at rest is read, written and claimed with it, so that
        it takes the latches of those too.  A latch is only ever waited for from above.
        """
        held = [session_id]
        self._begun += 1
        self._resuming[session_id] = []
        claimed: list[str] = []
        try:
            loaded = await self._load_latched(session_id, held, claimed)
            yield loaded
        finally:
            live = self._runtime.forest.live
            idle = [name for name in claimed if name not in live]
            try:
                if idle:
                    await self._unclaim(idle)
            finally:
                for name in held:
                    for callback in self._resuming.pop(name):
                        callback()

    async def _load_latched(
        self, session_id: str, held: list[str], claimed: list[str]
    ) -> Loaded:
        """Load until nobody else wrote what was read meanwhile, and claim it all.

        That is when its latches were held before, or nobody else loaded anything, and
        no agent that was live has ended.  It waits for the gate first, so that what a
        session wrote before it went is loaded too (R-266).
        """
        forest = self._runtime.forest
        await self._durable()
        await self._claim(session_id, claimed)
        while True:
            alone = len(self._resuming) == len(held)
            begun = self._begun
            orphans = forest.orphans.values()
            resident = {one.id for orphan in orphans for one in orphan.subtree()}
            # What ended before that is read as it ended, what ends later is noticed.
            await self._durable()
            loaded = await self._load(session_id)
            below = self._absent(loaded)
            late = [name for name in below if name not in held]
            current = not late or (alone and begun == self._begun)
            for name in late:
                while await self.busy(name):
                    pass
                self._resuming[name] = []
                held.append(name)
            if not current or not resident.isdisjoint(below):
                continue
            for name in below:
                if name not in claimed:
                    await self._claim(name, claimed)
            if self._absent(loaded) == below:
                return loaded

    def _absent(self, loaded: Loaded) -> list[str]:
        """What was loaded below a session and is not resident."""
        live = self._runtime.forest.live
        found = []
        stack = list(loaded.below)
        while stack:
            one = stack.pop()
            stack.extend(one.below)
            if one.id not in live:
                found.append(one.id)
        return found

    async def _load(self, session_id: str) -> Loaded:
        """Read a session back; listings say what could not be read (R-085)."""
        runtime = self._runtime
        runtime.faults.pop(session_id, None)
        try:
            return await load(runtime.storage, session_id)
        except NotResumableError as error:
            if isinstance(error.__cause__, UnsupportedLogError):
                runtime.faults[session_id] = "unsupported"
            elif error.__cause__ is not None:
                runtime.faults[session_id] = "corrupt"
            raise

    async def _claim(self, session_id: str, claimed: list[str]) -> None:
        runtime = self._runtime
        claimed.append(session_id)
        epoch = await runtime.storage.claim(session_id, runtime.gate.holder)
        runtime.gate.epochs[session_id] = epoch

    async def _unclaim(self, sessions: list[str]) -> None:
        """Give claims back once what was written under them is durable."""
        runtime = self._runtime
        with anyio.CancelScope(shield=True):
            try:
                await runtime.gate.wait(runtime.gate.ticket)
            except SendUnknownError:
                return
            for session_id in sessions:
                if session_id not in runtime.forest.live:
                    runtime.gate.epochs.pop(session_id, None)
                    await runtime.storage.release(session_id, runtime.gate.holder)

    async def resume(self, session_id: str) -> Agent:
        """Make a stored session resident, by the host."""
        runtime = self._runtime
        if type(session_id) is not str:
            raise UsageError("a session is named by its id")
        runtime.calls.enter()
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
            runtime.admission.open()
            if session_id in self._resuming:
                raise SessionHeldError(f"session {session_id} is being resumed")
            self._not_resident(session_id)
            async with self.loading(session_id) as loaded:
                activation = self._resume(loaded)
        finally:
            runtime.calls.leave()
        await runtime.stored(session_id, activation.ticket, None)
        return runtime.agent(activation)

    @protected
    def _resume(self, loaded: Loaded) -> Activation:
        runtime = self._runtime
        runtime.admission.open()
        self._not_resident(loaded.id)
        header = loaded.session.header
        if header.kind == "oneshot":
            raise NotResumableError(f"session {loaded.id} is a one-shot child")
        session = loaded.session
        if session.concluded is not None and session.activation is None:
            raise NotResumableError(f"the assignment of session {loaded.id} has ended")
        parent = runtime.forest.live.get(header.parent or "")
        if parent is not None and parent.life is not Life.LIVE:
            parent = None
        activation = self._revive(loaded, parent)
        if activation.life is not Life.LIVE:
            # The crash ended the only assignment of a headless root: so it ends too.
            runtime.forest.rest(activation)
        return activation

    def _not_resident(self, session_id: str) -> None:
        if session_id in self._runtime.forest.live:
            raise SessionHeldError(f"session {session_id} is resident already")

    def revive_child(
        self, loaded: Loaded, content: tuple[str, ...], parent: Activation
    ) -> Activation:
        """Make a loaded child resident, inside the span of a followup of `content`."""
        header = loaded.session.header
        if header.parent is None or header.kind != "continuable":
            raise NotResumableError(
                f"session {loaded.id} is {header.kind}: only a continuable child gets"
                " followups"
            )
        if header.parent != parent.id:
            raise UnauthorizedError(f"{loaded.id} is not a child of {parent.id}")
        return self._revive(loaded, parent, content)

    def _revive(
        self,
        loaded: Loaded,
        parent: Activation | None,
        content: tuple[str, ...] | None = None,
    ) -> Activation:
        """Publication of a loaded session, with all that belongs to it; plain.

        `content` is that of the message that resumes it, if one does.
        """
        runtime = self._runtime
        forest = runtime.forest
        session = loaded.session
        activation, changed = self._set_up(loaded, parent, content)
        crashed = repair(forest, loaded, activation)
        if parent is not None and session.untold:
            tell(forest, loaded, parent, crashed=crashed)
        forest.publish(activation, changed=changed)
        for orphan in list(forest.orphans.values()):
            if orphan.session.header.parent == loaded.id:
                del forest.orphans[orphan.id]
                orphan.parent = activation
                activation.children = activation.children or {}
                activation.children[orphan.id] = orphan
                forest.limiter.adopt(activation, orphan)
        recover_children(forest, loaded, activation)
        if session.inbox.claimable:
            runtime.gate.when_durable(
                activation.ticket, partial(forest.wake, activation)
            )
        return activation

    def _set_up(
        self,
        loaded: Loaded,
        parent: Activation | None,
        content: tuple[str, ...] | None,
    ) -> tuple[Activation, tuple[str, ...]]:
        """Run the present contributions; nothing is visible when this raises."""
        runtime = self._runtime
        header = loaded.session.header
        bound, changed = rebound(loaded, runtime.specs, runtime.bind)
        if content is not None:
            runtime.admission.stored_limits(bound, loaded.session, content)
        charged = None
        if header.parent is not None and not loaded.session.ran:
            charged = runtime.forest.limiter.charge(parent)
        try:
            installation = self._install(loaded, parent, bound)
        except BaseException:
            if charged is not None:
                charged.not_started()
            raise
        contract = contract_of(header)
        ledger: Any = None
        if contract is not None:
            ledger = Ledger(contract, bound.policy.nudges)
        activation = Activation(
            loaded.id, loaded.session, parent, bound, installation, ledger
        )
        runtime.forest.limiter.cover(
            activation,
            charged=charged,
            agents=loaded.agents,
            tool_calls=loaded.tool_calls,
        )
        return activation, changed

    def _install(
        self, loaded: Loaded, parent: Activation | None, bound: BoundSpec
    ) -> Installation:
        """Run the present contributions and commit them; a failure undoes it all."""
        runtime = self._runtime
        header = loaded.session.header
        try:
            installation = runtime.admission.install(
                header.kind, loaded.id, header.parent, bound.name
            )
        except RametError:
            raise
        except Exception as error:
            raise NotResumableError(
                f"session {loaded.id} could not be set up again: {error}"
            ) from error
        try:
            runtime.admission.open()
            if parent is not None and parent.life is not Life.LIVE:
                raise ActivationClosingError(f"{parent.id} is closing")
            runtime.admission.commit(installation)
        except BaseException as error:
            for other in installation.release():
                error.add_note(f"and a release failed: {other!r}")
            raise
        return installation

    async def orphans_below(self, session_id: object) -> list[Activation]:
        """The live agents below a session whose own parents are not resident."""
        runtime = self._runtime
        found = []
        for orphan in list(runtime.forest.orphans.values()):
            above = orphan.session.header.parent
            while above is not None and above != session_id:
                row = await runtime.storage.read(Reader.row, above)
                above = None if row is None else row.parent
            if above is not None:
                found.append(orphan)
        return found

    async def cancel_absent(self, session_id: str, closing: Closing) -> bool:
        """Discard what a session that is not resident keeps, and tell it (R-229).

        It takes the same latch as a resume, so that one comes wholly before the other
        (R-265), and leaving the block waits for it.  It gives `False`, and has done
        nothing, when the session is resident.
        """
        runtime = self._runtime
        runtime.calls.enter()
        try:
            runtime.admission.open()
            while await self.busy(session_id):
                pass
            if session_id in runtime.forest.live:
                return False
            async with self.loading(session_id) as loaded:
                self._cancel_loaded(loaded, closing)
            await self._durable()
        finally:
            runtime.calls.leave()
        return True

    async def _durable(self) -> None:
        """Wait until all that is written is durable.

        Raises:
            PersistenceUnavailableError: a commit failed.
        """
        gate = self._runtime.gate
        try:
            await gate.wait(gate.ticket)
        except SendUnknownError as error:
            raise PersistenceUnavailableError(
                "a commit failed: what is stored is known after the next open"
            ) from error.__cause__

    @protected
    def _cancel_loaded(self, loaded: Loaded, closing: Closing) -> None:
        runtime = self._runtime
        forest = runtime.forest
        runtime.admission.open()
        session = loaded.session
        parent = forest.live.get(session.header.parent or "")
        shade = shade_of(loaded, parent)
        crashed = repair(forest, loaded, shade)
        now = forest.ambient.now_ms()
        for _, message in list(session.inbox.waiting):
            forest.log(shade, Discarded(message.id, closing.cause, now, closing.detail))
        recover_children(forest, loaded, shade)
        if parent is not None and session.untold:
            tell(forest, loaded, parent, crashed=crashed)
