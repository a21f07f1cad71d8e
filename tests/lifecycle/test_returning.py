"""Returning: what a ledger's decisions, a contract and a limit mean for a life."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import frozen

from ramet.actors.contract import Choice, Contract, Reply, Returns, Schema, Text
from ramet.actors.contributions import Contributions
from ramet.actors.ledger import Ledger
from ramet.actors.outcome import Acceptance, Outcome, TreeUsage
from ramet.actors.submission import (
    NO_PLACE,
    Accept,
    Continue,
    Fail,
    Nudge,
    Submission,
    Wait,
)
from ramet.actors.tool import Tool
from ramet.actors.turn import COMPLETED, Finish
from ramet.lifecycle.activation import Activation
from ramet.lifecycle.allowance import Refusal
from ramet.lifecycle.returning import (
    child_outcome,
    child_view,
    concluded_by,
    contract_of,
    finished_by,
    instructions_of,
    outcome_without_value,
    reply_tool,
    shown,
    stopped_by,
)
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.events import Concluded, Event
from ramet.mailbox.message import Usage
from tests.actors.hosts import NoHost
from tests.lifecycle.residents import resident
from tests.logs import accepted, concluded, header, opened, stepped, turn_ended

ASKED = (accepted("m", source="prompt"), opened(1, "m"))


def asked(contract: Contract[Any] | None = None, *events: Event) -> Activation:
    """A one-shot child in the turn of its assignment `m`."""
    return resident("oneshot", *ASKED, *events, contract=contract or Reply())


def done(conclusion: Concluded, contract: Contract[Any] | None = None) -> Activation:
    return asked(contract, turn_ended(), conclusion)


# The contract and its tool.


@pytest.mark.parametrize("contract", [Reply(), Choice(["a", "b"]), Text()])
def test_the_contract_of_a_session_is_read_from_its_header(
    contract: Contract[Any],
) -> None:
    text = canonical_json(contract.record())
    assert contract_of(header("oneshot", contract=text)) == contract
    assert contract_of(header()) is None


@pytest.mark.case("A-001", "A-005")
def test_an_agent_that_returns_has_the_tool_of_its_contract() -> None:
    contract = Choice(["yes", "no"])
    tool = reply_tool(Ledger(contract))
    assert isinstance(tool, Tool)
    assert tool.name == "reply"
    assert tool.parameters == contract.parameters()
    assert reply_tool(Ledger(Choice(["yes", "no"]))) is tool
    assert reply_tool(Ledger(Text())) is None
    assert reply_tool(None) is None


def test_a_return_never_runs_as_a_tool() -> None:
    tool = reply_tool(Ledger(Reply()))
    assert tool is not None
    with pytest.raises(AssertionError, match="judged by the ledger"):
        tool.run({}, None)  # type: ignore[arg-type]


@pytest.mark.case("A-009")
def test_the_instructions_show_every_allowed_argument_object() -> None:
    contract = Choice(["yes", "no"])
    text = instructions_of(asked(contract))
    assert text.splitlines()[-2:] == list(contract.shown())
    node = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "\n".join(Schema(node).shown()) in instructions_of(asked(Schema(node)))


@pytest.mark.case("R-235")
def test_the_instructions_are_those_of_spec_set_ups_and_contract_in_this_order() -> (
    None
):
    contributions = Contributions()
    contributions.register(lambda setup: setup.add_instructions("From a set-up."))
    installed = contributions.install("oneshot", "c", "p", "worker", NoHost())

    def text(contract: Contract[Any] | None, **spec: Any) -> list[str]:
        made = resident("oneshot", *ASKED, contract=contract, **spec)
        made.installation = installed
        return instructions_of(made).split("\n\n")

    whole = text(Reply(), instructions="Own.")
    assert whole[:2] == ["Own.", "From a set-up."]
    assert "returning it with the tool reply" in whole[2]
    assert text(None, instructions="Own.") == ["Own.", "From a set-up."]
    assert text(None) == ["From a set-up."]
    assert text(Text()) == ["From a set-up."]
    assert instructions_of(resident(instructions="Own.")) == "Own."
    assert instructions_of(resident("oneshot", contract=Text())) == ""


# Decisions.

MISSING = Submission(NO_PLACE, "missing")


def test_a_decision_that_goes_on_ends_no_turn() -> None:
    assert finished_by(asked(), Continue(), 9) is None


@pytest.mark.case("A-038")
def test_who_waits_for_children_completes_the_turn_without_an_outcome() -> None:
    assert finished_by(asked(), Wait(), 9) == COMPLETED


def test_a_nudge_completes_the_turn_and_is_sent() -> None:
    finish = finished_by(asked(), Nudge("go on", MISSING), 9)
    assert finish == Finish("completed", nudge="go on")


def test_a_failure_ends_turn_and_assignment_with_its_cause() -> None:
    finish = finished_by(asked(), Fail("no-reply", "nothing came"), 9)
    conclusion = Concluded("m", "failed", "no-reply", 9, detail="nothing came")
    assert finish == Finish("failed", "no-reply", "nothing came", conclusion)


@pytest.mark.case("A-123")
def test_an_accepted_value_ends_the_assignment_with_its_receipt() -> None:
    activation = asked(None, stepped("", usage=Usage(1, 5, 3)))
    activation.below = Usage(2, 10)
    finish = finished_by(activation, Accept('{"a":1}', attempts=2), 9)
    assert finish is not None
    assert (finish.status, finish.cause) == ("completed", None)
    conclusion = finish.conclusion
    assert conclusion is not None
    assert (conclusion.message, conclusion.status) == ("m", "completed")
    assert (conclusion.value, conclusion.cause, conclusion.at) == ('{"a":1}', None, 9)
    receipt = json.loads(conclusion.receipt or "")
    assert receipt["value"] == {"a": 1}
    assert receipt["usage"]["input_tokens"] == 15
    assert (receipt["session"], receipt["message"]) == ("c", "m")


@pytest.mark.case("A-018")
def test_an_accepted_return_without_a_value_says_that_it_is_empty() -> None:
    finish = finished_by(asked(), Accept(None, empty=True), 9)
    assert finish is not None
    assert finish.conclusion is not None
    assert finish.conclusion.cause == "empty"
    assert finish.conclusion.value is None


def test_the_end_of_a_turn_ends_the_assignment_of_a_returning_agent_only() -> None:
    finish = Finish("failed", "provider-error", "why")
    made = concluded_by(asked(), finish, 9).conclusion
    assert made == Concluded("m", "failed", "provider-error", 9, detail="why")
    assert concluded_by(resident(), finish, 9) is finish
    assert concluded_by(resident("oneshot", contract=Reply()), finish, 9) is finish


@pytest.mark.case("A-044")
@pytest.mark.parametrize(
    ("axis", "cause"),
    [
        ("call_s", "call-timeout"),
        ("tool_calls", "tool-call-budget"),
        ("requests", "request-budget"),
    ],
)
def test_a_spent_limit_stops_and_names_its_axis(axis: str, cause: str) -> None:
    refusal = Refusal(axis, 3, "the run")
    finish = stopped_by(asked(), refusal, 9)
    assert (finish.status, finish.cause) == ("stopped", cause)
    assert finish.conclusion == Concluded(
        "m", "stopped", cause, 9, axis=axis, detail=str(refusal)
    )
    assert str(refusal).startswith(f"the limit {axis}=3 of the run is spent")
    assert stopped_by(resident(), refusal, 9).conclusion is None


# Outcomes and views.


@frozen
class Answer:
    """What a returning agent makes."""

    word: str


def test_the_outcome_of_a_child_has_its_value_as_code_gets_it() -> None:
    contract = Returns(Answer)
    value = canonical_json({"word": "yes"})
    receipt = '{"source": "reply", "attempts": 2, "duplicates": 1}'
    made = done(concluded("m", "completed", None, value, receipt=receipt), contract)
    made.below = Usage(4)
    assert child_outcome(made) == Outcome(
        status="completed",
        value=Answer("yes"),
        acceptance=Acceptance("reply", 2, 1),
        usage=TreeUsage(Usage(), Usage(4)),
        message_id="m",
        session_id="c",
    )
    assert outcome_without_value(made).value == {"word": "yes"}


def test_without_a_ledger_the_value_is_that_of_the_stored_contract() -> None:
    made = done(concluded("m", "completed", None, '"a"'), Choice(["a", "b"]))
    made.ledger = None
    assert child_outcome(made).unwrap() == "a"


def test_a_child_that_never_concluded_was_cancelled() -> None:
    open_one = asked()
    for outcome in (child_outcome(open_one), outcome_without_value(open_one)):
        assert (outcome.status, outcome.cause) == ("cancelled", "cancelled")
        assert (outcome.message_id, outcome.session_id) == ("m", "c")
    assert child_outcome(resident("oneshot", contract=Reply())).message_id == ""


@pytest.mark.case("A-190")
def test_a_parent_reads_the_view_of_a_value_and_no_prose_of_the_child() -> None:
    made = done(concluded("m", "completed", None, '{"a":[1]}'))
    assert child_view(made, None) == '{\n  "a": [\n    1\n  ]\n}'
    text = done(concluded("m", "completed", None, canonical_json("x" * 9000)))
    assert child_view(text, None) == "x" * 9000
    assert 'message_id "m"' in child_view(text, 100)
    cut = asked(None, stepped("secret prose"), turn_ended())
    assert child_view(cut, None) == ("cancelled (cancelled); assignment m of session c")


@pytest.mark.case("A-190", "A-181")
@pytest.mark.parametrize("value", [None, '""', "null"])
def test_a_return_without_a_value_is_one_line(value: str | None) -> None:
    made = done(concluded("m", "completed", "empty", value))
    assert child_view(made, None) == "completed without a value; assignment m"
    assert child_outcome(made).value is None


@pytest.mark.case("A-190", "A-181")
def test_any_other_end_is_one_line() -> None:
    made = done(concluded("m", "failed", "no-reply"))
    line = "failed (no-reply); assignment m of session c"
    assert child_view(made, None) == line
    assert shown(child_outcome(made), None) == line


@pytest.mark.case("A-181", "A-053")
def test_the_line_of_a_failure_holds_none_of_the_childs_own_words() -> None:
    words = Concluded("m", "failed", "output-refused", 9, detail="its own words")
    made = done(words)
    assert "words" not in child_view(made, None) + shown(child_outcome(made), None)
    made = done(Concluded("m", "cancelled", "cancelled", 9, detail="not needed"))
    assert "- not needed;" in child_view(made, None)


@pytest.mark.case("A-053")
def test_what_a_call_shows_is_the_view_of_the_value_or_one_line() -> None:
    value = done(concluded("m", "completed", None, '{"a":1}'))
    assert shown(child_outcome(value), None) == '{\n  "a": 1\n}'
    empty = done(concluded("m", "completed", "empty", '""'))
    line = "completed without a value; assignment m"
    assert shown(child_outcome(empty), None) == line
