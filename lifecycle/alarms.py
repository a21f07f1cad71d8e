"""Alarms: plain callbacks at a time of the backend's clock.

Lives here: the one task that waits for the next of them.  It exists only while an alarm
is set.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import anyio

from ..mailbox.backend import Backend

__all__ = ["Alarms"]


class _Alarm:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback


class Alarms:
    """Calls back when a time has come.

    Args:
        backend: starts the task and wakes it.
        on_error: is told what a callback raised.
    """

    def __init__(
        self, backend: Backend, on_error: Callable[[BaseException], None]
    ) -> None:
        self._backend = backend
        self._on_error = on_error
        self._queue: list[tuple[float, int, _Alarm]] = []
        self._number = 0
        self._set = 0
        self._running = False
        self._kick: Callable[[], None] | None = None

    def set(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a callback called at a time; gives what takes that back.

        What it gives may be called more than once, also after the time.
        """
        alarm = _Alarm(callback)
        self._number += 1
        self._set += 1
        heappush(self._queue, (when, self._number, alarm))
        if not self._running:
            self._running = True
            self._backend.spawn(self._run)
        elif self._queue[0][2] is alarm:
            self._wake()

        def unset() -> None:
            if alarm.callback is not None:
                alarm.callback = None
                self._set -= 1
                if not self._set:
                    self._wake()

        return unset

    def _wake(self) -> None:
        if self._kick is not None:
            kick, self._kick = self._kick, None
            kick()

    def _register(self, kick: Callable[[], None]) -> None:
        self._kick = kick

    async def _run(self) -> None:
        while self._set:
            self._ring(self._backend.now())
            if self._set:
                with anyio.CancelScope(shield=True, deadline=self._queue[0][0]):
                    await self._backend.wait(self._register)
        self._queue.clear()
        self._running = False

    def _ring(self, now: float) -> None:
        """Call back what is due, and forget what was taken back."""
        queue = self._queue
        while queue and (queue[0][2].callback is None or queue[0][0] <= now):
            alarm = heappop(queue)[2]
            callback, alarm.callback = alarm.callback, None
            if callback is None:
                continue
            self._set -= 1
            try:
                callback()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._on_error(error)
