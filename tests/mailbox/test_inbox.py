"""The inbox: one queue of turns, and each sender's order, whatever the delivery."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Literal

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

from ramet.mailbox.errors import IllegalEventError
from ramet.mailbox.events import Accepted, Given
from ramet.mailbox.inbox import Inbox, Placed, bytes_of
from tests.logs import accepted, notice, quiet


def holding(*messages: Accepted, safe: bool = False) -> Inbox:
    """An inbox that accepted these; those that enter at once are gone."""
    inbox = Inbox()
    for message in messages:
        inbox.accept(message, safe=safe)
    return inbox


def ids(messages: list[tuple[int, Accepted]] | list[Accepted]) -> list[str]:
    return [it[1].id if isinstance(it, tuple) else it.id for it in messages]


@pytest.mark.case("R-036", "R-002")
def test_a_quiet_message_enters_at_a_safe_position_and_is_no_occurrence() -> None:
    inbox = Inbox()
    assert inbox.accept(quiet("q"), safe=True)
    assert not inbox.waiting
    assert not inbox.staged
    assert not inbox.claimable


@pytest.mark.case("R-037")
def test_a_quiet_message_is_staged_where_it_may_not_enter() -> None:
    inbox = holding(quiet("q"))
    assert ids(inbox.staged) == ["q"]
    assert ids(inbox.enter([])) == ["q"]
    assert not inbox.staged


@pytest.mark.case("R-042", "R-052")
def test_wakeups_of_all_senders_are_claimed_one_by_one_in_order_of_acceptance() -> None:
    inbox = holding(
        accepted("f", "host", "tell"),
        accepted("c", "c", "report"),
        accepted("d", "d", "report"),
    )
    for name in ("f", "c", "d"):
        assert inbox.next_claim(everything=False) == (name,)
        assert ids(inbox.enter(inbox.claim((name,)))) == [name]
    assert inbox.next_claim(everything=False) == ()
    assert inbox.next_claim(everything=True) == ()


@pytest.mark.case("R-043")
def test_one_claim_may_take_all_that_waits_with_what_is_staged_between() -> None:
    inbox = holding(accepted("w1"), quiet("q2"), accepted("w3"), quiet("q4"))
    inbox.accept(quiet("x", "other"), safe=False)
    claim = inbox.next_claim(everything=True)
    assert claim == ("w1", "w3")
    assert ids(inbox.enter(inbox.claim(claim))) == ["w1", "q2", "w3", "q4", "x"]
    assert not inbox.blocked


@pytest.mark.case("R-130")
def test_notices_that_stand_together_are_one_claim_and_overtake_nobody() -> None:
    inbox = holding(notice("n1", "c"), notice("n2", "d"), accepted("w"))
    inbox.accept(notice("n3", "e"), safe=False)
    claims = []
    while claim := inbox.next_claim(everything=False):
        claims.append(claim)
        inbox.claim(claim)
    assert claims == [("n1", "n2"), ("w",), ("n3",)]
    assert holding(notice("n1", "c"), notice("n2", "d")).next_claim(
        everything=False
    ) == ("n1", "n2")


@pytest.mark.case("R-050")
def test_a_staged_message_waits_behind_the_earlier_wakeup_of_its_sender_only() -> None:
    inbox = holding(quiet("q1"), accepted("w1"), quiet("q2"), accepted("w2"))
    assert ids(inbox.enter([])) == ["q1"]
    assert ids(inbox.enter(inbox.claim(("w1",)))) == ["w1", "q2"]
    assert ids(inbox.enter(inbox.claim(("w2",)))) == ["w2"]


@pytest.mark.case("R-051")
def test_a_parked_wakeup_holds_back_its_own_sender_and_nobody_else() -> None:
    inbox = holding(accepted("w", "c", "report"))
    inbox.parked = True
    assert not inbox.claimable
    assert inbox.accept(quiet("d", "d", "report"), safe=True)
    assert not inbox.accept(quiet("c", "c", "report"), safe=True)
    assert ids(inbox.staged) == ["c"]


@pytest.mark.case("R-056")
def test_a_discarded_wakeup_frees_what_was_staged_behind_it() -> None:
    inbox = holding(accepted("w1"), quiet("q2"))
    assert inbox.discard("w1").id == "w1"
    assert ids(inbox.enter([])) == ["q2"]


def test_a_discard_in_the_middle_keeps_the_block_of_the_others() -> None:
    inbox = holding(accepted("w1"), accepted("w2"), quiet("q"), accepted("w3"))
    inbox.discard("w2")
    assert inbox.blocked == {"p": [1, 4]}
    assert inbox.enter([]) == []
    inbox.discard("w1")
    assert ids(inbox.enter([])) == ["q"]


@pytest.mark.case("R-136", "R-141")
def test_a_parked_queue_is_claimed_by_nobody_until_the_next_wakeup() -> None:
    inbox = holding(accepted("b"))
    inbox.parked = True
    assert inbox.next_claim(everything=True) == ()
    with pytest.raises(IllegalEventError):
        inbox.claim(("b",))
    inbox.accept(accepted("d"), safe=True)
    assert not inbox.parked
    assert inbox.next_claim(everything=False) == ("b",)


@pytest.mark.case("R-260")
def test_an_undecided_notice_becomes_an_occurrence_at_its_place() -> None:
    inbox = holding(notice("n1", "c", "undecided"), notice("n2", "d", "undecided"))
    inbox.parked = True
    inbox.promote("n1")
    assert not inbox.parked
    inbox.promote("n2")
    assert inbox.next_claim(everything=False) == ("n1", "n2")
    assert not inbox.staged


def test_a_promotion_overtakes_no_later_occurrence() -> None:
    inbox = holding(notice("n", "c", "undecided"), accepted("w"))
    with pytest.raises(IllegalEventError, match="out of its place"):
        inbox.promote("n")


def test_an_undecided_notice_that_is_not_promoted_enters_quietly() -> None:
    assert ids(holding(notice("n", "c", "undecided")).enter([])) == ["n"]


@pytest.mark.case("R-199")
@pytest.mark.parametrize(
    "attempt",
    [
        lambda inbox: inbox.claim(()),
        lambda inbox: inbox.claim(("w2",)),
        lambda inbox: inbox.claim(("w1", "w2", "w3")),
        lambda inbox: inbox.discard("q"),
        lambda inbox: inbox.discard("nobody"),
        lambda inbox: inbox.promote("q"),
        lambda inbox: inbox.promote("w1"),
        lambda inbox: inbox.promote("nobody"),
    ],
)
def test_what_the_queue_does_not_allow_changes_nothing(attempt: object) -> None:
    inbox = holding(accepted("w1"), accepted("w2"), quiet("q"))
    before = copy.deepcopy(inbox)
    with pytest.raises(IllegalEventError):
        attempt(inbox)  # type: ignore[operator]
    assert inbox == before


def test_inboxes_are_equal_by_their_state_and_equal_to_nothing_else() -> None:
    assert holding(accepted("w")) == holding(accepted("w"))
    assert holding(accepted("w")) != holding(accepted("v"))
    assert Inbox() != 1


Place = Literal["waiting", "staged", "entered", "claimed", "discarded"]


@attrs.define
class Told:
    """What the model knows of a message; its index is the order of acceptance."""

    message: Accepted
    place: Place
    occurrence: bool


class InboxMachine(RuleBasedStateMachine):
    """An inbox beside a plain list of messages, each with its place.

    The model says the law and nothing of how the inbox works: a quiet message may enter
    unless an earlier wakeup of the same sender waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inbox = Inbox()
        self.told: list[Told] = []
        self.entered: list[str] = []
        self.busy = False
        self.parked = False

    def held(self, place: Place) -> list[str]:
        return [it.message.id for it in self.told if it.place == place]

    def free(self, index: int) -> bool:
        one = self.told[index]
        return not any(
            it.place == "waiting" and it.message.sender == one.message.sender
            for it in self.told[:index]
        )

    def let_enter(self, claimed: tuple[str, ...] = ()) -> list[str]:
        found = []
        for index, one in enumerate(self.told):
            if one.message.id in claimed:
                one.place = "claimed"
                found.append(one.message.id)
            elif one.place == "staged" and self.free(index):
                one.place = "entered"
                found.append(one.message.id)
        self.entered += found
        return found

    @rule(
        sender=st.sampled_from("cde"),
        given=st.sampled_from(["wakeup", "quiet", "undecided"]),
        source=st.sampled_from(["report", "notice", "followup"]),
    )
    def accept(self, sender: str, given: Given, source: str) -> None:
        message = accepted(f"m{len(self.told)}", sender, source, given=given)
        self.told.append(Told(message, "staged", given == "wakeup"))
        if given == "wakeup":
            self.told[-1].place = "waiting"
            self.parked = False
        elif not self.busy and self.free(len(self.told) - 1):
            self.told[-1].place = "entered"
            self.entered.append(message.id)
        entered = self.inbox.accept(message, safe=not self.busy)
        assert entered == (self.told[-1].place == "entered")

    @precondition(lambda self: not self.busy)
    @rule(everything=st.booleans())
    def open(self, everything: bool) -> None:
        claim = self.inbox.next_claim(everything=everything)
        waiting = self.held("waiting")
        assert list(claim) == waiting[: len(claim)]
        assert bool(claim) == (bool(waiting) and not self.parked)
        if everything and claim:
            assert list(claim) == waiting
        sources = [it.message.source for it in self.told if it.place == "waiting"]
        if len(claim) > 1 and not everything:
            assert set(sources[: len(claim)]) == {"notice"}
            assert sources[len(claim) : len(claim) + 1] != ["notice"]
        if claim:
            self.busy = True
            taken = self.inbox.claim(claim)
            # The claimed wait no longer, so that they hold nothing back.
            for one in self.told:
                if one.message.id in claim:
                    one.place = "claimed"
            assert ids(self.inbox.enter(taken)) == self.let_enter(claim)

    @precondition(lambda self: self.busy)
    @rule()
    def land(self) -> None:
        assert ids(self.inbox.enter([])) == self.let_enter()

    @precondition(lambda self: self.busy)
    @rule()
    def close(self) -> None:
        self.busy = False
        assert ids(self.inbox.enter([])) == self.let_enter()

    @rule()
    def park(self) -> None:
        self.parked = self.inbox.parked = True

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.told))
        if one.place != "waiting":
            self.refused(lambda: self.inbox.discard(one.message.id))
            return
        one.place = "discarded"
        assert self.inbox.discard(one.message.id) is one.message
        if not self.busy:
            assert ids(self.inbox.enter([])) == self.let_enter()

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.told) - 1))
        one = self.told[index]
        later = any(it.place == "waiting" for it in self.told[index + 1 :])
        undecided = one.place == "staged" and one.message.given == "undecided"
        if later or not undecided:
            self.refused(lambda: self.inbox.promote(one.message.id))
            return
        one.place, one.occurrence = "waiting", True
        self.parked = False
        self.inbox.promote(one.message.id)

    @rule(claim=st.lists(st.sampled_from(["m0", "m1", "m2", "m9"]), max_size=3))
    def claim_wrongly(self, claim: list[str]) -> None:
        waiting = self.held("waiting")
        if not claim or self.parked or claim != waiting[: len(claim)]:
            self.refused(lambda: self.inbox.claim(tuple(claim)))

    def refused(self, attempt: object) -> None:
        before = copy.deepcopy(self.inbox)
        with pytest.raises(IllegalEventError):
            attempt()  # type: ignore[operator]
        assert self.inbox == before

    @invariant()
    def queue_and_stage_are_those_of_the_model(self) -> None:
        assert ids(self.inbox.waiting) == self.held("waiting")
        assert ids(self.inbox.staged) == self.held("staged")
        rest = copy.deepcopy(self.inbox)
        rest.enter([])
        assert self.inbox.staying() == rest.staged
        assert self.inbox.parked == self.parked
        assert self.inbox.claimable == (bool(self.inbox.waiting) and not self.parked)

    @invariant()
    def occurrences_are_claimed_discarded_or_waiting(self) -> None:
        occurrences = {it.message.id for it in self.told if it.occurrence}
        ended = {*self.held("claimed"), *self.held("discarded"), *self.held("waiting")}
        assert occurrences == ended

    @invariant()
    def each_sender_is_in_order(self) -> None:
        senders = {it.message.id: it.message.sender for it in self.told}
        order = [it.message.id for it in self.told]
        for sender in "cde":
            its = [it for it in self.entered if senders[it] == sender]
            assert its == sorted(its, key=order.index)


