"""Commands as a person runs them: in a process, at a terminal or into a pipe.

Lives here: stores that real supervisors made, whole or cut off, and ways to run `ramet`
on them.  Nothing waits by the clock: what comes later is read from a process.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio

from tests.lifecycle import cli_writer

__all__ = [
    "FakeTerminal",
    "Writer",
    "at_terminal",
    "command",
    "environment",
    "make_cut",
    "make_finished",
    "started",
    "terminal",
    "writer",
]

WRITER = Path(cli_writer.__file__)


def environment(**changes: str | None) -> dict[str, str]:
    """What a command finds: this one, without what would change what it shows."""
    found = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RAMET_STORE", "RAMET_TRACEBACK", "COLUMNS", "NO_COLOR")
    }
    found |= {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"}
    for name, change in changes.items():
        if change is None:
            found.pop(name, None)
        else:
            found[name] = change
    return found


def started(
    *words: str, cwd: Path, stdout: int | None = None, **changes: str | None
) -> subprocess.Popen[str]:
    """A command that runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "ramet", *words],
        cwd=cwd,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(
    *words: str, cwd: Path, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    """A command that has run."""
    running = started(*words, cwd=cwd, stdout=None, **changes)
    out, err = running.communicate(timeout=60)
    return subprocess.CompletedProcess(words, running.returncode, out, err)


@contextlib.contextmanager
def terminal(
    *words: str, cwd: Path, columns: int = 120, **changes: str | None
) -> Iterator[tuple[subprocess.Popen[str], io.TextIOWrapper]]:
    """A command whose standard output is a terminal, and what comes out of it."""
    ours, theirs = pty.openpty()
    size = struct.pack("HHHH", 24, columns, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    running = started(*words, cwd=cwd, stdout=theirs, **changes)
    os.close(theirs)
    with open(ours, encoding="utf-8", newline="") as screen:
        try:
            yield running, screen
        finally:
            running.kill()
            running.communicate()


def at_terminal(
    *words: str, cwd: Path, columns: int = 120, **changes: str | None
) -> tuple[int, str]:
    """The status of a command, and what a terminal of this width got from it."""
    with terminal(*words, cwd=cwd, columns=columns, **changes) as (running, screen):
        pieces = []
        # A terminal whose other side has ended gives an error, not an end.
        with contextlib.suppress(OSError):
            while piece := screen.read(1):
                pieces.append(piece)
        return running.wait(60), "".join(pieces).replace("\r\n", "\n")


class Writer:
    """A process that holds agents in the middle of their work."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running = subprocess.Popen(
            [sys.executable, str(WRITER), str(path), "hold"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ids: dict[str, str] = json.loads(self._line())

    @property
    def pid(self) -> int:
        """Its number."""
        return self.running.pid

    def go_on(self) -> None:
        """Let the held turn end."""
        assert self.running.stdin is not None
        self.running.stdin.write("\n")
        self.running.stdin.flush()
        assert self._line() == "went on\n"

    def kill(self) -> None:
        """End it as a crash does."""
        self.running.send_signal(signal.SIGKILL)
        self.running.communicate()

    def _line(self) -> str:
        assert self.running.stdout is not None
        return self.running.stdout.readline()


@contextlib.contextmanager
def writer(path: Path) -> Iterator[Writer]:
    process = Writer(path)
    try:
        yield process
    finally:
        if process.running.returncode is None:
            process.kill()


def make_finished(path: Path) -> dict[str, str]:
    """A store in which everything came to its end; gives the ids."""
    return _made(path, "finish")


def make_cut(path: Path) -> dict[str, str]:
    """A store as a process left it that was killed in the middle; gives the ids."""
    ids: dict[str, str] = {}

    def copy(found: dict[str, str]) -> None:
        ids.update(found)
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(path.with_name(f"live-{name}"), path.with_name(name))

    _made(path.with_name(f"live-{path.name}"), "hold", copy)
    return ids


def _made(path: Path, pace: str, told: Any = None) -> dict[str, str]:
    ids: dict[str, str] = {}

    def tell(found: dict[str, str]) -> None:
        ids.update(found)
        if told is not None:
            told(found)

    anyio.run(cli_writer.run, str(path), pace, tell)
    return ids


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What it can show."""
        return self._encoding

    def isatty(self) -> bool:
        """It is."""
        return True
