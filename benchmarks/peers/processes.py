"""The processes: one command, bounded in time, and nothing of it is left behind.

Lives here: what ends a process.  Each is the head of a group of its own, and the whole
group is killed when the head has ended or its time is over.  What it says goes to files
and not through pipes, since whoever is left behind would hold a pipe open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    status: int | None
    """None when its time was over."""
    said: str
    complained: str

    @property
    def reason(self) -> str:
        """One line about a process that did not end well."""
        if self.status is None:
            return "not ended in its time"
        lines = [line for line in self.complained.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"status {self.status}"


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> Ended:
    """Run a command in a folder, and kill what is left of it."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        status = None
        try:
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout_s)
        finally:
            # Without members the group is gone; macOS forbids it for the dead.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        texts = []
        for file in (said, complained):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ended(status, *texts)
