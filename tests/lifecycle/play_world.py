"""The world of a random play: its dice, its disk, and what it saw.

Lives here: what hosts and minds of one play share.  The settings are drawn from the
seed; the disk stands in for the store's writer, in both its forms, slow or failing;
what was refused, acknowledged and asked is written down for the checks afterwards.  A
broken law is written down too, since an error raised inside an agent only fails a turn.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import attrs
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

import ramet
from ramet import Entry, Limits, MemoryStore, ModelRequest, Policy, Supervisor
from ramet.mailbox.events import Accepted, Created
from ramet.mailbox.ids import Ambient
from ramet.mailbox.storage import Storage
from ramet.mailbox.store import Batch

__all__ = ["Disk", "Setting", "World"]

T = TypeVar("T")

EPOCH_S = 1_000_000_000.0
"""The wall clock of a play, which stands still."""


@attrs.frozen
class Setting:
    """What the seed decides beforehand.

    Attributes:
        slowest: the most steps that a commit or a read takes.
        threaded: whether batches are handed over as to a writer's thread.
        fails_at: the commit that fails, if one does.
        fails_after: whether what fails was stored nevertheless.
        calls: how often minds may call tools.
        policy: of everybody.
        killed_after: the steps after which the scope around the open block is
            cancelled, if it is.
        drained_after: the steps after which the host drains, if it does.
        headless: whether there is a second, returning root.
        rests: whether the play waits for rest before it leaves.
    """

    slowest: int
    threaded: bool
    fails_at: int | None
    fails_after: bool
    calls: int
    policy: Policy
    killed_after: int | None
    drained_after: int | None
    headless: bool
    rests: bool

    @classmethod
    def draw(cls, dice: random.Random, *, breaking: bool) -> Setting:
        """Draw one; a store breaks only where that is asked for."""
        policy = Policy(
            claim="all" if dice.random() < 0.25 else "one",
            at_reply=dice.choice(("cancel", "wait")),
            max_depth=4,
            notices=_one_of(dice, "auto", 0.7, ("wakeup", "quiet", "off")),
            wake_budget=_one_of(dice, None, 0.8, (0, 1, 2)),
        )
        return cls(
            slowest=dice.choice((0, 1, 4, 16)),
            threaded=dice.random() < 0.5,
            fails_at=dice.randrange(60) if breaking else None,
            fails_after=dice.random() < 0.5,
            calls=dice.choice((15, 30, 60)),
            policy=policy,
            killed_after=dice.randrange(80) if dice.random() < 0.15 else None,
            drained_after=dice.randrange(80) if dice.random() < 0.1 else None,
            headless=dice.random() < 0.3,
            rests=dice.random() < 0.75,
        )


class World:
    """What everybody in one play shares.

    Args:
        seed: of its dice.
        breaking: whether a commit fails.
        generation: how often it was killed; each has a later clock and other ids.

    Attributes:
        limits: of the run, and `spec_limits` of each agent, if there are any.
        running: how many minds think now.
        dice: all chance but that of the schedule.
        order: the events in the order in which they became durable.
        marks: how many there were after each batch.
        requests: what minds were asked.
        refused: the code and the content of each send that was refused.
        acknowledged: the ids of the messages that were said to be stored.
        resumed: the sessions that the host made resident.
        counts: for the summary of a search.
        broken: the laws that were broken.
        group: where tasks of the play go that outlive the open block.
    """

    supervisor: Supervisor
    group: TaskGroup

    def __init__(
        self,
        seed: int,
        *,
        breaking: bool = False,
        limited: bool = False,
        generation: int = 0,
    ) -> None:
        # Of dice of their own, so that a seed plays the same without limits.
        own = random.Random(f"limits {seed}")
        self.limits = _limits(own) if limited else None
        self.spec_limits = _limits(own) if limited and own.random() < 0.6 else None
        self.running = 0
        self.dice = random.Random(seed)
        self.setting = Setting.draw(self.dice, breaking=breaking)
        chance = random.Random(f"{seed} {generation}")
        self.ambient = Ambient(lambda: EPOCH_S + generation, chance)
        self.store = MemoryStore()
        self.order: list[Entry] = []
        self.marks: list[int] = []
        self.requests: list[ModelRequest] = []
        self.refused: list[tuple[str, str | None]] = []
        self.acknowledged: list[str] = []
        self.resumed: set[str] = set()
        self.revoked = False
        self.counts: Counter[str] = Counter()
        self.broken: list[str] = []
        self.calls_left = self.setting.calls
        self._texts = 0

    def runs(self, change: int) -> None:
        """A mind begins to think, or has thought."""
        self.running += change
        most = None if self.limits is None else self.limits.concurrency
        held = most is None or self.running <= most
        self.need(held, "A-144 more run than may", self.running, most)

    def need(self, holds: bool, law: str, *about: object) -> None:
        """Write a law down as broken if it does not hold."""
        if not holds:
            self.broken.append(": ".join([law, *map(str, about)]))

    def text(self) -> str:
        """A text that occurs once."""
        self._texts += 1
        return f"text {self._texts}"

    def new_key(self, name: str) -> str:
        """A key that is new now and then, so that several come upon it at once."""
        return f"{name} {self._texts // 6}"

    async def pause(self, most: int = 4) -> None:
        """Let others go on for a few steps."""
        await steps(self.dice.randrange(most))

    @property
    def failed(self) -> bool:
        """Whether a commit failed."""
        return self.supervisor._runtime.gate.failed is not None

    def headers(self, *, roots: bool = False) -> list[Created]:
        """The headers that are durable, of children or of everybody."""
        found = [it.event for it in self.order if isinstance(it.event, Created)]
        return [it for it in found if roots or it.parent is not None]

    async def sent(
        self,
        operation: Awaitable[T],
        content: str | None = None,
        *,
        key: tuple[str, str] | None = None,
        stored: bool = True,
        waits: bool = False,
    ) -> T:
        """Await a send and write down how it ended.

        Args:
            operation: the send; it gives an id, a `Started` or an outcome.
            content: what is sent, if nothing else has the same content.
            key: the sender and its key, if it has one.
            stored: whether the send returns only when the message is stored.
            waits: whether it goes on to wait for an outcome once it has sent, so that a
                store that fails meanwhile says nothing of the send.
        """
        try:
            result = await operation
        except ramet.SendUnknownError as error:
            self.counts["SEND_UNKNOWN"] += 1
            self.need(bool(error.key), "R-070 what is unknown has no key")
            if key is not None:
                self.need(error.key == key[1], "R-070 another key", error.key, key)
                await self._look_up(*key)
            raise
        except ramet.RametError as error:
            self.counts[error.code] += 1
            if not (waits and isinstance(error, ramet.PersistenceUnavailableError)):
                self.refused.append((error.code, content))
            raise
        sent = getattr(result, "message_id", result)
        if stored and isinstance(sent, str):
            held = self.accepted().get(sent)
            self.need(held is not None, "19 acknowledged and not stored", sent)
            named = held is None or key is None or (held.sender, held.key) == key
            self.need(named, "R-222 the id of another key", sent, key)
            self.acknowledged.append(sent)
        return result

    def accepted(self) -> dict[str, Accepted]:
        """The durable accepted events, by the id of their message."""
        events = [it.event for it in self.order if isinstance(it.event, Accepted)]
        return {event.id: event for event in events}

    async def _look_up(self, sender: str, key: str) -> None:
        """What is unknown is settled by asking, and by what is stored (R-071)."""
        found = await self.supervisor.lookup(sender, key)
        held: list[str | None] = [
            e.id for e in self.accepted().values() if (e.sender, e.key) == (sender, key)
        ]
        self.need([found] == (held or [None]), "19 lookup", sender, key, found, held)


class Disk:
    """Writes and reads as the threads of a store do, in steps that the seed drew.

    Args:
        world: where what became durable is written down.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._commits = 0

    def attach(self, storage: Storage) -> None:
        """Take the place of both ways to write, and make reads slow."""
        storage.append = self.append  # type: ignore[method-assign]
        storage.submit = self.submit  # type: ignore[method-assign]
        read = storage.read

        async def slow_read(method: Callable[..., T], *arguments: Any) -> T:
            """Read now and hand over later, as a reader's thread does."""
            value = await read(method, *arguments)
            await self._world.pause(self._world.setting.slowest + 1)
            return value

        storage.read = slow_read  # type: ignore[method-assign]

    async def append(self, batch: Batch) -> None:
        """Store a batch, or fail; as with a store that blocks on nothing."""
        world, setting = self._world, self._world.setting
        self._commits += 1
        await checkpoint()
        await world.pause(setting.slowest + 1)
        fails = setting.fails_at is not None and self._commits > setting.fails_at
        if fails and not setting.fails_after:
            raise OSError("the disk is full")
        world.store.append(batch)
        world.order.extend(batch.entries)
        world.marks.append(len(world.order))
        if fails:
            raise OSError("the disk did not answer")

    def submit(
        self, batch: Batch, completed: Callable[[BaseException | None], None]
    ) -> bool:
        """Take a batch as a writer's thread does, if this play has one."""
        if self._world.setting.threaded:
            self._world.group.start_soon(self._complete, batch, completed)
        return self._world.setting.threaded

    async def _complete(
        self, batch: Batch, completed: Callable[[BaseException | None], None]
    ) -> None:
        failure: BaseException | None = None
        with anyio.CancelScope(shield=True):
            try:
                await self.append(batch)
            except Exception as error:
                failure = error
        completed(failure)


async def steps(count: int) -> None:
    """Let others go on for this many steps."""
    for _ in range(count):
        await checkpoint()


def _limits(dice: random.Random) -> Limits:
    """Limits that are felt; time stands still in a play, and so is none of them."""
    return Limits(
        concurrency=_one_of(dice, 1, 0.4, (None, 2, 3)),
        agents=_one_of(dice, None, 0.4, (1, 4, 9)),
        tool_calls=_one_of(dice, None, 0.4, (2, 10, 20)),
        requests=_one_of(dice, None, 0.7, (3,)),
        call_s=1e6,
        start_deadline_s=1e6,
    )


def _one_of(dice: random.Random, usual: T, likely: float, others: tuple[T, ...]) -> T:
    return usual if dice.random() < likely else dice.choice(others)
