"""`ramet simulate`: any race of a scenario, from a seed.

Lives here: the command, how a scenario is found in a file, and what a person sees while
a search goes on and when it has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import math
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, get_args

from ..mailbox.errors import UsageError
from .cli_text import visible
from .fault_plan import EVERY_FAULT, NO_FAULTS, Faults
from .held_loops import BackendName
from .protocol import PROTOCOL
from .simulate import explore, simulate
from .simulate_report import Failure, SimulationReport
from .simulate_run import Scenario
from .simulate_world import StoreKind

__all__ = ["add_parser"]

_FAULTS: dict[str, Faults | None] = {
    "usual": None,
    "none": NO_FAULTS,
    "every": EVERY_FAULT,
}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SOONEST_S = 0.1
_LATEST_S = 5.0
_BAR = 24


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add the command to a command line."""
    parser = subparsers.add_parser(
        "simulate",
        description="search schedules, crashes and faults for a broken law, by seed",
        epilog=(
            "A scenario is an `async def scenario(world)`: FILE.py, or FILE.py:NAME"
            " where the file has several.  Without one the whole protocol of ramet"
            " itself is searched.  It exits with 1 when a law was broken."
        ),
    )
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="FILE.py[:NAME]"
    )
    parser.add_argument(
        "--seeds", type=_positive, default=100, metavar="N", help="how many; 100"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="the first; 0"
    )
    parser.add_argument(
        "--backend", choices=get_args(BackendName), default="trio", help="trio"
    )
    parser.add_argument(
        "--store", choices=get_args(StoreKind), help="what the scenario says, or memory"
    )
    parser.add_argument(
        "--faults", choices=tuple(_FAULTS), default="usual", help="what may go wrong"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--replay",
        metavar="SEED",
        help="run one again, and draw it: a seed or a replay",
    )
    how.add_argument(
        "--explore",
        type=_bound,
        metavar="BOUND",
        help="every schedule with so many departures, instead of seeds",
    )
    parser.add_argument(
        "--for",
        type=_seconds,
        metavar="SECONDS",
        dest="seconds",
        help="stop after the run in which so much time has passed",
    )
    parser.add_argument("--page", metavar="FILE.html", help="draw the first failure")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(func=_run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("it must be above 0")
    return number


def _bound(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("it must not be negative")
    return number


def _run(arguments: argparse.Namespace) -> int:
    scenario = _scenario(arguments.scenario)
    progress = _Progress(sys.stderr, arguments.seconds)
    stopped = ""
    with progress.asked_to_stop():
        try:
            report = _search(scenario, arguments, progress)
        except _StoppedError as error:
            report, stopped = error.report, str(error)
    progress.stop(report)
    if arguments.page is not None and report.failures:
        title = f"{report.scenario}: {report.failures[0].law}"
        page = report.failures[0].trace.page(title)
        Path(arguments.page).write_text(page, encoding="utf-8")
    if arguments.json:
        print(json.dumps(_document(report), ensure_ascii=False))
    else:
        _tell(report, arguments, stopped)
    if progress.signal is not None:
        return 128 + progress.signal
    return 0 if report.ok and not report.unmet else 1


def _search(
    scenario: Scenario, arguments: argparse.Namespace, progress: _Progress
) -> SimulationReport:
    if arguments.explore is not None:
        return explore(
            scenario,
            backend=arguments.backend,
            bound=arguments.explore,
            store=arguments.store,
            progress=progress.show,
        )
    return simulate(
        scenario,
        seeds=range(arguments.first, arguments.first + arguments.seeds),
        backend=arguments.backend,
        replay=arguments.replay,
        faults=_FAULTS[arguments.faults],
        store=arguments.store,
        progress=progress.show,
    )


# -- the scenario ----------------------------------------------------------------------


def _scenario(named: str | None) -> Scenario:
    """The scenario that a person named.

    Raises:
        UsageError: there is no such file, or no such scenario in it.
    """
    if named is None:
        return PROTOCOL
    path, _, name = named.partition(":")
    found = _scenarios(_load(path))
    if name:
        if name not in found:
            names = ", ".join(found) or "none"
            raise UsageError(f"{path} has no scenario {name!r}; it has: {names}")
        return found[name]
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise UsageError(f"{path} has no `async def scenario(world)`")
    names = ", ".join(found)
    raise UsageError(
        f"{path} has several scenarios, name one, as {path}:{next(iter(found))}; it"
        f" has: {names}"
    )


def _load(path: str) -> ModuleType:
    place = Path(path).absolute()
    if not place.is_file():
        raise UsageError(f"there is no file {path}")
    folder = str(place.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"ramet_scenario_{place.stem}", place)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            f"{path} raised {type(error).__name__} when it was loaded: {error}"
        ) from error
    return module


def _scenarios(module: ModuleType) -> dict[str, Scenario]:
    """What a module has: `Scenario` objects, and functions of one `world`.

    A function that stands in a `Scenario` of the module is named by that.
    """
    members = vars(module)
    found = {n: one for n, one in members.items() if isinstance(one, Scenario)}
    wrapped = [scenario.function for scenario in found.values()]
    for name, value in members.items():
        if _takes_a_world(value, module) and value not in wrapped:
            found[name] = Scenario(value)
    return found


def _takes_a_world(value: Any, module: ModuleType) -> bool:
    if getattr(value, "__module__", None) != module.__name__:
        return False
    if not inspect.iscoroutinefunction(value):
        return False
    return list(inspect.signature(value).parameters) == ["world"]


# -- what is shown ---------------------------------------------------------------------


class _StoppedError(Exception):
    """Carries what a search had found when it was stopped; its text says why."""

    def __init__(self, why: str, report: SimulationReport) -> None:
        super().__init__(why)
        self.report = report


class _Progress:
    """One line on standard error: a bar at a terminal, else now and then a line.

    It also stops the search after a run, when somebody asked for that or the time is
    over; who asks a second time ends the process.
    """

    def __init__(self, stream: TextIO, seconds: float | None = None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self.signal: int | None = None
        self._stream = stream
        self._terminal = stream.isatty()
        self._shown = 0.0

    def show(self, report: SimulationReport) -> None:
        """Show how far it is, if the last time is not just now."""
        now = time.monotonic()
        if self.signal is not None:
            raise _StoppedError("it was interrupted", report)
        if self._until is not None and now >= self._until:
            raise _StoppedError("its time is over", report)
        rest = _SOONEST_S if self._terminal else _LATEST_S
        if self._shown == 0.0 and not self._terminal:
            self._shown = now
        if now - self._shown < rest:
            return
        self._shown = now
        end = "" if self._terminal else "\n"
        begin = "\r" if self._terminal else ""
        print(f"{begin}{self._line(report)}", end=end, file=self._stream, flush=True)

    @contextlib.contextmanager
    def asked_to_stop(self) -> Iterator[None]:
        """A block in which the first signal is kept for the end of a run."""
        before = {one: signal.getsignal(one) for one in _SIGNALS}

        def note(number: int, frame: object) -> None:
            self.signal = number
            for one in _SIGNALS:
                signal.signal(one, signal.SIG_DFL)

        for one in _SIGNALS:
            signal.signal(one, note)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def stop(self, report: SimulationReport) -> None:
        """Take the bar away."""
        if self._terminal and self._shown:
            blank = " " * len(self._line(report))
            print(f"\r{blank}\r", end="", file=self._stream, flush=True)

    @staticmethod
    def _line(report: SimulationReport) -> str:
        rate = report.runs / report.seconds if report.seconds else 0.0
        told = f"{rate:.0f} a second by the clock, {len(report.failures)} failed "
        if report.planned is None:
            return f"{report.runs} runs, {told}"
        done = _BAR * report.runs // report.planned
        bar = "#" * done + "." * (_BAR - done)
        return f"[{bar}] {report.runs} of {report.planned} seeds, {told}"


def _tell(
    report: SimulationReport, arguments: argparse.Namespace, stopped: str
) -> None:
    """What a person reads at the end."""
    head, *_ = str(report).splitlines()
    print(head)
    if stopped:
        print(f"{stopped}: this is what was found until then")
    known: dict[str, list[str]] = {}
    for failure in report.failures:
        known.setdefault(failure.law, []).append(failure.replay)
        if len(known[failure.law]) == 1:
            print(f"\n{visible(str(failure))}")
    for law, (_, *others) in known.items():
        if others:
            print(f"\nalso broken, and not shrunk: {visible(law)}")
            print(f"by: {', '.join(others)}")
    if not stopped and report.planned is not None and report.runs < report.planned:
        print(f"\nit looks no further after {len(report.failures)} failures")
    if report.unmet:
        print(
            f"{report.unmet} departures of the replay did not come up: it is of another"
            " backend, store or release, or the program has changed"
        )
    if report.failures:
        first = report.failures[0]
        print(f"\n{visible(first.trace.text())}")
        if arguments.replay is None:
            print(f"\nagain: {_again(first, arguments)}")
    elif arguments.explore is not None:
        every = "every" if report.exhausted else "not every"
        print(f"{every} schedule within the bound was tried")


def _again(failure: Failure, arguments: argparse.Namespace) -> str:
    """The command that runs a failure again."""
    words = ["ramet", "simulate"]
    if arguments.scenario is not None:
        words.append(arguments.scenario)
    words += ["--backend", arguments.backend, "--replay", failure.replay]
    if arguments.store is not None:
        words += ["--store", arguments.store]
    if arguments.faults != "usual":
        words += ["--faults", arguments.faults]
    return shlex.join(words)


def _document(report: SimulationReport) -> dict[str, Any]:
    """The report as one document."""
    return {
        "type": "simulation",
        "scenario": report.scenario,
        "backend": report.backend,
        "store": report.store,
        "runs": report.runs,
        "steps": report.steps,
        "events": report.events,
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
        "runs_per_processor_second": round(report.per_second, 1),
        "exhausted": report.exhausted,
        "unmet": report.unmet,
        "digest": report.digest,
        "failures": [
            {
                "seed": failure.seed,
                "law": failure.law,
                "replay": failure.replay,
                "departures": failure.departures,
                "faults": list(failure.faults),
                "detail": failure.detail,
                "trace": failure.trace.text().splitlines(),
            }
            for failure in report.failures
        ],
    }
