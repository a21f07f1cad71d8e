"""One simulated run: a scenario, a seed and a schedule, from first to last step.

Lives here: the scenario as data, the run of it, and what a run gives.  The same
scenario, seed, backend and schedule give the same run, event for event (law 22).
"""

from __future__ import annotations

import gc
import hashlib
import re
import shutil
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import attrs
from anyio.abc import TaskGroup

from ..mailbox.errors import UsageError
from ..mailbox.store import Entry
from .fault_plan import Faults, Plan
from .held import Held, HookLostError, StuckError
from .held_loops import BackendName, in_silence, run_held
from .held_waits import FRAMEWORK
from .laws_log import LawBrokenError
from .schedules import DepartingStrategy, Departures, Schedule, Strategy, strategy_for
from .simulate_judge import judge
from .simulate_record import Note, Record
from .simulate_recovery import recover
from .simulate_world import StoreKind, World

__all__ = ["Ran", "Replay", "Scenario", "ScenarioFunction", "as_scenario", "run_one"]

ScenarioFunction: TypeAlias = Callable[[World], Awaitable[None]]

_ADDRESS = re.compile(r"0x[0-9a-f]+")

_SHARED_MEMORY = Path("/dev/shm")


@attrs.frozen
class Scenario:
    """A program to simulate: what it does, on which store, and what may go wrong.

    Args:
        function: an `async def scenario(world)`.
        name: how reports call it; by default the name of the function.
        store: `"memory"`, or `"sqlite"`: the shipped SQL, on a file.
        faults: what may go wrong.
    """

    function: ScenarioFunction
    name: str = attrs.field(
        default=attrs.Factory(lambda self: _name_of(self.function), takes_self=True)
    )
    store: StoreKind = attrs.field(default="memory", kw_only=True)
    faults: Faults = attrs.field(factory=Faults, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the fields.

        Raises:
            UsageError: one is outside its contract.
        """
        if not callable(self.function):
            raise UsageError("a scenario is an async function that takes a world")
        if self.store not in ("memory", "sqlite"):
            raise UsageError(f"store must be 'memory' or 'sqlite', not {self.store!r}")
        if not isinstance(self.faults, Faults):
            raise UsageError("faults must be Faults")


def _name_of(function: object) -> str:
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name.rpartition("<locals>.")[2]


def as_scenario(scenario: Scenario | ScenarioFunction) -> Scenario:
    """A scenario, also from a bare function."""
    return scenario if isinstance(scenario, Scenario) else Scenario(scenario)


@attrs.frozen
class Replay:
    """Names one run: a seed, and what of it was changed.

    As text it is `SEED`, or `SEED:DEPARTURES` with departures as `CHOICE=RANK` divided
    by commas, or `SEED:DEPARTURES:FAULTS` with the names of faults that are left out.

    Attributes:
        seed: of the run.
        departures: where its schedule is not plain; `None`: as the seed draws it.
        without: what of its plan is left out; `None`, like every name: all of it.
    """

    seed: int
    departures: Departures | None = None
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.departures is None and not self.without:
            return str(self.seed)
        parts = [f"{at}={rank}" for at, rank in (self.departures or {}).items()]
        listed = ",".join(parts) if self.departures is not None else "*"
        if not self.without:
            return f"{self.seed}:{listed}"
        return f"{self.seed}:{listed}:{','.join(self.without)}"

    @classmethod
    def read(cls, text: str | int) -> Replay:
        """Read it from its text.

        Raises:
            UsageError: the text names no run.
        """
        first, *rest = str(text).split(":")
        try:
            if len(rest) > 2:
                raise ValueError
            departures: dict[int, int] | None = None
            if rest and rest[0] != "*":
                pairs = [part.split("=") for part in rest[0].split(",") if part]
                departures = {int(at): int(rank) for at, rank in pairs}
                if any(at < 0 or rank < 0 for at, rank in departures.items()):
                    raise ValueError
            without = tuple(n for n in "".join(rest[1:]).split(",") if n)
            replay = cls(int(first), departures, without)
        except ValueError:
            raise UsageError(
                f"{text!r} names no run: give a seed, or what a report printed as its"
                " replay"
            ) from None
        Plan().without(without)
        return replay

    def strategy(self) -> Strategy:
        """Who goes next."""
        if self.departures is None:
            return strategy_for(self.seed)
        return DepartingStrategy(self.departures)


@attrs.frozen
class Ran:
    """What one run gave.

    Attributes:
        law: what was broken, or `None`.
        detail: where it was, for an error.
        order: every event, as it became durable.
        notes: what happened beside the logs.
        schedule: who went when.
        plan: what it met.
        steps: how many steps it took.
        requests: how many model requests it made.
    """

    law: str | None
    detail: str
    order: list[Entry]
    notes: list[Note]
    schedule: Schedule
    plan: Plan
    requests: int

    @property
    def steps(self) -> int:
        """How many steps it took."""
        return self.schedule.steps

    def lines(self) -> list[str]:
        """Everything that happened, in order: two runs with one text are the same."""
        found: list[str] = []
        begin = 0
        for note in self.notes:
            found += map(_line, self.order[begin : note.after])
            found.append(f"{note.at_s:.6f} {note.text}")
            begin = note.after
        found += map(_line, self.order[begin:])
        found.append(f"{self.steps} steps; {_ADDRESS.sub('0x', self.law or '')}")
        return found

    def digest(self) -> str:
        """Stands for everything that happened."""
        went = [(choice.task, choice.rank) for choice in self.schedule.choices]
        text = "\n".join([*self.lines(), repr(went)])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _line(entry: Entry) -> str:
    return f"{entry.session} {entry.seq} {entry.event!r}"


def run_one(
    scenario: Scenario,
    backend: BackendName,
    replay: Replay,
    *,
    strategy: Strategy | None = None,
    plan: Plan | None = None,
) -> Ran:
    """Run a scenario once.

    Args:
        scenario: what is run.
        backend: on which loop.
        replay: which run.
        strategy: who goes next, instead of what the replay says.
        plan: what it meets, instead of that.

    Raises:
        HookLostError: the backend is not held; no seed means anything.
    """
    if plan is None:
        plan = Plan.draw(replay.seed, scenario.faults).without(replay.without)
    schedule = Schedule(replay.strategy() if strategy is None else strategy)
    with _collected_after(), _folders() as folder:

        def world_of(held: Held, group: TaskGroup) -> World:
            return World(
                held,
                group,
                seed=replay.seed,
                plan=plan,
                store=scenario.store,
                folder=folder,
            )

        law, detail, record = _played(scenario, world_of, schedule, backend)
    return Ran(
        law,
        detail,
        record.order,
        record.notes,
        schedule,
        plan,
        len(record.requests),
    )


def _played(
    scenario: Scenario,
    world_of: Callable[[Held, TaskGroup], World],
    schedule: Schedule,
    backend: BackendName,
) -> tuple[str | None, str, Record]:
    """Play it to its end and judge it: the law that was broken, where, and the record.

    Raises:
        HookLostError: the backend is not held.
    """
    worlds: list[World] = []

    async def run(held: Held) -> None:
        async with anyio.create_task_group() as group:
            world = world_of(held, group)
            worlds.append(world)
            held.explain = world._explain
            await world._play(scenario.function)
            await recover(world)
        (world,) = worlds
        if not world.openings:
            raise UsageError("the scenario never opened the world")
        reader = world.openings[-1].store.reader()
        try:
            judge(world.record, world.openings, reader)
        finally:
            reader.close()

    law, detail = None, ""
    stuck = False
    try:
        run_held(run, schedule, backend)
    except HookLostError:
        raise
    except Exception as error:
        law, detail = _broken(error, worlds)
        stuck = isinstance(error, StuckError)
    record = worlds[0].record if worlds else Record()
    if stuck:
        with in_silence():
            worlds.clear()
    return law, detail, record


@contextmanager
def _collected_after() -> Iterator[None]:
    """A block without collections of garbage, but for one of its own at its end.

    What a run leaves in circles is young, and to look at anything else takes far
    longer; and what is collected during a run would end at another place each time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if collecting:
            gc.enable()


@contextmanager
def _folders() -> Iterator[Callable[[], Path]]:
    """A block in which folders can be had that are gone after it."""
    made: list[str] = []

    def folder() -> Path:
        place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        made.append(tempfile.mkdtemp(prefix="ramet-simulate-", dir=place))
        return Path(made[-1])

    try:
        yield folder
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)


def _broken(error: BaseException, worlds: list[World]) -> tuple[str, str]:
    """What a run broke, in words, and where that was."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, LawBrokenError):
        return error.law, ""
    if worlds and worlds[0].record.broken:
        return worlds[0].record.broken[0], ""
    if isinstance(error, StuckError):
        return error.kind, error.text
    # A test runner adds lines to the text of an assertion.
    text, _, more = (str(error) or _place(error)).partition("\n")
    traced = _traced(error)
    return f"{type(error).__name__}: {text}", f"{more}\n{traced}" if more else traced


def _traced(error: BaseException) -> str:
    """Where an error came from, without the simulator's own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    kept = [at for at in frames if at.filename not in FRAMEWORK]
    return "".join(traceback.format_list(kept or list(frames))).rstrip()


def _place(error: BaseException) -> str:
    """Where an error without words was raised, and by which line."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "(without a text)"
    last = frames[-1]
    return f"{last.line} ({Path(last.filename).name}:{last.lineno})"
