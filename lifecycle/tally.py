"""A tally: how many are under way, and a wait until none is.

Lives here: the count of operations that leaving a block has to wait for.
"""

from __future__ import annotations

from collections.abc import Callable

from ..mailbox.backend import Backend

__all__ = ["Tally"]


class Tally:
    """Counts what enters and leaves; any number may wait for none."""

    __slots__ = ("_backend", "_waiting", "count")

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiting: list[Callable[[], None]] = []
        self.count: int = 0

    def enter(self) -> None:
        """One more is under way."""
        self.count += 1

    def leave(self) -> None:
        """One is over."""
        self.count -= 1
        if not self.count and self._waiting:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done()

    async def none(self) -> None:
        """Wait until none is under way."""
        while self.count:
            await self._backend.wait(self._waiting.append)
