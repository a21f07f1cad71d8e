"""The observer port, and the streams of what happens.

Lives here: who is told what was logged, and readers that may be slow.  Events are told
when they are durable, so that nobody hears of what a crash undoes; `on_closing` and
`on_delta` are told at once and are in no log.

Obligations of an observer: its methods are plain, quick and may do nothing.  One that
raises changes nothing (R-215): the error is logged and the others still hear.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from ..mailbox.backend import Backend
from ..mailbox.leaf import leaf
from ..mailbox.store import Entry

__all__ = ["Gap", "Observer", "Stage", "Subscription"]

_LOG = logging.getLogger("ramet")


class Observer(Protocol):
    """Hears what happens.  Every method is optional."""

    def on_event(self, session_id: str, seq: int, event: object) -> None:
        """An event of a session became durable."""
        ...

    def on_closing(self, session_id: str, cause: str) -> None:
        """An agent began to close by a cancel or a drain."""
        ...

    def on_delta(self, session_id: str, turn: int, step: int, text: str) -> None:
        """A model streamed a piece of text."""
        ...


@leaf
class Gap:
    """A slow reader missed this many events."""

    missed: int


class Subscription:
    """A bounded buffer of one reader."""

    __slots__ = (
        "__weakref__",
        "_backend",
        "_closed",
        "_items",
        "_limit",
        "_missed",
        "_session",
        "_wake",
    )

    def __init__(self, backend: Backend, session: str | None, limit: int) -> None:
        self._backend = backend
        self._session = session
        self._limit = limit
        self._items: deque[Entry] = deque()
        self._missed = 0
        self._closed = False
        self._wake: Callable[[], None] | None = None

    def put(self, entries: Sequence[Entry]) -> None:
        """Take what the reader wants, or count what does not fit."""
        for entry in entries:
            if self._session is None or entry.session == self._session:
                if len(self._items) < self._limit and not self._missed:
                    self._items.append(entry)
                else:
                    self._missed += 1
        if self._items or self._missed:
            self._notify()

    def close(self) -> None:
        """No more will come; the reader gets what is left."""
        self._closed = True
        self._notify()

    async def next(self) -> Entry | Gap | None:
        """The next event, or a gap where some are missing; `None` at the end."""
        while True:
            if self._items:
                return self._items.popleft()
            if self._missed:
                missed, self._missed = self._missed, 0
                return Gap(missed)
            if self._closed:
                return None
            await self._backend.wait(self._register)

    def _register(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def _notify(self) -> None:
        if self._wake is not None:
            wake, self._wake = self._wake, None
            wake()


class Stage:
    """Tells observers and subscriptions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._observers: list[object] = []
        self._subscriptions: WeakKeyDictionary[Subscription, None]
        self._subscriptions = WeakKeyDictionary()
        self._watching: dict[str, list[Callable[[], None]]] = {}
        self.closed: bool = False

    def observe(self, observer: object) -> Callable[[], None]:
        """Tell an observer from now on; gives what stops that."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    def subscribe(self, session: str | None, limit: int = 10_000) -> Subscription:
        """A buffer of what becomes durable from now on."""
        subscription = Subscription(self._backend, session, limit)
        self._subscriptions[subscription] = None
        if self.closed:
            subscription.close()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a buffer."""
        subscription.close()
        self._subscriptions.pop(subscription, None)

    def watch(self, session: str, callback: Callable[[], None]) -> None:
        """Call back once, when the next event of a session is durable."""
        self._watching.setdefault(session, []).append(callback)

    def unwatch(self, session: str, callback: Callable[[], None]) -> None:
        """Forget a callback that was not called yet."""
        callbacks = self._watching.get(session)
        if callbacks is not None and callback in callbacks:
            callbacks.remove(callback)
            if not callbacks:
                del self._watching[session]

    def say(self, text: str) -> None:
        """Warn the operator of something that no event tells."""
        _LOG.warning("%s", text)

    def close(self) -> None:
        """Nothing more will happen."""
        self.closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        watching, self._watching = self._watching, {}
        for callbacks in watching.values():
            for callback in callbacks:
                callback()

    def committed(self, entries: Sequence[Entry]) -> None:
        """Events became durable, in this order."""
        if self._observers:
            for hear in self._listeners("on_event"):
                for entry in entries:
                    _tell(hear, entry.session, entry.seq, entry.event)
        if self._subscriptions:
            for subscription in list(self._subscriptions):
                subscription.put(entries)
        if self._watching:
            for entry in entries:
                for callback in self._watching.pop(entry.session, ()):
                    callback()

    def closing(self, session: str, cause: str) -> None:
        """An agent began to close."""
        for hear in self._listeners("on_closing"):
            _tell(hear, session, cause)

    def delta(self) -> Callable[[str, int, int, str], None] | None:
        """What to call with streamed text, or `None` when nobody listens."""
        if not self._observers:
            return None
        hearing = self._listeners("on_delta")
        if not hearing:
            return None

        def tell(session: str, turn: int, step: int, text: str) -> None:
            for hear in hearing:
                _tell(hear, session, turn, step, text)

        return tell

    def _listeners(self, method: str) -> list[Callable[..., object]]:
        found = [getattr(observer, method, None) for observer in self._observers]
        return [hear for hear in found if hear is not None]


def _tell(hear: Callable[..., object], *arguments: object) -> None:
    try:
        hear(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException:
        _LOG.exception("an observer of ramet raised; what it observed is unchanged")
