"""pykka: an actor is a thread with a queue."""

from __future__ import annotations

import logging
import threading
from time import perf_counter
from typing import TYPE_CHECKING

import pykka

from .subjects import PROMPT, Piece
from .workloads import BURST, STREAM

if TYPE_CHECKING:
    from bare import Bare

logging.getLogger("pykka").setLevel(logging.CRITICAL)


class Counter(pykka.ThreadingActor):
    """Counts its messages, and says when all have come."""

    def __init__(self, awaited: int, done: threading.Event) -> None:
        super().__init__()
        self._awaited = awaited
        self._done = done

    def on_receive(self, message: str) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._done.set()


async def tell(bare: Bare, count: int) -> float:
    done = threading.Event()
    actor = Counter.start(count, done)
    try:
        began = perf_counter()
        for _ in range(count):
            actor.tell(PROMPT)
        done.wait()
        return perf_counter() - began
    finally:
        actor.stop()


def pieces(system: str) -> list[Piece]:
    return [Piece(BURST, tell), Piece(STREAM, tell)]
