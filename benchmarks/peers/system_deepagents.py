"""deepagents: an agent whose chat model answers at once, and its `task` tool."""

from __future__ import annotations

import logging
import warnings
from time import perf_counter
from typing import TYPE_CHECKING, Any

from deepagents import create_deep_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from .subjects import ANSWER, PROMPT, Piece
from .turns import Turn, turns
from .workloads import DELEGATION

if TYPE_CHECKING:
    from bare import Bare

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

PART = 10


class Stub(BaseChatModel):
    """A model that asks for so many children first, and answers then."""

    children: int = 0

    @property
    def _llm_type(self) -> str:
        return "stub"

    def bind_tools(self, tools: Any, **options: Any) -> Stub:
        return self

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        message = AIMessage(content=ANSWER)
        if self.children and not any(isinstance(one, ToolMessage) for one in messages):
            arguments = {"description": PROMPT, "subagent_type": "child"}
            calls = [
                {"name": "task", "id": f"c{place}", "args": arguments}
                for place in range(self.children)
            ]
            message = AIMessage(content="", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        return self._generate(messages)


def asked(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def ready(count: int) -> list[Turn]:
    agent = create_deep_agent(model=Stub(), system_prompt="Answer.")

    async def run() -> str:
        return str((await agent.ainvoke(asked(PROMPT)))["messages"][-1].content)

    return [run] * count


async def delegate(bare: Bare, count: int) -> float:
    child = {
        "name": "child",
        "description": "answers",
        "system_prompt": "Answer.",
        "model": Stub(),
    }
    agent = create_deep_agent(
        model=Stub(children=count), system_prompt="Ask.", subagents=[child]
    )
    began = perf_counter()
    ended = await agent.ainvoke(asked("go"))
    seconds = perf_counter() - began
    results = [one for one in ended["messages"] if isinstance(one, ToolMessage)]
    assert [one.content for one in results] == [ANSWER] * count
    return seconds


def pieces(system: str) -> list[Piece]:
    return [*turns(ready, part=PART), Piece(DELEGATION, delegate)]
