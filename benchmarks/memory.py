"""Memory: what an idle agent costs that has done some work.

Lives here: a program of its own, since memory can only be told of a fresh process.  It
starts agents, gives each two turns, so that its log holds exactly ten events, and then
weighs them.  `python memory.py BACKEND STORE AGENTS` prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from functools import partial
from pathlib import Path
from time import process_time

import bare
from rounds import Measured

import ramet

EVENTS = 10
_AT_ONCE = 200


def resident_bytes() -> int:
    """The memory of this process that is in use, as the operating system counts it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import psutil

        return int(psutil.Process().memory_info().rss)
    return pages * os.sysconf("SC_PAGE_SIZE")


def collection_s() -> float:
    """The seconds of a full collection: processor time, the least of a few."""
    times = []
    for _ in range(4):
        began = process_time()
        gc.collect()
        times.append(process_time() - began)
    return min(times)


async def weigh(
    backend: bare.Bare, *, store: str, agents: int, traced: bool
) -> dict[str, float]:
    """Bytes of one agent, and milliseconds of a full collection with all of them."""

    async def mind(request: ramet.ModelRequest) -> str:
        return "ok"

    spec = ramet.AgentSpec("idle", "Answer.")
    held: list[ramet.Agent] = []
    async with ramet.open(store, model=ramet.FunctionModel(mind)) as supervisor:

        async def add() -> None:
            agent = await supervisor.start_root(spec, interactive=True)
            for _ in range(2):
                await supervisor.tell(agent, "go on")
                await agent.wait_idle()
            assert agent.statistics()["events"] == EVENTS
            held.append(agent)

        for _ in range(3):
            await add()
        without_s = collection_s()
        if traced:
            tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0] if traced else resident_bytes()
        first = len(held)
        while len(held) < first + agents:
            await backend.at_once([add] * min(_AT_ONCE, first + agents - len(held)))
        collected_s = collection_s()
        after = tracemalloc.get_traced_memory()[0] if traced else resident_bytes()
        if traced:
            tracemalloc.stop()
        held.clear()
    return {
        "bytes": (after - before) / agents,
        "collect_ms": collected_s * 1e3,
        "collect_more_ms": (collected_s - without_s) * 1e3,
    }


def in_a_process(
    backend: str, store: str, agents: int, *, traced: bool
) -> dict[str, float]:
    """Run this file in a process of its own."""
    how = "traced" if traced else "resident"
    command = [sys.executable, __file__, backend, store, str(agents), how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(backend: str, agents: int, directory: str | None) -> list[Measured]:
    """An agent alone, with its log in a file, and one whose log is in memory too."""
    found: list[Measured] = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        for store, where in ((folder, "log in a file"), (":memory:", "log in memory")):
            traced = in_a_process(backend, store, agents, traced=True)
            resident = in_a_process(backend, store, agents, traced=False)
            goal = 4096.0 if store == folder else None
            most = 200.0 if store == folder and agents == 100_000 else None
            for name, unit, value, aim in (
                ("idle agent, traced", "B", traced["bytes"], goal),
                ("idle agent, resident", "B", resident["bytes"], goal),
                (f"collecting {agents:,}", "ms", resident["collect_ms"], most),
            ):
                one = Measured("memory", f"{name}, {where}", backend, unit, goal=aim)
                one.values.append(value)
                found.append(one)
    return found


def main(backend: str, store: str, agents: str, how: str) -> None:
    if store != ":memory:":
        store = os.path.join(store, f"{how}.db")
    weighing = partial(weigh, store=store, agents=int(agents), traced=how == "traced")
    print(json.dumps(bare.run(backend, weighing)))


if __name__ == "__main__":
    main(*sys.argv[1:])
