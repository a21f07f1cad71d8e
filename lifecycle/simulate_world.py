"""The world of a simulated run: what a scenario has in its hands.

Lives here: opening a supervisor on a simulated store, clock and model; killing it;
planning one more fault; waiting for rest.  What came of it is in `simulate_record.py`,
what is judged of it in `simulate_judge.py`, and what the next process makes of a kill
in `simulate_recovery.py`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import attrs
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.model import Model, ModelRequest
from ..actors.policy import Policy
from ..mailbox.errors import RametError, UsageError
from ..mailbox.events import Accepted
from ..mailbox.ids import Ambient
from ..mailbox.session import Session
from ..mailbox.store import Batch, Entry
from .fault_plan import Plan
from .held import Held
from .held_loops import let_pass
from .laws_log import LawBrokenError
from .opening import open as open_supervisor
from .simulate_checks import check_left, check_registry, told_by
from .simulate_judge import come_to_rest
from .simulate_minds import SIMPLE_MIND, Interposed, sudden_tools
from .simulate_opening import Opening, watch
from .simulate_record import Note, Record
from .simulate_store import (
    Disk,
    SimulatedMemoryStore,
    SimulatedSqliteStore,
    SimulatedStore,
)
from .supervisor import Supervisor

__all__ = ["Party", "StoreKind", "World"]

StoreKind = Literal["memory", "sqlite"]

Party: TypeAlias = Callable[[], Awaitable[Any]]
"""What takes part in a race: an async function without arguments."""

_EPOCH_S = 1_000_000_000.0
_YEAR_S = 31_536_000.0
_GRACE_S = 1.0


class World:
    """What a scenario has: a store, a clock, models, chance, and the means of harm.

    It is given to the scenario and never made by it.

    Attributes:
        seed: of the run.
        dice: chance for the scenario's own use; nothing else may roll it.
        supervisor: the one that was opened last.
    """

    def __init__(
        self,
        held: Held,
        group: TaskGroup,
        *,
        seed: int,
        plan: Plan,
        store: StoreKind,
        folder: Callable[[], Path],
    ) -> None:
        self.seed: int = seed
        self.dice: random.Random = random.Random(f"scenario {seed}")
        self._held = held
        self._group = group
        self._plan = plan
        self._kind: StoreKind = store
        self._folder = folder
        self.chance: random.Random = random.Random(f"disk {seed}")
        self._scope = anyio.CancelScope()
        self.openings: list[Opening] = []
        self.record: Record = Record()
        self.order: list[Entry] = self.record.order
        self.durable: dict[str, Session] = self.record.durable
        self.requests: list[ModelRequest] = self.record.requests

    # -- for scenarios -----------------------------------------------------------------

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor that was opened last.

        Raises:
            UsageError: nothing was opened yet.
        """
        if not self.openings or self.openings[-1].supervisor is None:
            raise UsageError("nothing is open: use `async with world.open()`")
        return self.openings[-1].supervisor

    @property
    def now_s(self) -> float:
        """Virtual seconds since the run began."""
        return self._held.now()

    @asynccontextmanager
    async def open(
        self,
        *,
        specs: Iterable[AgentSpec] = (),
        model: Model | str | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        rest: bool = True,
    ) -> AsyncIterator[Supervisor]:
        """Open the simulated store, as `ramet.open` does; it is the same code.

        The second time it holds what was durable the first time.  At its end the block
        waits until everything has come to rest, which is judged, and then leaves.  When
        the process is killed inside it, the block ends there, and what follows it runs.

        Args:
            specs: every spec that stored sessions may need.
            model: the default model; without one agents answer `done`, and return it.
            policy: the deployment's decisions.
            limits: what each agent may spend at the most.
            rest: whether the block waits for rest before it leaves.
        """
        options: dict[str, Any] = {
            "specs": list(specs),
            "model": SIMPLE_MIND if model is None else model,
            "policy": policy,
            "limits": limits,
        }
        opening = Opening(self._next_store(), options)
        late_s = self._plan.late_commits_s or 0.0
        opening.stubborn = self._plan.stubborn_tools > 0 or late_s > _GRACE_S
        opening.store.disk.on_commit = lambda number: self._commit(opening, number)
        opening.store.disk.on_failure = lambda: self._store_failed(opening)
        self.openings.append(opening)
        try:
            with opening.scope:
                async with open_supervisor(
                    opening.store, ambient=self._ambient(), **options
                ) as supervisor:
                    self._watch(opening, supervisor)
                    yield supervisor
                    if rest:
                        await come_to_rest(self.record, opening)
        except Exception as error:
            if not opening.excuses(error):
                raise
        finally:
            opening.ended = True
            self._left(opening)

    def crash(self) -> None:
        """Kill the process: nothing that is not durable now will ever be.

        The block of `open` ends at its next await, and the code after it goes on, as
        the next process would.
        """
        for opening in self.openings:
            if not (opening.ended or opening.store.disk.dead):
                opening.by_hand = True
                self._kill(opening)

    def fault(
        self,
        kind: Literal["crash", "failed-commit", "late-commits", "slow-models"],
        *,
        after: int = 0,
        stored: bool = False,
        seconds: float = 1.0,
    ) -> None:
        """Plan one more fault of the open supervisor, from now on.

        Args:
            kind: `crash`: the process is killed during a commit.  `failed-commit`: one
                fails; the runtime cannot know whether it was stored.  `late-commits`,
                `slow-models`: some take this long.
            after: how many commits go well before that.
            stored: whether what fails was stored nevertheless.
            seconds: how long what is slow takes, in virtual time.
        """
        opening = self._open_one()
        opening.by_hand = True
        disk = opening.store.disk
        number = disk.commits + after
        plan = disk.plan
        if kind == "crash":
            disk.plan = attrs.evolve(plan, crash=(number, 0))
        elif kind == "failed-commit":
            disk.plan = attrs.evolve(plan, failed_commit=(number, stored))
        elif kind == "late-commits":
            disk.plan = attrs.evolve(plan, late_commits_s=seconds)
        else:
            disk.plan = attrs.evolve(plan, slow_models_s=seconds)
        self.note(f"planned: {kind}")

    def pause(self) -> None:
        """Stop the open process from writing, until `unpause`.

        Others may take its claims meanwhile: the next `open` is another process on the
        same store, which must be one in memory.
        """
        opening = self._open_one()
        if not isinstance(opening.store, SimulatedMemoryStore):
            raise UsageError("only on a store in memory may another process take over")
        opening.store.disk.held = anyio.Event()
        opening.claim_lost = True
        opening.store.bury(opening.supervisor._runtime.gate.holder)  # type: ignore[union-attr]
        self.note("the process is paused")

    def unpause(self) -> None:
        """Let the paused process go on; it has lost its claims."""
        for opening in self.openings:
            held, opening.store.disk.held = opening.store.disk.held, None
            if held is not None:
                self.note("the paused process goes on")
                held.set()

    async def checkpoint(self) -> None:
        """Let others go first, for as long as the seed and the schedule say."""
        await checkpoint()
        await self._linger()
        slow_s = self._plan.slow_models_s
        if slow_s is not None and self.chance.random() < 0.3:
            await anyio.sleep(slow_s)

    async def rest(self) -> None:
        """Wait until nobody has anything left to do, and judge that, without faults."""
        await come_to_rest(self.record, self._open_one())

    async def race(self, *parties: Party) -> list[Any]:
        """Run parties at once; gives what each returned, or the `RametError` it raised.

        `explore` looks for other schedules inside a race only, if there is one.
        """
        results: list[Any] = [None] * len(parties)

        async def run(place: int, party: Party) -> None:
            await self._linger()
            try:
                results[place] = await party()
            except RametError as error:
                results[place] = error

        self._held.schedule.focus(True)
        try:
            async with anyio.create_task_group() as group:
                for place, party in enumerate(parties):
                    group.start_soon(run, place, party)
        finally:
            self._held.schedule.focus(False)
        return results

    def need(self, holds: bool, law: str, *about: object) -> None:
        """Say that something must hold; the run fails if it does not.

        An `assert` inside a tool or a model only fails that call; this fails the run.
        """
        if not holds:
            self.record.broken.append(": ".join([law, *map(str, about)]))

    def note(self, text: str) -> None:
        """Write something into the trace."""
        self.record.notes.append(Note(len(self.order), self.now_s, text))

    def accepted(self) -> list[Accepted]:
        """Every message that was accepted and is durable, in that order."""
        return self.record.messages

    def children_of(self, parent: str | None) -> list[str]:
        """The durable children of a session, or of all of them."""
        return self.record.children.get(parent, [])

    # -- for the run -------------------------------------------------------------------

    def _explain(self) -> str:
        """Why each live agent is in its state, for a run that is stuck."""
        return "\n".join(told_by(one) for one in self.openings if not one.ended)

    @property
    def ended_by_plan(self) -> bool:
        """Whether the seed ended the process that the scenario is a part of."""
        return any(opening.planned for opening in self.openings)

    async def _play(self, function: Callable[[World], Awaitable[None]]) -> None:
        """Run the scenario; a planned end of its process ends it where it is."""
        with self._scope:
            try:
                await function(self)
            except LawBrokenError:
                raise
            except Exception:
                if not self.ended_by_plan:
                    raise
                self.note("the scenario ended with its process")

    async def _linger(self) -> None:
        """Widen the window in which others may come first, in some seeds."""
        if self._plan.steps:
            await let_pass(self.chance.randrange(3 * self._plan.steps + 1))

    # -- inside ------------------------------------------------------------------------

    def _open_one(self) -> Opening:
        if not self.openings or self.openings[-1].ended:
            raise UsageError("nothing is open: use `async with world.open()`")
        return self.openings[-1]

    def _next_store(self) -> SimulatedStore:
        disk = self._disk(self._plan)
        if not self.openings:
            if self._kind == "memory":
                return SimulatedMemoryStore(disk)
            return SimulatedSqliteStore(disk, self._folder() / "store.db")
        last = self.openings[-1]
        if last.store.disk.dead:
            left = last.remains
            assert left is not None
            left.disk = disk
            return left
        if not (last.ended or last.claim_lost):
            raise UsageError("the store is open already, and its process is not paused")
        return last.store.again(disk)

    def _disk(self, plan: Plan) -> Disk:
        return Disk(plan, self.chance, self._group, self._committed)

    def _ambient(self) -> Ambient:
        """Time goes on from one process to the next, and no two make the same ids."""
        generation = len(self.openings)
        begin = _EPOCH_S + generation * _YEAR_S
        now = self._held.now
        return Ambient(
            lambda: begin + now(), random.Random(f"ids {self.seed} {generation}")
        )

    def _left(self, opening: Opening) -> None:
        """The block was left: nothing is left of it."""
        if opening.supervisor is not None and not opening.store.disk.dead:
            self.record.broken += check_left(opening.supervisor, planned=opening.broken)

    def _watch(self, opening: Opening, supervisor: Supervisor) -> None:
        """Look at what can be seen only while it runs."""
        watch(opening, supervisor, self.record)
        runtime = supervisor._runtime
        runtime.models.around = lambda model: Interposed(self, opening, model)
        supervisor.register_setup(sudden_tools(self, opening))

    def _committed(self, batch: Batch) -> None:
        """A batch is durable from this instant on: look at who lives then."""
        record = self.record
        record.committed(batch)
        for opening in self.openings:
            if not opening.ended and opening.supervisor is not None:
                record.broken += check_registry(opening.supervisor)
                live = opening.supervisor._runtime.forest.live.values()
                if not record.untold:
                    off = any(it.bound.policy.notices == "off" for it in live)
                    record.untold = off

    def _commit(self, opening: Opening, number: int) -> None:
        """A commit begins: is it the one during which the process is killed?"""
        crash = opening.store.disk.plan.crash
        if crash is not None and number > crash[0] and not opening.doomed:
            opening.doomed = True
            self._group.start_soon(self._kill_later, opening, crash[1])

    async def _kill_later(self, opening: Opening, count: int) -> None:
        await let_pass(count)
        if not (opening.ended or opening.store.disk.dead):
            self._kill(opening)

    def _kill(self, opening: Opening) -> None:
        disk = opening.store.disk
        opening.remains = opening.store.remains(disk)
        disk.dead = True
        if disk.held is not None:
            disk.held.set()
        opening.free.set()
        opening.scope.cancel()
        self.note("the process is killed")
        self._end_scenario(opening)

    def _store_failed(self, opening: Opening) -> None:
        self.note("a commit fails")
        self._end_scenario(opening)

    def _end_scenario(self, opening: Opening) -> None:
        """What the seed planned ends the scenario; what that asked for does not."""
        if not opening.by_hand:
            opening.planned = True
            self._scope.cancel()
