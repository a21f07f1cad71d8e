"""The screen: lines on standard output, with colours where a person sees them.

Lives here: whether there is a terminal, how wide it is, which style is which colour,
and the one live view.  Colours need the extra `cli` (rich); without it, and into a pipe
or a file, the same lines are plain.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from .cli_text import Line, cut, plain, width_of

__all__ = ["Changed", "Screen", "styled", "wait_for"]

_STYLES = {
    "title": "bold",
    "dim": "dim",
    "name": "bold",
    "running": "green",
    "waiting": "cyan",
    "parked": "yellow",
    "closing": "magenta",
    "gone": "dim",
    "cut": "bold red",
    "good": "green",
    "note": "yellow",
    "bad": "bold red",
    "in": "cyan",
    "out": "green",
    "call": "magenta",
    "mark": "blue",
}
"""What each style of `cli_text` looks like."""

_SOONEST_S = 0.1
_LATEST_S = 1.0
"""How long a view rests between two looks: longer while nothing happens."""


class Screen:
    """Where a command shows its lines.

    Args:
        stream: where they go; `None` takes standard output.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.terminal: bool = self._stream.isatty()
        self._console: Any = None
        if self.terminal and os.environ.get("TERM") != "dumb":
            self._console = _console(self._stream)

    @property
    def width(self) -> int | None:
        """How many columns it has; `None`: it is no terminal, and nothing is cut."""
        return shutil.get_terminal_size().columns if self.terminal else None

    @property
    def glyphs(self) -> bool:
        """Whether lines of a tree can be drawn on it."""
        if not self.terminal:
            return False
        try:
            "├└│─".encode(self._stream.encoding or "ascii")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def show(self, lines: Iterable[Line]) -> None:
        """Write lines, and let them out."""
        for line in lines:
            if self._console is None:
                self._stream.write(f"{plain(line)}\n")
            else:
                self._console.print(styled(line), soft_wrap=True)
        self._stream.flush()

    def text(self, text: str) -> None:
        """Write text as it is, and let it out."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def watch(self, draw: Callable[[], Sequence[Line]], changed: Changed) -> None:
        """Show what `draw` gives again and again, until it is interrupted.

        It is drawn when something changed, and each second, since times go on.  What
        was shown last stays on the screen.
        """
        lines = draw()
        try:
            if self._console is None:
                self._repeat(lines, draw, changed)
            else:
                from rich.live import Live

                with Live(
                    console=self._console, screen=True, auto_refresh=False
                ) as live:
                    while True:
                        live.update(self._page(lines), refresh=True)
                        wait_for(changed, _LATEST_S)
                        lines = draw()
        except KeyboardInterrupt:
            if self._console is not None:
                self.show(lines)

    def _repeat(
        self,
        lines: Sequence[Line],
        draw: Callable[[], Sequence[Line]],
        changed: Changed,
    ) -> None:
        """Without a way to draw in place: one page below the other, on a change."""
        while True:
            self.show([*lines, ()])
            while not wait_for(changed, _LATEST_S):
                pass
            lines = draw()

    def _page(self, lines: Sequence[Line]) -> Any:
        """As much as the screen holds; the rest is counted."""
        from rich.console import Group

        height = max(2, shutil.get_terminal_size().lines)
        shown = list(lines)
        if len(shown) > height:
            left = len(shown) - height + 1
            shown = [*shown[: height - 1], ((f"… and {left} lines more", "dim"),)]
        width = self.width or 80
        return Group(*(styled(line, width) for line in shown))


class Changed:
    """Tells whether something has changed since it was asked last.

    Args:
        number: gives a number that is another one after a change.
    """

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._last = number()

    def __call__(self) -> bool:
        """Whether the number is another one now."""
        last, self._last = self._last, self._number()
        return last != self._last


def wait_for(changed: Changed, most_s: float) -> bool:
    """Wait until something changed, at most for some seconds; says whether it did.

    Another process changes it, and no signal comes from there: it is looked at, less
    and less often.
    """
    pause = _SOONEST_S
    spent = 0.0
    while not changed():
        if spent >= most_s:
            return False
        time.sleep(pause)
        spent += pause
        pause = min(pause * 1.5, _LATEST_S)
    return True


def _console(stream: TextIO) -> Any:
    if importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def styled(line: Line, most: int | None = None) -> Any:
    """A line as rich draws it, in at most `most` columns; rich must be installed."""
    from rich.text import Text

    text = Text(no_wrap=True, overflow="ignore" if most is None else "crop")
    left = most
    for piece, style in line:
        shown = piece if left is None else cut(piece, left)
        text.append(shown, _STYLES.get(style, ""))
        if left is not None:
            left -= width_of(shown)
    return text
