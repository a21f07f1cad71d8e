"""Concurrency: who may run now, and who is next.

Lives here: pools of places, one for each declaration of `concurrency`, and the order in
which agents get a place.  Pools nest as what they cover does, and an agent that runs
holds a place in every pool above it, all at once or none: so nobody waits for one with
another in his hand.  It knows neither agents nor time; `limiter.py` does what it says.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

__all__ = ["Place", "Pool", "Turnstile"]

_Key: TypeAlias = tuple[int, int]
"""Where somebody stands in the queue: rank, then number of arrival."""

_FRONT, _BACK = 0, 1


class Pool:
    """The places of one declaration: how many there are, and how many are held.

    Its queue is a heap of those who stand in it: agents that it is the innermost pool
    of, and the pools right below it, each under the key of the first that stands there.
    What is full is not listed above.  An entry counts while its key is still the key of
    its item.

    Args:
        size: how many places there are.
        above: the pool that covers more, or `None`.
    """

    __slots__ = ("above", "held", "key", "queue", "size")

    def __init__(self, size: int, above: Pool | None = None) -> None:
        self.size: int = size
        self.above: Pool | None = above
        self.held: int = 0
        self.key: _Key | None = None
        self.queue: list[tuple[_Key, Place | Pool]] = []

    @property
    def full(self) -> bool:
        """Whether every place is held."""
        return self.held >= self.size

    def chain(self) -> tuple[Pool, ...]:
        """It and what is above it."""
        found = []
        at: Pool | None = self
        while at is not None:
            found.append(at)
            at = at.above
        return tuple(found)

    def head(self) -> tuple[_Key, Place | Pool] | None:
        """Who is next here, once there is room above too."""
        queue = self.queue
        while queue and queue[0][1].key != queue[0][0]:
            heappop(queue)
        return queue[0] if queue else None


class Place:
    """What one agent has of the pools above it: a place, or somewhere in their queue.

    Args:
        owner: whose it is; only given back.
    """

    __slots__ = ("holds", "key", "owner", "pool")

    def __init__(self, owner: object) -> None:
        self.owner: object = owner
        self.holds: tuple[Pool, ...] = ()
        self.key: _Key | None = None
        self.pool: Pool | None = None

    @property
    def held(self) -> bool:
        """Whether its agent may run."""
        return bool(self.holds)

    @property
    def queued(self) -> bool:
        """Whether it stands in the queue."""
        return self.key is not None


class Turnstile:
    """Gives places in order of arrival; who comes back stands before who is new."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = 0

    def ask(self, place: Place, pool: Pool, *, front: bool = False) -> bool:
        """Take a place at once, or stand in the queue; says whether it is held.

        Args:
            place: it holds nothing and stands nowhere.
            pool: its innermost pool.
            front: whether it comes back, before those who have never run.
        """
        assert not place.held
        assert not place.queued
        chain = pool.chain()
        place.pool = pool
        if not any(one.full for one in chain):
            _take(place, chain)
            return True
        self._number += 1
        place.key = (_FRONT if front else _BACK, self._number)
        heappush(pool.queue, (place.key, place))
        _refresh(pool)
        return False

    def leave(self, place: Place) -> list[Place]:
        """Give a place back, or leave the queue; gives who holds one because of it."""
        if place.queued:
            assert place.pool is not None
            place.key = None
            _refresh(place.pool)
            return []
        if not place.held:
            return []
        held, place.holds = place.holds, ()
        for one in held:
            one.held -= 1
        _refresh(held[0])
        return self._serve(held[0].chain()[-1])

    def _serve(self, top: Pool) -> list[Place]:
        """Hand out what is free below a pool that nothing is above of."""
        served: list[Place] = []
        while not top.full:
            head = top.head()
            if head is None:
                break
            item = head[1]
            while isinstance(item, Pool):
                below = item.head()
                assert below is not None
                item = below[1]
            assert item.pool is not None
            item.key = None
            _take(item, item.pool.chain())
            _refresh(item.pool)
            served.append(item)
        return served

    def relink(self, pool: Pool, above: Pool) -> None:
        """Put a pool that nothing was above of below another one."""
        assert pool.above is None
        pool.above = above
        pool.key = None
        _refresh(pool)

    @staticmethod
    def contended(pool: Pool) -> bool:
        """Whether somebody stands in the queue of a pool or of one above it."""
        return any(one.head() is not None for one in pool.chain())


def _take(place: Place, chain: tuple[Pool, ...]) -> None:
    for one in chain:
        one.held += 1
    place.holds = chain


def _refresh(pool: Pool) -> None:
    """List each pool in the one above it, under the key of who is next there."""
    at = pool
    while at.above is not None:
        head = None if at.full else at.head()
        key = None if head is None else head[0]
        if key != at.key:
            at.key = key
            if key is not None:
                heappush(at.above.queue, (key, at))
        at = at.above
