"""The durability gate: one commit order for a store, and group commit.

Lives here: what is written but not stored yet, who waits for it, and what happens when
a commit fails.  A span is a piece of synchronous code; what it writes goes onto one
pending list, and only the gate's own task takes that list, so that every span is stored
whole and a group is whatever piled up while the last one was being stored.

A ticket is the place of an event in the commit order.  An event is durable when
`gate.durable` has reached its ticket.  After a commit has failed nothing more is stored
and nothing is acknowledged (law 19): waiters get `SendUnknownError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .backend import Backend
from .backend_trio import protected
from .bookmark import Bookmark, bookmark_of, is_due, is_small
from .errors import SendUnknownError
from .events import Event
from .samples import Samples
from .session import Session
from .storage import Storage
from .store import Batch, Entry, Summary

__all__ = ["Gate"]


class _Waiting:
    """Who is told when a batch is durable: first spans that go on, then tasks."""

    __slots__ = ("callbacks", "waiters")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.waiters: list[Any] = []


class Gate:
    """Applies events to sessions and has them stored in one order.

    Args:
        storage: where batches go.
        backend: how to wait.
        holder: the id under which sessions are claimed.
    """

    def __init__(self, storage: Storage, backend: Backend, holder: str) -> None:
        self._storage = storage
        self._backend = backend
        self.holder = holder
        self.ticket: int = 0
        self.durable: int = 0
        self.commits: int = 0
        self.sizes: Samples = Samples()
        self.took_ms: Samples = Samples()
        self.epochs: dict[str, int] = {}
        self.failed: BaseException | None = None
        self.on_commit: Callable[[Sequence[Entry]], None] | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.on_error: Callable[[BaseException], None] = lambda error: None
        self._pending: list[Entry] = []
        self._touched: dict[str, Session] = {}
        self._expected: dict[str, int] = {}
        self._flying: Sequence[Entry] = ()
        self._aloft: dict[str, Session] = {}
        self._taken = 0
        self._began = 0.0
        self._now = _Waiting()
        self._next = _Waiting()
        self._drained: Callable[[], None] = lambda: None
        self._kick: Callable[[], None] | None = None
        self._stopping = False

    def write(self, session: Session, session_id: str, event: Event) -> int:
        """Apply an event and have it stored; gives its ticket.

        Raises:
            IllegalEventError: the state does not allow it; nothing has changed.
        """
        seq = session.seq
        session.apply(event)
        self.ticket = ticket = self.ticket + 1
        if self.failed is None:
            if session_id not in self._touched:
                self._touched[session_id] = session
                self._expected[session_id] = seq
            self._pending.append(Entry(session_id, seq, event))
            if self._kick is not None:
                kick, self._kick = self._kick, None
                kick()
        return ticket

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        """Call back when a ticket that is not durable yet has been decided.

        After a commit has failed nothing is decided any more, and nobody is called.
        """
        if self.failed is not None:
            return
        waiting = self._now if ticket <= self._taken else self._next
        waiting.callbacks.append(callback)

    def wake_at(self, ticket: int, waiters: list[Any]) -> None:
        """End the waits of a list when a ticket is durable, or never will be."""
        if ticket <= self.durable or self.failed is not None:
            self._backend.wake(waiters)
        else:
            waiting = self._now if ticket <= self._taken else self._next
            waiting.waiters += waiters

    def forget_epoch(self, session_id: str, ticket: int) -> None:
        """Forget a claim that is given back with the batch of this ticket."""

        def forget() -> None:
            self.epochs.pop(session_id, None)

        self.when_durable(ticket, forget)

    async def wait(self, ticket: int, name: str | None = None) -> None:
        """Wait until a ticket is durable.

        Args:
            ticket: the place in the commit order.
            name: the key, or the id, of what is waited for; the error names it.

        Raises:
            SendUnknownError: the commit failed, this one or one before it.
        """
        if ticket <= self.durable:
            return
        if self.failed is None:
            waiting = self._now if ticket <= self._taken else self._next
            await self._backend.waiter(waiting.waiters)
        if ticket > self.durable:
            error = SendUnknownError(
                "the commit failed, so it is unknown whether this happened:"
                " ask supervisor.lookup(sender, key)"
            )
            if name is not None:
                error.key = name
            raise error from self.failed

    def give_up(self, error: BaseException) -> None:
        """Nothing will be stored any more: what waits is unknown, and is told so."""
        if self.failed is None:
            self._fail(error)

    def undecided(self) -> list[Entry]:
        """What is written and not durable yet, in commit order."""
        return [*self._flying, *self._pending]

    def undecided_in(self, session_id: str) -> bool:
        """Whether something of a session is written and not durable yet, and may be."""
        aloft = session_id in self._touched or session_id in self._aloft
        return aloft and self.failed is None

    def stop(self) -> None:
        """Let `run` return once everything written is stored."""
        self._stopping = True
        if self._kick is not None:
            kick, self._kick = self._kick, None
            kick()

    @protected
    async def run(self) -> None:
        """Store what is written, until `stop`; in a task of its own, shielded."""
        while True:
            if not self._pending:
                if self._stopping:
                    return
                await self._backend.wait(self._rest)
                continue
            batch = self._take()
            if self._storage.submit(batch, self._completed):
                await self._backend.wait(self._until_drained)
            else:
                await self._append(batch)
            if self.failed is not None:
                if not isinstance(self.failed, Exception):
                    raise self.failed
                return

    async def _append(self, batch: Batch) -> None:
        try:
            await self._storage.append(batch)
        except BaseException as error:
            self._fail(error)
        else:
            self._backend.wake(self._stored())

    def _until_drained(self, done: Callable[[], None]) -> None:
        self._drained = done

    @protected
    def _completed(self, error: BaseException | None) -> None:
        """The writer's thread is done: hand it the next batch, then wake who waited.

        It runs in the loop and in no span, so that it may take the pending list.  What
        the spans asked for comes first: it may write, and then the next batch has it.
        """
        if error is not None:
            self._fail(error)
            self._drained()
            return
        waiters = self._stored()
        if self._pending:
            self._storage.submit(self._take(), self._completed)
            self._backend.wake(waiters)
        else:
            self._backend.wake(waiters)
            self._drained()

    def _stored(self) -> list[Any]:
        """The batch in flight is durable: tell it; gives who is left to be woken."""
        entries, self._flying = self._flying, []
        self._aloft = {}
        self.durable = self._taken
        self.commits += 1
        self.sizes.note(len(entries))
        self.took_ms.note((self._backend.now() - self._began) * 1e3)
        if self.on_commit is not None:
            self._fire([partial(self.on_commit, entries)])
        ready, self._now = self._now, _Waiting()
        self._fire(ready.callbacks)
        return ready.waiters

    def _rest(self, kick: Callable[[], None]) -> None:
        self._kick = kick

    def _take(self) -> Batch:
        """Take the pending list, whole."""
        self._flying, self._pending = self._pending, []
        touched, self._touched = self._touched, {}
        expected, self._expected = self._expected, {}
        self._now, self._next = self._next, _Waiting()
        self._taken = self.ticket
        self._began = self._backend.now()
        self._aloft = touched
        epochs = {name: self.epochs.get(name, 1) for name in touched}
        summaries: dict[str, Summary] = {
            name: session.summary() for name, session in touched.items()
        }
        released = [name for name, one in touched.items() if one.activation is None]
        bookmarks: dict[str, Bookmark] = {}
        for name, session in touched.items():
            if is_due(session):
                if is_small(session):
                    bookmarks[name] = bookmark_of(session)
                session.mark = session.seq
        return Batch(
            self.holder,
            self._flying,
            expected,
            epochs,
            summaries,
            released,
            bookmarks,
        )

    def _fail(self, error: BaseException) -> None:
        """Unknown, not refused: nobody is told yes.  Waiters wake and see it."""
        self.failed = error
        now, later = self._now, self._next
        self._now, self._next = _Waiting(), _Waiting()
        self.on_failure()
        for waiting in (now, later):
            self._fire(waiting.callbacks)
            self._backend.wake(waiting.waiters)

    def _fire(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self.on_error(error)
