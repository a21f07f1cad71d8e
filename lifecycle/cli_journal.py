"""The journal as a person reads it: what each of its events is in words.

Lives here: one line for each kind of journal event, for `ramet log` of a run.  What is
not of a known form is shown as it is.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from ..mailbox.canonical import canonical_json
from .cli_text import Cell, one_line

__all__ = ["journal_line"]


_SEEN_S = 0.05
"""A shorter time prints as none."""


def journal_line(kind: str, text: str) -> tuple[list[Cell], str]:
    """The pieces of a line, and the text that it shows as much of as there is room.

    Args:
        kind: the kind of the journal event.
        text: its data, as canonical text.
    """
    try:
        data = json.loads(text)
        found = _LINES[kind](data)
    except (KeyError, TypeError, ValueError, AttributeError):
        return [("journal ", "mark"), (one_line(kind), "name")], text
    return found


def _run_started(data: dict[str, Any]) -> tuple[list[Cell], str]:
    cells: list[Cell] = [("run ", "title"), (f"of {one_line(data['script'])}", "name")]
    return cells, _given(data)


def _run_resumed(data: dict[str, Any]) -> tuple[list[Cell], str]:
    return [("run ", "title"), ("goes on", "note")], _given(data)


def _run_ended(data: dict[str, Any]) -> tuple[list[Cell], str]:
    status, error = one_line(data["status"]), data.get("error")
    if error is None:
        cells: list[Cell] = [("run ", "title"), (status, "good")]
        return cells, canonical_json(data["result"])
    cells = [("run ", "title"), (status, "bad")]
    cells.append((f" ({one_line(error['code'])})", "dim"))
    return cells, error["message"]


def _given(data: dict[str, Any]) -> str:
    """What a run was given: its model, its words and its input, as far as it was."""
    parts = [] if data.get("model") is None else [f"--model {data['model']}"]
    if data.get("input") is not None:
        parts.append(f"--input {shlex.quote(canonical_json(data['input']))}")
    if data.get("args"):
        parts.append(f"-- {shlex.join(data['args'])}")
    return " ".join(parts)


def _queued(data: dict[str, Any]) -> tuple[list[Cell], str]:
    cells: list[Cell] = [("call ", "title"), (_name(data), "name")]
    cells.append((f" of {one_line(data['spec'])}", "dim"))
    if data.get("fresh"):
        cells.append((f" runs fresh ({one_line(data['fresh'])})", "note"))
    return cells, data["title"] or ""


def _started(data: dict[str, Any]) -> tuple[list[Cell], str]:
    attempt = "" if data["attempt"] == 1 else f" (attempt {data['attempt']})"
    cells: list[Cell] = [
        ("call ", "title"),
        (one_line(data["call"]), "name"),
        (f" has the agent {one_line(data['session'])}{attempt}", "dim"),
    ]
    return cells, ""


def _ended(data: dict[str, Any]) -> tuple[list[Cell], str]:
    style = {"completed": "good", "cancelled": "note"}.get(data["status"], "bad")
    cells: list[Cell] = [("call ", "title"), (_name(data), "name"), (" ", "")]
    cells.append((one_line(data["status"]), style))
    if data["cause"]:
        cells.append((f" ({one_line(data['cause'])})", "dim"))
    if data["replayed"]:
        cells.append((" replayed", "mark"))
    else:
        cells.append((f" in {data['duration_ms'] / 1000:.1f}s{_waited(data)}", "dim"))
    return cells, data["text"] or ""


def _waited(data: dict[str, Any]) -> str:
    """How long it stood in a queue, where that can be seen; earlier journals say not.

    What came to an agent that never ran waited to its end.
    """
    if "waited_ms" not in data or data["session"] is None:
        return ""
    if data["waited_ms"] is None:
        return ", and never ran"
    waited_s = data["waited_ms"] / 1000
    return f", of which it waited {waited_s:.1f}s" if waited_s >= _SEEN_S else ""


def _log(data: dict[str, Any]) -> tuple[list[Cell], str]:
    code = data.get("code")
    if code is None:
        return [("log ", "mark")], data["text"]
    return [("log ", "mark"), (one_line(code), "dim")], data["text"]


def _phase(data: dict[str, Any]) -> tuple[list[Cell], str]:
    return [("phase ", "title"), (one_line(data["name"]), "name")], ""


def _group_started(data: dict[str, Any]) -> tuple[list[Cell], str]:
    return [("group ", "title"), (f"of {int(data['size'])} begins", "dim")], ""


def _group_ended(data: dict[str, Any]) -> tuple[list[Cell], str]:
    if data.get("cut"):
        calls = [f"{number} {status}" for status, number in data["calls"].items()]
        cells: list[Cell] = [("group ", "title"), (f"of {int(data['size'])} ", "dim")]
        cells.append(("was cut off", "note"))
        cells.append((f"; its calls: {one_line(', '.join(calls) or 'none')}", "dim"))
        return cells, ""
    counts = [
        f"{data[status]} {status}"
        for status in ("completed", "failed", "cancelled")
        if data[status]
    ]
    style = "bad" if data["failed"] else "good"
    return [("group ", "title"), (", ".join(counts) or "ended", style)], ""


def _name(data: dict[str, Any]) -> str:
    """How a person knows a call: its label, with its phase, else its id."""
    if not data["label"]:
        return one_line(data["call"])
    phase = f"{data['phase']}/" if data["phase"] else ""
    return one_line(f"{phase}{data['label']}")


_LINES = {
    "run.started": _run_started,
    "run.resumed": _run_resumed,
    "run.ended": _run_ended,
    "call.queued": _queued,
    "call.started": _started,
    "call.ended": _ended,
    "group.started": _group_started,
    "group.ended": _group_ended,
    "log": _log,
    "phase": _phase,
}
