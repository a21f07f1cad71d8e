"""Inquiry: the awaited readers of a running supervisor.

Lives here: where an answer comes from: the store's index, one log, and for what is
resident its live state.  What an answer means is `readers.py`'s.  They go on answering
while a drain runs (R-161).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ..actors.outcome import Outcome, TreeUsage
from ..mailbox.bookmark import session_of
from ..mailbox.errors import (
    CorruptLogError,
    DrainingError,
    IllegalEventError,
    ParkedError,
    PersistenceUnavailableError,
    UnknownMessageError,
    UnsupportedLogError,
    UsageError,
)
from ..mailbox.events import Accepted, Created, Event
from ..mailbox.message import ASSIGNING
from ..mailbox.session import Session
from ..mailbox.store import Entry, Reader, SessionRow
from .activation import Activation
from .current import current_activation, forbid_waiting_for
from .observe import Gap
from .readers import (
    Explanation,
    Listing,
    MessageStatus,
    explain_session,
    explain_stored,
    listing_of,
    opens_assignment,
    outcome_in,
    resting_place,
    status_in,
)
from .recovery import folded
from .runtime import Runtime
from .stream import LiveStream, LogStream

__all__ = ["Inquiry"]

_PAGE = 200
_TRIES = 4


def check_id(value: object, what: str) -> None:
    """Check that something is named by text.

    Raises:
        UsageError: it is something else; a start's `message_id` or `child_id` is meant.
    """
    if type(value) is not str:
        raise UsageError(
            f"a {what} is named by its id, a text, and not by a {type(value).__name__}"
        )


def check_after(value: object) -> None:
    """Check the number of events that a reader has had.

    Raises:
        UsageError: it is no whole number from 0 on.
    """
    if type(value) is not int or value < 0:
        raise UsageError("after must be a whole number from 0 on")


def check_limit(value: object) -> None:
    """Check the number of lines that a page may have.

    Raises:
        UsageError: it is no whole number from 1 on.
    """
    if type(value) is not int or value < 1:
        raise UsageError("limit must be a whole number from 1 on")


class _Changed:
    """Whether something has changed since it was last looked at."""

    def __init__(self) -> None:
        self.told = False
        self._wake: Callable[[], None] | None = None

    def forget(self) -> None:
        self.told = False
        self._wake = None

    def tell(self) -> None:
        self.told = True
        if self._wake is not None:
            self._wake()

    def when_told(self, wake: Callable[[], None]) -> None:
        self._wake = wake


class _Level:
    """The children of one session, page by page, from after one of them on."""

    def __init__(self, inquiry: Inquiry, parent: str, after: str | None) -> None:
        self._inquiry = inquiry
        self._parent = parent
        self._after = after
        self._page: deque[Listing] = deque()
        self._over = False

    async def next(self) -> Listing | None:
        if not self._page and not self._over:
            page = await self._inquiry.children(self._parent, self._after, _PAGE)
            self._page.extend(page)
            self._over = len(page) < _PAGE
        if not self._page:
            return None
        line = self._page.popleft()
        self._after = line.id
        return line


class Inquiry:
    """Answers questions, for one runtime.

    Args:
        runtime: what is asked.
        loading: waits while somebody loads a session; says whether somebody did.
    """

    def __init__(
        self, runtime: Runtime, loading: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._runtime = runtime
        self._loading = loading
        self._settled = False

    async def children(
        self, session_id: str | None, after: str | None, limit: int
    ) -> list[Listing]:
        """A page of the direct children, or of the roots."""
        if session_id is not None:
            check_id(session_id, "session")
        runtime = self._runtime
        check_limit(limit)
        rows = await self._rows(Reader.children, session_id, after, limit)
        live = runtime.forest.live
        return [
            listing_of(
                row,
                live.get(row.session),
                here=True,
                running=frozenset(),
                fault=runtime.faults.get(row.session),
                ending=runtime.gate.undecided_in(row.session),
            )
            for row in rows
            if row is not None
        ]

    async def _rows(
        self, method: Callable[..., Any], *arguments: Any
    ) -> list[SessionRow | None]:
        """One row or several, read anew where an end was stored meanwhile.

        Who is not resident any more, and had no end in the store when it was read,
        would else pass for one that a crash cut off.
        """
        runtime = self._runtime
        gate, live = runtime.gate, runtime.forest.live
        rows: list[SessionRow | None] = []
        for _ in range(_TRIES):
            began = gate.durable
            found: Any = await runtime.storage.read(method, *arguments)
            rows = found if isinstance(found, list) else [found]
            doubtful = any(
                row is not None
                and row.summary.activation is not None
                and row.session not in live
                for row in rows
            )
            if not doubtful or began == gate.durable:
                break
        return rows

    async def descendants(
        self, session_id: str, after: str | None, limit: int
    ) -> list[Listing]:
        """A page of everything below, in pre-order, found without recursion.

        It goes on below and beside `after`, without walking what came before it.
        """
        check_id(session_id, "session")
        check_limit(limit)
        levels = [_Level(self, session_id, None)]
        if after is not None:
            check_id(after, "session")
            levels = await self._levels_after(session_id, after)
        found: list[Listing] = []
        while levels and len(found) < limit:
            line = await levels[-1].next()
            if line is None:
                levels.pop()
                continue
            found.append(line)
            levels.append(_Level(self, line.id, None))
        return found

    async def _levels_after(self, session_id: str, after: str) -> list[_Level]:
        """Where to go on after a session; nowhere when it is not below."""
        levels = [_Level(self, after, None)]
        at: str | None = after
        while at is not None and at != session_id:
            row = await self._runtime.storage.read(Reader.row, at)
            parent = None if row is None else row.parent
            if parent is not None:
                levels.insert(0, _Level(self, parent, at))
            at = parent
        return [] if at is None else levels

    async def message(self, message_id: str) -> MessageStatus:
        """What became of a message."""
        check_id(message_id, "message")
        runtime = self._runtime
        for entry in runtime.gate.undecided():
            if isinstance(entry.event, Accepted) and entry.event.id == message_id:
                state = "accepted" if runtime.gate.failed is None else "unknown"
                if self._settled:
                    place = await runtime.storage.reopened(Reader.place, message_id)
                    state = "lost" if place is None else "stored"
                deferred = entry.event.asked != entry.event.given == "quiet"
                return MessageStatus(
                    message_id,
                    entry.session,
                    state,  # type: ignore[arg-type]
                    deferred=deferred,
                )
        session_id, seq = await self._position(message_id)
        bookmark = await runtime.storage.bookmark(session_id)
        if bookmark is None or bookmark.seq > seq:
            before = Session()
        else:
            before = session_of(bookmark)
        events = await runtime.storage.read(Reader.load, session_id, before.seq)
        live = runtime.forest.live.get(session_id)
        asked = 0 if live is None else live.asked
        return status_in(events, message_id, session_id, asked, before)

    async def _position(self, message_id: str) -> tuple[str, int]:
        """Whose log holds a message, and from where on."""
        runtime = self._runtime
        found = await runtime.storage.position(message_id)
        if found is None:
            await self._settle(message_id)
            found = await runtime.storage.position(message_id)
        if found is None:
            raise UnknownMessageError(f"no log holds a message {message_id!r}")
        return found

    async def _since(self, session_id: str, seq: int) -> tuple[Created, list[Event]]:
        """The header of a log, and its events from a place on.

        A short log, and one without a bookmark, is read whole.
        """
        storage = self._runtime.storage
        live = self._runtime.forest.live.get(session_id)
        header = None if live is None else live.session.header
        if header is None and seq:
            bookmark = await storage.bookmark(session_id)
            header = None if bookmark is None else bookmark.header
        if header is not None:
            return header, await storage.read(Reader.load, session_id, seq)
        events = await storage.read(Reader.load, session_id)
        first = events[0]
        assert isinstance(first, Created)
        return first, events

    async def outcome(self, message_id: str) -> Outcome[Any] | None:
        """The outcome of an assignment, or `None` while it is open."""
        check_id(message_id, "message")
        session_id, seq = await self._position(message_id)
        return await self._outcome(session_id, seq, message_id)

    async def _outcome(
        self, session_id: str, seq: int, message_id: str
    ) -> Outcome[Any] | None:
        runtime = self._runtime
        header, events = await self._since(session_id, seq)
        own, subtree = await runtime.storage.read(Reader.usage, session_id)
        usage = TreeUsage(own, subtree)
        declared = runtime.declared.get(header.contract or "")
        return outcome_in(events, message_id, usage, declared, header)

    async def _settle(self, message_id: str) -> None:
        """Let a message become durable that was perhaps accepted just now."""
        gate = self._runtime.gate
        if gate.failed is None or any(
            isinstance(entry.event, Accepted) and entry.event.id == message_id
            for entry in gate.undecided()
        ):
            await gate.wait(gate.ticket)

    async def wait(self, message_id: str) -> Outcome[Any]:
        """The outcome of an assignment, once there is one."""
        check_id(message_id, "message")
        runtime = self._runtime
        session_id, seq = await self._position(message_id)
        self._forbid_own(session_id, message_id)
        async with runtime.lending():
            return await self._wait(session_id, seq, message_id)

    async def _wait(self, session_id: str, seq: int, message_id: str) -> Outcome[Any]:
        runtime = self._runtime
        changed = _Changed()
        runtime.waits.enter()
        try:
            while True:
                changed.forget()
                runtime.stage.watch(session_id, changed.tell)
                if not self._lies_ahead(session_id, message_id):
                    outcome = await self._outcome(session_id, seq, message_id)
                    if outcome is not None:
                        return outcome
                    await self._refuse_endless(session_id, seq, message_id, changed)
                if runtime.gate.failed is not None:
                    raise PersistenceUnavailableError(
                        "a commit failed: whether this assignment ended is known after"
                        " the next open"
                    ) from runtime.gate.failed
                if not changed.told:
                    await runtime.backend.wait(changed.when_told)
        finally:
            runtime.waits.leave()
            runtime.stage.unwatch(session_id, changed.tell)

    def _lies_ahead(self, session_id: str, message_id: str) -> bool:
        """Whether live state shows that there is no outcome yet, without a read."""
        live = self._runtime.forest.live.get(session_id)
        if live is None:
            return False
        session = live.session
        if session.returning:
            return session.assignment == message_id and session.concluded is None
        return any(message.id == message_id for message in session.open or ()) or any(
            message.id == message_id for _, message in session.inbox.waiting
        )

    def _forbid_own(self, session_id: str, message_id: str) -> None:
        live = self._runtime.forest.live.get(session_id)
        if live is None or current_activation() is not live:
            return
        own = [m.id for m in live.session.open or () if m.source in ASSIGNING]
        if message_id in own or live.session.assignment == message_id:
            forbid_waiting_for(live, f"assignment {message_id}", below=False)

    async def _refuse_endless(
        self, session_id: str, seq: int, message_id: str, changed: _Changed
    ) -> None:
        """Refuse to wait for what nothing in this process is about to run (law 11).

        Nothing is decided by a log that has grown meanwhile, or is about to, nor while
        somebody loads the session or one above it, which repairs it too.
        """
        runtime = self._runtime
        _, events = await self._since(session_id, seq)
        if not opens_assignment(events, message_id):
            raise UsageError(f"message {message_id} opens no assignment")
        if session_id in runtime.forest.live or changed.told:
            return
        for one in await self._upwards(session_id):
            if await self._loading(one):
                # A load that was given up, or refused, tells nobody: look again.
                changed.tell()
                return
        gate = runtime.gate
        undecided = gate.failed is not None or any(
            entry.session == session_id for entry in gate.undecided()
        )
        if session_id in runtime.forest.live or undecided or changed.told:
            return
        session = await folded(runtime.storage, session_id)
        assert session is not None
        parked = session.activation is None and session.inbox.parked
        if runtime.forest.draining is not None and not parked:
            raise DrainingError(
                f"assignment {message_id} is kept in session {session_id} for the next"
                " open: this supervisor runs nothing more"
            )
        error = ParkedError(resting_place(session, message_id))
        error.session_id = session_id
        raise error

    async def _upwards(self, session_id: str) -> list[str]:
        """A session and those above it, the root first."""
        found: list[str] = []
        at: str | None = session_id
        while at is not None:
            found.insert(0, at)
            row = await self._runtime.storage.read(Reader.row, at)
            at = None if row is None else row.parent
        return found

    async def line(self, session_id: str) -> Listing | None:
        """One session, as a listing shows it."""
        runtime = self._runtime
        (row,) = await self._rows(Reader.row, session_id)
        if row is None:
            return None
        live = runtime.forest.live.get(session_id)
        fault = runtime.faults.get(session_id)
        ending = runtime.gate.undecided_in(session_id)
        return listing_of(
            row, live, here=True, running=frozenset(), fault=fault, ending=ending
        )

    async def usage(self, session_id: str) -> TreeUsage:
        """What a session spent, and what everything below it did too."""
        runtime = self._runtime
        check_id(session_id, "session")
        if await runtime.storage.read(Reader.row, session_id) is None:
            await runtime.quiet()
            if await runtime.storage.read(Reader.row, session_id) is None:
                raise UsageError(f"there is no session {session_id!r}")
        own, subtree = await runtime.storage.read(Reader.usage, session_id)
        return TreeUsage(own, subtree)

    async def lookup(self, sender: str, key: str) -> str | None:
        """The message that a sender's key names, or `None`: settled for good."""
        check_id(sender, "sender")
        check_id(key, "key")
        runtime = self._runtime
        if runtime.gate.failed is None:
            await runtime.quiet()
        read = runtime.storage.read
        if runtime.gate.failed is not None:
            read = runtime.storage.reopened
        row = await read(Reader.find, sender, key)
        self._settled = runtime.gate.failed is not None
        if row is not None:
            return row.message
        if await read(Reader.place, key) is not None:
            return key
        return key if await read(Reader.row, key) is not None else None

    async def explain(self, session_id: str) -> Explanation:
        """Why a session is in its state."""
        check_id(session_id, "session")
        runtime = self._runtime
        live = runtime.forest.live.get(session_id)
        if live is not None:
            return explain_session(live)
        (row,) = await self._rows(Reader.row, session_id)
        if row is None:
            return Explanation(session_id, "unknown", "no session has this id")
        try:
            session = await folded(runtime.storage, session_id)
        except (CorruptLogError, IllegalEventError, UnsupportedLogError) as error:
            return Explanation(session_id, "unreadable", str(error))
        assert session is not None
        if session.activation is not None and runtime.gate.undecided_in(session_id):
            return Explanation(session_id, "closing", "its end is being stored")
        return explain_stored(row, session, here=True)

    def events(self, session_id: str | None, after: int) -> AsyncIterator[Entry | Gap]:
        """What happens; of one session also what happened, without a gap."""
        if session_id is not None:
            return self.follow(session_id, after, None)
        check_after(after)
        if after:
            raise UsageError("after counts the events of one session: name it")
        return LiveStream(self._runtime)

    def follow(
        self, session_id: str, after: int, until_gone: Activation | None
    ) -> LogStream:
        """A session's log from `after` on, each event once, then what comes."""
        check_after(after)
        return LogStream(self._runtime, session_id, after, until_gone)
