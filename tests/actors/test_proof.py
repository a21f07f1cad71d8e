"""The proof: a receipt holds, and no field of it or of its log can be altered."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from ramet.actors.contract import Choice, Contract, Reply, Returns, Schema, Text
from ramet.actors.ledger import Ledger
from ramet.actors.proof import receipt_fault
from ramet.actors.receipt import receipt_of
from ramet.actors.submission import Accept
from ramet.mailbox.canonical import canonical_json, digest_text
from ramet.mailbox.events import Concluded, Created, Event, Submitted
from ramet.mailbox.session import Session, fold
from tests.logs import (
    accepted,
    activated,
    call,
    concluded,
    ended,
    header,
    landed,
    opened,
    stepped,
    submitted,
    turn_ended,
)

SCRIPT = {"run": "s1", "place": ["agent", 1]}

SPENT: dict[str, Any] = {
    "requests": 1,
    "input_tokens": None,
    "output_tokens": None,
    "tool_calls": 0,
}


def log_of(contract: Contract[Any], *raws: str, text: str = "") -> list[Event]:
    """The log of an agent that returned these raw texts, one in each step."""
    ledger = Ledger(contract)
    record = canonical_json(contract.record())
    events: list[Event] = [
        header("oneshot", contract=record),
        activated(),
        accepted("m1", source="prompt"),
        opened(1, "m1"),
    ]
    for raw in raws:
        one = call("reply", raw, "id")
        events.append(stepped("", one))
        ledger.plan([one])
        judged = ledger.submit(0, raw)
        assert judged.submission is not None
        made = judged.submission
        events.append(submitted(0, made.verdict, made.value, *made.errors))
        events.append(landed(0, judged.result.content, judged.result.error))
    decision: Any = ledger.landed()
    if not contract.has_tool:
        events.append(stepped(text))
        decision = ledger.turn_ended("end_turn", text)
    events.append(turn_ended())
    if not isinstance(decision, Accept):
        return events
    session = fold(events)
    receipt = receipt_of(
        contract,
        decision,
        session.submissions,
        session="c",
        message="m1",
        limits=session.header.spec.limits,
        usage=session.usage,
        script=canonical_json(SCRIPT),
    )
    cause = "empty" if decision.empty else None
    events.append(concluded("m1", cause=cause, value=decision.value, receipt=receipt))
    return [*events, ended()]


def receipt_in(session: Session) -> str:
    assert session.concluded is not None
    assert session.concluded.receipt is not None
    return session.concluded.receipt


def with_receipt(events: list[Event], text: str | None) -> Session:
    return fold(
        attrs.evolve(event, receipt=text) if isinstance(event, Concluded) else event
        for event in events
    )


GOOD: list[tuple[Contract[Any], tuple[str, ...], str]] = [
    (Reply(), ('{"value": {"b": 1.0, "a": []}}',), ""),
    (Reply(), ("{}",), ""),
    (Reply(), ('{"value": ""}',), ""),
    (Reply(), ("[]", "x", '{"value": 7}'), ""),
    (Choice(["a", "b"]), ('{"value":"c"}', '{"value":"b"}'), ""),
    (Choice(["a", "b"], "a"), ('{"value":"c"}', '{"value":"d"}'), ""),
    (Schema({"type": "integer"}), ('{"value": 9007199254740993}',), ""),
    (Text(), (), " as it is\n"),
]


@pytest.mark.case("A-166", "A-110")
@pytest.mark.parametrize(("contract", "raws", "text"), GOOD)
def test_a_receipt_that_was_made_holds(
    contract: Contract[Any], raws: tuple[str, ...], text: str
) -> None:
    session = fold(log_of(contract, *raws, text=text))
    digest = digest_text(receipt_in(session))
    assert receipt_fault(session, contract) is None
    assert receipt_fault(session, contract, digest=digest, script=SCRIPT) is None


OTHERS: dict[str, Any] = {
    "version": 2,
    "contract": {"kind": "reply", "version": 1},
    "contract_digest": "0" * 64,
    "source": "fallback",
    "attempts": 3,
    "duplicates": 1,
    "empty": True,
    "value": 8,
    "value_digest": "0" * 64,
    "submissions": [],
    "limits": {"requests": 3},
    "usage": {"requests": 0, "input_tokens": 0, "output_tokens": 0, "tool_calls": 0},
    "session": "d",
    "message": "m2",
    "script": {"run": "s2", "place": ["agent", 1]},
}


@pytest.mark.case("A-127", "A-166", "A-167")
@pytest.mark.parametrize("field", [*OTHERS, "more"])
@pytest.mark.parametrize("gone", [False, True])
def test_no_field_can_be_altered_or_left_out(field: str, gone: bool) -> None:
    contract = Schema({"type": "integer"})
    events = log_of(contract, '{"value":"x"}', '{"value":7}')
    whole = fold(events)
    assert set(OTHERS) == set(json.loads(receipt_in(whole)))
    receipt = json.loads(receipt_in(whole))
    if gone:
        receipt.pop(field, None)
        if field == "more":
            receipt["True"] = 1
    else:
        receipt[field] = OTHERS.get(field, 1)
    session = with_receipt(events, canonical_json(receipt))
    assert receipt_fault(session, contract, script=SCRIPT) is not None
    digest = digest_text(receipt_in(whole))
    fault = receipt_fault(session, contract, digest=digest, script=SCRIPT)
    assert fault == "the receipt is not the one that the journal names"


@pytest.mark.case("A-166")
def test_a_number_for_a_truth_is_an_alteration_too() -> None:
    events = log_of(Reply(), '{"value": 1}')
    receipt = json.loads(receipt_in(fold(events))) | {"attempts": True}
    session = with_receipt(events, canonical_json(receipt))
    assert receipt_fault(session, Reply()) == "its attempts is not what the log gives"


@pytest.mark.case("A-166")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no receipt"),
        ("{", "cannot be read"),
        ('{ "a": 1}', "cannot be read"),
        ("[]", "is no object"),
        ('{"contract":3}', "its contract cannot be read"),
    ],
)
def test_what_is_no_receipt_proves_nothing(text: str | None, why: str) -> None:
    session = with_receipt(log_of(Reply(), '{"value": 1}'), text)
    fault = receipt_fault(session, Reply())
    assert fault is not None
    assert why in fault


def test_without_an_outcome_there_is_no_receipt() -> None:
    events = log_of(Schema({"type": "integer"}), '{"value":"x"}')
    fault = receipt_fault(fold(events), Reply())
    assert fault == "there is no receipt"


@pytest.mark.case("A-166")
def test_the_contract_in_force_now_must_be_the_one_that_was_met() -> None:
    events = log_of(Choice(["a", "b"]), '{"value":"a"}')
    fault = receipt_fault(fold(events), Choice(["a", "b", "c"]))
    assert fault == "its contract is not the one that is in force"
    other = [
        attrs.evolve(event, contract="{}") if isinstance(event, Created) else event
        for event in events
    ]
    fault = receipt_fault(fold(other), Choice(["a", "b"]))
    assert fault == "its contract is not that of the session"


@pytest.mark.parametrize(
    ("usage", "why"),
    [
        (3, "not of its form"),
        ({"requests": 1}, "not of its form"),
        (SPENT | {"requests": True}, "requests is less"),
        (SPENT | {"requests": None}, "requests is less"),
        (SPENT | {"requests": 0}, "requests is less"),
        (SPENT | {"input_tokens": "many"}, "input_tokens is less"),
        (SPENT | {"input_tokens": 3}, None),
    ],
)
def test_usage_is_of_its_form_and_not_less_than_the_log_shows(
    usage: Any, why: str | None
) -> None:
    events = log_of(Reply(), '{"value": 1}')
    receipt = json.loads(receipt_in(fold(events)))
    assert receipt["usage"] == SPENT
    session = with_receipt(events, canonical_json(receipt | {"usage": usage}))
    fault = receipt_fault(session, Reply())
    assert (fault is None) if why is None else (fault is not None and why in fault)


def changed(events: list[Event], **fields: Any) -> Session:
    """The log with its submissions changed."""
    return fold(
        attrs.evolve(event, **fields) if isinstance(event, Submitted) else event
        for event in events
    )


@pytest.mark.case("A-166")
def test_submissions_are_counted_again_from_the_log() -> None:
    events = log_of(Reply(), '{"value": 1}')
    for fields in ({"value": "2"}, {"verdict": "invalid"}, {"verdict": "conflict"}):
        fault = receipt_fault(changed(events, **fields), Reply())
        assert fault == "its submissions do not lead to an acceptance"
    without = [event for event in events if not isinstance(event, Submitted)]
    assert receipt_fault(fold(without), Reply()) is not None
    blank = log_of(Text(), text="x")
    silent = [attrs.evolve(e, text="") if e == stepped("x") else e for e in blank]
    assert receipt_fault(fold(silent), Text()) is not None
    strange = [*blank[:5], submitted(0, "valid", '"x"'), *blank[5:]]
    assert receipt_fault(fold(strange), Text()) is not None


@pytest.mark.case("A-166")
def test_no_place_is_used_twice() -> None:
    events = log_of(Reply(), '{"value": 1}')
    at = next(i for i, event in enumerate(events) if isinstance(event, Submitted))
    twice = [*events[: at + 1], submitted(0, "duplicate", "1"), *events[at + 1 :]]
    assert receipt_fault(fold(twice), Reply()) == "two submissions have one place"


@pytest.mark.case("A-166", "A-031")
def test_nothing_was_asked_after_the_acceptance() -> None:
    events = log_of(Reply(), '{"value": 1}')
    at = events.index(turn_ended())
    later = [*events[:at], stepped("more"), *events[at:]]
    fault = receipt_fault(fold(later), Reply())
    assert fault == "a request was made after the acceptance"


@pytest.mark.case("A-168")
def test_the_value_is_judged_again_by_the_present_function() -> None:
    most = [9]

    def small(instance: Any, attribute: Any, value: int) -> None:
        if value > most[0]:
            raise ValueError("too wide")

    @attrs.frozen
    class Size:
        wide: int = attrs.field(validator=small)

    contract = Returns(Size)
    session = fold(log_of(contract, '{"value": {"wide": 7}}'))
    assert receipt_fault(session, contract) is None
    most[0] = 5
    fault = receipt_fault(session, contract)
    assert fault is not None
    assert "is not valid now: $: is refused by Size: too wide" in fault


@pytest.mark.case("A-166")
def test_the_outcome_holds_the_value_that_was_accepted() -> None:
    events = log_of(Reply(), '{"value": 1}')

    def outcome(**fields: Any) -> str | None:
        return receipt_fault(
            fold(
                attrs.evolve(event, **fields) if isinstance(event, Concluded) else event
                for event in events
            ),
            Reply(),
        )

    assert outcome(value="2") is not None
    assert outcome(cause="empty") is not None
    assert "cannot be read" in (outcome(value=" 1") or "")
    schema = Schema({"type": "number"})
    session = fold(log_of(schema, '{"value": 1}'))
    assert receipt_fault(session, schema) is None
