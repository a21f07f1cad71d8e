"""The receipt: everything that proves an accepted value, as canonical text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ramet.actors.budget import AXES
from ramet.actors.contract import Choice, Contract, Reply, Text
from ramet.actors.receipt import receipt_of
from ramet.actors.submission import Accept
from ramet.mailbox.canonical import canonical_json, digest_text
from ramet.mailbox.events import LimitsRecord
from ramet.mailbox.message import Usage
from ramet.mailbox.session import Returned
from tests.logs import submitted


def receipt(
    contract: Contract[Any], accepted: Accept, *submissions: Returned
) -> dict[str, Any]:
    """A receipt, read back; its text is canonical."""
    text = receipt_of(
        contract,
        accepted,
        submissions,
        session="c",
        message="m1",
        limits=LimitsRecord(requests=4, call_s=1.5),
        usage=Usage(3, 10, None, 1, 2, 5),
    )
    read: dict[str, Any] = json.loads(text)
    assert canonical_json(read) == text
    return read


def shown(
    turn: int,
    step: int,
    place: int,
    call_id: str,
    raw: str | None,
    verdict: str,
    *errors: str,
) -> dict[str, Any]:
    """A submission as a receipt shows it."""
    return {
        "turn": turn,
        "step": step,
        "place": place,
        "call_id": call_id,
        "raw": raw,
        "verdict": verdict,
        "errors": list(errors),
    }


@pytest.mark.case("A-123")
def test_a_receipt_names_contract_value_submissions_spending_and_whose_it_is() -> None:
    contract = Choice(["yes", "no"])
    made = receipt(
        contract,
        Accept('"yes"', attempts=2, duplicates=1),
        Returned(submitted(0, "invalid", '"maybe"', "$: no member"), 1, 1, "{}", "x"),
        Returned(submitted(1, "valid", '"yes"'), 1, 2, '{"value":"yes"}'),
        Returned(submitted(-1, "missing"), 2, 1),
    )
    assert made["contract"] == contract.record()
    assert made["contract_digest"] == contract.digest
    assert made["value"] == "yes"
    assert made["value_digest"] == digest_text('"yes"')
    assert (made["source"], made["attempts"], made["duplicates"]) == ("reply", 2, 1)
    assert made["empty"] is False
    assert made["submissions"] == [
        shown(1, 1, 0, "x", "{}", "invalid", "$: no member"),
        shown(1, 2, 1, "", '{"value":"yes"}', "valid"),
        shown(2, 1, -1, "", None, "missing"),
    ]
    assert set(made["limits"]) == set(AXES)
    assert made["limits"]["requests"] == 4
    assert made["limits"]["agents"] is None
    assert made["usage"]["requests"] == 3
    assert made["usage"]["output_tokens"] is None
    assert (made["session"], made["message"]) == ("c", "m1")


@pytest.mark.case("A-123")
def test_a_receipt_of_a_return_without_a_value_says_so() -> None:
    made = receipt(Reply(), Accept(None, empty=True))
    assert made["empty"] is True
    assert made["value"] is made["value_digest"] is None
    assert made["submissions"] == []


@pytest.mark.case("A-123")
def test_a_receipt_says_where_the_value_came_from() -> None:
    assert receipt(Text(), Accept('"done"', source="text"))["source"] == "text"


def test_equal_facts_have_equal_receipts() -> None:
    one = Returned(submitted(0, "valid", '{"a":1}'), 1, 1, "{}")
    made = [receipt(Reply(), Accept('{"a":1}'), one) for _ in range(2)]
    assert made[0] == made[1]
