"""The proof: whether what a log holds still proves the value that was accepted.

Lives here: the verification of a stored receipt against the log that it belongs to and
the contract that is in force now (A-127, A-166, A-168).  The same functions that judged
at dispatch judge here.  It knows no store and repairs nothing.
"""

from __future__ import annotations

import json
from typing import Any

from ..mailbox.canonical import canonical_json, digest_text, read_canonical
from ..mailbox.errors import CorruptLogError, UsageError
from ..mailbox.events import Concluded
from ..mailbox.message import AssistantMessage, Usage
from ..mailbox.session import Session
from .contract import contract_from_record
from .ledger import Ledger
from .receipt import receipt_of
from .submission import Accept
from .verdict import Contract

__all__ = ["receipt_fault"]

_ONLY_STORED = frozenset(("contract", "usage", "script"))
"""Fields that cannot be made again from the log; each has a check of its own."""


def receipt_fault(
    session: Session,
    contract: Contract[Any],
    *,
    digest: str | None = None,
    script: dict[str, Any] | None = None,
) -> str | None:
    """Say why a receipt does not prove its value; `None` when it does.

    Args:
        session: the returning agent's log, folded.
        contract: what must be returned now.
        digest: that of the receipt, as another log has it; `None` where none has.
        script: the identities that it must hold of a script; `None`: not compared.
    """
    concluded = session.concluded
    if concluded is None or concluded.receipt is None:
        return "there is no receipt"
    if digest is not None and digest_text(concluded.receipt) != digest:
        return "the receipt is not the one that the journal names"
    try:
        receipt = read_canonical(concluded.receipt)
    except UsageError as error:
        return f"the receipt cannot be read: {error}"
    if type(receipt) is not dict:
        return "the receipt is no object"
    return (
        _contract_fault(session, contract, receipt)
        or _identity_fault(receipt, script)
        or _sequence_fault(session)
        or _value_fault(concluded, contract, receipt)
        or _recount_fault(session, concluded, contract, receipt)
        or _usage_fault(session, receipt)
    )


def _contract_fault(
    session: Session, contract: Contract[Any], receipt: dict[str, Any]
) -> str | None:
    record = receipt.get("contract")
    try:
        stored = contract_from_record(record if type(record) is dict else {})
    except CorruptLogError as error:
        return f"its contract cannot be read: {error}"
    if canonical_json(record) != session.header.contract:
        return "its contract is not that of the session"
    if stored.digest != contract.digest:
        return "its contract is not the one that is in force"
    return None


def _usage_fault(session: Session, receipt: dict[str, Any]) -> str | None:
    usage = receipt.get("usage")
    names = {"requests", "input_tokens", "output_tokens", "tool_calls"}
    if type(usage) is not dict or set(usage) != names:
        return "its usage is not of its form"
    for name in names:
        spent, own = usage[name], getattr(session.usage, name)
        if spent is None and name.endswith("_tokens"):
            continue
        if type(spent) is not int or spent < (own or 0):
            return f"its usage of {name} is less than the log shows"
    return None


def _identity_fault(
    receipt: dict[str, Any], script: dict[str, Any] | None
) -> str | None:
    if script is None or receipt.get("script") == script:
        return None
    return "its identities are not those of the call"


def _sequence_fault(session: Session) -> str | None:
    """No place twice, and nothing asked after the acceptance (A-166)."""
    places = [
        (one.turn, one.step, one.event.place)
        for one in session.submissions
        if one.event.place >= 0
    ]
    if len(set(places)) < len(places):
        return "two submissions have one place"
    accepted = [one for one in session.submissions if one.event.verdict == "valid"]
    last = (session.turn, session.step)
    if accepted and (accepted[0].turn, accepted[0].step) != last:
        return "a request was made after the acceptance"
    return None


def _value_fault(
    concluded: Concluded, contract: Contract[Any], receipt: dict[str, Any]
) -> str | None:
    """The present function accepts the stored bytes (A-168)."""
    text = concluded.value
    if text is None:
        return None
    try:
        value = read_canonical(text)
        verdict = contract.judge_value(value)
    except UsageError as error:
        return f"its value cannot be read: {error}"
    if verdict.valid and verdict.canonical == text:
        return None
    reason = verdict.errors[0] if verdict.errors else "its text is spelled otherwise"
    return f"its value is not valid now: {reason}"


def _recount_fault(
    session: Session,
    concluded: Concluded,
    contract: Contract[Any],
    receipt: dict[str, Any],
) -> str | None:
    """The receipt that the log gives again is the one that is stored."""
    accept = _accepted(session, contract)
    if accept is None:
        return "its submissions do not lead to an acceptance"
    made = json.loads(
        receipt_of(
            contract,
            accept,
            session.submissions,
            session=session.header.session,
            message=session.assignment or "",
            limits=session.header.spec.limits,
            usage=Usage(),
        )
    )
    names = made.keys() | {name for name in receipt if name != "script"}
    for name in sorted(names - _ONLY_STORED):
        if name not in receipt or name not in made:
            return f"its field {name} is missing, or is none of a receipt's"
        if canonical_json(receipt[name]) != canonical_json(made[name]):
            return f"its {name} is not what the log gives"
    empty = concluded.cause == "empty"
    if accept.value != concluded.value or accept.empty is not empty:
        return "the value of the outcome is not the one that was accepted"
    return None


def _accepted(session: Session, contract: Contract[Any]) -> Accept | None:
    """The acceptance to which the submissions of a log lead."""
    ledger = Ledger(contract, nudges=len(session.submissions) + 1)
    for one in session.submissions:
        if one.raw is not None and one.event.verdict in ("valid", "duplicate"):
            judged = contract.judge(one.raw)
            if not judged.valid or judged.canonical != one.event.value:
                return None
        ledger.apply(one.event)
    decision: object = ledger.landed()
    if not contract.has_tool and not ledger.settled:
        texts = [
            one.text for one in session.transcript if isinstance(one, AssistantMessage)
        ]
        decision = ledger.turn_ended("end_turn", texts[-1] if texts else None)
    return decision if isinstance(decision, Accept) else None
