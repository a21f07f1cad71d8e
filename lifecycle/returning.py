"""Returning agents: what the contract and the ledger mean for a life.

Lives here: how the decisions of a ledger become the end of a turn and the one outcome
of an assignment, and what a returning agent is told about how to return.  Pure: it
looks at an activation and gives data; the driver does the rest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs

from ..actors.contract import contract_from_text
from ..actors.ledger import Ledger
from ..actors.outcome import Outcome, TreeUsage
from ..actors.receipt import receipt_of
from ..actors.render import render, view
from ..actors.submission import Accept, Continue, Decision, Fail, Nudge
from ..actors.tool import Tool, ToolCall
from ..actors.turn import COMPLETED, Finish
from ..actors.verdict import Contract
from ..mailbox.canonical import read_canonical
from ..mailbox.events import Concluded, Created
from .activation import Activation
from .allowance import Refusal
from .readers import outcome_from

__all__ = [
    "child_outcome",
    "child_view",
    "concluded_by",
    "contract_of",
    "finished_by",
    "instructions_of",
    "line_of",
    "reply_tool",
    "shown",
    "stopped_by",
]

_HOW = """You were asked for one result; you end by returning it with the tool reply.
Text that you write without it reaches nobody."""


def contract_of(header: Created) -> Contract[Any] | None:
    """The contract of a stored session, or `None` for an agent that converses."""
    if header.contract is None:
        return None
    return contract_from_text(header.contract)


def reply_tool(ledger: Ledger | None) -> Tool | None:
    """The tool by which an agent returns, or `None` (A-001, A-005)."""
    if ledger is None or not ledger.contract.has_tool:
        return None
    return _reply_tool(ledger.contract)


@lru_cache(maxsize=256)
def _reply_tool(contract: Contract[Any]) -> Tool:
    return Tool(
        "reply",
        "Return your result. It ends your assignment.",
        contract.parameters(),
        _never_runs,
    )


def _never_runs(arguments: dict[str, Any], call: ToolCall) -> None:
    raise AssertionError("a return is judged by the ledger and never runs")


@lru_cache(maxsize=256)
def _return_text(contract: Contract[Any]) -> str:
    lines = "\n".join(contract.shown())
    return f"{_HOW}\nCall it with exactly this argument object:\n{lines}"


def instructions_of(activation: Activation) -> str:
    """The system text of every request of an activation (A-009).

    An agent that was given no assignment yet has nothing to return.
    """
    ledger = activation.ledger if activation.session.assignment is not None else None
    texts = activation.installation.texts
    own = activation.bound.instructions
    returns = ledger is not None and ledger.contract.has_tool
    if not texts and not returns:
        return own
    parts = [own] if own else []
    parts.extend(texts)
    if ledger is not None and returns:
        parts.append(_return_text(ledger.contract))
    return "\n\n".join(parts)


def finished_by(activation: Activation, decision: Decision, now: int) -> Finish | None:
    """How a turn ends by a decision of the ledger; `None`: it goes on."""
    if isinstance(decision, Accept):
        return Finish("completed", conclusion=_accepted(activation, decision, now))
    if isinstance(decision, Continue):
        return None
    if isinstance(decision, Nudge):
        return Finish("completed", nudge=decision.text)
    if isinstance(decision, Fail):
        finish = Finish("failed", decision.cause, decision.detail)
        return concluded_by(activation, finish, now)
    return COMPLETED


def _accepted(activation: Activation, decision: Accept, now: int) -> Concluded:
    session = activation.session
    ledger = activation.ledger
    assert ledger is not None
    assert session.assignment is not None
    receipt = receipt_of(
        ledger.contract,
        decision,
        session.submissions,
        session=activation.id,
        message=session.assignment,
        limits=session.header.spec.limits,
        usage=activation.usage,
        script=activation.identities,
    )
    return Concluded(
        session.assignment,
        "completed",
        "empty" if decision.empty else None,
        now,
        decision.value,
        receipt=receipt,
    )


def concluded_by(activation: Activation, finish: Finish, now: int) -> Finish:
    """The end of a turn with which a returning agent's assignment ends too."""
    session = activation.session
    if activation.ledger is None or session.assignment is None:
        return finish
    conclusion = Concluded(
        session.assignment, finish.status, finish.cause, now, detail=finish.detail
    )
    return attrs.evolve(finish, conclusion=conclusion)


def stopped_by(activation: Activation, refusal: Refusal, now: int) -> Finish:
    """A limit stopped the turn, and names its axis (A-044)."""
    finish = Finish("stopped", refusal.cause, str(refusal))
    finish = concluded_by(activation, finish, now)
    if finish.conclusion is None:
        return finish
    named = attrs.evolve(finish.conclusion, axis=refusal.axis)
    return attrs.evolve(finish, conclusion=named)


def child_outcome(activation: Activation) -> Outcome[Any]:
    """The outcome of a returning agent that is gone, with its value as code gets it."""
    session = activation.session
    concluded = session.concluded
    usage = TreeUsage(session.usage, activation.usage)
    if concluded is None:
        return Outcome(
            status="cancelled",
            cause="cancelled",
            usage=usage,
            message_id=session.assignment or "",
            session_id=activation.id,
        )
    ledger = activation.ledger
    if ledger is None:
        return outcome_from(concluded, session.header, usage)
    return outcome_from(concluded, session.header, usage, ledger.contract, ledger.taken)


def child_view(activation: Activation, cap: int | None) -> str:
    """What a parent's model reads of a returning child that is gone (A-190)."""
    outcome = outcome_without_value(activation)
    concluded = activation.session.concluded
    if concluded is None or outcome.acceptance is None:
        return line_of(outcome)
    if concluded.cause == "empty" or concluded.value is None:
        return _empty_line(concluded.message)
    return view(render(read_canonical(concluded.value)), cap, concluded.message)


def outcome_without_value(activation: Activation) -> Outcome[Any]:
    """The outcome of a returning agent, for those who do not need its value."""
    session = activation.session
    usage = TreeUsage(session.usage, activation.usage)
    if session.concluded is None:
        return child_outcome(activation)
    return outcome_from(session.concluded, session.header, usage)


def shown(outcome: Outcome[Any], cap: int | None) -> str:
    """The view of an outcome of a reply contract, or one line (A-053, A-181)."""
    if outcome.acceptance is None:
        return line_of(outcome)
    if outcome.cause == "empty":
        return _empty_line(outcome.message_id)
    return view(render(outcome.value), cap, outcome.message_id)


def line_of(outcome: Outcome[Any]) -> str:
    """What a parent's model reads of an outcome without a value (A-181).

    Why a child failed may hold its own words, so that is left to its log.
    """
    if outcome.status == "failed":
        outcome = attrs.evolve(outcome, detail=None)
    return str(outcome)


def _empty_line(message_id: str) -> str:
    return f"completed without a value; assignment {message_id}"
