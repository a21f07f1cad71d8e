"""A conversation at a terminal, or through pipes: its lines and its screen.

Lives here: how lines are read without a thread, so that leaving waits for nobody, and
how answers, the prompt and the tree's activity share one screen.  Where standard input
or output is no terminal, everything is plain: answers alone on standard output, and
what else there is to say on standard error.
"""

from __future__ import annotations

import os
from typing import TextIO

import anyio

from .cli_text import Line, shorten, visible
from .cli_view import Screen

__all__ = ["FileLines", "PlainChat", "TerminalChat"]

_PIECE = 65536
_PROMPT = "> "
_CLEAR = "\r\x1b[K"
_LEAST = 20


class FileLines:
    """Lines from a file descriptor: a terminal, a pipe, or a file.

    Args:
        descriptor: where they are read; it stays open.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""
        self._over = False

    async def next(self) -> str | None:
        """The next line, without its end; `None` when there will be none."""
        while b"\n" not in self._pending and not self._over:
            piece = await self._read()
            self._pending += piece
            self._over = not piece
        if not self._pending:
            return None
        line, _, self._pending = self._pending.partition(b"\n")
        return line.removesuffix(b"\r").decode("utf-8", "replace")

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except OSError:
            # A plain file cannot be waited for, and never makes anybody wait.
            await anyio.lowlevel.checkpoint()
        try:
            return os.read(self._descriptor, _PIECE)
        except OSError:
            # A terminal whose other side has gone away.
            return b""


class PlainChat:
    """Answers on one stream and everything else on another, with nothing around."""

    talks = False

    def __init__(self, answers: TextIO, remarks: TextIO) -> None:
        self._answers = answers
        self._remarks = Screen(remarks)

    def ask(self) -> None:
        """Nobody is there to be asked."""

    def answer(self, text: str) -> None:
        """A piece of what the root says, as it is."""
        self._answers.write(text)
        self._answers.flush()

    def end_answer(self) -> None:
        """What the root said is whole."""
        self.answer("\n")

    def activity(self, line: Line) -> None:
        """Something happened in the tree."""
        self._remarks.show([line])

    def note(self, text: str) -> None:
        """A sentence for the person."""
        self._remarks.show([((f"ramet: {visible(text)}", ""),)])


class TerminalChat:
    """One screen for all of it: the prompt gives way to whatever comes meanwhile."""

    talks = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._screen = Screen(stream)
        self._asking = False
        self._within = False

    def ask(self) -> None:
        """Show the prompt."""
        self._begin()
        self._asking = True
        self._put(_PROMPT)

    def answer(self, text: str) -> None:
        """A piece of what the root says; what must not reach a terminal is shown."""
        if not self._within:
            self._begin()
        self._within = True
        self._put(visible(text))

    def end_answer(self) -> None:
        """What the root said is whole."""
        if self._within:
            self._within = False
            self._put("\n")

    def activity(self, line: Line) -> None:
        """Show a line of the tree's activity, set in from the conversation."""
        self._begin()
        *lead, (text, style) = (("  ", ""), *line)
        room = (self._screen.width or 80) - sum(len(piece) for piece, _ in lead) - 1
        shown = shorten(text, max(room, _LEAST))
        self._screen.show([(*((it, "dim") for it, _ in lead), (shown, style or "dim"))])

    def note(self, text: str) -> None:
        """Show a sentence."""
        self._begin()
        self._screen.show([((f"({visible(text)})", "note"),)])

    def _begin(self) -> None:
        """Go to the beginning of a line: over a prompt, or below an open answer."""
        if self._asking:
            self._put(_CLEAR)
        elif self._within:
            self._put("\n")
        self._asking = self._within = False

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
