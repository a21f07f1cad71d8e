"""autogen-core: messages between agents of a `SingleThreadedAgentRuntime`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from autogen_core import (
    AgentId,
    AgentType,
    BaseAgent,
    MessageContext,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
)

from .subjects import ANSWER, PROMPT, Piece, a_part
from .workloads import BURST, DELEGATION, STREAM

if TYPE_CHECKING:
    from bare import Bare

logging.disable(logging.CRITICAL)


@dataclass
class Message:
    """What is sent here: a text."""

    text: str


Handle = Callable[[Message], Awaitable[Any]]


class Handler(BaseAgent):
    """An agent that is one function."""

    def __init__(self, handle: Handle) -> None:
        super().__init__("a benchmark")
        self._handle = handle

    async def on_message_impl(self, message: Message, ctx: MessageContext) -> Any:
        return await self._handle(message)


@asynccontextmanager
async def running(**handlers: Handle) -> AsyncIterator[SingleThreadedAgentRuntime]:
    """A runtime with a kind of agents for each handler."""
    runtime = SingleThreadedAgentRuntime()
    for name, handle in handlers.items():
        await runtime.register_factory(
            AgentType(name), lambda handle=handle: Handler(handle)
        )
    runtime.start()
    yield runtime
    await runtime.stop()


async def tell(bare: Bare, count: int) -> float:
    done = asyncio.Event()
    left = count

    async def handle(message: Message) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async with running(sink=handle) as runtime:
        await runtime.add_subscription(TypeSubscription("told", "sink"))
        topic = TopicId("told", "one")
        began = perf_counter()
        for _ in range(count):
            await runtime.publish_message(Message(PROMPT), topic)
        await done.wait()
        return perf_counter() - began


async def delegate(bare: Bare, count: int) -> float:
    async def child(message: Message) -> Message:
        return Message(ANSWER)

    async def parent(message: Message) -> list[Message]:
        return await asyncio.gather(
            *(
                runtime.send_message(Message(PROMPT), AgentId("child", str(place)))
                for place in range(count)
            )
        )

    async with running(child=child, parent=parent) as runtime:
        began = perf_counter()
        answers = await runtime.send_message(Message("go"), AgentId("parent", "one"))
        seconds = perf_counter() - began
    assert [one.text for one in answers] == [ANSWER] * count
    return seconds


def pieces(system: str) -> list[Piece]:
    return [
        Piece(BURST, tell),
        Piece(STREAM, a_part(tell, 10)),
        Piece(DELEGATION, delegate),
    ]
