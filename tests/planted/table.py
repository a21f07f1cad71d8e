"""The table of planted faults.

Lives here: every fault by its name.
"""

from __future__ import annotations

from tests.planted import (
    admission,
    delivery,
    endings,
    lives,
    reading,
    resuming,
    returning,
    sessions,
    setups,
    stored,
    tools,
    watching,
)
from tests.planted.fault import Fault

__all__ = ["FAULTS", "FILES"]

FILES = (
    sessions,
    admission,
    delivery,
    lives,
    endings,
    returning,
    tools,
    setups,
    stored,
    resuming,
    reading,
    watching,
)
"""The files of the table."""

FAULTS: dict[str, Fault] = {one.name: one for part in FILES for one in part.FAULTS}
