"""The suite that every store must pass: what the port promises, as tests.

Lives here: `StoreContract`, which runs under pytest when a class inherits from it.  It
knows the port and no store, and needs no pytest itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from ..mailbox.codec import content_digest
from ..mailbox.errors import (
    KeyConflictError,
    NotResumableError,
    PersistenceUnavailableError,
    SessionHeldError,
    StoreInUseError,
    UsageError,
)
from ..mailbox.events import Event, Told
from ..mailbox.message import Usage
from ..mailbox.store import Entry, KeyRow, Reader, Store
from .bookkeeper import (
    ODD,
    REST,
    BookKeeper,
    header,
    message,
    refused,
    sample_events,
)

__all__ = ["StoreContract"]


class StoreContract:
    """Every promise of the port; inherit from it and give the two methods."""

    def make_store(self) -> Store:
        """A new store that holds nothing and is not open."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store:
        """Another store over what `store`, which is closed, holds; it is not open."""
        raise NotImplementedError

    @contextlib.contextmanager
    def opened(self, store: Store | None = None) -> Iterator[BookKeeper]:
        """A book-keeper over a new store, or a given one, open in this block."""
        store = self.make_store() if store is None else store
        store.open()
        try:
            yield BookKeeper(store)
        finally:
            store.close()

    def test_a_batch_over_sessions_is_stored_in_order(self) -> None:
        """Law 19, R-173: what was appended is there, and the index agrees."""
        with self.opened() as keeper:
            first, second = header("p"), attrs.evolve(header("c", "p", 7), depth=1)
            keeper.write(("p", first), ("c", second), ("p", Told(3)), turn=4, last_at=9)
            store = keeper.store
            assert store.load("p") == [first, Told(3)]
            assert store.load("c") == [second]
            row = store.row("c")
            assert row is not None
            assert (row.session, row.parent, row.depth) == ("c", "p", 1)
            assert (row.name, row.kind, row.created_at) == ("worker", "continuable", 7)
            assert (row.seq, row.holder, row.epoch) == (1, "one", 1)
            assert row.summary == attrs.evolve(REST, turn=4, last_at=9)
            assert store.sessions() == 2

    def test_every_kind_of_event_comes_back_equal(self) -> None:
        """Also with text that is no Unicode text."""
        store = self.make_store()
        events = sample_events()
        with self.opened(store) as keeper:
            keeper.write(("p", header("p")))
            keeper.write(*(("s", event) for event in events))
            assert store.load("s") == events
        with self.opened(self.reopen(store)) as keeper:
            assert keeper.store.load("s") == events

    def test_texts_of_any_size_are_stored_whole(self) -> None:
        """Wherever in their batch they stand."""
        large = attrs.evolve(message("m"), content=("x" * 3_000_000,))
        small = Told(1)
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            log: list[Event] = [header("s")]
            for number, shape in enumerate(("L", "LL", "sL", "Ls", "sLsL")):
                events = [
                    attrs.evolve(large, id=f"m{number}.{place}") if it == "L" else small
                    for place, it in enumerate(shape)
                ]
                keeper.write(*(("s", event) for event in events))
                log += events
            assert keeper.store.load("s") == log
            assert keeper.store.load("s", 3) == log[3:]

    def test_a_log_is_read_from_a_place_on(self) -> None:
        """`after` is the first sequence that is wanted."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")), *(("s", Told(at)) for at in range(1, 5)))
            assert keeper.store.load("s", 3) == [Told(3), Told(4)]
            assert keeper.store.load("s", 5) == []
            assert keeper.store.load("s", 1 << 70) == []

    def test_a_missing_thing_is_nothing_and_no_error(self) -> None:
        """Whatever the name is."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            store = keeper.store
            for name in ("none", "", ODD):
                assert store.load(name) == []
                assert store.row(name) is None
                assert store.children(name) == []
                assert store.children(None, after=name) == []
                assert store.unfinished(name) == []
                assert store.find(name, name) is None
                assert store.place(name) is None
                assert store.usage(name) == (Usage(), Usage())

    def test_a_batch_whose_second_part_is_refused_leaves_nothing(self) -> None:
        """R-173: also when the batch spans sessions."""
        store = self.make_store()
        with self.opened(store) as keeper:
            keeper.write(("p", header("p")), ("p", message("m1", "k")))
            bad = keeper.batch(
                ("p", Told(5)), ("c", header("c", "p")), ("c", message("m2", "k"))
            )
            with refused(KeyConflictError):
                store.append(bad)
            self._unchanged(store)
        with self.opened(self.reopen(store)) as keeper:
            self._unchanged(keeper.store)

    def _unchanged(self, store: Reader) -> None:
        assert store.load("p") == [header("p"), message("m1", "k")]
        assert store.row("c") is None
        assert store.load("c") == []
        assert store.children("p") == []
        assert store.place("m2") is None
        assert store.sessions() == 1

    def test_another_expected_sequence_is_refused(self) -> None:
        """A session that is there cannot be created, one that is not cannot go on."""
        wrong = ({"p": 0}, {"p": 1}, {"p": 3}, {"q": 1})
        for expected in wrong:
            with self.opened(self.make_store()) as keeper:
                keeper.write(("p", header("p")), ("p", message("m1", "k")))
                ((name, seq),) = expected.items()
                event: Event = header(name) if seq == 0 else Told(5)
                batch = attrs.evolve(
                    keeper.batch(("p", event)),
                    entries=[Entry(name, seq, event)],
                    expected=expected,
                    epochs={name: 1},
                    summaries={name: REST},
                )
                with refused(SessionHeldError):
                    keeper.store.append(batch)
                self._unchanged(keeper.store)

    def test_another_claim_is_refused(self) -> None:
        """R-182: the holder and the epoch must both be those of the claim."""
        changes: list[dict[str, Any]] = [
            {"holder": "two"},
            {"epochs": {"p": 2}},
            {"epochs": {"p": 0}},
            {"epochs": {}},
        ]
        for change in changes:
            with self.opened(self.make_store()) as keeper:
                keeper.write(("p", header("p")), ("p", message("m1", "k")))
                batch = attrs.evolve(keeper.batch(("p", Told(5))), **change)
                with refused(SessionHeldError):
                    keeper.store.append(batch)
                self._unchanged(keeper.store)

    def test_a_released_session_is_not_written(self) -> None:
        """R-182: nobody writes without a claim."""
        with self.opened() as keeper:
            keeper.write(("p", header("p")), ("p", message("m1", "k")))
            keeper.store.release("p", "one")
            with refused(SessionHeldError):
                keeper.write(("p", Told(5)))
            self._unchanged(keeper.store)

    def test_a_claim_has_one_holder_and_a_growing_epoch(self) -> None:
        """R-181: a live holder is never pushed aside."""
        with self.opened() as keeper:
            store = keeper.store
            keeper.write(("s", header("s")))
            with refused(SessionHeldError):
                store.claim("s", "two")
            store.release("s", "two")
            with refused(SessionHeldError):
                store.claim("s", "two")
            store.release("s", "one")
            row = store.row("s")
            assert row is not None
            assert row.holder is None
            assert store.claim("s", "two") == 2
            with refused(SessionHeldError):
                store.claim("s", "one")
            store.release("s", "two")
            assert keeper.claim("s") == 3
            assert keeper.claim("s") == 4
            keeper.write(("s", Told(2)))
            row = store.row("s")
            assert row is not None
            assert (row.holder, row.epoch, row.seq) == ("one", 4, 2)
            with refused(NotResumableError):
                store.claim("none", "one")
            store.release("none", "one")

    def test_opening_again_voids_claims_and_keeps_everything_else(self) -> None:
        """R-181, R-188: a dead holder stands in nobody's way, and epochs go on."""
        store = self.make_store()
        with self.opened(store) as keeper:
            keeper.write(("p", header("p")), ("p", message("m1", "k")), activation="a")
            keeper.write(("c", header("c", "p")), usage=Usage(1, 5))
            before = [store.row("p"), store.row("c")]
        with self.opened(self.reopen(store)) as keeper:
            again = keeper.store
            for row in before:
                assert row is not None
                assert again.row(row.session) == attrs.evolve(row, holder=None)
            assert again.load("p") == [header("p"), message("m1", "k")]
            assert [row.session for row in again.children("p")] == ["c"]
            assert again.place("m1") == "p"
            assert again.usage("p") == (Usage(), Usage(1, 5))
            keeper.holder = "two"
            assert keeper.claim("p") == 2
            keeper.write(("p", Told(5)))
            with refused(KeyConflictError):
                keeper.write(("p", message("m3", "k")))

    def test_a_key_names_its_first_message_for_good(self) -> None:
        """Law 19: keys belong to their sender, and any string can be one."""
        with self.opened() as keeper:
            store = keeper.store
            keeper.write(("s", header("s")), ("s", message("m1", "k", "a")))
            keeper.write(("s", message("m2", "k", "b")), ("s", message("m3")))
            keeper.write(("s", message(ODD, ODD, ODD)), ("s", message("m4", "")))
            digest = content_digest("report", ("text of m1",))
            assert store.find("a", "k") == KeyRow("m1", "s", "report", digest)
            pairs = (("b", "k"), (ODD, ODD), ("host", ""))
            rows = [store.find(*pair) for pair in pairs]
            assert [row and row.message for row in rows] == ["m2", ODD, "m4"]
            assert store.find("host", "k") is None
            assert [store.place(name) for name in ("m1", "m3", ODD)] == ["s"] * 3
            with refused(KeyConflictError):
                keeper.write(("s", message("m5", "k", "a")))
            assert store.place("m5") is None

    def test_one_batch_cannot_use_a_key_twice(self) -> None:
        """Nor leave one of the two behind."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            with refused(KeyConflictError):
                keeper.write(("s", message("m1", "k")), ("s", message("m2", "k")))
            assert keeper.store.load("s") == [header("s")]
            assert keeper.store.find("host", "k") is None

    def test_pages_of_children_put_together_are_the_whole(self) -> None:
        """Ordered by creation time, then id, also when many have one creation time."""
        with self.opened() as keeper:
            keeper.write(("p", header("p")), ("q", header("q", at=0)))
            names = [(number * 7919 % 13, f"c{number:04}") for number in range(1000)]
            keeper.write(*((name, header(name, "p", at)) for at, name in names))
            whole = [name for _, name in sorted(names)]
            for limit in (1, 333, 1000, 5000):
                seen: list[str] = []
                while page := keeper.store.children(
                    "p", seen[-1] if seen else None, limit
                ):
                    assert len(page) <= limit
                    seen += [row.session for row in page]
                    if limit == 1 and len(seen) == 20:
                        break
                assert seen == whole[: len(seen)]
                assert len(seen) == (20 if limit == 1 else 1000)
            assert len(keeper.store.children("p")) == 100
            assert [row.session for row in keeper.store.children(None)] == ["q", "p"]

    def test_unfinished_children_are_found_without_the_others(self) -> None:
        """R-231: live, in a turn, or untold; and no longer when they are at rest."""
        with self.opened() as keeper:
            keeper.write(("p", header("p")), activation="a")
            keeper.write(("c", header("c", "p")))
            keeper.write(("e", header("e", "p", 3)), activation="a")
            keeper.write(("d", header("d", "p", 2)), turn_open=True)
            keeper.write(("b", header("b", "p", 3)), untold=2)
            keeper.write(("g", header("g", "e")), activation="a")
            found = [row.session for row in keeper.store.unfinished("p")]
            assert found == ["d", "b", "e"]
            keeper.write(("d", Told(4)), pending=3)
            keeper.write(("c", Told(4)), untold=1)
            found = [row.session for row in keeper.store.unfinished("p")]
            assert found == ["c", "b", "e"]

    def test_usage_sums_a_deep_subtree(self) -> None:
        """Law 21: at depth 3,000, and a number nobody gave stays unknown."""
        with self.opened() as keeper:
            names = [f"s{number:04}" for number in range(3001)]
            pairs = zip(names, [None, *names], strict=False)
            headers = [(name, header(name, parent)) for name, parent in pairs]
            keeper.write(*headers, usage=Usage(1, 2, None, 0, None, 3))
            keeper.write(("x", header("x", names[1])), usage=Usage(5, None, 7))
            own = Usage(1, 2, None, 0, None, 3)
            total = Usage(3006, 6002, 7, 0, None, 9003)
            assert keeper.store.usage(names[0]) == (own, total)
            assert keeper.store.usage(names[-1]) == (own, own)
            assert keeper.store.usage("x") == (Usage(5, None, 7), Usage(5, None, 7))

    def test_a_reader_beside_the_writer_sees_whole_batches(self) -> None:
        """From another thread, while the writer writes (R-183)."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            reader = keeper.store.reader()
            seen: list[int] = []
            done = threading.Event()

            def read() -> None:
                while not done.is_set():
                    seen.append(len(reader.load("s")))
                seen.append(len(reader.load("s")))
                reader.close()
                reader.close()

            thread = threading.Thread(target=read)
            thread.start()
            try:
                for at in range(1, 41):
                    keeper.write(("s", Told(at)), ("s", Told(at)))
            finally:
                done.set()
                thread.join()
            assert seen == sorted(seen)
            assert seen[-1] == 81
            assert all(number % 2 == 1 for number in seen)

    def test_what_was_read_can_be_changed_without_harm(self) -> None:
        """A list or a row that was handed out is the reader's own."""
        with self.opened() as keeper:
            store = keeper.store
            keeper.write(("p", header("p")), ("c", header("c", "p")), untold=1)
            store.load("p").clear()
            store.children("p").clear()
            store.unfinished("p").clear()
            row = store.row("c")
            assert row is not None
            row.seq, row.holder, row.epoch = 99, "thief", 99
            assert store.load("p") == [header("p")]
            assert len(store.children("p")) == len(store.unfinished("p")) == 1
            fresh = store.row("c")
            assert fresh is not None
            assert (fresh.seq, fresh.holder, fresh.epoch) == (1, "one", 1)

    def test_bad_arguments_are_refused(self) -> None:
        """By name, and nothing happens."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            for limit in (0, -1):
                with refused(UsageError):
                    keeper.store.children(None, limit=limit)
            with refused(UsageError):
                keeper.store.load("s", -1)
            keeper.write(("s", Told(2)))

    def test_a_batch_that_contradicts_itself_is_refused(self) -> None:
        """Nothing of it is stored."""
        base = BookKeeper(self.make_store())
        base.sequences["p"] = 2
        told = base.batch(("p", Told(5)))
        bad = [
            attrs.evolve(told, entries=[Entry("p", 3, Told(5))]),
            attrs.evolve(told, entries=[*told.entries, Entry("q", 0, header("q"))]),
            attrs.evolve(
                told, entries=[Entry("p", 2, Told(5)), Entry("p", 2, Told(6))]
            ),
            attrs.evolve(told, summaries={}),
            attrs.evolve(told, summaries={"p": REST, "q": REST}),
            attrs.evolve(
                told, expected={"p": 2, "q": 0}, summaries=dict.fromkeys("pq", REST)
            ),
            base.batch(("p", header("p"))),
            base.batch(("c", Told(5))),
            base.batch(("c", header("d", "p"))),
            base.batch(("c", header("c", "nobody"))),
            base.batch(("c", header("c", "c"))),
            base.batch(("p", message("m1"))),
            base.batch(("p", message("m2")), ("p", message("m2"))),
        ]
        for batch in bad:
            with self.opened(self.make_store()) as keeper:
                keeper.write(("p", header("p")), ("p", message("m1", "k")))
                with refused(UsageError):
                    keeper.store.append(batch)
                self._unchanged(keeper.store)

    def test_after_a_failed_append_nothing_is_written_until_it_is_reopened(
        self,
    ) -> None:
        """R-186, R-232: what is stored stays a prefix of the commit order."""
        store = self.make_store()
        with self.opened(store) as keeper:
            keeper.write(("p", header("p")), ("p", message("m1", "k")))
            with refused(SessionHeldError):
                store.append(attrs.evolve(keeper.batch(("p", Told(5))), holder="two"))
            with refused(PersistenceUnavailableError):
                keeper.write(("p", Told(5)))
            with refused(PersistenceUnavailableError):
                store.claim("p", "one")
            store.release("p", "one")
            self._unchanged(store)
        with self.opened(store) as keeper:
            keeper.claim("p")
            keeper.write(("p", Told(5)))

    def test_only_an_open_store_writes(self) -> None:
        """And it serves one supervisor; closing may be repeated."""
        store = self.make_store()
        keeper = BookKeeper(store)
        with refused(PersistenceUnavailableError):
            keeper.write(("s", header("s")))
        store.close()
        with self.opened(store) as keeper:
            keeper.write(("s", header("s")))
            with refused(StoreInUseError):
                store.open()
            keeper.write(("s", Told(2)))
        store.close()
        with refused(PersistenceUnavailableError):
            keeper.write(("s", Told(3)))
        with refused(PersistenceUnavailableError):
            store.claim("s", "one")
