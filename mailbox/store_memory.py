"""The store in memory: for tests, the simulator, and runs that outlive no process.

Lives here: the store port over plain dictionaries.  What is stored are the event
objects themselves.  A `MemoryStore` is a handle on data that several supervisors may
share, each through a handle of its own; the data outlives its handles.  Each of them
holds a lease on what it claimed, which lasts until somebody says that it ran out.  It
blocks on nothing, so it runs in the thread of its caller; a lock lets readers in other
threads see whole batches.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort

import attrs

from .batch import Additions, additions, check_claim, key_conflict
from .bookmark import Bookmark
from .errors import (
    NotResumableError,
    PersistenceUnavailableError,
    SessionHeldError,
    StoreInUseError,
    UsageError,
)
from .events import Created, Event
from .message import Usage
from .store import Batch, KeyRow, Reader, SessionRow, Summary

__all__ = ["MemoryData", "MemoryReader", "MemoryStore"]


@attrs.define(eq=False)
class _Session:
    """One stored session: its header, its log, its claim and its summary."""

    header: Created
    log: list[Event]
    holder: str | None
    epoch: int
    summary: Summary

    def row(self) -> SessionRow:
        header = self.header
        return SessionRow(
            session=header.session,
            parent=header.parent,
            depth=header.depth,
            name=header.spec.name,
            kind=header.kind,
            created_at=header.at,
            seq=len(self.log),
            holder=self.holder,
            epoch=self.epoch,
            summary=self.summary,
        )


@attrs.define(eq=False)
class MemoryData:
    """What handles share.  It is opaque: make one, hand it on, and nothing else.

    `children` and `unfinished` hold (creation time, id) of the children of a session,
    `buried` the holders whose lease ran out while they may have been alive.
    """

    sessions: dict[str, _Session] = attrs.field(factory=dict)
    children: dict[str | None, list[tuple[int, str]]] = attrs.field(factory=dict)
    unfinished: dict[str | None, set[tuple[int, str]]] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], KeyRow] = attrs.field(factory=dict)
    places: dict[str, tuple[str, int]] = attrs.field(factory=dict)
    bookmarks: dict[str, Bookmark] = attrs.field(factory=dict)
    buried: set[str] = attrs.field(factory=set)
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def copy(self) -> MemoryData:
        """An independent copy without any claims; the caller has the lock."""
        sessions = {
            name: _Session(one.header, one.log.copy(), None, one.epoch, one.summary)
            for name, one in self.sessions.items()
        }
        children = {name: some.copy() for name, some in self.children.items()}
        unfinished = {name: some.copy() for name, some in self.unfinished.items()}
        return MemoryData(
            sessions,
            children,
            unfinished,
            self.keys.copy(),
            self.places.copy(),
            self.bookmarks.copy(),
        )


class MemoryReader:
    """The reading half of a memory store.

    Args:
        data: what is read; `None` begins with nothing.
    """

    def __init__(self, data: MemoryData | None = None) -> None:
        self.data: MemoryData = MemoryData() if data is None else data

    def load(self, session: str, after: int = 0) -> list[Event]:
        """The events of a log whose `seq` is at least `after`, in order.

        Raises:
            UsageError: `after` is negative.
        """
        if after < 0:
            raise UsageError(f"after must not be negative, and is {after}")
        with self.data.lock:
            found = self.data.sessions.get(session)
            return [] if found is None else found.log[after:]

    def row(self, session: str) -> SessionRow | None:
        """The index row of a session."""
        with self.data.lock:
            found = self.data.sessions.get(session)
            return None if found is None else found.row()

    def children(
        self, parent: str | None, after: str | None = None, limit: int = 100
    ) -> list[SessionRow]:
        """A page of the direct children, in order of creation time, then id.

        Raises:
            UsageError: `limit` is not positive.
        """
        if limit < 1:
            raise UsageError(f"limit must be positive, and is {limit}")
        data = self.data
        with data.lock:
            order = data.children.get(parent, [])
            first = 0
            if after is not None:
                last = data.sessions.get(after)
                if last is None:
                    return []
                first = bisect_right(order, (last.header.at, after))
            page = order[first : first + limit]
            return [data.sessions[name].row() for _, name in page]

    def unfinished(self, parent: str) -> list[SessionRow]:
        """The direct children with a live activation, open turn or untold outcomes."""
        data = self.data
        with data.lock:
            found = sorted(data.unfinished.get(parent, ()))
            return [data.sessions[name].row() for _, name in found]

    def find(self, sender: str, key: str) -> KeyRow | None:
        """What a key of a sender names."""
        with self.data.lock:
            return self.data.keys.get((sender, key))

    def place(self, message: str) -> str | None:
        """The session whose log accepted a message."""
        found = self.position(message)
        return None if found is None else found[0]

    def position(self, message: str) -> tuple[str, int] | None:
        """Whose log accepted a message, and with which `seq`."""
        with self.data.lock:
            return self.data.places.get(message)

    def bookmark(self, session: str) -> Bookmark | None:
        """The last bookmark of a session that is stored."""
        with self.data.lock:
            return self.data.bookmarks.get(session)

    def usage(self, session: str) -> tuple[Usage, Usage]:
        """A session's own usage and that of its subtree, itself included."""
        data = self.data
        with data.lock:
            found = data.sessions.get(session)
            if found is None:
                return Usage(), Usage()
            total = Usage()
            waiting = [session]
            while waiting:
                name = waiting.pop()
                total = total + data.sessions[name].summary.usage
                waiting.extend(child for _, child in data.children.get(name, ()))
            return found.summary.usage, total

    def sessions(self) -> int:
        """How many sessions there are."""
        with self.data.lock:
            return len(self.data.sessions)

    def close(self) -> None:
        """Let go of everything; may be called twice, and reading goes on to work."""


