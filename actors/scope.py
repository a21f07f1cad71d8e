"""The scope: which tools an agent is offered, and which calls may run.

Lives here, and nowhere else: the one place where a tool is advertised and where a call
is admitted, so that what an agent sees is what it can do (R-081).  It is looked at
afresh for every request and every call, since a contribution may have been revoked
meanwhile.
"""

from __future__ import annotations

from ..mailbox.events import Kind
from ..mailbox.message import CallResult
from .bound import BoundSpec
from .contributions import Installation
from .model import ToolSchema
from .tool import Tool

__all__ = ["RUNTIME_TOOLS", "Scope"]

RUNTIME_TOOLS = frozenset(("report", "reply"))
"""Tools of the runtime itself: `allow` and `deny` do not filter them."""


class Scope:
    """The tools of one activation.

    Args:
        kind: what kind of agent it is.
        bound: its spec.
        installation: what contributions gave it.
        reply: the tool by which it returns, or `None`.
    """

    __slots__ = ("_bound", "_installation", "_kind", "_reply")

    def __init__(
        self,
        kind: Kind,
        bound: BoundSpec,
        installation: Installation,
        reply: Tool | None = None,
    ) -> None:
        self._kind = kind
        self._bound = bound
        self._installation = installation
        self._reply = reply

    def offered(self, *, narrowed: bool = False) -> tuple[ToolSchema, ...]:
        """What the next request offers; `narrowed`: only the return (A-092)."""
        reply = () if self._reply is None else (self._reply.schema,)
        if narrowed:
            return reply
        own = self._bound.schemas
        if not self._installation.tools:
            return own + reply if reply else own
        names = self._bound.tools
        return (
            own
            + tuple(
                [
                    tool.schema
                    for name, tool in self._installation.tools.items()
                    if name not in names and self._permits(name)
                ]
            )
            + reply
        )

    def find(self, name: str, *, narrowed: bool = False) -> Tool | CallResult:
        """The tool that a call names, or the result that says why it may not run."""
        if name == "reply":
            if self._reply is not None:
                return self._reply
            return CallResult(
                "this agent converses and does not end through a reply:"
                " just answer in text",
                "TOOL_WITHHELD",
            )
        if narrowed:
            return CallResult("only reply may be called now", "TOOL_WITHHELD")
        tool = self._bound.tools.get(name)
        if tool is not None:
            return tool
        tool = self._installation.tools.get(name)
        if tool is not None and self._permits(name):
            return tool
        if tool is not None or name in self._installation.names:
            return CallResult(f"{name} is not offered to this agent", "TOOL_WITHHELD")
        if name in {record.name for record in self._bound.record.tools}:
            return CallResult(f"{name} is not offered to this agent", "TOOL_WITHHELD")
        known = ", ".join(schema.name for schema in self.offered()) or "none"
        return CallResult(
            f"there is no tool {name!r}; the tools are: {known}", "UNKNOWN_TOOL"
        )

    def _permits(self, name: str) -> bool:
        return name in RUNTIME_TOOLS or self._bound.permits(name)
