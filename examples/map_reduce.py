"""Map and reduce over files: each is summed up by an agent of its own, then all by one.

    ramet run examples/map_reduce.py --model local -- README.md CHANGELOG.md

Every file is a work unit.  When the run is gone on with and has more files than before,
those that were summed up are not read again:

    ramet run examples/map_reduce.py --model local --resume RUN \\
        --allow-changed-source -- README.md CHANGELOG.md CONTRIBUTING.md

A file that no summary came of is said so and does not stop the others; if the run ends
before its last call, `ramet resume` asks for that alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ramet

SHOWN = 1500
"""How many characters of a file are shown: small models read slowly."""

SENTENCE = {"type": "string"}
"""What is returned.  A small model would not come to an end by itself."""

root = ramet.AgentSpec("map_reduce")
reader = ramet.AgentSpec(
    "reader",
    """You sum up texts in one plain English sentence.

Example request:
Sum up this text in one sentence:

# rotatelog

Small command that renames a log file when it grows past a size and starts a new one.
Example answer:
{"tool":"reply","arguments":{"value":"The rotatelog command renames a log file when it \
gets too big and starts a new one."}}
Example request:
Sum up this text in one sentence:

# Code reviews

Every change needs one approval from a maintainer. Reviews should be kind.
Example answer:
{"tool":"reply","arguments":{"value":"Rules for code reviews, which say who must \
approve a change."}}
Example request:
Sum up this text in one sentence:

# Class: Timer

Calls the callback after a delay. timer.stop() cancels it.
Example answer:
{"tool":"reply","arguments":{"value":"Reference of the Timer class, which calls a \
function after a delay."}}
""",
)


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Sum up files, and then the summaries."""
    paths = list(flow.args) or ["README.md"]

    async def summary(path: str) -> str:
        return await flow.agent(
            f"Sum up this text in one sentence:\n\n{beginning(path)}",
            label=path,
            title=f"the file {path}",
            spec=reader,
            schema=SENTENCE,
            attempts=2,
        )

    flow.phase("map")
    members = [item.bind(summary) for item in flow.items("file", paths)]
    try:
        summaries: list[str | None] = list(await flow.parallel(members))
    except ramet.GroupFailureError as error:
        summaries = [one.value for one in error.settled]
    found = {path: one for path, one in zip(paths, summaries, strict=True) if one}
    missing = [path for path in paths if path not in found]
    if not found:
        return {"summaries": found, "without": missing, "whole": None}
    flow.phase("reduce")
    listed = "\n".join(found.values())
    whole = await flow.agent(
        f"Sum up this text in one sentence:\n\n{listed}",
        label="whole",
        spec=reader,
        schema=SENTENCE,
    )
    return {"summaries": found, "without": missing, "whole": whole}


def beginning(path: str) -> str:
    """The beginning of a file's text."""
    return Path(path).read_text(encoding="utf-8", errors="replace")[:SHOWN]
