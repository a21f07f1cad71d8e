"""The live tree of a run, for a terminal.

Lives here: the adapter of the progress port that needs rich (the extra `cli`): a table
of all agents that stays below the lines that pass.  It is drawn when something happens,
so that it is calm, and never more often than a person can read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from .cli_progress import Activity, PlainProgress, Progress
from .cli_text import Cell, Column, Line, count, cut, duration, plural, table
from .cli_view import styled

__all__ = ["TerminalProgress", "progress_for"]

_SOONEST_S = 0.05
_MOST = 30
_LEAST = 20
_NARROW = 40
"""A screen of fewer columns shows one line and no table."""

_PASSING = ("good", "bad", "note", "title", "mark")
"""The styles of lines that pass above the tree; the others are its last column."""

_COLUMNS = (
    Column("AGENT", least=16),
    Column("STATE", rank=2),
    Column("AGE", right=True, rank=4),
    Column("TURNS", right=True, rank=5),
    Column("REQUESTS", right=True, rank=5),
    Column("IN", right=True, rank=3),
    Column("OUT", right=True, rank=3),
    Column("LAST", least=10),
)


def progress_for(stream: TextIO, agents: Callable[[], Iterable[Activity]]) -> Progress:
    """What fits a stream: a live tree at a terminal, where rich is at hand, else lines.

    Args:
        stream: where progress is shown.
        agents: gives what each agent does, parents before children.
    """
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    if terminal and importlib.util.find_spec("rich") is not None:
        return TerminalProgress(stream, agents)
    return PlainProgress(stream)


class TerminalProgress:
    """A table of agents below the lines that pass."""

    def __init__(
        self, stream: TextIO, agents: Callable[[], Iterable[Activity]]
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self._agents = agents
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._live: Any = Live(
            console=self._console,
            auto_refresh=False,
            # What a script prints passes above the tree, and does not break it.
            redirect_stdout=True,
            redirect_stderr=True,
        )
        self._drawn = 0.0
        self._running = False

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()
        self._running = True

    def changed(self, told: Line | None) -> None:
        """Let the line pass, and draw again if the last time is not just now."""
        if told is not None and told[-1][1] in _PASSING:
            self._console.print(styled(told, self._console.width))
        if time.monotonic() - self._drawn >= _SOONEST_S:
            self._draw()

    def say(self, text: str) -> None:
        """Let a sentence pass."""
        self._console.print(f"ramet: {text}")

    def stop(self) -> None:
        """Draw the last state and leave it on the screen."""
        if self._running:
            self._running = False
            # After a hangup there is no screen to leave it on.
            with contextlib.suppress(OSError):
                self._draw()
                self._live.stop()

    def _draw(self) -> None:
        from rich.console import Group

        self._drawn = time.monotonic()
        agents = list(self._agents())
        width = self._console.width
        room = max(width // 3, _LEAST)
        if width < _NARROW:
            self._live.update(styled(_summary(agents, width), width), refresh=True)
            return
        rows = [_row(agent, room) for agent in agents[-_MOST:]]
        lines = table(_COLUMNS, rows, width)
        if len(agents) > _MOST:
            lines.append(((f"… and {len(agents) - _MOST} agents before", "dim"),))
        self._live.update(Group(*(styled(line, width) for line in lines)), refresh=True)


def _row(agent: Activity, most: int) -> list[Cell]:
    """The cells of an agent; its last activity has `most` columns."""
    return [
        (f"{'  ' * agent.depth}{agent.name}", "name"),
        (agent.state, agent.state),
        (duration(agent.age_ms), "dim"),
        (count(agent.turns), ""),
        (count(agent.requests), ""),
        (count(agent.input_tokens), ""),
        (count(agent.output_tokens), ""),
        (cut(agent.last, most), "dim"),
    ]


def _summary(agents: list[Activity], width: int) -> Line:
    """All agents in one line: how many work, and what was done last."""
    working = sum(agent.state == "running" for agent in agents)
    text = f"{plural(len(agents), 'agent')}, {working} running"
    latest = next((one for one in reversed(agents) if one.state == "running"), None)
    if latest is not None:
        text += f": {latest.name} {latest.last}"
    return ((cut(text, max(width - 1, 1)), ""),)
