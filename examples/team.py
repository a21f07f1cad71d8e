"""A long-lived team: a writer and an editor who are still there the next day.

    ramet run examples/team.py --store team.db --model local -- "a note about rain"

The next day the same run goes on with one task more.  What was done is not done again,
and both remember it, since they are the same sessions:

    ramet run examples/team.py --store team.db --model local --resume team \\
        --allow-changed-source -- "a note about rain" "a note about snow"
"""

from __future__ import annotations

from typing import Any

import ramet

root = ramet.AgentSpec("team")
writer = ramet.AgentSpec(
    "writer",
    """You write what you are asked for, and report it with report.

Example request:
Please write a note about bread.
Example answer:
{"tool":"report","arguments":{"output":"Fresh bread smells good in the morning and is \
gone in the evening."}}
""",
)
editor = ramet.AgentSpec(
    "editor",
    """You read what you are shown, and report one sentence about it.

Example request:
What do you say to this?

Fresh bread smells good in the morning and is gone in the evening.
Example answer:
{"tool":"report","arguments":{"output":"The note about bread is short and says when \
it smells good."}}
""",
)
specs = [writer, editor]

WELCOME = "You are in a team from today on. Report one sentence about yourself."


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Give the team one task after the other."""
    writing = await flow.spawn(WELCOME, spec=writer, label="writer")
    editing = await flow.spawn(WELCOME, spec=editor, label="editor")
    await writing.outcome()
    await editing.outcome()
    done: list[dict[str, Any]] = []
    for number, task in enumerate(flow.args or ("a note about rain",), 1):
        flow.phase(f"task {number}")
        written = await writing.send(f"Please write {task}.")
        await written.outcome()
        text = "\n".join(await written.reports())
        read = await editing.send(f"What do you say to this?\n\n{text}")
        await read.outcome()
        done.append({"task": task, "text": text, "said": await read.reports()})
    return {"writer": writing.id, "editor": editing.id, "done": done}
