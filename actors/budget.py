"""Limits: what a run, a subtree or one agent may spend, by axis.

Lives here: the declaration of the six axes and its check.  `None` is unbounded and
prints as such (A-142, A-143).
"""

from __future__ import annotations

from typing import Any

import attrs

from ..mailbox.errors import UsageError
from ..mailbox.events import LimitsRecord

__all__ = ["AXES", "Limits", "check_enforced"]

AXES = (
    "concurrency",
    "agents",
    "start_deadline_s",
    "call_s",
    "tool_calls",
    "requests",
)
"""The axes, in the order in which they print."""

_LARGEST = 2**53 - 1


def _count(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None or (type(value) is int and 1 <= value <= _LARGEST):
        return
    raise UsageError(
        f"limit {attribute.name} must be a whole number from 1 to 2**53 - 1,"
        f" or None for unbounded, not {value!r}"
    )


def _seconds(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and type(value) is not bool
    if number and 0 < value <= _LARGEST:  # type: ignore[operator]
        return
    raise UsageError(
        f"limit {attribute.name} must be a finite number of seconds above 0,"
        f" or None for unbounded, not {value!r}"
    )


@attrs.frozen(kw_only=True)
class Limits:
    """What may be spent; positive, or `None` for unbounded.

    Attributes:
        concurrency: agents that run at the same time.
        agents: agents that may be started.
        start_deadline_s: seconds after which no agent starts any more.
        call_s: seconds that one call may take.
        tool_calls: tool calls of one agent.
        requests: model requests of one agent.

    Raises:
        UsageError: a value is outside its axis; the text names the axis.
    """

    concurrency: int | None = attrs.field(default=None, validator=_count)
    agents: int | None = attrs.field(default=None, validator=_count)
    start_deadline_s: float | None = attrs.field(default=None, validator=_seconds)
    call_s: float | None = attrs.field(default=None, validator=_seconds)
    tool_calls: int | None = attrs.field(default=None, validator=_count)
    requests: int | None = attrs.field(default=None, validator=_count)

    def record(self) -> LimitsRecord:
        """What a header keeps."""
        return LimitsRecord(*[getattr(self, axis) for axis in AXES])

    @classmethod
    def from_record(cls, stored: LimitsRecord) -> Limits:
        """The limits that a header keeps."""
        return cls(**{axis: getattr(stored, axis) for axis in AXES})

    def within(self, other: Limits) -> Limits:
        """The narrower of both, axis by axis: a limit is never widened."""
        narrower = {}
        for axis in AXES:
            values = [getattr(self, axis), getattr(other, axis)]
            narrower[axis] = min((v for v in values if v is not None), default=None)
        return Limits(**narrower)

    def __str__(self) -> str:
        shown = ((axis, getattr(self, axis)) for axis in AXES)
        return ", ".join(
            f"{axis}={'unbounded' if value is None else value}" for axis, value in shown
        )


_LATER = ("concurrency", "agents", "start_deadline_s")


def check_enforced(limits: Limits | None) -> None:
    """Refuse what this release would not enforce, instead of ignoring it.

    Raises:
        UsageError: they are no `Limits`, or set an axis that is not enforced yet.
    """
    if limits is None:
        return
    if not isinstance(limits, Limits):
        raise UsageError(f"limits must be Limits, not {limits!r:.100}")
    for axis in _LATER:
        if getattr(limits, axis) is not None:
            raise UsageError(
                f"limit {axis} is not enforced by this release: leave it unbounded"
            )
