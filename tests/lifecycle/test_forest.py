"""The forest: turns, promotions, settling and closing, each as one span.

Lives here: the spans without a loop, and any run of a small family checked against the
laws after every step.
"""

from __future__ import annotations

from collections.abc import Callable
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

from ramet.actors.contract import Reply
from ramet.actors.contributions import Contributions
from ramet.actors.policy import Policy
from ramet.actors.turn import COMPLETED, Finish
from ramet.lifecycle.activation import Activation, Closing, Life
from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Concluded,
    Discarded,
    Ended,
    Event,
    Interrupted,
    Kind,
    Promoted,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import ASSIGNING, Call
from ramet.mailbox.session import fold
from tests.actors.hosts import NoHost
from tests.lifecycle.residents import Woods, resident
from tests.logs import (
    accepted,
    activated,
    call,
    concluded,
    entered,
    header,
    interrupted,
    landed,
    notice,
    opened,
    quiet,
    stepped,
    turn_ended,
)

IN_TURN = (accepted("m"), opened(1, "m"))
ASKED = (accepted("m", source="prompt"), opened(1, "m"))
NOW = 7000


class Scope:
    """A cancel scope that remembers that it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def kinds(woods: Woods, session: str = "c") -> list[type[Event]]:
    return [type(it) for it in woods.logged(session)]


def last(woods: Woods, session: str, kind: type[Any]) -> Any:
    return [it for it in woods.logged(session) if isinstance(it, kind)][-1]


# Waking.


@pytest.mark.case("R-040", "R-174")
def test_a_wake_fires_when_it_is_durable_and_opens_the_turn_in_that_span() -> None:
    woods = Woods()
    one = woods.add(resident())
    woods.forest.accept(one, "followup", "p", ("x",), "wakeup")
    assert not woods.driven
    woods.gate.commit()
    assert woods.driven == [one]
    assert one.session.turn == 1
    assert one.driving
    woods.forest.wake(one)
    assert woods.driven == [one]


@pytest.mark.case("R-045")
def test_a_wake_opens_nothing_where_nothing_may_run() -> None:
    woods = Woods()
    one = woods.add(resident("continuable", accepted("w")))
    woods.forest.wake(woods.add(resident(session="idle")))
    one.life = Life.CLOSING
    woods.forest.wake(one)
    one.life = Life.LIVE
    woods.gate.failed = OSError()
    woods.forest.wake(one)
    assert not woods.driven


@pytest.mark.case("R-072", "R-073", "R-074")
def test_the_wake_budget_is_spent_by_reports_and_filled_by_outside_input() -> None:
    woods = Woods()
    one = woods.add(resident("continuable", policy=Policy(wake_budget=2)))

    def given(source: str, **options: Any) -> str:
        woods.forest.accept(one, source, "d", ("x",), "wakeup", **options)
        return str(last(woods, "c", Accepted).given)

    assert [given(it) for it in ("report", "notice", "outcome", "nudge")] == [
        *("wakeup", "wakeup", "quiet", "wakeup")
    ]
    assert given("notice", forced=True) == "wakeup"
    assert given("report") == "quiet"
    while one.session.inbox.waiting:
        assert woods.forest.open_turn(one)
        woods.forest.end_turn(one, COMPLETED)
        assert one.wakes == 3
    assert given("followup") == "wakeup"
    assert woods.forest.open_turn(one)
    assert one.wakes == 0
    assert given("report") == "wakeup"


def test_an_inbox_with_nothing_to_claim_opens_no_turn() -> None:
    woods = Woods()
    assert not woods.forest.open_turn(resident())


@pytest.mark.case("R-043")
def test_the_policy_of_the_recipient_says_how_much_a_turn_claims() -> None:
    for claim, claimed in (("one", ("w1",)), ("all", ("w1", "w2"))):
        woods = Woods()
        policy = Policy(claim=claim)  # type: ignore[arg-type]
        events = (accepted("w1"), accepted("w2"))
        one = resident("continuable", *events, policy=policy)
        assert woods.forest.open_turn(one)
        assert woods.logged("c") == [TurnOpened(1, claimed, NOW)]


# The end of a turn.


@pytest.mark.case("R-156", "R-205")
def test_calls_without_a_result_are_answered_before_the_turn_ends() -> None:
    woods = Woods()
    calls = map(call, ("one", "two", "three"))
    one = resident("continuable", *IN_TURN, stepped("", *calls), landed(0))
    one.batch = {0, 1}
    woods.forest.end_turn(one, Finish("failed", "unclassified"))
    results = [it for it in woods.logged("c") if isinstance(it, CallEnded)]
    assert [(it.place, it.error) for it in results] == [
        (1, "ABORTED"),
        (2, "ABORTED_BEFORE_DISPATCH"),
    ]
    assert kinds(woods)[-1] is TurnEnded
    assert one.batch is None


@pytest.mark.case("R-145", "R-151")
@pytest.mark.parametrize(
    ("interrupt", "closing", "cause", "detail"),
    [
        (True, None, "interrupted", "interrupted by host"),
        (True, Closing("cancelled", "late"), "interrupted", "interrupted by host"),
        (False, Closing("cancelled", "enough"), "cancelled", "enough"),
        (False, Closing("drain"), "drain", None),
    ],
)
def test_an_interrupt_or_a_closing_beats_what_the_turn_came_to(
    interrupt: bool, closing: Closing | None, cause: str, detail: str | None
) -> None:
    woods = Woods()
    one = resident("continuable", *IN_TURN)
    if interrupt:
        woods.forest.interrupt(one, "host")
    one.closing = closing
    woods.forest.end_turn(one, COMPLETED)
    assert woods.logged("c")[-1] == TurnEnded("cancelled", cause, NOW, detail)


@pytest.mark.case("R-129", "R-260", "R-072")
@pytest.mark.parametrize(
    ("budget", "promoted"), [(None, ["n", "o"]), (1, ["n"]), (0, [])]
)
def test_undecided_notices_are_promoted_at_the_end_within_the_budget(
    budget: int | None, promoted: list[str]
) -> None:
    woods = Woods()
    one = resident(
        "continuable",
        *IN_TURN,
        stepped("read"),
        quiet("r", "d", "report"),
        notice("n", "d", "undecided"),
        notice("o", "e", "undecided"),
        policy=Policy(wake_budget=budget),
    )
    woods.forest.end_turn(one, COMPLETED)
    found = [it.id for it in woods.logged("c") if isinstance(it, Promoted)]
    assert found == promoted
    assert [it.id for _, it in one.session.inbox.waiting] == promoted


def test_a_conclusion_and_a_nudge_follow_the_end_of_their_turn() -> None:
    woods = Woods()
    one = resident("oneshot", *ASKED)
    woods.forest.end_turn(one, Finish("completed", conclusion=concluded("m")))
    assert kinds(woods) == [TurnEnded, Concluded]
    other = resident("oneshot", *ASKED, session="d")
    woods.forest.end_turn(other, Finish("completed", nudge="go on"))
    assert last(woods, "d", Accepted).source == "nudge"
    assert [it.content for _, it in other.session.inbox.waiting] == [("go on",)]


def test_an_agent_that_is_closing_is_not_nudged_and_does_not_conclude_by_itself() -> (
    None
):
    woods = Woods()
    one = resident("oneshot", *ASKED, life=Life.CLOSING)
    one.closing = Closing("cancelled")
    finish = Finish("completed", conclusion=concluded("m"), nudge="go on")
    woods.forest.end_turn(one, finish)
    assert kinds(woods) == [TurnEnded]


@pytest.mark.case("R-118")
def test_an_assignment_is_concluded_once() -> None:
    woods = Woods()
    one = resident("oneshot", *ASKED, turn_ended())
    woods.forest.conclude(one, concluded("m"))
    woods.forest.conclude(one, concluded("m", "failed"))
    assert kinds(woods) == [Concluded]


# Interrupt.


@pytest.mark.case("R-135")
def test_an_interrupt_is_logged_at_once_and_stops_the_driver() -> None:
    woods = Woods()
    one = resident("continuable", *IN_TURN)
    scope = Scope()
    one.scope = scope
    woods.forest.interrupt(one, "p")
    woods.forest.interrupt(one, "host")
    assert woods.logged("c") == [Interrupted("p", NOW)]
    assert scope.cancelled


@pytest.mark.case("R-138", "R-147", "R-151")
@pytest.mark.parametrize(
    ("kind", "events", "life"),
    [
        ("continuable", (), Life.LIVE),
        ("continuable", IN_TURN, Life.CLOSING),
        ("oneshot", IN_TURN, Life.LIVE),
        ("headless", IN_TURN, Life.LIVE),
    ],
)
def test_an_interrupt_of_what_cannot_be_interrupted_does_nothing(
    kind: Kind, events: tuple[Event, ...], life: Life
) -> None:
    woods = Woods()
    woods.forest.interrupt(resident(kind, *events, life=life), "host")
    assert woods.gate.entries == []


# Settling.


def settle(
    woods: Woods, *events: Event, parent: Activation, kind: Kind = "continuable"
) -> Activation:
    """A child that ends by itself."""
    one = woods.add(resident(kind, *events, parent=parent))
    woods.forest.rest(one)
    assert one.life is Life.GONE
    return one


def root_in(
    woods: Woods, *events: Event, kind: Kind = "interactive", **policy: Any
) -> Activation:
    made = Policy(**policy)
    contract = None if kind == "interactive" else Reply()
    return woods.add(
        resident(kind, *events, session="p", policy=made, contract=contract)
    )


@pytest.mark.case("R-113", "R-120")
def test_settling_is_ended_then_notice_then_gone_in_one_span() -> None:
    woods = Woods()
    root = root_in(woods)
    gone: list[list[type[Event]]] = []
    one = woods.add(resident("continuable", *IN_TURN, turn_ended(), parent=root))
    one.on_gone = [lambda: gone.append([type(it.event) for it in woods.gate.entries])]
    woods.forest.rest(one)
    assert gone == [[Ended, Accepted]]
    assert woods.logged("c") == [Ended("settled", True, NOW)]
    told = last(woods, "p", Accepted)
    assert (told.source, told.sender, told.about) == ("notice", "c", ("m",))
    assert root.children == {}
    assert "c" not in woods.forest.live
    assert one.session.untold == ()


@pytest.mark.case("R-133")
def test_a_child_without_its_parent_keeps_its_outcomes_untold() -> None:
    woods = Woods()
    one = woods.add(resident("continuable", *IN_TURN, turn_ended()))
    woods.forest.rest(one)
    assert woods.logged("c") == [Ended("settled", False, NOW)]
    assert [it.message for it in one.session.untold] == ["m"]


@pytest.mark.case("R-108", "R-109", "R-116")
def test_who_drives_or_owns_or_waits_does_not_settle() -> None:
    woods = Woods()
    driving = woods.add(resident())
    driving.driving = True
    owner = woods.add(resident(session="d"))
    resident(session="g", parent=owner)
    waiting = woods.add(resident("continuable", accepted("w"), session="e"))
    root = root_in(woods)
    for one in (driving, owner, waiting, root, None):
        woods.forest.rest(one)
    assert woods.gate.entries == []


@pytest.mark.case("R-111")
def test_a_parent_is_looked_at_when_its_last_child_is_gone() -> None:
    woods = Woods()
    root = root_in(woods)
    read = (*IN_TURN, stepped("read"), turn_ended())
    one = woods.add(resident("continuable", *read, parent=root))
    deep = woods.add(resident(session="g", parent=one))
    woods.forest.rest(one)
    assert one.life is Life.LIVE
    woods.forest.rest(deep)
    assert [(it.session, type(it.event)) for it in woods.gate.entries] == [
        ("g", Ended),
        ("c", Ended),
        ("p", Accepted),
    ]


@pytest.mark.case("R-122", "R-196")
def test_a_release_that_fails_is_kept_and_told() -> None:
    woods = Woods()
    root = root_in(woods)
    contributions = Contributions()

    def dispose() -> None:
        raise OSError("stuck")

    contributions.register(lambda setup: dispose)
    one = woods.add(resident("continuable", *IN_TURN, turn_ended(), parent=root))
    one.installation = contributions.install("continuable", "c", "p", "w", NoHost())
    woods.forest.rest(one)
    assert (
        "The release of a set-up failed: OSError: stuck."
        in (last(woods, "p", Accepted).content[0])
    )
    ((owner, error),) = woods.forest.errors
    assert owner is one
    assert str(error) == "stuck"


@pytest.mark.case("R-134", "R-262")
def test_a_child_with_nothing_to_tell_writes_a_notice_only_where_it_must_wake() -> None:
    unread = (*IN_TURN, stepped("read"), quiet("r", "c", "report"))
    cases: list[tuple[tuple[Event, ...], Kind, list[str]]] = [
        ((), "interactive", []),
        ((*unread, turn_ended()), "interactive", ["wakeup"]),
        (unread, "interactive", ["undecided"]),
        ((*IN_TURN, stepped("read")), "interactive", []),
        ((*ASKED, turn_ended()), "headless", ["wakeup"]),
    ]
    for events, kind, given in cases:
        woods = Woods()
        settle(woods, parent=root_in(woods, *events, kind=kind))
        found = [it for it in woods.logged("p") if isinstance(it, Accepted)]
        assert [it.given for it in found] == given
    woods = Woods()
    root = root_in(woods, *unread, turn_ended())
    resident(session="d", parent=root)
    settle(woods, parent=root)
    assert woods.logged("p") == []


@pytest.mark.case("R-132")
def test_a_closing_parent_gets_no_notice_without_an_outcome_and_a_quiet_one_with() -> (
    None
):
    for events, given in (((), []), ((*IN_TURN, turn_ended()), ["quiet"])):
        woods = Woods()
        root = root_in(woods)
        root.driving = True
        root.life, root.closing = Life.CLOSING, Closing("drain")
        settle(woods, *events, parent=root)
        found = [it for it in woods.logged("p") if isinstance(it, Accepted)]
        assert [it.given for it in found] == given


@pytest.mark.case("R-131")
def test_notices_that_are_off_are_written_for_a_waiting_agent_alone() -> None:
    done = (*IN_TURN, turn_ended())
    woods = Woods()
    settle(woods, *done, parent=root_in(woods, notices="off"))
    assert woods.logged("p") == []
    woods = Woods()
    waits = root_in(woods, *ASKED, turn_ended(), kind="headless", notices="off")
    settle(woods, *done, parent=waits)
    assert last(woods, "p", Accepted).given == "wakeup"


@pytest.mark.case("R-224", "R-247")
def test_the_last_child_of_a_returning_agent_wakes_it_past_its_budget() -> None:
    woods = Woods()
    waits = root_in(woods, *ASKED, turn_ended(), kind="headless", wake_budget=0)
    settle(woods, *IN_TURN, turn_ended(), parent=waits)
    assert last(woods, "p", Accepted).given == "wakeup"


@pytest.mark.case("R-245", "R-248")
@pytest.mark.parametrize("life", [Life.LIVE, Life.CLOSING])
def test_a_background_call_is_told_by_one_outcome_message(life: Life) -> None:
    woods = Woods()
    woods.forest.view = lambda activation: f"the view of {activation.id}"
    root = root_in(woods, notices="off")
    root.driving, root.life = True, life
    child = resident(
        "oneshot",
        *(*ASKED, turn_ended(), concluded("m")),
        parent=root,
        background=True,
    )
    woods.forest.rest(woods.add(child))
    told = last(woods, "p", Accepted)
    assert (told.source, told.content, told.about) == (
        *("outcome", ("the view of c",), ("m",)),
    )
    assert told.given == ("wakeup" if life is Life.LIVE else "quiet")
    assert kinds(woods, "p") == [Accepted]


def test_a_background_call_that_was_never_asked_has_nothing_to_tell() -> None:
    woods = Woods()
    woods.forest.view = lambda activation: "never"
    root = root_in(woods)
    child = woods.add(resident("oneshot", parent=root, background=True))
    woods.forest.close([child], Closing("cancelled"))
    assert kinds(woods) == [Ended]
    assert woods.logged("p") == []


@pytest.mark.case("R-119")
def test_a_call_that_is_awaited_tells_nothing() -> None:
    woods = Woods()
    asked = (*ASKED, turn_ended(), concluded("m"))
    settle(woods, *asked, parent=root_in(woods), kind="oneshot")
    assert woods.logged("p") == []


# Closing.


@pytest.mark.case("R-112", "R-148", "R-111")
def test_all_are_closing_top_down_before_any_is_gone_children_first() -> None:
    woods = Woods()
    seen: list[str] = []
    root = root_in(woods)
    one = woods.add(resident("continuable", accepted("w"), parent=root))
    deep = woods.add(resident("continuable", *IN_TURN, session="g", parent=one))
    for it in (root, one, deep):
        it.scope = Scope()
        it.on_gone = [lambda it=it: seen.append(f"{it.id} gone")]  # type: ignore[misc]
    woods.forest.on_closing = lambda it: seen.append(f"{it.id} closing")
    woods.forest.close([root], Closing("cancelled", "enough"))
    assert seen == [
        *("p closing", "c closing", "g closing", "g gone", "c gone", "p gone")
    ]
    assert all(it.scope.cancelled for it in (root, one, deep))
    assert last(woods, "c", Discarded) == Discarded("w", "cancelled", NOW, "enough")
    assert last(woods, "g", TurnEnded).cause == "cancelled"
    assert not woods.forest.live


@pytest.mark.case("R-149", "R-158", "R-167")
def test_a_drain_keeps_what_waits_and_a_cancel_discards_it() -> None:
    for cause, discards in (("drain", 0), ("cancelled", 2)):
        woods = Woods()
        one = resident("continuable", *IN_TURN, accepted("w"), accepted("v"))
        woods.forest.close([woods.add(one)], Closing(cause))
        assert kinds(woods).count(Discarded) == discards
        assert len(one.session.inbox.waiting) == 2 - discards


@pytest.mark.case("R-153", "R-151")
def test_a_second_closing_changes_nothing() -> None:
    woods = Woods()
    one = woods.add(resident("continuable", *IN_TURN))
    one.driving = True
    woods.forest.close([one], Closing("first"))
    woods.forest.close([one, one], Closing("second"))
    assert woods.gate.entries == []
    woods.forest.force(one)
    assert last(woods, "c", TurnEnded).cause == "first"
    assert last(woods, "c", Ended).reason == "first"
    woods.forest.close([one], Closing("third"))
    woods.forest.rest(one)
    assert kinds(woods).count(Ended) == 1


@pytest.mark.case("R-118")
def test_a_returning_agent_that_is_closed_has_one_outcome_with_the_cause() -> None:
    for events, outcome in (
        (ASKED, ("cancelled", "stop")),
        ((*ASKED, turn_ended(), concluded("m")), ("completed", None)),
    ):
        woods = Woods()
        one = woods.add(resident("oneshot", *events))
        woods.forest.close([one], Closing("stop"))
        made = one.session.concluded
        assert made is not None
        assert (made.status, made.cause) == outcome


def test_a_forced_end_without_a_closing_is_a_cancel() -> None:
    woods = Woods()
    one = woods.add(resident("oneshot", *ASKED))
    one.life = Life.CLOSING
    woods.forest.force(one)
    assert last(woods, "c", TurnEnded).cause == "cancelled"
    assert last(woods, "c", Concluded).cause == "cancelled"


@pytest.mark.case("R-186")
def test_after_a_failed_commit_everything_comes_to_rest() -> None:
    woods = Woods()
    root = root_in(woods)
    woods.add(resident("continuable", accepted("w"), parent=root))
    woods.forest.store_failed()
    assert not woods.forest.live
    assert woods.forest.draining == Closing("drain", "the store failed")
    assert kinds(woods).count(Discarded) == 0


def test_who_waits_for_an_end_is_called_once_and_the_claim_is_forgotten() -> None:
    woods = Woods()
    one = woods.add(resident())
    calls: list[str] = []
    one.on_gone = [lambda: calls.append("gone")]
    one.on_idle = [lambda: calls.append("idle")]
    woods.gate.epochs["c"] = 3
    woods.forest.rest(one)
    woods.gate.commit()
    assert calls == ["gone", "idle"]
    assert "c" not in woods.gate.epochs
    assert woods.forest.below == {}


def test_the_digest_of_a_key_is_that_of_operation_content_and_more() -> None:
    digest = Woods().forest.digest
    made = {
        digest("report", ("a",)),
        digest("report", ("a",), "x"),
        digest("report", ("b",)),
        digest("followup", ("a",)),
    }
    assert len(made) == 4
    assert digest("report", ("a",)) == digest("report", ("a",))


# Any run.


@attrs.define
class Birth:
    """An agent of the run and what its log began with."""

    activation: Activation
    first: tuple[Event, ...]


class ForestMachine(RuleBasedStateMachine):
    """A small family: messages, turns, births, interrupts and ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.woods = Woods()
        self.births: dict[str, Birth] = {}
        self.bear("interactive", None)

    def bear(self, kind: Kind, parent: Activation | None) -> None:
        name = f"s{len(self.births)}"
        made = resident(kind, session=name, policy=Policy())
        made.session.header = header(kind, name, None if parent is None else parent.id)
        first = (made.session.header, activated())
        if parent is not None:
            made.parent = parent
            parent.children = parent.children or {}
            parent.children[name] = made
        self.births[name] = Birth(made, first)
        self.woods.add(made)
        if kind != "interactive":
            prompt = ("go",)
            self.woods.forest.accept(made, "prompt", "p", prompt, "wakeup")

    def pick(self, data: st.DataObject, fits: Callable[[Activation], bool]) -> Any:
        found = [it for it in self.woods.forest.live.values() if fits(it)]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: len(self.births) < 6)
    @rule(data=st.data(), kind=st.sampled_from(["continuable", "oneshot"]))
    def birth(self, data: st.DataObject, kind: Kind) -> None:
        parent = self.pick(data, lambda it: it.life is Life.LIVE)
        if parent is not None:
            self.bear(kind, parent)

    @rule(data=st.data(), asked=st.sampled_from(["wakeup", "quiet"]))
    def report(self, data: st.DataObject, asked: str) -> None:
        one = self.pick(data, lambda it: it.parent is not None)
        if one is not None and one.parent.life is Life.LIVE:
            self.woods.forest.accept(one.parent, "report", one.id, ("r",), asked)
            one.reports += 1

    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        one = self.pick(data, lambda it: it.life is Life.LIVE)
        if one is not None and not one.session.returning:
            self.woods.forest.accept(one, "followup", "host", ("f",), "wakeup")

    @rule()
    def commit(self) -> None:
        self.woods.gate.commit()

    @rule(data=st.data(), calls=st.integers(0, 2))
    def step(self, data: st.DataObject, calls: int) -> None:
        one = self.pick(data, lambda it: it.driving and it.session.calls is None)
        if one is not None and not one.stopped:
            made = tuple(Call("look", "{}") for _ in range(calls))
            self.woods.forest.log(one, StepEnded("hi", made, "end_turn", 0))
            one.batch = set(range(calls))

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        one = self.pick(data, lambda it: it.session.results is not None)
        if one is not None:
            place = one.session.results.index(None)
            self.woods.forest.log(one, CallEnded(place, "done", 0))

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """As a driver does: it ends its turn, and the next one opens or it rests."""
        one = self.pick(data, lambda it: it.driving)
        if one is None:
            return
        finish = COMPLETED
        if one.session.returning and not one.children:
            made = Concluded(one.session.assignment, "completed", None, 0)
            finish = Finish("completed", conclusion=made)
        if one.session.open is not None:
            self.woods.forest.end_turn(one, finish)
        if one.life is not Life.LIVE or not self.woods.forest.open_turn(one):
            one.driving = False
            self.woods.forest.rest(one)

    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        one = self.pick(data, lambda it: True)
        if one is not None:
            self.woods.forest.interrupt(one, "host")

    @rule(data=st.data(), cause=st.sampled_from(["cancelled", "drain"]))
    def close(self, data: st.DataObject, cause: str) -> None:
        one = self.pick(data, lambda it: it.parent is not None)
        if one is not None:
            self.woods.forest.close([one], Closing(cause))

    def log_of(self, name: str) -> list[Event]:
        return [*self.births[name].first, *self.woods.logged(name)]

    @invariant()
    def a_log_folds_to_its_live_state(self) -> None:
        for name, birth in self.births.items():
            assert fold(self.log_of(name)) == birth.activation.session

    @invariant()
    def edges_and_liveness_agree(self) -> None:
        live = self.woods.forest.live
        for name, birth in self.births.items():
            one = birth.activation
            assert (name in live) == (one.life is not Life.GONE)
            assert one.gone == (one.session.activation is None)
            for child in (one.children or {}).values():
                assert child.id in live
                assert not one.gone

    @invariant()
    def no_accepted_wake_is_forgotten(self) -> None:
        """After the commit of everything, who could claim something has a driver."""
        if self.woods.gate.durable < self.woods.gate.ticket:
            return
        for one in self.woods.forest.live.values():
            if one.life is Life.LIVE and one.session.inbox.claimable:
                assert one.driving

    def teardown(self) -> None:
        """Everything ends; each assignment has one outcome, told once and in order."""
        forest = self.woods.forest
        forest.close([self.births["s0"].activation], Closing("cancelled"))
        for one in list(forest.live.values())[::-1]:
            forest.force(one)
        assert not forest.live
        self.a_log_folds_to_its_live_state()
        told: list[str] = []
        for name in self.births:
            told += self.check_log(self.log_of(name))
        for name, birth in self.births.items():
            if birth.activation.session.header.kind == "continuable":
                kept = [it.id for _, it in birth.activation.session.inbox.waiting]
                for message in self.assignments(name):
                    assert told.count(message) == (message not in kept)

    def assignments(self, name: str) -> list[str]:
        accepts = [it for it in self.log_of(name) if isinstance(it, Accepted)]
        return [it.id for it in accepts if it.source in ASSIGNING]

    def check_log(self, log: list[Event]) -> list[str]:
        """Check one log; gives the assignments that it was told of."""
        told: list[str] = []
        ended: set[str] = set()
        accepts = [it for it in log if isinstance(it, Accepted)]
        occurrences = [it.id for it in accepts if it.given == "wakeup"]
        occurrences += [it.id for it in log if isinstance(it, Promoted)]
        for event in log:
            if isinstance(event, Accepted):
                assert event.sender not in ended or event.source != "report"
                if event.source == "notice":
                    ended.add(event.sender)
                told += event.about
        claimed = [n for it in log if isinstance(it, TurnOpened) for n in it.claimed]
        gone = [it.id for it in log if isinstance(it, Discarded)]
        session = fold(log)
        kept = [it.id for _, it in session.inbox.waiting]
        assert sorted(claimed + gone + kept) == sorted(occurrences)
        senders = {it.id: it.sender for it in accepts}
        order = list(senders)
        shown = entered(session)
        for sender in set(senders.values()):
            its = [it for it in shown if senders[it] == sender]
            assert its == sorted(its, key=order.index)
        return told


