"""pydantic-ai: `Agent.run` with a `FunctionModel`, and an agent as a tool."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from .subjects import ANSWER, PROMPT, Piece
from .turns import Turn, turns
from .workloads import DELEGATION

if TYPE_CHECKING:
    from bare import Bare

UNLIMITED = UsageLimits(request_limit=None)
PART = 4


async def answer(messages: Any, info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart(ANSWER)])


async def ready(count: int) -> list[Turn]:
    agent = Agent(FunctionModel(answer), system_prompt="Answer.")

    async def run() -> str:
        return (await agent.run(PROMPT)).output

    return [run] * count


async def delegate(bare: Bare, count: int) -> float:
    child = Agent(FunctionModel(answer), system_prompt="Answer.")
    answers: list[str] = []

    async def lead(messages: Any, info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(
            parts=[ToolCallPart("ask", {"task": PROMPT}) for _ in range(count)]
        )

    parent: Agent = Agent(FunctionModel(lead), system_prompt="Ask.")

    @parent.tool_plain
    async def ask(task: str) -> str:
        answers.append((await child.run(task, usage_limits=UNLIMITED)).output)
        return answers[-1]

    began = perf_counter()
    ended = await parent.run("go", usage_limits=UNLIMITED)
    seconds = perf_counter() - began
    assert (ended.output, answers) == ("done", [ANSWER] * count)
    return seconds


def pieces(system: str) -> list[Piece]:
    return [*turns(ready, part=PART), Piece(DELEGATION, delegate)]
