"""The trace of a simulated run, drawn: who sent what to whom, and what became of it.

Lives here: the sequence drawing of a run, as text for a terminal and as a page with a
picture.  It knows events and notes, and nothing of schedules.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

from ..mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Interrupted,
    Promoted,
    RequestFailed,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ..mailbox.store import Entry
from .simulate_record import Note

__all__ = ["Trace"]

_COLUMN = 22
_MOST_COLUMNS = 9
_WIDTH, _LINE = 190, 22

_STYLE = """\
svg{font:12px ui-monospace,monospace} .life{stroke:#bbb} .arrow{stroke:#246}
.head{font-weight:bold} .note{fill:#a60} .law{fill:#b00;font-weight:bold}
.quiet{stroke-dasharray:4 3}"""


@attrs.frozen
class _Row:
    """One line of a drawing: an arrow, a word beside a life line, or a note."""

    kind: Literal["arrow", "word", "note", "law"]
    text: str
    at: int = 0
    to: int = 0
    quiet: bool = False


class Trace:
    """Everything that happened in one run.

    Args:
        order: every event, as it became durable.
        notes: what happened beside the logs.
        law: what was broken at the end, if anything.
    """

    def __init__(
        self, order: Sequence[Entry], notes: Sequence[Note], law: str | None
    ) -> None:
        self.order: list[Entry] = list(order)
        self.notes: list[Note] = list(notes)
        self.law: str | None = law
        self._names: dict[str, str] = {}
        self._columns: dict[str, int] = {}

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The sequence drawing, one line for each thing that happened.

        Agents have a column each, in the order of their making; what happens in one
        beyond the ninth stands in the last column, with its name.
        """
        rows = list(self._rows())
        heads = list(self._columns)[:_MOST_COLUMNS]
        lines = ["".join(f"{self._called(one):<{_COLUMN}}" for one in heads).rstrip()]
        lines += [_drawn(row, len(heads)) for row in rows]
        return "\n".join(lines)

    def page(self, title: str) -> str:
        """An HTML page with the drawing as a picture (SVG)."""
        rows = list(self._rows())
        width = _WIDTH * max(len(self._columns), 1) + 40
        height = _LINE * (len(rows) + 3)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}">',
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3"'
            ' orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#246"/></marker></defs>',
        ]
        for name, place in self._columns.items():
            x = _x(place)
            parts.append(
                f'<text class="head" x="{x}" y="16">{_safe(self._called(name))}'
            )
            parts.append(f'</text><line class="life" x1="{x}" y1="22" x2="{x}"')
            parts.append(f' y2="{height}"/>')
        parts += [_pictured(row, place) for place, row in enumerate(rows)]
        parts.append("</svg>")
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            f"<title>{_safe(title)}</title><style>{_STYLE}</style>"
            f"<h1>{_safe(title)}</h1>"
            f"{''.join(parts)}</html>\n"
        )

    # -- rows --------------------------------------------------------------------------

    def _rows(self) -> Iterator[_Row]:
        self._names, self._columns = {}, {}
        notes = list(self.notes)
        for place, entry in enumerate(self.order):
            while notes and notes[0].after <= place:
                yield _noted(notes.pop(0))
            yield from self._row(entry.session, entry.event)
        yield from map(_noted, notes)
        if self.law is not None:
            yield _Row("law", f"BROKEN: {self.law}")

    def _row(self, session: str, event: Event) -> Iterator[_Row]:
        if isinstance(event, Created):
            number = 1 + sum(
                name.partition(".")[0] == event.spec.name
                for name in self._names.values()
            )
            self._names[session] = f"{event.spec.name}.{number}"
        if isinstance(event, Accepted):
            sender, here = self._column(event.sender), self._column(session)
            said = self._said(event)
            quiet = event.given != "wakeup"
            yield _Row("arrow", f"{event.source}{said}", sender, here, quiet)
            return
        here = self._column(session)
        text = _worded(event)
        if text:
            if here >= _MOST_COLUMNS - 1:
                text = f"{self._called(session)}: {text}"
            yield _Row("word", text, here, here)

    def _said(self, event: Accepted) -> str:
        if event.source in ("notice", "outcome", "nudge"):
            return ""
        first = event.content[0].partition("\n")[0] if event.content else ""
        return f" {first!r}" if first else ""

    def _column(self, name: str) -> int:
        return self._columns.setdefault(name, len(self._columns))

    def _called(self, name: str) -> str:
        return self._names.get(name, name)


