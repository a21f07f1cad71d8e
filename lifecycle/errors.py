"""What can go wrong with lives: set-ups, releases and teardowns.

Lives here: the errors that only a supervisor, or the flow of a script, can raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..mailbox.errors import RametError, portable

__all__ = [
    "GroupFailureError",
    "SetupReleaseError",
    "SetupRevokedError",
    "TeardownError",
]


class SetupRevokedError(RametError):
    """Raised by a start or resume when a contribution was revoked in that time."""

    code = "ACTIVATION_SETUP_REVOKED"


class _GroupError(RametError, ExceptionGroup[Exception]):
    """A group that is also a `RametError`: every branch was attempted."""

    def derive(self, excs: Sequence[Any], /) -> Any:
        """Keep the class when a group is split."""
        return type(self)(self.message, excs)

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (cls, args, attributes, causes) = super().__reduce__()
        args = args[0], [portable(error) for error in self.exceptions]
        return rebuild, (cls, args, attributes, causes)


class SetupReleaseError(_GroupError):
    """Raised by `revoke()` when releases failed; the revocation holds."""

    code = "ACTIVATION_SETUP_RELEASE_FAILED"


class TeardownError(_GroupError):
    """Raised by a cancel or a drain when branches failed; the agents are gone."""

    code = "ACTIVATION_TEARDOWN_FAILED"


class GroupFailureError(_GroupError):
    """Raised by `Flow.parallel` when members failed, after all have settled.

    `exceptions` are the failures; `settled` says of each member how it ended, in their
    order.
    """

    code = "group-failure"
    settled: tuple[Any, ...] = ()
