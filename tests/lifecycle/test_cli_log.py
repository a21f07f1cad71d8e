"""`ramet log`: one session, in words or as stored."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ramet import SqliteReader
from ramet.lifecycle.cli import main
from ramet.mailbox.codec import decode
from tests.lifecycle.cli_writer import TRICKY
from tests.lifecycle.commands import make_finished

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A store in this directory, and the ids in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    return make_finished(tmp_path / "ramet.db")


def test_the_lines_of_the_document_are_the_stored_events(
    ids: dict[str, str], capsys: Printed
) -> None:
    assert main(["log", "scout", "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.isascii()
    reader = SqliteReader("ramet.db")
    stored = reader.load(ids["scout"])
    reader.close()
    lines = printed.splitlines()
    assert len(lines) == len(stored)
    for place, (line, event) in enumerate(zip(lines, stored, strict=True)):
        found = json.loads(line)
        assert found["session"] == ids["scout"]
        assert found.pop("seq") == place
        if found["event"] != "created":
            del found["session"]
        assert decode(json.dumps(found)) == event


def test_a_text_that_is_no_unicode_survives_in_the_document(capsys: Printed) -> None:
    assert main(["log", "slow", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    contents = [e["content"] for e in events if e["event"] == "accepted"]
    assert contents == [[TRICKY]]


def test_whole_texts_are_shown_when_they_are_asked_for(capsys: Printed) -> None:
    assert main(["log", "scout"]) == 0
    short = capsys.readouterr().out
    assert "look at this (+1 line)" in short
    assert "and at that" not in short
    assert main(["log", "scout", "--full"]) == 0
    assert "and at that" in capsys.readouterr().out


def test_a_log_tells_what_a_parent_got_and_where_from(
    ids: dict[str, str], capsys: Printed
) -> None:
    assert main(["log", "lead"]) == 0
    shown = capsys.readouterr().out
    assert f"report from {ids['scout']}, quiet: found it" in shown
    assert f"notice from {ids['scout']}" in shown


def test_a_session_that_several_fit_is_not_guessed(capsys: Printed) -> None:
    assert main(["log", "s1"]) == 2
    said = capsys.readouterr().err
    assert "may mean several sessions" in said
    assert "(lead)" in said


def test_a_log_that_cannot_be_read_says_where_and_others_still_can(
    ids: dict[str, str], capsys: Printed
) -> None:
    connection = sqlite3.connect("ramet.db")
    with connection:
        ((last,),) = connection.execute(
            "select max(place) from event where place >> 32 ="
            " (select id from session where session = ?)",
            (ids["scout"],),
        )
        connection.execute("update event set bodies = '{}' where place = ?", (last,))
        place = last & 0xFFFFFFFF
    connection.close()
    assert main(["log", "scout"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"event {place} of {ids['scout']} cannot be read" in printed.err
    assert "[CORRUPT_LOG]" in printed.err
    assert main(["log", "slow"]) == 0
    assert main(["ps"]) == 0
    assert main(["explain", "scout"]) == 0
    assert "unreadable" in capsys.readouterr().out
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert f"{ids['scout']}: event {place}" in shown
    assert "restore the file" in shown
