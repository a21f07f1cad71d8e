"""What a person beside a running process can ask of a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import ODD, header
from ramet.mailbox.errors import PersistenceUnavailableError, UsageError
from ramet.mailbox.events import Told
from ramet.mailbox.sqlite_inspector import SqliteInspector
from tests.mailbox.opened_sqlite import opened, writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def test_a_session_is_found_by_the_parts_of_its_id_and_by_its_name(path: Path) -> None:
    with opened(path) as keeper:
        for place, name in enumerate(["abc", "cab", "xabcx", "bca", ODD, "é"]):
            keeper.write((name, header(name, at=place)))
    inspector = SqliteInspector(path)
    assert inspector.matching("abc", 9) == ["abc"]
    assert inspector.matching("ca", 9) == ["cab"]
    assert inspector.matching("a", 9) == ["abc"]
    assert inspector.matching("x", 9) == ["xabcx"]
    assert inspector.matching("bc", 9) == ["bca"]
    assert inspector.matching("ab", 9) == ["abc"]
    assert inspector.matching("bcx", 9) == ["xabcx"]
    assert inspector.matching("é", 9) == ["é"]
    assert inspector.matching(ODD, 9) == [ODD]
    assert inspector.matching("worker", 3) == ["abc", "cab", "xabcx"]
    assert inspector.matching("%", 9) == []
    for part, limit in (("", 1), ("a", 0)):
        with pytest.raises(UsageError, match="a part of an id"):
            inspector.matching(part, limit)
    inspector.close()


def test_everything_in_a_snapshot_is_of_one_moment(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        inspector = SqliteInspector(path)
        with inspector.snapshot():
            assert len(inspector.load("s")) == 1
            keeper.write(("s", Told(2)))
            assert len(inspector.load("s")) == 1
        assert len(inspector.load("s")) == 2
        with pytest.raises(ValueError, match="mine"), inspector.snapshot():
            raise ValueError("mine")
        assert len(inspector.load("s")) == 2
        inspector.close()


def test_a_commit_of_another_process_is_a_change_and_nothing_else_is(
    path: Path,
) -> None:
    with writer(path) as process:
        inspector = SqliteInspector(path)
        before = inspector.changes()
        inspector.load("p")
        assert inspector.changes() == before
        process.step()
        assert inspector.changes() != before
        assert inspector.writer() == process.running.pid
    assert inspector.writer() is None
    inspector.close()


def test_a_whole_file_has_no_faults_and_a_damaged_one_has(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        for number in range(2, 400):
            keeper.write(("s", Told(number)))
    inspector = SqliteInspector(path)
    assert inspector.faults() == []
    inspector.close()
    size = os.path.getsize(path)
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 4))
    inspector = SqliteInspector(path)
    assert inspector.faults() != []
    inspector.close()


def test_a_file_that_cannot_be_read_through_has_a_fault(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(query: str, *arguments: object) -> list[object]:
        raise PersistenceUnavailableError("it is damaged")

    with opened(path) as keeper:
        keeper.write(("s", header("s")))
    inspector = SqliteInspector(path)
    monkeypatch.setattr(inspector, "_ask", fail)
    assert inspector.faults() == ["it is damaged"]
    inspector.close()
