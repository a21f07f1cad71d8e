"""The journal of a run: what is written to the log of its root, and when it is durable.

Lives here: the writing of journal events, and the facts of one call in their fixed
shapes (section 18 of the list of acceptance).  Long texts are named by id and digest
and never copied (A-159).  What is read from a journal again is `recorded.py`'s.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from ..actors.budget import AXES, Limits
from ..actors.contract import Choice
from ..actors.outcome import Outcome
from ..mailbox.canonical import canonical_json, digest_text, read_canonical
from ..mailbox.events import Journaled
from ..mailbox.message import Usage
from ..mailbox.session import Session
from .activation import Life
from .declaration import Declaration
from .handle import Agent
from .places import Place, Steps
from .recorded import CUT_OFF, FOREVER, Unended, UnendedGroup

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = [
    "CallJournal",
    "Journal",
    "closes_data",
    "end_of_cut_group",
    "end_of_unended",
    "ended_data",
    "group_data",
]

_TEXT = 2000
"""How many characters of an error's text the journal keeps."""

_NOT_RECORDED = "not recorded"


class Journal:
    """Writes to the log of a root.

    Args:
        supervisor: the running supervisor.
        root: the root of the run.
    """

    def __init__(self, supervisor: Supervisor, root: Agent) -> None:
        self._runtime = supervisor._runtime
        self._activation = root._activation

    @property
    def now_ms(self) -> int:
        """Milliseconds of the wall clock since 1970."""
        return self._runtime.ambient.now_ms()

    def new_id(self, kind: str) -> str:
        """An id for a call or a group."""
        return self._runtime.ambient.new(kind)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        """Write an event; nothing when the root is gone.

        It awaits no durability: it is stored in order with all else.
        """
        if self._activation.life is Life.GONE:
            return
        event = Journaled(kind, canonical_json(data), self.now_ms)
        self._runtime.forest.log(self._activation, event)

    def tell(self, code: str, text: str, **data: Any) -> None:
        """Write a `log` event with a code, which other programs can look for."""
        self.note("log", {"code": code, "text": text[:_TEXT], **data})

    async def stored(self) -> None:
        """Wait until what was written is durable.

        Raises:
            SendUnknownError: the commit failed.
        """
        activation = self._activation
        await self._runtime.stored(activation.id, activation.ticket, None)


@attrs.define
class CallJournal:
    """The events of one call, from `queued` to `ended`."""

    journal: Journal
    declared: Declaration
    place: Place
    id: str
    began_ms: int
    attempt: int = 0
    session: str | None = None
    message: str | None = None

    @classmethod
    def queue(
        cls,
        journal: Journal,
        declared: Declaration,
        place: Place,
        *,
        fresh: str | None = None,
        closes: tuple[Steps, int] | None = None,
    ) -> CallJournal:
        """Write `call.queued`, the contract and the limits of a call.

        Args:
            journal: where.
            declared: what is called.
            place: where it stands.
            fresh: in a run that was taken up again, why it is not replayed.
            closes: a lane, and after which of its events nothing counts any more.
        """
        made = cls(journal, declared, place, journal.new_id("c"), journal.now_ms)
        contract = declared.contract
        data = {
            **made._named(),
            "place": list(place.steps),
            "lane": list(place.lane),
            "ordinal": place.ordinal,
            "title": declared.title,
            "asked": declared.asked(place.phase),
            "contract": contract.digest,
            "spec": declared.spec.name,
            "report": declared.report,
            "attempts": declared.attempts,
        }
        if fresh is not None:
            data["fresh"] = fresh
        if closes is not None:
            data["closes"] = closes_data(*closes)
        journal.note("call.queued", data)
        made.tell(
            "contract",
            f"the contract {contract.kind} is in force",
            kind=contract.kind,
            digest=contract.digest,
        )
        limits = (declared.spec.limits or Limits()).within(declared.limits or Limits())
        if limits != Limits():
            shown = {axis: getattr(limits, axis) for axis in AXES}
            made.tell("budget-applied", f"its limits: {limits}", limits=shown)
        return made

    def _named(self) -> dict[str, Any]:
        """What names a call in each of its events."""
        return {
            "call": self.id,
            "label": self.declared.label,
            "phase": self.place.phase,
            "group": group_data(self.place.group),
        }

    def tell(self, code: str, text: str, **data: Any) -> None:
        """Write a `log` event of this call."""
        self.journal.tell(code, text, call=self.id, **data)

    def started(self, session: str, message: str, key: str) -> None:
        """Write `call.started`, in the span in which the agent came to be.

        It may have to wait for its place: how long, `call.ended` says (`waited_ms`).
        """
        self.attempt += 1
        self.session, self.message = session, message
        self.journal.note(
            "call.started",
            {
                "call": self.id,
                "attempt": self.attempt,
                "session": session,
                "message": message,
                "key": key,
            },
        )

    def ended(
        self,
        outcome: Outcome[Any],
        session: Session | None,
        *,
        replayed: bool = False,
    ) -> None:
        """Write what was decided in the call, and `call.ended`."""
        if session is not None and not replayed:
            self._decisions(outcome, session)
        if outcome.axis is not None:
            self.tell(
                "budget-stopped",
                f"the limit {outcome.axis} stopped it",
                axis=outcome.axis,
            )
        self.journal.note(
            "call.ended",
            {
                **self._named(),
                **ended_data(outcome, session, replayed=replayed),
                "attempt": self.attempt,
                "session": self.session or outcome.session_id or None,
                "message": self.message or outcome.message_id or None,
                "duration_ms": max(0, self.journal.now_ms - self.began_ms),
                "waited_ms": None if replayed else _waited_ms(session),
            },
        )

    def _decisions(self, outcome: Outcome[Any], session: Session) -> None:
        contract = self.declared.contract
        if contract.kind in ("choice", "schema"):
            spent = [
                one.event
                for one in session.submissions
                if one.event.verdict in ("invalid", "missing")
            ]
            if spent:
                self.tell(
                    "correction",
                    "a correction followed its first submission",
                    session=session.header.session,
                    errors=list(spent[0].errors),
                )
            if isinstance(contract, Choice) and outcome.acceptance is not None:
                self._choice(contract, outcome, [list(one.errors) for one in spent])

    def _choice(
        self, contract: Choice, outcome: Outcome[Any], errors: list[list[str]]
    ) -> None:
        assert outcome.acceptance is not None
        index = contract.members.index(outcome.value)
        source = outcome.acceptance.source
        if source == "fallback":
            self.tell(
                "fallback",
                "both submissions were spent, so the fallback stands in",
                member=index,
                errors=errors,
            )
        self.tell("choice", f"member {index} was chosen", member=index, source=source)


