"""Tests of classes as schemas."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal, Optional

import attrs
import msgspec
import pytest

from ramet.actors.contract import Returns
from ramet.actors.errors import UnsupportedSchemaError
from ramet.actors.returns import class_schema, make_instance
from ramet.mailbox.canonical import canonical_json


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Inner:
    number: int
    share: float = 0.5


@attrs.frozen
class Whole:
    name: str
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")]
    inners: list[Inner]
    flag: bool
    nothing: None
    tags: tuple[str, ...] = ()
    color: Color = Color.RED
    level: Level = Level.LOW
    word: Literal["a", "b"] = "a"
    maybe: Inner | None = None
    perhaps: Annotated[Optional[str], msgspec.Meta(max_length=3)] = None  # noqa: UP045
    free: dict[str, Any] = attrs.field(factory=dict)
    rest: list[Any] = attrs.field(factory=list)
    made: int = attrs.field(init=False, default=7)
    _private: int = attrs.field(default=3, alias="private")


@attrs.frozen
class Node:
    children: list[Node]


WHOLE = {
    "name": "n",
    "count": 2,
    "inners": [{"number": 1, "share": 2}],
    "flag": True,
    "nothing": None,
    "tags": ["t"],
    "color": "blue",
    "level": 2,
    "word": "b",
    "maybe": {"number": 3},
    "perhaps": "abc",
    "free": {"k": [1]},
    "rest": [{}],
    "private": 4,
}


@pytest.mark.case("A-083")
def test_a_class_makes_a_closed_schema_of_what_its_constructor_takes() -> None:
    schema = class_schema(Whole)
    inner = {
        "type": "object",
        "properties": {"number": {"type": "integer"}, "share": {"type": "number"}},
        "required": ["number"],
        "additionalProperties": False,
    }
    assert schema["properties"] == {
        "name": {"type": "string"},
        "count": {
            "type": "integer",
            "description": "how many",
            "minimum": 1,
            "maximum": 9,
        },
        "inners": {"type": "array", "items": inner},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "level": {"type": "integer", "enum": [1, 2]},
        "word": {"type": "string", "enum": ["a", "b"]},
        "maybe": inner,
        "perhaps": {"type": "string", "maxLength": 3},
        "free": {"type": "object"},
        "rest": {"type": "array"},
        "private": {"type": "integer"},
    }
    assert schema["required"] == ["name", "count", "inners", "flag", "nothing"]
    assert schema["additionalProperties"] is False


@pytest.mark.case("A-083")
def test_an_instance_is_made_of_the_accepted_value() -> None:
    contract = Returns(Whole)
    verdict = contract.judge_value(WHOLE)
    assert verdict.errors == ()
    made = contract.value(verdict.canonical)
    assert made == Whole(
        name="n",
        count=2,
        inners=[Inner(1, 2.0)],
        flag=True,
        nothing=None,
        tags=("t",),
        color=Color.BLUE,
        level=Level.HIGH,
        word="b",
        maybe=Inner(3),
        perhaps="abc",
        free={"k": [1]},
        rest=[{}],
        private=4,
    )
    assert type(made.inners[0].share) is float
    with pytest.raises(TypeError, match="immutable"):
        made.inners.append(Inner(1))
    with pytest.raises(TypeError, match="immutable"):
        made.free["k"].append(1)


def test_what_is_absent_takes_the_defaults_of_the_class() -> None:
    required = {key: WHOLE[key] for key in ("name", "count", "flag", "nothing")}
    made = make_instance(Whole, {**required, "inners": []})
    assert (made.maybe, made.color, made.made) == (None, Color.RED, 7)


def test_an_optional_field_may_be_left_out_and_not_be_null() -> None:
    contract = Returns(Whole)
    assert contract.judge_value({**WHOLE, "perhaps": None}).valid is False
    left_out = {key: it for key, it in WHOLE.items() if key != "perhaps"}
    assert contract.judge_value(left_out).valid


@pytest.mark.case("A-083")
@pytest.mark.parametrize(
    ("hint", "path"),
    [
        (int | str, ""),
        (int | None, ""),
        (set[int], ""),
        (bytes, ""),
        (Any, ""),
        (object, ""),
        (dict[str, int], ""),
        (dict[int, Any], ""),
        (tuple[int, str], ""),
        (list[complex], ".items"),
        (Literal["a", 1], ""),
        (Literal[None], ""),
        (enum.Enum("Mixed", {"A": 1, "B": "b"}), ""),
        (Annotated[str, msgspec.Meta(pattern="x")], ""),
        (Annotated[int, msgspec.Meta(gt=1)], ""),
        (Annotated[bool, msgspec.Meta(ge=1)], ""),
        ("Unknown", None),
    ],
    ids=str,
)
def test_a_hint_that_the_dialect_cannot_say_is_refused_with_its_path(
    hint: Any, path: str | None
) -> None:
    declared = attrs.make_class("Declared", {"field": attrs.field(type=hint)})
    with pytest.raises(UnsupportedSchemaError) as caught:
        Returns(declared)
    at = "$" if path is None else f'$.properties["field"]{path}'
    assert caught.value.path == at
    assert str(caught.value.__cause__)


def test_a_class_within_itself_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        Returns(Node)
    assert caught.value.path == '$.properties["children"].items'


def test_something_else_than_an_attrs_class_is_refused() -> None:
    for declared in (int, dict, Inner(1), "Inner", None):
        with pytest.raises(UnsupportedSchemaError, match=r"at \$$"):
            class_schema(declared)  # type: ignore[arg-type]


def test_the_schema_of_a_class_is_plain_data() -> None:
    canonical_json(class_schema(Whole))


@attrs.frozen
class Noted:
    word: Annotated[str, "a note that is no bound"]


def test_a_note_that_is_no_bound_changes_nothing() -> None:
    assert class_schema(Noted)["properties"] == {"word": {"type": "string"}}


@attrs.frozen
class Either:
    value: int | str | None = None


def test_a_choice_of_several_types_is_no_value_of_the_dialect() -> None:
    with pytest.raises(UnsupportedSchemaError):
        Returns(Either)


@attrs.frozen
class Loose:
    count: int = None  # type: ignore[assignment]


def test_a_default_of_none_adds_nothing_to_a_type_without_it() -> None:
    assert class_schema(Loose)["properties"] == {"count": {"type": "integer"}}
