"""Recovery: how a stored session is read back, and what a crash left is closed.

Lives here: loading (the only part that waits), and the plain repair that runs in the
span of publication.  A turn that a crash cut is closed with its cause and never
repeated; calls that were not answered say that their outcome is unknown, unless the
recipient's log knows better; what waits is kept (R-175 to R-179).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from ..actors.agent import AgentSpec
from ..actors.bound import BoundSpec, bind, rebind
from ..actors.contributions import Installation
from ..actors.policy import Policy
from ..actors.tool import call_key
from ..mailbox.bookmark import session_of
from ..mailbox.errors import (
    CorruptLogError,
    IllegalEventError,
    NotResumableError,
    UnsupportedLogError,
)
from ..mailbox.events import (
    CallEnded,
    Concluded,
    Ended,
    Told,
    TurnEnded,
)
from ..mailbox.keys import RESERVED
from ..mailbox.session import Session, fold
from ..mailbox.storage import Storage
from ..mailbox.store import KeyRow, Reader, SessionRow
from .activation import Activation, Life
from .forest import Forest
from .telling import telling_later

__all__ = [
    "Loaded",
    "folded",
    "load",
    "rebound",
    "recover_children",
    "repair",
    "shade_of",
    "tell",
]

_UNKNOWN = "the process ended during this call: whether it took effect is not known"

_MOST_BELOW = 1_000_000
_PAGE = 200

_NOBODY = bind(AgentSpec("nobody"), Policy(), None)


@attrs.define
class Loaded:
    """A stored session, read back.

    `answers` says for unanswered calls of an open turn what is stored under their keys;
    `below` are its children with something to close or to tell.  `agents` and
    `tool_calls` are what it and those below it spent of its own limits.
    """

    id: str
    session: Session
    answers: dict[int, KeyRow] = attrs.field(factory=dict)
    below: list[Loaded] = attrs.field(factory=list)
    agents: int = 0
    tool_calls: int = 0


async def load(storage: Storage, session_id: str) -> Loaded:
    """Read a session back, with what a crash left below it.

    Raises:
        NotResumableError: there is no such session, or its log cannot be read.
    """
    top = await _load_one(storage, session_id)
    await _count_spent(storage, top)
    queue = [top]
    for _ in range(_MOST_BELOW):
        if not queue:
            break
        one = queue.pop()
        for row in await storage.read(Reader.unfinished, one.id):
            child = await _load_one(storage, row.session)
            one.below.append(child)
            if child.session.header.kind == "oneshot":
                queue.append(child)
    return top


async def _count_spent(storage: Storage, top: Loaded) -> None:
    """Read what was spent of a session's own limits, where it has such limits."""
    limits = top.session.header.spec.limits
    if limits.tool_calls is not None:
        _, subtree = await storage.read(Reader.usage, top.id)
        top.tool_calls = subtree.tool_calls
    if limits.agents is None:
        return
    queue: list[tuple[str, str | None]] = [(top.id, None)]
    while queue and top.agents < limits.agents:
        parent, after = queue.pop()
        rows = await storage.read(Reader.children, parent, after, _PAGE)
        for row in rows:
            top.agents += await _has_started(storage, row)
        queue += [(row.session, None) for row in rows]
        if len(rows) == _PAGE:
            queue.append((parent, rows[-1].session))


async def _has_started(storage: Storage, row: SessionRow) -> bool:
    """Whether a stored agent ever started."""
    if not row.summary.turn or row.summary.usage.requests:
        return row.summary.turn > 0
    # Perhaps it has only turns for which the time to start was over.
    try:
        session = await folded(storage, row.session)
    except (CorruptLogError, UnsupportedLogError, IllegalEventError):
        return True
    return session is None or session.ran


async def _load_one(storage: Storage, session_id: str) -> Loaded:
    try:
        session = await folded(storage, session_id)
        if session is None:
            raise NotResumableError(f"there is no session {session_id}")
    except (CorruptLogError, UnsupportedLogError, IllegalEventError) as error:
        raise NotResumableError(
            f"session {session_id} cannot be read, so it is not continued: {error}"
        ) from error
    loaded = Loaded(session_id, session)
    for place, result in enumerate(session.results or ()):
        if result is None:
            key = RESERVED + call_key(session_id, session.turn, session.step, place)
            row = await storage.read(Reader.find, session_id, key)
            if row is not None:
                loaded.answers[place] = row
    return loaded


