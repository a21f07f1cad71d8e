"""Calling: the calls of a script, each replayed or made, and journaled.

Lives here: one logical call from its place to its durable end: the look-up, the agent,
a second attempt where one is allowed, and the events of the journal around them.  What
may be replayed is `replay.py`'s, what is written is `journal.py`'s.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import attrs

from ..actors.budget import Limits
from ..actors.errors import OutcomeError
from ..actors.outcome import Outcome
from ..mailbox.canonical import canonical_json
from ..mailbox.errors import DrainingError, KeyConflictError, RametError
from ..mailbox.session import Session
from ..mailbox.store import Reader
from .activation import Activation
from .call_report import CAPTURED
from .declaration import Declaration
from .journal import CallJournal, Journal
from .places import Place, again, key_at
from .prose import prose_note
from .recall import CUT, Recall
from .replay import Found, Replay
from .returning import child_outcome

__all__ = ["Answer", "Calling"]


@attrs.frozen
class Answer:
    """How a call ended, and its agent's log, folded; `None` when there was none."""

    outcome: Outcome[Any]
    session: Session | None = None


class Calling:
    """Makes the calls of one run.

    Args:
        recall: what the run asked before, and whether it is being interrupted.
        journal: of the run.
        replay: of the run.
        source: the digest of the script.
        given: the digest of the input.
    """

    def __init__(
        self, recall: Recall, journal: Journal, replay: Replay, source: str, given: str
    ) -> None:
        self.recall = recall
        self._journal = journal
        self._replay = replay
        self._source = source
        self._given = given
        self._starts: Counter[str] = Counter()
        self._named: dict[str, _Named] = {}

    async def call(self, declared: Declaration, place: Place, *, named: bool) -> Answer:
        """The answer of a call, replayed or made; its end is durable on return.

        Args:
            declared: what is called.
            place: where.
            named: whether the script named the call itself; the same name again gives
                the same answer.

        Raises:
            KeyConflictError: the name names another request.
            and what `Supervisor.call` raises.
        """
        if not named:
            return await self._call(declared, place, None)
        key = key_at(place, "", named=True)
        known = self._named.setdefault(key, _Named(declared.request("")))
        if known.request != declared.request(""):
            raise KeyConflictError(
                f"the key {place.steps[-1]!r} of this run already names another"
                " request: use a new key"
            )
        async with known.lock:
            if known.answer is None:
                known.answer = await self._call(declared, place, known)
            elif not known.told:
                await self._announce(known.answer.outcome)
            known.told = True
            return known.answer

    async def _call(
        self, declared: Declaration, place: Place, known: _Named | None
    ) -> Answer:
        """Replay a call or make it; what it came to is `known` before it is durable.

        So a caller who is cancelled in between, and calls again, gets that answer, as a
        run that is taken up again does, and no second agent (A-058).
        """
        named = known is not None
        found = await self._replay.look_up(declared, place, named)
        call = CallJournal.queue(
            self._journal, declared, place, fresh=found.reason, closes=found.closes
        )
        if found.outcome is not None:
            call.ended(found.outcome, found.session, replayed=found.replayed)
            if not found.replayed:
                await self._announce(found.outcome)
            return Answer(found.outcome, found.session)
        self._say_rerun(call, found)
        made = _Making(self, declared, place, call, named=named)
        try:
            answer = await made.answer()
        except BaseException as error:
            answer = Answer(made.outcome_of(error), made.session)
            call.ended(answer.outcome, answer.session)
            _keep(known, answer)
            raise
        call.ended(answer.outcome, answer.session)
        _keep(known, answer)
        if answer.outcome.cause in CUT:
            await self.recall.hold()
        await self._announce(answer.outcome)
        return answer

    def _say_rerun(self, call: CallJournal, found: Found) -> None:
        """Who allowed that uncertain effects may happen twice (A-188)."""
        if found.uncertain is not None:
            call.tell(
                "rerun-uncertain",
                f"it runs again although session {found.uncertain} may have had"
                f" effects: allowed by {self._replay.rerun}",
                by=self._replay.rerun,
                session=found.uncertain,
            )

    async def _announce(self, outcome: Outcome[Any]) -> None:
        """Wait until the end of a call is durable, before anybody is told.

        Where that fails, what the call itself came to is what comes out (A-160).
        """
        try:
            await self._journal.stored()
        except RametError:
            outcome.unwrap()
            raise

    async def next_key(self, key: str) -> str:
        """The key of the next agent at a place: one that nobody has used."""
        if key not in self._starts:
            self._starts[key] = await self._replay.starts(key)
        self._starts[key] += 1
        return again(key, self._starts[key])

    def identities(self, declared: Declaration, place: Place) -> str:
        """What a receipt says of the script, as canonical text."""
        return canonical_json(
            self._replay.identities(declared, place, self._source, self._given)
        )


