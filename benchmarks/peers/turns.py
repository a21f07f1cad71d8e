"""Turns of a peer: both ways of doing them, made of one way to do a single turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .subjects import ANSWER, Piece, a_part
from .workloads import AT_ONCE, IN_A_ROW

if TYPE_CHECKING:
    from bare import Bare

Turn = Callable[[], Coroutine[Any, Any, str]]
Ready = Callable[[int], Awaitable[list[Turn]]]
"""Makes so many turns ready, outside the clock; each is then done once."""


def turns(ready: Ready, *, part: int = 1) -> list[Piece]:
    """The two workloads; only a `part` of the pieces is done where each is slow."""

    async def at_once(bare: Bare, count: int) -> float:
        answers: list[str] = []

        def kept(turn: Turn) -> Turn:
            async def run() -> str:
                answers.append(await turn())
                return answers[-1]

            return run

        works = [kept(turn) for turn in await ready(count)]
        began = perf_counter()
        await bare.at_once(works)
        seconds = perf_counter() - began
        assert answers == [ANSWER] * count
        return seconds

    async def in_a_row(bare: Bare, count: int) -> float:
        works = await ready(count)
        began = perf_counter()
        for turn in works:
            answer = await turn()
            assert answer == ANSWER
        return perf_counter() - began

    return [
        Piece(AT_ONCE, a_part(at_once, part)),
        Piece(IN_A_ROW, a_part(in_a_row, part)),
    ]
