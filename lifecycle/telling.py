"""Telling: what a parent gets when a child came to an end, as one message or none.

Lives here: which message that is, for a child that ends now and for one that a stored
log still has to tell of: a notice, the outcome of a background call, or nothing, since
the call itself tells it.  Pure: whether it wakes is asked of `notices.py`, and
`forest.py` writes what comes out.
"""

from __future__ import annotations

from collections.abc import Callable

from ..mailbox.events import Given
from ..mailbox.leaf import leaf
from ..mailbox.session import Untold
from .activation import Activation, Life
from .notices import notice_given, notice_text, unread_beyond_notices

__all__ = ["Telling", "telling_at_end", "telling_later"]


@leaf
class Telling:
    """A message of the runtime to a parent; `forced`: whatever the wake budget."""

    source: str
    text: str
    given: Given | None
    about: tuple[str, ...]
    forced: bool


def telling_at_end(
    child: Activation,
    parent: Activation,
    outcomes: tuple[Untold, ...],
    *,
    last: bool,
    view: Callable[[Activation], str],
) -> Telling | None:
    """What a child's end tells its parent.

    Args:
        child: who ends.
        parent: who is told.
        outcomes: what the child's log still has to tell.
        last: whether it is the parent's last live child.
        view: what a model reads of a returning child's outcome.
    """
    header = child.session.header
    awaited = last and _waits(parent)
    if header.kind == "oneshot" and header.background and child.session.concluded:
        given: Given | None = None if parent.life is Life.LIVE else "quiet"
        about = (child.session.concluded.message,)
        return Telling("outcome", view(child), given, about, awaited)
    if header.kind == "oneshot":
        outcomes = ()
    bad = bool(outcomes) and (
        child.reports == 0 or any(one.status != "completed" for one in outcomes)
    )
    given = notice_given(parent, child, bad=bad, last=last)
    if not outcomes and not _must_wake(parent, given, last):
        return None
    if parent.bound.policy.notices == "off" and not awaited:
        return None
    return _notice(child, outcomes, given, awaited, reports=child.reports)


def telling_later(
    child: Activation,
    parent: Activation,
    outcomes: tuple[Untold, ...],
    *,
    crashed: bool,
    view: Callable[[Activation], str],
) -> Telling | None:
    """What a stored child still tells: it ended while its parent was not resident, or a
    crash ended it (R-133, R-179, R-249, R-250)."""
    header = child.session.header
    about = tuple([one.message for one in outcomes])
    if header.kind == "oneshot":
        if not header.background:
            return None
        given: Given | None = None if parent.life is Life.LIVE else "quiet"
        return Telling("outcome", view(child), given, about, True)
    policy = parent.bound.policy.notices
    if policy == "off":
        return None
    wakes = parent.life is Life.LIVE and policy in ("auto", "wakeup")
    given = "wakeup" if wakes else "quiet"
    reports = None if crashed else child.session.reports
    return _notice(child, outcomes, given, True, reports=reports, crashed=crashed)


def _notice(
    child: Activation,
    outcomes: tuple[Untold, ...],
    given: Given,
    forced: bool,
    *,
    reports: int | None,
    crashed: bool = False,
) -> Telling:
    text = notice_text(
        child.id,
        child.name,
        outcomes,
        reports=reports,
        pending=len(child.session.inbox.waiting),
        crashed=crashed,
        notes=child.notes,
    )
    about = tuple([one.message for one in outcomes])
    return Telling("notice", text, given, about, forced)


def _waits(parent: Activation) -> bool:
    """Whether a returning parent still owes its value, and so may wait for children."""
    return parent.session.returning and parent.session.concluded is None


def _must_wake(parent: Activation, given: Given, last: bool) -> bool:
    """Whether a notice with nothing to tell is needed all the same (R-262)."""
    if not last or parent.life is not Life.LIVE:
        return False
    if parent.session.returning and given == "wakeup":
        return True
    return given != "quiet" and unread_beyond_notices(parent)
