"""The bare limits of what agents do: the same work by actors without any runtime.

Lives here: the least that a tell, a turn and a delegation can cost on a backend, with
the actors of `bare.py`.  It knows nothing of ramet, so that it runs in the process of a
peer, too.
"""

from __future__ import annotations

from collections.abc import Callable

from bare import Bare, Mailbox
from clock import CLOCK

TEXT = "a finding of the usual length, which says what was looked at and what it means"


async def bare_tell(bare: Bare, count: int) -> float:
    """Tells of a bare actor, and what it takes to let it read them."""
    done = bare.promise()
    read = []

    async def handle(message: str) -> None:
        read.append(message)
        if len(read) == count:
            done.set_result(None)

    tell = Mailbox(bare, handle).tell
    began = CLOCK.now()
    for _ in range(count):
        tell(TEXT)
    await done
    return CLOCK.now() - began


async def stub(messages: list[str]) -> str:
    """A model that answers at once, without any runtime."""
    return "ok"


async def bare_turns_at_once(bare: Bare, count: int) -> float:
    """Bare actors, each of which answers one message."""
    done = bare.promise()
    answers = []

    def actor() -> Mailbox:
        messages: list[str] = []

        async def handle(message: str) -> None:
            messages.append(message)
            messages.append(await stub(messages))
            answers.append(messages)
            if len(answers) == count:
                done.set_result(None)

        return Mailbox(bare, handle)

    actors = [actor() for _ in range(count)]
    began = CLOCK.now()
    for one in actors:
        one.tell(TEXT)
    await done
    return CLOCK.now() - began


async def bare_turns_in_a_row(bare: Bare, count: int) -> float:
    """One bare actor that is asked, again and again."""
    messages: list[str] = []

    async def handle(message: tuple[str, Callable[[str], None]]) -> None:
        messages.append(message[0])
        answer = await stub(messages)
        messages.append(answer)
        message[1](answer)

    actor = Mailbox(bare, handle)
    began = CLOCK.now()
    for _ in range(count):
        promise = bare.promise()
        actor.tell((TEXT, promise.set_result))
        await promise
    return CLOCK.now() - began


async def bare_children(bare: Bare, count: int) -> float:
    """A bare parent makes bare children; each answers once and tells the parent."""
    done = bare.promise()
    results: list[str] = []

    async def parent(message: str) -> None:
        results.append(message)
        if len(results) == count:
            done.set_result(None)

    tell_parent = Mailbox(bare, parent).tell

    async def child(message: str) -> None:
        tell_parent(await stub([message]))

    began = CLOCK.now()
    for _ in range(count):
        Mailbox(bare, child).tell("look")
    await done
    return CLOCK.now() - began
