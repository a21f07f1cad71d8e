"""The world of a simulated run: what a scenario has in its hands.

Lives here: opening a supervisor on a simulated store, clock and model; killing it;
planning one more fault; waiting for rest.  Everything that becomes durable passes by
here and is written down for the trace, with what was asked of models and what was
acknowledged.  What must hold is in `laws.py` and `simulate_checks.py`.
"""

from __future__ import annotations

import random
from collections import Counter
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
from ..actors.model import Model
from ..actors.policy import Policy
from ..mailbox.errors import (
    IllegalEventError,
    RametError,
    UsageError,
)
from ..mailbox.events import Accepted, Created, RequestFailed, StepEnded, TurnEnded
from ..mailbox.ids import Ambient
from ..mailbox.session import Session
from ..mailbox.store import Batch, Entry
from .fault_plan import Plan
from .held_loops import Held, let_pass
from .laws import LawBrokenError, check_laws, check_step, need
from .opening import open as open_supervisor
from .simulate_checks import (
    check_ended,
    check_left,
    check_registry,
    check_resting,
    check_spent,
    check_wait,
    told_by,
)
from .simulate_minds import SIMPLE_MIND, Interposed, sudden_tools
from .simulate_opening import Note, Opening
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
_RECOVERIES = 3
_GRACE_S = 1.0