def _noted(note: Note) -> _Row:
    return _Row("note", f"{note.text} ({note.at_s:g} s)")


def _worded(event: Event) -> str:
    """What an event is in a few words; what says nothing has none."""
    if isinstance(event, Activated):
        return "activated"
    if isinstance(event, TurnOpened):
        return f"turn {event.turn} opens"
    if isinstance(event, StepEnded):
        names = ", ".join(call.name for call in event.calls)
        return f"calls {names}" if names else f"says {event.text!r}"
    if isinstance(event, RequestFailed):
        return f"request failed: {event.code}"
    if isinstance(event, CallEnded):
        return f"result {event.place}" + (f": {event.error}" if event.error else "")
    if isinstance(event, Interrupted):
        return f"interrupted by {event.by}"
    if isinstance(event, Promoted):
        return "a notice is promoted"
    if isinstance(event, Discarded):
        return f"discards: {event.cause}"
    if isinstance(event, (TurnEnded, Concluded)):
        word = "turn ends" if isinstance(event, TurnEnded) else "outcome"
        return f"{word}: {event.cause or event.status}"
    if isinstance(event, Ended):
        return f"ends: {event.reason}"
    return ""


# -- text ------------------------------------------------------------------------------


def _drawn(row: _Row, columns: int) -> str:
    if row.kind in ("note", "law"):
        return f"== {row.text}"
    line = [" "] * (_COLUMN * columns)
    for place in range(columns):
        line[place * _COLUMN] = "|"
    at, to = min(row.at, columns - 1), min(row.to, columns - 1)
    if row.kind == "word" or at == to:
        _put(line, at * _COLUMN + 2, row.text, _COLUMN - 3 if at < columns - 1 else 60)
        return "".join(line).rstrip()
    begin, end = sorted((at * _COLUMN, to * _COLUMN))
    for place in range(begin + 1, end):
        line[place] = "." if row.quiet else "-"
    if to > at:
        line[end - 1] = ">"
    else:
        line[begin + 1] = "<"
    room = end - begin - 6
    _put(line, begin + 3, f" {row.text[: room - 2]} ", room)
    return "".join(line).rstrip()


def _put(line: list[str], at: int, text: str, room: int) -> None:
    text = text if len(text) <= room else f"{text[: room - 1]}~"
    line.extend(" " * max(at + len(text) - len(line), 0))
    line[at : at + len(text)] = text


# -- picture ---------------------------------------------------------------------------


def _x(place: int) -> int:
    return 20 + place * _WIDTH


def _pictured(row: _Row, place: int) -> str:
    y = 22 + (place + 1) * _LINE
    if row.kind in ("note", "law"):
        return f'<text class="{row.kind}" x="20" y="{y}">{_safe(row.text)}</text>'
    here, there = _x(row.at), _x(row.to)
    if row.kind == "word" or here == there:
        return f'<text x="{here + 6}" y="{y}">{_safe(row.text[:60])}</text>'
    quiet = " quiet" if row.quiet else ""
    left = min(here, there) + 8
    return (
        f'<line class="arrow{quiet}" x1="{here}" y1="{y}" x2="{there}" y2="{y}"'
        f' marker-end="url(#tip)"/>'
        f'<text x="{left}" y="{y - 4}">{_safe(row.text[:60])}</text>'
    )


def _safe(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())
