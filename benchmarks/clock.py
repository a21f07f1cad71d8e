"""What is counted: the time on the wall, or what the process had of a processor.

Lives here: the one clock by which every workload is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, process_time


class Clock:
    """The wall's time, until somebody asks for the processor's."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = perf_counter

    def count_processor(self) -> None:
        self.now = process_time


CLOCK = Clock()
