"""Admission: one order of checks for every operation, and nothing changes on a refusal.

Lives here: the accepting spans, each called by itself, over a forest without drivers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import combinations
from typing import Any

import attrs
import pytest

from ramet.actors.contract import Reply
from ramet.actors.contributions import Contributions, Setup
from ramet.actors.policy import Policy
from ramet.lifecycle.activation import Activation, Closing, Life
from ramet.lifecycle.admission import Admission, Newborn, Send
from ramet.lifecycle.errors import SetupRevokedError
from ramet.lifecycle.handle import handle_of
from ramet.mailbox.errors import (
    ActivationClosingError,
    DepthExceededError,
    DrainingError,
    InboxFullError,
    KeyConflictError,
    NotResidentError,
    NotResumableError,
    ParentUnavailableError,
    PersistenceUnavailableError,
    RametError,
    UnauthorizedError,
)
from ramet.mailbox.events import Accepted, Activated, Created
from ramet.mailbox.store import KeyRow
from tests.actors.hosts import NoHost
from tests.actors.specs import bound_of
from tests.lifecycle.residents import Woods, own, resident
from tests.logs import accepted, interrupted, opened, quiet, turn_ended

OPERATIONS = ("tell", "report", "inject", "followup", "start")

ORDER: dict[str, dict[str, type[RametError]]] = {
    "store": dict.fromkeys(OPERATIONS, PersistenceUnavailableError),
    "drain": dict.fromkeys(OPERATIONS, DrainingError),
    "sender": dict.fromkeys(OPERATIONS, UnauthorizedError),
    "closing": dict.fromkeys(OPERATIONS, ActivationClosingError),
    "key": dict.fromkeys(OPERATIONS, KeyConflictError),
    "recipient": {
        "tell": UnauthorizedError,
        "report": UnauthorizedError,
        "inject": UnauthorizedError,
        "followup": UnauthorizedError,
        "start": DepthExceededError,
    },
    "recipient closing": {
        "report": ParentUnavailableError,
        "inject": NotResidentError,
    },
    "limits": {
        "tell": InboxFullError,
        "report": InboxFullError,
        "inject": InboxFullError,
        "followup": InboxFullError,
    },
}
"""The faults in the order in which they decide, and the error of each operation."""


@attrs.define
class Scene:
    """A root `p` with a child `c`, a root `q`, and an admission over them."""

    woods: Woods
    admission: Admission
    contributions: Contributions
    p: Activation
    c: Activation
    q: Activation

    def agent(self, activation: Activation) -> Any:
        return handle_of(activation, None)  # type: ignore[arg-type]

    def act(self, operation: str, sender: object, key: str | None = None) -> Any:
        """Run the span of an operation."""
        asked = "wakeup" if operation in ("tell", "followup", "start") else "quiet"
        stands_for = "prompt" if operation == "start" else operation
        send = Send(stands_for, ("hello",), "digest", asked, key)
        admission = self.admission
        spans: dict[str, Callable[[], Any]] = {
            "tell": lambda: admission.tell(sender, send),
            "report": lambda: admission.report(sender, send),
            "inject": lambda: admission.inject(sender, "c", send),
            "followup": lambda: admission.followup(sender, "c", send, None),
            "start": lambda: admission.start_child(
                sender, Newborn("continuable", bound_of()), send
            ),
        }
        return spans[operation]()

    def sender(self, operation: str) -> Activation:
        """Who does an operation."""
        return self.c if operation == "report" else self.p

    def accepted(self, session: str) -> list[Accepted]:
        return [it for it in self.woods.logged(session) if isinstance(it, Accepted)]


def scene(
    *, child_kind: Any = "continuable", full: bool = False, **policy: Any
) -> Scene:
    woods = Woods()
    if full:
        policy["inbox_limit"] = 1
    held = (accepted("m"), opened(1, "m"), accepted("w")) if full else ()
    made = Policy(**policy)
    p = woods.add(resident("interactive", *held, session="p", policy=made))
    c = woods.add(resident(child_kind, *held, session="c", parent=p, policy=made))
    q = woods.add(resident("interactive", session="q"))
    contributions = Contributions()
    admission = Admission(woods.forest, contributions, NoHost())
    return Scene(woods, admission, contributions, p, c, q)


def spoilt(operation: str, faults: tuple[str, ...]) -> tuple[Scene, object]:
    """A scene with faults, and who would send in it."""
    stage = scene(
        full="limits" in faults,
        child_kind=(
            "oneshot"
            if operation == "report" and "recipient" in faults
            else "continuable"
        ),
        max_depth=0 if operation == "start" and "recipient" in faults else 3,
    )
    sender = stage.sender(operation)
    if "recipient" in faults:
        if operation == "tell":
            sender = stage.c
        if operation in ("inject", "followup"):
            stage.c.session.header = attrs.evolve(stage.c.session.header, parent="q")
    if "recipient closing" in faults:
        other = stage.p if operation == "report" else stage.c
        other.life = Life.CLOSING
    if "key" in faults:
        name = "host" if operation == "tell" else sender.id
        row = KeyRow("m0", "elsewhere", "other", "digest")
        stage.woods.forest.keys.add(name, "k", row, 0)
    if "closing" in faults:
        sender.life, sender.closing = Life.CLOSING, Closing("cancelled")
    if "drain" in faults:
        stage.woods.forest.draining = Closing("drain")
    if "store" in faults:
        stage.woods.gate.failed = OSError("disk")
    agent = stage.agent(sender)
    return stage, copy.copy(agent) if "sender" in faults else agent


CASES = [
    (operation, faults)
    for operation in OPERATIONS
    for count in (1, 2)
    for faults in combinations(ORDER, count)
    if all(operation in ORDER[fault] for fault in faults)
]


@pytest.mark.case("R-253", "R-008")
@pytest.mark.parametrize(
    ("operation", "faults"),
    CASES,
    ids=[f"{operation}-{'-and-'.join(faults)}" for operation, faults in CASES],
)
def test_of_two_faults_the_first_of_the_order_decides_and_nothing_changes(
    operation: str, faults: tuple[str, ...]
) -> None:
    stage, sender = spoilt(operation, faults)
    live = dict(stage.woods.forest.live)
    keys = len(stage.woods.forest.keys)
    with pytest.raises(RametError) as caught:
        stage.act(operation, sender, "k")
    assert type(caught.value) is ORDER[faults[0]][operation]
    assert stage.woods.gate.entries == []
    assert stage.woods.forest.live == live
    assert len(stage.woods.forest.keys) == keys


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_fault_it_is_accepted_once(operation: str) -> None:
    stage, sender = spoilt(operation, ())
    stage.act(operation, sender)
    (message,) = [
        it.event for it in stage.woods.gate.entries if isinstance(it.event, Accepted)
    ]
    assert message.content == ("hello",)


# Senders.


@pytest.mark.case("R-005", "R-004")
@pytest.mark.parametrize("sender", ["p", None, object()])
def test_what_is_no_agent_authorises_nothing(sender: object) -> None:
    with pytest.raises(UnauthorizedError, match="an exact live Agent is needed"):
        scene().admission.sender(sender)


@pytest.mark.case("R-004", "R-005")
def test_a_stale_agent_and_the_agent_of_a_replaced_session_authorise_nothing() -> None:
    stage = scene()
    stale = stage.agent(stage.c)
    stage.woods.add(resident(session="c", parent=stage.p))
    with pytest.raises(UnauthorizedError, match="not the live agent of session c"):
        stage.admission.sender(stale)
    del stage.woods.forest.live["c"]
    with pytest.raises(UnauthorizedError, match="not the live agent of session c"):
        stage.admission.sender(stale)


@pytest.mark.case("R-025")
@pytest.mark.parametrize(
    ("closing", "error"),
    [
        (None, ActivationClosingError),
        (Closing("cancelled"), ActivationClosingError),
        (Closing("drain"), DrainingError),
    ],
)
def test_a_closing_sender_is_told_why_it_closes(
    closing: Closing | None, error: type[RametError]
) -> None:
    stage = scene()
    stage.c.life, stage.c.closing = Life.CLOSING, closing
    with pytest.raises(error):
        stage.act("report", stage.agent(stage.c))


@pytest.mark.case("R-162", "R-163", "R-164")
def test_a_scoped_drain_refuses_its_root_and_all_below_but_its_roots_own_reports() -> (
    None
):
    stage = scene()
    g = stage.woods.add(resident(session="g", parent=stage.c))
    stage.woods.forest.below[stage.c] = None
    stage.act("report", stage.agent(stage.c))
    stage.act("tell", stage.agent(stage.p))
    for operation, sender in (("start", stage.c), ("report", g), ("start", g)):
        with pytest.raises(DrainingError, match="below c"):
            stage.act(operation, stage.agent(sender))
    stage.act("start", stage.agent(stage.q))
    with pytest.raises(DrainingError):
        stage.act("start", copy.copy(stage.agent(g)))


# Keys.


@pytest.mark.case("R-057", "R-061", "R-254")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_known_key_is_answered_before_the_recipient_is_looked_at(
    operation: str,
) -> None:
    stage, sender = spoilt(operation, ())
    first = stage.act(operation, sender, "k")
    count = len(stage.woods.gate.entries)
    other = stage.p if operation == "report" else stage.c
    if operation != "tell":
        other.life = Life.GONE
        del stage.woods.forest.live[other.id]
    again = stage.act(operation, sender, "k")
    assert again == first
    assert len(stage.woods.gate.entries) == count


@pytest.mark.case("R-255")
def test_a_key_leaves_the_table_when_it_is_durable() -> None:
    stage, sender = spoilt("tell", ())
    stage.act("tell", sender, "k")
    assert len(stage.woods.forest.keys) == 1
    stage.woods.gate.commit()
    assert len(stage.woods.forest.keys) == 0


# Recipients.


@pytest.mark.case("R-014")
@pytest.mark.parametrize("kind", ["interactive", "oneshot", "headless"])
def test_only_a_continuable_child_reports(kind: Any) -> None:
    stage = scene()
    other = stage.woods.add(resident(kind, session="x"))
    with pytest.raises(UnauthorizedError, match=f"x is {kind}"):
        stage.act("report", stage.agent(other))


@pytest.mark.case("R-026", "R-027")
def test_a_report_to_a_parent_that_is_not_live_has_the_exact_text() -> None:
    stage = scene()
    stage.p.life = Life.CLOSING
    for parent in (stage.p, None):
        stage.c.parent = parent
        with pytest.raises(ParentUnavailableError) as caught:
            stage.act("report", stage.agent(stage.c))
        text = "direct parent is not live; report was not delivered"
        assert str(caught.value) == text
    assert stage.woods.gate.entries == []


@pytest.mark.case("R-029")
def test_an_unforeseen_error_of_the_accepting_step_is_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = scene()
    unforeseen = OSError("unforeseen")

    def accept(*_: object, **__: object) -> str:
        raise unforeseen

    monkeypatch.setattr(stage.woods.forest, "accept", accept)
    with pytest.raises(ParentUnavailableError) as caught:
        stage.act("report", stage.agent(stage.c))
    assert caught.value.__cause__ is unforeseen
    assert stage.c.reports == 0


@pytest.mark.case("R-049")
def test_a_quiet_message_reaches_a_resident_child_only() -> None:
    stage = scene()
    del stage.woods.forest.live["c"]
    with pytest.raises(NotResidentError, match="a followup would resume it"):
        stage.act("inject", stage.agent(stage.p))


@pytest.mark.case("R-100")
def test_a_followup_comes_from_the_parent_alone() -> None:
    stage = scene()
    g = stage.woods.add(resident(session="g", parent=stage.c))
    for sender in (stage.q, g, stage.c):
        with pytest.raises(UnauthorizedError, match="c is not a child of"):
            stage.act("followup", stage.agent(sender))


@pytest.mark.case("R-101")
def test_a_one_shot_child_gets_no_followup() -> None:
    stage = scene(child_kind="oneshot")
    with pytest.raises(NotResumableError, match="c is oneshot"):
        stage.act("followup", stage.agent(stage.p))


@pytest.mark.case("R-099", "R-226")
def test_a_followup_waits_for_a_closing_child_and_loads_one_that_is_absent() -> None:
    stage = scene()
    parent = stage.agent(stage.p)
    stage.c.life = Life.CLOSING
    assert stage.act("followup", parent) is stage.c
    del stage.woods.forest.live["c"]
    assert stage.act("followup", parent) is None
    assert stage.woods.gate.entries == []
    revived: list[Activation] = []

    def revive(activation: Activation) -> Activation:
        assert activation is stage.p
        revived.append(stage.woods.add(resident(session="c", parent=stage.p)))
        return revived[0]

    send = Send("followup", ("hello",), "digest", "wakeup")
    message = stage.admission.followup(parent, "c", send, revive)
    (event,) = stage.accepted("c")
    assert message == (event.id, revived[0].ticket)


# Limits.


@pytest.mark.case("R-203")
def test_an_inbox_takes_no_more_messages_than_its_limit_waiting_or_staged() -> None:
    stage = scene(inbox_limit=2)
    busy = (accepted("m"), opened(1, "m"), accepted("w"), quiet("q"))
    full = resident("continuable", *busy, policy=Policy(inbox_limit=2))
    with pytest.raises(InboxFullError, match="holds 2 messages, its limit"):
        stage.admission.limits(full, ("x",))
    stage.admission.limits(resident(policy=Policy(inbox_limit=1)), ("x",))


@pytest.mark.case("R-203")
def test_an_inbox_takes_no_more_bytes_than_its_limit() -> None:
    stage = scene()
    busy = (accepted("m"), opened(1, "m"), accepted("w", content=("äb", "\ud800")))
    full = resident("continuable", *busy, policy=Policy(inbox_bytes=8))
    stage.admission.limits(full, ("xy",))
    with pytest.raises(InboxFullError, match=r"would hold 9 bytes, more than .* 8"):
        stage.admission.limits(full, ("xy", "z"))


@pytest.mark.case("R-203")
def test_undeclared_limits_are_none() -> None:
    stage = scene()
    many = resident("continuable", *(accepted(f"m{n}") for n in range(1000)))
    stage.admission.limits(many, ("x" * 10**6,))


@pytest.mark.case("R-203")
def test_a_start_whose_prompt_alone_is_too_large_leaves_nothing() -> None:
    stage = scene()
    send = Send("prompt", ("hello",), "digest", "wakeup")
    parent = stage.agent(stage.p)
    small = bound_of(policy=Policy(inbox_bytes=4))
    with pytest.raises(InboxFullError, match="would hold 5 bytes"):
        stage.admission.start_child(parent, Newborn("continuable", small), send)
    assert stage.woods.gate.entries == []
    assert "c" in stage.woods.forest.live
    fitting = bound_of(policy=Policy(inbox_bytes=5, inbox_limit=1))
    stage.admission.start_child(parent, Newborn("continuable", fitting), send)


@pytest.mark.case("R-203", "R-179")
def test_what_a_repair_lets_enter_does_not_fill_a_stored_inbox() -> None:
    stage = scene()
    bound = bound_of(policy=Policy(inbox_limit=2))
    busy = (accepted("m"), opened(1, "m"), quiet("q"))
    cut = resident("continuable", *busy, accepted("w", "d")).session
    stage.admission.stored_limits(bound, cut, ("x",))
    blocked = resident("continuable", *busy, accepted("w"), quiet("behind")).session
    with pytest.raises(InboxFullError, match="holds 2 messages, its limit"):
        stage.admission.stored_limits(bound, blocked, ("x",))
    parked = (accepted("m"), opened(1, "m"), accepted("w"), quiet("q"), interrupted())
    rest = resident("continuable", *parked, turn_ended()).session
    with pytest.raises(InboxFullError, match="inbox of c holds 2"):
        stage.admission.stored_limits(bound, rest, ("x",))


@pytest.mark.case("R-203")
def test_a_notice_and_an_outcome_pass_a_full_inbox() -> None:
    stage = scene(full=True)
    for source in ("notice", "outcome"):
        stage.woods.forest.accept(stage.p, source, "c", ("done",), "wakeup")
    assert len(stage.accepted("p")) == 2


# Starts.


@pytest.mark.case("R-091", "R-088")
def test_header_activation_and_first_message_are_written_together() -> None:
    stage = scene()
    child, message, ticket = stage.act("start", stage.agent(stage.p))
    kinds = [type(it) for it in stage.woods.logged(child)]
    assert kinds == [Created, Activated, Accepted]
    assert stage.accepted(child)[0].id == message
    made = stage.woods.forest.live[child]
    assert (made.ticket, made.parent) == (ticket, stage.p)
    assert stage.p.children == {"c": stage.c, child: made}
    assert made.session.header.depth == 1
    assert not stage.woods.driven
    stage.woods.gate.commit()
    assert stage.woods.driven == [made]


def test_a_returning_root_has_a_ledger() -> None:
    stage = scene()
    contract = Reply()
    newborn = Newborn("headless", bound_of(), contract, "{}")
    made = stage.admission.start_root(newborn)
    assert made.ledger is not None
    assert made.ledger.contract is contract
    assert made.allowance is None
    assert made.session.header.contract == "{}"
    stage.woods.forest.draining = Closing("drain")
    with pytest.raises(DrainingError):
        stage.admission.start_root(newborn)


@pytest.mark.case("R-092")
def test_the_deepest_child_is_at_the_depth_of_the_policy() -> None:
    stage = scene(max_depth=1)
    with pytest.raises(DepthExceededError, match="at depth 2, deeper than max_depth 1"):
        stage.act("start", stage.agent(stage.c))
    stage.act("start", stage.agent(stage.p))


@pytest.mark.case("R-191")
def test_a_contribution_that_is_revoked_in_its_set_up_leaves_nothing_behind() -> None:
    stage = scene()
    released: list[str] = []

    def contribute(setup: Setup) -> Callable[[], None]:
        revoke()
        return lambda: released.append(setup.agent_id)

    revoke = stage.contributions.register(contribute)
    with pytest.raises(SetupRevokedError):
        stage.act("start", stage.agent(stage.p))
    assert len(released) == 1
    assert stage.woods.gate.entries == []
    assert stage.p.children == {"c": stage.c}


@pytest.mark.case("R-095", "R-166", "R-196")
@pytest.mark.parametrize(
    ("closes", "error"),
    [("parent", ActivationClosingError), ("supervisor", DrainingError)],
)
def test_what_closes_in_a_set_up_refuses_the_publication(
    closes: str, error: type[RametError]
) -> None:
    stage = scene()

    def dispose() -> None:
        raise OSError("the release failed")

    def contribute(setup: Setup) -> Callable[[], None]:
        if closes == "parent":
            stage.p.life = Life.CLOSING
        else:
            stage.woods.forest.draining = Closing("drain")
        return dispose

    stage.contributions.register(contribute)
    with pytest.raises(error) as caught:
        stage.act("start", stage.agent(stage.p))
    assert "the release failed" in caught.value.__notes__[0]
    assert stage.woods.gate.entries == []
    assert set(stage.woods.forest.live) == {"p", "c", "q"}


def test_a_stranger_owns_nothing_by_being_named() -> None:
    stage = scene()
    own(stage.q, stage.c)
    with pytest.raises(UnauthorizedError):
        stage.act("inject", stage.agent(stage.q))