_PATIENCE_S = (0.001, 0.001, 0.1, 1.0, 30.0, 600.0, 3600.0, 86_400.0)
"""Time passes only when nobody can run, so that any wait is a wait for rest."""


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
        self.order: list[Entry] = []
        self.marks: list[int] = []
        self.durable: dict[str, Session] = {}
        self.notes: list[Note] = []
        self.requests: list[Any] = []
        self.acknowledged: list[str] = []
        self.resumed: set[str] = set()
        self.broken: list[str] = []
        self.untold: bool = False
        self._messages: set[str] = set()
        self._statuses: dict[str, str] = {}
        self._messages_in_order: list[Accepted] = []
        self._children: dict[str, list[str]] = {}
        self._everybody: list[str] = []

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
                        await self._rest(opening)
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
        await self._rest(self._open_one())

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
            self.broken.append(": ".join([law, *map(str, about)]))

    def note(self, text: str) -> None:
        """Write something into the trace."""
        self.notes.append(Note(len(self.order), self.now_s, text))

    def accepted(self) -> list[Accepted]:
        """Every message that was accepted and is durable, in that order."""
        return self._messages_in_order

    def children_of(self, parent: str | None) -> list[str]:
        """The durable children of a session, or of all of them."""
        if parent is not None:
            return self._children.get(parent, [])
        return self._everybody

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

    async def _recover(self) -> None:
        """Open what is left as the next process does, and bring it to rest."""
        self._scope = anyio.CancelScope()
        for _ in range(_RECOVERIES):
            last = self.openings[-1] if self.openings else None
            if last is None or not (last.broken or self._plan.reopens):
                return
            broken = last.broken
            again = self._plan.crash_again if broken else None
            late = attrs.evolve(self._plan, crash=again, crash_again=None)
            self._plan = attrs.evolve(late, failed_commit=None, reopens=False)
            self.note("recovery")
            options = dict(last.options)
            if last.supervisor is not None:
                options["specs"] = list(last.supervisor._runtime.specs.values())
            async with self.open(**options) as supervisor:
                self.openings[-1].recovery = True
                await self._resume_roots(supervisor)

    def _reader(self) -> SimulatedStore:
        """The store that the last block left, opened for reading."""
        store = self.openings[-1].store
        if isinstance(store, SimulatedSqliteStore):
            store = store.again(self._disk(Plan()))
            store.open()
        return store

    async def _resume_roots(self, supervisor: Supervisor) -> None:
        """What a host does after a crash: resume its roots, and repeat what had a key.

        A repeat gives the same message (R-060).
        """
        for name, session in list(self.durable.items()):
            header = session.header
            over = session.concluded is not None and session.activation is None
            if (
                header.parent is not None
                or over
                or header.spec.name
                not in {spec.name for spec in self.openings[-1].options["specs"]}
            ):
                continue
            agent = await supervisor.resume(name)
            if header.kind != "interactive":
                continue
            told = [it.event for it in self.order if it.session == name]
            for event in told:
                if isinstance(event, Accepted) and event.source == "tell" and event.key:
                    again = await supervisor.tell(agent, event.content, key=event.key)
                    self.need(again == event.id, "R-060 a repeat is new", event.id)

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
            self.broken += check_left(opening.supervisor, planned=opening.broken)

    def _watch(self, opening: Opening, supervisor: Supervisor) -> None:
        """Look at what can be seen only while it runs."""
        opening.supervisor = supervisor
        runtime = supervisor._runtime
        runtime.models.around = lambda model: Interposed(self, opening, model)
        supervisor.register_setup(sudden_tools(self, opening))
        stored, resume = runtime.stored, supervisor._residency.resume
        wait = supervisor._inquiry.wait

        async def watched_stored(name: str, ticket: int, key: str | None) -> None:
            await stored(name, ticket, key)
            self._acknowledge(name)

        async def watched_resume(session_id: str) -> Any:
            self.resumed.add(session_id)
            opening.resumed.add(session_id)
            return await resume(session_id)

        async def watched_wait(message_id: str) -> Any:
            opening.waits[message_id] = opening.waits.get(message_id, 0) + 1
            try:
                return await wait(message_id)
            finally:
                opening.waits[message_id] -= 1

        runtime.stored = watched_stored  # type: ignore[method-assign]
        supervisor._residency.resume = watched_resume  # type: ignore[method-assign]
        supervisor._inquiry.wait = watched_wait  # type: ignore[method-assign]

    def _acknowledge(self, name: str) -> None:
        """Somebody was told that this is stored (law 19)."""
        there = name in self.durable or name in self._messages
        self.need(there, "19 acknowledged and not stored", name)
        self.acknowledged.append(name)

    def _committed(self, batch: Batch) -> None:
        """A batch is durable from this instant on."""
        for entry in batch.entries:
            session = self.durable.setdefault(entry.session, Session())
            self.need(entry.seq == session.seq, "R-173 a gap", entry.session, entry.seq)
            if isinstance(entry.event, Accepted):
                self._messages.add(entry.event.id)
                self._messages_in_order.append(entry.event)
            elif isinstance(entry.event, Created):
                if entry.event.parent is not None:
                    self._children.setdefault(entry.event.parent, []).append(
                        entry.session
                    )
                    self._everybody.append(entry.session)
            elif isinstance(entry.event, TurnEnded):
                self._statuses[entry.session] = entry.event.status
            try:
                check_step(entry.session, session, entry.event)
                session.apply(entry.event)
            except (IllegalEventError, LawBrokenError) as error:
                self.broken.append(str(error))
        self.order.extend(batch.entries)
        self.marks.append(len(self.order))
        for opening in self.openings:
            if not opening.ended and opening.supervisor is not None:
                self.broken += check_registry(opening.supervisor)
                live = opening.supervisor._runtime.forest.live.values()
                self.untold |= any(it.bound.policy.notices == "off" for it in live)

    def _commit(self, opening: Opening, number: int) -> None:
        """A commit begins: is it the one during which the process is killed?"""
        crash = opening.store.disk.plan.crash
        if crash is not None and number > crash[0] and not opening.doomed:
            opening.doomed = True
            self._group.start_soon(self._kill_later, opening, crash[1])

    async def _kill_later(self, opening: Opening, count: int) -> None:
        await let_pass(count)
        if not opening.ended:
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

    async def _rest(self, opening: Opening) -> None:
        await self._idle(opening)
        disk = opening.store.disk
        plan, disk.plan = disk.plan, Plan(threaded=disk.plan.threaded)
        opening.free.set()
        try:
            idle = await self._idle(opening)
            if opening.broken or opening.supervisor is None:
                return
            if not idle:
                raise LawBrokenError(f"11 nothing comes to rest\n{told_by(opening)}")
            supervisor = opening.supervisor
            self.broken += check_resting(
                supervisor, self.durable, self._statuses, self.resumed
            )
            for message in [name for name, count in opening.waits.items() if count]:
                self.broken += await check_wait(supervisor, message)
        finally:
            disk.plan = plan
            if not disk.dead:
                opening.free = anyio.Event()

    async def _idle(self, opening: Opening) -> bool:
        """Wait until nothing is under way; says whether that came."""
        for seconds in _PATIENCE_S:
            await anyio.sleep(seconds)
            if opening.broken or not opening.busy():
                return True
        return False

    # -- the end -----------------------------------------------------------------------

    def _finish(self) -> None:
        """Judge all that was stored, asked and promised, once everything has ended.

        Raises:
            LawBrokenError: a law was broken; it names the first one.
        """
        if not self.openings:
            raise UsageError("the scenario never opened the world")
        if self.broken:
            raise LawBrokenError(self.broken[0])
        reader = self._reader()
        try:
            sessions = check_laws(
                reader,
                self.requests,
                self.order,
                told=not self.untold,
                orphans=self.resumed,
            )
        finally:
            reader.close()
        need(sessions == self.durable, "R-232 not what was committed")
        lost = [one for one in self.acknowledged if one not in self._messages]
        lost = [one for one in lost if one not in sessions]
        need(not lost, f"19 acknowledged and lost: {lost[:3]}")
        if not any(opening.broken or opening.stubborn for opening in self.openings):
            made = Counter(request.session_id for request in self.requests)
            kinds = (StepEnded, RequestFailed)
            counted = Counter(
                entry.session for entry in self.order if isinstance(entry.event, kinds)
            )
            lost = [name for name in made if made[name] != counted[name]]
            need(not lost, f"21 a request of {lost[:1]} that no log counts")
        only = self.openings[0]
        if len(self.openings) == 1 and only.supervisor and not only.broken:
            for broken in check_spent(only.supervisor, self.order, sessions):
                raise LawBrokenError(broken)
        if not self.openings[-1].broken:
            killed = any(opening.broken for opening in self.openings)
            resumed = self.openings[-1].resumed if killed else self.resumed
            for broken in check_ended(self.order, sessions, resumed, killed=killed):
                raise LawBrokenError(broken)
