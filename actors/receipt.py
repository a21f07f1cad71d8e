"""The receipt: the stored proof of an accepted value.

Lives here: what a receipt holds (A-123), as canonical text.  It names the contract, the
value and its digest, every submission with its verdict, what was spent, and whose value
it is.  It is written once, with the outcome, and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from ..mailbox.canonical import canonical_json, digest_text, quoted
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
    script: str | None = None,
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
        script: the identities of a script's call, as canonical text; `None`: it is
            none.
    """
    value = accepted.value
    shown = ",".join([_shown(one) for one in submissions])
    digest = "null" if value is None else f'"{digest_text(value)}"'
    identities = "" if script is None else f',"script":{script}'
    # The members in canonical order.
    return (
        f'{{"attempts":{accepted.attempts}'
        f',"contract":{contract_text(contract)}'
        f',"contract_digest":"{contract.digest}"'
        f',"duplicates":{accepted.duplicates}'
        f',"empty":{"true" if accepted.empty else "false"}'
        f',"limits":{_limits_text(_axes(limits))}'
        f',"message":{quoted(message)}'
        f"{identities}"
        f',"session":{quoted(session)}'
        f',"source":"{accepted.source}"'
        f',"submissions":[{shown}]'
        f',"usage":{_spent(usage)}'
        f',"value":{"null" if value is None else value}'
        f',"value_digest":{digest}'
        f',"version":1}}'
    )


def _shown(one: Returned) -> str:
    event = one.event
    raw = "null" if one.raw is None else quoted(one.raw)
    return (
        f'{{"call_id":{quoted(one.call_id)}'
        f',"errors":[{",".join(map(quoted, event.errors))}]'
        f',"place":{event.place},"raw":{raw},"step":{one.step},"turn":{one.turn}'
        f',"verdict":"{event.verdict}"}}'
    )


def _spent(usage: Usage) -> str:
    read, written = usage.input_tokens, usage.output_tokens
    return (
        f'{{"input_tokens":{"null" if read is None else read}'
        f',"output_tokens":{"null" if written is None else written}'
        f',"requests":{usage.requests},"tool_calls":{usage.tool_calls}}}'
    )


_axes = attrgetter(*AXES)


@lru_cache(maxsize=256)
def _limits_text(values: tuple[float | None, ...]) -> str:
    return canonical_json(dict(zip(AXES, values, strict=True)))
