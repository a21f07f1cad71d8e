"""Groups: calls of a script that run side by side and are waited for together.

Lives here: `Flow.parallel`: every member settles before it returns or raises, results
stand in the order of the members, and each member's calls have places of their own
(A-057, A-172).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
import attrs

from ..actors.errors import DeclarationError
from ..mailbox.backend import Backend
from .errors import GroupFailureError
from .items import Bound
from .journal import Journal, closes_data, group_data
from .places import Lane, Places
from .replay import Replay
from .script_exit import ends_the_run

__all__ = ["Member", "Settled", "check_members", "run_group"]

T = TypeVar("T")

Member: TypeAlias = Callable[[], Awaitable[T]]
"""What a group takes: a function without arguments that is awaited."""


@attrs.frozen
class Settled:
    """How a member of a group ended.

    Attributes:
        status: `completed`, `failed`, or `cancelled` because another one failed.
        value: what it gave, when it completed; `None` is a value too.
        error: what it raised, when it failed.
    """

    status: Literal["completed", "failed", "cancelled"]
    value: Any = None
    error: Exception | None = None


def check_members(members: object) -> list[Member[Any]]:
    """Refuse what is no list of functions.

    Raises:
        DeclarationError: `bad-option`; the text says which member is wrong.
    """
    if not isinstance(members, (list, tuple)):
        raise DeclarationError(
            "parallel takes a list of functions that are awaited, not"
            f" {type(members).__name__}"
        )
    for index, member in enumerate(members):
        if callable(member):
            continue
        for other in members:
            if inspect.iscoroutine(other):
                other.close()
        hint = ""
        if inspect.isawaitable(member):
            hint = ": it was called already; give functools.partial(function, ...)"
        raise DeclarationError(
            f"parallel[{index}] must be a function without arguments, not"
            f" {type(member).__name__}{hint}"
        )
    return list(members)


async def run_group(
    members: Sequence[Member[Any]],
    places: Places,
    journal: Journal,
    replay: Replay,
    *,
    backend: Backend,
    fail_fast: bool,
) -> list[Any]:
    """Run members side by side; gives what they gave, in their order.

    Raises:
        GroupFailureError: members failed; all have settled.
    """
    lane = places.lane
    steps = lane.next_group()
    group = journal.new_id("g")
    diverged = places.diverged
    journal.note(
        "group.started",
        {
            "group": group,
            "place": list(steps),
            "lane": list(lane.sequence),
            "within": group_data(lane.group),
            "size": len(members),
        },
    )
    lanes: list[Lane] = []
    for index, member in enumerate(members):
        own = member.steps if isinstance(member, Bound) else (*steps, index)
        lanes.append(lane.member(group, index, own, diverged=diverged))
    settled: list[Settled] = [Settled("cancelled")] * len(members)
    try:
        async with anyio.create_task_group() as tasks:

            async def run(index: int) -> None:
                with places.within(lanes[index]):
                    settled[index] = await _settle(members[index], backend)
                if fail_fast and settled[index].status == "failed":
                    tasks.cancel_scope.cancel()

            for index in range(len(members)):
                tasks.start_soon(run, index)
    finally:
        counts = {
            status: sum(one.status == status for one in settled)
            for status in ("completed", "failed", "cancelled")
        }
        data: dict[str, Any] = {"group": group, "place": list(steps), **counts}
        closes = replay.group_ended(steps, lanes)
        if closes is not None:
            data["closes"] = closes_data(*closes)
        journal.note("group.ended", data)
    failures = [one.error for one in settled if one.error is not None]
    if failures:
        text = f"{len(failures)} of {len(members)} members of a group failed"
        text += f"; the first: {str(failures[0]) or type(failures[0]).__name__}"
        error = GroupFailureError(text, failures)
        error.settled = tuple(settled)
        raise error
    return [one.value for one in settled]


async def _settle(member: Member[Any], backend: Backend) -> Settled:
    """How one member ends; only a cancel comes out."""
    try:
        with ends_the_run(backend):
            return Settled("completed", await member())
    except Exception as error:
        return Settled("failed", None, error)
