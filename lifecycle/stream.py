"""Event streams: what was logged and what comes, for a reader that may be slow.

Lives here: how a stored log and the events that become durable meanwhile are joined,
each event once and in order.  A stream may be left at any time, without a close.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from ..mailbox.events import Event
from ..mailbox.store import Entry, Reader
from .activation import Activation
from .observe import Gap
from .runtime import Runtime

__all__ = ["LiveStream", "LogStream"]


class LiveStream(AsyncIterator[Entry | Gap]):
    """Everything that becomes durable from now on; a slow reader gets gaps (R-216)."""

    def __init__(self, runtime: Runtime) -> None:
        self._stage = runtime.stage
        self._subscription = runtime.stage.subscribe(None)

    def __aiter__(self) -> LiveStream:
        return self

    async def __anext__(self) -> Entry | Gap:
        item = await self._subscription.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Hear nothing more; leaving the stream alone does the same."""
        self._stage.unsubscribe(self._subscription)


class LogStream(AsyncIterator[Entry]):
    """The log of one session, whole: where its reader was slow it reads again.

    Args:
        runtime: whose store it is.
        session: the session.
        after: how many events to leave out.
        until_gone: the activation with whose end it ends; `None`: the supervisor's.
    """

    def __init__(
        self,
        runtime: Runtime,
        session: str,
        after: int,
        until_gone: Activation | None,
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._after = after
        self._until_gone = until_gone
        self._loaded: deque[Event] = deque()
        self._behind = True
        self._subscription = runtime.stage.subscribe(session)

    def __aiter__(self) -> LogStream:
        return self

    async def __anext__(self) -> Entry:
        while True:
            if self._loaded:
                entry = Entry(self._session, self._after, self._loaded.popleft())
                self._after += 1
                return entry
            if self._behind:
                storage = self._runtime.storage
                after = self._after
                events = await storage.read(Reader.load, self._session, after)
                # Not before: a reader who was cancelled in there reads again.
                self._behind = False
                self._loaded.extend(events)
                continue
            item = None if self._is_over() else await self._subscription.next()
            if item is None:
                raise StopAsyncIteration
            if isinstance(item, Gap) or item.seq > self._after:
                self._behind = True
            elif item.seq == self._after:
                self._after += 1
                return item

    def _is_over(self) -> bool:
        activation = self._until_gone
        if activation is None or not activation.gone:
            return False
        failed = self._runtime.gate.failed is not None
        return failed or self._after >= activation.session.seq

    async def aclose(self) -> None:
        """Hear nothing more; leaving the stream alone does the same."""
        self._runtime.stage.unsubscribe(self._subscription)