class _Making:
    """One call that is being made: its agents, one after the other."""

    def __init__(
        self,
        calling: Calling,
        declared: Declaration,
        place: Place,
        call: CallJournal,
        *,
        named: bool,
    ) -> None:
        self._calling = calling
        self._recall = calling.recall
        self._declared = declared
        self._place = place
        self._call = call
        self._key = key_at(place, declared.request(place.phase), named=named)
        self._agent: Activation | None = None

    @property
    def session(self) -> Session | None:
        """The log of the last agent, folded; `None` when there was none."""
        return None if self._agent is None else self._agent.session

    def outcome_of(self, error: BaseException) -> Outcome[Any]:
        """What the journal says of a call that raised."""
        if self._agent is not None and self._agent.session.concluded is not None:
            return child_outcome(self._agent)
        if isinstance(error, Exception):
            code = f"{error.code}: " if isinstance(error, RametError) else ""
            detail = f"{code}{error}"
            return Outcome(status="failed", cause="unclassified", detail=detail)
        detail = "its caller was cancelled"
        return Outcome(status="cancelled", cause="cancelled", detail=detail)

    async def answer(self) -> Answer:
        """The answer of the first agent, or of a fresh one after a lost request."""
        declared = self._declared
        answer = await self._attempt(declared.limits)
        for attempt in range(2, declared.attempts + 1):
            left = self._time_left()
            if (left is not None and left <= 0) or not _may_retry(answer):
                break
            self._call.tell(
                "retry",
                f"a request was lost, so a fresh agent follows: attempt {attempt}",
                attempt=attempt,
                cause=answer.outcome.cause,
            )
            limits = declared.limits or Limits()
            answer = await self._attempt(limits.within(Limits(call_s=left)))
        if declared.contract.kind == "text" and answer.outcome.acceptance is not None:
            await self._note_prose(answer.outcome.session_id)
        if declared.report and answer.outcome.cause in CAPTURED:
            self._call.tell(
                "report-captured",
                f"the failure ({answer.outcome.cause}) is given to the script as text",
                cause=answer.outcome.cause,
            )
        return answer

    def _time_left(self) -> float | None:
        """What the last agent left of the time of the call, its queue not counted."""
        allowance = None if self._agent is None else self._agent.allowance
        return None if allowance is None else allowance.left

    async def _note_prose(self, session_id: str) -> None:
        """Note that a text call wrote much more than its final message (A-073)."""
        storage = self._recall.supervisor._runtime.storage
        text = prose_note(await storage.read(Reader.load, session_id))
        if text is not None:
            self._call.tell("longer-prose", text, session=session_id)

    async def _attempt(self, limits: Limits | None) -> Answer:
        """One agent from its start to its outcome."""
        declared = self._declared
        name = await self._calling.next_key(self._key)
        live = self._recall.supervisor._runtime.forest.live
        self._agent = None

        def begun(child: str, message: str) -> None:
            self._call.started(child, message, name)
            self._agent = live[child]

        sending = self._recall.supervisor._sending
        try:
            outcome = await sending.call(
                self._recall.root,
                declared.spec,
                declared.prompt,
                contract=declared.contract,
                limits=limits,
                key=name,
                own=True,
                identities=self._calling.identities(declared, self._place),
                begun=begun,
            )
        except DrainingError:
            await self._recall.hold()
            raise
        except OutcomeError as error:
            # A limit refused the start: so ends a call that never ran.
            return Answer(error.outcome)
        return Answer(outcome, self.session)


def _may_retry(answer: Answer) -> bool:
    """Whether nothing can have happened but a request that was lost (A-139)."""
    session = answer.session
    return (
        answer.outcome.cause == "request-timeout"
        and session is not None
        and not session.usage.tool_calls
        and not session.submissions
    )


def _keep(known: _Named | None, answer: Answer) -> None:
    """A call that completed has its answer; one that was cut off may be made again."""
    if known is not None and answer.outcome.status == "completed":
        known.answer = answer


class _Named:
    """A call that the script named itself: what it asks, and its only answer.

    `told` is whether the answer is durable.
    """

    def __init__(self, request: str) -> None:
        self.request = request
        self.lock = anyio.Lock()
        self.answer: Answer | None = None
        self.told = False
