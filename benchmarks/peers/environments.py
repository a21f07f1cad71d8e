"""The environments: one throw-away virtual environment for each set of pins.

Lives here: how one is made, and when it is made again.  A file in it says for which
pins and which Python it was made; it is written last, so that what was cut short is
made anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

STAMP = "made-for.json"
INSTALL_TIMEOUT_S = 900.0


class NotInstalledError(Exception):
    """Raised by `prepare` when a peer cannot be had here; its text is one line."""


Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command and gives its status and what it said."""


def run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command to its end, or for as long as an installation may take."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"ERROR: not ended after {INSTALL_TIMEOUT_S:g} s"
    return done.returncode, done.stdout


def python_of(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / "bin" / "python"


def is_made(folder: Path, pins: Sequence[str]) -> bool:
    """Whether an environment is there that was made whole for just this."""
    try:
        said = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(said == _made_for(pins))


def prepare(folder: Path, pins: Sequence[str], run: Run = run) -> Path:
    """Make an environment, if it is not there as it should be, and give its Python.

    Raises:
        NotInstalledError: It cannot be made, or its pins cannot be installed.
    """
    if is_made(folder, pins):
        return python_of(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = str(python_of(folder))
    for command in (
        (sys.executable, "-m", "venv", "--clear", str(folder)),
        # Isolated, so that no PYTHONPATH passes for something that is installed.
        (python, "-I", "-m", "pip", "install", "--quiet", "--no-input", *pins),
    ):
        status, said = run(command)
        if status:
            raise NotInstalledError(_reason(said, status))
    stamp = json.dumps(_made_for(pins))
    (folder / STAMP).write_text(stamp + "\n", encoding="utf-8")
    return python_of(folder)


def _made_for(pins: Sequence[str]) -> dict[str, object]:
    return {"pins": list(pins), "python": sys.version}


def _reason(said: str, status: int) -> str:
    """The line of what was said that tells most: the last error, or the last of all."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [f"status {status}"])[-1]
