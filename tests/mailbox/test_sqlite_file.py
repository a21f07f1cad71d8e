"""A file is opened only if it is durable, private, ours and sound."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.lifecycle.bookkeeper import header, message
from ramet.mailbox.errors import (
    KeyConflictError,
    PersistenceUnavailableError,
    RametError,
    UnsupportedLogError,
)
from ramet.mailbox.events import Accepted, Created, Told
from ramet.mailbox.file_lock import lock_owner
from ramet.mailbox.sqlite_file import from_column, to_column
from ramet.mailbox.store_sqlite import SqliteReader, SqliteStore
from tests.mailbox.opened_sqlite import connection_of, opened, patch_connections


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.mark.case("R-188")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("pragma journal_mode", "select 'delete'"),
        ("pragma journal_mode", "select 'memory'"),
        ("pragma synchronous", "select 1"),
        ("pragma synchronous", "select 0"),
    ],
)
def test_a_file_that_is_not_in_durable_mode_is_refused_before_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, answer: str
) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            return super().execute(answer if sql == asked else sql, *rest)

    with monkeypatch.context() as patched:
        patch_connections(patched, Stubborn)
        with pytest.raises(PersistenceUnavailableError, match="is not durable"):
            SqliteStore(path).open()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        assert raw.execute("select count(*) from sqlite_master").fetchone() == (0,)
    with opened(path) as keeper:
        keeper.write(("s", header("s")))


def test_every_batch_is_written_in_the_durable_mode_also_after_claims(
    path: Path,
) -> None:
    with opened(path) as keeper:
        modes = ("journal_mode", "synchronous", "fullfsync")
        keeper.write(("s", header("s")))
        keeper.store.release("s", "one")
        keeper.claim("s")
        with pytest.raises(RametError):
            keeper.store.claim("s", "two")
        connection = connection_of(keeper)
        found = [connection.execute(f"pragma {mode}").fetchone()[0] for mode in modes]
        assert found == ["wal", 2, 1]


@pytest.mark.parametrize("name", [":memory:", "", "file:a.db?mode=memory", "a\0b"])
def test_what_is_not_a_file_is_refused(name: str) -> None:
    with pytest.raises(PersistenceUnavailableError):
        SqliteStore(name).open()
    with pytest.raises(PersistenceUnavailableError):
        SqliteReader(name)


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "agents.db"
    for attempt in (SqliteStore(missing).open, lambda: SqliteReader(missing)):
        with pytest.raises(PersistenceUnavailableError, match=r"none.*create it"):
            attempt()


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    for attempt in (SqliteStore(tmp_path).open, lambda: SqliteReader(tmp_path)):
        with pytest.raises(PersistenceUnavailableError, match="is a directory"):
            attempt()


def test_a_reader_makes_no_store(path: Path) -> None:
    with pytest.raises(PersistenceUnavailableError, match="there is no store"):
        SqliteReader(path)
    assert not path.exists()
    path.touch()
    with pytest.raises(PersistenceUnavailableError, match="nothing has been stored"):
        SqliteReader(path)


def test_a_damaged_file_is_refused(path: Path) -> None:
    path.write_bytes(b"no database at all " * 300)
    for attempt in (SqliteStore(path).open, lambda: SqliteReader(path)):
        with pytest.raises(PersistenceUnavailableError, match=r"agents\.db.*damaged"):
            attempt()
    assert path.read_bytes().startswith(b"no database")


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("create table meta (name, value)")
        raw.commit()
    before = path.read_bytes()
    for attempt in (SqliteStore(path).open, lambda: SqliteReader(path)):
        with pytest.raises(UnsupportedLogError, match="another program"):
            attempt()
    assert path.read_bytes() == before


def test_a_store_of_another_format_is_refused(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        connection_of(keeper).execute("update meta set value = 4 where name = 'format'")
    for attempt in (SqliteStore(path).open, lambda: SqliteReader(path)):
        with pytest.raises(UnsupportedLogError, match="format 4"):
            attempt()


@pytest.mark.parametrize("former", [1, 2])
def test_a_store_of_an_earlier_format_is_brought_up_to_date_by_a_writer(
    path: Path, former: int
) -> None:
    with opened(path) as keeper:
        for place in range(40):
            name = f"s{place}"
            keeper.write((name, header(name)))
            keeper.write((name, message(f"m{place}", "k" if place == 7 else None)))
            keeper.write((name, Told(place)))
    script = (
        Path(__file__).with_name(f"format_{former}.sql").read_text(encoding="utf-8")
    )
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    with pytest.raises(
        UnsupportedLogError, match=rf"earlier format {former}.*for writing"
    ):
        SqliteReader(path)
    for _ in range(2):
        with opened(path) as keeper:
            store = keeper.store
            assert isinstance(store, SqliteStore)
            for place in range(40):
                log = store.load(f"s{place}")
                assert [type(event) for event in log] == [Created, Accepted, Told]
                assert log[2] == Told(place)
                assert store.load(f"s{place}", 2) == log[2:]
                assert store.position(f"m{place}") == (f"s{place}", 0)
                assert store.bookmark(f"s{place}") is None
            found = store.find("host", "k")
            assert found is not None
            assert (found.message, found.session) == ("m7", "s7")
    with opened(path) as keeper:
        keeper.claim("s7")
        with pytest.raises(KeyConflictError):
            keeper.write(("s7", message("m99", "k")))
    with opened(path) as keeper:
        keeper.claim("s8")
        keeper.write(("s8", message("m98")))
        assert isinstance(keeper.store, SqliteStore)
        assert keeper.store.position("m98") == ("s8", 3)


def test_a_file_that_cannot_be_written_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
    connect = sqlite3.connect

    def only_reading(address: str, **options: Any) -> sqlite3.Connection:
        found: sqlite3.Connection = connect(address.replace("=rw", "=ro"), **options)
        return found

    monkeypatch.setattr("ramet.mailbox.sqlite_file.sqlite3.connect", only_reading)
    with pytest.raises(PersistenceUnavailableError, match="able to write"):
        SqliteStore(path).open()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_store_and_holds_nobody_up(path: Path) -> None:
    os.mkfifo(path)
    for attempt in (SqliteStore(path).open, lambda: SqliteReader(path)):
        with pytest.raises(PersistenceUnavailableError, match="is a pipe"):
            attempt()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_the_place_of_the_lock_holds_nobody_up(path: Path) -> None:
    os.mkfifo(path.with_name(path.name + ".lock"))
    with pytest.raises(PersistenceUnavailableError, match="lock"):
        SqliteStore(path).open()
    with pytest.raises(PersistenceUnavailableError, match="lock"):
        lock_owner(path)


def test_a_directory_without_permission_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("ramet.mailbox.file_lock.os.open", refuse)
    with pytest.raises(PersistenceUnavailableError, match="Permission denied"):
        SqliteStore(path).open()


def test_a_failed_opening_leaves_nothing_open_and_nothing_locked(path: Path) -> None:
    path.write_bytes(b"no database at all " * 300)
    before = os.listdir("/dev/fd")
    with pytest.raises(PersistenceUnavailableError):
        SqliteStore(path).open()
    assert os.listdir("/dev/fd") == before
    path.unlink()
    with opened(path) as keeper:
        keeper.write(("s", header("s")))


@given(st.text(st.characters(exclude_categories=())))
def test_a_column_holds_any_string(text: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        (found,) = connection.execute("select ?", (to_column(text),)).fetchone()
    assert from_column(found) == text