@pytest.mark.case("R-198", "R-199", "R-002", "R-048")
def test_any_run_of_an_inbox_keeps_the_laws() -> None:
    run_state_machine_as_test(
        InboxMachine, settings=settings(max_examples=150, stateful_step_count=40)
    )


class Walked(list[Placed]):
    """A list that counts how often it was walked through."""

    walks = 0

    def __iter__(self) -> Iterator[Placed]:
        self.walks += 1
        return super().__iter__()


def test_what_is_blocked_is_not_looked_through_for_each_claim_and_discard() -> None:
    """The end of a long queue costs what each of its messages does."""
    inbox = Inbox()
    for number in range(100):
        inbox.accept(accepted(f"w{number}", "c"), safe=True)
    for number in range(100):
        assert not inbox.accept(quiet(f"q{number}", "c"), safe=True)
    assert not inbox.accept(quiet("busy", "c"), safe=False)
    assert not inbox.enter([])
    inbox.staged = walked = Walked(inbox.staged)
    for number in range(99):
        if number % 2:
            inbox.discard(f"w{number}")
            assert not inbox.enter([])
        else:
            taken = inbox.claim((f"w{number}",))
            assert [it.id for it in inbox.enter(taken)] == [f"w{number}"]
    before = walked.walks
    inbox.discard("w99")
    entered = [it.id for it in inbox.enter([])]
    assert entered == [*(f"q{number}" for number in range(100)), "busy"]
    assert (before, walked.walks) == (0, 1)


