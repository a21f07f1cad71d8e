"""The suite of stores that keep bookmarks: what `Bookmarks` promises, as tests.

Lives here: `BookmarksContract`, which asks for all of `StoreContract` and for this.
"""

from __future__ import annotations

import attrs

from ..mailbox.bookmark import Bookmark, Held
from ..mailbox.errors import UsageError
from ..mailbox.events import Accepted, Concluded, Created, Submitted, Told
from ..mailbox.message import (
    AssistantMessage,
    Call,
    CallResult,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..mailbox.session import Returned, Untold
from ..mailbox.store import Batch, Bookmarks
from .bookkeeper import ODD, BookKeeper, header, message, refused, sample_events
from .contract_store import StoreContract

__all__ = ["BookmarksContract", "sample_bookmark"]


def sample_bookmark(seq: int = 1) -> Bookmark:
    """A bookmark in which every field is set."""
    created, concluded = sample_events()[0], sample_events()[12]
    assert isinstance(created, Created)
    assert isinstance(concluded, Concluded)
    calls = (Call("look", '{"at": 1}', ODD), Call("reply", "{}"))
    submitted = Submitted(1, "invalid", 8, "1", ("not a text", ODD))
    return Bookmark(
        created,
        seq,
        9,
        4,
        True,
        (Held(2, message("m2", "k")), Held(3, message(ODD))),
        (Held(4, attrs.evolve(message("m4"), given="undecided")),),
        "a",
        6,
        7,
        True,
        2,
        (message("m1"),),
        calls,
        (None, CallResult(ODD, "TOOL_FAILED")),
        "host",
        (
            UserMessage("m0", "report", "c", ("one", ODD)),
            AssistantMessage("so", calls, True),
            ToolMessage(calls, (CallResult("1"), CallResult("", "ABORTED"))),
        ),
        True,
        3,
        (Untold("m0", "failed", "crashed", "it fell"),),
        "m0",
        concluded,
        (Returned(submitted, 6, 1, '{"value": 1}', "id"),),
        Usage(1, 2, 3, 4, 5, 6),
    )


def marked(keeper: BookKeeper, batch: Batch, **bookmarks: Bookmark) -> None:
    """Append a batch with bookmarks, and remember the sequences after it."""
    keeper.store.append(attrs.evolve(batch, bookmarks=bookmarks))
    for entry in batch.entries:
        keeper.sequences[entry.session] = entry.seq + 1


def offered(keeper: BookKeeper) -> Bookmarks:
    """The store, which says that it keeps bookmarks."""
    assert isinstance(keeper.store, Bookmarks)
    return keeper.store


class BookmarksContract(StoreContract):
    """Every promise of the port and of `Bookmarks`; inherit from it as from that."""

    def test_a_bookmark_comes_back_equal(self) -> None:
        """Also with text that is no Unicode text, and after a reopening."""
        store = self.make_store()
        with self.opened(store) as keeper:
            marked(keeper, keeper.batch(("s", header("s"))), s=sample_bookmark())
            assert offered(keeper).bookmark("s") == sample_bookmark()
            reader = keeper.store.reader()
            try:
                assert isinstance(reader, Bookmarks)
                assert reader.bookmark("s") == sample_bookmark()
            finally:
                reader.close()
        with self.opened(self.reopen(store)) as keeper:
            assert offered(keeper).bookmark("s") == sample_bookmark()
            assert keeper.store.load("s") == [header("s")]

    def test_the_last_bookmark_stands_and_the_log_goes_on(self) -> None:
        """A batch without one changes nothing of it."""
        with self.opened() as keeper:
            first = keeper.batch(("s", header("s")), ("t", header("t")))
            marked(keeper, first, s=sample_bookmark())
            marked(keeper, keeper.batch(("s", Told(2))), s=sample_bookmark(2))
            keeper.write(("s", Told(3)), ("t", Told(3)))
            store = offered(keeper)
            assert store.bookmark("s") == sample_bookmark(2)
            assert store.bookmark("t") is None
            assert keeper.store.load("s", 2) == [Told(3)]

    def test_a_bookmark_is_stored_with_its_batch_or_not_at_all(self) -> None:
        """One of another place, or of another session, is refused with its batch."""
        for name, seq in (("s", 1), ("s", 3), ("q", 2)):
            store = self.make_store()
            with self.opened(store) as keeper:
                keeper.write(("s", header("s")))
                batch = keeper.batch(("s", Told(2)))
                with refused(UsageError):
                    marked(keeper, batch, **{name: sample_bookmark(seq)})
            with self.opened(self.reopen(store)) as keeper:
                assert offered(keeper).bookmark("s") is None
                assert keeper.store.load("s") == [header("s")]

    def test_nobody_has_a_bookmark_of_what_is_not_there(self) -> None:
        """Whatever the name is."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")))
            for name in ("none", "", ODD, "s"):
                assert offered(keeper).bookmark(name) is None

    def test_the_position_of_a_message_is_where_its_log_has_it(self) -> None:
        """So that a question about a message reads nothing of what came before."""
        with self.opened() as keeper:
            keeper.write(("s", header("s")), ("t", header("t")))
            keeper.write(("s", message("m1", "k")), ("t", message("m2")))
            keeper.write(("s", Told(3)), ("s", message(ODD)))
            store = offered(keeper)
            wanted = {"m1": ("s", 1), "m2": ("t", 1), ODD: ("s", 3)}
            for name, place in wanted.items():
                assert store.position(name) == place
                first = keeper.store.load(*place)[0]
                assert isinstance(first, Accepted)
                assert first.id == name
            assert store.position("none") is None
