"""A soak: an hour of work in virtual time, and what it leaves in memory.

Lives here: a forest in which agents come, report, are asked again, called and go, for
an hour by a clock that jumps whenever everybody waits.  Every few minutes what the
process holds is counted: objects that the collector knows, and bytes.  Only trio has
such a clock; what is kept is the runtime's own and the same on both.
"""

from __future__ import annotations

import gc
import os
import tempfile
import tracemalloc
from dataclasses import dataclass

import anyio
import trio
import trio.testing
from memory import resident_bytes

import ramet

_LEAD = ramet.AgentSpec("lead", "Lead.")
_SCOUT = ramet.AgentSpec("scout", "Look.")
_ORACLE = ramet.AgentSpec("oracle", "Say.")
_TEXT = "a finding of the usual length, which says what was looked at and what it means"
_MOST = 200
_EVERY_S = 300.0


@dataclass
class Weighed:
    """What the process held at one time."""

    minute: float
    turns: int
    commits: int
    objects: int
    traced: int
    resident: int


class _Store(ramet.SqliteStore):
    """A store that is called in the loop's own thread.

    The clock jumps when every task waits, also for a thread that is at work.
    """

    blocking = False


async def compact(compaction: ramet.Compaction) -> ramet.Shortened:
    """Keep the end."""
    return ramet.Shortened("what happened before", keep=10, verbatim=False)


async def mind(request: ramet.ModelRequest) -> str | ramet.ModelResponse:
    """Take a second or more for each answer."""
    await anyio.sleep(1.0 + len(request.session_id) % 3)
    if len(request.messages) > _MOST:
        raise ramet.ContextOverflowError("too long")
    if request.name == "oracle":
        answer = ramet.Call("reply", '{"value": "yes"}', "c1")
        return ramet.ModelResponse("", (answer,), "tool_calls")
    if request.name == "scout" and request.step == 0:
        said = ramet.Call("report", f'{{"output": "{_TEXT}"}}', "c1")
        return ramet.ModelResponse("", (said,), "tool_calls")
    return _TEXT


async def _work(
    supervisor: ramet.Supervisor, root: ramet.Agent, until_s: float
) -> None:
    """One strand: a child that reports and is asked again, then a call."""
    number = 0
    while trio.current_time() < until_s:
        number += 1
        key = f"start {number}"
        started = await supervisor.start_child(root, _SCOUT, _TEXT, key=key)
        await supervisor.wait(started.message_id)
        await supervisor.wait(await supervisor.followup(root, started.child_id, _TEXT))
        outcome = await supervisor.call(root, _ORACLE, _TEXT)
        assert outcome.unwrap() == "yes"
        await supervisor.tell(root, _TEXT, key=f"{root.id} {number}")


async def soak(path: str, *, hours: float, strands: int) -> list[Weighed]:
    """Run, and weigh now and then."""
    found: list[Weighed] = []
    policy = ramet.Policy(notices="quiet", compact=compact)
    opened = ramet.open(
        _Store(path),
        specs=[_LEAD, _SCOUT, _ORACLE],
        model=ramet.FunctionModel(mind),
        policy=policy,
    )
    async with opened as supervisor, trio.open_nursery() as nursery:
        supervisor.register_setup(ramet.report_setup())
        roots = [
            await supervisor.start_root(_LEAD, interactive=True) for _ in range(strands)
        ]
        end_s = trio.current_time() + hours * 3600
        for root in roots:
            nursery.start_soon(_work, supervisor, root, end_s)
        began = trio.current_time()
        while trio.current_time() < end_s:
            await trio.sleep(_EVERY_S if hours >= 1 else hours * 360)
            gc.collect()
            counted = supervisor.statistics()
            turns = sum(root.statistics().turns for root in roots)
            found.append(
                Weighed(
                    (trio.current_time() - began) / 60,
                    turns,
                    counted.commits,
                    len(gc.get_objects()),
                    tracemalloc.get_traced_memory()[0],
                    resident_bytes(),
                )
            )
    return found


def run(*, quick: bool, directory: str | None) -> int:
    """Run the soak and print what it held; 1 when memory grew."""
    hours, strands = (0.1, 3) if quick else (1.0, 20)
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def main(path: str) -> list[Weighed]:
        return await soak(path, hours=hours, strands=strands)

    with tempfile.TemporaryDirectory(dir=directory) as folder:
        tracemalloc.start()
        try:
            path = os.path.join(folder, "soak.db")
            found = trio.run(main, path, clock=clock)
        finally:
            tracemalloc.stop()
    print(f"{'minute':>7} {'turns':>8} {'commits':>9} {'objects':>9} {'traced':>11}")
    for one in found:
        print(
            f"{one.minute:7.1f} {one.turns:8} {one.commits:9} {one.objects:9}"
            f" {one.traced:11,}"
        )
    half = found[len(found) // 2 :]
    grown = half[-1].traced - half[0].traced
    lives = half[-1].turns - half[0].turns
    each = grown / max(lives, 1)
    flat = each < 100
    print(
        f"second half: {grown:,} bytes over {lives:,} turns of roots, {each:.1f} each"
    )
    print("memory is flat" if flat else "memory grows")
    return 0 if flat else 1
