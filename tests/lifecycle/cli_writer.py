"""A process that runs agents on a store until it is killed; tests of commands start it.

    python cli_writer.py FILE hold     a lead and its children; one stays in its turn
    python cli_writer.py FILE finish   the same, and everything comes to its end

It prints one JSON line with the ids.  With `hold` it then waits for a line of input
before it lets the turn go on; the end of its input makes it leave in order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread

import ramet
from ramet.testing import Gate, ScriptedModel, call, step

TRICKY = "\x1b[31mred\x1b[0m \udcff \u202e turned\nsecond line"


def scripted(gate: Gate) -> ScriptedModel:
    """The mind of every agent."""
    usage = ramet.Usage(1, 1200, 34)
    return ScriptedModel(
        {
            "lead": [step("I have read it.")] * 9,
            "scout": [
                step(TRICKY, calls=[call("report", output="found it")], usage=usage),
                step("done"),
            ],
            "slow": [step("late", hold=gate)],
            "oracle": [step(calls=[call("reply", value="yes")])],
        }
    )


async def run(
    path: str,
    pace: str,
    tell: Callable[[dict[str, str]], None],
    wait: Callable[[], Awaitable[Any]] | None = None,
) -> None:
    """Run the agents; `tell` gets the ids when they are where they should be."""
    gate = Gate()
    lead, scout, slow, oracle = specs = [
        ramet.AgentSpec(name) for name in ("lead", "scout", "slow", "oracle")
    ]
    if pace == "finish":
        gate.open()
    async with ramet.open(path, specs=specs, model=scripted(gate)) as supervisor:
        supervisor.register_setup(ramet.report_setup())
        root = await supervisor.start_root(lead, interactive=True)
        first = await supervisor.start_child(root, scout, "look at this\nand at that")
        await supervisor.wait(first.message_id)
        answer = await supervisor.call(
            root, oracle, "well?", contract=ramet.Choice(["yes", "no"])
        )
        second = await supervisor.start_child(root, slow, TRICKY)
        await root.wait_idle()
        if pace == "hold":
            await gate.reached()
        else:
            await supervisor.wait(second.message_id)
        tell(
            {
                "lead": root.id,
                "scout": first.child_id,
                "slow": second.child_id,
                "oracle": answer.session_id,
                "message": first.message_id,
            }
        )
        if wait is not None and await wait():
            gate.open()
            await supervisor.wait(second.message_id)
            print("went on", flush=True)
            await wait()
        gate.open()


async def read_line() -> str:
    """A line of input; at its end, nothing."""
    return await anyio.to_thread.run_sync(sys.stdin.readline)


def print_ids(ids: dict[str, str]) -> None:
    """Say where everything is."""
    print(json.dumps(ids), flush=True)


if __name__ == "__main__":
    hold = read_line if sys.argv[2] == "hold" else None
    anyio.run(run, sys.argv[1], sys.argv[2], print_ids, hold)
