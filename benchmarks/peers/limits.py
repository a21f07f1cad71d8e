"""The bare limit of each workload, for every system alike.

Lives here: the least that a workload can cost on a backend, with the actors of
`../bare.py`.  It runs in the process of each system, in turns with it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from bare import Bare, Mailbox

from .subjects import ANSWER, PROMPT, Subject
from .workloads import AT_ONCE, BURST, DELEGATION, IN_A_ROW, STREAM


async def _stub(messages: list[str]) -> str:
    return ANSWER


async def _tell(bare: Bare, count: int) -> float:
    done = bare.promise()
    read: list[str] = []

    async def handle(message: str) -> None:
        read.append(message)
        if len(read) == count:
            done.set_result(None)

    tell = Mailbox(bare, handle).tell
    began = perf_counter()
    for _ in range(count):
        tell(PROMPT)
    await done
    return perf_counter() - began


async def _turns_at_once(bare: Bare, count: int) -> float:
    done = bare.promise()
    answered: list[list[str]] = []

    def actor() -> Mailbox:
        messages: list[str] = []

        async def handle(message: str) -> None:
            messages.append(message)
            messages.append(await _stub(messages))
            answered.append(messages)
            if len(answered) == count:
                done.set_result(None)

        return Mailbox(bare, handle)

    actors = [actor() for _ in range(count)]
    began = perf_counter()
    for one in actors:
        one.tell(PROMPT)
    await done
    return perf_counter() - began


async def _turns_in_a_row(bare: Bare, count: int) -> float:
    messages: list[str] = []

    async def handle(asked: tuple[str, Any]) -> None:
        messages.append(asked[0])
        messages.append(await _stub(messages))
        asked[1].set_result(messages[-1])

    actor = Mailbox(bare, handle)
    began = perf_counter()
    for _ in range(count):
        promise = bare.promise()
        actor.tell((PROMPT, promise))
        await promise
    return perf_counter() - began


async def _children(bare: Bare, count: int) -> float:
    done = bare.promise()
    results: list[str] = []

    async def parent(message: str) -> None:
        results.append(message)
        if len(results) == count:
            done.set_result(None)

    tell_parent = Mailbox(bare, parent).tell

    async def child(message: str) -> None:
        tell_parent(await _stub([message]))

    began = perf_counter()
    for _ in range(count):
        Mailbox(bare, child).tell(PROMPT)
    await done
    return perf_counter() - began


LIMITS: dict[str, Subject] = {
    BURST: _tell,
    STREAM: _tell,
    AT_ONCE: _turns_at_once,
    IN_A_ROW: _turns_in_a_row,
    DELEGATION: _children,
}
