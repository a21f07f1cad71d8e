"""Text for a terminal or a pipe: what is shown, laid out in lines of styled pieces.

Lives here: the escaping of what must not reach a terminal, the widths of characters,
tables that give way on a narrow screen, and numbers and times as people read them.  It
knows no session and prints nothing; `cli_view.py` does, with colours where they can be
seen.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

__all__ = [
    "Cell",
    "Column",
    "Line",
    "count",
    "cut",
    "duration",
    "first_line",
    "one_line",
    "paragraph",
    "plain",
    "plural",
    "shorten",
    "table",
    "visible",
    "width_of",
]

Cell: TypeAlias = tuple[str, str]
"""A piece of text, and the name of its style (`""`: none)."""

Line: TypeAlias = tuple[Cell, ...]
"""One line: pieces side by side."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Controls, marks that turn or hide text, and halves of characters."""

_GAP = "  "


@attrs.frozen
class Column:
    """A column of a table.

    Attributes:
        title: what stands above it.
        right: whether its cells stand at the right.
        rank: columns with the greatest rank are left out first on a narrow screen,
            together; 0 is never left out.
        least: how many characters a column of rank 0 keeps when it is cut.
    """

    title: str
    right: bool = False
    rank: int = 0
    least: int = 12


def visible(text: str) -> str:
    """The text with everything written out that a terminal would obey or not show.

    Line ends and tabs stay; so no text of an agent can move the cursor or hide a part.
    """
    return _UNSEEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def first_line(text: str) -> str:
    """The first line that is not blank, visible, and how many more there are."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    line = visible(lines[0].strip().replace("\t", " "))
    more = len(lines) - 1
    return f"{line} (+{plural(more, 'line')})" if more else line


def one_line(text: str) -> str:
    """A text that stands on one line, visible, such as the name of an agent."""
    return visible(" ".join(text.split()))


def shorten(text: str, most: int) -> str:
    """The first line of a text in at most `most` columns."""
    return cut(first_line(text), most)


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """A text in at most `most` columns; one that was cut ends with an ellipsis."""
    if width_of(text) <= most:
        return text
    if most < 1:
        return ""
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > most - 1:
            return text[:place] + "…"
    return text


def plain(line: Line) -> str:
    """A line without its styles and without blanks at its end."""
    return "".join([text for text, _ in line]).rstrip()


def paragraph(lead: Line, text: str, style: str, most: int | None) -> list[Line]:
    """A text behind a lead; its further lines stand under its first.

    Args:
        lead: what stands before the first line.
        text: what is laid out in lines between words.
        style: its style.
        most: how wide the whole may be; `None`: everything is on one line.
    """
    indent = sum(width_of(piece) for piece, _ in lead)
    if most is None:
        return [(*lead, (text, style))]
    if indent * 2 > most:
        # There is no room beside the lead: the text goes below it.
        return [lead, *paragraph((("  ", ""),), text, style, most)]
    lines = textwrap.wrap(text, most - indent) or [""]
    blank: Line = ((" " * indent, ""),)
    return [
        (*(blank if place else lead), (line, style)) for place, line in enumerate(lines)
    ]


def plural(number: int, word: str) -> str:
    """A number with its word: `1 line`, `2 lines`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def count(number: int | None) -> str:
    """A number with its thousands apart, or `-` when it was not recorded."""
    return "-" if number is None else f"{number:,}"


def duration(milliseconds: int) -> str:
    """A span of time in its two largest units: `12s`, `3m 20s`, `4d 2h`."""
    seconds = max(0, milliseconds) // 1000
    for unit, size, below, part in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size}{unit}" + (f" {rest}{below}" if rest else "")
    return f"{seconds}s"


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], most: int | None = None
) -> list[Line]:
    """Lay out a table under its titles, which have the style `title`.

    Args:
        columns: its columns.
        rows: one cell for each column.
        most: how wide it may be; `None`: as wide as it is.
    """
    lines = [tuple((column.title, "title") for column in columns), *map(tuple, rows)]
    widths = [
        max(width_of(line[place][0]) for line in lines) for place in range(len(columns))
    ]
    kept = list(range(len(columns)))
    if most is not None:
        kept = _kept(columns, widths, most)
        _narrow(columns, widths, kept, most)
    return [
        tuple(_laid(columns, widths, kept, line)) if line else line for line in lines
    ]


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[place] for place in kept) + len(_GAP) * (len(kept) - 1)


def _kept(columns: Sequence[Column], widths: Sequence[int], most: int) -> list[int]:
    """The columns that stay: the least important go until the rest fits.

    Columns of one rank say something only together, and go together.
    """
    kept = list(range(len(columns)))
    while _total(widths, kept) > most:
        last = max(columns[place].rank for place in kept)
        if last == 0:
            break
        kept = [place for place in kept if columns[place].rank != last]
    return kept


def _narrow(
    columns: Sequence[Column], widths: list[int], kept: Sequence[int], most: int
) -> None:
    """Cut what stays, the widest first, down to what each must keep."""
    for _ in range(len(kept)):
        excess = _total(widths, kept) - most
        if excess <= 0:
            return
        place = max(kept, key=lambda one: widths[one] - columns[one].least)
        widths[place] = max(columns[place].least, widths[place] - excess)


def _laid(
    columns: Sequence[Column],
    widths: Sequence[int],
    kept: Sequence[int],
    line: Sequence[Cell],
) -> Iterable[Cell]:
    for number, place in enumerate(kept):
        text, style = line[place]
        text = cut(text, widths[place])
        blank = " " * (widths[place] - width_of(text))
        if number:
            yield _GAP, ""
        if columns[place].right:
            yield blank, ""
            yield text, style
        else:
            yield text, style
            if number + 1 < len(kept):
                yield blank, ""
