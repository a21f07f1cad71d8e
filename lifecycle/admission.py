"""Admission: the accepting spans, with one order of checks everywhere (law 6).

Lives here: for each operation the synchronous span from the first check to the
acceptance. The order is: usage and the caller's scope (before the span); drain; exact
sender; sender closing; known key; recipient and lineage; recipient closing; limits;
enqueue.  Whatever comes out before the last step has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..actors.bound import BoundSpec
from ..actors.contract import Contract
from ..actors.contributions import Contributions, Installation, Revoked
from ..actors.host import Host
from ..actors.ledger import Ledger
from ..actors.policy import Policy
from ..mailbox.backend_trio import protected
from ..mailbox.errors import (
    ActivationClosingError,
    DepthExceededError,
    DrainingError,
    InboxFullError,
    NotResidentError,
    NotResumableError,
    ParentUnavailableError,
    PersistenceUnavailableError,
    UnauthorizedError,
    UsageError,
)
from ..mailbox.events import Created, Kind
from ..mailbox.inbox import Inbox, Placed, bytes_of
from ..mailbox.keys import Known
from ..mailbox.leaf import leaf
from ..mailbox.message import record
from ..mailbox.session import Session
from ..mailbox.store import KeyRow
from .activation import Activation, Life
from .allowance import Account
from .errors import SetupRevokedError
from .forest import Forest
from .handle import Agent

__all__ = ["Admission", "Newborn", "Send"]

UNAVAILABLE = "direct parent is not live; report was not delivered"


@leaf
class Send:
    """What a sender wants accepted, checked for usage already."""

    operation: str
    content: tuple[str, ...]
    digest: str
    asked: str
    key: str | None = None
    stored: KeyRow | None = None
    kind: Kind | None = None
    """Of the agent that a stored start of this key made."""


@record
class Newborn:
    """An agent that is to be started, checked for usage already."""

    kind: Kind
    bound: BoundSpec
    contract: Contract[Any] | None = None
    record: str | None = None
    background: bool = False
    identities: str | None = None


class Admission:
    """The accepting spans over one forest."""

    def __init__(
        self, forest: Forest, contributions: Contributions, host: Host
    ) -> None:
        self._forest = forest
        self._contributions = contributions
        self._host = host

    # -- the first checks of every operation -------------------------------------------

    def sender(self, agent: object, *, above: bool = False) -> Activation:
        """Check drain, the exact sender and its closing; gives its activation.

        Args:
            agent: who is said to send.
            above: whether it is what the root of a scoped drain still has to do with
                those above it: its own report, or a `tell` to it.
        """
        forest = self._forest
        self.open()
        if type(agent) is not Agent:
            raise UnauthorizedError(
                "an exact live Agent is needed here, not"
                f" {type(agent).__name__}: ids and copies authorise nothing"
            )
        activation = agent._activation
        live = forest.live.get(activation.id)
        exact = live is activation and activation._agent is agent
        if forest.below:
            self._outside_of_drains(activation, above=above)
        if not exact:
            raise UnauthorizedError(
                f"this is not the live agent of session {activation.id}:"
                " it is stale, a copy, or of another supervisor"
            )
        if activation.life is not Life.LIVE:
            closing = activation.closing
            if closing is not None and closing.keeps:
                raise DrainingError(f"{activation.id} is being drained")
            raise ActivationClosingError(f"{activation.id} is closing")
        return activation

    def open(self) -> None:
        """Check that admission is open at all."""
        forest = self._forest
        if forest.gate.failed is not None:
            raise PersistenceUnavailableError(
                "a commit failed, so nothing more is admitted: leave the open block and"
                " open the store again"
            ) from forest.gate.failed
        if forest.draining is not None:
            raise DrainingError("the supervisor is draining: it admits nothing more")

    def _outside_of_drains(self, activation: Activation, *, above: bool) -> None:
        for one in activation.lineage():
            if one in self._forest.below and not (above and one is activation):
                raise DrainingError(
                    f"drain(below=...) closed admission below {one.id}, which starts"
                    f" and sends nothing downwards until it is gone: cancel {one.id}"
                    " or let it settle, and resume it"
                )

    def known(
        self,
        sender: str,
        send: Send,
        recipient: str | None,
        newborn: Newborn | None = None,
    ) -> Known | None:
        """What the key of a send names already (R-061, R-254)."""
        if send.key is None:
            return None
        return self._forest.keys.known(
            sender,
            send.key,
            send.stored,
            operation=send.operation,
            digest=send.digest,
            recipient=recipient,
            other=None if newborn is None else partial(self._other, send, newborn),
        )

    def _other(self, send: Send, newborn: Newborn, row: KeyRow) -> str:
        """What a key of another start names: a start, a call, or other content."""
        live = self._forest.live.get(row.session)
        kind = send.kind if live is None else live.session.header.kind
        if kind is None or kind == newborn.kind:
            return "other content"
        if newborn.kind == "oneshot":
            return "the start of a continuable child, not a call"
        return "a call, not the start of a continuable child"

    def limits(self, recipient: Activation, content: tuple[str, ...]) -> None:
        """Check the recipient's inbox limits (R-203)."""
        inbox = recipient.session.inbox
        _fit(recipient.bound.policy, recipient.id, inbox, inbox.staged, content)

    def stored_limits(
        self, bound: BoundSpec, session: Session, content: tuple[str, ...]
    ) -> None:
        """Check the inbox limits of a session that a message would resume.

        It comes before anything of the resume: a send that fails resumes nobody.  What
        a repair lets enter, where a turn was cut, is not in the way.
        """
        inbox = session.inbox
        staged = inbox.staged if session.open is None else inbox.staying()
        _fit(bound.policy, session.header.session, inbox, staged, content)

    def _accept(
        self, recipient: Activation, sender: str, send: Send
    ) -> tuple[str, int]:
        self.limits(recipient, send.content)
        return self._take_in(recipient, sender, send)

    def _take_in(
        self, recipient: Activation, sender: str, send: Send
    ) -> tuple[str, int]:
        message = self._forest.accept(
            recipient,
            send.operation,
            sender,
            send.content,
            send.asked,
            key=send.key,
            digest=send.digest,
        )
        return message, recipient.ticket

    # -- one span for each operation ---------------------------------------------------

    @protected
    def tell(self, root: object, send: Send) -> tuple[str, int]:
        """Outside input to a root."""
        activation = self.sender(root, above=True)
        known = self.known("host", send, activation.id)
        if known is not None:
            return known.row.message, known.ticket
        if activation.session.header.parent is not None:
            raise UnauthorizedError(
                f"{activation.id} is no root: its parent sends it a followup"
            )
        session = activation.session
        if session.returning and session.assignment is not None:
            raise UsageError(
                f"{activation.id} returns one value and has its assignment already:"
                " start another headless root"
            )
        return self._accept(activation, "host", send)

    @protected
    def report(self, child: object, send: Send) -> tuple[str, int]:
        """A child's report to its direct parent."""
        activation = self.sender(child, above=True)
        header = activation.session.header
        known = self.known(activation.id, send, header.parent)
        if known is not None:
            return known.row.message, known.ticket
        if header.kind != "continuable":
            raise UnauthorizedError(
                f"only a continuable child reports; {activation.id} is {header.kind}"
            )
        parent = activation.parent
        if parent is None or parent.life is not Life.LIVE:
            raise ParentUnavailableError(UNAVAILABLE)
        self.limits(parent, send.content)
        try:
            accepted = self._take_in(parent, activation.id, send)
        except Exception as error:
            raise ParentUnavailableError(UNAVAILABLE) from error
        activation.reports += 1
        return accepted

    @protected
    def inject(self, parent: object, child_id: str, send: Send) -> tuple[str, int]:
        """A quiet message to a resident child."""
        activation = self.sender(parent)
        known = self.known(activation.id, send, child_id)
        if known is not None:
            return known.row.message, known.ticket
        child = self._forest.live.get(child_id)
        if child is not None and child.session.header.parent != activation.id:
            raise UnauthorizedError(f"{child_id} is not a child of {activation.id}")
        if child is None or child.life is not Life.LIVE:
            raise NotResidentError(
                f"{child_id} is not resident: a followup would resume it"
            )
        return self._accept(child, activation.id, send)

    @protected
    def start_child(
        self, parent: object, newborn: Newborn, send: Send
    ) -> tuple[str, str, int]:
        """A child: header, activation, ownership and first message in one span."""
        activation = self.sender(parent)
        known = self.known(activation.id, send, None, newborn)
        if known is not None:
            return known.row.session, known.row.message, known.ticket
        depth = activation.session.header.depth + 1
        if depth > activation.bound.policy.max_depth:
            raise DepthExceededError(
                f"a child of {activation.id} would be at depth {depth}, deeper than"
                f" max_depth {activation.bound.policy.max_depth}"
            )
        bound = newborn.bound
        if bound.policy.inbox_bytes is not None:
            # One message is within any `inbox_limit`.
            _fit(bound.policy, f"{bound.name!r}", Inbox(), [], send.content)
        charged = self._forest.limiter.charge(activation)
        try:
            child = self._bear(newborn, activation, depth, charged)
        except BaseException:
            if charged is not None:
                charged.not_started()
            raise
        message = self._forest.accept(
            child,
            send.operation,
            activation.id,
            send.content,
            "wakeup",
            key=send.key,
            digest=send.digest,
        )
        return child.id, message, child.ticket

    @protected
    def start_root(self, newborn: Newborn) -> Activation:
        """A root."""
        self.open()
        self._forest.limiter.charge(None, root=True)
        return self._bear(newborn, None, 0)

    def _bear(
        self,
        newborn: Newborn,
        parent: Activation | None,
        depth: int,
        charged: Account | None = None,
    ) -> Activation:
        forest = self._forest
        session_id = forest.ambient.new("s")
        bound = newborn.bound
        parent_id = None if parent is None else parent.id
        installation = self.install(newborn.kind, session_id, parent_id, bound.name)
        ledger = None
        if newborn.contract is not None:
            ledger = Ledger(newborn.contract, bound.policy.nudges)
        child = Activation(session_id, Session(), parent, bound, installation, ledger)
        try:
            if parent is not None and parent.life is not Life.LIVE:
                raise ActivationClosingError(f"{parent.id} is closing")
            self.open()
            self.commit(installation)
        except BaseException as error:
            for other in installation.release():
                error.add_note(f"and a release failed: {other!r}")
            raise
        header = Created(
            session_id,
            parent_id,
            depth,
            newborn.kind,
            bound.record,
            forest.ambient.now_ms(),
            newborn.record,
            newborn.background,
        )
        forest.limiter.cover(child, charged=charged)
        forest.publish(child, header)
        child.identities = newborn.identities
        return child

    def install(
        self, kind: Kind, session_id: str, parent_id: str | None, name: str
    ) -> Installation:
        """Run the contributions for an activation that is being set up."""
        return self._contributions.install(
            kind, session_id, parent_id, name, self._host
        )

    @staticmethod
    def commit(installation: Installation) -> None:
        """Validate set-ups again, at the instant of publication (R-191)."""
        try:
            installation.publish()
        except Revoked:
            raise SetupRevokedError(
                "a contribution was revoked between its set-up and publication:"
                " nothing was started"
            ) from None

    @protected
    def followup(
        self,
        parent: object,
        child_id: str,
        send: Send,
        revive: Callable[[Activation], Activation] | None,
    ) -> tuple[str, int] | Activation | None:
        """A waking message to a child; publication of a resumed child is in this span.

        Args:
            parent: who sends.
            child_id: to whom.
            send: what.
            revive: makes the loaded child resident; `None` when nothing is loaded.

        Returns:
            The id and its ticket; or the closing activation that must be gone first; or
            `None` when the child must be loaded.
        """
        activation = self.sender(parent)
        known = self.known(activation.id, send, child_id)
        if known is not None:
            return known.row.message, known.ticket
        child = self._forest.live.get(child_id)
        if child is None:
            if revive is None:
                return None
            child = revive(activation)
        if child.session.header.parent != activation.id:
            raise UnauthorizedError(f"{child_id} is not a child of {activation.id}")
        if child.session.header.kind != "continuable":
            raise NotResumableError(
                f"{child_id} is {child.session.header.kind}: only a continuable child"
                " gets followups"
            )
        if child.life is not Life.LIVE:
            return child
        return self._accept(child, activation.id, send)


def _fit(
    policy: Policy,
    name: str,
    inbox: Inbox,
    staged: list[Placed],
    content: tuple[str, ...],
) -> None:
    """Check that one more message fits beside those that wait or are staged.

    Raises:
        InboxFullError: it does not; the text says how much there is.
    """
    if policy.inbox_limit is None and policy.inbox_bytes is None:
        return
    held = len(inbox.waiting) + len(staged)
    if policy.inbox_limit is not None and held >= policy.inbox_limit:
        raise InboxFullError(f"the inbox of {name} holds {held} messages, its limit")
    if policy.inbox_bytes is not None:
        size = bytes_of(content)
        if staged is inbox.staged:
            size += inbox.held_bytes()
        else:
            size += sum(bytes_of(m.content) for _, m in (*inbox.waiting, *staged))
        if size > policy.inbox_bytes:
            raise InboxFullError(
                f"the inbox of {name} would hold {size} bytes,"
                f" more than its limit of {policy.inbox_bytes}"
            )
