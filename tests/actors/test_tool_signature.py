"""Tests of what a function's hints and docstring say of its tool."""

from __future__ import annotations

import enum
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest

from ramet.actors.errors import DeclarationError
from ramet.actors.tool import ToolCall
from ramet.actors.tool_signature import Signature, read_signature
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.errors import InvalidArgumentsError


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


@attrs.define
class Point:
    x: int
    y: int = 0


@attrs.define
class Tree:
    children: list[Tree] = attrs.field(factory=list)


def signature(function: Any) -> Signature:
    return read_signature(function, ToolCall)


def survey(
    path: str,
    lines: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5,
    *,
    word: Literal["a", "b"],
    mode: Mode = Mode.FAST,
    points: list[Point] | None = None,
    call: ToolCall,
) -> str:
    """Survey a file.

    It reads the beginning.

    Args:
        path: Where the file is.
        lines: How many lines to read.
    """
    return path


def test_the_name_and_the_descriptions_come_from_the_function() -> None:
    read = signature(survey)
    assert read.name == "survey"
    assert read.description == "Survey a file.\n\nIt reads the beginning."
    assert read.parameters["properties"]["path"] == {
        "type": "string",
        "description": "Where the file is.",
    }


def test_the_schema_is_closed_with_bounds_defaults_and_literals() -> None:
    parameters = signature(survey).parameters
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert sorted(parameters["required"]) == ["path", "word"]
    assert parameters["properties"]["lines"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
        "default": 5,
        "description": "How many lines to read.",
    }
    assert parameters["properties"]["word"] == {"enum": ["a", "b"]}
    assert parameters["properties"]["mode"]["enum"] == ["fast", "safe"]
    assert "$ref" not in canonical_json(parameters)


def test_a_parameter_for_the_call_is_injected_and_not_shown() -> None:
    read = signature(survey)
    assert read.injected == "call"
    assert "call" not in read.parameters["properties"]
    with pytest.raises(InvalidArgumentsError, match="call"):
        read.convert({"path": "p", "word": "a", "call": 1})


def test_arguments_become_the_objects_that_the_hints_name() -> None:
    given = {
        "path": "p",
        "word": "a",
        "lines": 3.0,
        "mode": "safe",
        "points": [{"x": 1}],
    }
    assert signature(survey).convert(given) == {
        "path": "p",
        "word": "a",
        "lines": 3,
        "mode": Mode.SAFE,
        "points": [Point(1)],
    }


def test_what_is_left_out_takes_the_functions_own_default() -> None:
    assert signature(survey).convert({"path": "p", "word": "b"}) == {
        "path": "p",
        "word": "b",
    }


@pytest.mark.case("R-208")
@pytest.mark.parametrize(
    "changes",
    [
        {"path": 1},
        {"path": None},
        {"lines": 11},
        {"lines": "5"},
        {"lines": True},
        {"lines": 1.5},
        {"word": "c"},
        {"mode": "slow"},
        {"points": [{"y": 1}]},
        {"more": 1},
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentsError):
        signature(survey).convert({"path": "p", "word": "a", **changes})


def test_a_class_that_holds_itself_keeps_its_reference() -> None:
    def plant(tree: Tree, point: Point) -> None: ...

    parameters = signature(plant).parameters
    assert list(parameters["$defs"]) == ["Tree"]
    assert "$ref" not in canonical_json(parameters["properties"]["point"])
    made = signature(plant).convert({"tree": {"children": [{}]}, "point": {"x": 1}})
    assert made["tree"] == Tree([Tree()])


def test_a_default_that_is_not_data_is_not_shown() -> None:
    def look(path: str, marker: Any = signature) -> None: ...

    assert "default" not in signature(look).parameters["properties"]["marker"]


def test_a_function_without_parameters_or_docstring_makes_a_tool() -> None:
    def look() -> None: ...

    read = signature(look)
    assert read.description == ""
    assert read.parameters["properties"] == {}
    assert read.convert({}) == {}


def test_a_bound_method_makes_a_tool() -> None:
    class Shelf:
        def take(self, book: str) -> str:
            """Take a book."""
            return book

    assert list(signature(Shelf().take).parameters["properties"]) == ["book"]


def no_hint(path, lines: int = 1):  # type: ignore[no-untyped-def]
    return path


def many(*paths: str) -> None: ...


def named(**paths: str) -> None: ...


def positional(path: str, /) -> None: ...


def custom(path: object) -> None: ...


def unknown(path: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def twice(one: ToolCall, two: ToolCall) -> None: ...


def generator(path: str) -> Iterator[str]:
    yield path


async def stream(path: str) -> AsyncIterator[str]:
    yield path


class Callable_:
    def __call__(self, path: str) -> None: ...


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (no_hint, "parameter path of no_hint has no type hint"),
        (many, r"many takes \*paths"),
        (named, r"named takes \*\*paths"),
        (positional, "parameter path of positional"),
        (custom, "parameter path of custom"),
        (unknown, "hints of unknown"),
        (twice, "twice takes more than one"),
        (generator, "generator is a generator"),
        (stream, "stream is a generator"),
        (lambda path: path, "lambda"),
        (print, "print"),
        (Callable_, "Callable_"),
        (Callable_(), "Callable_"),
        (functools.partial(survey, path="x"), "partial"),
        ("survey", "survey"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(declared: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        signature(declared)
    assert caught.value.code == "bad-option"
