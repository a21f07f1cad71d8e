"""async-pykka: the interface of pykka, where an actor is a task of asyncio."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING

import async_pykka

from .subjects import PROMPT, Piece
from .workloads import BURST, STREAM

if TYPE_CHECKING:
    from bare import Bare

logging.disable(logging.CRITICAL)


class Counter(async_pykka.AsyncioActor):
    """Counts its messages, and says when all have come."""

    def __init__(self, awaited: int, done: asyncio.Event) -> None:
        super().__init__()
        self._awaited = awaited
        self._done = done

    async def on_receive(self, message: str) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._done.set()


async def tell(bare: Bare, count: int) -> float:
    done = asyncio.Event()
    actor = Counter.start(count, done)
    began = perf_counter()
    for _ in range(count):
        actor.tell(PROMPT)
    await done.wait()
    seconds = perf_counter() - began
    await actor.stop()
    return seconds


def pieces(system: str) -> list[Piece]:
    return [Piece(BURST, tell), Piece(STREAM, tell)]
