"""The agent handle: the live credential that callers hold.

Lives here: what a caller can see of a resident agent, and do with it.  The exact object
is the authority: a copy has none and copies nothing of the forest (R-005).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NoReturn, Protocol

from ..mailbox.events import Kind
from ..mailbox.store import Entry
from .activation import Activation, Life, State, state_of
from .current import forbid_waiting_for
from .figures import AgentStatistics, agent_statistics

__all__ = ["Agent", "Owner", "handle_of"]


class Owner(Protocol):
    """What a handle asks of the supervisor that gave it out."""

    def _follow(self, activation: Activation, after: int) -> AsyncIterator[Entry]:
        """The log of an activation, until it is gone."""
        ...

    def _release(self, activation: Activation) -> None:
        """Let it settle if it is at rest."""
        ...

    async def _until_gone(self, activation: Activation) -> None:
        """Wait for its end."""
        ...

    async def _until_idle(self, activation: Activation) -> None:
        """Wait until nothing is open or claimable."""
        ...


class Agent:
    """A resident agent, as its holder sees it.  Received, never made.

    It stays readable when the agent is gone, and then authorises nothing.
    """

    __slots__ = ("_activation", "_owner")

    _activation: Activation
    _owner: Owner

    def __init__(self) -> None:
        raise TypeError("agents are received from a supervisor, not made")

    @property
    def id(self) -> str:
        """The id of its session, which outlives it."""
        return self._activation.id

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self._activation.name

    @property
    def kind(self) -> Kind:
        """`interactive`, `headless`, `oneshot` or `continuable`."""
        return self._activation.session.header.kind

    @property
    def parent_id(self) -> str | None:
        """The session of its parent, as its durable lineage names it."""
        return self._activation.session.header.parent

    @property
    def depth(self) -> int:
        """How many parents it has."""
        return self._activation.session.header.depth

    @property
    def state(self) -> State:
        """`running`, `waiting`, `parked`, `closing` or `gone`."""
        return state_of(self._activation)

    @property
    def pending(self) -> int:
        """How many waking messages wait."""
        return len(self._activation.session.inbox.waiting)

    def events(self, after: int = 0) -> AsyncIterator[Entry]:
        """Its log from the event number `after` on, then what comes (R-240).

        The iterator ends when the agent is gone.  It gives durable events only.
        """
        return self._owner._follow(self._activation, after)

    async def wait_idle(self) -> None:
        """Wait until no turn is open, nothing is claimable and its log is durable.

        Raises:
            SelfWaitError: called from inside a turn of this agent.
        """
        forbid_waiting_for(self._activation, "the rest", below=False)
        await self._owner._until_idle(self._activation)

    async def wait_gone(self) -> None:
        """Wait until its activation has ended.

        Raises:
            SelfWaitError: called from inside a turn of this agent, or of one below it.
        """
        forbid_waiting_for(self._activation, "the end", below=True)
        await self._owner._until_gone(self._activation)

    def release(self) -> None:
        """Let it settle, if it is idle and owns no live child; else nothing (R-257)."""
        if self._activation.life is Life.LIVE:
            self._owner._release(self._activation)

    def statistics(self) -> AgentStatistics:
        """Counts of its log, its queue and its usage."""
        return agent_statistics(self._activation)

    def __copy__(self) -> Agent:
        return _make(self._activation, self._owner)

    def __deepcopy__(self, memo: object) -> Agent:
        return _make(self._activation, self._owner)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an agent cannot be pickled: it is a live credential")

    def __repr__(self) -> str:
        return f"<Agent {self.id} {self.name!r} {self.state}>"


def _make(activation: Activation, owner: Owner) -> Agent:
    agent = object.__new__(Agent)
    agent._activation = activation
    agent._owner = owner
    return agent


def handle_of(activation: Activation, owner: Owner) -> Agent:
    """The one handle of an activation, made when somebody first asks."""
    if activation._agent is None:
        activation._agent = _make(activation, owner)
    agent: Agent = activation._agent
    return agent
