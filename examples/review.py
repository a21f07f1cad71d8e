"""A review with routing by choice: a clerk reads a change, and its verdict decides.

    ramet run examples/review.py --model local --input '"def area(w, h): return w + h"'

The verdict is exactly one of three words, so that `match` needs no other case.  Two
reviewers look at it side by side, each with a question of its own; when they differ, a
third one decides.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ramet

VERDICTS = ["approve", "change", "reject"]
QUESTIONS = {
    "meaning": "Does this code do what its name says?",
    "reading": "Is this code easy to read?",
}
SAMPLE = "def area(width, height):\n    return width + height\n"

root = ramet.AgentSpec("review")
reviewer = ramet.AgentSpec(
    "reviewer",
    """You review small pieces of Python code. You answer approve when the code is good,
change when a part of it is wrong, and reject when it is not needed at all.

Example request:
Does this code do what its name says?

def double(number):
    return number * 2
Example answer:
{"tool":"reply","arguments":{"value":"approve"}}
Example request:
Does this code do what its name says?

def half(number):
    return number * 2
Example answer:
{"tool":"reply","arguments":{"value":"change"}}
""",
)
writer = ramet.AgentSpec(
    "writer",
    """You write short notes to programmers.

Example request:
Say in one sentence what to change in this code:

def half(number):
    return number * 2
Example answer:
{"tool":"reply","arguments":{"value":"The function half must divide the number by two \
instead."}}
""",
)


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Review a piece of code, and say what becomes of it."""
    code = SAMPLE if flow.input is None else str(flow.input)
    flow.phase("review")
    verdicts = await flow.parallel(
        [
            partial(
                flow.agent,
                f"{question}\n\n{code}",
                label=name,
                spec=reviewer,
                choice=VERDICTS,
                choice_fallback="change",
            )
            for name, question in QUESTIONS.items()
        ]
    )
    verdict = verdicts[0]
    if verdicts[1] != verdict:
        flow.log(f"they differ: {verdicts[0]} and {verdicts[1]}")
        verdict = await flow.agent(
            f"Is this code good?\n\n{code}\n"
            f"One said {verdicts[0]}, another {verdicts[1]}.",
            label="third reviewer",
            spec=reviewer,
            choice=VERDICTS,
            choice_fallback="change",
        )
    flow.phase("answer")
    match verdict:
        case "approve":
            note = "It is merged."
        case "change":
            note = await flow.agent(
                f"Say in one sentence what to change in this code:\n\n{code}",
                label="note",
                spec=writer,
                schema={"type": "string"},
            )
        case _:
            note = "It is closed."
    return {"verdicts": verdicts, "verdict": verdict, "note": note}
