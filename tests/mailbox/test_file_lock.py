"""One process writes a file, and only its owner can read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import header
from ramet.mailbox.errors import (
    PersistenceUnavailableError,
    StoreInUseError,
)
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
