"""`ramet check`: what is wrong in a supervisor script, without running it.

Lives here: the command: which files are read, how findings are shown, and the exit
status.  About a sound script it says nothing.  What is wrong is said by
`script_check.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

import attrs

from ..mailbox.errors import UsageError
from .cli_text import Line, one_line, paragraph, plural
from .cli_view import Screen
from .script_check import check_script
from .script_finding import Finding
from .script_outline import LARGEST

__all__ = ["add_parser"]


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add the command to a command line."""
    parser = subparsers.add_parser(
        "check",
        description="what is wrong in a supervisor script, without running it",
        epilog=(
            "It prints nothing and exits with 0 when nothing was found, exits with 1"
            " when something was, and with 2 when a file cannot be read.  A line that"
            " ends with the comment `# ramet: ignore[CODE]` is excused from that one."
        ),
    )
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT.py")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    screen = Screen()
    # Each file is read before any is told of: a wrong name is no half result.
    sources = {path: _read(path) for path in arguments.scripts}
    found = {path: check_script(source) for path, source in sources.items()}
    wrong = any(found.values())
    if arguments.json:
        document = {
            "clean": not wrong,
            "files": [
                {"path": path, "findings": [attrs.asdict(one) for one in findings]}
                for path, findings in found.items()
            ],
        }
        screen.text(json.dumps(document, indent=2))
        return 1 if wrong else 0
    for path, findings in found.items():
        if findings:
            screen.show(_lines(path, findings, screen.width))
    if not wrong:
        _reassure(len(found))
    return 1 if wrong else 0


def _lines(path: str, findings: list[Finding], width: int | None) -> Iterator[Line]:
    name = one_line(path)
    for one in findings:
        yield (
            (f"{name}:{one.line}:{one.column}", "name"),
            ("  ", ""),
            (one.code, "bad"),
        )
        blank: Line = (("    ", ""),)
        yield from paragraph(blank, one_line(one.text), "", width)
        yield from paragraph(blank, one_line(one.remedy), "note", width)
    yield ((f"{name}: {plural(len(findings), 'finding')}", "bad"),)


def _reassure(scripts: int) -> None:
    """Tell a person who waits at a terminal that it is over; nobody else needs it."""
    told = Screen(sys.stderr)
    if told.terminal:
        told.show([((f"nothing found in {plural(scripts, 'script')}", "good"),)])


def _read(path: str) -> bytes:
    """The bytes of a script, or a few more than are ever checked."""
    if not path.strip():
        raise UsageError("a script is named by its path, which is blank")
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"the script {path} cannot be read: {why}") from error
