"""What can go wrong between agents and their store, one class for each fault.

Lives here: the root of all errors and those of sending, keys, lineage and storage.
The class says whose fault it is; `code` is stable and is what other programs compare
(`docs/errors.md` has the table).  Nothing here knows an agent or a supervisor.
"""

from __future__ import annotations

import pickle
from typing import Any

__all__ = [
    "ActivationClosingError",
    "CorruptLogError",
    "DepthExceededError",
    "DrainingError",
    "IllegalEventError",
    "InboxFullError",
    "InvalidArgumentsError",
    "KeyConflictError",
    "NotResidentError",
    "NotResumableError",
    "ParentUnavailableError",
    "ParkedError",
    "PersistenceUnavailableError",
    "RametError",
    "SelfWaitError",
    "SendUnknownError",
    "SessionHeldError",
    "StoreInUseError",
    "UnauthorizedError",
    "UnknownMessageError",
    "UnsupportedLogError",
    "UsageError",
    "portable",
]


class RametError(Exception):
    """The root of every error of ramet; it is never raised itself.

    `code` is stable.  An error can be pickled: class, code, text, attributes and the
    texts of its causes survive (a cause becomes a `RemoteCause`).
    """

    code: str = "RAMET"

    def __reduce__(self) -> tuple[Any, ...]:
        causes = _texts(self.__cause__)
        return _rebuild, (type(self), self.args, dict(self.__dict__), causes)


class RemoteCause(Exception):
    """Stands for an error that cannot be pickled as it is: its class name and text."""


def portable(error: BaseException) -> BaseException:
    """An error as it is if it survives pickling, else a `RemoteCause` of its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RemoteCause(_text(error))
    return error


def _text(error: BaseException) -> str:
    said = str(error)
    return said if type(error) is RemoteCause else f"{type(error).__name__}: {said}"


def _texts(cause: BaseException | None) -> tuple[str, ...]:
    """The texts of a chain of causes, the nearest first; a ring is cut."""
    seen: dict[BaseException, None] = {}
    while cause is not None and cause not in seen:
        seen[cause] = None
        cause = cause.__cause__
    return tuple(map(_text, seen))


def _rebuild(
    cls: type[RametError],
    args: tuple[Any, ...],
    attributes: dict[str, Any],
    causes: tuple[str, ...],
) -> RametError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    above: BaseException = error
    for text in causes:
        above.__cause__ = RemoteCause(text)
        above = above.__cause__
    return error


class UsageError(RametError):
    """Raised by any operation when an argument is outside its contract."""

    code = "USAGE"


class InvalidArgumentsError(RametError):
    """Raised when raw arguments of a tool call are not strict JSON or do not fit."""

    code = "INVALID_ARGS"


class UnauthorizedError(RametError):
    """Raised when the caller is not the exact live agent that the operation needs."""

    code = "UNAUTHORIZED"


class ActivationClosingError(RametError):
    """Raised when the caller's own activation is closing, not because of a drain."""

    code = "ACTIVATION_CLOSING"


class DrainingError(RametError):
    """Raised when a drain covers the caller's lineage or the whole supervisor."""

    code = "DRAINING"


class ParentUnavailableError(RametError):
    """Raised by a report when the direct parent is closing or gone."""

    code = "PARENT_UNAVAILABLE"


class NotResidentError(RametError):
    """Raised by `inject` when the child is not resident; `followup` resumes it."""

    code = "NOT_RESIDENT"


class NotResumableError(RametError):
    """Raised when an id names no session that can be continued."""

    code = "NOT_RESUMABLE"


class SessionHeldError(RametError):
    """Raised by `resume` when another activation, anywhere, holds the session."""

    code = "SESSION_HELD"


class StoreInUseError(RametError):
    """Raised by `open` when another process writes to the same embedded store."""

    code = "STORE_IN_USE"


class DepthExceededError(RametError):
    """Raised by a start when the child would be deeper than `max_depth`."""

    code = "DEPTH_EXCEEDED"


class InboxFullError(RametError):
    """Raised by a send when a declared limit of the recipient's inbox is reached."""

    code = "INBOX_FULL"


class KeyConflictError(RametError):
    """Raised when a key of this sender comes back with another content or recipient."""

    code = "KEY_CONFLICT"


class UnknownMessageError(RametError):
    """Raised when a status or an outcome is asked for an id that no log holds."""

    code = "UNKNOWN_MESSAGE"


class SelfWaitError(RametError):
    """Raised when code in an agent's own turn waits for that agent's rest or end."""

    code = "SELF_WAIT"


class ParkedError(RametError):
    """Raised by `wait` when the assignment waits in a session that is not resident.

    An interrupt parked it there, a drain kept it, or a crash cut the session off.
    """

    code = "PARKED"

    session_id: str


class SendUnknownError(RametError):
    """Raised by a send when its commit failed; `lookup(sender, key)` settles it."""

    code = "SEND_UNKNOWN"

    key: str
    """The key that names the send, also when the caller gave none."""


class PersistenceUnavailableError(RametError):
    """Raised after a commit failed, and when the store cannot be reached."""

    code = "PERSISTENCE_UNAVAILABLE"


class IllegalEventError(RametError):
    """Raised by a machine when its state does not allow an event; a bug of ours."""

    code = "ILLEGAL_EVENT"


class CorruptLogError(RametError):
    """Raised when a stored event cannot be read: not JSON, or of a wrong shape."""

    code = "CORRUPT_LOG"


class UnsupportedLogError(RametError):
    """Raised when a stored event is of a kind or version unknown to this release."""

    code = "UNSUPPORTED_LOG"