@pytest.mark.case(
    "R-002", "R-053", "R-111", "R-118", "R-119", "R-198", "R-200", "R-205"
)
def test_any_run_of_a_small_family_keeps_the_laws() -> None:
    run_state_machine_as_test(
        ForestMachine, settings=settings(max_examples=80, stateful_step_count=40)
    )


def test_an_interrupted_queue_settles_with_what_it_keeps() -> None:
    woods = Woods()
    root = root_in(woods)
    events = (*IN_TURN, accepted("b"), interrupted(), turn_ended("cancelled"))
    settle(woods, *events, parent=root)
    assert "Messages that still wait: 1." in last(woods, "p", Accepted).content[0]


@pytest.mark.case("R-214")
def test_a_session_that_is_resumed_gets_no_second_header() -> None:
    woods = Woods()
    root = root_in(woods)
    one = resident(parent=root)
    root.children = None
    one.session = fold((one.session.header,))
    woods.forest.publish(one, changed=("limits",))
    (event,) = woods.logged("c")
    assert isinstance(event, Activated)
    assert event.changed == ("limits",)
    assert root.children == {"c": one}


def test_a_parent_that_holds_no_edge_is_told_all_the_same() -> None:
    woods = Woods()
    root = root_in(woods)
    one = woods.add(resident("continuable", *IN_TURN, turn_ended(), parent=root))
    root.children = None
    woods.forest.rest(one)
    assert last(woods, "p", Accepted).about == ("m",)


def test_until_the_runtime_gives_a_view_there_is_nothing_to_see() -> None:
    assert Woods().forest.view(resident("oneshot")) == ""
