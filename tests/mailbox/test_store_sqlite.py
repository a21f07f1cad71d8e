"""What the SQLite store promises beyond the contract of every store."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ramet.lifecycle.bookkeeper import BookKeeper, header, message
from ramet.mailbox.errors import (
    PersistenceUnavailableError,
)
from ramet.mailbox.events import Accepted, Event, Told
from ramet.mailbox.store_sqlite import SqliteReader, SqliteStore
from tests.mailbox.opened_sqlite import connection_of, opened, patch_connections, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def check_whole_batches(path: Path, acknowledged: int) -> int:
    """A store holds whole batches, in order, and all that were acknowledged."""
    with opened(path) as keeper:
        store = keeper.store
        parent, child = store.load("p"), store.load("c")
        count = len(child) - 1
        assert count >= acknowledged
        assert len(parent) == 1 + 2 * count
        assert child[1:] == [Told(number) for number in range(1, count + 1)]
        assert parent[1::2] == child[1:]
        for number, event in enumerate(parent[2::2], 1):
            assert isinstance(event, Accepted)
            assert (event.id, event.key) == (f"m{number}", f"k{number}")
            assert store.place(event.id) == "p"
            row = store.find("c", f"k{number}")
            assert row is not None
            assert row.message == event.id
        assert store.place(f"m{count + 1}") is None
        row_of_parent = store.row("p")
        assert row_of_parent is not None
        assert row_of_parent.seq == len(parent)
        assert row_of_parent.holder is None
        query = "pragma integrity_check"
        assert connection_of(keeper).execute(query).fetchall() == [("ok",)]
        keeper.claim("p")
        keeper.write(("p", Told(0)))
        return count


@pytest.mark.case("R-173", "R-232")
@pytest.mark.parametrize("seed", range(6))
def test_a_kill_leaves_every_acknowledged_batch_and_only_whole_ones(
    path: Path, seed: int
) -> None:
    acknowledged = 0
    with writer(path, "free") as process:
        for _ in range(random.Random(seed).randrange(1, 60)):
            acknowledged = process.acknowledged()
        process.kill()
    check_whole_batches(path, acknowledged)


@pytest.mark.case("R-173")
def test_a_copy_of_the_files_at_each_acknowledgement_holds_the_message(
    path: Path, tmp_path: Path
) -> None:
    with writer(path) as process:
        for number in range(1, 10):
            assert process.step() == number
            copies = tmp_path / f"copy{number}"
            copies.mkdir()
            for name in ("agents.db", "agents.db-wal"):
                shutil.copy(path.with_name(name), copies)
            assert check_whole_batches(copies / "agents.db", number) == number


def test_opening_puts_what_a_killed_writer_left_into_the_file_itself(
    path: Path, tmp_path: Path
) -> None:
    with writer(path) as process:
        for number in range(1, 4):
            assert process.step() == number
        process.kill()
    alone = tmp_path / "alone.db"
    with opened(path):
        # Not in this process: closing the file here would give up its locks.
        code = f"import shutil; shutil.copy({str(path)!r}, {str(alone)!r})"
        subprocess.run([sys.executable, "-c", code], check=True)
    assert check_whole_batches(alone, 3) == 3


@pytest.mark.case("R-183")
def test_a_reader_reads_after_the_writer_was_killed_and_changes_nothing(
    path: Path,
) -> None:
    with writer(path) as process:
        for _ in range(3):
            process.step()
        process.kill()
    log = path.with_name("agents.db-wal")
    before = log.read_bytes(), path.read_bytes()
    for _ in range(2):
        reader = SqliteReader(path)
        assert len(reader.load("p")) == 7
        row = reader.row("c")
        assert row is not None
        assert (row.seq, row.summary.activation) == (4, None)
        assert [row.session for row in reader.children("p")] == ["c"]
        reader.close()
        assert (log.read_bytes(), path.read_bytes()) == before
    check_whole_batches(path, 3)


@pytest.mark.case("R-183")
def test_a_reader_opens_a_store_that_was_closed_and_goes_on_beside_a_writer(
    path: Path,
) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
    assert not path.with_name("agents.db-wal").exists()
    reader = SqliteReader(path)
    assert reader.load("s") == [header("s")]
    assert stat.S_IMODE(path.with_name("agents.db-wal").stat().st_mode) == 0o600
    with opened(path) as keeper:
        keeper.claim("s")
        keeper.write(("s", Told(2)))
        assert reader.load("s") == [header("s"), Told(2)]
    assert reader.load("s") == [header("s"), Told(2)]
    reader.close()
    with pytest.raises(PersistenceUnavailableError):
        reader.load("s")


def test_a_reader_cannot_write(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        reader = SqliteReader(path)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("delete from event")
        reader.close()


def test_a_reader_can_be_used_in_a_thread_that_did_not_make_it(path: Path) -> None:
    found: list[list[Event]] = []
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        reader = keeper.store.reader()
        thread = threading.Thread(target=lambda: found.append(reader.load("s")))
        thread.start()
        thread.join()
        reader.close()
    assert found == [[header("s")]]


def test_a_path_of_any_characters_can_be_a_store(tmp_path: Path) -> None:
    for name in ("a b?mode=memory&x=#1%41.db", "é\U0001f331.db", "-.db", "a'b.db"):
        path = tmp_path / name
        with opened(path) as keeper:
            keeper.write(("s", header("s")))
            reader = keeper.store.reader()
            assert reader.sessions() == 1
            reader.close()
        assert path.is_file()


def test_claims_of_a_killed_writer_are_void_and_its_activations_stay_known(
    path: Path,
) -> None:
    store = SqliteStore(path)
    store.open()
    keeper = BookKeeper(store)
    keeper.write(("s", header("s")), activation="a1")
    store.close()
    with opened(path) as keeper:
        row = keeper.store.row("s")
        assert row is not None
        assert (row.holder, row.epoch, row.summary.activation) == (None, 1, "a1")


@pytest.mark.case("R-186")
def test_a_full_disk_is_named_and_nothing_is_written_after_it(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        connection = connection_of(keeper)
        (pages,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {pages + 4}").fetchall()
        large = Accepted("m1", "report", "c", ("x" * 100_000,), "quiet", 1, key="k")
        with pytest.raises(PersistenceUnavailableError, match="make room") as first:
            keeper.write(("s", Told(1)), ("s", large))
        assert isinstance(first.value.__cause__, sqlite3.OperationalError)
        with pytest.raises(
            PersistenceUnavailableError, match="failed before"
        ) as second:
            keeper.write(("s", Told(1)))
        assert second.value.__cause__ is first.value
        assert keeper.store.load("s") == [header("s")]
        assert keeper.store.find("c", "k") is None
    with opened(path) as keeper:
        keeper.claim("s")
        keeper.write(("s", large))
        assert keeper.store.load("s") == [header("s"), large]


@pytest.mark.parametrize("statement", ["begin immediate", "commit"])
def test_a_failed_commit_poisons_the_store_until_it_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    armed: list[str] = []

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if sql in armed:
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *rest)

    patch_connections(monkeypatch, Failing)
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        armed.append(statement)
        with pytest.raises(PersistenceUnavailableError, match="disk I/O error"):
            keeper.write(("s", message("m1", "k")))
        armed.clear()
        for attempt in (
            lambda: keeper.write(("s", message("m1", "k"))),
            lambda: keeper.store.claim("s", "one"),
        ):
            with pytest.raises(PersistenceUnavailableError, match="failed before"):
                attempt()
        assert keeper.store.load("s") == [header("s")]
        keeper.store.close()
        keeper.store.open()
        assert keeper.store.find("host", "k") is None
        keeper.claim("s")
        keeper.write(("s", message("m1", "k")))
        armed.append(statement)
        with pytest.raises(PersistenceUnavailableError, match="disk I/O error"):
            keeper.claim("s")
        armed.clear()
        with pytest.raises(PersistenceUnavailableError, match="failed before"):
            keeper.write(("s", Told(1)))


def test_another_program_that_locks_the_file_is_waited_for_and_then_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.mailbox.sqlite_file._WAIT_S", 0.01)
    with opened(path) as keeper, contextlib.closing(sqlite3.connect(path)) as other:
        keeper.write(("s", header("s")))
        other.execute("begin immediate")
        with pytest.raises(PersistenceUnavailableError, match="another program"):
            keeper.write(("s", Told(1)))


def test_nothing_stays_open_after_closing(path: Path) -> None:
    before = os.listdir("/dev/fd")
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        reader = keeper.store.reader()
        reader.sessions()
        reader.close()
        assert len(os.listdir("/dev/fd")) > len(before)
    assert os.listdir("/dev/fd") == before
    assert sorted(os.listdir(path.parent)) == ["agents.db", "agents.db.lock"]
