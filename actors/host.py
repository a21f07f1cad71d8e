"""The host port: what the built-in tools may ask of the runtime, for their agent.

Each method acts for the agent of the call it is given, by that exact agent's authority;
what the runtime refuses comes out as a `RametError` and becomes the call's result.  All
of them may be called many times and are cancelled safely.
"""

from __future__ import annotations

from typing import Protocol

from ..mailbox.message import CallResult
from .agent import AgentSpec
from .tool import ToolCall

__all__ = ["Host"]


class Host(Protocol):
    """What `lifecycle` gives to the tools of an agent."""

    async def report(self, call: ToolCall, output: str) -> str:
        """Send a report to the direct parent; gives its `MessageId`."""
        ...

    async def send_message(self, call: ToolCall, agent_id: str, message: str) -> str:
        """Send a child a message that becomes a later turn; gives its `MessageId`."""
        ...

    async def interrupt_agent(self, call: ToolCall, agent_id: str) -> None:
        """Ask that an agent below stops its open turn; waits for nothing."""
        ...

    async def list_agents(self, call: ToolCall, scope: str) -> list[str]:
        """One line for each child, or each agent below."""
        ...

    async def delegate(
        self,
        call: ToolCall,
        spec: AgentSpec,
        prompt: str,
        *,
        continuable: bool,
        background: bool,
    ) -> str | CallResult:
        """Start a child of the spec, or call one; gives what the model reads.

        An outcome without a value is an error result (A-053).
        """
        ...

    async def read_result(self, call: ToolCall, message_id: str, offset: int) -> str:
        """A piece of the whole value of a child's assignment, from a byte offset on."""
        ...
