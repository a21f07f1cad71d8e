"""An activation: one period in which a session is resident, as data.

Lives here: what the runtime keeps of a resident agent besides its session, and the
plain rules over it: what state it is in, whether it may settle, what its end tells its
parent. It is data, not a task: a task exists only while there is work.  Nothing here
writes, waits or starts anything; `forest.py` does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ..mailbox.leaf import leaf
from ..mailbox.message import Usage
from ..mailbox.session import Session

if TYPE_CHECKING:
    from ..actors.bound import BoundSpec
    from ..actors.contributions import Installation
    from ..actors.ledger import Ledger
    from .allowance import Allowance

__all__ = ["Activation", "Closing", "Life", "State", "may_settle", "state_of"]

State = Literal["running", "waiting", "parked", "closing", "gone"]


_NO_USAGE = Usage()


class Life(enum.Enum):
    """Liveness, which goes only forward; read in every accepting span."""

    LIVE = "live"
    CLOSING = "closing"
    GONE = "gone"


@leaf
class Closing:
    """Why an activation is being ended: a stable cause and what a person wants to know.

    `cause` is `drain` when everything that waits is kept, else the code of a cancel.
    """

    cause: str
    detail: str | None = None

    @property
    def keeps(self) -> bool:
        """Whether waiting messages are kept (law 20)."""
        return self.cause in ("drain", "interrupted")


class Activation:
    """A resident agent.  Only `forest.py` and `driver.py` change it."""

    __slots__ = (
        "__weakref__",
        "_agent",
        "allowance",
        "asked",
        "batch",
        "before",
        "below",
        "bound",
        "children",
        "closing",
        "compacting",
        "driving",
        "id",
        "identities",
        "installation",
        "ledger",
        "life",
        "notes",
        "on_gone",
        "on_idle",
        "parent",
        "reports",
        "scope",
        "session",
        "ticket",
        "wakes",
    )

    def __init__(
        self,
        session_id: str,
        session: Session,
        parent: Activation | None,
        bound: BoundSpec,
        installation: Installation,
        ledger: Ledger | None = None,
    ) -> None:
        self.id: str = session_id
        self.identities: str | None = None
        self.session: Session = session
        self.parent: Activation | None = parent
        self.bound: BoundSpec = bound
        self.installation: Installation = installation
        self.ledger: Ledger | None = ledger
        self.allowance: Allowance | None = None
        self.children: dict[str, Activation] | None = None
        self.life: Life = Life.LIVE
        self.closing: Closing | None = None
        self.driving: bool = False
        self.scope: Any = None
        self.batch: set[int] | None = None
        self.asked: int = 0
        self.compacting: bool = False
        self.ticket: int = 0
        self.reports: int = 0
        self.wakes: int = 0
        self.before: Usage = session.usage
        self.below: Usage = _NO_USAGE
        self.notes: tuple[str, ...] = ()
        self.on_gone: list[Callable[[], None]] | None = None
        self.on_idle: list[Callable[[], None]] | None = None
        self._agent: Any = None

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self.session.header.spec.name

    @property
    def gone(self) -> bool:
        """Whether it has ended; its driver may still be on its way out."""
        return self.life is Life.GONE

    @property
    def stopped(self) -> bool:
        """Whether the open turn must make no further request."""
        return self.life is not Life.LIVE or self.session.interrupted is not None

    @property
    def usage(self) -> Usage:
        """Its own usage and that of its children that are gone."""
        below = self.below
        return self.session.usage + below if below.requests else self.session.usage

    @property
    def spent(self) -> Usage:
        """What this activation adds to the usage below its parent (law 21).

        A session that was resumed was counted when its earlier activation ended.
        """
        before = self.before
        return self.usage.since(before) if before.requests else self.usage

    def lineage(self) -> list[Activation]:
        """It, its parent, and so on up to the root, as far as they are resident."""
        found: list[Activation] = []
        at: Activation | None = self
        while at is not None:
            found.append(at)
            at = at.parent
        return found

    def subtree(self) -> list[Activation]:
        """It and everything below it, parents before children; no recursion."""
        found: list[Activation] = []
        stack: list[Activation] = [self]
        while stack:
            one = stack.pop()
            found.append(one)
            if one.children:
                stack.extend(reversed(one.children.values()))
        return found


def state_of(activation: Activation) -> State:
    """What it does, in one word (R-010, R-087)."""
    if activation.life is Life.GONE:
        return "gone"
    if activation.life is Life.CLOSING:
        return "closing"
    if activation.session.open is not None:
        return "running"
    if activation.children:
        return "waiting"
    if activation.session.inbox.claimable:
        return "running"
    return "parked"


def may_settle(activation: Activation) -> bool:
    """Whether a live activation at rest ends by itself (law 10, R-108).

    It has no driver and no child.  An interactive root parks; a returning agent ends
    when its assignment has; any agent stays while a turn would claim something.
    """
    session = activation.session
    if session.inbox.claimable:
        return False
    kind = session.header.kind
    if kind == "continuable":
        return True
    if kind == "interactive":
        return False
    return session.concluded is not None