def test_a_sender_that_is_free_lets_its_own_messages_enter() -> None:
    """Those of others stay behind their own."""
    inbox = Inbox()
    for sender in "cd":
        inbox.accept(accepted(f"w{sender}", sender), safe=True)
        inbox.accept(quiet(f"q{sender}", sender), safe=True)
        inbox.accept(accepted(f"v{sender}", sender), safe=True)
        inbox.accept(quiet(f"r{sender}", sender), safe=True)
    inbox.discard("wd")
    assert [it.id for it in inbox.enter([])] == ["qd"]
    inbox.discard("vd")
    assert [it.id for it in inbox.enter([])] == ["rd"]
    taken = inbox.claim(("wc",))
    assert [it.id for it in inbox.enter(taken)] == ["wc", "qc"]
    assert ids(inbox.staged) == ["rc"]


def test_the_bytes_of_what_is_held_are_counted_once_and_kept() -> None:
    """Whatever comes, enters, is claimed, discarded or promoted."""
    inbox = Inbox()
    inbox.accept(accepted("w1", "c"), safe=True)

    def check() -> None:
        held = (*inbox.waiting, *inbox.staged)
        assert inbox.held_bytes() == sum(bytes_of(m.content) for _, m in held)

    check()
    for message, safe in (
        (accepted("w2", "c"), True),
        (quiet("q1", "d"), True),
        (quiet("q2", "c"), True),
        (quiet("q3", "d"), False),
        (notice("n", "e", "undecided"), False),
    ):
        inbox.accept(message, safe=safe)
        check()
    inbox.promote("n")
    check()
    inbox.enter(inbox.claim(("w1",)))
    check()
    inbox.discard("w2")
    check()
    inbox.enter(inbox.claim(("n",)))
    check()
    assert inbox.held_bytes() == 0


def test_the_bytes_of_a_block_are_those_of_its_text() -> None:
    assert bytes_of(()) == 0
    assert bytes_of(("a", "\xe4", "\U0001f331", "\ud83c")) == 1 + 2 + 4 + 3
