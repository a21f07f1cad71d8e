"""Notices: what the supervisor tells a parent when a child came to an end of its work.

Lives here: whether a notice wakes the parent, when an undecided one is promoted, and
what it says.  Pure: it looks at activations and decides; `forest.py` writes.  A notice
holds no text that the child wrote (R-123).
"""

from __future__ import annotations

from ..mailbox.events import Given
from ..mailbox.session import Untold
from .activation import Activation, Life

__all__ = ["notice_given", "notice_text", "promotable", "unread_beyond_notices"]


def unread_beyond_notices(activation: Activation) -> bool:
    """Whether something other than notices is unread (R-127, R-128)."""
    session = activation.session
    if session.unread:
        return True
    return any(m.source != "notice" for _, m in session.inbox.staged)


def notice_given(
    parent: Activation, child: Activation, *, bad: bool, last: bool
) -> Given:
    """How a notice of `child` enters `parent`.

    Args:
        parent: who is told.
        child: who came to an end.
        bad: whether it failed, was cancelled, ran out, or had not reported.
        last: whether it is the parent's last live child.
    """
    session = parent.session
    if parent.life is not Life.LIVE:
        return "quiet"
    waits = session.returning and session.open is None and session.concluded is None
    if waits and last:
        return "wakeup"
    policy = parent.bound.policy.notices
    if policy in ("quiet", "off"):
        return "quiet"
    if policy == "wakeup" or bad:
        return "wakeup"
    if session.open is not None:
        return "undecided"
    if last and not session.inbox.claimable and unread_beyond_notices(parent):
        return "wakeup"
    return "quiet"


def promotable(activation: Activation) -> tuple[str, ...]:
    """The undecided notices that the end of the open turn promotes (R-260)."""
    session = activation.session
    if (
        activation.life is not Life.LIVE
        or session.interrupted is not None
        or session.inbox.waiting
        or activation.children
        or not session.inbox.staged
    ):
        return ()
    undecided = tuple([m.id for _, m in session.inbox.staged if m.given == "undecided"])
    if not undecided or not unread_beyond_notices(activation):
        return ()
    return undecided


def notice_text(
    child: str,
    name: str,
    outcomes: tuple[Untold, ...],
    *,
    reports: int | None,
    pending: int,
    crashed: bool = False,
    notes: tuple[str, ...] = (),
) -> str:
    """What a notice says: what happened, counts, and where the transcript is."""
    lines = [f"Background subagent {child} ({name}) came to rest."]
    if crashed:
        lines = [f"Background subagent {child} ({name}) was cut off by a crash."]
    for told in outcomes:
        cause = f" ({told.cause})" if told.cause else ""
        # The words of a refusal are the child's own.
        shown = told.detail and told.cause != "output-refused"
        detail = f": {told.detail}" if shown else ""
        lines.append(f"Assignment {told.message}: {told.status}{cause}{detail}.")
    if not outcomes:
        lines.append("It had no assignment to tell of.")
    known = "not known" if reports is None else reports
    lines.append(f"Reports: {known}. Messages that still wait: {pending}.")
    lines.extend(notes)
    lines.append(f"Its transcript is session {child}.")
    return "\n".join(lines)
