"""What can go wrong with one agent at work: declarations and outcomes.

Lives here: the errors of a wrong declaration, those that `Outcome.unwrap()` raises, and
those by which a model port says what happened to a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..mailbox.errors import RametError, portable
from ..mailbox.message import Usage

if TYPE_CHECKING:
    from .outcome import Outcome

__all__ = [
    "AgentBlockedError",
    "AgentCancelledError",
    "AgentFailedError",
    "AgentStoppedError",
    "ContextOverflowError",
    "DeclarationError",
    "ModelError",
    "OutcomeError",
    "RequestTimeoutError",
    "UnsupportedSchemaError",
]


class DeclarationError(RametError):
    """Raised when what a caller declares is wrong, before anything happens.

    `code` is `bad-option`, `blank-prompt`, `slot-conflict` or `unsupported-schema`.
    """

    code: str = "bad-option"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UnsupportedSchemaError(DeclarationError):
    """Raised when a schema is outside the dialect; its text names the path."""

    code = "unsupported-schema"

    path: str

    def __init__(self, path: str) -> None:
        super().__init__(f"unsupported-schema at {path}")
        self.path = path


class OutcomeError(RametError):
    """The root of what `Outcome.unwrap()` raises; `code` is the outcome's cause."""

    code: str
    outcome: Outcome[Any]

    def __init__(self, message: str, outcome: Outcome[Any] | None = None) -> None:
        super().__init__(message)
        if outcome is not None:
            self.outcome = outcome
            self.code = outcome.cause or outcome.status

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (cls, args, attributes, causes) = super().__reduce__()
        outcome = attributes.get("outcome")
        if outcome is not None and outcome.error is not None:
            attributes["outcome"] = attrs.evolve(outcome, error=portable(outcome.error))
        return rebuild, (cls, args, attributes, causes)


class AgentFailedError(OutcomeError):
    """Raised by `unwrap()` when execution ended and there is no acceptable result."""


class AgentCancelledError(OutcomeError):
    """Raised by `unwrap()` when somebody ended the agent."""


class AgentStoppedError(OutcomeError):
    """Raised by `unwrap()` when an axis of the limits was spent, and by a start that a
    limit refuses."""


class AgentBlockedError(OutcomeError):
    """Raised by `unwrap()` when a capability or a policy refused the call."""


class ModelError(RametError):
    """Raised by a model port when a request failed; `code` says how.

    The message holds no key and no address of a provider.

    Args:
        message: what happened, for a person.
        usage: what the failed request cost, where the provider said so (law 21).
    """

    code = "provider-error"

    usage: Usage | None = None

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage


class RequestTimeoutError(ModelError):
    """Raised by a model port when its own limit on one request passed."""

    code = "request-timeout"


class ContextOverflowError(ModelError):
    """Raised by a model port when the request is too long for the model."""

    code = "context-overflow"
