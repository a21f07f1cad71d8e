"""What is shown: escapes, widths, tables that give way, and times in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.lifecycle.cli_text import (
    Cell,
    Column,
    count,
    cut,
    duration,
    first_line,
    paragraph,
    plain,
    plural,
    shorten,
    table,
    visible,
    width_of,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 雨 🌱", "plain é 雨 🌱"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x07\r\x7f\x9b", "\\x1b[2J\\x07\\x0d\\x7f\\x9b"),
        ("a\u202eb\u2066c\u200bd\ufeff", "a\\u202eb\\u2066c\\u200bd\\ufeff"),
        ("\ud800 \udcff \u2028", "\\ud800 \\udcff \\u2028"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_written_out(
    text: str, shown: str
) -> None:
    assert visible(text) == shown


@given(ANY_TEXT)
def test_any_text_can_be_written_out_and_holds_no_control(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not any(ord(one) < 32 and one not in "\n\t" for one in shown)
    assert visible(shown) == shown
    assert "\n" not in first_line(text)


def test_a_text_is_told_by_its_first_line_and_how_many_follow() -> None:
    assert first_line("") == first_line(" \n\t\n") == ""
    assert first_line("  one\t1  ") == "one 1"
    assert first_line("\n\none\n\ntwo") == "one (+1 line)"
    assert first_line("one\r\ntwo\rthree") == "one (+2 lines)"
    assert shorten("one two three\nfour", 8) == "one two…"


def test_characters_take_none_one_or_two_columns() -> None:
    assert width_of("abc") == 3
    assert width_of("é") == 1
    assert width_of("e\u0301") == 1
    assert width_of("雨") == 2
    assert width_of("🌱a") == 3


@given(ANY_TEXT, st.integers(0, 30))
def test_a_text_that_is_cut_fits_and_begins_as_it_did(text: str, most: int) -> None:
    text = visible(text)
    short = cut(text, most)
    assert width_of(short) <= most
    if short != text:
        assert text.startswith(short[:-1])
        assert short == "" or short[-1] == "…"


def test_numbers_and_times_are_read_as_people_say_them() -> None:
    assert [plural(0, "line"), plural(1, "line"), plural(2, "line")] == [
        "0 lines",
        "1 line",
        "2 lines",
    ]
    assert [count(None), count(0), count(1234567)] == ["-", "0", "1,234,567"]
    spans = [-5, 0, 999, 59_999, 60_000, 200_000, 3_600_000, 7_260_000, 360_000_000]
    assert list(map(duration, spans)) == [
        "0s",
        "0s",
        "0s",
        "59s",
        "1m",
        "3m 20s",
        "1h",
        "2h 1m",
        "4d 4h",
    ]


COLUMNS = (
    Column("NAME", least=4),
    Column("MANY", right=True, rank=1),
    Column("A", rank=2),
    Column("B", rank=2),
    Column("ID", least=3),
)
ROWS: list[tuple[Cell, ...]] = [
    (("first", ""), ("1", ""), ("aa", ""), ("b", ""), ("id-one", "dim")),
    (("雨", ""), ("1,000", ""), ("a", ""), ("bb", ""), ("id-two", "dim")),
]


def test_a_table_is_aligned_whatever_its_characters_are() -> None:
    assert [plain(line) for line in table(COLUMNS, ROWS)] == [
        "NAME    MANY  A   B   ID",
        "first      1  aa  b   id-one",
        "雨     1,000  a   bb  id-two",
    ]


@pytest.mark.parametrize(
    ("most", "second"),
    [
        (28, "first      1  aa  b   id-one"),
        (27, "first      1  id-one"),
        (20, "first      1  id-one"),
        (19, "first  id-one"),
        (11, "first  id-…"),
        (9, "fir…  id…"),
        (1, "fir…  id…"),
    ],
)
def test_a_narrow_table_loses_columns_first_and_letters_then(
    most: int, second: str
) -> None:
    lines = table(COLUMNS, ROWS, most)
    assert plain(lines[1]) == second or width_of(plain(lines[1])) <= max(most, 9)
    assert all(width_of(plain(line)) <= max(most, 9) for line in lines)


def test_titles_have_their_style_and_cells_keep_theirs() -> None:
    lines = table(COLUMNS, ROWS)
    assert ("NAME", "title") in lines[0]
    assert ("id-one", "dim") in lines[1]
    assert [plain(line) for line in table(COLUMNS, [])] == ["NAME  MANY  A  B  ID"]


def test_a_paragraph_stands_beside_its_lead_or_below_it_where_there_is_no_room() -> (
    None
):
    lead = (("why   ", "title"),)
    text = "it waits for its own child"
    assert [plain(one) for one in paragraph(lead, text, "", None)] == [
        "why   it waits for its own child"
    ]
    assert [plain(one) for one in paragraph(lead, text, "", 20)] == [
        "why   it waits for",
        "      its own child",
    ]
    assert [plain(one) for one in paragraph(lead, text, "", 10)] == [
        "why",
        "  it waits",
        "  for its",
        "  own",
        "  child",
    ]
    assert [plain(one) for one in paragraph(lead, "", "", 20)] == ["why"]
