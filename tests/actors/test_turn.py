"""A turn goes on with calls and ends with anything else a response can be."""

from __future__ import annotations

import pytest

from ramet.actors.response import Assembled, ResponseFault
from ramet.actors.turn import COMPLETED, Finish, after_response
from tests.logs import call


@pytest.mark.parametrize("stop", ["end_turn", "length", "tool_calls", "unknown"])
def test_a_text_ends_the_turn_as_completed_also_when_it_was_cut(stop: str) -> None:
    assert after_response(Assembled("hi", (), stop, None)) is COMPLETED
    assert Finish("completed") == COMPLETED


@pytest.mark.case("R-210")
@pytest.mark.parametrize("stop", ["tool_calls", "length", "incomplete", "end_turn"])
def test_whole_calls_run_before_the_turn_is_judged(stop: str) -> None:
    assert after_response(Assembled("", (call(),), stop, None)) is None


def test_a_refusal_fails_the_turn_with_a_short_detail_also_over_calls() -> None:
    refused = after_response(Assembled("", (call(),), "refusal", None, "no" * 500))
    assert refused == Finish("failed", "output-refused", "no" * 100)
    silent = after_response(Assembled("", (), "refusal", None, ""))
    assert silent == Finish("failed", "output-refused", None)


def test_an_incomplete_response_without_calls_fails_the_turn() -> None:
    finish = after_response(Assembled("so far", (), "incomplete", None))
    assert finish == Finish(
        "failed", "output-incomplete", "the response ended incomplete"
    )


def test_a_response_of_which_nothing_may_be_used_fails_the_turn_with_its_code() -> None:
    fault = ResponseFault("output-protocol-unknown", "the end is lost")
    assert after_response(fault) == Finish(
        "failed", "output-protocol-unknown", "the end is lost"
    )
