"""Concurrency: pools that nest, and one order of arrival, beside a reading that looks
at everybody each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.lifecycle.concurrency import Place, Pool, Turnstile


def names(places: list[Place]) -> list[object]:
    return [place.owner for place in places]


@pytest.mark.case("A-144")
def test_places_are_given_in_order_of_arrival() -> None:
    gate, pool = Turnstile(), Pool(2)
    places = [Place(name) for name in "abcde"]
    assert [gate.ask(place, pool) for place in places] == [True, True, *[False] * 3]
    assert [place.queued for place in places] == [False, False, *[True] * 3]
    assert names(gate.leave(places[1])) == ["c"]
    assert gate.leave(places[3]) == []
    assert gate.leave(places[3]) == []
    assert names(gate.leave(places[0])) == ["e"]
    assert pool.held == 2
    assert gate.leave(places[2]) == gate.leave(places[4]) == []
    assert pool.held == 0
    assert pool.head() is None


@pytest.mark.case("A-186")
def test_who_comes_back_stands_before_who_is_new() -> None:
    gate, pool = Turnstile(), Pool(1)
    holder, new, first, second = [Place(name) for name in ("h", "n", "1", "2")]
    gate.ask(holder, pool)
    gate.ask(new, pool)
    assert gate.contended(pool)
    gate.ask(first, pool, front=True)
    gate.ask(second, pool, front=True)
    order = []
    at = holder
    while served := gate.leave(at):
        (at,) = served
        order.append(at.owner)
    assert order == ["1", "2", "n"]
    assert not gate.contended(pool)


def test_a_place_in_an_inner_pool_is_one_in_every_pool_above() -> None:
    gate, outer = Turnstile(), Pool(2)
    inner = Pool(1, outer)
    assert inner.chain() == (inner, outer)
    a, b, c, d = [Place(name) for name in "abcd"]
    assert gate.ask(a, inner)
    assert not gate.ask(b, inner)
    assert gate.ask(c, outer)
    assert not gate.ask(d, outer)
    assert (outer.held, inner.held) == (2, 1)
    assert names(gate.leave(c)) == ["d"]
    assert names(gate.leave(d)) == []
    assert names(gate.leave(a)) == ["b"]


def test_a_pool_that_gets_one_above_it_keeps_its_queue() -> None:
    gate, inner, outer = Turnstile(), Pool(1), Pool(1)
    a, b, c = [Place(name) for name in "abc"]
    gate.ask(a, inner)
    gate.ask(b, inner)
    gate.ask(c, outer)
    gate.relink(inner, outer)
    assert names(gate.leave(a)) == []
    assert names(gate.leave(c)) == ["b"]
    assert (outer.held, inner.held) == (1, 1)


class Naive:
    """The same by looking at everybody who waits, in order, each time."""

    def __init__(self, sizes: list[int], above: list[int | None]) -> None:
        self.sizes, self.above = sizes, above
        self.held = [0] * len(sizes)
        self.waiting: list[tuple[int, int, int, int]] = []
        self.holds: dict[int, list[int]] = {}
        self.number = 0

    def chain(self, pool: int | None) -> list[int]:
        found = []
        while pool is not None:
            found.append(pool)
            pool = self.above[pool]
        return found

    def serve(self) -> list[int]:
        served = []
        for entry in sorted(self.waiting):
            chain = self.chain(entry[3])
            if all(self.held[one] < self.sizes[one] for one in chain):
                self.waiting.remove(entry)
                self.take(entry[2], chain)
                served.append(entry[2])
        return served

    def take(self, who: int, chain: list[int]) -> None:
        self.holds[who] = chain
        for one in chain:
            self.held[one] += 1

    def ask(self, who: int, pool: int, front: bool) -> bool:
        self.number += 1
        self.waiting.append((0 if front else 1, self.number, who, pool))
        return who in self.serve()

    def leave(self, who: int) -> list[int]:
        for one in self.holds.pop(who, ()):
            self.held[one] -= 1
        self.waiting = [entry for entry in self.waiting if entry[2] != who]
        return self.serve()


ACTIONS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 4), st.booleans()), max_size=60
)
TREES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=5)


@given(TREES, ACTIONS)
def test_it_gives_the_places_that_a_look_at_everybody_gives(
    tree: list[tuple[int, int]], actions: list[tuple[int, int, bool]]
) -> None:
    sizes = [size for size, _ in tree]
    above = [None if n == 0 else min(at, n - 1) for n, (_, at) in enumerate(tree)]
    if tree[0][1] == 0:
        above[-1] = None
    naive = Naive(sizes, above)
    pools: list[Pool] = []
    for size, at in zip(sizes, above, strict=True):
        pools.append(Pool(size, None if at is None else pools[at]))
    gate = Turnstile()
    places = [Place(number) for number in range(10)]
    for who, pool, front in actions:
        place = places[who]
        if place.held or place.queued:
            assert names(gate.leave(place)) == naive.leave(who)
        else:
            taken = gate.ask(place, pools[pool], front=front)
            assert taken is naive.ask(who, pool, front)
        assert [one.held for one in pools] == naive.held
        assert {p.owner for p in places if p.held} == set(naive.holds)
        assert all(gate.contended(pools[entry[3]]) for entry in naive.waiting)
        assert naive.waiting or not any(gate.contended(one) for one in pools)
