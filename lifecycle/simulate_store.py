"""Simulated stores: the shipped stores, with a disk that a plan makes slow or fail.

Lives here: the two stores of a simulation, and the storage that calls them in the
loop's own thread, so that what they do is the shipped code, and when they do it is a
step of the schedule.  A commit has an instant: before it a kill loses it, after it the
store has it, whether or not anybody was told.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..mailbox.backend import Backend
from ..mailbox.errors import PersistenceUnavailableError
from ..mailbox.storage import Storage
from ..mailbox.store import Batch, Store
from ..mailbox.store_memory import MemoryStore
from ..mailbox.store_sqlite import SqliteStore
from .fault_plan import Plan
from .held_loops import let_pass

__all__ = [
    "Disk",
    "SimulatedMemoryStore",
    "SimulatedSqliteStore",
    "SimulatedStore",
]

T = TypeVar("T")


class Disk:
    """What stands between one opening and its store.

    Args:
        plan: what goes wrong.
        dice: decides how long each access takes.
        group: where commits run that a writer's thread would make.
        committed: told of a batch at the instant at which it is stored.

    Attributes:
        dead: whether the process that it belongs to was killed.
        failed: whether a commit failed that was to fail.
        commits: how many began.
        held: while it is set, nothing is stored: the process is paused.
        on_commit: told of the number of each commit that begins.
        on_failure: told when a commit fails as planned.
    """

    def __init__(
        self,
        plan: Plan,
        dice: random.Random,
        group: TaskGroup,
        committed: Callable[[Batch], None],
    ) -> None:
        self.plan = plan
        self.group = group
        self.committed = committed
        self.dead: bool = False
        self.failed: bool = False
        self.commits: int = 0
        self.held: anyio.Event | None = None
        self.on_commit: Callable[[int], None] = lambda number: None
        self.on_failure: Callable[[], None] = lambda: None
        self.fails: bool | None = None
        self._dice = dice

    async def before(self) -> bool | None:
        """The way of a batch to the store; gives `None`, or whether a failing commit is
        stored nevertheless."""
        self.commits += 1
        number = self.commits
        self.on_commit(number)
        await checkpoint()
        await self.pause()
        plan = self.plan
        if plan.late_commits_s is not None and self._dice.random() < 0.3:
            await anyio.sleep(plan.late_commits_s)
        while self.held is not None:
            await self.held.wait()
        self.check()
        if self.fails is None and plan.failed_commit is not None:
            at, stored = plan.failed_commit
            if number > at:
                self.fails = stored
        return self.fails

    async def after(self) -> None:
        """The way of its answer back."""
        await self.pause()
        self.check()

    async def pause(self) -> None:
        """As many steps as an access takes."""
        if self.plan.steps:
            await let_pass(self._dice.randrange(self.plan.steps + 1))

    def check(self) -> None:
        """Nothing of a process that was killed reaches the store."""
        if self.dead:
            raise PersistenceUnavailableError("this process was killed")

    def fail(self, text: str) -> OSError:
        """A commit fails as it was planned."""
        self.failed = True
        self.on_failure()
        return OSError(text)


class SimulatedStorage(Storage):
    """Calls a store in the loop's own thread, as its disk allows."""

    def __init__(self, store: SimulatedStore, backend: Backend) -> None:
        super().__init__(store, backend)
        self._disk = store.disk

    async def start(self) -> None:
        """Open the store."""
        await self._write(self.store.open)

    async def append(self, batch: Batch) -> None:
        """Store a batch, or fail."""
        disk = self._disk
        stored = await disk.before()
        if stored is False:
            raise disk.fail("the disk is full")
        self.store.append(batch)
        disk.committed(batch)
        if stored is True:
            raise disk.fail("the disk did not answer")
        await disk.after()

    def submit(
        self, batch: Batch, completed: Callable[[BaseException | None], None]
    ) -> bool:
        """Take a batch as a writer's thread does, if the plan has one."""
        if self._disk.plan.threaded:
            self._disk.group.start_soon(self._complete, batch, completed)
        return self._disk.plan.threaded

    async def _complete(
        self, batch: Batch, completed: Callable[[BaseException | None], None]
    ) -> None:
        failure: BaseException | None = None
        with anyio.CancelScope(shield=True):
            try:
                await self.append(batch)
            except Exception as error:
                failure = error
        completed(failure)

    async def read(self, method: Callable[..., T], *arguments: Any) -> T:
        """Read now and hand over later, as a reader's thread does."""
        self._check_open()
        self._disk.check()
        value: T
        if self.store.blocking:
            value = self._read(method.__name__, arguments)
        else:
            value = getattr(self.store, method.__name__)(*arguments)
        await checkpoint()
        await self._disk.pause()
        return value

    async def stop(self) -> None:
        """Close the store; of a process that was killed nothing is left to close."""
        for reader in self._readers:
            reader.close()
        if not self._disk.dead:
            await self._write(self.store.close)
        self._closed = True

    def abandon(self) -> None:
        """Close without waiting; nothing when it is closed."""
        if not self._closed:
            self._closed = True
            self.store.close()

    async def _write(self, method: Callable[..., T], *arguments: Any) -> T:
        self._check_open()
        self._disk.check()
        await checkpoint()
        self._disk.check()
        value = method(*arguments)
        await self._disk.pause()
        return value


class SimulatedStore(Store, Protocol):
    """A store of a simulation."""

    disk: Disk

    def storage(self, backend: Backend) -> Storage:
        """How a supervisor calls it."""
        ...

    def remains(self, disk: Disk) -> SimulatedStore:
        """What a kill at this instant leaves, on another disk."""
        ...

    def again(self, disk: Disk) -> SimulatedStore:
        """The same data on another disk, as another process opens it."""
        ...


class SimulatedMemoryStore(MemoryStore):
    """The store in memory, in a simulation.

    Args:
        disk: what stands before it.
        before: the store whose data it goes on with, if any.
    """

    def __init__(self, disk: Disk, before: MemoryStore | None = None) -> None:
        super().__init__(None if before is None else before.data)
        self.disk = disk

    def storage(self, backend: Backend) -> Storage:
        """How a supervisor calls it."""
        return SimulatedStorage(self, backend)

    def remains(self, disk: Disk) -> SimulatedMemoryStore:
        """What a kill at this instant leaves, on another disk."""
        return SimulatedMemoryStore(disk, self.snapshot())

    def again(self, disk: Disk) -> SimulatedMemoryStore:
        """Another handle on the same data, as of another process."""
        return SimulatedMemoryStore(disk, self)


class SimulatedSqliteStore(SqliteStore):
    """The store in a SQLite file, in a simulation.

    Args:
        disk: what stands before it.
        path: the file.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(path)
        self.disk = disk

    def storage(self, backend: Backend) -> Storage:
        """How a supervisor calls it."""
        return SimulatedStorage(self, backend)

    def remains(self, disk: Disk) -> SimulatedSqliteStore:
        """What a kill at this instant leaves, on another disk: a copy of the files."""
        folder = self.path.with_suffix(".after")
        folder.mkdir()
        for path in self.path.parent.glob(f"{self.path.name}*"):
            if path.is_file() and not path.name.endswith((".lock", "-shm")):
                shutil.copyfile(path, folder / path.name)
        return SimulatedSqliteStore(disk, folder / self.path.name)

    def again(self, disk: Disk) -> SimulatedSqliteStore:
        """The same file on another disk."""
        return SimulatedSqliteStore(disk, self.path)
