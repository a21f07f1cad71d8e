"""A host for tests of set-ups: it is asked for nothing.

Lives here: a `Host` whose every method fails the test.
"""

from __future__ import annotations

from typing import NoReturn

from ramet.actors.agent import AgentSpec
from ramet.actors.host import Host
from ramet.actors.tool import ToolCall

__all__ = ["NoHost"]


class NoHost(Host):
    """What a set-up may hold on to, and no tool of these tests asks."""

    async def report(self, call: ToolCall, output: str) -> NoReturn:
        """Fail, as all the others."""
        raise AssertionError("nobody asks this host")

    async def send_message(
        self, call: ToolCall, agent_id: str, message: str
    ) -> NoReturn:
        """Fail."""
        await self.report(call, message)

    async def interrupt_agent(self, call: ToolCall, agent_id: str) -> NoReturn:
        """Fail."""
        await self.report(call, agent_id)

    async def list_agents(self, call: ToolCall, scope: str) -> NoReturn:
        """Fail."""
        await self.report(call, scope)

    async def delegate(
        self,
        call: ToolCall,
        spec: AgentSpec,
        prompt: str,
        *,
        continuable: bool,
        background: bool,
    ) -> NoReturn:
        """Fail."""
        await self.report(call, prompt)

    async def read_result(
        self, call: ToolCall, message_id: str, offset: int
    ) -> NoReturn:
        """Fail."""
        await self.report(call, message_id)
