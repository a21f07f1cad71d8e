"""The screen: plain lines for a pipe, colours for a terminal, and one live view."""

from __future__ import annotations

import io
import sys

import pytest

from ramet.lifecycle.cli_text import Line
from ramet.lifecycle.cli_view import Changed, Screen, wait_for
from tests.lifecycle.commands import FakeTerminal

LINES: list[Line] = [
    (("NAME", "title"), ("  ", ""), ("STATE", "title")),
    (("one [bold]", ""), ("  ", ""), ("running", "running")),
    (),
]


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal as most people have."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "5")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_stream_that_is_no_terminal_gets_plain_lines_of_any_width() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show(LINES)
    screen.text("as it is")
    assert stream.getvalue() == "NAME  STATE\none [bold]  running\n\nas it is\n"
    assert not screen.terminal
    assert screen.width is None
    assert not screen.glyphs


def test_a_terminal_gets_colours_and_no_text_is_taken_for_a_style() -> None:
    stream = FakeTerminal()
    screen = Screen(stream)
    screen.show(LINES)
    shown = stream.getvalue()
    assert "\x1b[32mrunning\x1b[0m" in shown
    assert "one [bold]" in shown
    assert screen.width == 60
    assert screen.glyphs


def test_a_terminal_without_rich_gets_the_same_lines_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = FakeTerminal()
    screen = Screen(stream)
    screen.show(LINES)
    assert stream.getvalue() == "NAME  STATE\none [bold]  running\n\n"
    assert screen.glyphs


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "no such encoding"])
def test_a_terminal_that_cannot_draw_lines_is_not_asked_to(encoding: str) -> None:
    assert not Screen(FakeTerminal(encoding)).glyphs


class Numbers:
    """Numbers of changes, one after the other; then a person interrupts."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def __call__(self) -> int:
        if not self.numbers:
            raise KeyboardInterrupt
        return self.numbers.pop(0)


@pytest.mark.parametrize("rich", [True, False])
def test_a_live_view_is_drawn_on_each_change_and_its_last_state_stays(
    rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    stream = FakeTerminal()
    states = iter(["first", "second", "third"])

    def draw() -> list[Line]:
        return [((next(states), ""),)]

    Screen(stream).watch(draw, Changed(Numbers(1, 2, 3)))
    shown = stream.getvalue()
    places = [shown.rindex(state) for state in ("first", "second", "third")]
    assert places == sorted(places)
    if rich:
        assert shown.rstrip().endswith("third")
        assert "\x1b[?1049h" in shown


def test_a_live_view_that_is_longer_than_the_screen_says_how_much_is_left() -> None:
    stream = FakeTerminal()
    lines: list[Line] = [((f"line {number}", ""),) for number in range(20)]
    Screen(stream).watch(lambda: lines, Changed(Numbers(1)))
    page = stream.getvalue().partition("\x1b[?1049l")[0]
    assert "line 3" in page
    assert "… and 16 lines more" in page
    assert "line 19" not in page


def test_waiting_ends_with_a_change_or_after_its_time() -> None:
    assert wait_for(Changed(Numbers(1, 2)), 1.0)
    assert not wait_for(Changed(Numbers(1, 1, 1)), 0.0)
    changed = Changed(Numbers(1, 1, 2, 2))
    assert [changed(), changed(), changed()] == [False, True, False]


def test_waiting_looks_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ramet.lifecycle.cli_view.time.sleep", pauses.append)
    assert not wait_for(Changed(lambda: 1), 60.0)
    assert pauses[0] == 0.1
    assert pauses == sorted(pauses)
    assert max(pauses) == 1.0
    assert len(pauses) < 70
