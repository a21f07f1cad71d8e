"""The journal in words: one line for each kind of event, and what is odd as it is."""

from __future__ import annotations

from typing import Any

import pytest

from ramet.lifecycle.cli_journal import journal_line
from ramet.mailbox.canonical import canonical_json

CALL = {"call": "c1", "label": "a", "phase": "p", "title": None, "spec": "clerk"}
END = CALL | {
    "status": "completed",
    "cause": None,
    "replayed": False,
    "duration_ms": 1250,
    "text": None,
}


@pytest.mark.parametrize(
    ("kind", "data", "line", "text"),
    [
        ("call.queued", CALL, "call p/a of clerk", ""),
        (
            "call.queued",
            CALL | {"label": None, "title": "The one", "fresh": "no-record"},
            "call c1 of clerk runs fresh (no-record)",
            "The one",
        ),
        (
            "call.started",
            {"call": "c1", "attempt": 1, "session": "s1"},
            "call c1 has the agent s1",
            "",
        ),
        (
            "call.started",
            {"call": "c1", "attempt": 2, "session": "s1"},
            "call c1 has the agent s1 (attempt 2)",
            "",
        ),
        ("call.ended", END | {"phase": ""}, "call a completed in 1.2s", ""),
        ("call.ended", END | {"replayed": True}, "call p/a completed replayed", ""),
        (
            "call.ended",
            END | {"status": "failed", "cause": "no-reply", "text": "why"},
            "call p/a failed (no-reply) in 1.2s",
            "why",
        ),
        ("group.started", {"size": 3}, "group of 3 begins", ""),
        (
            "group.ended",
            {"completed": 2, "failed": 1, "cancelled": 0},
            "group 2 completed, 1 failed",
            "",
        ),
        (
            "group.ended",
            {"completed": 0, "failed": 0, "cancelled": 0},
            "group ended",
            "",
        ),
        (
            "group.ended",
            {"size": 3, "cut": True, "calls": {"completed": 2, "failed": 1}},
            "group of 3 was cut off; its calls: 2 completed, 1 failed",
            "",
        ),
        (
            "group.ended",
            {"size": 3, "cut": True, "calls": {}},
            "group of 3 was cut off; its calls: none",
            "",
        ),
        (
            "call.ended",
            END | {"session": "s1", "waited_ms": 1100},
            "call p/a completed in 1.2s, of which it waited 1.1s",
            "",
        ),
        (
            "call.ended",
            END | {"session": "s1", "waited_ms": 3},
            "call p/a completed in 1.2s",
            "",
        ),
        (
            "call.ended",
            END | {"session": "s1", "waited_ms": None, "status": "cancelled"},
            "call p/a cancelled in 1.2s, and never ran",
            "",
        ),
        (
            "call.ended",
            END | {"session": None, "waited_ms": None, "status": "stopped"},
            "call p/a stopped in 1.2s",
            "",
        ),
        ("log", {"text": "said"}, "log ", "said"),
        ("log", {"text": "said", "code": "retry"}, "log retry", "said"),
        ("phase", {"name": "one\x1b"}, "phase one\\x1b", ""),
        ("run.started", {"script": "/x/a.py", "args": []}, "run of /x/a.py", ""),
        (
            "run.started",
            {"script": "a.py", "model": "local", "input": {"a": 1}, "args": ["x y"]},
            "run of a.py",
            "--model local --input '{\"a\":1}' -- 'x y'",
        ),
        ("run.resumed", {"args": ["z"]}, "run goes on", "-- z"),
        (
            "run.ended",
            {"status": "completed", "result": [1, "b"]},
            "run completed",
            '[1,"b"]',
        ),
        (
            "run.ended",
            {"status": "failed", "error": {"code": "no-reply", "message": "why"}},
            "run failed (no-reply)",
            "why",
        ),
        ("run.ended", {"a": 1}, "journal run.ended", '{"a":1}'),
        ("call.ended", {"a": 1}, "journal call.ended", '{"a":1}'),
        ("phase", [], "journal phase", "[]"),
    ],
)
def test_each_kind_is_told_in_words(kind: str, data: Any, line: str, text: str) -> None:
    cells, shown = journal_line(kind, canonical_json(data))
    assert "".join(piece for piece, _ in cells) == line
    assert shown == text


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert journal_line("phase", "{")[1] == "{"
