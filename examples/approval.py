"""A human in the loop: what an agent wants to do waits until a person allows it.

    ramet run examples/approval.py --model local

The agent calls the tool `publish`, and is parked in its call until somebody answers
from another terminal, after minutes or days:

    ramet log approval          # shows what is asked
    echo yes > leave            # or: echo no > leave

The tool itself acts on the answer, so that nothing depends on how an agent repeats it.
A run that is interrupted meanwhile asks again when it is gone on with: what nobody has
answered has not happened.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import anyio

import ramet

PIPE = Path("leave")
"""A named pipe: who writes to it waits until it is read, and the other way round."""

BOARD = Path("board.txt")

root = ramet.AgentSpec("approval")
clerk = ramet.AgentSpec(
    "clerk",
    """You write a notice of one sentence, put it on the board with publish, and say in
a few words what became of it.

Example request:
Write a notice about bread.
Example answer:
{"tool":"publish","arguments":{"notice":"Fresh bread is sold at the gate from eight in \
the morning."}}
""",
)


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Have a notice written, which a person sees before everybody does."""
    about = "the new watering hours" if flow.input is None else str(flow.input)

    async def publish(notice: str) -> str:
        """Put a notice on the board, if a person allows it.

        Args:
            notice: the notice, in one sentence.
        """
        make_pipe()
        flow.log(f"may this go on the board? {notice}")
        flow.log(f"answer from another terminal: echo yes > {PIPE}")
        # Whoever interrupts the run does not wait for the person.
        said = await anyio.to_thread.run_sync(answer, abandon_on_cancel=True)
        flow.log(f"a person said {said or 'nothing'}")
        if said != "yes":
            return "It was not allowed, and is not on the board."
        put_up(notice)
        return "It is on the board."

    said = await flow.agent(
        f"Write a notice about {about}.",
        label="notice",
        spec=clerk,
        tools=[publish],
        text=True,
    )
    return {"about": about, "the clerk says": said, "on the board": notices()}


def put_up(notice: str) -> None:
    """Write a notice on the board."""
    with BOARD.open("a", encoding="utf-8") as board:
        board.write(f"{notice}\n")


def notices() -> list[str]:
    """What is on the board: that is the truth, whatever an agent says."""
    return BOARD.read_text(encoding="utf-8").splitlines() if BOARD.exists() else []


def make_pipe() -> None:
    """Make the pipe, unless an earlier process of the run has left it."""
    if PIPE.exists() and not stat.S_ISFIFO(PIPE.stat().st_mode):
        # Somebody answered before anything was asked: that is no answer.
        PIPE.unlink()
    if not PIPE.exists():
        os.mkfifo(PIPE)


def answer() -> str:
    """What a person writes into the pipe; it blocks until somebody does."""
    said = PIPE.read_text(encoding="utf-8").strip().lower()
    PIPE.unlink()
    return said
