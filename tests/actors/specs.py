"""Specs, tools and bound specs for tests of one agent's parts.

Lives here: the smallest things that a test of the actors' room needs.
"""

from __future__ import annotations

from typing import Any

from ramet.actors.agent import AgentSpec
from ramet.actors.bound import BoundSpec, bind
from ramet.actors.policy import Policy
from ramet.actors.tool import Tool, ToolCall

__all__ = ["bound_of", "tool"]


def tool(name: str, description: str = "It does something.") -> Tool:
    """A tool that takes nothing."""

    def run(arguments: dict[str, Any], call: ToolCall) -> str:
        return name

    return Tool(name, description, {"type": "object", "properties": {}}, run)


def bound_of(*tools: str, policy: Policy | None = None, **options: Any) -> BoundSpec:
    """A bound spec with tools of these names."""
    spec = AgentSpec("worker", tools=[tool(it) for it in tools], **options)
    return bind(spec, policy or Policy(), None)
