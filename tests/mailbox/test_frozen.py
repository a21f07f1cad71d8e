"""Tests of the immutable objects and arrays that code is handed."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ramet.mailbox.canonical import canonical_json, freeze
from ramet.mailbox.frozen import FrozenDict, FrozenList

PLAIN = {"a": [1, {"b": None}], "c": "text"}

WRITES_TO_OBJECTS: list[Callable[[Any], object]] = [
    lambda it: it.__setitem__("a", 1),
    lambda it: it.__delitem__("a"),
    lambda it: it.__ior__({"a": 1}),
    lambda it: it.clear(),
    lambda it: it.pop("a"),
    lambda it: it.popitem(),
    lambda it: it.setdefault("z", 1),
    lambda it: it.update(a=1),
]

WRITES_TO_ARRAYS: list[Callable[[Any], object]] = [
    lambda it: it.__setitem__(0, 1),
    lambda it: it.__delitem__(0),
    lambda it: it.__iadd__([1]),
    lambda it: it.__imul__(2),
    lambda it: it.append(1),
    lambda it: it.clear(),
    lambda it: it.extend([1]),
    lambda it: it.insert(0, 1),
    lambda it: it.pop(),
    lambda it: it.remove(1),
    lambda it: it.reverse(),
    lambda it: it.sort(),
]


@pytest.mark.case("A-024")
def test_a_frozen_value_equals_the_plain_one_and_works_with_json_and_match() -> None:
    frozen = freeze(PLAIN)
    assert frozen == PLAIN
    assert json.loads(json.dumps(frozen)) == PLAIN
    match frozen:
        case {"a": [1, {"b": None}], "c": str(text)}:
            assert text == "text"
        case _:
            pytest.fail("it did not match")


@pytest.mark.case("A-024")
@pytest.mark.parametrize("write", WRITES_TO_OBJECTS)
def test_a_frozen_object_refuses_every_write(write: Callable[[Any], object]) -> None:
    frozen = freeze(PLAIN)
    with pytest.raises(TypeError, match="immutable"):
        write(frozen)
    assert frozen == PLAIN


@pytest.mark.case("A-024")
@pytest.mark.parametrize("write", WRITES_TO_ARRAYS)
def test_a_frozen_array_refuses_every_write(write: Callable[[Any], object]) -> None:
    frozen = freeze([1, 2])
    with pytest.raises(TypeError, match="immutable"):
        write(frozen)
    assert frozen == [1, 2]


def test_no_public_method_that_changes_a_plain_value_is_left_open() -> None:
    reading = {"copy", "count", "fromkeys", "get", "index", "items", "keys", "values"}
    for frozen, plain in ((FrozenDict, dict), (FrozenList, list)):
        for name in vars(plain):
            if not name.startswith("_") and name not in reading:
                assert name in vars(frozen), name


def test_a_second_initialisation_writes_nothing() -> None:
    frozen_object, frozen_array = freeze({"a": 1}), freeze([1])
    frozen_object.__init__({"b": 2})
    frozen_array.__init__([2])
    assert (frozen_object, frozen_array) == ({"a": 1}, [1])


def test_copies_of_a_frozen_value_are_frozen_and_the_copy_method_thaws_it() -> None:
    frozen = freeze(PLAIN)
    assert copy.deepcopy(frozen) is frozen
    assert copy.copy(frozen["a"]) is frozen["a"]
    restored = pickle.loads(pickle.dumps(frozen))
    assert restored == frozen
    assert type(restored["a"]) is FrozenList
    assert type(restored["a"][1]) is FrozenDict
    thawed = frozen.copy()
    thawed["c"] = 1
    assert (type(frozen["a"].copy()), frozen["c"]) == (list, "text")


@pytest.mark.case("A-024")
def test_a_frozen_value_can_be_passed_on_as_input_or_result() -> None:
    frozen = freeze(PLAIN)
    assert canonical_json({"again": [frozen]}) == canonical_json({"again": [PLAIN]})
    assert freeze(frozen) is frozen


@pytest.mark.case("A-024")
def test_freezing_copies_so_that_a_later_change_is_not_seen() -> None:
    source = {"a": [1]}
    frozen = freeze(source)
    source["a"].append(2)
    assert frozen == {"a": [1]}


def test_a_shallow_copy_by_the_module_is_the_value_itself() -> None:
    for value in (FrozenDict({"a": 1}), FrozenList([1])):
        assert copy.copy(value) is value
        assert copy.deepcopy(value) is value