def group_data(group: tuple[str, int] | None) -> dict[str, Any] | None:
    """How an event names the group that it stands in, and the member of it."""
    return None if group is None else {"id": group[0], "index": group[1]}


def closes_data(lane: Steps, after: int) -> dict[str, Any]:
    """How an event says what it makes void."""
    return {"lane": list(lane), "after": None if after == FOREVER else after}


def ended_data(
    outcome: Outcome[Any], session: Session | None, *, replayed: bool
) -> dict[str, Any]:
    """What `call.ended` says of an outcome: the three facts, each by itself."""
    data: dict[str, Any] = {
        "status": outcome.status,
        "cause": outcome.cause,
        "axis": outcome.axis,
        "text": (outcome.detail or "")[:_TEXT] or None,
        "available": outcome.available,
        "usage": _usage(Usage() if replayed else outcome.usage.subtree),
        "replayed": replayed,
    }
    if outcome.acceptance is not None:
        data["acceptance"] = {
            "source": outcome.acceptance.source,
            "attempts": outcome.acceptance.attempts,
            "duplicates": outcome.acceptance.duplicates,
            **_digests(session),
        }
    return data


def end_of_unended(
    one: Unended, outcome: Outcome[Any] | None, session: Session | None
) -> dict[str, Any]:
    """The `call.ended` of a call whose process ended before it could be written.

    Args:
        one: what the journal has of it.
        outcome: what its agent came to; `None`: it has none, or came to nothing.
        session: that agent's log, folded.
    """
    if outcome is None:
        text = "the process ended before its agent came to an end"
        outcome = Outcome(status="failed", cause="crashed", detail=text)
    concluded = None if session is None else session.concluded
    ended = one.at if concluded is None else concluded.at
    return {
        **{name: one.queued[name] for name in ("call", "label", "phase", "group")},
        **ended_data(outcome, session, replayed=False),
        "attempt": one.attempt,
        "session": one.session,
        "message": one.message,
        "duration_ms": max(0, ended - one.at),
        "waited_ms": _waited_ms(session),
    }


def end_of_cut_group(group: UnendedGroup) -> dict[str, Any]:
    """The `group.ended` of a group whose process ended before it could be written.

    What its members gave is not known then; how its calls ended is.
    """
    data: dict[str, Any] = {
        "group": group.started["group"],
        "place": group.started["place"],
        "size": group.started["size"],
        CUT_OFF: True,
        "calls": dict(Counter(filter(None, group.calls.values()))),
    }
    if group.closes is not None:
        data["closes"] = closes_data(*group.closes)
    return data


def _waited_ms(session: Session | None) -> int | None:
    """How long an agent stood in the queue before it ran; `None`: it never did."""
    if session is None or session.began_at is None:
        return None
    return max(0, session.began_at - session.header.at)


def _digests(session: Session | None) -> dict[str, str | None]:
    concluded = None if session is None else session.concluded
    if concluded is None or concluded.receipt is None:
        return {"receipt": None, "value": None}
    value = read_canonical(concluded.receipt)["value_digest"]
    return {"receipt": digest_text(concluded.receipt), "value": value}


def _usage(usage: Usage) -> dict[str, int | str]:
    """What was spent; what was not measured says so, and is never 0 (A-049)."""
    spent: dict[str, int | str] = {}
    for name in attrs.fields_dict(Usage):
        value = getattr(usage, name)
        if value is None:
            value = _NOT_RECORDED if usage.requests else 0
        spent[name] = value
    return spent
