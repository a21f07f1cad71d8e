"""`ramet`, the command: how its words become a call, and how it ends.

Lives here: the parser and its help, and what every command has in common: exit
statuses, errors as one sentence, a reader of its output that goes away.  What a command
does is in the file of its name; a new one is added to `_GROUPS` and to `build_parser`.

Exit statuses: 0 done, 1 it failed, 2 it was used wrongly, 3 a budget stopped it, 130 it
was interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from ..actors.errors import DeclarationError
from ..mailbox.errors import RametError, UsageError
from . import cli_chat, cli_check, cli_read, cli_run, cli_simulate
from .cli_text import one_line

__all__ = ["build_parser", "entry", "main"]

_FAILED = 1
_USED_WRONGLY = 2
_INTERRUPTED = 130

_TRACEBACK = "RAMET_TRACEBACK"

_INTRODUCTION = """\
ramet runs agents that start sub-agents: they report, they reply, and what was accepted
survives a crash."""

_GROUPS = (
    ("run", ("run", "resume", "chat", "check", "simulate")),
    ("look, also while it runs and after a crash", ("ps", "log", "explain", "usage")),
    ("find out what works", ("doctor",)),
)
"""How the commands stand in the help; one that is not there is left out."""

_CLOSING = """\
Sessions are kept in a store, a file: --store FILE, else $RAMET_STORE, else ramet.db in
this directory.  `ramet COMMAND --help` tells the options of a command."""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see: {self.prog} --help)")


class _Welcome(_Parser):
    """The parser of the whole command; its help is for someone who is new here."""

    commands: argparse._SubParsersAction[argparse.ArgumentParser]

    def format_help(self) -> str:
        lines = [_INTRODUCTION, "", "usage: ramet COMMAND [...]", ""]
        for title, names in _GROUPS:
            known = [name for name in names if name in self.commands.choices]
            if not known:
                continue
            lines.append(f"{title}:")
            for name in known:
                parser = self.commands.choices[name]
                lines.append(f"  {name:10}{parser.description or ''}".rstrip())
            lines.append("")
        return "\n".join([*lines, _CLOSING, ""])


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line; `func` of what it gives does the work."""
    parser = _Welcome(prog="ramet")
    parser.add_argument("--version", action="version", version=f"ramet {_version()}")
    parser.commands = parser.add_subparsers(
        metavar="COMMAND", dest="command", parser_class=_Parser
    )
    cli_run.add_parsers(parser.commands)
    cli_chat.add_parsers(parser.commands)
    cli_check.add_parser(parser.commands)
    cli_read.add_parsers(parser.commands)
    cli_simulate.add_parser(parser.commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; gives the exit status.

    Args:
        argv: the words after `ramet`; `None` takes those of the process.
    """
    try:
        _prepare_streams()
        status = _command(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has enough of it.
        _give_up_output()
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (UsageError, DeclarationError) as error:
        return _told(error, str(error), _USED_WRONGLY)
    except RametError as error:
        return _told(error, f"{error} [{error.code}]", _FAILED)
    except OSError as error:
        _give_up_output()
        return _told(error, f"the operating system says: {error}", _FAILED)
    except Exception as error:
        text = (
            f"this is a fault of ramet itself: {type(error).__name__}: {error}"
            f" (with {_TRACEBACK}=1 it shows where)"
        )
        return _told(error, text, _FAILED)


def entry() -> NoReturn:
    """Run the command line of the process, and end the process.

    A tool that blocks in a thread is abandoned (R-115): the interpreter would wait for
    its thread, so the process ends without it.
    """
    status = main()
    current = threading.current_thread()
    if any(not it.daemon and it is not current for it in threading.enumerate()):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _command(words: list[str]) -> int:
    parser = build_parser()
    if not words:
        parser.print_help()
        return 0
    assert isinstance(parser, _Welcome)
    if not words[0].startswith("-") and words[0] not in parser.commands.choices:
        raise UsageError(_unknown(words[0], list(parser.commands.choices)))
    try:
        arguments, unknown = parser.parse_known_args(words)
    except SystemExit as end:
        # Only --help and --version end here, and both have said what they were for.
        return end.code if isinstance(end.code, int) else 0
    if not hasattr(arguments, "func"):
        raise UsageError("a command is needed: ramet alone lists them")
    if unknown:
        name = arguments.command
        raise UsageError(
            f"ramet {name} has no {unknown[0]!r} (see: ramet {name} --help)"
        )
    status: int = arguments.func(arguments)
    return status


def _unknown(word: str, commands: list[str]) -> str:
    close = difflib.get_close_matches(word, commands, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no command {word!r}: {meant}ramet alone lists them"


def _version() -> str:
    """The version of the package that this is a part of."""
    package = import_module(__name__.partition(".")[0])
    return str(getattr(package, "__version__", "of unknown version"))


def _prepare_streams() -> None:
    """Let any text out: what a stream cannot hold is written out as an escape."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _told(error: BaseException, text: str, status: int) -> int:
    """Say what went wrong on standard error, in one line; gives the status."""
    with contextlib.suppress(OSError):
        if os.environ.get(_TRACEBACK):
            traceback.print_exception(error)
        print(f"ramet: {one_line(text)}", file=sys.stderr, flush=True)
    return status


def _give_up_output() -> None:
    """Nothing more goes out, so that nothing fails again when the process ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
