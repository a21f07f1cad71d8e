"""A human in the loop: an agent asks for leave, and waits until a person answers.

    ramet run examples/approval.py --model local

The tool `ask_person` makes a pipe and says its name; the agent is parked in its call
until somebody writes into it, from another terminal, after minutes or days:

    echo yes > leave

The word decides what the script does.  A run that is interrupted meanwhile asks again
when it is gone on with: what nobody answered has not happened.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

import ramet

PIPE = "leave"
WORDS = ["yes", "no"]


def ask_person(question: str) -> str:
    """Ask a person for leave, and wait for the answer.

    Args:
        question: what is to be allowed, in one sentence.
    """
    if not os.path.exists(PIPE):
        os.mkfifo(PIPE)
    elif not stat.S_ISFIFO(os.stat(PIPE).st_mode):
        return f"there is a file called {PIPE}, so that nobody can be asked"
    print(f"{question}\n  answer with: echo yes > {PIPE}", file=sys.stderr)
    with open(PIPE, encoding="utf-8") as pipe:
        said = pipe.read().strip()
    os.unlink(PIPE)
    return said or "no"


root = ramet.AgentSpec("approval")
clerk = ramet.AgentSpec(
    "clerk",
    "You ask a person with ask_person before anything is done, and then return exactly"
    " what the person said: yes or no.",
    tools=[ask_person],
)


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Do something only if a person allows it."""
    plan = "remove the old files" if flow.input is None else str(flow.input)
    flow.phase("ask")
    said = await flow.agent(
        f"Ask whether we may {plan}.",
        label="leave",
        spec=clerk,
        choice=WORDS,
        choice_fallback="no",
    )
    flow.phase("act")
    if said == "yes":
        flow.log(f"allowed: {plan}")
    return {"plan": plan, "allowed": said == "yes"}
