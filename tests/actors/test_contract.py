"""Tests of the kinds of contract, their declarations, verdicts and records."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given

from ramet.actors.contract import (
    Choice,
    Contract,
    Reply,
    Returns,
    Schema,
    Text,
    contract_from_record,
)
from ramet.actors.errors import DeclarationError, UnsupportedSchemaError
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.errors import CorruptLogError, UsageError
from tests.mailbox.test_canonical import DATA
from tests.vectors import rows


@attrs.frozen
class Point:
    x: int
    y: float = 0.5


CONTRACTS: list[Contract[Any]] = [
    Reply(),
    Choice(["accept", "revise"], fallback="revise"),
    Choice(("é", "e\u0301")),
    Schema({"type": "object", "properties": {"b": {"type": "null"}}}),
    Text(),
]

WRONG_SHAPES = [
    '{"result": "x"}',
    '{"value": "x", "note": 1}',
    '"x"',
    '["x"]',
    "null",
    '{"value": 1, "value": 1}',
    '```json\n{"value": "x"}\n```',
    "not JSON",
    "",
    '{"Value": "x"}',
]


@pytest.mark.case("A-078", "A-079", "A-082", "A-084")
@pytest.mark.parametrize("row", rows("choice_declarations"))
def test_a_row_of_choice_declarations_has_its_verdict(row: dict[str, Any]) -> None:
    if row["choice_py"] == "<absent>":
        # A fallback without a choice is for the options of a script call to refuse;
        # the contract cannot even be written without members.
        with pytest.raises(TypeError):
            Choice(fallback="a")  # type: ignore[call-arg]
        return
    members, fallback = eval(row["choice_py"]), eval(row.get("fallback_py", "None"))
    if row["ok"]:
        assert Choice(members, fallback).members == tuple(members)
        return
    with pytest.raises(DeclarationError) as caught:
        Choice(members, fallback)
    assert caught.value.code == "bad-option"


@pytest.mark.case("A-078")
@pytest.mark.parametrize(
    ("members", "index"),
    [(["a", 1], 1), (["a", "b", ""], 2), ([" ", "a"], 0), (["a", "b", "a"], 2)],
)
def test_a_wrong_member_is_named_by_its_index(members: Any, index: int) -> None:
    with pytest.raises(DeclarationError, match=rf"choice\[{index}\]"):
        Choice(members)


@pytest.mark.case("A-086", "A-087", "A-088")
@pytest.mark.parametrize("row", rows("choice_submissions"))
def test_a_row_of_choice_submissions_has_its_verdict(row: dict[str, Any]) -> None:
    choice = Choice(row["choices"])
    verdict = choice.judge(row["arguments"])
    assert verdict.valid is (row["verdict"] == "accept")
    assert bool(verdict.errors) is not verdict.valid
    if verdict.valid:
        assert choice.value(verdict.canonical) == json.loads(row["arguments"])["value"]


@pytest.mark.case("A-088")
@pytest.mark.parametrize("value", [None, "", 0, ["a"], {"type": "string"}, "A", " a"])
def test_nothing_is_parsed_into_a_member(value: Any) -> None:
    assert not Choice(["a", "b"]).judge_value(value).valid


@pytest.mark.case("A-006")
def test_a_choice_is_not_changed_by_its_maker() -> None:
    members = ["a", "b"]
    choice = Choice(members)
    members.append("c")
    assert choice.members == ("a", "b")
    assert not choice.judge('{"value": "c"}').valid


@pytest.mark.case("A-017", "A-019")
@pytest.mark.parametrize(
    "value", [0, False, [], {}, " ", 1.5, '{"a": broken', "```json\n{}\n```"]
)
def test_a_reply_accepts_every_value_as_it_is(value: Any) -> None:
    verdict = Reply().judge(json.dumps({"value": value}))
    assert (verdict.valid, verdict.empty) == (True, False)
    assert Reply().value(verdict.canonical) == value


@pytest.mark.case("A-018")
@pytest.mark.parametrize("raw", ['{"value": ""}', '{"value": null}', "{}"])
def test_a_reply_without_a_value_is_empty(raw: str) -> None:
    verdict = Reply().judge(raw)
    assert (verdict.valid, verdict.empty) == (True, True)
    assert Reply().value(verdict.canonical) is None


@pytest.mark.case("A-035")
@pytest.mark.parametrize("raw", WRONG_SHAPES)
@pytest.mark.parametrize("contract", [Reply(), Choice(["x", "y"])])
def test_a_wrong_shape_is_refused_and_never_read_as_empty(
    contract: Contract[Any], raw: str
) -> None:
    verdict = contract.judge(raw)
    assert (verdict.valid, verdict.empty) == (False, False)
    assert verdict.errors


@pytest.mark.case("A-110")
@given(DATA)
def test_a_python_value_is_judged_by_the_bytes_of_its_return(value: Any) -> None:
    raw = f'{{"value":{canonical_json(value)}}}'
    for contract in CONTRACTS[:4]:
        assert contract.judge_value(value) == contract.judge(raw)


@pytest.mark.case("A-024")
def test_an_accepted_value_is_immutable_and_not_the_one_that_was_submitted() -> None:
    submitted = {"list": [1]}
    verdict = Reply().judge_value(submitted)
    submitted["list"].append(2)
    value = Reply().value(verdict.canonical)
    assert value == {"list": [1]}
    with pytest.raises(TypeError):
        value["list"].append(3)
    assert Reply().judge_value(value).canonical == verdict.canonical


@pytest.mark.case("A-020")
def test_a_large_value_stays_whole() -> None:
    text = "é" * 2_500_000
    verdict = Reply().judge(json.dumps({"value": text}))
    assert Reply().value(verdict.canonical) == text


def test_the_deepest_value_that_is_accepted_fits_in_a_record_around_it() -> None:
    deepest = "[" * 255 + "]" * 255
    verdict = Reply().judge(f'{{"value": {deepest}}}')
    assert verdict.valid
    value = Reply().value(verdict.canonical)
    assert canonical_json({"value": value}) == f'{{"value":{deepest}}}'
    assert not Reply().judge(f'{{"value": [{deepest}]}}').valid


@pytest.mark.case("A-009")
def test_the_allowed_argument_objects_are_shown() -> None:
    assert Choice(["a", 'b"']).shown() == ('{"value": "a"}', '{"value": "b\\""}')
    assert '{"value": VALUE}' in Reply().shown()[0]
    node = {"type": "integer", "minimum": 1}
    assert json.dumps(node) in Schema(node).shown()[1]
    assert Text().shown() == ()


@pytest.mark.case("A-001")
def test_parameters_have_the_one_argument_value() -> None:
    for contract in CONTRACTS[:4]:
        parameters = contract.parameters()
        assert list(parameters["properties"]) == ["value"]
        assert parameters["additionalProperties"] is False
        assert parameters["required"] == ["value"]
        canonical_json(parameters)
    choice = Choice(["a", "b"]).parameters()["properties"]["value"]
    assert choice == {"type": "string", "enum": ["a", "b"]}


@pytest.mark.case("A-005")
def test_text_has_no_return_tool() -> None:
    assert [contract.has_tool for contract in CONTRACTS] == [True] * 4 + [False]
    with pytest.raises(UsageError, match="no return tool"):
        Text().parameters()


@pytest.mark.case("A-070", "A-071")
def test_text_takes_the_exact_message_and_refuses_a_blank_one() -> None:
    text = '  ```json\n{"a": 1}\n```\n'
    verdict = Text().judge(text)
    assert verdict.valid
    assert Text().value(verdict.canonical) == text
    assert not Text().judge(" \n").valid
    with pytest.raises(UsageError, match="dict"):
        Text().judge_value({})


@pytest.mark.case("A-123")
@pytest.mark.parametrize("contract", CONTRACTS, ids=repr)
def test_a_contract_is_read_back_from_its_record(contract: Contract[Any]) -> None:
    record = json.loads(canonical_json(contract.record()))
    restored = contract_from_record(record)
    assert restored == contract
    assert hash(restored) == hash(contract)
    assert restored.digest == contract.digest
    assert restored.record() == contract.record()
    assert pickle.loads(pickle.dumps(contract)) == contract


def test_contracts_of_different_kinds_have_different_digests() -> None:
    assert len({contract.digest for contract in CONTRACTS}) == len(CONTRACTS)


@pytest.mark.case("A-127")
@pytest.mark.parametrize("contract", CONTRACTS, ids=repr)
def test_an_altered_record_is_refused(contract: Contract[Any]) -> None:
    record = json.loads(canonical_json(contract.record()))
    alterations: list[dict[str, Any]] = [{**record, "more": 1}]
    for key, value in record.items():
        if key == "regex":
            continue
        changed = copy.deepcopy(record)
        changed[key] = (
            value[:-1] if isinstance(value, (str, list)) else {"type": "null"}
        )
        alterations.append(changed)
        alterations.append({k: it for k, it in record.items() if k != key})
    for altered in alterations:
        with pytest.raises(CorruptLogError):
            contract_from_record(altered)


def test_a_record_reads_with_another_version_of_what_counts() -> None:
    record = Schema({"type": "null"}).record()
    assert contract_from_record({**record, "regex": "1.0"}) == Schema({"type": "null"})


@pytest.mark.case("A-083")
def test_a_returns_gives_an_instance_made_from_the_accepted_value() -> None:
    contract = Returns(Point)
    verdict = contract.judge('{"value": {"x": 2.0}}')
    assert verdict.valid
    assert contract.value(verdict.canonical) == Point(2, 0.5)
    assert contract.parameters()["properties"]["value"] == contract.schema.node
    assert contract.judge('{"value": {"x": "2"}}').errors == (
        '$["x"]: must be an integer, not the string "2"',
    )


def test_a_returns_is_recorded_by_its_schema_and_its_name() -> None:
    contract = Returns(Point)
    record = json.loads(canonical_json(contract.record()))
    assert record["returns"].endswith(":Point")
    restored = contract_from_record(record)
    assert restored.digest == contract.digest
    assert restored.value('{"x":1}') == {"x": 1}
    assert pickle.loads(pickle.dumps(contract)) == contract


def test_a_class_that_refuses_a_value_makes_it_an_invalid_return() -> None:
    def check(made: object, attribute: object, n: int) -> None:
        if n % 2:
            raise ValueError("n must be even")

    @attrs.frozen
    class Even:
        n: int = attrs.field(validator=check)

    contract = Returns(Even)
    assert contract.judge('{"value": {"n": 2}}').valid
    assert contract.judge('{"value": {"n": 1}}').errors == (
        "$: is refused by Even: n must be even",
    )


@pytest.mark.case("A-083")
def test_a_class_that_the_dialect_cannot_express_is_refused_when_declared() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"at \$$"):
        Returns(int)


def test_only_what_strict_decoding_would_not_change_prefers_it() -> None:
    assert Choice(["a", "b"]).strict_preferred
    assert not Reply().strict_preferred
    returns = Returns(Point)
    assert returns.strict_preferred is returns.schema.strict_preferred


def test_a_class_is_shown_as_its_schema_and_named_by_itself() -> None:
    returns = Returns(Point)
    assert returns.shown() == returns.schema.shown()
    assert returns == Returns(Point)
    assert hash(returns) == hash(Returns(Point))
    assert repr(returns) == "Returns(Point)"


def test_a_text_contract_judges_a_value_of_python_that_is_text() -> None:
    assert Text().judge_value("hello").valid
    with pytest.raises(UsageError, match="wants text, not int"):
        Text().judge_value(7)
