"""Stores that somebody changed by hand: each command says what is wrong, and ends."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ramet.lifecycle.cli import main as ramet
from tests.lifecycle.commands import make_finished

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A store in the working directory, in which everything came to its end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    return make_finished(tmp_path / "ramet.db")


def change(*statements: str) -> None:
    connection = sqlite3.connect("ramet.db")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def wrong(capsys: Printed) -> dict[str, str]:
    """What doctor finds wrong, by subject."""
    capsys.readouterr()
    assert ramet(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    bad = [one for one in document["findings"] if one["state"] == "bad"]
    return {one["subject"]: one["text"] for one in bad}


def test_sessions_that_no_root_reaches_are_named(
    ids: dict[str, str], capsys: Printed
) -> None:
    change("delete from session where kind = 'interactive'")
    found = wrong(capsys)["index"]
    assert "3 sessions below no root" in found
    assert ids["scout"] in found
    assert "1 log and " in found
    assert ramet(["ps"]) == 0
    assert "ramet doctor says what is wrong" in capsys.readouterr().out


def test_logs_without_a_session_are_named(ids: dict[str, str], capsys: Printed) -> None:
    change("delete from session")
    assert "4 logs and " in wrong(capsys)["index"]


@pytest.mark.parametrize("command", ["explain", "ps", "usage"])
def test_parents_that_go_round_are_named_and_hang_nobody(
    ids: dict[str, str], capsys: Printed, command: str
) -> None:
    change("update session set parent = session")
    assert ramet([command, ids["lead"]]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"ramet: session {ids['lead']} is below itself in the index")
    found = wrong(capsys)
    assert "4 sessions below no root" in found["index"]
    assert "does not agree with its log" in found["logs"]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("drop table message", "the table message is missing"),
        ("drop index session_children", "the index session_children is missing"),
        ("alter table meta rename column value to v", None),
        (
            "alter table message drop column digest",
            "the column message.digest is missing",
        ),
        ("alter table session drop column turn", "the column session.turn is missing"),
    ],
)
def test_what_the_file_lacks_is_named(
    ids: dict[str, str], capsys: Printed, statement: str, text: str | None
) -> None:
    change(statement)
    found = wrong(capsys)
    if text is None:
        assert "cannot be opened for reading" in found["store"]
    else:
        assert text in found["integrity"]


@pytest.mark.parametrize(
    "words",
    [["ps"], ["log"], ["explain"], ["usage"], ["resume"], ["ps", "--json"]],
)
def test_a_column_with_something_else_in_it_is_one_clear_error(
    ids: dict[str, str], capsys: Printed, words: list[str]
) -> None:
    change("update session set seq = 'abc', requests = 'x' where depth = 0")
    name = [ids["lead"]] if words[0] in ("log", "explain") else []
    assert ramet([*words, *name]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    place = f"the index row of session {ids['lead']} is damaged: its seq is 'abc'"
    assert err == f"ramet: {place} [CORRUPT_LOG]\n"
    assert place in wrong(capsys)["index"]


def test_what_was_spent_is_not_added_up_from_words(
    ids: dict[str, str], capsys: Printed
) -> None:
    change("update session set requests = 'x' where depth = 1")
    assert ramet(["usage"]) == 1
    assert "what it spent is no number [CORRUPT_LOG]" in capsys.readouterr().err


def test_a_name_that_the_log_does_not_have_is_a_fault(
    ids: dict[str, str], capsys: Printed
) -> None:
    change("update session set name = 'other' where depth = 0")
    found = wrong(capsys)["logs"]
    assert f"{ids['lead']}: its index row does not agree with its log" in found


def test_a_file_that_does_not_say_its_format_is_damaged(
    ids: dict[str, str], capsys: Printed
) -> None:
    change("delete from meta")
    text = wrong(capsys)["store"]
    assert "is damaged, since it does not say its format" in text
    assert ramet(["ps"]) == 1
    assert text in capsys.readouterr().err


def test_resume_says_which_roots_cannot_be_read(
    ids: dict[str, str], capsys: Printed
) -> None:
    change("update event set bodies = '{}'")
    assert ramet(["resume"]) == 2
    err = capsys.readouterr().err
    assert "no run in this store waits to be resumed; what cannot be read: " in err
    assert f"session {ids['lead']}: event 0 of " in err
    assert ramet(["resume", ids["lead"]]) == 1
    assert f"run {ids['lead']} cannot be read: event 0 of " in capsys.readouterr().err
