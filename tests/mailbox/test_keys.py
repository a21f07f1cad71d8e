"""A key is found in the store or in this process, whenever an operation asked."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ramet.mailbox.errors import KeyConflictError, UsageError
from ramet.mailbox.keys import RESERVED, KeyTable, Known, check_key
from ramet.mailbox.store import KeyRow

ROW = KeyRow("m1", "p", "report", "digest")


def known(
    table: KeyTable, stored: KeyRow | None = None, key: str = "k", **other: Any
) -> Known | None:
    """What `c` would find for a report to `p`, or for what is said otherwise."""
    asked: dict[str, Any] = {
        "operation": "report",
        "digest": "digest",
        "recipient": "p",
    } | other
    return table.known("c", key, stored, **asked)


def test_a_new_key_names_nothing() -> None:
    assert known(KeyTable()) is None


@pytest.mark.case("R-057", "R-222")
def test_a_key_that_only_the_store_knows_is_durable() -> None:
    assert known(KeyTable(), ROW) == Known(ROW, 0)


@pytest.mark.case("R-222", "R-256")
def test_a_key_that_is_not_durable_is_found_with_what_to_wait_for() -> None:
    table = KeyTable()
    table.add("c", "k", ROW, 7)
    assert known(table) == Known(ROW, 7)
    assert known(table, KeyRow("other", "p", "report", "digest")) == Known(ROW, 7)
    assert len(table) == 1


@pytest.mark.case("R-059")
def test_a_key_belongs_to_its_sender() -> None:
    table = KeyTable()
    table.add("d", "k", ROW, 7)
    table.add("c", "k2", ROW, 8)
    assert known(table) is None


@pytest.mark.case("R-058")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"operation": "followup"}, "already names a report, not a followup"),
        ({"digest": "else"}, "already names other content"),
        ({"recipient": "q"}, "already names a message to p, not to q"),
    ],
)
def test_a_key_with_another_meaning_is_a_conflict(
    other: dict[str, str], words: str, durable: bool
) -> None:
    table = KeyTable()
    if not durable:
        table.add("c", "k", ROW, 7)
    with pytest.raises(KeyConflictError, match=words):
        known(table, ROW if durable else None, **other)
    assert len(table) == (not durable)


@pytest.mark.case("R-058")
def test_a_start_knows_no_recipient_and_finds_its_key() -> None:
    assert known(KeyTable(), ROW, recipient=None) == Known(ROW, 0)


@pytest.mark.case("R-255")
def test_a_durable_key_leaves_when_nobody_asks() -> None:
    table = KeyTable()
    table.add("c", "k", ROW, 7)
    table.is_durable("c", "k")
    assert len(table) == 0
    table.is_durable("c", "k")
    assert known(table) is None


@pytest.mark.case("R-255")
def test_an_operation_that_asked_before_finds_a_key_that_became_durable() -> None:
    table = KeyTable()
    one, other = table.begin_asking(), table.begin_asking()
    table.add("c", "k", ROW, 7)
    table.is_durable("c", "k")
    assert known(table) == Known(ROW, 7)
    table.end_asking(other)
    assert known(table) == Known(ROW, 7)
    table.end_asking(one)
    assert len(table) == 0


@pytest.mark.case("R-255")
def test_a_stream_of_operations_that_overlap_keeps_no_durable_key() -> None:
    table = KeyTable()
    before = table.begin_asking()
    for number in range(1000):
        table.add("c", f"k{number}", ROW, 7)
        table.is_durable("c", f"k{number}")
        after = table.begin_asking()
        table.end_asking(before)
        before = after
        assert len(table) == 0
    table.end_asking(before)


@attrs.define(eq=False)
class Asking:
    """An operation on its way: its key, and what the store has answered it."""

    key: str
    number: int
    answered: bool = False
    stored: KeyRow | None = None


class KeyMachine(RuleBasedStateMachine):
    """Operations that ask the store, come to their span, and commits between them.

    The law: one key is accepted once.  An operation that finds its key nowhere accepts
    it, so that a key which is found in neither place shows as a second acceptance.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = KeyTable()
        self.asking: list[Asking] = []
        self.store: dict[str, KeyRow] = {}
        self.pending: list[tuple[str, KeyRow]] = []
        self.accepted: dict[str, KeyRow] = {}
        self.needed_by: dict[str, set[Asking]] = {}

    @rule(key=st.sampled_from("kl"))
    def ask(self, key: str) -> None:
        self.asking.append(Asking(key, self.table.begin_asking()))

    @precondition(lambda self: self.asking)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.asking))
        if not one.answered:
            one.answered = True
            one.stored = self.store.get(one.key)

    @precondition(lambda self: any(it.answered for it in self.asking))
    @rule(data=st.data(), gives_up=st.booleans())
    def span(self, data: st.DataObject, gives_up: bool) -> None:
        one = data.draw(st.sampled_from([it for it in self.asking if it.answered]))
        self.asking.remove(one)
        if not gives_up:
            found = known(self.table, one.stored, one.key)
            if found is None:
                assert one.key not in self.accepted
                row = KeyRow(f"m of {one.key}", "p", "report", "digest")
                self.accepted[one.key] = row
                self.pending.append((one.key, row))
                self.table.add("c", one.key, row, len(self.accepted))
            else:
                assert found.row is self.accepted[one.key]
        self.table.end_asking(one.number)

    @precondition(lambda self: self.pending)
    @rule()
    def commit(self) -> None:
        for key, row in self.pending:
            self.store[key] = row
            self.table.is_durable("c", key)
            self.needed_by[key] = set(self.asking)
        self.pending.clear()

    @invariant()
    def what_nobody_asks_for_and_is_durable_is_not_kept(self) -> None:
        held = {key for key, _ in self.pending}
        for key, asked in self.needed_by.items():
            asked &= set(self.asking)
            if asked:
                held.add(key)
        assert len(self.table) == len(held)


@pytest.mark.case("R-222", "R-255")
def test_a_key_is_accepted_once_in_every_interleaving_of_asking_and_committing() -> (
    None
):
    run_state_machine_as_test(
        KeyMachine, settings=settings(max_examples=100, stateful_step_count=30)
    )


@pytest.mark.parametrize("key", [None, "k", " k ", "ramet", "\ud800", "x" * 9999])
def test_a_key_of_a_caller_is_any_text(key: str | None) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["", " \n", 7, b"k", True, ("k",)])
def test_a_key_that_is_no_visible_text_is_refused(key: object) -> None:
    with pytest.raises(UsageError, match="text that is not blank"):
        check_key(key)


@pytest.mark.case("R-059")
def test_the_keys_of_the_runtime_never_meet_those_of_a_caller() -> None:
    with pytest.raises(UsageError, match="belong to the runtime"):
        check_key(f"{RESERVED}s/1/1/0")
