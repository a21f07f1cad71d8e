"""Samples: the last few numbers of a kind, and how they were spread.

Lives here: what the runtime notes of its own work for whoever wants to watch it.  To
note a number is to append it to a ring; everything else is worked out when asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

__all__ = ["Samples", "Spread"]

_KEPT = 1_000


@attrs.frozen
class Spread:
    """How the last thousand numbers of a kind were spread.

    Attributes:
        count: how many numbers it tells of; the others are 0 where there are none.
        median: half of them were no greater.
        p99: 99 of a hundred were no greater.
        most: the greatest.
    """

    count: int = 0
    median: float = 0
    p99: float = 0
    most: float = 0


class Samples:
    """A ring of the last numbers."""

    __slots__ = ("_ring", "note")

    def __init__(self) -> None:
        self._ring: deque[float] = deque(maxlen=_KEPT)
        self.note: Callable[[float], None] = self._ring.append
        """Takes a number, in place of the oldest."""

    def spread(self) -> Spread:
        """How they are spread now."""
        found = sorted(self._ring)
        count = len(found)
        if not count:
            return Spread()
        median, p99 = found[(count - 1) // 2], found[(count * 99 - 1) // 100]
        return Spread(count, median, p99, found[-1])
