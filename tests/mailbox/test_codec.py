"""Every event is written as one canonical text and read back, or refused by name."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.lifecycle.bookkeeper import header, sample_events
from ramet.mailbox.codec import KINDS, VERSION, content_digest, decode, encode
from ramet.mailbox.errors import CorruptLogError, UnsupportedLogError, UsageError
from ramet.mailbox.events import (
    Accepted,
    Created,
    Event,
    LimitsRecord,
    SpecRecord,
    StepEnded,
    Told,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.message import Call, Usage

WORDS = (
    "created activated accepted turn_opened step_ended request_failed call_ended"
    " submitted interrupted promoted turn_ended discarded concluded ended told"
    " journaled compacted"
)

TEXTS = st.text(st.characters(exclude_categories=()))

SAMPLES = sample_events()


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Every value of a type that an event may have."""
    scalars: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS,
        int: st.integers(),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    if hint in scalars:
        return scalars[hint]
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(arguments)
    if get_origin(hint) is types.UnionType:
        return st.one_of(*map(values, arguments))
    if get_origin(hint) is tuple:
        return st.lists(values(arguments[0]), max_size=4).map(tuple)
    return records(hint)


def records(cls: Any) -> st.SearchStrategy[Any]:
    """Records of a class, each field present or at its default."""
    hints = typing.get_type_hints(cls)
    required = {
        field.name: values(hints[field.name])
        for field in attrs.fields(cls)
        if field.default is attrs.NOTHING
    }
    optional = {
        name: values(hint) for name, hint in hints.items() if name not in required
    }
    return st.fixed_dictionaries(required, optional=optional).map(
        lambda fields: cls(**fields)
    )


