"""The bare limit of each workload, for every system alike.

Lives here: which piece of `../bare_work.py` bounds which workload.  It runs in the
process of each system, in turns with it.
"""

from __future__ import annotations

from bare_work import (
    bare_children,
    bare_tell,
    bare_turns_at_once,
    bare_turns_in_a_row,
)

from .subjects import Subject
from .workloads import AT_ONCE, BURST, DELEGATION, IN_A_ROW, STREAM

LIMITS: dict[str, Subject] = {
    BURST: bare_tell,
    STREAM: bare_tell,
    AT_ONCE: bare_turns_at_once,
    IN_A_ROW: bare_turns_in_a_row,
    DELEGATION: bare_children,
}
