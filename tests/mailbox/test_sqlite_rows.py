"""What rows hold, and that damaged ones are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ramet.lifecycle.bookkeeper import ODD, header, message
from ramet.mailbox.codec import encode
from ramet.mailbox.errors import (
    CorruptLogError,
    KeyConflictError,
    RametError,
    UnsupportedLogError,
    UsageError,
)
from ramet.mailbox.events import Accepted, Event, Told
from ramet.mailbox.sqlite_rows import SEQUENCES
from ramet.mailbox.store_sqlite import SqliteReader
from tests.mailbox.opened_sqlite import connection_of, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


def test_a_message_of_5_mb_and_any_text_survive(path: Path) -> None:
    events: list[Event] = [
        Accepted("m1", "report", ODD, ("x" * (5 << 20), ODD), "quiet", 1, key=ODD),
        Accepted(ODD, "report", "c", ("\ud83c\udf31\ud83c", "\U0001f331"), "quiet", 1),
    ]
    with opened(path) as keeper:
        keeper.write((ODD, header(ODD)), *((ODD, event) for event in events))
    with opened(path) as keeper:
        assert keeper.store.load(ODD) == [header(ODD), *events]
        row = keeper.store.find(ODD, ODD)
        assert row is not None
        assert (row.message, row.session) == ("m1", ODD)
        assert keeper.store.place(ODD) == ODD


@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        ("update event set bodies = '{{' where {1}", CorruptLogError, "event 1 of s"),
        ("update event set bodies = x'00' where {1}", CorruptLogError, "event 1 of s"),
        (
            "update event set bodies = replace(bodies, '\"v\":1', '\"v\":9') where {1}",
            UnsupportedLogError,
            "event 1 of s",
        ),
        (
            "update event set bodies = replace(bodies, char(10), ' ') where {2}",
            CorruptLogError,
            "event 2 of s",
        ),
        ("delete from event where {1}", CorruptLogError, "lacks event 1"),
        ("delete from event where {2}", CorruptLogError, "ends at 2"),
        ("delete from event", CorruptLogError, "lacks event 0"),
    ],
)
def test_a_log_that_was_damaged_is_refused_by_place(
    path: Path, statement: str, error: type[RametError], words: str
) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        keeper.write(("s", Told(1)))
        keeper.write(("s", Told(2)), ("s", Told(3)))
        places = [f"place = {SEQUENCES + seq}" for seq in range(3)]
        connection_of(keeper).execute(statement.format(*places))
        with pytest.raises(error, match=words):
            keeper.store.load("s")
        if "lacks" not in words:
            with pytest.raises(error, match=words):
                keeper.store.load("s", 1)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 300, 1000])
def test_a_log_is_read_from_any_event_whatever_rows_it_is_in(
    path: Path, count: int
) -> None:
    told = [Told(at) for at in range(count)]
    with opened(path) as keeper:
        keeper.write(("s", header("s")), *(("s", one) for one in told))
        keeper.write(("s", Told(-1)))
        log = [header("s"), *told, Told(-1)]
        rows = connection_of(keeper).execute("select count(*) from event").fetchone()
        assert rows[0] == 2 + count // 256
        for after in {0, 1, 2, 255, 256, 257, count, count + 1, count + 2, 1 << 70}:
            assert keeper.store.load("s", after) == log[after:]


def test_a_row_of_events_is_bounded_by_its_size(path: Path) -> None:
    large = [
        Accepted(f"m{place}", "report", "c", ("x" * (400 << 10),), "quiet", 1)
        for place in range(5)
    ]
    with opened(path) as keeper:
        keeper.write(("s", header("s")), *(("s", one) for one in large))
        query = "select place, length(bodies) from event order by place"
        rows = connection_of(keeper).execute(query).fetchall()
        assert [place - SEQUENCES for place, _ in rows] == [0, 3, 5]
        assert all(size < 1 << 20 for _, size in rows)
        assert keeper.store.load("s", 4) == large[3:]


def test_many_sessions_with_many_messages_are_written_at_once(path: Path) -> None:
    """Whatever the number of rows, all of them are there: see `_AT_ONCE`."""
    with opened(path) as keeper:
        written: list[tuple[str, Event]] = []
        for place in range(150):
            written.append((f"s{place}", header(f"s{place}")))
            key = f"k{place}" if place % 2 else None
            written.append((f"s{place}", message(f"m{place}", key)))
        keeper.write(*written)
        for place in range(150):
            assert keeper.store.place(f"m{place}") == f"s{place}"
            found = keeper.store.find("host", f"k{place}")
            assert (found is not None) is (place % 2 == 1)
        keeper.write(*[(f"s{place}", Told(1)) for place in range(150)])
        assert {row.seq for row in keeper.store.children(None, limit=200)} == {3}


def test_the_file_itself_refuses_a_second_use_of_a_key_or_a_place(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")), ("s", message("m1", "k")))
        connection = connection_of(keeper)
        body = encode(Told(1))
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("insert into event values (?, ?)", (SEQUENCES, body))
        for name, error in (("m2", KeyConflictError), ("m1", UsageError)):
            with pytest.raises(error):
                keeper.write(("s", message(name, "k" if name == "m2" else None)))
            keeper.store.close()
            keeper.store.open()
            keeper.claim("s")


def test_the_listing_loads_no_log_and_reads_no_whole_table(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(
            ("p", header("p")), ("c", header("c", "p")), ("p", message("m", "k"))
        )
        reader = SqliteReader(path)
        asked: list[str] = []
        reader._connection.set_trace_callback(asked.append)
        reader.row("p")
        reader.children(None)
        reader.children("p")
        reader.children(None, "p")
        reader.children("p", "c", 5)
        reader.unfinished("p")
        reader.find("host", "k")
        reader.place("m")
        reader.usage("p")
        assert not any(" event" in query for query in asked)
        reader.load("p", 1)
        reader._connection.set_trace_callback(None)
        assert len(asked) == 10
        for query in asked:
            plan = reader._connection.execute(f"explain query plan {query}").fetchall()
            steps = [row[3] for row in plan]
            for table in ("session", "event", "message", "each", "own"):
                assert not any(step.startswith(f"SCAN {table}") for step in steps), plan
            assert not any("TEMP B-TREE" in step for step in steps), plan
        reader.close()


def test_the_log_beside_the_file_stays_small(path: Path) -> None:
    with opened(path) as keeper:
        keeper.write(("s", header("s")))
        reader = keeper.store.reader()
        for number in range(60):
            text = "x" * 400_000
            keeper.write(
                ("s", Accepted(f"m{number}", "report", "c", (text,), "quiet", 1))
            )
            assert len(reader.load("s", number)) == 2
        assert path.stat().st_size > 12 << 20
        assert path.with_name("agents.db-wal").stat().st_size < 20 << 20
        reader.close()
