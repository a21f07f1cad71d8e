"""The survey with a mind of its own, and ways to kill it: a program for tests.

    python counting_survey.py COUNTS KILL... -- WORDS OF RAMET...

Lives here: a deterministic model that writes one line to COUNTS for each request that
it is asked, and the counting of a store's writes.  KILL is `never`, `before N` or
`after N` (the Nth write of the store, before or after its commit), or `report N` (after
the Nth write that accepts a report, before its tool result can be stored).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ramet import (
    Call,
    FunctionModel,
    ModelRequest,
    ModelResponse,
    SqliteStore,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.lifecycle import opening
from ramet.lifecycle.cli import main
from ramet.mailbox.events import Accepted
from ramet.mailbox.store import Batch

CARD = {"title": "One", "kind": "guide", "minutes": 2}
OPENING = ("prompt", "followup", "tell", "nudge")


def counting(counts: Path) -> FunctionModel:
    """A model that reads, reports and closes, and counts its requests."""

    async def mind(request: ModelRequest) -> ModelResponse:
        line = f"{request.session_id} {request.turn} {request.step} {request.name}\n"
        with counts.open("a") as file:
            file.write(line)
        text, calls, stop = answer(request)
        return ModelResponse(text, calls, stop, Usage(1, 10, 2))

    return FunctionModel(mind)


def answer(request: ModelRequest) -> tuple[str, tuple[Call, ...], str]:
    """What the mind says: the text, the calls and the stop reason."""
    names = [tool.name for tool in request.tools]
    if "reply" in names:
        asked = request.tools[-1].parameters["properties"]["value"]
        value = asked["enum"][0] if "enum" in asked else CARD
        return "", (_call("reply", value=value),), "tool_calls"
    text = _read(request)
    if text is None:
        path = request.tools[0].parameters["properties"]["path"]["enum"][0]
        return "", (_call("read_file", path=path),), "tool_calls"
    if not _reported(request):
        asked = [one for one in request.messages if isinstance(one, UserMessage)][-1]
        seen = hashlib.sha256(text.encode()).hexdigest()[:12]
        report = f"To {asked.blocks[-1]!r}: {len(text)} characters, {seen}."
        return "", (_call("report", output=report),), "tool_calls"
    return "That is all.", (), "end_turn"


def _call(tool: str, **arguments: Any) -> Call:
    return Call(tool, json.dumps(arguments))


def _read(request: ModelRequest) -> str | None:
    for message in request.messages:
        if isinstance(message, ToolMessage):
            for call, result in zip(message.calls, message.results, strict=True):
                if call.name == "read_file" and result.error is None:
                    return result.content
    return None


def _reported(request: ModelRequest) -> bool:
    for message in reversed(request.messages):
        if isinstance(message, UserMessage) and message.source in OPENING:
            return False
        if isinstance(message, ToolMessage) and message.calls[0].name == "report":
            return True
    return False


class Counted(SqliteStore):
    """A store that kills its process at one write."""

    kill = "never"
    number = 0
    writes = 0
    reports = 0

    def append(self, batch: Batch) -> None:
        """Write, and die at the right moment."""
        cls = Counted
        cls.writes += 1
        if (cls.kill, cls.number) == ("before", cls.writes):
            os.kill(os.getpid(), signal.SIGKILL)
        super().append(batch)
        if any(
            isinstance(entry.event, Accepted) and entry.event.source == "report"
            for entry in batch.entries
        ):
            cls.reports += 1
            if (cls.kill, cls.number) == ("report", cls.reports):
                os.kill(os.getpid(), signal.SIGKILL)
        if (cls.kill, cls.number) == ("after", cls.writes):
            os.kill(os.getpid(), signal.SIGKILL)


def run(words: list[str]) -> int:
    """Run the command line with all of this in place."""
    place = words.index("--")
    counts, kill = Path(words[0]), words[1:place]
    Counted.kill = kill[0]
    Counted.number = int(kill[1]) if len(kill) > 1 else 0
    opening.SqliteStore = Counted  # type: ignore[attr-defined]
    status = main(words[place + 1 :])
    with counts.open("a") as file:
        file.write(f"# {Counted.writes} writes, {Counted.reports} with reports\n")
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
