"""One process writes a file, and only its owner can read it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import header
from ramet.mailbox.errors import (
    PersistenceUnavailableError,
    StoreInUseError,
)
from ramet.mailbox.file_lock import FileLock, lock_owner
from ramet.mailbox.store_sqlite import SqliteReader, SqliteStore
from tests.mailbox.opened_sqlite import opened, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_only_the_owner_can_read_the_files(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with opened(path) as keeper:
            keeper.write(("s", header("s")))
            names = ["agents.db", "agents.db-shm", "agents.db-wal", "agents.db.lock"]
            assert sorted(os.listdir(path.parent)) == names
            for name in names:
                mode = stat.S_IMODE(path.with_name(name).stat().st_mode)
                assert mode == 0o600, name
    finally:
        os.umask(before)


def test_a_file_that_others_could_read_is_made_private(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
    path.chmod(0o666)
    with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_writer_in_this_process_is_refused_whatever_way_it_comes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = path.with_name("link.db")
    with opened(path) as keeper:
        link.symlink_to(path)
        monkeypatch.chdir(path.parent)
        for other in (
            path,
            link,
            Path("agents.db"),
            Path("../") / path.parent.name / "link.db",
        ):
            with pytest.raises(StoreInUseError, match="this process already"):
                SqliteStore(other).open()
        keeper.write(("s", header("s")))
    with opened(link) as keeper:
        keeper.claim("s")
    assert not link.with_name("link.db.lock").exists()


def test_a_second_writing_process_is_refused_and_readers_are_not(path: Path) -> None:
    with writer(path) as process:
        with pytest.raises(StoreInUseError, match=f"process {process.running.pid}:"):
            SqliteStore(path).open()
        reader = SqliteReader(path)
        for number in range(1, 10):
            assert process.step() == number
            assert len(reader.load("p")) == 1 + 2 * number
            assert reader.place(f"m{number}") == "p"
        reader.close()
    with opened(path) as keeper:
        assert keeper.claim("p") == 2


def test_two_objects_that_open_in_turn_leave_the_lock_free(path: Path) -> None:
    for number in range(3):
        with opened(path) as keeper:
            keeper.write((f"s{number}", header(f"s{number}")))
            assert keeper.store.sessions() == number + 1
        assert path.with_name("agents.db.lock").read_text() == ""


def test_a_process_that_cannot_lock_is_told_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("ramet.mailbox.file_lock._take", refuse)
    with pytest.raises(PersistenceUnavailableError, match="cannot be locked"):
        SqliteStore(path).open()


def test_the_owner_of_a_lock_is_told_and_nobody_owns_it_afterwards(path: Path) -> None:
    assert lock_owner(path) is None
    with writer(path) as process:
        assert lock_owner(path) == process.running.pid
    assert path.with_name("agents.db.lock").read_text() == str(process.running.pid)
    assert lock_owner(path) is None
    with opened(path):
        assert lock_owner(path) == os.getpid()
    assert lock_owner(path) is None


def test_an_owner_that_gives_no_number_is_zero(path: Path) -> None:
    with opened(path):
        path.with_name("agents.db.lock").write_text("who")
        assert lock_owner(path) == 0


def test_looking_at_a_lock_makes_no_file_and_follows_no_link(path: Path) -> None:
    assert lock_owner(path) is None
    assert os.listdir(path.parent) == []
    path.with_name("agents.db.lock").symlink_to(path)
    with pytest.raises(PersistenceUnavailableError, match="cannot be read"):
        lock_owner(path)


def test_a_lock_that_cannot_be_looked_at_is_told_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> bool:
        raise OSError(95, "Operation not supported")

    path.with_name("agents.db.lock").write_text("1")
    monkeypatch.setattr("ramet.mailbox.file_lock._is_taken", refuse)
    with pytest.raises(PersistenceUnavailableError, match="cannot be looked at"):
        lock_owner(path)


def test_a_look_refuses_no_writer_that_opens_at_the_same_moment(path: Path) -> None:
    """A killed writer left its number, so that each look tries the lock."""
    lock = FileLock(path)
    done = threading.Event()
    looks = 0

    def look() -> None:
        nonlocal looks
        while not done.is_set():
            lock_owner(path)
            looks += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(300):
            lock.path.write_text("1")
            lock.acquire()
            lock.release()
    finally:
        done.set()
        thread.join()
    assert looks > 0
