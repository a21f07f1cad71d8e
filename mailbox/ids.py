"""Where a run gets its time, ids and chance from: one source, injected everywhere.

Lives here: the wall clock, the dice and the ids made of both.  Nothing else in ramet
reads a wall clock or rolls dice, so that a simulated run replaces one object.
Deadlines are not here: they use the clock of the backend.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

__all__ = ["Ambient"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)


class Ambient:
    """Time, ids and chance of one supervisor.

    An id is a kind letter, nine characters of milliseconds, two of a counter within
    the millisecond and seven of chance drawn once for the supervisor: 19 characters
    that sort by the time of making.  The clock never runs backwards in ids, and a full
    counter moves on to the next millisecond, so that one supervisor makes no id twice.

    Args:
        wall_s: gives the wall clock in seconds since 1970.
        chance: the dice; `None` takes a generator seeded by the operating system.
    """

    __slots__ = ("_count", "_millisecond", "_node", "_stamp", "chance", "wall_s")

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,
        chance: random.Random | None = None,
    ) -> None:
        self.wall_s: Callable[[], float] = wall_s
        self.chance: random.Random = random.Random() if chance is None else chance
        self._node = _base32(self.chance.getrandbits(35), 7)
        self._millisecond = -1
        self._stamp = ""
        self._count = 0

    def now_ms(self) -> int:
        """Milliseconds of the wall clock since 1970."""
        return int(self.wall_s() * 1000)

    def new(self, kind: str) -> str:
        """Make an id that begins with the letter `kind`."""
        millisecond = int(self.wall_s() * 1000)
        if millisecond > self._millisecond:
            self._start(millisecond)
        else:
            self._count += 1
            if self._count == len(_PAIRS):
                self._start(self._millisecond + 1)
        return f"{kind}{self._stamp}{_PAIRS[self._count]}{self._node}"

    def _start(self, millisecond: int) -> None:
        self._millisecond = millisecond
        self._stamp = _base32(millisecond, 9)
        self._count = 0


def _base32(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))
