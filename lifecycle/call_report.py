"""Reports of calls: a call of a script as an observation, in words.

Lives here: the text that a call with `result="report"` gives (A-131, A-132).  The text
of an accepted answer holds nothing that differs between a run and its replay (A-137).
Pure: it is given what happened and knows no run.
"""

from __future__ import annotations

from typing import Any

from ..actors.outcome import Outcome
from ..actors.render import render
from ..mailbox.canonical import read_canonical
from ..mailbox.message import AssistantMessage
from ..mailbox.session import Session

__all__ = ["CAPTURED", "report_of_answer", "report_of_failure"]

CAPTURED = frozenset(("provider-error", "empty-answer", "no-reply"))
"""The causes that a report-mode call turns into text; all others are raised."""

_SUMMARY = {
    "provider-error": "The model could not be reached or did not answer in full.",
    "empty-answer": "The agent's final message was blank.",
    "no-reply": "The agent ended without returning anything, also after reminders.",
}

_RECORDED = (
    "This records what the agent answered. Nobody has checked that the work was done"
    " or that the answer is right."
)


def report_of_answer(
    label: str | None, title: str | None, outcome: Outcome[Any], session: Session
) -> str:
    """The text for an accepted answer.

    Args:
        label: the label of the call, or `None`.
        title: its title, or `None`.
        outcome: how it ended.
        session: the agent's log, folded.
    """
    concluded = session.concluded
    text = None if concluded is None else concluded.value
    if outcome.cause == "empty" or text is None:
        answer = "(The agent returned that there is nothing to say.)"
    else:
        answer = render(read_canonical(text))
    lines = [*_heading(label, title), f"Status: {outcome.status}", _RECORDED]
    return "\n".join([*lines, "", "Answer:", answer])


def report_of_failure(
    label: str | None,
    title: str | None,
    outcome: Outcome[Any],
    session: Session | None,
) -> str:
    """The text for a failure of one of the captured causes.  No answer is made up.

    Args:
        label: the label of the call, or `None`.
        title: its title, or `None`.
        outcome: how it ended.
        session: the agent's log, folded; `None` when there is none.
    """
    cause = outcome.cause or outcome.status
    lines = [
        *_heading(label, title),
        f"Status: {outcome.status}",
        f"Cause: {cause}",
        f"Summary: {_SUMMARY.get(cause, 'The agent came to no answer.')}",
        "There is no accepted answer.",
        "",
        "Diagnostics:",
        *[f"- {line}" for line in _diagnostics(outcome, session)],
        "",
        f"Transcript: session {outcome.session_id};"
        f" `ramet log {outcome.session_id}` shows it",
    ]
    return "\n".join(lines)


def _heading(label: str | None, title: str | None) -> list[str]:
    lines = [] if label is None else [f"Label: {label}"]
    return lines if title is None else [*lines, f"Title: {title}"]


def _diagnostics(outcome: Outcome[Any], session: Session | None) -> list[str]:
    lines = [f"detail: {outcome.detail}"] if outcome.detail else []
    if session is None:
        return lines
    usage = session.usage
    lines.append(f"model requests: {usage.requests}")
    lines.append(f"tool calls: {usage.tool_calls}")
    spent = [
        one
        for one in session.submissions
        if one.event.verdict in ("invalid", "missing")
    ]
    lines.append(f"returns that were missing or not valid: {len(spent)}")
    if spent and spent[-1].event.errors:
        lines.append(f"the last of them: {spent[-1].event.errors[0]}")
    if any(isinstance(one, AssistantMessage) for one in session.transcript):
        lines.append("the agent wrote text, which is in its transcript and no answer")
    return lines
