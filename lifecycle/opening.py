"""Opening: from a store to a running supervisor, and back to rest.

Lives here: the one task group, the order in which things start and stop, and which
errors come out.  Leaving the block drains: every agent rests, what waits is kept.
Drivers are shielded from the scope around the block, so that a cancelled host leaves an
orderly drain that is bounded (R-169, R-230).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ..actors.agent import AgentSpec
from ..actors.budget import Limits, check_limits
from ..actors.model import Model
from ..actors.policy import Policy
from ..mailbox.backend import current_backend
from ..mailbox.errors import PersistenceUnavailableError, UsageError
from ..mailbox.ids import Ambient
from ..mailbox.storage import storage_of
from ..mailbox.store import Store
from ..mailbox.store_memory import MemoryStore
from ..mailbox.store_sqlite import SqliteStore
from .activation import Closing
from .errors import TeardownError
from .supervisor import Supervisor

__all__ = ["open", "open_store"]


def open_store(store: str | os.PathLike[str] | Store) -> Store:
    """The store that a caller named.

    Raises:
        UsageError: it is neither a path, nor `":memory:"`, nor a store.
    """
    if isinstance(store, (str, os.PathLike)):
        if os.fspath(store) == ":memory:":
            return MemoryStore()
        return SqliteStore(store)
    # Our own are known by their class, which is much sooner said.
    if isinstance(store, (MemoryStore, SqliteStore, Store)):
        return store
    raise UsageError(f"store must be a path, ':memory:' or a Store, not {store!r}")


@asynccontextmanager
async def open(  # noqa: A001
    store: str | os.PathLike[str] | Store,
    *,
    specs: Iterable[AgentSpec] = (),
    model: Model | str | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    ambient: Ambient | None = None,
) -> AsyncIterator[Supervisor]:
    """Open a store and run agents on it, until the block is left.

    Leaving the block drains: every agent below comes to rest within the policy's
    `rest_deadline_s`, and waiting messages stay in the store.  The body's own exception
    comes out as it is; several failures come out as one `ExceptionGroup`.

    Args:
        store: the path of a SQLite file, `":memory:"`, or a store object.
        specs: every spec that stored sessions may need; code is bound by its name.
        model: the default model, or its name: `"local"`, `"local:FILE.gguf"`,
            `"openai:NAME"`.
        policy: the deployment's decisions.
        limits: what the whole run may spend; `call_s` and `requests` hold for each
            agent of it, `call_s` only for those that return.
        ambient: time, ids and chance; a simulator gives its own.

    Raises:
        StoreInUseError: another process writes to the store.
        PersistenceUnavailableError: it cannot be opened durably; on leaving: a commit
            failed, and the next open is the recovery.
        TeardownError: on leaving: a branch did not come to rest by itself.
    """
    policy = Policy() if policy is None else policy
    if not isinstance(policy, Policy):
        raise UsageError("policy must be a Policy")
    check_limits(limits)
    opened = open_store(store)
    body: BaseException | None = None
    failures: list[Exception] = []
    try:
        async with anyio.create_task_group() as group:
            backend = current_backend(group)
            storage = storage_of(opened, backend)
            supervisor = Supervisor._make(
                storage,
                backend,
                Ambient() if ambient is None else ambient,
                specs=specs,
                model=model,
                policy=policy,
                limits=limits,
            )
            await storage.start()
            group.start_soon(_run_gate, supervisor)
            try:
                yield supervisor
            except BaseException as error:
                body = error
            try:
                with anyio.CancelScope(shield=True):
                    failures += await _leave(supervisor, policy.rest_deadline_s)
            except BaseException as error:
                # A second Ctrl-C, or a native cancel: it must not find a closed door.
                body = body or error
            finally:
                supervisor._runtime.let_go()
    except BaseExceptionGroup as caught:
        # A task of ours failed, which cancelled the body.
        if body is None or isinstance(body, anyio.get_cancelled_exc_class()):
            raise _sole(caught) from None
    if body is not None:
        for failure in failures:
            body.add_note(f"and leaving failed: {failure!r}")
        try:
            raise body
        finally:
            del body
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("leaving the open block failed", failures)


async def _run_gate(supervisor: Supervisor) -> None:
    runtime = supervisor._runtime
    with anyio.CancelScope(shield=True) as runtime.gate_scope:
        try:
            await runtime.gate.run()
        except BaseException as error:
            runtime.gate.give_up(error)
            raise


async def _leave(supervisor: Supervisor, deadline_s: float) -> list[Exception]:
    """Bring everything to rest and let go of it; gives what failed."""
    runtime = supervisor._runtime
    failures: list[Exception] = []
    try:
        await supervisor._drain(Closing("drain"), deadline_s)
    except TeardownError as error:
        failures.append(error)
    await _until_drivers_ended(supervisor)
    try:
        runtime.teardown.raise_left()
    except TeardownError as error:
        failures.append(error)
    runtime.gate.stop()
    await runtime.quiet()
    if runtime.gate.failed is not None:
        failure = PersistenceUnavailableError(
            f"a commit failed ({runtime.gate.failed}): what was not acknowledged is"
            " unknown; open the store again to recover"
        )
        failure.__cause__ = runtime.gate.failed
        failures.append(failure)
    runtime.stage.close()
    await runtime.waits.none()
    failures += runtime.failures
    failures += await runtime.models.close()
    try:
        await runtime.storage.stop()
    except Exception as error:
        if runtime.gate.failed is None:
            unclosed = PersistenceUnavailableError(
                f"the store could not be closed ({error}): what was acknowledged is"
                " stored; close what holds it before it is opened again"
            )
            unclosed.__cause__ = error
            failures.append(unclosed)
    return failures


async def _until_drivers_ended(supervisor: Supervisor) -> None:
    """Wait for coroutines that refuse cancellation, and say so every 5 s (R-227)."""
    backend = supervisor._runtime.backend
    while backend.tasks():
        with anyio.move_on_after(5.0):
            await backend.finished()
            return
        supervisor._runtime.stage.say(
            f"leaving waits for {backend.tasks()} tasks that refuse to be cancelled"
        )


def _sole(group: BaseExceptionGroup[Any]) -> BaseException:
    """The only exception of a group, or the group."""
    if len(group.exceptions) == 1:
        return group.exceptions[0]
    return group
