"""The tools by which agents talk: `report`, and the control of children.

Lives here: their contributions, their texts and the check of their arguments.  What
they do is asked of the host.  `report` and control are independent of each other
(R-011).
"""

from __future__ import annotations

from typing import Literal

from .contributions import Contribution, Setup
from .host import Host
from .tool import Tool, ToolCall, tool_from

__all__ = ["control_setup", "report_setup"]


def report_setup() -> Contribution:
    """The contribution that lets continuable children report to their parent.

    Every other kind of agent is not offered `report`; a call of it gets `TOOL_WITHHELD`
    (R-014).
    """
    made: dict[Host, Tool] = {}

    def contribute(setup: Setup) -> None:
        if setup.kind != "continuable":
            setup.withhold_tool("report")
            return
        tool = made.get(setup.host)
        if tool is None:
            tool = made[setup.host] = _report(setup.host)
        setup.add_tool(tool)

    return contribute


def control_setup() -> Contribution:
    """The contribution that lets agents steer the children they have.

    It adds `send_message`, `interrupt_agent` and `list_agents`.
    """
    made: dict[Host, tuple[Tool, ...]] = {}

    def contribute(setup: Setup) -> None:
        tools = made.get(setup.host)
        if tools is None:
            tools = made[setup.host] = _control(setup.host)
        for tool in tools:
            setup.add_tool(tool)

    return contribute


def _report(host: Host) -> Tool:
    async def report(output: str, call: ToolCall) -> dict[str, str]:
        """Send a report to your direct parent, and to nobody else.

        You may report as often as you have something to tell; it does not end your
        turn. If an error comes back, the report may have been sent all the same.

        Args:
            output: What you have to tell.
        """
        return {"message_id": await host.report(call, output)}

    return tool_from(report)


def _control(host: Host) -> tuple[Tool, ...]:
    async def send_message(
        agent_id: str, message: str, call: ToolCall
    ) -> dict[str, str]:
        """Send a message to one of your children.

        It becomes a later turn of that child, which is resumed if it had settled.  No
        answer comes back from this call.

        Args:
            agent_id: The id of the child.
            message: What to tell it.
        """
        return {"message_id": await host.send_message(call, agent_id, message)}

    async def interrupt_agent(agent_id: str, call: ToolCall) -> str:
        """Ask an agent below you to stop its current turn.

        Its queue is kept.  This does not wait until the turn has stopped.

        Args:
            agent_id: The id of the agent.
        """
        await host.interrupt_agent(call, agent_id)
        return f"an interrupt of {agent_id} was asked for"

    async def list_agents(
        call: ToolCall, scope: Literal["children", "descendants"] = "children"
    ) -> str:
        """List your agents: id, state, name and how many messages wait.

        Args:
            scope: Only your children, or everything below you.
        """
        lines = await host.list_agents(call, scope)
        return "\n".join(lines) or "There are no agents."

    return (
        tool_from(send_message),
        tool_from(interrupt_agent),
        tool_from(list_agents),
    )
