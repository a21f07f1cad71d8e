"""The spec of an agent is checked when it is made, and nobody changes it afterwards."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ramet.actors.agent import AgentSpec
from ramet.actors.budget import Limits
from ramet.actors.errors import DeclarationError
from ramet.actors.policy import Policy
from ramet.mailbox.errors import UsageError
from tests.actors.specs import tool


def look(where: str) -> str:
    """Look somewhere.

    Args:
        where: The place.
    """
    return where


def test_functions_and_tools_become_tools_in_their_order() -> None:
    made = tool("find")
    spec = AgentSpec("worker", "Work.", tools=[look, made])
    assert [it.name for it in spec.tools] == ["look", "find"]
    assert spec.tools[1] is made
    assert spec.instructions == "Work."


@pytest.mark.case("R-090")
def test_what_the_caller_changes_afterwards_does_not_reach_the_spec() -> None:
    tools: list[Any] = [look]
    allow, deny = ["look"], ["find"]
    policy: dict[str, Any] = {"nudges": 1}
    settings = {"temperature": 0.0}
    spec = AgentSpec(
        "worker",
        tools=tools,
        allow=allow,
        deny=deny,
        policy=policy,
        settings=settings,
    )
    for one in (tools, allow, deny):
        one.append("else")
    policy["nudges"] = 5
    settings["temperature"] = 1.0
    assert len(spec.tools) == 1
    assert (spec.allow, spec.deny) == (("look",), ("find",))
    assert spec.policy == {"nudges": 1}
    assert spec.settings == {"temperature": 0.0}


def test_a_spec_cannot_be_written_to() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        AgentSpec("worker").name = "other"  # type: ignore[misc]


def test_a_whole_policy_and_limits_are_kept_as_they_are() -> None:
    policy, limits = Policy(), Limits(requests=1)
    spec = AgentSpec("worker", policy=policy, limits=limits)
    assert spec.policy is policy
    assert spec.limits is limits


def test_the_empty_filter_and_no_filter_are_two_things() -> None:
    assert AgentSpec("worker").allow is None
    assert AgentSpec("worker", allow=()).allow == ()


@pytest.mark.parametrize("name", ["", " ", None, 7, b"x"])
def test_a_name_is_visible_text(name: Any) -> None:
    with pytest.raises(UsageError, match="name of a spec"):
        AgentSpec(name)


def test_instructions_are_text() -> None:
    with pytest.raises(UsageError, match="instructions of a spec must be text"):
        AgentSpec("worker", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [{"nudge": 1}, {"nudges": -1}, "auto"])
def test_a_wrong_policy_is_refused_before_anything_runs(policy: Any) -> None:
    with pytest.raises(UsageError, match="policy"):
        AgentSpec("worker", policy=policy)


@pytest.mark.parametrize("settings", [None, "x", [("a", 1)]])
def test_settings_are_a_mapping(settings: Any) -> None:
    with pytest.raises(UsageError, match="settings of a spec must be a mapping"):
        AgentSpec("worker", settings=settings)


def test_limits_are_limits() -> None:
    with pytest.raises(UsageError, match="must be Limits"):
        AgentSpec("worker", limits={"requests": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": "look"}, "must be a list of functions or tools"),
        ({"tools": b"look"}, "must be a list of functions or tools"),
        ({"tools": look}, "must be a list of functions or tools"),
        ({"tools": [7]}, "function"),
        ({"tools": [look, look]}, "two tools of a spec have the name 'look'"),
        ({"tools": [tool("reply")]}, "'reply' belongs to the runtime"),
        ({"allow": "look"}, "must be lists of tool names"),
        ({"allow": 7}, "must be lists of tool names"),
        ({"allow": ["look", 7]}, "must be lists of tool names"),
        ({"deny": "look"}, "must be lists of tool names"),
        ({"deny": [None]}, "must be lists of tool names"),
        ({"deny": ["reply"]}, "'reply' cannot be denied"),
    ],
)
def test_a_wrong_declaration_of_tools_is_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        AgentSpec("worker", **options)
