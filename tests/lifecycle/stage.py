"""What tests of the running runtime stand on: a store, its supervisors and its logs.

Lives here: opening, with everything that happened recorded for the laws; and short ways
to ask a log or a request a question.  Nothing waits by the clock: what must come later
hangs on a gate.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Entry,
    MemoryStore,
    ModelRequest,
    Policy,
    Reader,
    SqliteReader,
    Supervisor,
    UserMessage,
)
from ramet.lifecycle.laws import check_laws
from ramet.mailbox.events import Accepted, Event
from ramet.testing import ScriptedModel

__all__ = [
    "DIGGER",
    "HANG_S",
    "LEAD",
    "ORACLE",
    "SCOUT",
    "OrderObserver",
    "Stage",
    "accepted_in",
    "gone",
    "left_with",
    "of",
    "resident",
    "sources",
    "start",
    "texts",
]

LEAD = AgentSpec("lead")
SCOUT = AgentSpec("scout")
DIGGER = AgentSpec("digger")
ORACLE = AgentSpec("oracle")

HANG_S = 30.0
"""Seconds after which a test that waits for something that never comes is ended."""

E = TypeVar("E", bound=Any)
R = TypeVar("R", bound=BaseException)


class OrderObserver:
    """Records events in the order in which they became durable, and closings."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.closings: list[tuple[str, str]] = []

    def on_event(self, session_id: str, seq: int, event: Any) -> None:
        """Record an event."""
        self.entries.append(Entry(session_id, seq, event))

    def on_closing(self, session_id: str, cause: str) -> None:
        """Record the beginning of an end."""
        self.closings.append((session_id, cause))


class Stage:
    """One store, and everything that ran on it.

    Attributes:
        requests: what scripted models were asked.
        observer: of the supervisor that was opened last.
        told: whether every outcome must be told; a test with notices off clears it.
        whole: whether scripts must be played to their end; a test that stops its agents
            on the way clears it.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.requests: list[ModelRequest] = []
        self.observer = OrderObserver()
        self.told = True
        self.whole = True
        self.entries: list[Entry] = []
        self._memory: MemoryStore = MemoryStore()
        self._path = folder / "store.db"
        self._copies: list[Stage] = []
        self._opened = False

    def use(self, store: MemoryStore) -> None:
        """Run on a memory store of the test's own."""
        assert self.kind == "memory"
        self._memory = store

    def store(self) -> str | MemoryStore:
        """What to open."""
        return str(self._path) if self.kind == "sqlite" else self._memory

    def reader(self) -> Reader:
        """A reader of what is durable, while it runs and afterwards."""
        if self.kind == "sqlite":
            return SqliteReader(self._path)
        return self._memory.reader()

    def log(self, session: Agent | str) -> list[Event]:
        """The durable events of a session."""
        name = session if isinstance(session, str) else session.id
        reader = self.reader()
        try:
            return reader.load(name)
        finally:
            reader.close()

    def crashed(self) -> Stage:
        """A stage on a copy of the store: what a kill at this instant would leave."""
        number = len(self._copies) + 1
        folder = self.folder / f"copy{number}"
        folder.mkdir()
        copy = Stage(self.kind, folder)
        copy._opened = True
        copy.whole = False
        if self.kind == "sqlite":
            for path in self.folder.glob("store.db*"):
                if path.is_file() and not path.name.endswith(".lock"):
                    shutil.copy(path, folder / path.name)
        else:
            copy._memory = self._memory.snapshot()
        self._copies.append(copy)
        return copy

    @asynccontextmanager
    async def open(
        self,
        model: ramet.Model | None = None,
        *,
        specs: Iterable[AgentSpec] = (LEAD, SCOUT, DIGGER, ORACLE),
        policy: Policy | None = None,
        limits: ramet.Limits | None = None,
        report: bool = True,
    ) -> AsyncIterator[Supervisor]:
        """Open the store and record what happens; the block ends within `HANG_S`."""
        self._opened = True
        self.observer = OrderObserver()
        try:
            async with ramet.open(
                self.store(),
                specs=specs,
                model=model,
                policy=policy,
                limits=limits,
            ) as supervisor:
                supervisor.observe(self.observer)
                if report:
                    supervisor.register_setup(ramet.report_setup())
                with anyio.fail_after(HANG_S):
                    yield supervisor
        finally:
            self.entries += self.observer.entries
            if isinstance(model, ScriptedModel):
                self.requests += model.requests
        if isinstance(model, ScriptedModel) and self.whole:
            model.assert_exhausted()

    def check(self) -> None:
        """Check the laws over this store and its copies."""
        if self._opened:
            reader = self.reader()
            try:
                check_laws(reader, self.requests, self.entries, told=self.told)
            finally:
                reader.close()
        for copy in self._copies:
            copy.told = copy.told and self.told
            copy.check()


async def start(
    supervisor: Supervisor, parent: Agent, spec: AgentSpec, prompt: str = "go"
) -> Agent:
    """Start a continuable child whose first answer is held, and give its handle."""
    started = await supervisor.start_child(parent, spec, prompt)
    return resident(supervisor, started.child_id)


async def gone(agent: Agent) -> None:
    """Wait until an agent is gone and its end is durable."""
    await agent.wait_gone()
    await agent.wait_idle()


@contextmanager
def left_with(error: type[R]) -> Iterator[list[R]]:
    """A block that must be left with this error; gives it afterwards, in the list."""
    caught: list[R] = []
    try:
        yield caught
    except error as left:
        caught.append(left)
    assert caught, f"it was not left with {error.__name__}"


def resident(supervisor: Supervisor, session_id: str) -> Agent:
    """The handle of an agent that must be live."""
    agent = supervisor.agent(session_id)
    assert agent is not None, f"{session_id} is not resident"
    return agent


def of(events: Sequence[Event], kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def accepted_in(events: Sequence[Event], source: str) -> list[Accepted]:
    """What was accepted from one source, in order."""
    return [event for event in of(events, Accepted) if event.source == source]


def texts(request: ModelRequest) -> list[str]:
    """The last block of every message that a request shows from others."""
    return [m.blocks[-1] for m in request.messages if isinstance(m, UserMessage)]


def sources(request: ModelRequest) -> list[str]:
    """The source of every message that a request shows from others."""
    return [m.source for m in request.messages if isinstance(m, UserMessage)]
