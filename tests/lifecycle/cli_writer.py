"""A process that runs agents on a store until it is killed; tests of commands start it.

    python cli_writer.py FILE hold     a lead and two scouts; one stays in its turn
    python cli_writer.py FILE finish   the same, and everything comes to its end

It prints one JSON line with the ids.  With `hold` it then waits for a line of input
before it lets the turn go on; the end of its input makes it leave in order.
"""

from __future__ import annotations

import json
import sys

import anyio
import anyio.to_thread

import ramet
from ramet.testing import Gate, ScriptedModel, call, step

TRICKY = "\x1b[31mred\x1b[0m \udcff \u202e turned\nsecond line"


async def main(path: str, pace: str) -> None:
    gate = Gate()
    usage = ramet.Usage(1, 1200, 34)
    model = ScriptedModel(
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
    lead, scout, slow, oracle = map(
        ramet.AgentSpec, ("lead", "scout", "slow", "oracle")
    )
    if pace == "finish":
        gate.open()
    async with ramet.open(path, specs=[lead, scout, slow, oracle], model=model) as top:
        top.register_setup(ramet.report_setup())
        root = await top.start_root(lead, interactive=True)
        first = await top.start_child(root, scout, "look at this\nand at that")
        await top.wait(first.message_id)
        answer = await top.call(
            root, oracle, "well?", contract=ramet.Choice(["yes", "no"])
        )
        second = await top.start_child(root, slow, TRICKY)
        if pace == "hold":
            await gate.reached()
        else:
            await top.wait(second.message_id)
        ids = {
            "lead": root.id,
            "scout": first.child_id,
            "slow": second.child_id,
            "oracle": answer.session_id,
            "message": first.message_id,
        }
        print(json.dumps(ids), flush=True)
        if pace == "hold" and await anyio.to_thread.run_sync(sys.stdin.readline):
            gate.open()
            await top.wait(second.message_id)
            print("went on", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
