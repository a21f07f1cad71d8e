"""`ramet explain` and `ramet usage`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import header
from ramet.lifecycle.cli import main
from ramet.mailbox.message import Usage
from tests.lifecycle.commands import make_cut, make_finished
from tests.mailbox.opened_sqlite import opened

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of the store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)


def test_a_session_at_rest_says_how_it_came_to_rest(
    tmp_path: Path, capsys: Printed
) -> None:
    ids = make_finished(tmp_path / "ramet.db")
    assert main(["explain", "oracle"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == f"oracle  oneshot  {ids['oracle']}"
    assert "state  gone" in shown
    assert "its assignment ended completed" in shown
    assert main(["explain", ids["message"], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "id": ids["scout"],
        "state": "gone",
        "why": "it settled: nothing waits in it",
        "name": "scout",
        "hint": None,
    }


def test_a_session_that_was_cut_says_where_and_how_to_go_on(
    tmp_path: Path, capsys: Printed
) -> None:
    ids = make_cut(tmp_path / "ramet.db")
    assert main(["explain", "slow"]) == 0
    shown = capsys.readouterr().out
    assert "the process that ran it is no more" in shown
    assert f"next   go on with: ramet chat --resume {ids['lead']}, or in" in shown


def usage_of(capsys: Printed, *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["usage", "--json", *words]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_usage_is_the_sum_of_whole_trees_or_the_lines_of_one(
    tmp_path: Path, capsys: Printed
) -> None:
    with opened(tmp_path / "ramet.db") as keeper:
        keeper.write(("r", header("r")), usage=Usage(1, 10, 1))
        keeper.write(("c", header("c", "r")), usage=Usage(2, None, 2, tool_calls=3))
        keeper.write(("q", header("q", at=2)), usage=Usage(4))
    whole = usage_of(capsys)
    assert whole["session"] is None
    assert whole["total"] == {
        "requests": 7,
        "input_tokens": 10,
        "output_tokens": 3,
        "cache_read_tokens": None,
        "cache_creation_tokens": None,
        "tool_calls": 3,
    }
    lines = whole["sessions"]
    assert isinstance(lines, list)
    assert [(one["id"], one["subtree"]["requests"]) for one in lines] == [
        ("r", 3),
        ("q", 4),
    ]
    below = usage_of(capsys, "r")
    lines = below["sessions"]
    assert isinstance(lines, list)
    assert [(one["id"], one["own"]["requests"]) for one in lines] == [
        ("r", 1),
        ("c", 2),
    ]
    assert below["session"] == "r"
    assert isinstance(below["total"], dict)
    assert below["total"]["requests"] == 3


def test_usage_that_no_model_told_is_not_recorded(
    tmp_path: Path, capsys: Printed
) -> None:
    with opened(tmp_path / "ramet.db") as keeper:
        keeper.write(("r", header("r")), usage=Usage(1234, 0, None))
    assert main(["usage"]) == 0
    _, row, total = capsys.readouterr().out.splitlines()
    assert row.split()[:3] == ["worker", "1,234", "0"]
    assert row.count("not recorded") == 3
    assert total.startswith("sum ")


def test_usage_of_a_store_without_sessions_is_nothing(
    tmp_path: Path, capsys: Printed
) -> None:
    with opened(tmp_path / "ramet.db"):
        pass
    assert usage_of(capsys)["sessions"] == []
    assert main(["usage"]) == 0
    assert "sum of 0 lines" in capsys.readouterr().out
