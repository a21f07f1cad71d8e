"""What every error of ramet must hold to, for the tests of the rooms' errors.

Lives here: the check that an error can be pickled with all that it says (R-218).
"""

from __future__ import annotations

import pickle
from types import ModuleType

from ramet.mailbox.errors import RametError

__all__ = ["errors_of", "pickled"]


def errors_of(module: ModuleType) -> list[type[RametError]]:
    """The public error classes that a module defines."""
    found = [getattr(module, name) for name in module.__all__]
    assert all(issubclass(cls, RametError) for cls in found)
    return found


def pickled(error: RametError) -> RametError:
    """An error with a cause after a journey through pickle; it says what it said."""
    causes = [ValueError("deep\ud800"), OSError(28, "disk full")]
    for cause in (*causes, None):
        error.__cause__ = cause
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            back: RametError = pickle.loads(pickle.dumps(error, protocol))
            assert type(back) is type(error)
            assert back.code == error.code
            assert str(back) == str(error)
            if cause is None:
                assert back.__cause__ is None
            else:
                said = f"{type(cause).__name__}: {cause}"
                assert str(back.__cause__) == said
                again: RametError = pickle.loads(pickle.dumps(back, protocol))
                assert said in str(again.__cause__)
    error.__cause__ = causes[1]
    last: RametError = pickle.loads(pickle.dumps(error))
    return last
