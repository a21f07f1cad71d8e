"""What a system's file gives: the ways in which it does each workload.

Lives here: one record, and the stub answer that all models give.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bare import Bare

Subject = Callable[["Bare", int], Awaitable[float]]
"""Does its work `count` times and gives the seconds that it took."""

PROMPT = (
    "a finding of the usual length, which says what was looked at and what it means"
)
ANSWER = "ok"


@dataclass(frozen=True)
class Piece:
    """One workload, done in one way."""

    workload: str
    run: Subject
    variant: str = ""


_TRIPS = 20
"""Turns of the loop in which what was put off comes to its end."""


def settled(run: Subject) -> Subject:
    """The same work; then, outside the clock, the loop ends what was put off.

    Async generators that are not read to their end are closed by tasks of their own,
    afterwards; without this the limit, which comes next, would pay for them.
    """

    async def alone(bare: Bare, count: int) -> float:
        seconds = await run(bare, count)
        for _ in range(_TRIPS):
            trip = bare.promise()
            bare.post(trip.set_result, None)
            await trip
        return seconds

    return alone


def a_part(run: Subject, part: int) -> Subject:
    """The same work for one of `part` pieces, as if all had taken as long.

    For what is so slow that a round would last for seconds; the limit beside it is too
    fast to be measured with so few.
    """

    async def fewer(bare: Bare, count: int) -> float:
        some = max(count // part, 1)
        return await run(bare, some) / some * count

    return fewer
