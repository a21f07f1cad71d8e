"""What is said of sessions that a dead process left: the command that goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ramet import SqliteReader
from ramet.lifecycle.cli_go_on import how_to_go_on
from ramet.mailbox.events import Created, Journaled, Kind, SpecRecord
from tests.mailbox.opened_sqlite import opened

PROGRAM = "in the program that opened the store"
STARTED = Journaled(
    "run.started",
    '{"args":[],"digest":"d","input":null,"script":"/job.py"}',
    1,
)


def made(
    session: str, kind: Kind = "interactive", parent: str | None = None
) -> Created:
    return Created(session, parent, 1 if parent else 0, kind, SpecRecord("worker"), 1)


@pytest.fixture
def reader(tmp_path: Path) -> SqliteReader:
    """A store with two runs, two conversations, and what is no root of either."""
    path = tmp_path / "ramet.db"
    with opened(path) as keeper:
        for name in ("run1", "run2"):
            keeper.write((name, made(name)), (name, STARTED))
        for name in ("chat1", "chat2", "torn", "loop"):
            keeper.write((name, made(name)))
        keeper.write(("below", made("below", "continuable", "chat1")))
        keeper.write(("asked", made("asked", "headless")))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "update event set bodies = '{}' where place >> 32 ="
            " (select id from session where session = 'torn')"
        )
        connection.execute("update session set parent = 'loop' where session = 'loop'")
    connection.close()
    return SqliteReader(path)


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (["run1"], f"go on with: ramet resume, or {PROGRAM}"),
        (["run1", "run2"], f"go on with: ramet resume, or {PROGRAM}"),
        (["below"], f"go on with: ramet chat --resume chat1, or {PROGRAM}"),
        (["chat1", "chat2"], f"go on with: ramet chat --resume ID, or {PROGRAM}"),
        (
            ["run1", "chat1"],
            f"go on with: ramet resume, or ramet chat --resume chat1, or {PROGRAM}",
        ),
        (["asked"], f"go on {PROGRAM}"),
        (["torn"], f"go on {PROGRAM}"),
        (["loop"], f"go on {PROGRAM}"),
        (["not there"], f"go on {PROGRAM}"),
    ],
)
def test_the_command_fits_what_was_cut(
    reader: SqliteReader, cut: list[str], said: str
) -> None:
    try:
        assert how_to_go_on(reader, cut) == said
    finally:
        reader.close()
