"""Opening and leaving, again and again, with work in between: nothing is left behind.

An ordinary run makes 40 cycles for each backend and store, `--full-sweeps` makes the
1,000 that the goals name.  Tasks, threads and open files are counted after every
cycle, and memory is compared between the later halves of the run.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil  # type: ignore[import-untyped]
import pytest
import trio

import ramet
from ramet import AgentSpec, Call, ModelRequest, ModelResponse
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.runtime import Runtime
from ramet.mailbox.session import Session
from tests.lifecycle.stage import LEAD, ORACLE

pytestmark = pytest.mark.anyio

MOST_BYTES = 400
"""What a cycle may add on average.  About 100 are measured: the scanners of regular
expressions, which read a tool's docstring, are not all given back by Python."""

KEPT = (ramet.Supervisor, ramet.Agent, Activation, Runtime, Session)
"""What must be collected when a block was left."""


def dig() -> str:
    """Dig, in a worker thread."""
    return "dug"


SCOUT = AgentSpec("scout", tools=[dig])


async def think(request: ModelRequest) -> str | ModelResponse:
    """The mind of everybody: it digs, reports and returns."""
    await anyio.lowlevel.checkpoint()
    last = request.messages[-1]
    if request.name == "oracle":
        return _calls("reply", value=1)
    if request.name == "lead":
        return "noted"
    if isinstance(last, ramet.UserMessage):
        return _calls("dig")
    assert isinstance(last, ramet.ToolMessage)
    if last.calls[0].name == "dig":
        return _calls("report", output="found it")
    return "done"


def _calls(name: str, **arguments: Any) -> ModelResponse:
    return ModelResponse("", (Call(name, json.dumps(arguments)),), "tool_calls")


async def cycle(store: str) -> None:
    """Open a store, let three agents work in it, and leave while one still does."""
    model = ramet.FunctionModel(think)
    specs = (LEAD, SCOUT, ORACLE)
    async with ramet.open(store, specs=specs, model=model) as supervisor:
        supervisor.register_setup(ramet.report_setup())
        root = await supervisor.start_root(LEAD, interactive=True)
        started = await supervisor.start_child(root, SCOUT, "go", key="scout")
        outcome: Any = await supervisor.call(root, ORACLE, "ask", key="oracle")
        assert outcome.unwrap() == 1
        assert (await supervisor.wait(started.message_id)).status == "completed"
        stream = supervisor.events(root.id)
        await anext(stream)
        await supervisor.tell(root, "and now")


def tasks(backend: str) -> int:
    """How many tasks the loop has."""
    if backend == "asyncio":
        return len(asyncio.all_tasks())
    return trio.lowlevel.current_statistics().tasks_living


def threads() -> list[str]:
    """The threads, but for the idle workers that the backend keeps for a while."""
    cached = ("AnyIO worker thread", "Trio thread")
    names = [thread.name for thread in threading.enumerate()]
    return sorted(name for name in names if not name.startswith(cached))


def alive() -> dict[str, int]:
    """What there is of the objects that must be collected."""
    gc.collect()
    found = [type(it) for it in gc.get_objects() if isinstance(it, KEPT)]
    return {kind.__name__: found.count(kind) for kind in KEPT}


def taken() -> tracemalloc.Snapshot:
    """What is in memory, but for what measuring it needs."""
    gc.collect()
    own = (tracemalloc.__file__, "*/coverage/*")
    left_out = [tracemalloc.Filter(False, pattern) for pattern in own]
    return tracemalloc.take_snapshot().filter_traces(left_out)


@pytest.mark.case("R-117")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_nothing_is_left_of_many_cycles(
    kind: str,
    anyio_backend: str,
    tmp_path: Path,
    full_sweeps: bool,
    remark: Callable[[str], None],
) -> None:
    count = 1_000 if full_sweeps else 40
    store = ":memory:" if kind == "memory" else str(tmp_path / "store.db")
    process = psutil.Process()
    for _ in range(10):
        await cycle(store)
    before = alive()
    held = tasks(anyio_backend), threads(), process.num_fds()
    tracemalloc.start()
    half = taken()
    try:
        for number in range(count):
            if number == count // 2:
                half = taken()
            await cycle(store)
            found = tasks(anyio_backend), threads(), process.num_fds()
            assert found == held, f"left after cycle {number}"
        differences = taken().compare_to(half, "lineno")
    finally:
        tracemalloc.stop()
    grown = sum(one.size_diff for one in differences) / (count - count // 2)
    # Other tests may have left some, which go when they like.
    after = alive()
    assert all(after[name] <= before[name] for name in before), (before, after)
    most = "\n".join(map(str, differences[:5]))
    assert grown < MOST_BYTES, f"each cycle keeps {grown:.0f} bytes:\n{most}"
    remark(
        f"{count} cycles on {anyio_backend}, {kind}: nothing left;"
        f" memory grew by {grown:.0f} bytes a cycle"
    )
