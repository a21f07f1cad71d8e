"""openai-agents: `Runner.run` with a model that answers at once, tracing off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from .subjects import ANSWER, PROMPT, Piece
from .turns import Turn, turns
from .workloads import DELEGATION

if TYPE_CHECKING:
    from bare import Bare

logging.disable(logging.CRITICAL)
set_tracing_disabled(True)
CONFIG = RunConfig(tracing_disabled=True)


def response(*output: Any) -> ModelResponse:
    return ModelResponse(output=list(output), usage=Usage(), response_id=None)


def said(text: str) -> ModelResponse:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return response(
        ResponseOutputMessage(
            id="m", role="assistant", status="completed", type="message", content=[part]
        )
    )


class Stub(Model):
    """A model that is a function of its input."""

    def __init__(self, answer: Callable[[Any], ModelResponse]) -> None:
        self._answer = answer

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the name is theirs
        *rest: Any,
        **options: Any,
    ) -> ModelResponse:
        return self._answer(input)

    def stream_response(self, *rest: Any, **options: Any) -> Any:
        raise NotImplementedError


async def ready(count: int) -> list[Turn]:
    agent = Agent(
        name="agent", instructions="Answer.", model=Stub(lambda _: said(ANSWER))
    )

    async def run() -> str:
        return str((await Runner.run(agent, PROMPT, run_config=CONFIG)).final_output)

    return [run] * count


async def delegate(bare: Bare, count: int) -> float:
    asked = 0

    def answer(given: Any) -> ModelResponse:
        nonlocal asked
        asked += 1
        return said(ANSWER)

    def lead(given: Any) -> ModelResponse:
        if not isinstance(given, str) and len(given) > 1:
            return said("done")
        return response(
            *(
                ResponseFunctionToolCall(
                    call_id=f"c{place}",
                    name="child",
                    arguments='{"input": "look"}',
                    type="function_call",
                )
                for place in range(count)
            )
        )

    child = Agent(name="child", instructions="Answer.", model=Stub(answer))
    parent = Agent(
        name="parent",
        instructions="Ask.",
        model=Stub(lead),
        tools=[child.as_tool("child", "answers")],
    )
    began = perf_counter()
    ended = await Runner.run(parent, "go", run_config=CONFIG)
    seconds = perf_counter() - began
    assert (ended.final_output, asked) == ("done", count)
    return seconds


def pieces(system: str) -> list[Piece]:
    return [*turns(ready), Piece(DELEGATION, delegate)]