class MemoryStore(MemoryReader):
    """A handle on data in memory, for one supervisor at a time.

    It is opened and closed like a store on a disk.  What was stored stays in `data`, so
    that the same handle may be opened again, or another one made for the same data.
    Closing voids the claims that were taken through the handle.

    Args:
        data: what is shared with other handles; `None` begins with nothing.
    """

    blocking = False

    def __init__(self, data: MemoryData | None = None) -> None:
        super().__init__(data)
        self._opened = False
        self._failure: BaseException | None = None
        self._holders: set[str] = set()

    def open(self) -> None:
        """Make it ready.

        Raises:
            StoreInUseError: this handle is open already; share `data` instead.
        """
        if self._opened:
            raise StoreInUseError(
                "this memory store serves a supervisor already;"
                " make another handle with MemoryStore(store.data)"
            )
        self._opened = True
        self._failure = None

    def append(self, batch: Batch) -> None:
        """Store a batch whole.  Once it raised, it stores nothing until `open`.

        Raises:
            SessionHeldError: an expected sequence or a claim does not match, or the
                holder was buried.
            KeyConflictError: the sender's key is taken.
            UsageError: the batch contradicts itself.
            PersistenceUnavailableError: it is not open, or an append failed before.
        """
        self._check_open()
        try:
            with self.data.lock:
                self._apply(batch, self._check(batch))
        except BaseException as error:
            self._failure = error
            raise

    def claim(self, session: str, holder: str) -> int:
        """Take the claim on a stored session; gives the new epoch.

        A holder that has it already gets a new epoch, and its former one ends.

        Raises:
            SessionHeldError: another live holder has it.
            NotResumableError: there is no such session.
            PersistenceUnavailableError: it is not open, an append failed before, or
                `holder` was buried.
        """
        self._check_open()
        with self.data.lock:
            if holder in self.data.buried:
                raise PersistenceUnavailableError(_ran_out(holder))
            found = self.data.sessions.get(session)
            if found is None:
                raise NotResumableError(f"no session {session!r} is stored")
            if found.holder is not None and found.holder != holder:
                raise SessionHeldError(f"session {session} is held by {found.holder}")
            found.holder = holder
            found.epoch += 1
            self._holders.add(holder)
            return found.epoch

    def release(self, session: str, holder: str) -> None:
        """Give a claim back if `holder` has it; else nothing."""
        with self.data.lock:
            found = self.data.sessions.get(session)
            if found is not None and found.holder == holder:
                found.holder = None

    def reader(self) -> Reader:
        """A reader for use beside this writer, from any other thread."""
        return MemoryReader(self.data)

    def close(self) -> None:
        """Void the claims taken through this handle; may be called twice."""
        with self.data.lock:
            for holder in self._holders:
                self._void(holder)
            self._holders.clear()
            self._opened = False

    def bury(self, holder: str) -> None:
        """Declare that the lease of a holder ran out, whether it is dead or paused.

        Its claims are void, and whatever it writes later is refused: also a new
        session, which nobody has claimed.  `row(session).holder` names a holder.
        """
        with self.data.lock:
            self.data.buried.add(holder)
            self._void(holder)

    def _void(self, holder: str) -> None:
        for found in self.data.sessions.values():
            if found.holder == holder:
                found.holder = None

    def snapshot(self) -> MemoryStore:
        """A store with an independent copy of the data: what a crash now would leave.

        In the copy every holder is dead.
        """
        with self.data.lock:
            return MemoryStore(self.data.copy())

    def _check_open(self) -> None:
        if self._failure is not None:
            raise PersistenceUnavailableError(
                f"an append to this store failed before: {self._failure}"
            ) from self._failure
        if not self._opened:
            raise PersistenceUnavailableError("this memory store is not open")

    def _check(self, batch: Batch) -> Additions:
        """Refuse a batch that must not be stored; changes nothing."""
        data = self.data
        if batch.holder in data.buried:
            raise SessionHeldError(_ran_out(batch.holder))
        found = additions(batch)
        for session in batch.expected:
            held = data.sessions.get(session)
            if held is None:
                check_claim(batch, session, 0, None, 0)
            else:
                check_claim(batch, session, len(held.log), held.holder, held.epoch)
        for parent in found.parents:
            if parent not in data.sessions:
                raise UsageError(f"no session {parent!r} is stored to be a parent")
        for message in found.places:
            if message in data.places:
                raise UsageError(f"message {message} is stored already")
        for key in found.keys:
            if key in data.keys:
                raise key_conflict(*key)
        return found

    def _apply(self, batch: Batch, found: Additions) -> None:
        data = self.data
        for name, header in found.created.items():
            data.sessions[name] = _Session(
                header, [], batch.holder, 1, batch.summaries[name]
            )
            insort(data.children.setdefault(header.parent, []), (header.at, name))
        self._holders.add(batch.holder)
        for entry in batch.entries:
            data.sessions[entry.session].log.append(entry.event)
        for name, summary in batch.summaries.items():
            held = data.sessions[name]
            held.summary = summary
            parent, place = held.header.parent, (held.header.at, name)
            if summary.activation is not None or summary.turn_open or summary.untold:
                data.unfinished.setdefault(parent, set()).add(place)
            elif parent in data.unfinished:
                data.unfinished[parent].discard(place)
        for name in batch.released:
            data.sessions[name].holder = None
        data.keys.update(found.keys)
        data.places.update(found.places)
        data.bookmarks.update(batch.bookmarks)


def _ran_out(holder: str) -> str:
    return f"the lease of {holder} ran out: another may have gone on with its sessions"
