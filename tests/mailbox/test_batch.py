"""A batch is checked against itself and against what a store holds."""

from __future__ import annotations

import attrs
import pytest

from ramet.lifecycle.bookkeeper import REST, header, message
from ramet.mailbox.batch import additions, check_claim, key_conflict
from ramet.mailbox.codec import content_digest
from ramet.mailbox.errors import KeyConflictError, SessionHeldError, UsageError
from ramet.mailbox.events import Event, Told
from ramet.mailbox.store import Batch, Entry, KeyRow


def batch(*entries: tuple[str, int, Event]) -> Batch:
    expected: dict[str, int] = {}
    for session, seq, _ in entries:
        expected.setdefault(session, seq)
    made = [Entry(session, seq, event) for session, seq, event in entries]
    summaries = dict.fromkeys(expected, REST)
    return Batch("one", made, expected, dict.fromkeys(expected, 3), summaries)


def test_what_a_batch_adds_is_found_in_one_pass() -> None:
    found = additions(
        batch(
            ("c", 0, header("c", "p")),
            ("d", 0, header("d", "c")),
            ("p", 4, message("m1", "k")),
            ("d", 1, message("m2")),
        )
    )
    assert found.created == {"c": header("c", "p"), "d": header("d", "c")}
    assert found.parents == {"p"}
    assert found.places == {"m1": ("p", 4), "m2": ("d", 1)}
    digest = content_digest("report", ("text of m1",))
    assert found.keys == {("host", "k"): KeyRow("m1", "p", "report", digest)}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("p", 4, Told(1)), ("p", 6, Told(1))], "event 6 of session p"),
        ([("p", 4, Told(1)), ("p", 4, Told(1))], "event 4 of session p"),
        ([("p", 0, Told(1))], "must begin"),
        ([("p", 4, header("p"))], "must begin"),
        ([("p", 0, header("c"))], "is of c"),
        ([("p", 0, header("p", "p"))], "own parent"),
        ([("p", 4, message("m")), ("c", 4, message("m"))], "accepted twice"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused_with_the_reason(
    entries: list[tuple[str, int, Event]], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        additions(batch(*entries))


def test_summaries_are_of_the_touched_sessions_and_of_no_others() -> None:
    good = batch(("p", 4, Told(1)))
    for summaries in ({}, {"p": REST, "q": REST}, {"q": REST}):
        with pytest.raises(UsageError, match="one summary"):
            additions(attrs.evolve(good, summaries=summaries))
    both = dict.fromkeys("pq", REST)
    with pytest.raises(UsageError, match="q, which has no log"):
        additions(attrs.evolve(good, expected={"p": 4, "q": 0}, summaries=both))


def test_a_key_that_is_used_twice_is_named() -> None:
    with pytest.raises(KeyConflictError, match="sender host has used the key 'k'"):
        additions(batch(("p", 4, message("m1", "k")), ("p", 5, message("m2", "k"))))
    assert str(key_conflict("a", "b")) == "sender a has used the key 'b' before"


def test_a_claim_must_be_that_of_the_batch() -> None:
    made = batch(("p", 4, Told(1)))
    check_claim(made, "p", 4, "one", 3)
    for seq in (0, 3, 5):
        with pytest.raises(SessionHeldError, match=f"has {seq} events"):
            check_claim(made, "p", seq, "one", 3)
    for holder, epoch in (("two", 3), (None, 3), ("one", 2), ("one", 4)):
        with pytest.raises(SessionHeldError, match="is not held by one in epoch 3"):
            check_claim(made, "p", 4, holder, epoch)


def test_a_session_that_is_not_stored_needs_no_claim() -> None:
    check_claim(batch(("p", 0, header("p"))), "p", 0, None, 0)


def test_the_digest_of_a_key_may_be_that_of_its_sender() -> None:
    told = attrs.evolve(message("m1", "k"), digest="own")
    found = additions(batch(("p", 4, told)))
    assert found.keys["host", "k"].digest == "own"
