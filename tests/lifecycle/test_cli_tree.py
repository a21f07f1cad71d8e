"""The tree of stored sessions: its order, and the state of each."""

from __future__ import annotations

from pathlib import Path

from ramet.lifecycle.bookkeeper import BookKeeper, header
from ramet.lifecycle.cli_tree import read_tree, rows_below
from ramet.mailbox.events import Activated
from ramet.mailbox.sqlite_inspector import SqliteInspector
from ramet.mailbox.store_sqlite import SqliteStore
from tests.lifecycle.commands import make_cut, make_finished
from tests.mailbox.opened_sqlite import opened


def names(path: Path, root: str | None = None) -> list[tuple[str, str]]:
    inspector = SqliteInspector(path)
    try:
        return [(one.name, one.state) for one in read_tree(inspector, root).sessions]
    finally:
        inspector.close()


def test_the_tree_is_in_order_of_creation_with_parents_before_children(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "a.db") as keeper:
        for place, (name, parent) in enumerate(
            [("r", None), ("b", "r"), ("q", None), ("a", "r"), ("bb", "b"), ("c", "q")]
        ):
            keeper.write((name, header(name, parent, at=place)))
    inspector = SqliteInspector(tmp_path / "a.db")
    found = [row.session for row in rows_below(inspector, None)]
    assert found == ["r", "b", "bb", "a", "q", "c"]
    assert [row.session for row in rows_below(inspector, "b")] == ["b", "bb"]
    assert rows_below(inspector, "nobody") == []
    children = read_tree(inspector, None).children()
    assert children[None] == ["r", "q"]
    assert children["r"] == ["b", "a"]
    inspector.close()


def test_a_very_deep_tree_and_more_children_than_a_page_are_read(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "a.db") as keeper:
        chain = [f"d{depth}" for depth in range(1200)]
        written = [
            (one, header(one, chain[place - 1] if place else None))
            for place, one in enumerate(chain)
        ]
        keeper.write(*written)
        wide = [
            (f"w{number:04}", header(f"w{number:04}", "d0")) for number in range(1201)
        ]
        keeper.write(*wide)
    inspector = SqliteInspector(tmp_path / "a.db")
    assert len(rows_below(inspector, None)) == 2401
    inspector.close()


def test_a_finished_store_is_at_rest_and_a_cut_one_says_what_was_cut(
    tmp_path: Path,
) -> None:
    make_finished(tmp_path / "ramet.db")
    assert {state for _, state in names(tmp_path / "ramet.db")} == {"gone"}
    make_cut(tmp_path / "cut.db")
    assert names(tmp_path / "cut.db") == [
        ("lead", "cut"),
        ("scout", "gone"),
        ("oracle", "gone"),
        ("slow", "cut"),
    ]


def test_a_session_cut_before_is_cut_beside_a_new_writer_that_did_not_resume_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    with opened(path) as keeper:
        keeper.write(("old", header("old")), ("old", Activated("a", 2)), activation="a")
    store = SqliteStore(path)
    store.open()
    keeper = BookKeeper(store)
    keeper.write(("new", header("new", at=5)), activation="b", turn_open=True)
    keeper.write(("parked", header("parked", at=6)), activation="c")
    keeper.write(("up", header("up", at=7)), activation="d")
    keeper.write(("down", header("down", "up", at=8)), activation="e", turn_open=True)
    inspector = SqliteInspector(path)
    try:
        tree = read_tree(inspector)
        assert tree.writer is not None
        assert {one.id: one.state for one in tree.sessions} == {
            "old": "cut",
            "new": "running",
            "parked": "parked",
            "up": "waiting",
            "down": "running",
        }
    finally:
        inspector.close()
        store.close()
