"""A review with routing by choice: a clerk reads a change, and its verdict decides.

    ramet run examples/review.py --model local --input '"def area(w, h): return w + h"'

The verdict is exactly one of three words, so that `match` needs no other case.  Two
reviewers look at the change side by side; when they differ, a third one decides.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ramet

VERDICTS = ["approve", "change", "reject"]
SAMPLE = "def area(width, height):\n    return width + height\n"

root = ramet.AgentSpec("review")
reviewer = ramet.AgentSpec("reviewer", "You review small pieces of Python code.")
writer = ramet.AgentSpec("writer", "You write short notes to programmers.")


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Review a piece of code, and say what becomes of it."""
    code = SAMPLE if flow.input is None else str(flow.input)
    flow.phase("review")
    asked = f"Is this code right?\n\n{code}"
    verdicts = await flow.parallel(
        [
            partial(
                flow.agent,
                asked,
                label=f"reviewer {number}",
                spec=reviewer,
                choice=VERDICTS,
                choice_fallback="change",
            )
            for number in (1, 2)
        ]
    )
    verdict = verdicts[0]
    if verdicts[1] != verdict:
        flow.log(f"they differ: {verdicts[0]} and {verdicts[1]}")
        verdict = await flow.agent(
            f"{asked}\nOne said {verdicts[0]}, another {verdicts[1]}.",
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
                text=True,
            )
        case _:
            note = "It is closed."
    return {"verdicts": verdicts, "verdict": verdict, "note": note}
