"""What is judged of a simulated run as a whole: when it rests, and after its end.

Lives here: bringing a run to rest without faults, and the judgement of all that was
stored, asked and promised.  What must hold is in `laws.py` and `simulate_checks.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import anyio

from ..mailbox.store import Reader
from .fault_plan import Plan
from .laws import check_walks, logs_of
from .laws_log import LawBrokenError, need
from .simulate_checks import (
    check_ended,
    check_resting,
    check_spent,
    check_wait,
    told_by,
)
from .simulate_opening import Opening
from .simulate_record import Record

__all__ = ["come_to_rest", "judge"]

_PATIENCE_S = (0.001, 0.001, 0.1, 1.0, 30.0, 600.0, 3600.0, 86_400.0)
"""Time passes only when nobody can run, so that any wait is a wait for rest."""


async def come_to_rest(record: Record, opening: Opening) -> None:
    """Wait until nobody has anything left to do, without faults, and judge that.

    Raises:
        LawBrokenError: it never comes.
    """
    await _idle(opening)
    disk = opening.store.disk
    plan, disk.plan = disk.plan, Plan(threaded=disk.plan.threaded)
    opening.free.set()
    try:
        idle = await _idle(opening)
        if opening.broken or opening.supervisor is None:
            return
        if not idle:
            raise LawBrokenError(f"11 nothing comes to rest\n{told_by(opening)}")
        supervisor = opening.supervisor
        record.broken += check_resting(
            supervisor, record.durable, record.statuses, record.resumed
        )
        for message in [name for name, count in opening.waits.items() if count]:
            record.broken += await check_wait(supervisor, message)
    finally:
        disk.plan = plan
        if not disk.dead:
            opening.free = anyio.Event()


async def _idle(opening: Opening) -> bool:
    """Wait until nothing is under way; says whether that came."""
    for seconds in _PATIENCE_S:
        await anyio.sleep(seconds)
        if opening.broken or not opening.busy():
            return True
    return False


def judge(record: Record, openings: Sequence[Opening], reader: Reader) -> None:
    """Judge all that was stored, asked and promised, once everything has ended.

    Raises:
        LawBrokenError: a law was broken; it names the first one.
    """
    if record.broken:
        raise LawBrokenError(record.broken[0])
    # Each log was read as it came to be: if it is what is stored, so is its fold.
    committed = {name: walk.events for name, walk in record.walks.items()}
    need(logs_of(reader) == committed, "R-232 not what was committed")
    check_walks(
        reader,
        record.walks,
        record.requests,
        record.order,
        told=not record.untold,
        orphans=record.resumed,
    )
    lost = [one for one in record.acknowledged if not record.holds(one)]
    need(not lost, f"19 acknowledged and lost: {lost[:3]}")
    if not any(opening.broken or opening.stubborn for opening in openings):
        made = Counter([request.session_id for request in record.requests])
        counted = {name: walk.requests() for name, walk in record.walks.items()}
        lost = [name for name in made if made[name] != counted.get(name)]
        need(not lost, f"21 a request of {lost[:1]} that no log counts")
    only = openings[0]
    if len(openings) == 1 and only.supervisor and not only.broken:
        for broken in check_spent(only.supervisor, record.walks):
            raise LawBrokenError(broken)
    if not openings[-1].broken:
        killed = any(opening.broken for opening in openings)
        resumed = openings[-1].resumed if killed else record.resumed
        ended = check_ended(record.walks, resumed, record.order, killed=killed)
        for broken in ended:
            raise LawBrokenError(broken)
