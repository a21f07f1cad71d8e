"""Every error has a class, a stable code and a text, and survives pickling."""

from __future__ import annotations

import pytest

from ramet.mailbox import errors
from ramet.mailbox.errors import ParkedError, RametError, RemoteCause, SendUnknownError
from tests.errors import errors_of, pickled

CODES = {
    "RametError": "RAMET",
    "UsageError": "USAGE",
    "InvalidArgumentsError": "INVALID_ARGS",
    "UnauthorizedError": "UNAUTHORIZED",
    "ActivationClosingError": "ACTIVATION_CLOSING",
    "DrainingError": "DRAINING",
    "ParentUnavailableError": "PARENT_UNAVAILABLE",
    "NotResidentError": "NOT_RESIDENT",
    "NotResumableError": "NOT_RESUMABLE",
    "SessionHeldError": "SESSION_HELD",
    "StoreInUseError": "STORE_IN_USE",
    "DepthExceededError": "DEPTH_EXCEEDED",
    "InboxFullError": "INBOX_FULL",
    "KeyConflictError": "KEY_CONFLICT",
    "UnknownMessageError": "UNKNOWN_MESSAGE",
    "SelfWaitError": "SELF_WAIT",
    "ParkedError": "PARKED",
    "SendUnknownError": "SEND_UNKNOWN",
    "PersistenceUnavailableError": "PERSISTENCE_UNAVAILABLE",
    "IllegalEventError": "ILLEGAL_EVENT",
    "CorruptLogError": "CORRUPT_LOG",
    "UnsupportedLogError": "UNSUPPORTED_LOG",
}


def test_the_codes_are_those_of_the_table_and_each_class_has_its_own() -> None:
    assert {cls.__name__: cls.code for cls in errors_of(errors)} == CODES
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.case("R-218")
@pytest.mark.parametrize("cls", errors_of(errors), ids=lambda cls: cls.__name__)
def test_an_error_is_pickled_with_class_code_text_and_the_text_of_its_cause(
    cls: type[RametError],
) -> None:
    pickled(cls("what to do"))
    assert cls.__doc__


@pytest.mark.case("R-218")
def test_what_an_error_carries_is_pickled_with_it() -> None:
    unknown = SendUnknownError("it may have happened")
    unknown.key = "k"
    back = pickled(unknown)
    assert isinstance(back, SendUnknownError)
    assert back.key == "k"
    parked = ParkedError("c is parked")
    parked.session_id = "c"
    again = pickled(parked)
    assert isinstance(again, ParkedError)
    assert again.session_id == "c"


@pytest.mark.case("R-218")
def test_a_cause_that_came_back_is_a_remote_cause_and_no_error_of_ramet() -> None:
    back = pickled(RametError("x"))
    assert type(back.__cause__) is RemoteCause
    assert str(back.__cause__) == "OSError: [Errno 28] disk full"
