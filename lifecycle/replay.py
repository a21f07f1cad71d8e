"""Replay: what a run that was taken up again need not ask a second time.

Lives here: the rules of section 19 of the list of acceptance, for one call and for a
group.  A call is looked up by its place; when it asks what it asked, and its receipt
proves its value, that value comes back.  What differs closes what follows it in its
lane.  What may have had effects and proves nothing fails closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from ..actors.contract import contract_text
from ..actors.outcome import Outcome, TreeUsage
from ..actors.proof import receipt_fault
from ..mailbox.errors import (
    CorruptLogError,
    IllegalEventError,
    KeyConflictError,
    UnsupportedLogError,
)
from ..mailbox.message import to_blocks
from ..mailbox.session import Session, fold
from ..mailbox.store import KeyRow, Reader
from .declaration import Declaration
from .places import Lane, Place, Places, Steps, again, key_at
from .readers import outcome_from
from .recorded import FOREVER, Recorded, RecordedCall

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["FRESH", "REFUSED", "Found", "Reason", "Replay"]

REFUSED = "replay-contract-failure"

Reason = Literal[
    "no-record",
    "key-mismatch",
    "return-contract-changed",
    "recorded-failure",
    "recorded-sequence-invalid",
    "diverged",
]
"""Why a call of a run that was taken up again runs fresh (A-165)."""

_MOST_ATTEMPTS = 20


@attrs.frozen
class Found:
    """What the record says of a call.

    Attributes:
        outcome: what the call comes to without an agent; `None`: it runs fresh.
        session: the log that proves it.
        reason: why it runs fresh; `None` in a run that was not taken up.
        closes: a lane, and after which event of it nothing recorded counts.
        uncertain: the session of the agent whose effects are uncertain, where the rerun
            was allowed.
    """

    outcome: Outcome[Any] | None = None
    session: Session | None = None
    reason: Reason | None = None
    closes: tuple[Steps, int] | None = None
    uncertain: str | None = None

    @property
    def replayed(self) -> bool:
        """Whether the recorded value came back."""
        return self.outcome is not None and self.outcome.status == "completed"


FRESH = Found()
"""A call of a run that was not taken up."""


class Replay:
    """Looks calls up in the record of one run.

    Args:
        supervisor: the running supervisor.
        run: the session of the root.
        places: of the script that runs now.
        recorded: what was recorded; `None` in a fresh run.
        rerun: who allowed that calls with uncertain effects run again, or `None`.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        run: str,
        places: Places,
        recorded: Recorded | None,
        rerun: str | None,
    ) -> None:
        self._runtime = supervisor._runtime
        self._run = run
        self._places = places
        self._recorded = recorded
        self._differed: set[Steps] = set()
        self.rerun = rerun

    # -- one call ----------------------------------------------------------------------

    async def look_up(self, declared: Declaration, place: Place, named: bool) -> Found:
        """What the record says of a call (A-163 to A-170).

        Raises:
            KeyConflictError: the script's own name of it names another request.
        """
        recorded = self._recorded
        if recorded is None:
            return FRESH
        if self._places.diverged or place.steps in recorded.void:
            return self._fresh(place, "diverged", FOREVER)
        call = recorded.calls.get(place.steps)
        if call is None and recorded.early:
            call = await self._early(declared, place, named)
        if call is None:
            stood = recorded.stood_at(place.lane, place.ordinal)
            reason: Reason = "no-record" if stood is None else "key-mismatch"
            return self._fresh(place, reason, FOREVER)
        differs = _difference(call, declared, place)
        if differs is not None:
            if named and differs != "recorded-sequence-invalid":
                raise KeyConflictError(
                    f"the key {place.steps[-1]!r} of this run already names another"
                    " request: use a new key"
                )
            return self._fresh(place, differs, call.ended)
        return await self._judged(declared, place, call)

    async def _judged(
        self, declared: Declaration, place: Place, call: RecordedCall
    ) -> Found:
        """What the agent of a call with the same key came to."""
        if call.session is None:
            return self._fresh(place, "recorded-failure", call.ended)
        try:
            session = fold(await self._load(call.session))
        except (CorruptLogError, UnsupportedLogError, IllegalEventError) as error:
            return self._refused(place, call, f"its log cannot be read: {error}")
        concluded = session.concluded
        if concluded is not None and concluded.status == "completed":
            fault = receipt_fault(
                session,
                declared.contract,
                digest=call.receipt,
                script=self._identities(declared, place, call),
            )
            if fault is not None:
                return self._refused(place, call, fault)
            header = session.header
            outcome = outcome_from(concluded, header, TreeUsage(), declared.contract)
            return Found(outcome, session)
        if declared.contract.kind != "schema" or not session.usage.tool_calls:
            return self._fresh(place, "recorded-failure", call.ended)
        if self.rerun is None:
            text = (
                "it has no receipt, and its agent had used tools, so that to run it"
                " again may do twice what they did: --rerun-uncertain allows that"
            )
            return self._refused(place, call, text)
        found = self._fresh(place, "recorded-failure", call.ended)
        return attrs.evolve(found, uncertain=call.session)

    def _identities(
        self, declared: Declaration, place: Place, call: RecordedCall
    ) -> dict[str, Any] | None:
        """What its receipt must say of the script; those of 0.1.0 say nothing."""
        if not call.source:
            return None
        return self.identities(declared, place, call.source, call.input)

    def identities(
        self, declared: Declaration, place: Place, source: str, given: str
    ) -> dict[str, Any]:
        """The identities of a call, as its receipt holds them (A-123).

        Args:
            declared: what is called.
            place: where.
            source: the digest of the script.
            given: the digest of the input.
        """
        return {
            "run": self._run,
            "place": list(place.steps),
            "request": declared.request(place.phase),
            "source": source,
            "input": given,
        }

    def _fresh(self, place: Place, reason: Reason, after: int) -> Found:
        """A call runs fresh, and closes what follows it."""
        return Found(reason=reason, closes=self._close(place.lane, after))

    def _refused(self, place: Place, call: RecordedCall, why: str) -> Found:
        """A call fails closed: neither its record nor a fresh agent answers (A-167)."""
        outcome: Outcome[Any] = Outcome(
            status="failed",
            cause=REFUSED,
            session_id=call.session or "",
            detail=f"the recorded call cannot be replayed: {why}",
        )
        return Found(outcome, closes=self._close(place.lane, call.ended))

    def _close(self, lane: Steps, after: int) -> tuple[Steps, int] | None:
        assert self._recorded is not None
        self._places.diverge()
        self._differed.add(lane)
        if after == FOREVER:
            return None
        self._recorded.close(lane, after)
        return lane, after

    # -- groups ------------------------------------------------------------------------

    def group_ended(
        self, steps: Steps, members: list[Lane]
    ) -> tuple[Steps, int] | None:
        """What follows a group is closed when one of its members differed (A-172).

        Gives the lane that is closed, and after which of its events.
        """
        recorded = self._recorded
        if recorded is None:
            return None
        own = [lane.steps for lane in members]
        size = recorded.sizes.get(steps, len(members))
        if size == len(members) and not any(
            lane[: len(one)] == one for lane in self._differed for one in own
        ):
            return None
        after = recorded.groups.get(steps, FOREVER)
        return self._close(self._places.lane.sequence, after)

    # -- runs of 0.1.0 -----------------------------------------------------------------

    async def _early(
        self, declared: Declaration, place: Place, named: bool
    ) -> RecordedCall | None:
        """A call of a run that 0.1.0 began: only its key tells of it."""
        key = key_at(place, declared.first_request, named=named)
        row: KeyRow | None = None
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            found = await self._find(again(key, attempt))
            if found is None:
                break
            row = found
        if row is None:
            return None
        digest = self._runtime.forest.digest(
            "prompt",
            to_blocks(declared.prompt),
            f"oneshot {declared.spec.name} {contract_text(declared.contract)}",
        )
        asked = declared.asked(place.phase) if row.digest == digest else ""
        return RecordedCall(
            place.steps,
            place.lane,
            place.ordinal,
            asked,
            declared.contract.digest,
            0,
            session=row.session,
        )

    async def starts(self, key: str) -> int:
        """How many agents were started under a key in earlier processes."""
        recorded = self._recorded
        if recorded is None:
            return 0
        count = recorded.starts.get(key, 0)
        if recorded.early:
            while await self._find(again(key, count + 1)) is not None:
                count += 1
        return count

    async def _find(self, key: str) -> KeyRow | None:
        return await self._runtime.storage.read(Reader.find, self._run, key)

    async def _load(self, session: str) -> list[Any]:
        return await self._runtime.storage.read(Reader.load, session)


def _difference(
    call: RecordedCall, declared: Declaration, place: Place
) -> Reason | None:
    """Why a record is not of this call, if it is not."""
    if not call.valid:
        return "recorded-sequence-invalid"
    if call.asked != declared.asked(place.phase):
        return "key-mismatch"
    if call.contract != declared.contract.digest:
        return "return-contract-changed"
    return None
