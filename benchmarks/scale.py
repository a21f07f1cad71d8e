"""Many agents at once: wide and deep forests, and what it takes to end them.

Lives here: the workloads whose goals hold for thousands of agents.  Everything of ramet
is used by its public names, and each workload looks afterwards at what came of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import isqrt

import anyio
from agents import (
    CHILD,
    HELD,
    PARENT,
    WORKER,
    lives_at_once,
    opened,
)
from bare import Bare, Mailbox
from bare_work import TEXT, bare_children
from clock import CLOCK
from rounds import Group, Subject

import ramet
from ramet.mailbox.events import Accepted

LINK = ramet.AgentSpec("link")

FAN = "limit: bare fan-in"
CHAIN = "limit: bare chain"
CANCEL = "limit: bare cancel"

_WAVE = 100
"""How many children live at a time where they come in waves."""

_REPORTS = 100
"""How many reports each child of the fan-in makes."""


# -- fan-in ----------------------------------------------------------------------------


async def fan_in(bare: Bare, count: int) -> float:
    """Quiet reports of many children to one idle parent, by turns; all are stored.

    Each is accepted only from the exact live child, and those of one child enter in the
    order in which they were made: both are looked at when the clock has stopped.
    """
    async with _holding() as (supervisor, _):
        parent = await supervisor.start_root(PARENT, interactive=True)
        children = await _held_below(supervisor, bare, parent, count // _REPORTS)
        report = supervisor.report_from
        began = CLOCK.now()
        for number in range(_REPORTS):
            text = f"{number}: {TEXT}"
            for child in children:
                await report(child, text, ack="accepted")
        await report(children[0], f"{_REPORTS}: {TEXT}")
        seconds = CLOCK.now() - began
        await _in_order(parent, children)
    return seconds


async def _in_order(parent: ramet.Agent, children: list[ramet.Agent]) -> None:
    """Every report is there, from its child, in its order; and a copy has no right."""
    seen = dict.fromkeys([child.id for child in children], 0)
    left = len(children) * _REPORTS + 1
    async for entry in parent.events():
        event = entry.event
        if isinstance(event, Accepted):
            assert event.content[0].startswith(f"{seen[event.sender]}: ")
            seen[event.sender] += 1
            left -= 1
            if not left:
                break
    assert set(seen.values()) <= {_REPORTS, _REPORTS + 1}


async def bare_fan_in(bare: Bare, count: int) -> float:
    """The same number of tells to one bare actor, which looks at the order of each."""
    done = bare.promise()
    last = [-1] * max(count // _REPORTS, 1)
    left = len(last) * _REPORTS

    async def parent(message: tuple[int, int]) -> None:
        nonlocal left
        sender, number = message
        assert last[sender] == number - 1
        last[sender] = number
        left -= 1
        if not left:
            done.set_result(None)

    tell = Mailbox(bare, parent).tell
    began = CLOCK.now()
    for number in range(_REPORTS):
        for sender in range(len(last)):
            tell((sender, number))
    await done
    return CLOCK.now() - began


# -- lives -----------------------------------------------------------------------------


async def lives_in_waves(bare: Bare, count: int) -> float:
    """Start children of one parent, turn and settle, a hundred at a time."""
    policy = ramet.Policy(notices="quiet")
    async with opened(policy) as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)

        async def life() -> None:
            started = await supervisor.start_child(root, WORKER, "look")
            await supervisor.wait(started.message_id)

        began = CLOCK.now()
        for _ in range(max(count // _WAVE, 1)):
            await bare.at_once([life] * min(_WAVE, count))
        return CLOCK.now() - began


# -- chains ----------------------------------------------------------------------------


async def chain(bare: Bare, count: int) -> float:
    """Each agent starts one below it; the last one reports, and so do all above it.

    So each level is started by the turn of the one above, and woken by the report of
    the one below for a second turn, in which it reports too; then it settles.
    """

    async def mind(request: ramet.ModelRequest) -> str:
        agent = supervisor.agent(request.session_id)
        assert agent is not None
        if request.name == "link":
            if request.turn == 1 and agent.depth < count:
                await supervisor.start_child(agent, LINK, "go down")
            else:
                await supervisor.report_from(
                    agent, TEXT, delivery="wakeup", ack="accepted"
                )
        return "ok"

    policy = ramet.Policy(notices="quiet", max_depth=count)
    model = ramet.FunctionModel(mind)
    async with ramet.open(":memory:", model=model, policy=policy) as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)
        began = CLOCK.now()
        started = await supervisor.start_child(root, LINK, "go down")
        first = supervisor.agent(started.child_id)
        assert first is not None
        await first.wait_gone()
        await root.wait_idle()
        seconds = CLOCK.now() - began
        assert root.statistics()["requests"] == 1
    return seconds


async def bare_chain(bare: Bare, count: int) -> float:
    """Bare actors, each made by the one above; a message goes all the way up."""
    done = bare.promise()

    def level(depth: int, above: Callable[[str], None]) -> Callable[[str], None]:
        async def handle(message: str) -> None:
            if message == "down" and depth < count:
                level(depth + 1, tell)("down")
            else:
                above("up")

        tell = Mailbox(bare, handle).tell
        return tell

    began = CLOCK.now()
    level(1, lambda message: done.set_result(message))("down")
    await done
    return CLOCK.now() - began


# -- the end of many -------------------------------------------------------------------


async def cancel_wide(bare: Bare, count: int) -> float:
    """Cancel a root with a tree below it, all of whose agents are in a model call."""
    width = isqrt(count)
    async with _holding() as (supervisor, blocked):
        root = await supervisor.start_root(PARENT, interactive=True)
        leaves: list[ramet.Agent] = []
        for middle in await _held_below(supervisor, bare, root, width):
            leaves += await _held_below(supervisor, bare, middle, width - 1)
        await blocked(width * width)
        began = CLOCK.now()
        await supervisor.cancel(root, grace_s=60)
        seconds = CLOCK.now() - began
        assert all(leaf.state == "gone" for leaf in leaves)
    return seconds / (width * width) * count


async def cancel_deep(bare: Bare, count: int) -> float:
    """The same of a chain, each of whose agents is the only child of the one above."""
    async with _holding(max_depth=count) as (supervisor, blocked):
        root = await supervisor.start_root(PARENT, interactive=True)
        at = root
        for _ in range(count):
            (at,) = await _held_below(supervisor, bare, at, 1)
        await blocked(count)
        began = CLOCK.now()
        await supervisor.cancel(root, grace_s=60)
        seconds = CLOCK.now() - began
        assert at.state == "gone"
    return seconds


async def bare_cancel(bare: Bare, count: int) -> float:
    """Blocked tasks, each with what the backend needs to cancel it alone."""
    return await bare.cancel_blocked(count)


Until = Callable[[int], Awaitable[None]]
"""Waits until so many agents are in a model call."""


@asynccontextmanager
async def _holding(
    *, max_depth: int = 3
) -> AsyncIterator[tuple[ramet.Supervisor, Until]]:
    """A supervisor whose models wait for ever."""
    blocked = wanted = 0
    enough = anyio.Event()

    async def mind(request: ramet.ModelRequest) -> str:
        nonlocal blocked
        blocked += 1
        if blocked == wanted:
            enough.set()
        await anyio.sleep_forever()
        raise AssertionError("it sleeps for ever")

    async def until(count: int) -> None:
        nonlocal wanted
        wanted = count
        if blocked < count:
            await enough.wait()

    policy = ramet.Policy(notices="quiet", max_depth=max_depth)
    model = ramet.FunctionModel(mind)
    async with ramet.open(":memory:", model=model, policy=policy) as supervisor:
        yield supervisor, until


async def _held_below(
    supervisor: ramet.Supervisor, bare: Bare, parent: ramet.Agent, count: int
) -> list[ramet.Agent]:
    """Start children that are in a turn, and stay in it."""
    found: list[ramet.Agent] = []

    async def add() -> None:
        started = await supervisor.start_child(parent, HELD, "wait")
        child = supervisor.agent(started.child_id)
        assert child is not None
        found.append(child)

    await bare.at_once([add] * count)
    return found


def of(pieces: int, workload: Subject) -> Subject:
    """A workload of another number of pieces than its group has, per piece."""

    async def scaled(bare: Bare, count: int) -> float:
        return await workload(bare, pieces) / pieces * count

    return scaled


# -- the groups ------------------------------------------------------------------------

_LEVEL = {"asyncio": 200.0, "trio": 260.0}
_CANCEL = {"asyncio": 40.0, "trio": 55.0}


def groups(*, quick: bool) -> list[Group]:
    """Every group, with its count of pieces in a round."""

    def pieces(count: int) -> int:
        return count // 50 if quick else count

    many, deep = pieces(1_000), pieces(5_000)
    wide, tall = pieces(10_000), pieces(3_200)
    return [
        Group(
            "fan-in",
            pieces(100_000),
            {"reports of 1,000 children": fan_in, FAN: bare_fan_in},
            {"reports of 1,000 children": 10.0},
            {"reports of 1,000 children": FAN},
            rounds=3,
        ),
        Group(
            "many lives",
            wide,
            {
                "10,000 lives, 100 at a time": lives_in_waves,
                "10,000 lives, all at once": lives_at_once,
                CHILD: bare_children,
            },
            {"10,000 lives, 100 at a time": 150.0, "10,000 lives, all at once": 150.0},
            {"10,000 lives, 100 at a time": CHILD, "10,000 lives, all at once": CHILD},
            rounds=3,
        ),
        Group(
            "chain",
            many,
            {
                "1,000 levels, down and up": chain,
                "5,000 levels, down and up": of(deep, chain),
                CHAIN: bare_chain,
            },
            dict.fromkeys(
                ["1,000 levels, down and up", "5,000 levels, down and up"], _LEVEL
            ),
            {"1,000 levels, down and up": CHAIN, "5,000 levels, down and up": CHAIN},
            rounds=3,
        ),
        Group(
            "cancel",
            wide,
            {
                "cancel of a tree of 10,000": cancel_wide,
                "cancel of a chain of 3,200": of(tall, cancel_deep),
                CANCEL: bare_cancel,
            },
            dict.fromkeys(
                ["cancel of a tree of 10,000", "cancel of a chain of 3,200"], _CANCEL
            ),
            {
                "cancel of a tree of 10,000": CANCEL,
                "cancel of a chain of 3,200": CANCEL,
            },
            rounds=3,
        ),
    ]
