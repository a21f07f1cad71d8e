"""What the memory store promises beyond the contract of every store."""

from __future__ import annotations

import pytest

from ramet.lifecycle.bookkeeper import BookKeeper, header, message
from ramet.mailbox.errors import (
    PersistenceUnavailableError,
    SessionHeldError,
    StoreInUseError,
)
from ramet.mailbox.events import Told
from ramet.mailbox.store import Reader, Store
from ramet.mailbox.store_memory import MemoryReader, MemoryStore


def opened(store: MemoryStore, holder: str) -> BookKeeper:
    store.open()
    return BookKeeper(store, holder)


def test_it_has_the_shape_of_the_port() -> None:
    assert isinstance(MemoryStore(), Store)
    assert isinstance(MemoryReader(), Reader)
    assert MemoryStore.blocking is False


def test_the_stored_events_are_the_objects_themselves() -> None:
    one = opened(MemoryStore(), "one")
    first = header("s")
    one.write(("s", first))
    assert one.store.load("s")[0] is first


def test_two_supervisors_share_data_and_respect_each_others_claims() -> None:
    first = MemoryStore()
    one, two = opened(first, "one"), opened(MemoryStore(first.data), "two")
    one.write(("s", header("s")))
    two.write(("t", header("t")))
    assert one.store.sessions() == two.store.sessions() == 2
    with pytest.raises(SessionHeldError, match="held by one"):
        two.store.claim("s", "two")
    one.store.release("s", "one")
    assert two.claim("s") == 2


def test_a_holder_that_was_buried_writes_no_more_and_its_sessions_can_be_taken() -> (
    None
):
    first = MemoryStore()
    one, two = opened(first, "one"), opened(MemoryStore(first.data), "two")
    one.write(("s", header("s")), activation="a")
    first.bury("one")
    assert two.claim("s") == 2
    with pytest.raises(SessionHeldError):
        one.write(("s", Told(1)))
    with pytest.raises(PersistenceUnavailableError):
        one.write(("t", header("t")))
    two.write(("s", Told(2)))
    assert two.store.load("s") == [header("s"), Told(2)]


def test_a_buried_holder_is_refused_also_before_anybody_took_its_session() -> None:
    store = MemoryStore()
    one = opened(store, "one")
    one.write(("s", header("s")))
    store.bury("one")
    with pytest.raises(SessionHeldError):
        one.write(("s", Told(1)))
    assert store.load("s") == [header("s")]


@pytest.mark.case("R-182")
def test_a_buried_holder_begins_no_session_and_claims_none() -> None:
    first = MemoryStore()
    one, two = opened(first, "one"), opened(MemoryStore(first.data), "two")
    one.write(("s", header("s")))
    two.store.bury("one")  # type: ignore[attr-defined]
    with pytest.raises(PersistenceUnavailableError, match="lease of one ran out"):
        one.claim("s")
    with pytest.raises(SessionHeldError, match="lease of one ran out"):
        one.write(("t", header("t", "s")))
    assert two.store.row("t") is None
    assert first.snapshot().data.buried == set()


def test_who_closes_may_open_again_under_the_same_name() -> None:
    store = MemoryStore()
    opened(store, "one").write(("s", header("s")))
    store.close()
    again = opened(store, "one")
    assert again.claim("s") == 2
    again.write(("s", Told(1)))


def test_a_snapshot_is_what_a_crash_would_leave() -> None:
    store = MemoryStore()
    one = opened(store, "one")
    one.write(("p", header("p")), ("p", message("m1", "k")), activation="a")
    one.write(("c", header("c", "p")), untold=1)
    copy = store.snapshot()
    one.write(("p", Told(1)), ("d", header("d", "p")), ("d", message("m2", "k2")))
    assert copy.load("p") == [header("p"), message("m1", "k")]
    assert copy.sessions() == 2
    assert [row.session for row in copy.children("p")] == ["c"]
    assert [row.session for row in copy.unfinished("p")] == ["c"]
    assert copy.place("m2") is None
    assert copy.find("host", "k2") is None
    row = copy.row("p")
    assert row is not None
    assert (row.holder, row.epoch, row.summary.activation) == (None, 1, "a")
    again = opened(copy, "two")
    assert again.claim("p") == 2
    again.write(("p", Told(9)))
    assert store.load("p")[-1] == Told(1)


def test_closing_voids_the_claims_of_this_handle_and_no_others() -> None:
    first = MemoryStore()
    one, two = opened(first, "one"), opened(MemoryStore(first.data), "two")
    one.write(("s", header("s")))
    two.write(("t", header("t")))
    first.close()
    assert two.claim("s") == 2
    two.write(("t", Told(1)))
    assert first.load("s") == [header("s")]


def test_one_handle_serves_one_supervisor() -> None:
    store = MemoryStore()
    store.open()
    with pytest.raises(StoreInUseError, match=r"MemoryStore\(store\.data\)"):
        store.open()
    store.close()
    store.open()