@pytest.mark.parametrize("cls", get_args(Event), ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_every_event_of_every_kind_comes_back(cls: type, data: st.DataObject) -> None:
    event = data.draw(records(cls))
    text = encode(event)
    assert text.isascii()
    assert decode(text) == event
    found = json.loads(text)
    assert text == json.dumps(found, sort_keys=True, separators=(",", ":"))
    assert found["v"] == VERSION


def test_every_member_of_the_union_has_its_word_and_its_sample() -> None:
    assert list(KINDS) == WORDS.split()
    assert tuple(KINDS.values()) == get_args(Event)
    assert tuple(map(type, SAMPLES)) == get_args(Event)


def test_no_field_has_the_name_of_the_kind_or_of_the_version() -> None:
    for cls in get_args(Event):
        assert not {"event", "v"} & {field.name for field in attrs.fields(cls)}


def test_the_text_is_what_stored_logs_hold() -> None:
    assert encode(Told(5)) == '{"at":5,"event":"told","v":1}'
    assert encode(TurnEnded("failed", None, 5)) == (
        '{"at":5,"cause":null,"event":"turn_ended","status":"failed","v":1}'
    )
    created = Created(
        "s", None, 0, "headless", SpecRecord("n", limits=LimitsRecord(call_s=30)), 1
    )
    assert encode(created) == (
        '{"at":1,"depth":0,"event":"created","kind":"headless","parent":null,'
        '"session":"s","spec":{"limits":{"call_s":30.0},"name":"n"},"v":1}'
    )
    step = StepEnded(
        "\ud83c\udf31 \ud800\x00", (Call("t", "{}"),), "end_turn", 2, Usage(1)
    )
    assert encode(step) == (
        '{"at":2,"calls":[{"arguments":"{}","name":"t"}],"event":"step_ended",'
        '"stop":"end_turn","text":["\\ud83c","\\udf31 \\ud800\\u0000"],'
        '"usage":{"requests":1},"v":1}'
    )


def test_two_surrogates_stay_two_and_one_character_stays_one() -> None:
    for text in ("\ud83c\udf31", "\U0001f331", "\ud83c\ud83c\udf31\udf31\U0001f331"):
        event = Accepted("m", "report", "s", (text,), "quiet", 1)
        assert decode(encode(event)) == event


def test_events_that_are_equal_have_equal_texts() -> None:
    one = Created("s", None, 0, "headless", SpecRecord("n"), 1)
    two = Created(
        "s", None, 0, "headless", SpecRecord("n", limits=LimitsRecord()), 1, None, False
    )
    assert encode(one) == encode(two)


# --- What cannot be written ---


@pytest.mark.parametrize(
    "event",
    [
        None,
        "told",
        Usage(),
        Told("now"),  # type: ignore[arg-type]
        Told(1.5),  # type: ignore[arg-type]
        TurnOpened(1, ["m"], 2),  # type: ignore[arg-type]
        TurnOpened(1, "m", 2),  # type: ignore[arg-type]
        TurnOpened(1, (1,), 2),  # type: ignore[arg-type]
        TurnEnded("done", None, 1),  # type: ignore[arg-type]
        attrs.evolve(header("s"), spec=Usage()),  # type: ignore[arg-type]
        attrs.evolve(header("s"), background=2),  # type: ignore[arg-type]
        Created(
            "s",
            None,
            0,
            "oneshot",
            SpecRecord("n", limits=LimitsRecord(call_s=float("inf"))),
            1,
        ),
        Created(
            "s",
            None,
            0,
            "oneshot",
            SpecRecord("n", limits=LimitsRecord(call_s=10**400)),
            1,
        ),
    ],
)
def test_what_no_log_may_hold_is_not_written(event: Any) -> None:
    with pytest.raises(UsageError):
        encode(event)


# --- What cannot be read ---

WRONG: dict[str, Any] = {
    "text": "no such word",
    "integer": 7,
    "number": 1.5,
    "truth": True,
    "null": None,
    "array": [[1]],
    "object": {"a": 1},
}

FITTING: dict[Any, set[str]] = {
    str: {"text"},
    int: {"integer"},
    bool: {"truth"},
    float: {"number", "integer"},
    type(None): {"null"},
}


def fitting(hint: Any) -> set[str]:
    """Which of the values above a type allows."""
    if get_origin(hint) is types.UnionType:
        return set().union(*map(fitting, get_args(hint)))
    return FITTING.get(hint, set())


def places(hint: Any, found: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a JSON text, and the type that it must have."""
    if way:
        yield way, hint
    if get_origin(hint) is types.UnionType:
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if isinstance(found, dict):
        hints = typing.get_type_hints(hint)
        for name in found.keys() & hints.keys():
            yield from places(hints[name], found[name], (*way, name))
    elif isinstance(found, list) and get_origin(hint) is tuple:
        for number, value in enumerate(found):
            yield from places(get_args(hint)[0], value, (*way, number))


def changed(text: str, way: tuple[Any, ...], value: Any) -> str:
    found = json.loads(text)
    inner = found
    for name in way[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[way[-1]]
    else:
        inner[way[-1]] = value
    return json.dumps(found)


PLACES = [
    pytest.param(text, way, hint, id=f"{kind}.{'.'.join(map(str, way))}")
    for kind, text in zip(KINDS, map(encode, SAMPLES), strict=True)
    for way, hint in places(KINDS[kind], json.loads(text), ())
]

FIELDS = [case for case in PLACES if isinstance(case.values[1][-1], str)]  # type: ignore[index]


@pytest.mark.parametrize(("text", "way", "hint"), PLACES)
def test_a_value_of_a_wrong_type_is_refused_and_its_field_named(
    text: str, way: tuple[Any, ...], hint: Any
) -> None:
    field = next(name for name in reversed(way) if isinstance(name, str))
    for name, value in WRONG.items():
        if name not in fitting(hint):
            with pytest.raises(CorruptLogError, match=field):
                decode(changed(text, way, value))


@pytest.mark.parametrize(("text", "way", "hint"), FIELDS)
def test_a_missing_field_is_refused_by_name_or_has_its_default(
    text: str, way: tuple[Any, ...], hint: Any
) -> None:
    shorter = changed(text, way, ...)
    try:
        event = decode(shorter)
    except CorruptLogError as error:
        assert f"lacks {way[-1]}" in str(error)  # noqa: PT017
    else:
        assert json.loads(encode(event)) == json.loads(shorter)


@pytest.mark.parametrize(("text", "way", "hint"), FIELDS)
def test_an_unknown_field_is_refused_wherever_it_is(
    text: str, way: tuple[Any, ...], hint: Any
) -> None:
    with pytest.raises(CorruptLogError, match="unknown field 'colour'"):
        decode(changed(text, (*way[:-1], "colour"), None))


@pytest.mark.parametrize("text", [encode(event) for event in SAMPLES], ids=list(KINDS))
def test_a_text_that_was_cut_anywhere_is_refused(text: str) -> None:
    for end in range(len(text)):
        with pytest.raises(CorruptLogError):
            decode(text[:end])
    with pytest.raises(CorruptLogError):
        decode(text + text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must be an object"),
        ("null", "must be an object"),
        ('{"at":5,"event":"told"}', "version"),
        ('{"at":5,"event":"told","v":"1"}', "version"),
        ('{"at":5,"event":"told","v":true}', "version"),
        ('{"at":5,"v":1}', "kind"),
        ('{"at":5,"event":["told"],"v":1}', "kind"),
        ('{"at":5,"at":5,"event":"told","v":1}', "twice"),
        ('{"at":NaN,"event":"told","v":1}', "NaN"),
        ('{"at":-Infinity,"event":"told","v":1}', "Infinity"),
        ("[" * 100_000, "not JSON"),
        (f'{{"at":{"9" * 5000},"event":"told","v":1}}', "not JSON"),
        (b"{}", "not JSON"),
        (None, "not JSON"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(text: Any, words: str) -> None:
    with pytest.raises(CorruptLogError, match=words):
        decode(text)


@pytest.mark.parametrize(
    "pieces", [[], ["a"], ["a", "b"], ["\ud83c", ""], ["\ud83c\udf31", "a"], [1, "a"]]
)
def test_only_the_one_cutting_of_a_text_is_read(pieces: list[Any]) -> None:
    text = encode(StepEnded("a", (), "end_turn", 1))
    with pytest.raises(CorruptLogError, match="text"):
        decode(changed(text, ("text",), pieces))


def test_a_newer_version_and_an_unknown_kind_are_told_apart_from_damage() -> None:
    with pytest.raises(UnsupportedLogError, match="version 2"):
        decode('{"at":5,"event":"something","more":1,"v":2}')
    with pytest.raises(UnsupportedLogError, match="'something'"):
        decode('{"at":5,"event":"something","v":1}')


@given(TEXTS)
def test_any_text_is_an_event_or_refused(text: str) -> None:
    with pytest.raises(CorruptLogError):
        decode(text)


# --- Digests ---

PARTS = st.tuples(TEXTS, st.lists(TEXTS, max_size=3).map(tuple), TEXTS)


@given(PARTS, PARTS)
def test_two_contents_have_one_digest_only_if_they_are_equal(
    one: tuple[str, tuple[str, ...], str], two: tuple[str, tuple[str, ...], str]
) -> None:
    assert (content_digest(*one) == content_digest(*two)) is (one == two)


def test_text_that_moves_between_parts_changes_the_digest() -> None:
    digests = {
        content_digest("report", ("ab", "c")),
        content_digest("report", ("a", "bc")),
        content_digest("report", ("abc",)),
        content_digest("report", ("abc", "")),
        content_digest("report", ("ab",), "c"),
        content_digest("repor", ("tab", "c")),
        content_digest("report", ("ab, 1]c",)),
        content_digest("report", ("\ud83c\udf31",)),
        content_digest("report", ("\U0001f331",)),
    }
    assert len(digests) == 9
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize("number", ["9007199254740993", '"1"', "true", "1e999"])
def test_a_number_that_no_double_holds_is_corrupt(number: str) -> None:
    limits = LimitsRecord(call_s=1.5)
    spec = SpecRecord("w", limits=limits)
    text = encode(Created("s", None, 0, "continuable", spec, 1))
    assert "1.5" in text
    with pytest.raises(CorruptLogError):
        decode(text.replace("1.5", number))


def test_a_whole_number_is_read_where_a_number_stands() -> None:
    spec = SpecRecord("w", limits=LimitsRecord(call_s=1.5))
    text = encode(Created("s", None, 0, "continuable", spec, 1))
    read = decode(text.replace("1.5", "2"))
    assert isinstance(read, Created)
    assert repr(read.spec.limits.call_s) == "2.0"
