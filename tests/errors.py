"""What every error of ramet must hold to, for the tests of the rooms' errors.

Lives here: the check that an error can be pickled with all that it says (R-218).
"""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import TypeVar

from ramet.mailbox.errors import RametError, RemoteCause

__all__ = ["Stubborn", "errors_of", "pickled"]

E = TypeVar("E", bound=RametError)


class Stubborn(Exception):
    """An error that can be written by pickle and not be read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def errors_of(module: ModuleType) -> list[type[RametError]]:
    """The public error classes that a module defines."""
    found = [getattr(module, name) for name in module.__all__]
    return [it for it in found if isinstance(it, type) and issubclass(it, RametError)]


def pickled(error: E) -> E:
    """Send an error with two causes through pickle, check it, and give it back."""
    deep = Stubborn("deep", "\ud800")
    near = OSError(28, "disk full")
    near.__cause__ = deep
    error.__cause__ = near
    back = error
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(error, protocol))
        for _ in range(2):
            assert type(back) is type(error)
            assert back.code == error.code
            assert str(back) == str(error)
            cause = back.__cause__
            assert type(cause) is RemoteCause
            assert str(cause) == "OSError: [Errno 28] disk full"
            assert str(cause.__cause__) == "Stubborn: deep \ud800"
            assert cause.__cause__ is not None
            assert cause.__cause__.__cause__ is None
            back = pickle.loads(pickle.dumps(back, protocol))
    error.__cause__ = None
    alone: E = pickle.loads(pickle.dumps(error))
    assert alone.__cause__ is None
    return back
