"""Tests of tools: their declaration and the reading of a call's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from ramet.actors.errors import DeclarationError
from ramet.actors.model import ToolSchema
from ramet.actors.tool import Tool, ToolCall, as_tool, call_key, read_call, tool_from
from ramet.mailbox.errors import InvalidArgumentsError

PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "word": {"type": "string", "pattern": "^a"},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def run(arguments: dict[str, Any], call: ToolCall) -> Any:
    return arguments


def deep(depth: int) -> Any:
    node: dict[str, Any] = {}
    for _ in range(depth):
        node = {"items": node}
    return node


def make(**changes: Any) -> Tool:
    declared = {
        "name": "look",
        "description": "Look.",
        "parameters": PARAMETERS,
        "run": run,
    }
    return Tool(**{**declared, **changes})


def test_a_tool_says_what_a_model_request_carries_of_it() -> None:
    assert make().schema == ToolSchema("look", "Look.", PARAMETERS)


def test_the_digest_is_that_of_what_a_model_sees() -> None:
    assert make().digest == make(run=lambda arguments, call: None).digest
    digests = {
        make().digest,
        make(name="watch").digest,
        make(description="Look!").digest,
        make(parameters={"type": "object"}).digest,
    }
    assert len(digests) == 4


def test_a_tool_is_not_changed_by_its_maker() -> None:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    tool = make(parameters=parameters)
    parameters["properties"]["more"] = {}
    assert tool.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "two words"},
        {"name": ""},
        {"name": "x" * 65},
        {"name": None},
        {"description": None},
        {"parameters": {"type": "string"}},
        {"parameters": {}},
        {"parameters": []},
        {"parameters": "object"},
        {"parameters": None},
        {"parameters": {"type": "object", "properties": []}},
        {"parameters": {"type": "object", "required": "path"}},
        {"parameters": {"type": "object", "properties": {"a": {1}}}},
        {"parameters": {"type": "object", "properties": {"a": deep(239)}}},
        {"run": "look"},
    ],
    ids=str,
)
def test_a_wrong_declaration_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError) as caught:
        make(**changes)
    assert caught.value.code == "bad-option"


def test_a_tool_may_block_unless_its_function_is_a_coroutine_function() -> None:
    async def look(arguments: dict[str, Any], call: ToolCall) -> None: ...

    assert make().blocking
    assert not make(run=look).blocking
    assert not make(blocking=False).blocking


@pytest.mark.case("R-015", "R-208")
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "not JSON"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"path": "a", "path": "b"}', "repeated"),
        ("{}", "path is missing"),
        ('{"path": 1}', "must be a string, not 1"),
        ('{"path": "a", "more": 1}', '"more" is not allowed'),
        ("```json\n{}\n```", "not JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_what_is_expected(
    raw: str, words: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        read_call(make(), raw)
    text = str(caught.value)
    assert words in text
    assert "did not run" in text
    assert '"required": ["path"]' in text


def test_what_the_dialect_does_not_have_is_left_to_the_tool() -> None:
    assert read_call(make(), '{"path": "a", "word": "b"}') == {"path": "a", "word": "b"}


def test_an_open_schema_allows_more() -> None:
    tool = make(parameters={"type": "object"})
    assert read_call(tool, '{"anything": [1]}') == {"anything": [1]}


def test_the_expected_schema_is_shown_shortened_when_it_is_long() -> None:
    node = {"type": "string", "description": "x" * 5000}
    tool = make(parameters={"type": "object", "properties": {"a": node}})
    with pytest.raises(InvalidArgumentsError) as caught:
        read_call(tool, "[]")
    assert len(str(caught.value)) < 2000


def test_a_function_and_a_tool_are_both_taken_as_a_tool() -> None:
    def look(path: str) -> str:
        """Look at a file."""
        return path

    tool = make()
    assert as_tool(tool) is tool
    assert as_tool(look).digest == tool_from(look).digest
    assert (tool_from(look).name, tool_from(look).blocking) == ("look", True)


@pytest.mark.case("R-062", "R-065")
def test_a_key_is_made_of_session_turn_step_and_place() -> None:
    keys = {
        call_key(session, turn, step, place)
        for session in ("s1", "s2")
        for turn in (1, 11)
        for step in (1, 11)
        for place in (1, 11)
    }
    assert len(keys) == 16
    assert call_key("s1", 1, 2, 3) == call_key("s1", 1, 2, 3)
