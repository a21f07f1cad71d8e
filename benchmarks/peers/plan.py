"""The plan: in which order the processes of all rounds run.

Lives here: one rule.  A machine that grows slow or fast for a while must not do so for
one system alone; so all systems run once in each round, forwards and backwards in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(systems: Sequence[T], rounds: int) -> list[tuple[int, T]]:
    """Every system once in each round, with the number of the round from 1 on."""
    return [
        (turn, one)
        for turn in range(1, rounds + 1)
        for one in (systems if turn % 2 else systems[::-1])
    ]
