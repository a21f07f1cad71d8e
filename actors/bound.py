"""A bound spec: a spec with its policy, its model and its record worked out.

Lives here: what is made once for all agents of a spec, and how stored texts meet
present code when a session is resumed (R-180): the stored texts, limits and filter
decide; tools, model and policy are the present ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..mailbox.events import SpecRecord, ToolRecord
from .agent import AgentSpec
from .budget import Limits
from .model import Model, ToolSchema
from .policy import Policy, merge_policy
from .tool import Tool

__all__ = ["BoundSpec", "bind", "rebind"]


class BoundSpec:
    """A spec, ready to run; shared by its agents and never changed."""

    __slots__ = (
        "allow",
        "bounded",
        "deny",
        "instructions",
        "limits",
        "model",
        "name",
        "policy",
        "record",
        "schemas",
        "settings",
        "tools",
    )

    def __init__(
        self,
        record: SpecRecord,
        tools: Mapping[str, Tool],
        model: Model | None,
        policy: Policy,
        settings: Mapping[str, Any],
    ) -> None:
        self.record: SpecRecord = record
        self.name: str = record.name
        self.instructions: str = record.instructions
        self.allow: frozenset[str] | None = (
            None if record.allow is None else frozenset(record.allow)
        )
        self.deny: frozenset[str] = frozenset(record.deny)
        self.limits: Limits = Limits.from_record(record.limits)
        self.bounded: bool = self.limits.bounded
        self.tools: dict[str, Tool] = {
            n: t for n, t in tools.items() if self.permits(n)
        }
        self.schemas: tuple[ToolSchema, ...] = tuple(
            [tool.schema for tool in self.tools.values()]
        )
        self.model: Model | None = model
        self.policy: Policy = policy
        self.settings: Mapping[str, Any] = settings

    def permits(self, name: str) -> bool:
        """Whether `allow` and `deny` let an agent use a tool of this name."""
        if name in self.deny:
            return False
        return self.allow is None or name in self.allow

    def within(self, limits: Limits) -> BoundSpec:
        """The same under a call's own limits, where those are the narrower."""
        record = attrs.evolve(self.record, limits=self.limits.within(limits).record())
        return BoundSpec(record, self.tools, self.model, self.policy, self.settings)


def bind(spec: AgentSpec, policy: Policy, model: Model | None) -> BoundSpec:
    """Bind a spec as it is declared now.

    Args:
        spec: the declaration.
        policy: the supervisor's policy, under the spec's own values.
        model: the spec's model or the default, resolved; `None`: there is none.
    """
    record = SpecRecord(
        spec.name,
        spec.instructions,
        spec.allow,
        spec.deny,
        (spec.limits or Limits()).record(),
        tuple([ToolRecord(tool.name, tool.digest) for tool in spec.tools]),
    )
    tools = {tool.name: tool for tool in spec.tools}
    merged = merge_policy(policy, spec.policy)
    return BoundSpec(record, tools, model, merged, spec.settings)


def rebind(
    stored: SpecRecord, spec: AgentSpec, present: BoundSpec
) -> tuple[BoundSpec, tuple[str, ...]]:
    """Bind a stored record with present code; gives what differs, by name."""
    now = present.record
    if stored == now:
        return present, ()
    changed = [
        name
        for name in ("instructions", "allow", "deny", "limits")
        if getattr(stored, name) != getattr(now, name)
    ]
    before = {tool.name: tool.digest for tool in stored.tools}
    after = {tool.name: tool.digest for tool in now.tools}
    changed += [
        f"tool {name}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    tools = {tool.name: tool for tool in spec.tools}
    bound = BoundSpec(stored, tools, present.model, present.policy, present.settings)
    return bound, tuple(changed)
