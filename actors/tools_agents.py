"""The tools by which agents delegate: `agent`, and `read_result`.

Lives here: the contribution, its texts and the check of its arguments.  Which specs a
model may name is the deployment's choice; what starting one means is asked of the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..mailbox.errors import InvalidArgumentsError
from ..mailbox.message import CallResult
from .agent import AgentSpec
from .contributions import Contribution, Setup
from .errors import DeclarationError
from .host import Host
from .tool import Tool, ToolCall, tool_from

__all__ = ["delegation_setup"]

_TEXT = """Give work to an agent of your own.

With mode "call" it answers once and the answer is the result of this call; with
"background" true the answer comes later as a message.  With mode "start" it keeps
running and reports while it works.  The agents are:
"""


def delegation_setup(specs: Iterable[AgentSpec]) -> Contribution:
    """The contribution that lets agents start and call agents of these specs.

    It adds `agent` (start a child, call one, or call one in the background) and
    `read_result` (the whole of a value that a view shortened).

    Raises:
        DeclarationError: there is no spec, or two have the same name.
    """
    known: dict[str, AgentSpec] = {}
    for spec in specs:
        if not isinstance(spec, AgentSpec) or spec.name in known:
            raise DeclarationError("delegation needs AgentSpecs with different names")
        known[spec.name] = spec
    if not known:
        raise DeclarationError("delegation needs at least one AgentSpec")

    made: dict[Host, tuple[Tool, Tool]] = {}

    def contribute(setup: Setup) -> None:
        tools = made.get(setup.host)
        if tools is None:
            host = setup.host
            tools = made[host] = _agent_tool(host, known), _read_tool(host)
        for tool in tools:
            setup.add_tool(tool)

    return contribute


def _read_tool(host: Host) -> Tool:
    async def read_result(message_id: str, call: ToolCall, offset: int = 0) -> str:
        """Read the whole of an answer that was shortened, piece by piece.

        Args:
            message_id: The assignment that the shortened view names.
            offset: The byte to begin at; each piece says where the next begins.
        """
        if offset < 0:
            raise InvalidArgumentsError("offset must not be negative")
        return await host.read_result(call, message_id, offset)

    return tool_from(read_result)


def _agent_tool(host: Host, known: Mapping[str, AgentSpec]) -> Tool:
    names = sorted(known)
    lines = [f"- {name}: {_first_line(known[name].instructions)}" for name in names]

    async def run(arguments: dict[str, Any], call: ToolCall) -> str | CallResult:
        return await host.delegate(
            call,
            known[arguments["agent"]],
            arguments["prompt"],
            continuable=arguments.get("mode", "call") == "start",
            background=arguments.get("background", False),
        )

    return Tool(
        "agent",
        _TEXT + "\n".join(lines),
        {
            "type": "object",
            "properties": {
                "agent": {"type": "string", "enum": names},
                "prompt": {"type": "string", "description": "What it is to do."},
                "mode": {"type": "string", "enum": ["call", "start"]},
                "background": {"type": "boolean"},
            },
            "required": ["agent", "prompt"],
            "additionalProperties": False,
        },
        run,
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200] or "(no description)"
