"""The policy: what a deployment decides about delivery, notices and rest.

Lives here: the values, their defaults and their check.  A spec may carry some of them,
which then count for its agents.  Policy values are never stored: a resumed agent has
the present ones (R-089, R-180).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from ..mailbox.errors import UsageError
from .compaction import Compact

__all__ = ["Policy", "merge_policy"]


def _one_of(*allowed: str) -> Any:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not str or value not in allowed:
            names = ", ".join(map(repr, allowed))
            raise UsageError(
                f"policy {attribute.name} must be one of {names}, not {value!r}"
            )

    return check


def _whole(*, least: int, optional: bool) -> Any:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
        if (optional and value is None) or (type(value) is int and value >= least):
            return
        also = ", or None" if optional else ""
        raise UsageError(
            f"policy {attribute.name} must be a whole number from {least} on{also},"
            f" not {value!r}"
        )

    return check


def _seconds(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    number = isinstance(value, (int, float)) and type(value) is not bool
    if number and 0 <= value < 2**53:  # type: ignore[operator]
        return
    raise UsageError(
        f"policy {attribute.name} must be a finite number of seconds, not {value!r}"
    )


def _function(instance: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise UsageError(
            f"policy {attribute.name} must be an async function, or None, not {value!r}"
        )


@attrs.frozen(kw_only=True)
class Policy:
    """What a deployment decides; `design.md` 4 and 5.

    Attributes:
        report_delivery: how reports go; the child's value counts.
        notices: whether a notice wakes the parent; the parent's value counts.
        claim: whether one turn answers one waiting message or all of them.
        wake_budget: waking reports and notices between two outside inputs; past it they
            are delivered quietly.  `None`: unbounded, 0: never.
        max_depth: the depth of the deepest child; a root's is 0.
        nudges: reminders to a returning agent that ended a turn without a reply.
        inbox_limit: messages that may wait or be staged.
        inbox_bytes: bytes of UTF-8 that may wait or be staged.
        inline_cap: bytes of a value that a parent's context shows; `None`: all.
        at_reply: what happens to the live children of an agent that replies.
        rest_deadline_s: seconds that a drain waits before it forces.
        compact: an async function that shortens a transcript which became too long for
            the model: it gets a `Compaction` and gives a `Shortened`, a text, or `None`
            when it cannot help.  `None`: the turn fails as `context-overflow`.

    Raises:
        UsageError: a value is outside its contract; the text names it.
    """

    report_delivery: Literal["quiet", "wakeup"] = attrs.field(
        default="quiet", validator=_one_of("quiet", "wakeup")
    )
    notices: Literal["auto", "wakeup", "quiet", "off"] = attrs.field(
        default="auto", validator=_one_of("auto", "wakeup", "quiet", "off")
    )
    claim: Literal["one", "all"] = attrs.field(
        default="one", validator=_one_of("one", "all")
    )
    wake_budget: int | None = attrs.field(
        default=None, validator=_whole(least=0, optional=True)
    )
    max_depth: int = attrs.field(default=3, validator=_whole(least=0, optional=False))
    nudges: int = attrs.field(default=3, validator=_whole(least=0, optional=False))
    inbox_limit: int | None = attrs.field(
        default=None, validator=_whole(least=1, optional=True)
    )
    inbox_bytes: int | None = attrs.field(
        default=None, validator=_whole(least=1, optional=True)
    )
    inline_cap: int | None = attrs.field(
        default=16_000, validator=_whole(least=1, optional=True)
    )
    at_reply: Literal["cancel", "wait"] = attrs.field(
        default="cancel", validator=_one_of("cancel", "wait")
    )
    rest_deadline_s: float = attrs.field(default=30.0, validator=_seconds)
    compact: Compact | None = attrs.field(default=None, validator=_function)


_NAMES = frozenset(field.name for field in attrs.fields(Policy))


def merge_policy(base: Policy, own: Policy | Mapping[str, Any] | None) -> Policy:
    """The policy of an agent: its spec's values where it has some, else `base`'s.

    Raises:
        UsageError: `own` names a value that does not exist, or a value is wrong.
    """
    if own is None:
        return base
    if isinstance(own, Policy):
        return own
    if not isinstance(own, Mapping):
        raise UsageError(f"policy must be a Policy or a mapping, not {own!r}")
    for name in own:
        if name not in _NAMES:
            raise UsageError(f"policy has no value {name!r}")
    return attrs.evolve(base, **own)
