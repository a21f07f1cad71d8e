"""autogen-agentchat: one `run` of an `AssistantAgent`.

Its tool that wraps an agent is not safe to call in parallel, so that it has no
delegation; autogen-core has.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    ModelFamily,
    ModelInfo,
    RequestUsage,
)

from .subjects import ANSWER, PROMPT, Piece
from .turns import Turn, turns

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


class Stub(ChatCompletionClient):
    """A model that answers at once."""

    async def create(self, messages: Any, **options: Any) -> CreateResult:
        return CreateResult(
            finish_reason="stop",
            content=ANSWER,
            usage=RequestUsage(0, 0),
            cached=False,
        )

    async def create_stream(self, messages: Any, **options: Any) -> AsyncIterator[str]:
        raise NotImplementedError
        yield ""

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(0, 0)

    def count_tokens(self, messages: Any, **options: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Any, **options: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> ModelInfo:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )


async def ready(count: int) -> list[Turn]:
    stub = Stub()

    def turn() -> Turn:
        agent = AssistantAgent("agent", stub, system_message="Answer.")

        async def run() -> str:
            return (await agent.run(task=PROMPT)).messages[-1].content

        return run

    return [turn() for _ in range(count)]


def pieces(system: str) -> list[Piece]:
    return turns(ready)
