"""The check-up of a store: each fault is named, and what to do."""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from ramet.lifecycle import cli_checkup
from ramet.lifecycle.bookkeeper import header
from ramet.lifecycle.cli_checkup import Finding, store_findings
from ramet.mailbox.bookmark import bookmark_of
from ramet.mailbox.events import Activated, Event, Told
from ramet.mailbox.session import fold
from tests.lifecycle.commands import make_cut, make_finished
from tests.mailbox.opened_sqlite import opened


def look(path: Path | None) -> dict[str, Finding]:
    """What is found of a store, by subject."""
    store = None if path is None else str(path)
    found = store_findings(argparse.Namespace(store=store))
    return {one.subject: one for one in found}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ramet.db"


def test_a_store_that_was_named_and_is_not_there_is_a_fault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    assert look(path)["store"].state == "bad"
    assert str(path) in look(path)["store"].text
    assert look(None)["store"] == Finding(
        "store", "good", f"none yet: `ramet run` makes {path}"
    )
    assert os.listdir(path.parent) == []


def test_a_directory_in_which_no_store_can_be_made_is_a_fault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("RAMET_STORE", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = look(None)["store"]
    assert found.state == "bad"
    assert "writable" in (found.advice or "")


@pytest.mark.parametrize("content", [b"prose " * 1000, b""])
def test_what_is_no_store_is_a_fault_and_ends_the_check_up(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    found = look(path)
    assert found.keys() == {"store"}
    assert found["store"].state == "bad"


def test_a_store_of_another_format_is_a_fault(path: Path) -> None:
    make_finished(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update meta set value = 99 where name = 'format'")
    connection.close()
    assert "has format 99" in look(path)["store"].text


def test_a_good_store_has_no_fault_and_a_live_writer_is_told(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")), last_at=1)
        found = look(path)
        assert f"process {os.getpid()} writes" in found["writer"].text
        assert all(one.state == "good" for one in found.values()), found
    assert "at rest" in look(path)["writer"].text


def test_what_a_dead_writer_left_is_a_note(path: Path) -> None:
    ids = make_cut(path)
    found = look(path)
    assert found["writer"].state == "note"
    assert "2 sessions cut off" in found["writer"].text
    assert f"ramet chat --resume {ids['lead']}" in (found["writer"].advice or "")


def test_a_damaged_file_is_a_fault(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        for number in range(2, 600):
            keeper.write(("s", Told(number)), last_at=number)
    with path.open("r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"\xff" * 8192)
    found = look(path)
    assert found["integrity"].state == "bad"
    assert "restore" in (found["integrity"].advice or "")


def test_a_bookmark_that_says_something_else_than_its_log_is_a_fault(
    path: Path,
) -> None:
    log: list[Event] = [header("s"), Activated("a", 2)]
    state = fold(log)
    for lie, words in ((0, ""), (7, "s: its bookmark does not agree with its log")):
        bookmark = attrs.evolve(bookmark_of(state), reports=lie)
        with opened(path) as keeper:
            batch = keeper.batch(*(("s", event) for event in log))
            keeper.store.append(
                attrs.evolve(
                    batch, summaries={"s": state.summary()}, bookmarks={"s": bookmark}
                )
            )
        found = look(path)["logs"]
        assert (found.state == "bad") == bool(words)
        assert words in found.text
        path.unlink()


def test_a_log_that_says_something_else_than_its_row_is_a_fault(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")), last_at=1)
        keeper.write(("s", Activated("a", 2)), last_at=2, activation="another")
    found = look(path)["logs"]
    assert found.state == "bad"
    assert "s: its index row does not agree with its log" in found.text


def test_a_log_that_no_session_can_have_is_a_fault(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")), ("s", Activated("a", 2)))
        keeper.write(("s", Activated("b", 3)))
    assert "at most one activation" in look(path)["logs"].text


def test_a_check_up_has_a_bound_and_says_how_far_it_went(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as keeper:
        for number in range(1, 6):
            name = f"s{number}"
            keeper.write((name, header(name, at=number)), last_at=number)
    monkeypatch.setattr(cli_checkup, "_MOST_SESSIONS", 3)
    assert look(path)["logs"].text == "3 of 5 logs with 3 events read back"
    monkeypatch.setattr(cli_checkup, "_MOST_EVENTS", 2)
    assert look(path)["logs"].text == "2 of 5 logs with 2 events read back"


def test_a_check_up_makes_no_file_beside_a_store_at_rest(path: Path) -> None:
    make_finished(path)
    before = sorted(os.listdir(path.parent))
    assert all(one.state == "good" for one in look(path).values())
    assert sorted(os.listdir(path.parent)) == before
    assert f"{path.name}-wal" not in before


def test_a_store_that_is_written_meanwhile_is_looked_at_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look reads what the writer has in its log, under its locks."""
    make_finished(path)
    looks: list[bool] = []
    usual = cli_checkup._look

    def write(path: Path, *, still: bool) -> Iterator[Finding]:
        looks.append(still)
        yield from usual(path, still=still)
        if still:
            keeper.enter_context(opened(path)).write(("s", header("s")), last_at=1)

    monkeypatch.setattr(cli_checkup, "_look", write)
    with contextlib.ExitStack() as keeper:
        found = look(path)
    assert looks == [True, False]
    assert "holds 5 sessions" in found["store"].text
