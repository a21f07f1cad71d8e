"""Lending: an agent that waits for another one gives its place back meanwhile.

Lives here: the block around such a wait.  In code of no turn, and where no limit on
concurrency holds, it does nothing.  On the way out the agent has its place again, also
when the wait was cancelled, unless its turn must end.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from ..mailbox.backend import Backend
from .current import STRAND
from .limiter import Limiter

__all__ = ["Lending"]


class Lending:
    """The block; `wait` inside it waits once.

    Args:
        limiter: who has the places.
        backend: what to wait by.
    """

    __slots__ = ("_backend", "_limiter", "_strand", "_waits")

    def __init__(self, limiter: Limiter, backend: Backend) -> None:
        self._limiter = limiter
        self._backend = backend
        strand = STRAND.get()
        self._strand = None if strand is None or strand.over else strand
        self._waits = False

    @property
    def lends(self) -> bool:
        """Whether there is a place to give back."""
        return self._strand is not None

    async def __aenter__(self) -> Lending:
        if self._strand is not None:
            self._waits = True
            self._limiter.wait(self._strand)
        return self

    async def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait for the other agent's end.

        What ends the wait takes the place in the queue at once, so that nobody comes
        between the end of the one and the other.
        """
        if self._strand is None:
            await self._backend.wait(register)
        else:
            await self._backend.wait(lambda done: register(lambda: self._over(done)))

    def _over(self, done: Callable[[], None]) -> None:
        self._go_on()
        done()

    def _go_on(self) -> None:
        if self._waits and self._strand is not None:
            self._waits = False
            self._limiter.go_on(self._strand)

    async def __aexit__(self, *_: object) -> None:
        self._go_on()
        strand = self._strand
        if strand is None or strand.over:
            return
        place = strand.allowance.place
        if place is not None and place.queued:
            with anyio.CancelScope(shield=True):
                await self._backend.wait(strand.allowance.back.append)
            if not place.held:
                await self._backend.check_cancelled()
