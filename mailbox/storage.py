"""The asynchronous face of a synchronous store: one writer thread, one reader thread.

Lives here: in which thread the calls of a store run, and how their answers come back to
the loop.  It knows nothing of batches or of what is stored.  A store that does not
block is called in the loop's own thread, with a checkpoint, so that a simulator stays
in control; a read then reads first and hands over later, as a thread would.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from .backend import Backend
from .bookmark import Bookmark
from .errors import PersistenceUnavailableError
from .store import Batch, Bookmarks, Reader, Store

__all__ = ["Storage", "storage_of"]

T = TypeVar("T")


class Storage:
    """Calls a store without blocking the loop.

    A waiter that is cancelled leaves its call running; the answer is dropped.
    """

    def __init__(self, store: Store, backend: Backend) -> None:
        self.store = store
        self._backend = backend
        self._writer: _Worker | None = None
        self._reader: _Worker | None = None
        self._readers: list[Reader] = []
        self._bookmarks = isinstance(store, Bookmarks)
        self._recovered = False
        self._opened = False
        self._closed = False

    async def start(self) -> None:
        """Open the store."""
        if self.store.blocking:
            self._writer = _Worker("ramet-writer", self._backend)
            self._reader = _Worker("ramet-reader", self._backend)
        try:
            await self._write(self._open)
        except BaseException:
            if self._writer is not None:
                # Who is cancelled leaves an opening that goes on in the thread.
                self._writer.submit(lambda error: None, self._close_if_open)
            self._end()
            raise

    def _open(self) -> None:
        self.store.open()
        self._opened = True

    def _close_if_open(self) -> None:
        if self._opened:
            self.store.close()

    async def append(self, batch: Batch) -> None:
        """Store a batch; returns when it is durable."""
        await self._write(self.store.append, batch)

    def submit(
        self, batch: Batch, completed: Callable[[BaseException | None], None]
    ) -> bool:
        """Have a batch stored by the writer's thread, and be called in the loop after.

        It gives `False`, and does nothing, where there is no such thread: then `append`
        is the way.
        """
        if self._writer is None:
            return False
        self._writer.submit(completed, self.store.append, batch)
        return True

    async def claim(self, session: str, holder: str) -> int:
        """Take the claim on a stored session; gives its epoch."""
        return await self._write(self.store.claim, session, holder)

    async def release(self, session: str, holder: str) -> None:
        """Give a claim back."""
        await self._write(self.store.release, session, holder)

    async def read(self, method: Callable[..., T], *arguments: Any) -> T:
        """Call a reading method, named by the port: `storage.read(Reader.load, id)`."""
        self._check_open()
        if self._reader is None:
            value: T = getattr(self.store, method.__name__)(*arguments)
            await self._backend.checkpoint()
            return value
        answer = await self._reader.ask(self._read, method.__name__, arguments)
        return answer  # type: ignore[no-any-return]

    async def bookmark(self, session: str) -> Bookmark | None:
        """The last bookmark of a session; `None` where the store keeps none."""
        if not self._bookmarks:
            return None
        return await self.read(Bookmarks.bookmark, session)

    async def position(self, message: str) -> tuple[str, int] | None:
        """Whose log accepted a message, and from which `seq` on it must be looked for.

        It is 0 where the store does not know.
        """
        if self._bookmarks:
            return await self.read(Bookmarks.position, message)
        session = await self.read(Reader.place, message)
        return None if session is None else (session, 0)

    async def reopened(self, method: Callable[..., T], *arguments: Any) -> T:
        """Read what is stored for good, after a commit has failed.

        The store is closed and opened again first: only its own recovery decides what
        of a failed commit is there (R-071, R-187).

        Raises:
            PersistenceUnavailableError: it cannot be opened again.
        """
        if not self._recovered:
            await self._write(self._reopen)
            self._recovered = True
        return await self._write(getattr(self.store, method.__name__), *arguments)

    def _reopen(self) -> None:
        self.store.close()
        self.store.open()

    async def stop(self) -> None:
        """Let the threads finish what they have, and close the store.

        Raises:
            Exception: what closing raised; the threads have ended all the same.
        """
        failure: Exception | None = None
        try:
            for reader in self._readers:
                if self._reader is not None:
                    await self._reader.ask(reader.close)
        except Exception as error:
            failure = error
        try:
            await self._write(self.store.close)
        except Exception as error:
            failure = failure or error
        self._closed = True
        self._end()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Close without waiting: the threads finish what they have, and then close it.

        Nothing when it is closed.
        """
        if self._closed:
            return
        self._closed = True
        if self._writer is None:
            self.store.close()
        else:
            self._writer.submit(lambda error: None, self.store.close)
        for worker in (self._writer, self._reader):
            if worker is not None:
                worker.end(wait=False)
        self._writer = self._reader = None

    def _check_open(self) -> None:
        if self._closed:
            raise PersistenceUnavailableError(
                "the open block was left, so the store is closed: open it again"
            )

    def _read(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if not self._readers:
            self._readers.append(self.store.reader())
        return getattr(self._readers[0], name)(*arguments)

    async def _write(self, method: Callable[..., T], *arguments: Any) -> T:
        self._check_open()
        if self._writer is None:
            await self._backend.checkpoint()
            return method(*arguments)
        answer = await self._writer.ask(method, *arguments)
        return answer  # type: ignore[no-any-return]

    def _end(self) -> None:
        for worker in (self._writer, self._reader):
            if worker is not None:
                worker.end()
        self._writer = self._reader = None


class _Worker:
    """A thread that makes calls one after the other and posts the answers back."""

    def __init__(self, name: str, backend: Backend) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._backend = backend
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def ask(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Have a call made, and wait for its answer."""
        job = _Job(method, arguments)

        def register(callback: Callable[[], None]) -> None:
            job.done = callback
            self._jobs.put(job)

        await self._backend.wait(register)
        if job.error is not None:
            raise job.error
        return job.value

    def submit(
        self,
        completed: Callable[[BaseException | None], None],
        method: Callable[..., Any],
        *arguments: Any,
    ) -> None:
        """Have a call made, and be called in the loop when it is over."""
        job = _Job(method, arguments)
        job.done = lambda: completed(job.error)
        self._jobs.put(job)

    def end(self, *, wait: bool = True) -> None:
        """Let it finish; waiting is quick, since nothing is queued behind."""
        self._jobs.put(None)
        if wait:
            self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.value = job.method(*job.arguments)
            except BaseException as error:
                job.error = error
            self._backend.post(job.done)
            del job


class _Job:
    __slots__ = ("arguments", "done", "error", "method", "value")

    done: Callable[[], None]

    def __init__(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.method = method
        self.arguments = arguments
        self.value: Any = None
        self.error: BaseException | None = None


def storage_of(store: Store, backend: Backend) -> Storage:
    """How a store is called: by threads, or by what it brings itself.

    A store that has a method `storage` brings its own; those of the simulator do.
    """
    own: Callable[[Backend], Storage] | None = getattr(store, "storage", None)
    return Storage(store, backend) if own is None else own(backend)
