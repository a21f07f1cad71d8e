"""The plain parts of recovery: what a kill left open is closed and told.

Lives here: one span at a time, without a loop.  `test_recovery.py` opens copied stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ramet.actors.agent import AgentSpec
from ramet.actors.bound import BoundSpec, bind
from ramet.actors.policy import Policy
from ramet.lifecycle.activation import Activation, Life
from ramet.lifecycle.recovery import (
    Loaded,
    load,
    rebound,
    recover_children,
    repair,
    shade_of,
    tell,
)
from ramet.mailbox.errors import CorruptLogError, NotResumableError
from ramet.mailbox.events import (
    Accepted,
    CallEnded,
    Concluded,
    Ended,
    Event,
    Kind,
    Promoted,
    Told,
    TurnEnded,
)
from ramet.mailbox.session import fold
from ramet.mailbox.store import KeyRow, Reader
from tests.lifecycle.residents import Woods, resident
from tests.logs import (
    accepted,
    activated,
    begun,
    call,
    concluded,
    ended,
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
CRASH = "the process ended"
NOW = 7000


def loaded(
    kind: Kind, *events: Event, session: str = "c", background: bool = False
) -> Loaded:
    """A stored session with an activation that was never ended."""
    first = header(kind, session, background=background)
    return Loaded(session, fold((first, activated(), *events)))


def shade(one: Loaded, owner: Activation | None = None) -> Activation:
    """What a session that is not resumed is repaired through."""
    return shade_of(one, owner)


# Repair.


@pytest.mark.case("R-177")
def test_a_session_that_ended_in_order_needs_no_repair() -> None:
    woods = Woods()
    one = loaded("continuable", accepted("w"), ended())
    assert not repair(woods.forest, one, shade(one))
    assert woods.gate.entries == []


@pytest.mark.case("R-175", "R-008")
def test_an_open_turn_is_closed_as_crashed_and_what_waits_is_kept() -> None:
    woods = Woods()
    one = loaded("continuable", *IN_TURN, accepted("w"), quiet("q", "d"))
    before = one.session.seq
    assert repair(woods.forest, one, shade(one))
    assert woods.logged("c") == [
        TurnEnded("failed", "crashed", NOW, CRASH),
        Ended("crashed", False, NOW),
    ]
    assert [it.seq for it in woods.gate.entries] == [before, before + 1]
    assert [it.id for _, it in one.session.inbox.waiting] == ["w"]
    assert entered(one.session) == ["m", "q"]
    assert [it.message for it in one.session.untold] == ["m"]


@pytest.mark.case("R-146")
def test_a_parked_queue_stays_parked() -> None:
    one = loaded("continuable", *IN_TURN, accepted("w"), interrupted())
    repair(Woods().forest, one, shade(one))
    assert one.session.inbox.parked
    assert [it.id for _, it in one.session.inbox.waiting] == ["w"]


@pytest.mark.case("R-175", "R-176", "R-205")
def test_each_call_without_a_result_gets_the_one_that_the_logs_know() -> None:
    woods = Woods()
    names = ("look", "report", "send_message", "report", "agent", "look")
    one = loaded("continuable", *IN_TURN, stepped("", *map(call, names)), landed(0))
    one.answers = {
        1: KeyRow("m8", "p", "report", "d"),
        4: KeyRow("m9", "s9", "prompt", "d"),
    }
    repair(woods.forest, one, shade(one))
    results = [it for it in woods.logged("c") if isinstance(it, CallEnded)]
    unknown = "the process ended during this call: whether it took effect is not known"
    missing = "the process ended before this was accepted: not delivered"
    assert [(it.place, it.content, it.error) for it in results] == [
        (1, '{"message_id": "m8"}', None),
        (2, missing, "TOOL_OUTCOME_UNKNOWN"),
        (3, missing, "TOOL_OUTCOME_UNKNOWN"),
        (
            4,
            f"{CRASH} during this call: crashed; child s9, assignment m9",
            "TOOL_OUTCOME_UNKNOWN",
        ),
        (5, unknown, "TOOL_OUTCOME_UNKNOWN"),
    ]
    assert one.session.calls is None


@pytest.mark.case("R-179", "R-118")
def test_the_assignment_of_a_returning_agent_fails_as_crashed() -> None:
    woods = Woods()
    one = loaded("oneshot", accepted("m", source="prompt"), opened(1, "m"))
    repair(woods.forest, one, shade(one))
    conclusion = Concluded("m", "failed", "crashed", NOW, detail=CRASH)
    assert woods.logged("c")[1:] == [conclusion, Ended("crashed", False, NOW)]


@pytest.mark.case("R-118", "R-250")
def test_an_outcome_that_was_stored_before_the_kill_stands() -> None:
    woods = Woods()
    asked = (accepted("m", source="prompt"), opened(1, "m"), turn_ended())
    one = loaded("oneshot", *asked, concluded("m", value='"x"'))
    repair(woods.forest, one, shade(one))
    assert woods.logged("c") == [Ended("crashed", False, NOW)]
    assert one.session.concluded == concluded("m", value='"x"')


def test_a_returning_agent_that_was_never_asked_has_no_outcome() -> None:
    woods = Woods()
    one = loaded("headless")
    repair(woods.forest, one, shade(one))
    assert woods.logged("c") == [Ended("crashed", True, NOW)]


# What a kill left undecided.

UNDECIDED = (
    *IN_TURN,
    stepped("", call()),
    quiet("r", "d", "report"),
    notice("n", "d", "undecided"),
)


def left_undecided(*events: Event, **policy: Any) -> tuple[Woods, Loaded, Activation]:
    woods = Woods()
    made = resident("continuable", *UNDECIDED, *events, policy=Policy(**policy))
    return woods, Loaded("c", made.session), made


@pytest.mark.case("R-260")
def test_an_undecided_notice_is_judged_as_the_end_of_the_turn_would_have() -> None:
    woods, one, made = left_undecided()
    repair(woods.forest, one, made)
    assert woods.logged("c")[0] == Promoted("n", NOW)
    assert [it.id for _, it in one.session.inbox.waiting] == ["n"]
    assert entered(one.session) == ["m", "r"]


@pytest.mark.case("R-261")
def test_an_undecided_notice_of_an_interrupted_turn_enters_quietly() -> None:
    woods, one, made = left_undecided(interrupted())
    repair(woods.forest, one, made)
    assert entered(one.session) == ["m", "r", "n"]


@pytest.mark.case("R-260")
def test_an_undecided_notice_enters_quietly_while_a_child_lives() -> None:
    woods, one, made = left_undecided()
    orphan = woods.add(resident(session="g", parent=made))
    made.children, orphan.parent = None, None
    repair(woods.forest, one, made)
    assert entered(one.session) == ["m", "r", "n"]


@pytest.mark.case("R-072")
def test_a_promotion_that_the_wake_budget_refuses_enters_quietly() -> None:
    woods, one, made = left_undecided(wake_budget=0)
    repair(woods.forest, one, made)
    assert entered(one.session) == ["m", "r", "n"]


def test_nothing_is_promoted_in_a_session_that_is_not_resumed() -> None:
    woods, one, _ = left_undecided()
    repair(woods.forest, one, shade(one))
    assert entered(one.session) == ["m", "r", "n"]


# Children.


def root_in(woods: Woods, *events: Event, **policy: Any) -> Activation:
    """A live root `p`."""
    made = resident("interactive", *events, session="p", policy=Policy(**policy))
    return woods.add(made)


def told_to(woods: Woods, session: str = "p") -> list[Accepted]:
    return [it for it in woods.logged(session) if isinstance(it, Accepted)]


@pytest.mark.case("R-179", "R-119")
def test_a_crashed_child_is_closed_and_told_once_and_not_resumed() -> None:
    woods = Woods()
    root = root_in(woods)
    child = loaded("continuable", *IN_TURN, accepted("w"))
    top = Loaded("p", root.session, below=[child])
    recover_children(woods.forest, top, root)
    recover_children(woods.forest, top, root)
    (told,) = told_to(woods)
    assert (told.source, told.sender, told.given) == ("notice", "c", "wakeup")
    assert told.about == ("m",)
    assert "was cut off by a crash" in told.content[0]
    assert "Messages that still wait: 1." in told.content[0]
    assert child.session.activation is None
    assert child.session.untold == ()
    assert "c" not in woods.forest.live
    kinds = [type(it.event) for it in woods.gate.entries]
    assert kinds == [TurnEnded, Ended, Told, Accepted]


@pytest.mark.case("R-133", "R-249")
def test_a_child_that_settled_without_its_parent_is_told_without_a_crash() -> None:
    woods = Woods()
    root = root_in(woods)
    child = loaded("continuable", *IN_TURN, turn_ended(), ended(told=False))
    recover_children(woods.forest, Loaded("p", root.session, below=[child]), root)
    (told,) = told_to(woods)
    assert "came to rest" in told.content[0]
    assert woods.logged("c") == [Told(NOW)]


@pytest.mark.case("R-179")
def test_a_grandchild_of_a_closed_child_is_closed_into_that_childs_log() -> None:
    woods = Woods()
    root = root_in(woods)
    deep = loaded("continuable", *IN_TURN, session="g")
    child = loaded("oneshot", accepted("m", source="prompt"))
    child.below.append(deep)
    recover_children(woods.forest, Loaded("p", root.session, below=[child]), root)
    (told,) = told_to(woods, "c")
    assert (told.sender, told.given) == ("g", "quiet")
    assert child.session.untold == ()
    assert told_to(woods) == []
    assert not woods.driven


@pytest.mark.case("R-258")
def test_a_child_that_is_live_is_left_alone() -> None:
    woods = Woods()
    root = root_in(woods)
    child = loaded("continuable", *IN_TURN)
    woods.add(resident(session="c"))
    recover_children(woods.forest, Loaded("p", root.session, below=[child]), root)
    assert woods.gate.entries == []


def test_a_child_with_nothing_to_tell_is_closed_in_silence() -> None:
    woods = Woods()
    root = root_in(woods)
    child = loaded("continuable", accepted("w"))
    recover_children(woods.forest, Loaded("p", root.session, below=[child]), root)
    assert woods.logged("c") == [Ended("crashed", False, NOW)]
    assert told_to(woods) == []


# Telling.


def cut(kind: Kind = "continuable", *, background: bool = False) -> Loaded:
    """A child that a kill cut in its turn, repaired and not told yet."""
    asked = (accepted("m", source="prompt"), opened(1, "m"))
    child = loaded(kind, *asked, background=background)
    repair(Woods().forest, child, shade(child))
    assert [it.message for it in child.session.untold] == ["m"]
    return child


@pytest.mark.case("R-119", "R-131")
@pytest.mark.parametrize(
    ("notices", "given"),
    [("auto", "wakeup"), ("wakeup", "wakeup"), ("quiet", "quiet"), ("off", None)],
)
def test_the_policy_of_the_parent_decides_how_it_is_told(
    notices: str, given: str | None
) -> None:
    woods = Woods()
    child = cut()
    tell(woods.forest, child, root_in(woods, notices=notices), crashed=True)
    assert [it.given for it in told_to(woods)] == ([] if given is None else [given])
    assert child.session.untold == ()


@pytest.mark.case("R-119")
def test_the_outcome_of_a_call_that_was_awaited_is_told_by_nothing() -> None:
    woods = Woods()
    tell(woods.forest, cut("oneshot"), root_in(woods), crashed=True)
    assert told_to(woods) == []


@pytest.mark.case("R-250", "R-245")
@pytest.mark.parametrize("notices", ["auto", "wakeup", "quiet", "off"])
def test_the_outcome_of_a_background_call_is_told_under_every_policy(
    notices: str,
) -> None:
    woods = Woods()
    woods.forest.view = lambda activation: f"the view of {activation.id}"
    child = cut("oneshot", background=True)
    tell(woods.forest, child, root_in(woods, notices=notices), crashed=True)
    (told,) = told_to(woods)
    assert (told.source, told.given) == ("outcome", "wakeup")
    assert told.content == ("the view of c",)
    assert told.about == ("m",)


@pytest.mark.case("R-132", "R-248")
def test_a_parent_that_is_ending_is_told_quietly() -> None:
    woods = Woods()
    root = root_in(woods)
    root.life = Life.GONE
    tell(woods.forest, cut(), root, crashed=True)
    assert [it.given for it in told_to(woods)] == ["quiet"]


def test_a_recovery_wakes_whatever_the_budget() -> None:
    woods = Woods()
    root = root_in(woods, wake_budget=0)
    tell(woods.forest, cut(), root, crashed=True)
    assert [it.given for it in told_to(woods)] == ["wakeup"]
    woods.gate.commit()
    assert woods.driven == [root]


# Specs.


def bound_now(spec: AgentSpec) -> BoundSpec:
    return bind(spec, Policy(nudges=9), None)


@pytest.mark.case("R-233")
def test_a_session_needs_the_spec_of_its_name() -> None:
    with pytest.raises(NotResumableError, match=r"needs the spec 'worker'"):
        rebound(loaded("continuable"), {}, bound_now)


@pytest.mark.case("R-180")
def test_a_session_runs_under_its_stored_texts_and_present_values() -> None:
    spec = AgentSpec("worker", "New.")
    bound, changed = rebound(loaded("continuable"), {"worker": spec}, bound_now)
    assert bound.instructions == ""
    assert bound.policy.nudges == 9
    assert changed == ("instructions",)


# Loading.


class Row:
    """A row of which only the name is looked at."""

    def __init__(self, session: str) -> None:
        self.session = session


class Shelf:
    """A storage that answers from the logs that a test put there."""

    def __init__(self, **logs: list[Any]) -> None:
        self.logs = logs
        self.loads: list[str] = []
        self.keys: dict[str, KeyRow] = {}

    async def bookmark(self, session: str) -> None:
        """It keeps none."""

    async def read(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if method is Reader.load:
            self.loads.append(arguments[0])
            found = self.logs.get(arguments[0], [])
            if found == [None]:
                raise CorruptLogError("it is not JSON")
            return found
        if method is Reader.find:
            assert arguments[0] == "c"
            return self.keys.get(arguments[1])
        assert method is Reader.unfinished
        return [
            Row(name)
            for name, log in self.logs.items()
            if log[0].parent == arguments[0]
        ]


def shelf(**logs: list[Any]) -> Any:
    return Shelf(**logs)


@pytest.mark.anyio
@pytest.mark.case("R-231")
async def test_a_session_is_loaded_with_the_unfinished_below_it() -> None:
    storage = shelf(
        p=[header("interactive", "p"), activated()],
        c=[header("continuable", "c", "p"), activated()],
        d=[header("oneshot", "d", "p"), activated()],
        e=[header("continuable", "e", "d"), activated()],
        f=[header("continuable", "f", "c"), activated()],
    )
    top = await load(storage, "p")
    assert [it.id for it in top.below] == ["c", "d"]
    assert top.below[0].below == []
    assert [it.id for it in top.below[1].below] == ["e"]
    assert storage.loads == ["p", "c", "d", "e"]


@pytest.mark.anyio
@pytest.mark.case("R-176", "R-223")
async def test_only_calls_without_a_result_ask_for_their_keys() -> None:
    calls = (call("report"), call("report"), call("look"))
    log = [*begun(), *IN_TURN, stepped("", *calls), landed(0)]
    storage = shelf(c=log)
    row = KeyRow("m8", "p", "report", "d")
    storage.keys["ramet:c/1/1/0"] = KeyRow("m7", "p", "report", "d")
    storage.keys["ramet:c/1/1/1"] = row
    assert (await load(storage, "c")).answers == {1: row}


@pytest.mark.anyio
@pytest.mark.case("R-101")
@pytest.mark.parametrize(
    ("log", "words"),
    [
        ([], "there is no session c"),
        ([None], "cannot be read, so it is not continued: it is not JSON"),
        ([*begun(), ended(), ended()], "cannot be read"),
    ],
)
async def test_what_cannot_be_read_is_not_continued(log: Any, words: str) -> None:
    with pytest.raises(NotResumableError, match=words):
        await load(shelf(c=log), "c")
