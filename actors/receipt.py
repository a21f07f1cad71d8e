"""The receipt: the stored proof of an accepted value.

Lives here: what a receipt holds (A-123), as canonical text.  It names the contract, the
value and its digest, every submission with its verdict, what was spent, and whose value
it is.  It is written once, with the outcome, and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..mailbox.canonical import (
    canonical_json,
    canonical_object,
    digest_text,
    plain_json,
)
from ..mailbox.events import LimitsRecord
from ..mailbox.message import Usage
from ..mailbox.session import Returned
from .budget import AXES
from .contract import contract_text
from .submission import Accept
from .verdict import Contract

__all__ = ["receipt_of"]


def receipt_of(
    contract: Contract[Any],
    accepted: Accept,
    submissions: Sequence[Returned],
    *,
    session: str,
    message: str,
    limits: LimitsRecord,
    usage: Usage,
) -> str:
    """The canonical text of a receipt.

    Args:
        contract: what had to be returned.
        accepted: the decision that accepts.
        submissions: every submission of the assignment, in order.
        session: the agent's session.
        message: the message that opened the assignment.
        limits: the limits in force.
        usage: what was spent, of the subtree.
    """
    value = accepted.value
    spent = {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tool_calls": usage.tool_calls,
    }
    return canonical_object(
        {
            "version": "1",
            "contract": contract_text(contract),
            "contract_digest": plain_json(contract.digest),
            "source": plain_json(accepted.source),
            "attempts": str(accepted.attempts),
            "duplicates": str(accepted.duplicates),
            "empty": plain_json(accepted.empty),
            "value": "null" if value is None else value,
            "value_digest": plain_json(None if value is None else digest_text(value)),
            "submissions": plain_json([_shown(one) for one in submissions]),
            "limits": _limits_text(*[getattr(limits, axis) for axis in AXES]),
            "usage": plain_json(spent),
            "session": plain_json(session),
            "message": plain_json(message),
        }
    )


def _shown(one: Returned) -> dict[str, Any]:
    return {
        "turn": one.turn,
        "step": one.step,
        "place": one.event.place,
        "call_id": one.call_id,
        "raw": one.raw,
        "verdict": one.event.verdict,
        "errors": list(one.event.errors),
    }


@lru_cache(maxsize=256)
def _limits_text(*values: float | None) -> str:
    return canonical_json(dict(zip(AXES, values, strict=True)))
