"""A log in words: each kind of event, and as much of a text as there is room for."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import pytest

from ramet.lifecycle.bookkeeper import ODD, sample_events
from ramet.lifecycle.cli_narrate import _TELL, Narrator
from ramet.lifecycle.cli_text import plain, width_of
from ramet.mailbox.codec import KINDS
from ramet.mailbox.events import (
    Accepted,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Event,
    Journaled,
    SpecRecord,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import Call, Usage

NOON = int(datetime.datetime(2026, 5, 4, 12).timestamp() * 1000)


def told(
    events: Iterable[Event], width: int | None = None, *, full: bool = False
) -> list[str]:
    """The lines of events, without the day."""
    narrator = Narrator(width, full=full)
    lines = [line for event in events for line in narrator.tell(event)]
    return [plain(line) for line in lines][1:]


STORY: list[Event] = [
    Created("s1", "s0", 1, "oneshot", SpecRecord("scout", "Look.\nTell."), NOON, "{}"),
    Accepted("m1", "prompt", "s0", ("look\nat it",), "wakeup", NOON + 1),
    Accepted("m2", "report", "s9", ("by the way",), "quiet", NOON + 2, asked="quiet"),
    Accepted("m3", "report", "s9", ("too often",), "quiet", NOON + 2),
    TurnOpened(1, ("m1",), NOON + 1000),
    StepEnded(
        "I look.",
        (Call("read", '{"path": "a"}'), Call("reply", "{}")),
        "tool_calls",
        NOON + 2000,
        Usage(1, 1200, None),
    ),
    CallEnded(0, '{\n  "lines": 3\n}', NOON + 2500),
    CallEnded(1, "no", NOON + 2600, "INVALID_ARGS"),
    StepEnded(" ", (), "length", NOON + 3000),
    Compacted("All was\nread.", NOON + 3000, 1, ("m1",), ("s7", "s8"), Usage(1, 9, 2)),
    Compacted("Again.", NOON + 3000, 1),
    TurnEnded("failed", "crashed", NOON + 3001, "the process ended"),
    Concluded("m1", "completed", None, NOON + 3002, '"yes"'),
    Journaled("phase", '"two"', NOON + 3003),
]


def test_a_log_is_told_in_words() -> None:
    assert told(STORY) == [
        "12:00:00.000       created oneshot agent scout, child of s0",
        "12:00:00.001       prompt from s0: look (+1 line)",
        "12:00:00.002       report from s9, quiet: by the way",
        "12:00:00.002       report from s9, deferred to quiet: too often",
        "12:00:01.000 1     turn 1 answers prompt m1",
        "12:00:02.000 1.1   says (1,200 in, - out): I look.",
        '                   calls read {"path": "a"}',
        "                   calls reply {}",
        '12:00:02.500 1.1   read gave: { "lines": 3 }',
        "12:00:02.600 1.1   reply failed (INVALID_ARGS): no",
        "12:00:03.000 1.2   says (length): (no text)",
        "12:00:03.000 1     compacted (2 entries kept; live children: s7, s8; 9 in,"
        " 2 out): All was (+1 line)",
        "12:00:03.000 1     compacted (1 entry kept): Again.",
        "12:00:03.001 1     turn 1 failed (crashed) the process ended",
        '12:00:03.002       assignment completed "yes"',
        '12:00:03.003       journal phase "two"',
    ]


def test_a_narrow_screen_gets_texts_rather_than_ids() -> None:
    lines = told(STORY, 40)
    assert lines[1] == "12:00:00 prompt: look (+1 line)"
    assert lines[3] == "12:00:00 report, deferred to quiet: too…"


def test_whole_texts_stand_below_their_lines() -> None:
    lines = told(STORY[:2], full=True)
    assert lines == [
        "12:00:00.000       created oneshot agent scout, child of s0",
        "                     instructions",
        "              Look.",
        "              Tell.",
        "                     contract {}",
        "12:00:00.001       prompt from s0:",
        "              look",
        "              at it",
    ]


def test_each_day_is_named_once() -> None:
    narrator = Narrator(None, full=False)
    later = Journaled("x", "1", NOON + 86_400_000)
    days = [len(narrator.tell(event)) for event in (STORY[0], STORY[1], later, later)]
    assert days == [2, 1, 2, 1]


def test_every_kind_of_event_has_its_words() -> None:
    assert _TELL.keys() == set(KINDS.values())


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("width", [None, 200, 80, 59, 40, 10])
def test_any_event_fits_any_width_and_holds_no_control(
    width: int | None, full: bool
) -> None:
    narrator = Narrator(width, full=full)
    for event in sample_events():
        for line in narrator.tell(event):
            text = plain(line)
            text.encode()
            assert text.isprintable() or text == "", repr(text)
            if width is not None and not full:
                assert width_of(text) <= max(width, 40)


def test_a_long_text_is_cut_where_no_screen_says_how_long_it_may_be() -> None:
    long = Accepted("m", "tell", "host", ("word " * 1000,), "wakeup", NOON)
    (line,) = told([long])
    assert line.endswith("…")
    assert len(line) < 220
    (line,) = told([long], 80)
    assert width_of(line) <= 80


def test_odd_text_is_told_with_escapes() -> None:
    lines = told([Accepted("m", "tell", "host", (ODD,), "wakeup", NOON)], full=True)
    assert any("\\ud800" in line for line in lines)
