from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from benchmarks.peers.processes import Ended, run

LEFT_BEHIND = """
import os, signal, sys
fifo = sys.argv[1]
ready, say = os.pipe()
if not os.fork():
    held = os.open(fifo, os.O_WRONLY)
    os.write(say, b"!")
    signal.pause()
os.read(ready, 1)
print("head")
END
"""
"""A head whose child holds a named pipe, and its output, open for ever."""


def run_python(text: str, *arguments: str, timeout_s: float = 60) -> Ended:
    return run(
        [sys.executable, "-c", text, *arguments],
        folder=Path.cwd(),
        environment=os.environ,
        timeout_s=timeout_s,
    )


class Held:
    """A named pipe, which tells whether anybody still holds it open for writing."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.name = str(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._writer = os.open(path, os.O_WRONLY)

    def is_let_go(self) -> bool:
        """Whether all others let go, or do within the moment that a kill may take."""
        os.close(self._writer)
        readable, _, _ = select.select([self._reader], [], [], 60)
        let_go = bool(readable) and os.read(self._reader, 1) == b""
        os.close(self._reader)
        return let_go


def test_what_a_process_leaves_behind_is_killed_when_it_ends(tmp_path: Path) -> None:
    held = Held(tmp_path / "fifo")
    ended = run_python(LEFT_BEHIND.replace("END", "pass"), held.name)
    assert ended == Ended(0, "head\n", "")
    assert held.is_let_go()


def test_a_process_whose_time_is_over_is_killed_with_all_that_it_started(
    tmp_path: Path,
) -> None:
    held = Held(tmp_path / "fifo")
    text = LEFT_BEHIND.replace("END", "signal.pause()")
    ended = run_python(text, held.name, timeout_s=1)
    assert ended.status is None
    assert ended.reason == "not ended in its time"
    assert held.is_let_go()


def test_the_reason_of_a_failure_is_the_last_line_of_the_complaint() -> None:
    ended = run_python("import sys; print('x'); raise ValueError('odd')")
    assert (ended.status, ended.said, ended.reason) == (1, "x\n", "ValueError: odd")
    assert run_python("raise SystemExit(3)").reason == "status 3"


def test_a_process_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    ended = run(
        [sys.executable, "-c", "import os; print(os.getcwd(), os.environ['GIVEN'])"],
        folder=tmp_path,
        environment={"GIVEN": "this"},
        timeout_s=60,
    )
    assert ended.said == f"{tmp_path.resolve()} this\n"
