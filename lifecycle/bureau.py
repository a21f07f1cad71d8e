"""The bureau: what the runtime does for the tools of its agents (the host port).

Lives here: how a built-in tool's wish becomes an operation of the exact agent that
calls, under a key made of its session, turn, step and place (R-062).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..actors.agent import AgentSpec
from ..actors.contract import Reply
from ..actors.render import piece, render
from ..actors.tool import ToolCall
from ..mailbox.errors import InvalidArgumentsError, UnauthorizedError
from ..mailbox.keys import RESERVED
from ..mailbox.message import CallResult, ToolMessage, record
from .activation import Activation
from .handle import Agent
from .returning import line_of, shown

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["Bureau"]

_PIECE = 8_000
_MOST_LISTED = 200


@record
class _Sent:
    """An accepted report: where the results of its batch land, and what it said."""

    turn: int
    landing: int
    place: int
    output: str
    message_id: str


class Bureau:
    """Acts for agents, by their own authority."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._sent: WeakKeyDictionary[Activation, list[_Sent]] = WeakKeyDictionary()

    async def report(self, call: ToolCall, output: str) -> str:
        """Report to the direct parent."""
        if not output or output.isspace():
            raise InvalidArgumentsError("output must hold a visible character")
        agent = _caller(call)
        earlier = self._spoiled(agent._activation, output)
        if earlier is not None:
            return earlier
        session = agent._activation.session
        turn, landing = session.turn, len(session.transcript)
        message_id = await self._supervisor._sending.report(
            agent,
            output,
            delivery=None,
            key=RESERVED + call.key,
            ack="stored",
            own=True,
        )
        sent = _Sent(turn, landing, call.place, output, message_id)
        self._sent.setdefault(agent._activation, []).append(sent)
        return message_id

    def _spoiled(self, activation: Activation, output: str) -> str | None:
        """The id of a report of this turn with this output whose call came back as an
        error, which a hook may do; `None` if there is none (R-063)."""
        session = activation.session
        kept = [s for s in self._sent.get(activation, ()) if s.turn == session.turn]
        if not kept:
            self._sent.pop(activation, None)
            return None
        self._sent[activation] = kept
        for sent in kept:
            if sent.output == output and sent.landing < len(session.transcript):
                landed = session.transcript[sent.landing]
                if isinstance(landed, ToolMessage) and landed.results[sent.place].error:
                    return sent.message_id
        return None

    async def send_message(self, call: ToolCall, agent_id: str, message: str) -> str:
        """Send a child a followup."""
        if not message or message.isspace():
            raise InvalidArgumentsError("message must hold a visible character")
        return await self._supervisor._sending.followup(
            _caller(call), agent_id, message, key=RESERVED + call.key, own=True
        )

    async def interrupt_agent(self, call: ToolCall, agent_id: str) -> None:
        """Ask that an agent below stops its open turn.

        Of one that is not resident the store knows whose it is (R-142).
        """
        agent = _caller(call)
        supervisor = self._supervisor
        if supervisor.agent(agent_id) is None:
            line = await supervisor._inquiry.line(agent_id)
            while line is not None and line.parent_id != agent.id:
                parent = line.parent_id
                line = None
                if parent is not None:
                    line = await supervisor._inquiry.line(parent)
            if line is None:
                raise UnauthorizedError(f"{agent_id} is no agent below you")
        supervisor.interrupt(agent_id, by=agent)

    async def list_agents(self, call: ToolCall, scope: str) -> list[str]:
        """One line for each child, or for each agent below."""
        agent = _caller(call)
        supervisor = self._supervisor
        if scope == "children":
            lines = await supervisor.children(agent.id, limit=_MOST_LISTED)
        else:
            lines = await supervisor.descendants(agent.id, limit=_MOST_LISTED)
        return [
            f"{line.id} {line.state} {line.name} pending={line.pending}"
            + (f" ({line.fault})" if line.fault else "")
            for line in lines
        ]

    async def delegate(
        self,
        call: ToolCall,
        spec: AgentSpec,
        prompt: str,
        *,
        continuable: bool,
        background: bool,
    ) -> str | CallResult:
        """Start a child, or call one; gives what the model reads (A-053)."""
        agent = _caller(call)
        sending = self._supervisor._sending
        key = RESERVED + call.key
        if not prompt or prompt.isspace():
            raise InvalidArgumentsError("prompt must hold a visible character")
        if continuable:
            started = await sending.start_child(agent, spec, prompt, key=key, own=True)
            return f"started {started.child_id}; its assignment is {started.message_id}"
        contract = Reply()
        if background:
            started = await sending.start_call(
                agent,
                spec,
                prompt,
                contract=contract,
                limits=None,
                key=key,
                background=True,
                own=True,
            )
            return f"called {started.child_id}; its assignment is {started.message_id}"
        outcome = await sending.call(
            agent, spec, prompt, contract=contract, limits=None, key=key, own=True
        )
        if outcome.acceptance is None:
            return CallResult(line_of(outcome), outcome.cause or outcome.status)
        return shown(outcome, agent._activation.bound.policy.inline_cap)

    async def read_result(self, call: ToolCall, message_id: str, offset: int) -> str:
        """A piece of the whole value of an assignment of the caller's own child."""
        agent = _caller(call)
        outcome = await self._supervisor.outcome(message_id)
        if outcome is None:
            raise InvalidArgumentsError(f"assignment {message_id} has not ended")
        line = await self._supervisor._inquiry.line(outcome.session_id)
        if line is None or line.parent_id != agent.id:
            raise UnauthorizedError(f"{message_id} is no assignment of your own child")
        if outcome.acceptance is None:
            return line_of(outcome)
        part = piece(render(outcome.value), offset, _PIECE)
        if part.next_offset is None:
            return part.text
        return (
            f"{part.text}\n[{part.total} bytes; the next offset is {part.next_offset}]"
        )


def _caller(call: ToolCall) -> Agent:
    agent = call.agent
    if type(agent) is not Agent:
        raise UnauthorizedError("this tool runs only for an agent")
    return agent
