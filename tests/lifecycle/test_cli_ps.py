"""`ramet ps`: which trees are shown, and how they are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from ramet import Listing
from ramet.lifecycle.bookkeeper import header
from ramet.lifecycle.cli import main
from ramet.lifecycle.cli_ps import _labels
from ramet.mailbox.events import Activated, Created, SpecRecord
from ramet.mailbox.message import Usage
from tests.lifecycle.commands import make_cut, make_finished
from tests.mailbox.opened_sqlite import opened

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)


def shown(capsys: Printed, *words: str) -> str:
    capsys.readouterr()
    assert main(["ps", *words]) == 0
    return capsys.readouterr().out


def one(name: str, depth: int) -> Listing:
    return Listing(
        name, None, depth, name, "continuable", "gone", 0, 0, 0, 0, 0, None, None, 0
    )


def test_the_document_has_every_session_with_what_a_listing_has(
    tmp_path: Path, capsys: Printed
) -> None:
    ids = make_finished(tmp_path / "ramet.db")
    document = json.loads(shown(capsys, "--json"))
    assert document["store"] == str(tmp_path / "ramet.db")
    assert document["writer"] is None
    sessions = document["sessions"]
    assert [each["name"] for each in sessions] == ["lead", "scout", "oracle", "slow"]
    assert all(each.keys() == attrs.fields_dict(Listing).keys() for each in sessions)
    scout = sessions[1]
    assert scout["id"] == ids["scout"]
    assert scout["parent_id"] == ids["lead"]
    assert (scout["depth"], scout["kind"], scout["state"]) == (1, "continuable", "gone")
    assert (scout["turns"], scout["requests"], scout["pending"]) == (1, 2, 0)
    assert (scout["input_tokens"], scout["output_tokens"]) == (1200, 34)
    assert sessions[0]["input_tokens"] is None


def test_one_session_and_what_is_below_it_can_be_asked_for(
    tmp_path: Path, capsys: Printed
) -> None:
    make_finished(tmp_path / "ramet.db")
    assert "lead" not in shown(capsys, "slow")
    assert len(json.loads(shown(capsys, "lead", "--json"))["sessions"]) == 4


def test_what_was_not_recorded_is_a_dash_and_what_waits_is_counted(
    tmp_path: Path, capsys: Printed
) -> None:
    with opened(tmp_path / "ramet.db") as keeper:
        keeper.write(
            ("s", header("s")),
            ("s", Activated("a", 2)),
            activation="a",
            pending=7,
            usage=Usage(3, 1_234_567, None, tool_calls=4),
        )
    title, row = shown(capsys).splitlines()[:2]
    fields = dict(zip(title.split(), row.split("  ")[0:1], strict=False))
    assert fields["AGENT"] == "worker"
    cells = row.split()
    assert "1,234,567" in cells
    assert "-" in cells
    assert "7" in cells
    assert "cut" in cells


def test_only_the_newest_trees_at_rest_are_shown_and_all_that_are_not(
    tmp_path: Path, capsys: Printed
) -> None:
    with opened(tmp_path / "ramet.db") as keeper:
        keeper.write(("s-cut", header("s-cut", at=0)), activation="a")
        for number in range(1, 14):
            name = f"s-{number:02}"
            keeper.write((name, header(name, at=number)))
            keeper.write((f"{name}c", header(f"{name}c", name, at=number)))
    some = shown(capsys)
    assert "s-cut" in some
    assert "s-03c" not in some
    assert "s-04c" in some
    assert "3 older trees at rest: ramet ps --all" in some
    assert "1 session was cut off" in some
    every = shown(capsys, "--all")
    assert "s-01c" in every
    assert "older" not in every
    assert len(json.loads(shown(capsys, "--json"))["sessions"]) == 27


def test_a_store_without_sessions_says_so(tmp_path: Path, capsys: Printed) -> None:
    with opened(tmp_path / "ramet.db"):
        pass
    assert "no session is stored in" in shown(capsys)
    assert json.loads(shown(capsys, "--json"))["sessions"] == []


def test_a_cut_store_shows_how_to_go_on(tmp_path: Path, capsys: Printed) -> None:
    make_cut(tmp_path / "ramet.db")
    assert "2 sessions were cut off; go on with: ramet chat --resume s" in shown(capsys)


def test_a_name_cannot_break_a_line(tmp_path: Path, capsys: Printed) -> None:
    bad = "a\x1b[31m\nb"
    with opened(tmp_path / "ramet.db") as keeper:
        spec = SpecRecord(bad)
        keeper.write(("s", Created("s", None, 0, "interactive", spec, 1)))
    lines = shown(capsys).splitlines()
    assert lines[1].startswith("a\\x1b[31m b ")
    assert len(lines) == 2


def test_the_lines_of_a_tree_lead_to_each_child() -> None:
    sessions = [
        one("r", 0),
        one("a", 1),
        one("aa", 2),
        one("ab", 2),
        one("b", 1),
        one("ba", 2),
        one("q", 0),
        one("c", 1),
    ]
    assert _labels(sessions, glyphs=True) == [
        "r",
        "├─ a",
        "│  ├─ aa",
        "│  └─ ab",
        "└─ b",
        "   └─ ba",
        "q",
        "└─ c",
    ]
    plain = _labels(sessions, glyphs=False)
    assert plain == ["r", "  a", "    aa", "    ab", "  b", "    ba", "q", "  c"]


def test_the_lines_of_a_very_deep_tree_stay_short() -> None:
    sessions = [one(f"d{depth}", depth) for depth in range(500)]
    labels = _labels(sessions, glyphs=True)
    assert labels[12].endswith("└─ d12")
    assert labels[499].endswith("(499) d499")
    assert max(map(len, labels)) < 50
