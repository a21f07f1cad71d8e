"""A bound spec: what a header keeps of it, and how a stored one meets present code."""

from __future__ import annotations

import attrs
import pytest

from ramet.actors.agent import AgentSpec
from ramet.actors.bound import bind, rebind
from ramet.actors.budget import Limits
from ramet.actors.model_function import FunctionModel
from ramet.actors.policy import Policy
from ramet.mailbox.events import LimitsRecord, SpecRecord, ToolRecord
from tests.actors.specs import tool


async def mind(request: object) -> str:
    return "done"


MODEL = FunctionModel(mind)


@pytest.mark.case("R-089")
def test_the_record_holds_texts_limits_and_digests_and_no_code() -> None:
    look = tool("look")
    spec = AgentSpec(
        "worker",
        "Work.",
        tools=[look],
        allow=("look",),
        deny=("find",),
        limits=Limits(requests=3),
        policy={"report_delivery": "wakeup"},
        settings={"temperature": 0},
    )
    bound = bind(spec, Policy(), MODEL)
    assert bound.record == SpecRecord(
        "worker",
        "Work.",
        ("look",),
        ("find",),
        LimitsRecord(requests=3),
        (ToolRecord("look", look.digest),),
    )
    assert bound.name == "worker"
    assert bound.instructions == "Work."
    assert bound.model is MODEL
    assert bound.policy.report_delivery == "wakeup"
    assert bound.settings == {"temperature": 0}
    assert bound.limits == Limits(requests=3)


def test_the_filter_decides_which_tools_there_are() -> None:
    tools = [tool("look"), tool("find"), tool("dig")]

    def names(**options: tuple[str, ...]) -> list[str]:
        spec = AgentSpec("worker", tools=tools, **options)  # type: ignore[arg-type]
        bound = bind(spec, Policy(), None)
        assert list(bound.tools) == [it.name for it in bound.schemas]
        return list(bound.tools)

    assert names() == ["look", "find", "dig"]
    assert names(allow=("find", "look")) == ["look", "find"]
    assert names(deny=("find",)) == ["look", "dig"]
    assert names(allow=("find", "look"), deny=("find",)) == ["look"]
    assert names(allow=()) == []


def test_the_limits_of_a_call_narrow_those_of_the_spec() -> None:
    spec = AgentSpec("worker", limits=Limits(requests=3, call_s=9))
    bound = bind(spec, Policy(), MODEL)
    narrow = bound.within(Limits(requests=5, call_s=1, tool_calls=2))
    assert narrow.limits == Limits(requests=3, call_s=1, tool_calls=2)
    assert narrow.record.limits == narrow.limits.record()
    assert narrow.model is MODEL
    assert bound.limits == Limits(requests=3, call_s=9)


@pytest.mark.case("R-180")
def test_a_stored_spec_that_is_the_present_one_is_bound_once() -> None:
    spec = AgentSpec("worker", "Work.", tools=[tool("look")])
    present = bind(spec, Policy(), MODEL)
    assert rebind(present.record, spec, present) == (present, ())


@pytest.mark.case("R-180")
def test_stored_texts_decide_and_code_is_the_present_one() -> None:
    spec = AgentSpec(
        "worker", "New.", tools=[tool("look", "New."), tool("find")], deny=("x",)
    )
    present = bind(spec, Policy(nudges=9), MODEL)
    stored = SpecRecord(
        "worker",
        "Old.",
        ("look", "gone"),
        (),
        LimitsRecord(requests=2),
        (ToolRecord("look", tool("look", "Old.").digest), ToolRecord("gone", "g")),
    )
    bound, changed = rebind(stored, spec, present)
    assert bound.instructions == "Old."
    assert bound.limits == Limits(requests=2)
    assert list(bound.tools) == ["look"]
    assert bound.tools["look"].description == "New."
    assert bound.policy.nudges == 9
    assert bound.model is MODEL
    assert bound.record == stored
    assert changed == (
        "instructions",
        "allow",
        "deny",
        "limits",
        "tool find",
        "tool gone",
        "tool look",
    )


@pytest.mark.case("R-180")
def test_only_what_differs_is_named() -> None:
    spec = AgentSpec("worker", "New.", tools=[tool("look")])
    present = bind(spec, Policy(), None)
    stored = attrs.evolve(present.record, instructions="Old.")
    assert rebind(stored, spec, present)[1] == ("instructions",)


def test_bound_specs_of_one_spec_are_told_apart_by_the_policy() -> None:
    spec = AgentSpec("worker", policy={"nudges": 1})
    bound = bind(spec, Policy(claim="all"), None)
    assert bound.policy == Policy(claim="all", nudges=1)
    assert bound.model is None
