"""Tests of the ledger of returns, as conversations and by chance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.contract import Choice, Contract, Reply, Schema, Text
from ramet.actors.ledger import SUBMISSIONS, Ledger
from ramet.actors.submission import (
    NO_PLACE,
    Accept,
    Continue,
    Decision,
    Fail,
    Nudge,
    Submission,
    Wait,
)
from ramet.mailbox.errors import IllegalEventError, UsageError
from ramet.mailbox.events import Submitted
from ramet.mailbox.message import Call

CHOICE = Choice(["accept", "revise"])
SCHEMA = Schema({"type": "integer"})
COUNTED = [CHOICE, SCHEMA]

WORK = Call("work", "{}")
GOOD = {"choice": '{"value": "accept"}', "schema": '{"value": 1}'}
SAME = {"choice": ' {"value" : "accept"}', "schema": '{"value": 1.0}'}
OTHER = {"choice": '{"value": "revise"}', "schema": '{"value": 2}'}
BAD = '{"value": "neither"}'


def reply(raw: str) -> Call:
    return Call("reply", raw)


def batch(ledger: Ledger, *calls: Call) -> tuple[list[str], Decision]:
    """Play a whole batch: the plan, the returns in order, and the landing.

    What becomes of each call is `run`, a code, or the verdict of a return.
    """
    plan = ledger.plan(calls)
    came: list[str] = []
    for place, (call, disposition) in enumerate(
        zip(calls, plan.dispositions, strict=True)
    ):
        if disposition.action == "judge":
            judged = ledger.submit(place, call.arguments)
            assert judged.submission is not None
            came.append(judged.submission.verdict)
        elif disposition.action == "withhold":
            assert disposition.result is not None
            assert disposition.result.content
            came.append(disposition.result.error or "")
        else:
            came.append("run")
    return came, ledger.landed()


def verdicts(ledger: Ledger) -> list[str]:
    return [submission.verdict for submission in ledger.evidence]


def cause_of(decision: Decision) -> str:
    assert isinstance(decision, Fail)
    return decision.cause


# -- the reply contract ----------------------------------------------------------------


@pytest.mark.case("A-010", "A-012", "A-013")
def test_a_reply_among_other_calls_is_accepted_when_the_batch_has_landed() -> None:
    came, decision = batch(Ledger(Reply()), WORK, reply('{"value": "text"}'), WORK)
    assert came == ["run", "valid", "run"]
    assert decision == Accept('"text"')


@pytest.mark.case("A-018")
@pytest.mark.parametrize(
    ("raw", "value"),
    [("{}", None), ('{"value": null}', "null"), ('{"value": ""}', '""')],
)
def test_a_reply_without_a_value_is_accepted_as_empty(
    raw: str, value: str | None
) -> None:
    assert batch(Ledger(Reply()), reply(raw))[1] == Accept(value, empty=True)


@pytest.mark.case("A-032", "A-033")
def test_three_nudges_are_sent_and_the_fourth_end_fails() -> None:
    ledger = Ledger(Reply())
    for _ in range(3):
        nudge = ledger.turn_ended("end_turn", "I am done")
        assert isinstance(nudge, Nudge)
        assert nudge.submission.place == NO_PLACE
        assert '{"value": VALUE}' in nudge.text
    failed = ledger.turn_ended("end_turn", "I am done")
    assert isinstance(failed, Fail)
    assert failed.cause == "no-reply"
    assert "3 nudges" in failed.detail
    assert "ended without a return" in failed.detail
    assert failed.submission is not None


@pytest.mark.case("A-034")
def test_truncated_empty_and_missing_ends_share_one_allowance() -> None:
    ledger = Ledger(Reply())
    assert isinstance(ledger.turn_ended("length", "cut"), Nudge)
    assert isinstance(ledger.turn_ended("end_turn", None), Nudge)
    assert isinstance(ledger.turn_ended("end_turn", "prose"), Nudge)
    assert cause_of(ledger.turn_ended("end_turn", "prose")) == "no-reply"


@pytest.mark.case("A-035")
def test_a_wrong_shape_spends_one_nudge_and_the_turn_goes_on() -> None:
    ledger = Ledger(Reply())
    ledger.plan([reply('{"result": "x"}')])
    judged = ledger.submit(0, '{"result": "x"}')
    assert judged.result.error == "INVALID_ARGS"
    assert '{"value": VALUE}' in judged.result.content
    assert 'arguments["value"]: required member is missing' in judged.result.content
    assert ledger.landed() == Continue()
    assert (ledger.spent, ledger.left) == (1, 3)
    assert not ledger.narrowed


@pytest.mark.case("A-033")
def test_the_fourth_wrong_shape_fails() -> None:
    ledger = Ledger(Reply())
    wrong = [reply("x")] * 4
    came, decision = batch(ledger, *wrong)
    assert came == ["invalid"] * 4
    assert cause_of(decision) == "no-reply"


@pytest.mark.case("A-040")
def test_without_nudges_the_first_end_without_a_reply_is_final() -> None:
    assert cause_of(Ledger(Reply(), nudges=0).turn_ended("end_turn")) == "no-reply"


@pytest.mark.case("A-040")
@pytest.mark.parametrize("nudges", [-1, True, 1.5, "3", None])
def test_nudges_are_a_whole_number_from_zero(nudges: Any) -> None:
    with pytest.raises(UsageError, match="nudges"):
        Ledger(Reply(), nudges)


@pytest.mark.case("A-028")
def test_a_wrong_shape_before_a_reply_spends_a_nudge_and_the_reply_stands() -> None:
    ledger = Ledger(Reply())
    came, decision = batch(ledger, reply("x"), reply('{"value": 1}'))
    assert came == ["invalid", "valid"]
    assert decision == Accept("1", attempts=2)


# -- one value -------------------------------------------------------------------------


@pytest.mark.case("A-026", "A-096")
@pytest.mark.parametrize("contract", COUNTED)
def test_an_equal_value_is_a_duplicate_and_says_so(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    calls = [reply(GOOD[contract.kind]), reply(SAME[contract.kind])]
    came, decision = batch(ledger, *calls)
    assert came == ["valid", "duplicate"]
    assert isinstance(decision, Accept)
    assert (decision.attempts, decision.duplicates) == (1, 1)
    assert "once" in ledger.submit(1, SAME[contract.kind]).result.content


@pytest.mark.case("A-027", "A-096")
@pytest.mark.parametrize("contract", COUNTED)
def test_two_different_values_are_a_conflict(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    calls = [reply(GOOD[contract.kind]), reply(OTHER[contract.kind])]
    came, decision = batch(ledger, *calls)
    assert came == ["valid", "conflict"]
    assert cause_of(decision) == "output-contract-conflict"
    assert [submission.value for submission in ledger.evidence] != [None, None]


@pytest.mark.case("A-027")
def test_nothing_and_then_a_value_is_a_conflict() -> None:
    ledger = Ledger(Reply())
    assert cause_of(batch(ledger, reply("{}"), reply('{"value": 1}'))[1]) == (
        "output-contract-conflict"
    )
    ledger = Ledger(Reply())
    assert cause_of(batch(ledger, reply("{}"), reply('{"value": null}'))[1]) == (
        "output-contract-conflict"
    )


@pytest.mark.case("A-028")
@pytest.mark.parametrize("contract", [Reply(), *COUNTED])
@pytest.mark.parametrize("second", ["x", '{"wrong": 1}'])
def test_a_wrong_return_after_the_accepted_one_is_a_conflict(
    contract: Contract[Any], second: str
) -> None:
    first = GOOD.get(contract.kind, '{"value": 1}')
    decision = batch(Ledger(contract), reply(first), reply(second))[1]
    assert cause_of(decision) == "output-contract-conflict"


@pytest.mark.case("A-029")
def test_the_same_place_with_the_same_text_is_the_same_event() -> None:
    ledger = Ledger(CHOICE)
    ledger.plan([reply(BAD)])
    first = ledger.submit(0, BAD)
    again = ledger.submit(0, BAD)
    assert again.submission is None
    assert again.result == first.result
    assert ledger.spent == 1


@pytest.mark.case("A-029")
@pytest.mark.parametrize("first", [BAD, GOOD["choice"]])
def test_the_same_place_with_another_text_is_a_conflict(first: str) -> None:
    ledger = Ledger(CHOICE)
    ledger.plan([reply(first)])
    ledger.submit(0, first)
    ledger.submit(0, SAME["choice"])
    assert cause_of(ledger.landed()) == "output-contract-conflict"


@pytest.mark.case("A-031")
def test_nothing_comes_after_an_accepted_return() -> None:
    ledger = Ledger(Reply())
    batch(ledger, reply('{"value": 1}'))
    with pytest.raises(IllegalEventError):
        ledger.plan([WORK])
    with pytest.raises(IllegalEventError):
        ledger.turn_ended("end_turn")


# -- choice and schema -----------------------------------------------------------------


@pytest.mark.case("A-086", "A-097")
@pytest.mark.parametrize("contract", COUNTED)
def test_a_valid_first_submission_is_accepted(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    came, decision = batch(ledger, reply(GOOD[contract.kind]))
    assert came == ["valid"]
    assert isinstance(decision, Accept)
    assert (decision.attempts, decision.source) == (1, "reply")


@pytest.mark.case("A-088", "A-098")
@pytest.mark.parametrize("contract", COUNTED)
def test_an_invalid_and_then_a_valid_one_is_accepted(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    assert batch(ledger, reply(BAD)) == (["invalid"], Continue())
    assert ledger.narrowed
    decision = batch(ledger, reply(GOOD[contract.kind]))[1]
    assert isinstance(decision, Accept)
    assert decision.attempts == 2


@pytest.mark.case("A-089", "A-099")
@pytest.mark.parametrize("contract", COUNTED)
def test_two_invalid_ones_are_exhausted_with_both_errors(
    contract: Contract[Any],
) -> None:
    ledger = Ledger(contract)
    batch(ledger, reply(BAD))
    decision = batch(ledger, reply("x"))[1]
    assert isinstance(decision, Fail)
    assert decision.cause == "output-contract-exhausted"
    assert len(decision.errors) == 2
    assert ledger.spent == SUBMISSIONS


@pytest.mark.case("A-090", "A-102")
@pytest.mark.parametrize("contract", COUNTED)
def test_a_turn_without_a_return_spends_a_submission(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    assert batch(ledger, WORK) == (["run"], Continue())
    assert batch(ledger, WORK, WORK) == (["run", "run"], Continue())
    nudge = ledger.turn_ended("end_turn", "done")
    assert isinstance(nudge, Nudge)
    assert "last submission" in nudge.text
    assert ledger.narrowed
    decision = ledger.turn_ended("end_turn", "done")
    assert cause_of(decision) == "output-contract-exhausted"


@pytest.mark.case("A-088", "A-009")
def test_a_correction_names_every_allowed_argument_object() -> None:
    members = [f"member {index}" for index in range(40)]
    ledger = Ledger(Choice(members))
    ledger.plan([reply(BAD)])
    content = ledger.submit(0, BAD).result.content
    for member in members:
        assert f'{{"value": "{member}"}}' in content


@pytest.mark.case("A-091", "A-092")
def test_a_choice_lets_others_run_at_first_and_withholds_them_later() -> None:
    ledger = Ledger(CHOICE)
    came, decision = batch(ledger, WORK, reply(BAD), WORK)
    assert (came, decision) == (["run", "invalid", "run"], Continue())
    came, decision = batch(ledger, WORK, reply(GOOD["choice"]))
    assert came == ["TOOL_WITHHELD", "valid"]
    assert isinstance(decision, Accept)


@pytest.mark.case("A-103")
@pytest.mark.parametrize("returns_first", [True, False])
def test_a_schema_rejects_a_mixed_batch_whole(returns_first: bool) -> None:
    ledger = Ledger(SCHEMA)
    calls = [reply(GOOD["schema"]), WORK]
    came, decision = batch(ledger, *(calls if returns_first else reversed(calls)))
    assert sorted(came) == ["ABORTED_BEFORE_DISPATCH", "INVALID_ARGS"]
    assert decision == Continue()
    place = 0 if returns_first else 1
    assert [(it.place, it.value) for it in ledger.evidence] == [(place, None)]
    assert ledger.spent == 1
    decision = batch(ledger, *calls)[1]
    assert cause_of(decision) == "output-contract-exhausted"


def test_a_mixed_batch_with_several_returns_spends_one_submission() -> None:
    ledger = Ledger(SCHEMA)
    batch(ledger, reply(BAD), WORK, reply(GOOD["schema"]))
    assert ledger.spent == 1


@pytest.mark.case("A-104")
@pytest.mark.parametrize("contract", COUNTED)
def test_only_other_calls_in_a_correction_spend_it(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    batch(ledger, reply(BAD))
    came, decision = batch(ledger, WORK, WORK)
    assert came == ["TOOL_WITHHELD"] * 2
    assert cause_of(decision) == "output-contract-exhausted"
    assert verdicts(ledger) == ["invalid", "missing"]


@pytest.mark.case("A-094")
def test_a_fallback_stands_in_when_the_submissions_are_exhausted() -> None:
    ledger = Ledger(Choice(["a", "b"], fallback="b"))
    batch(ledger, reply(BAD))
    decision = batch(ledger, reply("x"))[1]
    assert decision == Accept('"b"', source="fallback", attempts=2)
    assert len(ledger.evidence) == 2


@pytest.mark.case("A-094")
def test_a_fallback_stands_in_after_turns_without_a_return_too() -> None:
    ledger = Ledger(Choice(["a", "b"], fallback="b"))
    ledger.turn_ended("end_turn")
    decision = ledger.turn_ended("end_turn")
    assert isinstance(decision, Accept)
    assert (decision.source, decision.submission) == ("fallback", ledger.evidence[1])


@pytest.mark.case("A-095")
def test_a_fallback_does_not_apply_to_a_conflict_or_a_refusal() -> None:
    choice = Choice(["accept", "revise"], fallback="revise")
    calls = [reply(GOOD["choice"]), reply(OTHER["choice"])]
    assert cause_of(batch(Ledger(choice), *calls)[1]) == "output-contract-conflict"
    assert cause_of(Ledger(choice).turn_ended("refusal")) == "output-refused"
    assert cause_of(Ledger(choice).turn_ended("length")) == "output-incomplete"


@pytest.mark.case("A-112")
@pytest.mark.parametrize("contract", COUNTED)
@pytest.mark.parametrize("stop", ["length", "incomplete"])
def test_a_cut_response_fails_and_spends_nothing(
    contract: Contract[Any], stop: str
) -> None:
    ledger = Ledger(contract)
    assert cause_of(ledger.turn_ended(stop, "cut")) == "output-incomplete"
    assert ledger.spent == 0
    assert ledger.evidence == ()


@pytest.mark.case("A-114")
@pytest.mark.parametrize("nudges", [0, 3, 100])
def test_nudges_add_nothing_to_the_two_submissions(nudges: int) -> None:
    ledger = Ledger(CHOICE, nudges)
    batch(ledger, reply(BAD))
    assert cause_of(batch(ledger, reply(BAD))[1]) == "output-contract-exhausted"


@pytest.mark.case("A-116")
def test_of_several_failures_in_a_batch_the_first_is_the_cause() -> None:
    good, other = reply(GOOD["choice"]), reply(OTHER["choice"])
    came, decision = batch(Ledger(CHOICE), reply(BAD), reply("x"), good, other)
    assert came == ["invalid"] * 4
    assert cause_of(decision) == "output-contract-exhausted"
    decision = batch(Ledger(CHOICE), good, other, reply(BAD), reply("x"))[1]
    assert cause_of(decision) == "output-contract-conflict"


@pytest.mark.case("A-109")
def test_a_rejected_submission_shows_bounded_errors_and_the_arguments() -> None:
    names = [f"m{index}" for index in range(100)]
    node = {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "required": names,
    }
    ledger = Ledger(Schema(node))
    ledger.plan([reply('{"value": {}}')])
    content = ledger.submit(0, '{"value": {}}').result.content
    lines = [line for line in content.split("\n") if line.startswith("- ")]
    assert len(lines) == 20
    assert all(len(line) <= 502 for line in lines)
    assert '- $["m0"]: required member is missing' in lines
    assert json.dumps(node) in content


# -- waiting, refusals and texts -------------------------------------------------------


@pytest.mark.case("A-038", "A-192")
@pytest.mark.parametrize("contract", [Reply(), CHOICE, SCHEMA, Text()])
def test_while_a_child_lives_nothing_is_spent(contract: Contract[Any]) -> None:
    ledger = Ledger(contract, nudges=0)
    for _ in range(5):
        assert ledger.turn_ended("end_turn", "prose", live_children=2) == Wait()
    assert ledger.spent == 0
    assert ledger.turn_ended("end_turn", "prose") != Wait()


@pytest.mark.case("A-037", "A-121")
@pytest.mark.parametrize("contract", [Reply(), CHOICE, SCHEMA, Text()])
def test_a_refusal_fails_and_spends_nothing(contract: Contract[Any]) -> None:
    ledger = Ledger(contract)
    assert cause_of(ledger.turn_ended("refusal", "no")) == "output-refused"
    assert ledger.evidence == ()


@pytest.mark.case("A-070", "A-074")
def test_a_text_contract_accepts_the_exact_final_message() -> None:
    ledger = Ledger(Text())
    assert batch(ledger, WORK) == (["run"], Continue())
    assert ledger.turn_ended("end_turn", "early", live_children=1) == Wait()
    assert ledger.turn_ended("end_turn", " x\n") == Accept('" x\\n"', source="text")


@pytest.mark.case("A-071", "A-072")
@pytest.mark.parametrize(
    ("stop", "text", "cause"),
    [
        ("end_turn", " \n", "empty-answer"),
        ("end_turn", None, "unparseable-answer"),
        ("length", "cut", "provider-error"),
        ("incomplete", "cut", "provider-error"),
    ],
)
def test_a_text_contract_fails_by_its_cause(
    stop: str, text: str | None, cause: str
) -> None:
    assert cause_of(Ledger(Text()).turn_ended(stop, text)) == cause


# -- any sequence ----------------------------------------------------------------------

RAWS = st.sampled_from(
    [GOOD["choice"], OTHER["choice"], GOOD["schema"], BAD, "x", "{}"]
)
CALLS = st.lists(st.one_of(st.just(WORK), RAWS.map(reply)), min_size=1, max_size=4)
FACTS = st.lists(
    st.one_of(CALLS, st.sampled_from(["end_turn", "children"])), max_size=8
)


def play(ledger: Ledger, facts: Sequence[Any]) -> Decision | None:
    decision: Decision | None = None
    for fact in facts:
        if ledger.settled:
            break
        if isinstance(fact, str):
            decision = ledger.turn_ended("end_turn", "x", int(fact == "children"))
        else:
            decision = batch(ledger, *fact)[1]
    return decision


@pytest.mark.case("A-113", "A-115")
@pytest.mark.parametrize("contract", [CHOICE, SCHEMA, Reply()], ids=repr)
@given(facts=FACTS)
def test_no_sequence_spends_more_than_the_allowance(
    contract: Contract[Any], facts: Sequence[Any]
) -> None:
    ledger = Ledger(contract)
    decision = play(ledger, facts)
    failing = [it for it in verdicts(ledger) if it in ("invalid", "missing")]
    counted = contract.kind != "reply"
    assert ledger.spent <= (SUBMISSIONS if counted else 4)
    if isinstance(decision, Accept):
        assert verdicts(ledger).count("valid") == 1
        accepted = next(it for it in ledger.evidence if it.verdict == "valid")
        assert decision.value == accepted.value
    if isinstance(decision, Fail) and decision.cause != "output-contract-conflict":
        assert len(failing) >= (SUBMISSIONS if counted else 4)
    if isinstance(decision, Fail) and decision.cause == "output-contract-conflict":
        assert "conflict" in verdicts(ledger)
    assert ledger.settled is isinstance(decision, (Accept, Fail))


@pytest.mark.parametrize("contract", [CHOICE, SCHEMA, Reply()], ids=repr)
@given(facts=FACTS)
def test_a_ledger_is_made_again_from_the_submissions_of_a_log(
    contract: Contract[Any], facts: Sequence[Any]
) -> None:
    ledger = Ledger(contract)
    play(ledger, facts)
    again = Ledger(contract)
    for it in ledger.evidence:
        again.apply(Submitted(it.place, it.verdict, 0, it.value, it.errors))
    assert again.evidence == ledger.evidence
    assert again.landed() == ledger.landed()
    assert (again.spent, again.narrowed) == (ledger.spent, ledger.narrowed)


@pytest.mark.case("A-045")
def test_every_submission_stays_as_evidence_with_its_value() -> None:
    ledger = Ledger(CHOICE)
    batch(ledger, reply(BAD))
    assert ledger.evidence == (
        Submission(
            0,
            "invalid",
            '"neither"',
            ('$: "neither" is not exactly one of the members',),
        ),
    )
