"""Agents at work in memory: acceptance, turns, lives and calls, beside bare actors.

Lives here: the workloads whose goals are microseconds.  Everything of ramet is used by
its public names.  Each round opens a supervisor of its own, outside the clock, so that
no round pays for what an earlier one left behind.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
from bare import Bare
from bare_work import (
    TEXT,
    bare_children,
    bare_tell,
    bare_turns_at_once,
    bare_turns_in_a_row,
)
from clock import CLOCK
from rounds import Group

import ramet

QUIET = ramet.Policy(notices="quiet")
PARENT = ramet.AgentSpec("parent")
WORKER = ramet.AgentSpec("worker")
HELD = ramet.AgentSpec("held")
ORACLE = ramet.AgentSpec("oracle")

_ASKED: dict[str, anyio.Event] = {}
"""Set when the model of a held agent is asked: what it costs is outside the clock."""


@asynccontextmanager
async def opened(
    policy: ramet.Policy | None = None,
) -> AsyncIterator[ramet.Supervisor]:
    """A supervisor in memory whose model answers at once; `held` waits for ever."""

    async def mind(request: ramet.ModelRequest) -> str | ramet.ModelResponse:
        if request.name == "held":
            _ASKED.setdefault(request.session_id, anyio.Event()).set()
            await anyio.sleep_forever()
        if request.name == "oracle":
            answer = ramet.Call("reply", '{"value": "yes"}', "c1")
            return ramet.ModelResponse("", (answer,), "tool_calls")
        return "ok"

    model = ramet.FunctionModel(mind)
    async with ramet.open(":memory:", model=model, policy=policy) as supervisor:
        yield supervisor


async def pair(supervisor: ramet.Supervisor) -> tuple[ramet.Agent, ramet.Agent]:
    """An idle root and a child of it that is in a turn."""
    parent = await supervisor.start_root(PARENT, interactive=True)
    started = await supervisor.start_child(parent, HELD, "wait")
    await _ASKED.setdefault(started.child_id, anyio.Event()).wait()
    del _ASKED[started.child_id]
    child = supervisor.agent(started.child_id)
    assert child is not None
    return parent, child


# -- acceptance ------------------------------------------------------------------------


async def accept(bare: Bare, count: int, *, keyed: bool = False) -> float:
    """Quiet reports to an idle parent, each returning at its acceptance."""
    async with opened(QUIET) as supervisor:
        parent, child = await pair(supervisor)
        report = supervisor.report_from
        keys = [f"key {place}" for place in range(count)]
        began = CLOCK.now()
        if keyed:
            for key in keys:
                await report(child, TEXT, key=key, ack="accepted")
        else:
            for _ in range(count):
                await report(child, TEXT, ack="accepted")
        seconds = CLOCK.now() - began
        await report(child, TEXT, ack="stored")
        assert parent.statistics()["transcript"] == count + 1
    return seconds


async def accept_and_store(bare: Bare, count: int) -> float:
    """The same, with what the commit of all of them costs."""
    async with opened(QUIET) as supervisor:
        _, child = await pair(supervisor)
        report = supervisor.report_from
        began = CLOCK.now()
        for _ in range(count):
            await report(child, TEXT, ack="accepted")
        await report(child, TEXT, ack="stored")
        return CLOCK.now() - began


async def awaits_alone(bare: Bare, count: int) -> float:
    """Two coroutines and the check for cancellation around nothing."""

    async def outer(text: str) -> str:
        return await inner(text)

    async def inner(text: str) -> str:
        await anyio.lowlevel.checkpoint_if_cancelled()
        return text

    began = CLOCK.now()
    for _ in range(count):
        await outer(TEXT)
    return CLOCK.now() - began


# -- turns -----------------------------------------------------------------------------


async def turns_at_once(bare: Bare, count: int) -> float:
    """Wake many idle agents in one span, and wait until all of them are idle again."""
    async with opened(QUIET) as supervisor:
        pairs: list[tuple[ramet.Agent, ramet.Agent]] = []

        async def add() -> None:
            pairs.append(await pair(supervisor))

        await bare.at_once([add] * count)
        report = supervisor.report_from
        began = CLOCK.now()
        for _, child in pairs:
            await report(child, TEXT, delivery="wakeup", ack="accepted")
        for parent, _ in pairs:
            await parent.wait_idle()
        seconds = CLOCK.now() - began
        assert all(one.statistics()["requests"] == 1 for one, _ in pairs)
    return seconds


async def turns_in_a_row(bare: Bare, count: int) -> float:
    """Tell one root, wait until it is idle, and again."""
    async with opened() as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)
        began = CLOCK.now()
        for _ in range(count):
            await supervisor.tell(root, TEXT)
            await root.wait_idle()
        seconds = CLOCK.now() - began
        assert root.statistics()["requests"] == count
    return seconds


# -- lives -----------------------------------------------------------------------------


async def lives_at_once(bare: Bare, count: int) -> float:
    """Start children of one parent, all at once, and wait for the outcome of each."""
    async with opened(QUIET) as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)

        async def life() -> None:
            started = await supervisor.start_child(root, WORKER, "look")
            await supervisor.wait(started.message_id)

        began = CLOCK.now()
        await bare.at_once([life] * count)
        return CLOCK.now() - began


async def lives_in_a_row(bare: Bare, count: int) -> float:
    """Start one child, wait for its outcome and for its parent, and again.

    Its notice wakes the parent, so that each life pays for a turn of the parent too.
    """
    async with opened() as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)
        began = CLOCK.now()
        for _ in range(count):
            started = await supervisor.start_child(root, WORKER, "look")
            await supervisor.wait(started.message_id)
            await root.wait_idle()
        seconds = CLOCK.now() - began
        assert root.statistics()["requests"] == count
    return seconds


async def calls_at_once(bare: Bare, count: int) -> float:
    """One-shot calls of one parent, all at once, each with its one reply."""
    async with opened() as supervisor:
        root = await supervisor.start_root(PARENT, interactive=True)

        async def ask() -> None:
            outcome = await supervisor.call(root, ORACLE, "well?")
            assert outcome.unwrap() == "yes"

        began = CLOCK.now()
        await bare.at_once([ask] * count)
        return CLOCK.now() - began


# -- what needs no loop ----------------------------------------------------------------

_TEXT_NODE = {"type": "string", "minLength": 1, "maxLength": 200}
_SCHEMA = {
    "type": "object",
    "properties": {
        "title": _TEXT_NODE,
        "findings": {
            "type": "array",
            "minItems": 1,
            "maxItems": 40,
            "items": {
                "type": "object",
                "properties": {
                    "file": _TEXT_NODE,
                    "line": {"type": "integer", "minimum": 1},
                    "severity": {"type": "string", "enum": ["low", "high"]},
                    "text": _TEXT_NODE,
                },
                "required": ["file", "line", "severity", "text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["title", "findings"],
    "additionalProperties": False,
}
_VALUE = {
    "title": "what was found",
    "findings": [
        {"file": f"src/module_{n}.py", "line": n + 1, "severity": "low", "text": TEXT}
        for n in range(13)
    ],
}


async def schema_checks(bare: Bare, count: int) -> float:
    """Check an object of 2 KB against a schema of the dialect."""
    check = ramet.Schema(_SCHEMA).check
    assert check(_VALUE) == ()
    began = CLOCK.now()
    for _ in range(count):
        check(_VALUE)
    return CLOCK.now() - began


async def bare_parsing(bare: Bare, count: int) -> float:
    """Parse the text of the same object."""
    text = json.dumps(_VALUE)
    assert 1_900 < len(text) < 2_100, len(text)
    began = CLOCK.now()
    for _ in range(count):
        json.loads(text)
    return CLOCK.now() - began


# -- the groups ------------------------------------------------------------------------

TELL = "limit: bare tell"
TURN = "limit: bare turns at once"
ASK = "limit: bare turns in a row"
CHILD = "limit: bare children"
PARSE = "limit: json.loads of it"


def groups(*, quick: bool) -> list[Group]:
    """Every group, with its count of pieces in a round."""
    trip = 20 if quick else 1

    def pieces(count: int) -> int:
        return max(count // trip, 5)

    subjects: dict[str, Callable[[Bare, int], Awaitable[float]]] = {
        "accept": accept,
        "accept with a key": partial(accept, keyed=True),
        "accept and its commit": accept_and_store,
        "the awaits of accept alone": awaits_alone,
        TELL: bare_tell,
    }
    return [
        Group(
            "acceptance",
            pieces(3000),
            subjects,
            {"accept": 6.0},
            dict.fromkeys(list(subjects)[:3], TELL),
        ),
        Group(
            "turns",
            pieces(400),
            {
                "turns of many at once": turns_at_once,
                "turns of one in a row": turns_in_a_row,
                TURN: bare_turns_at_once,
                ASK: bare_turns_in_a_row,
            },
            {"turns of many at once": {"asyncio": 60.0, "trio": 65.0}},
            {"turns of many at once": TURN, "turns of one in a row": ASK},
        ),
        Group(
            "lives",
            pieces(400),
            {
                "start, turn, settle at once": lives_at_once,
                "start, turn, settle in a row": lives_in_a_row,
                CHILD: bare_children,
            },
            {"start, turn, settle at once": 150.0},
            {
                "start, turn, settle at once": CHILD,
                "start, turn, settle in a row": CHILD,
            },
        ),
        Group(
            "delegation",
            5 if quick else 100,
            {"calls, all at once": calls_at_once, CHILD: bare_children},
            {"calls, all at once": 120.0},
            {"calls, all at once": CHILD},
        ),
        Group(
            "schema",
            pieces(1000),
            {"check of 2 KB": schema_checks, PARSE: bare_parsing},
            {"check of 2 KB": 50.0},
            {"check of 2 KB": PARSE},
        ),
    ]
