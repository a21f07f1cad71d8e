"""Limits: what a run, a subtree or one agent may spend, by axis.

Lives here: the declaration of the six axes, its check and its words.  `None` is
unbounded and prints as such (A-142, A-143).  What is spent is counted by
`lifecycle/allowance.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..mailbox.errors import UsageError
from ..mailbox.events import LimitsRecord

__all__ = [
    "AXES",
    "CAUSES",
    "Limits",
    "axis_of",
    "check_limits",
    "read_limits",
    "spent",
    "stated",
]

AXES = (
    "concurrency",
    "agents",
    "start_deadline_s",
    "call_s",
    "tool_calls",
    "requests",
)
"""The axes, in the order in which they print."""

CAUSES = {
    "agents": "agent-budget",
    "start_deadline_s": "start-deadline",
    "call_s": "call-timeout",
    "tool_calls": "tool-call-budget",
    "requests": "request-budget",
}
"""The cause of a stop, by axis; `concurrency` lets wait and stops nobody."""

_AXIS = {cause: axis for axis, cause in CAUSES.items()}

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

    Limits cover a run (`open`) or an agent and everything below it (its spec's, and
    those of its call).  Whoever is covered by several is held to each of them.

    Attributes:
        concurrency: agents that run at the same time.
        agents: agents that may be started below.
        start_deadline_s: seconds after which no agent starts any more.
        call_s: seconds that each agent which returns (a call, a headless root) may take
            from when it starts to run; the time in which it waits for a place does not
            count.  An agent that converses has no call, and is not bounded by it.
        tool_calls: tool calls of all agents together.
        requests: model requests of one agent, whichever it is.

    Raises:
        UsageError: a value is outside its axis; the text names the axis.
    """

    concurrency: int | None = attrs.field(default=None, validator=_count)
    agents: int | None = attrs.field(default=None, validator=_count)
    start_deadline_s: float | None = attrs.field(default=None, validator=_seconds)
    call_s: float | None = attrs.field(default=None, validator=_seconds)
    tool_calls: int | None = attrs.field(default=None, validator=_count)
    requests: int | None = attrs.field(default=None, validator=_count)

    @property
    def bounded(self) -> bool:
        """Whether any axis is set."""
        return any(getattr(self, axis) is not None for axis in AXES)

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


def stated(limits: Limits, sources: Mapping[str, str] | None = None) -> str:
    """Every axis in order, with its value or `unbounded`, and where it comes from.

    Args:
        limits: what is in force.
        sources: who set an axis; an axis that is set by nobody named is `given`.
    """
    parts = []
    for axis in AXES:
        value = getattr(limits, axis)
        source = "default" if value is None else "given"
        source = (sources or {}).get(axis, source)
        parts.append(f"{axis}={'unbounded' if value is None else value} ({source})")
    return ", ".join(parts)


def read_limits(texts: Iterable[str]) -> Limits:
    """Limits that are written as `AXIS=VALUE`, as on a command line.

    Raises:
        UsageError: an axis does not exist, or its value is no number of its kind.
    """
    values: dict[str, Any] = {}
    for text in texts:
        axis, _, value = text.partition("=")
        if axis not in AXES:
            names = ", ".join(AXES)
            raise UsageError(f"there is no limit {axis!r}: the axes are {names}")
        seconds = axis.endswith("_s")
        try:
            values[axis] = float(value) if seconds else int(value)
        except ValueError:
            kind = "number of seconds" if seconds else "whole number"
            raise UsageError(f"limit {axis}: {value!r} is no {kind}") from None
    return Limits(**values)


def axis_of(cause: str | None) -> str | None:
    """The axis that a cause of a stop names, or `None`."""
    return None if cause is None else _AXIS.get(cause)


def spent(axis: str, value: float, owner: str) -> str:
    """The one line that a stop says (A-153)."""
    return (
        f"the limit {axis}={value} of {owner} is spent; what was finished before stays"
        " completed and readable"
    )


def check_limits(limits: object) -> None:
    """Check that what a caller gave for limits is `Limits`, or `None`.

    Raises:
        UsageError: it is something else.
    """
    if limits is not None and not isinstance(limits, Limits):
        raise UsageError(f"limits must be Limits, not {limits!r:.100}")