async def folded(storage: Storage, session_id: str) -> Session | None:
    """The state of a stored session, from its last bookmark and what came after it.

    Raises:
        CorruptLogError, UnsupportedLogError, IllegalEventError: it cannot be read.
    """
    bookmark = await storage.bookmark(session_id)
    if bookmark is None:
        events = await storage.read(Reader.load, session_id)
        return fold(events) if events else None
    session = session_of(bookmark)
    for event in await storage.read(Reader.load, session_id, session.seq):
        session.apply(event)
    return session


def rebound(
    loaded: Loaded,
    specs: Mapping[str, AgentSpec],
    bind_now: Callable[[AgentSpec], BoundSpec],
) -> tuple[BoundSpec, tuple[str, ...]]:
    """The spec under which a loaded session runs, and what differs from the stored one.

    Raises:
        NotResumableError: no spec of its name was given to `open` (R-233).
    """
    record = loaded.session.header.spec
    spec = specs.get(record.name)
    if spec is None:
        raise NotResumableError(
            f"session {loaded.id} needs the spec {record.name!r}:"
            " give it to open(specs=...)"
        )
    return rebind(record, spec, bind_now(spec))


def repair(forest: Forest, loaded: Loaded, activation: Activation) -> bool:
    """Close what a kill left open, before the session is activated again.

    Says whether there was a crash.  It writes no `ended` for the caller's own end: the
    cut activation is ended here.
    """
    session = loaded.session
    if session.activation is None:
        return False
    now = forest.ambient.now_ms()
    _promote(forest, activation, now)
    for place, result in enumerate(list(session.results or ())):
        if result is None:
            text, code = _answer(loaded, place)
            forest.log(activation, CallEnded(place, text, now, code))
    if session.open is not None:
        forest.log(activation, TurnEnded("failed", "crashed", now, "the process ended"))
    if session.returning and session.assignment is not None:
        forest.conclude(
            activation,
            Concluded(
                session.assignment, "failed", "crashed", now, detail="the process ended"
            ),
        )
    rooted = session.header.parent is None
    forest.log(activation, Ended("crashed", rooted, now))
    return True


def _promote(forest: Forest, activation: Activation, now: int) -> None:
    """Judge what a kill left undecided as the end of its turn would have (R-260)."""
    live = forest.live.values() if activation.session.inbox.staged else ()
    if not any(one.session.header.parent == activation.id for one in live):
        forest.promote(activation, now)


def _answer(loaded: Loaded, place: int) -> tuple[str, str | None]:
    calls = loaded.session.calls or ()
    name = calls[place].name
    row = loaded.answers.get(place)
    if name in ("report", "send_message"):
        if row is not None:
            return f'{{"message_id": "{row.message}"}}', None
        return "the process ended before this was accepted: not delivered", (
            "TOOL_OUTCOME_UNKNOWN"
        )
    if row is not None:
        return (
            f"the process ended during this call: crashed; child {row.session},"
            f" assignment {row.message}"
        ), "TOOL_OUTCOME_UNKNOWN"
    return _UNKNOWN, "TOOL_OUTCOME_UNKNOWN"


def recover_children(forest: Forest, loaded: Loaded, parent: Activation) -> None:
    """Close the children that a crash cut, and tell what was not told; none is resumed.

    The parent is resident, or is itself being closed by this.  One span with its
    publication, so that recovery that is killed is simply done again (R-179).
    """
    stack = [(loaded, parent)]
    while stack:
        above, owner = stack.pop()
        for child in above.below:
            if child.id in forest.live:
                continue
            shade = shade_of(child, owner)
            crashed = repair(forest, child, shade)
            stack.append((child, shade))
            if child.session.untold:
                tell(forest, child, owner, crashed=crashed)


def tell(forest: Forest, child: Loaded, owner: Activation, *, crashed: bool) -> None:
    """Tell a parent what a stored child has to tell, in one batch with `told`."""
    outcomes = child.session.untold
    shade = shade_of(child, owner)
    forest.log(shade, Told(forest.ambient.now_ms()))
    telling = telling_later(shade, owner, outcomes, crashed=crashed, view=forest.view)
    forest.tell(owner, child.id, telling)


def shade_of(child: Loaded, owner: Activation | None) -> Activation:
    """Stands for a session that is written to without being resumed."""
    shade = Activation(child.id, child.session, owner, _NOBODY, Installation())
    shade.life = Life.GONE
    return shade
