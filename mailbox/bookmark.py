"""Bookmarks: the state of a session at one place of its log, as immutable data.

Lives here: how a state is put aside and taken up again, and when that is worth it.  A
bookmark is a shortcut and never a truth: it is what the fold of the events before it
gives, and a session is read back from its last one and the events after it.  Whoever
has none, or one of another `MEANING`, reads the whole log.
"""

from __future__ import annotations

from .events import Accepted, Concluded, Created
from .inbox import Inbox
from .leaf import leaf
from .message import (
    AssistantMessage,
    Call,
    CallResult,
    ToolMessage,
    Usage,
    UserMessage,
)
from .session import Returned, Session, Untold

__all__ = [
    "MEANING",
    "Bookmark",
    "Held",
    "bookmark_of",
    "is_due",
    "is_small",
    "session_of",
]

MEANING = 1
"""The version of the fold: whoever changes what an event means to a state raises it."""

LEAST_EVENTS = 512
"""How many events there must be after a bookmark before there is another."""

SHARE = 4
"""A transcript is put aside again when a part of its length has been added in events.

So what is written for bookmarks is, over a long time, at most so many entries of the
transcript for each event.
"""


MOST_CHARACTERS = 2_000_000
"""A transcript with more is not put aside: to write it would hold up every commit.

It is more than a model reads at once, so that a longer one is compacted soon.
"""


@leaf
class Held:
    """A message in the inbox, with its place in the order of acceptance."""

    place: int
    message: Accepted


@leaf
class Bookmark:
    """The state after the first `seq` events of a log; the fields are `Session`'s."""

    header: Created
    seq: int
    last_at: int
    accepts: int
    parked: bool
    waiting: tuple[Held, ...]
    staged: tuple[Held, ...]
    activation: str | None
    began_at: int | None
    turn: int
    started: bool
    step: int
    open: tuple[Accepted, ...] | None
    calls: tuple[Call, ...] | None
    results: tuple[CallResult | None, ...] | None
    interrupted: str | None
    transcript: tuple[UserMessage | AssistantMessage | ToolMessage, ...]
    unread: bool
    reports: int
    untold: tuple[Untold, ...]
    assignment: str | None
    concluded: Concluded | None
    submissions: tuple[Returned, ...]
    usage: Usage


def is_due(session: Session) -> bool:
    """Whether enough has happened since the last bookmark for another one."""
    added = session.seq - session.mark
    return added >= LEAST_EVENTS and added * SHARE >= len(session.transcript)


def is_small(session: Session) -> bool:
    """Whether its transcript is short enough to be put aside."""
    count = 0
    for entry in session.transcript:
        if isinstance(entry, UserMessage):
            count += sum(map(len, entry.blocks))
        elif isinstance(entry, AssistantMessage):
            count += len(entry.text)
            count += sum([len(call.arguments) for call in entry.calls])
        else:
            count += sum([len(result.content) for result in entry.results])
    return count <= MOST_CHARACTERS


def bookmark_of(session: Session) -> Bookmark:
    """Put a state aside; it may go on changing."""
    inbox = session.inbox
    return Bookmark(
        session.header,
        session.seq,
        session.last_at,
        inbox.accepts,
        inbox.parked,
        tuple([Held(place, message) for place, message in inbox.waiting]),
        tuple([Held(place, message) for place, message in inbox.staged]),
        session.activation,
        session.began_at,
        session.turn,
        session.started,
        session.step,
        session.open,
        session.calls,
        None if session.results is None else tuple(session.results),
        session.interrupted,
        tuple(session.transcript),
        session.unread,
        session.reports,
        session.untold,
        session.assignment,
        session.concluded,
        session.submissions,
        session.usage,
    )


def session_of(bookmark: Bookmark) -> Session:
    """Take a state up again: a new session each time."""
    session = Session()
    session.apply(bookmark.header)
    session.seq = session.mark = bookmark.seq
    session.last_at = bookmark.last_at
    session.inbox = Inbox.of(
        bookmark.accepts,
        [(one.place, one.message) for one in bookmark.waiting],
        [(one.place, one.message) for one in bookmark.staged],
        parked=bookmark.parked,
    )
    session.activation = bookmark.activation
    session.began_at = bookmark.began_at
    session.turn = bookmark.turn
    session.started = bookmark.started
    session.step = bookmark.step
    session.open = bookmark.open
    session.calls = bookmark.calls
    if bookmark.results is not None:
        session.results = list(bookmark.results)
    session.interrupted = bookmark.interrupted
    session.transcript = list(bookmark.transcript)
    session.unread = bookmark.unread
    session.reports = bookmark.reports
    session.untold = bookmark.untold
    session.assignment = bookmark.assignment
    session.concluded = bookmark.concluded
    session.submissions = bookmark.submissions
    session.usage = bookmark.usage
    return session
