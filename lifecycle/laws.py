"""The laws that every run must keep, checked over everything that it stored.

Lives here: checks that look at the logs of one store, at what models were asked and at
the order in which events became durable, and need to know nothing of the program that
ran.  The simulator runs them after every run; so may any test.  What binds each log by
itself is in `laws_log.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from ..actors.model import ModelRequest
from ..mailbox.bookmark import session_of
from ..mailbox.events import Accepted, Activated, Compacted, Ended, Event
from ..mailbox.message import Usage
from ..mailbox.session import Session, fold
from ..mailbox.store import Bookmarks, Entry, Reader
from .laws_log import Walk, asked_by_compactions, need

__all__ = ["Logs", "Walks", "check_laws", "check_walks", "logs_of"]

Logs: TypeAlias = Mapping[str, Sequence[Event]]
"""The events of each session of a store, parents before children."""

Walks: TypeAlias = Mapping[str, Walk]
"""The logs of a store as they were read, parents before children."""

_PAGE = 1000


def logs_of(reader: Reader) -> dict[str, list[Event]]:
    """Every log of a store, parents before children."""
    logs: dict[str, list[Event]] = {}
    waiting: list[str | None] = [None]
    while waiting:
        parent, after = waiting.pop(0), None
        while page := reader.children(parent, after, _PAGE):
            for row in page:
                logs[row.session] = reader.load(row.session)
                need(row.seq == len(logs[row.session]), f"R-232 the row of {row}")
                _check_bookmark(reader, row.session, logs[row.session])
                waiting.append(row.session)
            after = page[-1].session
    need(len(logs) == reader.sessions(), "8 a session that no parent leads to")
    return logs


def _check_bookmark(reader: Reader, name: str, log: Sequence[Event]) -> None:
    """A bookmark gives what the fold of its log gave there, and no more."""
    bookmark = reader.bookmark(name) if isinstance(reader, Bookmarks) else None
    if bookmark is not None:
        seq = bookmark.seq
        need(seq <= len(log), f"19 the bookmark of {name} is ahead of its log")
        same = session_of(bookmark) == fold(log[:seq])
        need(same, f"R-200 the bookmark of {name} at {seq} is not the fold")


def check_laws(
    reader: Reader,
    requests: Iterable[ModelRequest] = (),
    order: Sequence[Entry] = (),
    *,
    told: bool = True,
    orphans: Collection[str] = (),
) -> dict[str, Session]:
    """Check every law that logs can break; gives the fold of each log.

    Args:
        reader: the store, at rest.
        requests: what the models of the run were asked.
        order: the events of the run in the order in which they became durable.
        told: whether every outcome must be told to a parent; a run with the notice
            policy `off` gives that up.
        orphans: the sessions that the host made resident, which may have happened while
            their parent was not live; they may outlive it.

    Raises:
        LawBrokenError: a law is broken; it names the first one found.
    """
    walks: dict[str, Walk] = {}
    for name, events in logs_of(reader).items():
        walks[name] = walk = Walk(name)
        for event in events:
            walk.read(event)
    check_walks(reader, walks, requests, order, told=told, orphans=orphans)
    return {name: walk.session for name, walk in walks.items()}


def check_walks(
    reader: Reader,
    walks: Walks,
    requests: Iterable[ModelRequest],
    order: Sequence[Entry],
    *,
    told: bool,
    orphans: Collection[str],
) -> None:
    """Check the same of logs that were read already, event by event.

    Args:
        reader: the store, at rest.
        walks: the logs that it holds.
        requests: as `check_laws` takes it.
        order: see there.
        told: see there.
        orphans: see there.

    Raises:
        LawBrokenError: a law is broken; it names the first one found.
    """
    ids: Counter[str] = Counter()
    for name, walk in walks.items():
        _check_row(name, reader, walk.session)
        walk.check()
        ids.update([event.id for event in walk.all(Accepted)])
    _check_usage(reader, walks)
    need(all(count == 1 for count in ids.values()), "19 a message id was used twice")
    _check_keys(walks)
    if told:
        _check_told(walks)
    _check_requests(walks, requests)
    _check_lives(walks, order, orphans)


def _check_row(name: str, reader: Reader, session: Session) -> None:
    row = reader.row(name)
    same = row is not None and row.summary == session.summary()
    need(same, f"R-200 the index row of {name} is not its fold")


def _check_keys(walks: Walks) -> None:
    """Each key of a sender names one message, for good (law 19)."""
    used = Counter(
        (event.sender, event.key)
        for walk in walks.values()
        for event in walk.all(Accepted)
        if event.key is not None
    )
    need(all(count == 1 for count in used.values()), "19 a key was used twice")


def _check_usage(reader: Reader, walks: Walks) -> None:
    """A subtree's usage is the sum of every request below it (law 21).

    What a compaction asked is in no log, and counts as its function said.
    """
    below: dict[str, Usage] = dict.fromkeys(walks, Usage())
    for name, walk in reversed(list(walks.items())):
        below[name] += walk.session.usage
        parent = walk.session.header.parent
        if parent in below:
            below[parent] += below[name]
    for name, walk in walks.items():
        own, subtree = reader.usage(name)
        need(own == walk.session.usage, f"21 usage of {name}")
        need(subtree == below[name], f"21 usage below {name}")
        made = walk.requests() + asked_by_compactions(walk)
        need(own.requests == made, f"21 requests of {name}")


def _check_told(walks: Walks) -> None:
    """Each outcome is told to the parent once, after all reports (R-119, R-053)."""
    telling: dict[tuple[str, str], list[Accepted]] = {}
    for name, walk in walks.items():
        for event in walk.all(Accepted):
            telling.setdefault((event.sender, name), []).append(event)
    for name, walk in walks.items():
        header = walk.session.header
        if header.parent is None or header.parent not in walks:
            continue
        heard = telling.get((name, header.parent), [])
        told = Counter([about for event in heard for about in event.about])
        by = "outcome" if header.kind == "oneshot" else "notice"
        mine = all(e.source == by for e in heard if e.about)
        need(mine, f"11 who told of {name}")
        if header.kind == "oneshot" and not header.background:
            need(not told, f"11 the call of {name} was told again")
            continue
        untold = {one.message for one in walk.session.untold}
        whole = told.keys() == walk.outcomes - untold
        need(whole, f"11 outcomes of {name} that were told")
        once = all(count == 1 for count in told.values())
        need(once, f"11 {name} was told of twice")


def _check_requests(walks: Walks, requests: Iterable[ModelRequest]) -> None:
    """What a model saw is what was logged (R-212)."""
    for request in requests:
        walk = walks.get(request.session_id)
        place = request.turn, request.step
        if walk is not None and place in walk.held:
            same = list(request.messages) == walk.held[place]
            need(same, f"R-212 request {place} of {request.session_id}")


def _check_lives(
    walks: Walks, order: Sequence[Entry], orphans: Collection[str]
) -> None:
    """At most one activation of each session, and children end first (laws 1, 10).

    A compaction names the children that are live then (R-236).
    """
    active: set[str] = set()
    below: dict[str, list[str]] = {}
    for name, walk in walks.items():
        parent = walk.session.header.parent
        if parent is not None:
            below.setdefault(parent, []).append(name)
    for entry in order:
        event = entry.event
        if isinstance(event, Activated):
            need(entry.session not in active, f"1 two lives of {entry.session}")
            active.add(entry.session)
        elif isinstance(event, Ended):
            active.discard(entry.session)
            if event.reason == "crashed":
                continue
            for child in below.get(entry.session, ()):
                before = child not in active or child in orphans
                need(before, f"10 {entry.session} ended before its child {child}")
        elif isinstance(event, Compacted):
            owned = active.intersection(below.get(entry.session, ()))
            same = owned == set(event.children)
            need(same, f"R-236 the live children of {entry.session}")
