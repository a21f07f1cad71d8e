"""Every store that ramet has keeps what the port promises."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ramet.lifecycle.contract_bookmarks import BookmarksContract
from ramet.mailbox.store import Store
from ramet.mailbox.store_memory import MemoryStore
from ramet.mailbox.store_sqlite import SqliteStore


class TestMemoryStore(BookmarksContract):
    def make_store(self) -> Store:
        return MemoryStore()

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, MemoryStore)
        return MemoryStore(store.data)


class TestSqliteStore(BookmarksContract):
    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    def make_store(self) -> Store:
        return SqliteStore(next(self.paths))

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        return SqliteStore(store.path)
