"""Every error has a class, a stable code and a text, and survives pickling."""

from __future__ import annotations

import pickle

import pytest

from ramet.mailbox import errors
from ramet.mailbox.errors import (
    ParkedError,
    RametError,
    RemoteCause,
    SendUnknownError,
    UsageError,
    portable,
)
from tests.errors import Stubborn, errors_of, pickled

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
    assert pickled(unknown).key == "k"
    parked = ParkedError("c is parked")
    parked.session_id = "c"
    parked.add_note("a note")
    back = pickled(parked)
    assert back.session_id == "c"
    assert back.__notes__ == ["a note"]


def test_a_ring_of_causes_is_cut() -> None:
    one, other = UsageError("one"), UsageError("other")
    one.__cause__, other.__cause__ = other, one
    back = pickle.loads(pickle.dumps(one))
    assert str(back.__cause__) == "UsageError: other"
    assert str(back.__cause__.__cause__) == "UsageError: one"
    assert back.__cause__.__cause__.__cause__ is None


def test_an_error_is_portable_as_it_is_or_as_its_text() -> None:
    good = ValueError("good")
    assert portable(good) is good
    stubborn = portable(Stubborn("a", "b"))
    assert type(stubborn) is RemoteCause
    assert str(stubborn) == "Stubborn: a b"
