"""`ramet run` and `ramet resume`: a run from the command line, from words to result.

Lives here: the parsers of both commands, and what each does before and after the run:
which script, which store, which model, and what is printed where.  Progress goes to
standard error and the result, alone, to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio
import attrs

from ..actors.agent import AgentSpec
from ..actors.arguments import parse_arguments
from ..actors.budget import AXES, read_limits
from ..actors.outcome import TreeUsage
from ..mailbox.canonical import canonical_json
from ..mailbox.errors import (
    InvalidArgumentsError,
    PersistenceUnavailableError,
    RametError,
    UnsupportedLogError,
    UsageError,
)
from ..mailbox.sqlite_file import resolve
from ..mailbox.store_sqlite import SqliteReader, SqliteStore
from .cli_launch import (
    Launch,
    Printed,
    launch_prompt,
    launch_script,
    printed_of,
    printed_of_broken,
)
from .cli_store import (
    add_store_argument,
    default_store,
    find_session,
    missing_store,
    opened_reader,
    store_option,
)
from .cli_stream import JsonLines
from .cli_text import visible
from .runs import ReplayRefusedError, Run, check_replay, read_run, runs
from .script_exit import ScriptExitedError
from .script_file import ScriptFile, load_script

__all__ = ["add_parsers"]

_FAILED = 1
_INTERRUPTED = 130
_FORMATS = ("text", "json", "stream-json")
_BACKENDS = ("asyncio", "trio")

_RUN = "run a supervisor script, or one agent with --prompt"
_RESUME = "take up a run again that was cut off or interrupted"

_RUN_NOTES = """\
SCRIPT.py is a supervisor script: it has an `async def main(flow)`.  Words after -- go
to flow.args.  The run is stored, so that `ramet ps` shows it from another terminal and
`ramet resume` goes on with it after a crash."""


class _Split:
    """Parses words up to `--`; the rest are the script's own."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parse = parser.parse_known_args

    def __call__(
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(args or ())
        rest: list[str] = []
        if "--" in words:
            place = words.index("--")
            words, rest = words[:place], words[place + 1 :]
        found, unknown = self._parse(words, namespace)
        found.words = rest
        return found, unknown


def add_parsers(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add `run` and `resume` to the command line."""
    run = subparsers.add_parser(
        "run",
        description=_RUN,
        epilog=_RUN_NOTES,
        usage="ramet run SCRIPT.py | --prompt TEXT [options] [-- ARGS...]",
    )
    run.add_argument("script", nargs="?", metavar="SCRIPT.py")
    run.add_argument("--prompt", metavar="TEXT", help="ask one agent, without a script")
    run.add_argument("--input", metavar="JSON", help="JSON data for flow.input")
    run.add_argument(
        "--resume", metavar="RUN", help="take up this run of the script again"
    )
    _add_options(run)
    run.set_defaults(func=_run)
    # In this position argparse itself has no place for words after `--`.
    run.parse_known_args = _Split(run)  # type: ignore[method-assign,assignment]
    resume = subparsers.add_parser("resume", description=_RESUME)
    resume.add_argument(
        "run", nargs="?", metavar="RUN", help="a part of its id; default: the one"
    )
    _add_options(resume)
    resume.set_defaults(func=_resume)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_store_argument(parser)
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="local, local:FILE.gguf or openai:NAME",
    )
    parser.add_argument(
        "--backend", choices=_BACKENDS, help="what it runs on; default: asyncio"
    )
    parser.add_argument(
        "--limit",
        metavar="AXIS=VALUE",
        action="append",
        default=[],
        help=f"what the run may spend, and again for each of {', '.join(AXES)}",
    )
    parser.add_argument(
        "--output-format",
        choices=_FORMATS,
        default="text",
        help="text: the result; json: one document with result, usage and limits;"
        " stream-json: a line of JSON for whatever happens, the document last",
    )
    parser.add_argument(
        "--allow-changed-source",
        action="store_true",
        help="resume although script, input or words are not those of the run",
    )
    parser.add_argument(
        "--rerun-uncertain",
        action="store_true",
        help="run calls again whose agents may have had effects and gave no answer",
    )


# -- run -------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    given = [arguments.script is not None, arguments.prompt is not None]
    if sum(given) != 1:
        raise UsageError("ramet run needs a script, or --prompt TEXT, and not both")
    if arguments.prompt is not None:
        return _run_prompt(arguments)
    if arguments.rerun_uncertain and arguments.resume is None:
        raise UsageError("--rerun-uncertain belongs to a run that is resumed")
    value = _input(arguments.input)
    script = _loaded(arguments.script)
    store = default_store(arguments)
    run = None
    if arguments.resume is not None:
        run = _found(arguments, arguments.resume)
        given = run.input if arguments.input is None else value
        words = tuple(arguments.words) or run.args
        same = (
            script.digest == run.digest
            and canonical_json(given) == canonical_json(run.input)
            and words == run.args
        )
        if run.status == "completed" and same:
            return _print(_over(arguments, run), arguments.output_format)
        _check(script, run, arguments, given, words)
        run = attrs.evolve(run, input=given, args=words)
    launch = Launch(
        store=store,
        option=store_option(arguments),
        model=arguments.model,
        backend=arguments.backend or "asyncio",
        script=script,
        limits=read_limits(arguments.limit),
        input=value,
        args=tuple(arguments.words),
    )
    if run is None:
        return _go(arguments, launch)
    launch = attrs.evolve(launch, store=str(Path(store).absolute()))
    _go_to(run)
    return _go(arguments, _taken_up(launch, run, arguments))


def _run_prompt(arguments: argparse.Namespace) -> int:
    for name in ("input", "resume"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} belongs to a script, not to --prompt")
    if arguments.words:
        raise UsageError("words after -- belong to a script, not to --prompt")
    if not arguments.prompt.strip():
        raise UsageError("the prompt is blank")
    if arguments.model is None:
        raise UsageError(
            "ramet run --prompt needs --model NAME, for example --model local"
        )
    launch = Launch(
        store=default_store(arguments),
        option=store_option(arguments),
        model=arguments.model,
        backend=arguments.backend or "asyncio",
        prompt=arguments.prompt,
        limits=read_limits(arguments.limit),
        spec=AgentSpec("agent"),
    )
    return _go(arguments, launch)


def _input(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return parse_arguments(text)
    except InvalidArgumentsError as error:
        raise UsageError(f"--input is not JSON: {error}") from None


# -- resume ----------------------------------------------------------------------------


def _resume(arguments: argparse.Namespace) -> int:
    run = _found(arguments, arguments.run)
    if run.status == "completed":
        return _print(_over(arguments, run), arguments.output_format)
    script = _loaded(run.script)
    _check(script, run, arguments, run.input, run.args)
    launch = Launch(
        store=str(Path(default_store(arguments)).absolute()),
        option=store_option(arguments),
        model=arguments.model,
        backend=run.backend,
        script=script,
        limits=read_limits(arguments.limit),
    )
    _go_to(run)
    return _go(arguments, _taken_up(launch, run, arguments))


def _go_to(run: Run) -> None:
    """Go on in the folder where the run began: its relative names are meant there.

    Raises:
        ReplayRefusedError: that folder is not there any more.
    """
    if run.folder is None or Path(run.folder) == Path.cwd():
        return
    try:
        os.chdir(run.folder)
    except OSError as error:
        raise ReplayRefusedError(
            f"run {run.id} was started in {run.folder}, and its relative names are"
            f" meant from there: {error.strerror}"
        ) from error
    print(f"ramet: going on in {visible(run.folder)}", file=sys.stderr)


def _over(arguments: argparse.Namespace, run: Run) -> Printed:
    """What is printed of a run that completed: its stored result."""
    with opened_reader(arguments) as reader:
        usage = TreeUsage(*reader.usage(run.id))
    return printed_of(run, usage)


def _taken_up(launch: Launch, run: Run, arguments: argparse.Namespace) -> Launch:
    return attrs.evolve(
        launch,
        run=run,
        input=run.input,
        args=run.args,
        model=arguments.model or run.model,
        backend=arguments.backend or run.backend,
        rerun=_who_allows(arguments),
    )


def _who_allows(arguments: argparse.Namespace) -> str | None:
    """Who allows that uncertain effects happen again, for the journal (A-188)."""
    if not arguments.rerun_uncertain:
        return None
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        name = "somebody"
    return f"{name}, by --rerun-uncertain"


def _found(arguments: argparse.Namespace, named: str | None) -> Run:
    """The run that a person means: the named one, or the only one that has not ended.

    Raises:
        UsageError: there is none, or there are several; it names them.
        ReplayRefusedError: it is no run.
    """
    path = resolve(default_store(arguments))
    if not path.exists():
        raise PersistenceUnavailableError(missing_store(path))
    _bring_up_to_date(arguments, path)
    with opened_reader(arguments) as reader:
        if named is not None:
            run = read_run(reader, find_session(reader, named))
            return run
        faults: list[str] = []
        every = list(runs(reader, faults))
    open_runs = [run for run in every if run.status is None]
    if not open_runs:
        last = f"; the last one was {every[-1].id}" if every else ""
        if faults:
            last += f"; what cannot be read: {'; '.join(faults[:3])}"
        raise UsageError(f"no run in this store waits to be resumed{last}")
    if len(open_runs) > 1:
        shown = "; ".join(f"{run.id} ({Path(run.script).name})" for run in open_runs)
        raise UsageError(f"several runs wait to be resumed, name one: {shown}")
    return open_runs[0]


def _bring_up_to_date(arguments: argparse.Namespace, path: Path) -> None:
    """Let a writer see a store of an earlier format, which a reader cannot change."""
    try:
        with opened_reader(arguments):
            return
    except UnsupportedLogError:
        store = SqliteStore(path)
        store.open()
        store.close()


def _check(
    script: ScriptFile,
    run: Run,
    arguments: argparse.Namespace,
    data: Any,
    words: Sequence[str],
) -> None:
    """Refuse what would not be the recorded run (A-171)."""
    check_replay(
        run,
        digest=script.digest,
        sources=script.sources,
        data=data,
        args=words,
        allowed=arguments.allow_changed_source,
    )


# -- the run itself --------------------------------------------------------------------


def _go(arguments: argparse.Namespace, launch: Launch) -> int:
    """Run to the end, print the result, and give the exit status."""
    function = launch_prompt if launch.script is None else launch_script
    form = arguments.output_format
    write = partial(_write_line, sys.stdout)
    lines = JsonLines(write) if form == "stream-json" else None
    launch = attrs.evolve(launch, lines=lines)
    try:
        with _prints_aside():
            printed = anyio.run(partial(function, launch), backend=launch.backend)
    except KeyboardInterrupt:
        if not launch.begun.run_id:
            return _INTERRUPTED
        printed = _broken(launch, None)
    except SystemExit as error:
        # Out of a task of the script's own, it has ended the loop.
        text = f"the script called sys.exit({error.code!r}) in a task of its own"
        printed = _broken(launch, ScriptExitedError(text))
    if lines is not None and lines.failure is not None:
        raise lines.failure
    return _print(printed, form)


def _broken(launch: Launch, error: ScriptExitedError | None) -> Printed:
    """What is printed of a run that has broken off; its store tells what it spent."""
    usage = TreeUsage()
    with (
        contextlib.suppress(RametError),
        contextlib.closing(SqliteReader(launch.store)) as reader,
    ):
        usage = TreeUsage(*reader.usage(launch.begun.run_id))
    return printed_of_broken(launch, usage, error)


def _write_line(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def _prints_aside() -> contextlib.AbstractContextManager[object]:
    """A block whose prints go to standard error: on the other stands the result."""
    return contextlib.redirect_stdout(sys.stderr)


def _loaded(path: str) -> ScriptFile:
    with _prints_aside():
        return load_script(path)


def _print(printed: Printed, form: str) -> int:
    """Print the result alone on standard output; complaints go to the other."""
    _complain(printed)
    text = printed.text
    if form == "json":
        text = printed.result.to_json()
    elif form == "stream-json":
        text = printed.result.to_line()
    if text is None:
        return printed.status
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        print(f"ramet: the result cannot be written: {error}", file=sys.stderr)
        return printed.status or _FAILED
    return printed.status


def _complain(printed: Printed) -> None:
    # After a hangup nobody can be told, and the status stands all the same.
    with contextlib.suppress(OSError):
        if printed.hint is not None:
            print(f"ramet: {visible(printed.hint)}", file=sys.stderr, flush=True)
        if printed.fault is not None:
            traceback.print_exception(printed.fault)
