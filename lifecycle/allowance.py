"""Allowances: what is left of the limits that cover an agent.

Lives here: an account for each declaration of limits, in which is reserved before it is
spent, and the allowance of one agent under the accounts above it: its place, its clock
and what it has reserved.  Pure: time comes in as seconds of the backend's clock.  A
reservation is made in every account above or in none, in one plain call, so that it is
exact however many ask at once (A-151, A-152).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..actors.budget import CAUSES, Limits, spent
from ..mailbox.leaf import leaf
from .concurrency import Place, Pool

__all__ = ["Account", "Allowance", "Refusal", "Strand"]


@leaf
class Refusal:
    """Which axis of which limits is spent."""

    axis: str
    value: float
    owner: str

    @property
    def cause(self) -> str:
        """The stable code of the stop."""
        return CAUSES[self.axis]

    def __str__(self) -> str:
        return spent(self.axis, self.value, self.owner)


class Account:
    """What one declaration of limits covers, and what of it is spent.

    Args:
        limits: the declaration.
        owner: whose it is, for people: `the run`, or a session.
        above: the account that covers more, or `None`.
        now: when it came into force.
        agents: how many agents below were started before.
        tool_calls: how many tool calls were made before.
    """

    __slots__ = (
        "above",
        "agents",
        "limits",
        "owner",
        "pool",
        "since",
        "tool_calls",
    )

    def __init__(
        self,
        limits: Limits,
        owner: str,
        above: Account | None = None,
        *,
        now: float = 0.0,
        agents: int = 0,
        tool_calls: int = 0,
    ) -> None:
        self.limits: Limits = limits
        self.owner: str = owner
        self.above: Account | None = above
        self.since: float = now
        self.agents: int = agents
        self.tool_calls: int = tool_calls
        outer = None if above is None else above.pool
        own = limits.concurrency
        self.pool: Pool | None = outer if own is None else Pool(own, outer)

    def chain(self) -> Iterator[Account]:
        """It and what is above it."""
        at: Account | None = self
        while at is not None:
            yield at
            at = at.above

    # -- counts ------------------------------------------------------------------------

    def start(self, now: float) -> Refusal | None:
        """Reserve the start of an agent below, or say which limit refuses it."""
        for one in self.chain():
            most = one.limits.agents
            if most is not None and one.agents >= most:
                return Refusal("agents", most, one.owner)
        late = self.late(now)
        if late is None:
            for one in self.chain():
                one.agents += 1
        return late

    def not_started(self) -> None:
        """Give a reserved start back: it did not happen (A-144)."""
        for one in self.chain():
            one.agents -= 1

    def call(self) -> Refusal | None:
        """Reserve a tool call, or say which limit refuses it."""
        for one in self.chain():
            most = one.limits.tool_calls
            if most is not None and one.tool_calls >= most:
                return Refusal("tool_calls", most, one.owner)
        for one in self.chain():
            one.tool_calls += 1
        return None

    def not_called(self, count: int) -> None:
        """Give reserved tool calls back: they did not run."""
        for one in self.chain():
            one.tool_calls -= count

    # -- what each agent may have ------------------------------------------------------

    def narrowest(self, axis: str) -> Refusal | None:
        """What `axis` allows each agent, and by whose limits; `None`: unbounded."""
        found: Refusal | None = None
        for one in self.chain():
            value = getattr(one.limits, axis)
            if value is not None and (found is None or value < found.value):
                found = Refusal(axis, value, one.owner)
        return found

    # -- time --------------------------------------------------------------------------

    def starts_until(self) -> tuple[float, Refusal] | None:
        """When the last agent may start, and by whose limits; `None`: at any time."""
        found: tuple[float, Refusal] | None = None
        for one in self.chain():
            seconds = one.limits.start_deadline_s
            if seconds is not None and (
                found is None or one.since + seconds < found[0]
            ):
                refusal = Refusal("start_deadline_s", seconds, one.owner)
                found = (one.since + seconds, refusal)
        return found

    def late(self, now: float) -> Refusal | None:
        """Which limit says that it is too late for a start, if one does (A-150)."""
        until = self.starts_until()
        return None if until is None or now < until[0] else until[1]


class Strand:
    """A piece of an agent's turn that runs by itself: the turn, or one call of a batch.

    While all strands wait for other agents, the agent runs nothing.
    """

    __slots__ = ("allowance", "over", "waits")

    def __init__(self, allowance: Allowance) -> None:
        self.allowance: Allowance = allowance
        self.waits: int = 0
        self.over: bool = False


class Allowance:
    """What one agent has under the limits that cover it.

    Args:
        account: the innermost account that covers it.
        owner: the agent, given back with its place.
        charged: the account that its start is reserved in, until it has started.
        timed: whether its work is one call, which `call_s` is for.
    """

    __slots__ = (
        "account",
        "alarm",
        "back",
        "busy",
        "call_s",
        "charged",
        "deadline",
        "front",
        "left",
        "open",
        "owner",
        "place",
        "requests",
        "reserved",
        "spent",
        "started",
        "turn",
    )

    def __init__(
        self,
        account: Account,
        owner: object,
        *,
        charged: Account | None = None,
        timed: bool = False,
    ) -> None:
        self.account: Account = account
        self.owner: object = owner
        self.charged: Account | None = charged
        self.place: Place | None = None if account.pool is None else Place(owner)
        self.started: bool = charged is None
        self.front: bool = False
        self.turn: Strand | None = None
        self.busy: int = 0
        self.open: int = 0
        self.reserved: Account | None = None
        self.spent: int = 0
        self.back: list[Callable[[], None]] = []
        self.alarm: Callable[[], None] | None = None
        self.requests: Refusal | None = account.narrowest("requests")
        self.call_s: Refusal | None = account.narrowest("call_s") if timed else None
        self.left: float | None = None if self.call_s is None else self.call_s.value
        self.deadline: float | None = None

    def cover(self, account: Account) -> None:
        """Put it under another account."""
        self.account = account
        self.requests = account.narrowest("requests")
        if self.place is None and account.pool is not None:
            self.place = Place(self.owner)

    # -- the clock ---------------------------------------------------------------------

    def start_clock(self, now: float) -> None:
        """Its time runs from here on, if it is limited and does not run yet."""
        if self.left is not None and self.deadline is None:
            self.deadline = now + self.left

    def stop_clock(self, now: float) -> None:
        """Its time stands still: it waits for a place."""
        if self.deadline is not None:
            self.left = max(self.deadline - now, 0.0)
            self.deadline = None

    # -- tool calls --------------------------------------------------------------------

    def ration(self, calls: int, made: int) -> tuple[int, Refusal | None]:
        """Reserve calls of a batch, one after the other.

        Args:
            calls: how many would run.
            made: how many its log counts so far.

        Returns:
            How many may run, and what refuses the others.
        """
        self.spent = made
        for place in range(calls):
            refusal = self.account.call()
            if refusal is not None:
                return self._reserved(place), refusal
        return self._reserved(calls), None

    def _reserved(self, count: int) -> int:
        self.reserved = self.account
        self.spent += count
        return count

    def landed(self, made: int) -> None:
        """Give back what was reserved and did not run, by what its log counts now."""
        if self.reserved is not None:
            self.reserved.not_called(self.spent - made)
            self.reserved = None

    # -- its place ---------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether it only waits for others in an open turn."""
        return self.open > 0 and self.busy == 0

    def begin_turn(self) -> Strand:
        """A turn begins to run."""
        self.busy = self.open = 1
        self.turn = Strand(self)
        return self.turn

    def end_turn(self) -> None:
        """The turn is over, whatever of it still runs."""
        self.busy = self.open = 0
        if self.turn is not None:
            self.turn.over = True
            self.turn = None

    def begin_batch(self, calls: int) -> list[Strand]:
        """Calls begin to run at once; the turn itself waits for them."""
        assert self.turn is not None
        self.turn.over = True
        self.busy = self.open = calls
        return [Strand(self) for _ in range(calls)]

    def end_strand(self, strand: Strand) -> None:
        """One of the calls is over."""
        strand.over = True
        self.open -= 1
        if not strand.waits:
            self.busy -= 1

    def end_batch(self) -> None:
        """Every call is over, and the turn goes on."""
        assert self.turn is not None
        self.turn.over = False
        self.open = 1
        self.busy = 0 if self.turn.waits else 1

    def wait(self, strand: Strand) -> None:
        """A strand begins to wait for another agent."""
        strand.waits += 1
        if strand.waits == 1 and not strand.over:
            self.busy -= 1

    def go_on(self, strand: Strand) -> None:
        """A wait of a strand is over."""
        strand.waits -= 1
        if not strand.waits and not strand.over:
            self.busy += 1
