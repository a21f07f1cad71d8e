"""Schemas of the dialect as contracts: what a schema means for a value.

Lives here: the checker, made once for each schema, and the contract around it.  Which
schemas there are is in `dialect.py`.  A value is checked and never changed: nothing is
coerced, defaulted, trimmed or repaired.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from ..mailbox.canonical import (
    canonical_json,
    data_fault,
    digest_text,
    fits_double,
    freeze,
    number_text,
    read_frozen,
    value_path,
)
from ..mailbox.frozen import FrozenDict, FrozenList
from .dialect import DIALECT, check_declaration, keeps_meaning_when_strict
from .errors import UnsupportedSchemaError
from .graphemes import REGEX_VERSION, count_clusters
from .verdict import Contract

__all__ = ["LINES", "LINE_LENGTH", "Schema"]

LINES = 20
LINE_LENGTH = 500

_Path: TypeAlias = "tuple[_Path, str | int] | None"
_Errors: TypeAlias = list[str]
_Check: TypeAlias = Callable[[Any, _Path, _Errors], None]


class Schema(Contract[Any]):
    """A JSON schema of the dialect `ramet-json-subset-1`, and the contract to meet it.

    Args:
        node: the schema, as plain JSON data.  It is copied.

    Raises:
        UnsupportedSchemaError: it is outside the dialect; the text names the path.

    >>> Schema({"type": "integer", "minimum": 1}).check(0)
    ('$: must be at least 1, not 0',)
    """

    __slots__ = ("_check", "digest_of_node", "node")

    kind = "schema"
    fallback: str | None = None
    dialect: str = DIALECT

    node: dict[str, Any]
    """The schema as it was declared, immutable."""

    digest_of_node: str
    """The digest of the schema's canonical text."""

    def __init__(self, node: Any) -> None:
        text = check_declaration(node)
        self.node = freeze(node)
        self.digest_of_node = digest_text(text)
        try:
            self._check = _compiled(self.node, 0)
        except RecursionError:
            raise UnsupportedSchemaError("$") from None

    @property
    def digest(self) -> str:
        """The digest of the schema's canonical text (A-129)."""
        return self.digest_of_node

    @property
    def strict_preferred(self) -> bool:
        """Whether strict decoding would change no meaning (A-111)."""
        return keeps_meaning_when_strict(self.node)

    @property
    def value_schema(self) -> dict[str, Any]:
        """The schema as it was declared."""
        return self.node

    def check(self, value: Any) -> tuple[str, ...]:
        """Judge a value: empty when it conforms, else lines of `path: message`.

        There are at most 20 lines of at most 500 characters (A-109).
        """
        errors: _Errors = []
        try:
            self._check(value, None, errors)
        except _EnoughError:
            pass
        except RecursionError:
            errors[:] = ["$: is nested too deeply to be checked here"]
        return tuple(errors)

    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Judge a value of JSON data, as `check` does."""
        return self.check(value)

    def shown(self) -> tuple[str, ...]:
        """Give the lines that show a model what to return (A-009)."""
        schema = json.dumps(self.node, ensure_ascii=False)
        return ('{"value": VALUE}, where VALUE meets this JSON schema:', schema)

    def record(self) -> dict[str, Any]:
        """Give the contract as plain data: dialect, schema, digest and what counted."""
        return {
            "kind": "schema",
            "version": 1,
            "dialect": DIALECT,
            "schema": self.node,
            "digest": self.digest,
            "regex": REGEX_VERSION,
        }

    def value(self, canonical: str | None) -> Any:
        """Give the accepted value: what its canonical text reads as, immutable."""
        return None if canonical is None else read_frozen(canonical)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self.node)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.node,)


class _EnoughError(Exception):
    """Stops a check that has found as many faults as are told."""


def _add(errors: _Errors, path: _Path, message: str) -> None:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    place = value_path(reversed(steps))
    if len(place) > LINE_LENGTH // 2:
        place = f"{place[:120]}...{place[-120:]}"
    line = f"{place}: {message}"
    errors.append(line if len(line) <= LINE_LENGTH else f"{line[: LINE_LENGTH - 3]}...")
    if len(errors) >= LINES:
        raise _EnoughError


def _described(value: Any) -> str:
    """Name a value in a few words: what it is, or a short spelling of it."""
    kind = type(value)
    if value is None or kind is bool:
        return canonical_json(value)
    if kind is str:
        short = value if len(value) <= 60 else f"{value[:57]}..."
        return f"the string {canonical_json(short)}"
    if (kind is int and fits_double(value)) or (kind is float and math.isfinite(value)):
        return number_text(value)
    if kind is int or kind is float:
        return "a number that no finite double holds"
    if kind is dict or kind is FrozenDict:
        return "an object"
    if kind is list or kind is FrozenList:
        return "an array"
    return f"a Python {kind.__name__}, which is not JSON data"


def _compiled(node: dict[str, Any], depth: int) -> _Check:
    return _COMPILERS[node["type"]](node, depth)


def _members(node: dict[str, Any]) -> tuple[frozenset[str], str] | None:
    """Give the canonical texts of an enum, and the words for what is none of them."""
    if "enum" not in node:
        return None
    texts = [canonical_json(member) for member in node["enum"]]
    return frozenset(texts), f"must be one of {', '.join(texts)}"


def _compile_scalar(node: dict[str, Any], depth: int) -> _Check:
    wanted, name = (
        (bool, "true or false") if node["type"] == "boolean" else (None, "null")
    )
    members = _members(node)

    def check(value: Any, path: _Path, errors: _Errors) -> None:
        if type(value) is not wanted if wanted else value is not None:
            _add(errors, path, f"must be {name}, not {_described(value)}")
        elif members is not None and canonical_json(value) not in members[0]:
            _add(errors, path, f"{members[1]}, not {_described(value)}")

    return check


def _compile_string(node: dict[str, Any], depth: int) -> _Check:
    low = int(node.get("minLength", 0))
    high = int(node.get("maxLength", sys.maxsize))
    members = _members(node)
    texts = frozenset(it for it in node.get("enum", ()) if type(it) is str)

    def check(value: Any, path: _Path, errors: _Errors) -> None:
        if type(value) is not str:
            _add(errors, path, f"must be a string, not {_described(value)}")
            return
        if low and (len(value) < low or count_clusters(value, low) < low):
            _add(errors, path, f"must have at least {low} characters")
        if high < len(value) and high < count_clusters(value, high + 1):
            _add(errors, path, f"must have at most {high} characters")
        if members is None or value in texts:
            return
        if canonical_json(value) not in members[0]:
            _add(errors, path, f"{members[1]}, not {_described(value)}")

    return check


def _compile_number(node: dict[str, Any], depth: int) -> _Check:
    whole = node["type"] == "integer"
    low, high = node.get("minimum"), node.get("maximum")
    name = "an integer" if whole else "a number"
    members = _members(node)

    def check(value: Any, path: _Path, errors: _Errors) -> None:
        kind = type(value)
        if kind is int:
            fits = fits_double(value)
        else:
            fits = kind is float and math.isfinite(value)
            fits = fits and (not whole or value.is_integer())
        if not fits:
            _add(errors, path, f"must be {name}, not {_described(value)}")
            return
        if low is not None and value < low:
            _add(errors, path, _bound("least", low, value))
        if high is not None and value > high:
            _add(errors, path, _bound("most", high, value))
        if members is not None and number_text(value) not in members[0]:
            _add(errors, path, f"{members[1]}, not {_described(value)}")

    return check


def _bound(word: str, bound: int | float, value: int | float) -> str:
    return f"must be at {word} {number_text(bound)}, not {number_text(value)}"


def _compile_array(node: dict[str, Any], depth: int) -> _Check:
    item_check = _compiled(node["items"], depth + 1) if "items" in node else None
    low, high = int(node.get("minItems", 0)), node.get("maxItems")
    members = _members(node)

    def check(value: Any, path: _Path, errors: _Errors) -> None:
        kind = type(value)
        if kind is not list and kind is not FrozenList:
            _add(errors, path, f"must be an array, not {_described(value)}")
            return
        if members is not None:
            _add(errors, path, members[1])
        if len(value) < low:
            _add(errors, path, f"must have at least {low} items, not {len(value)}")
        if high is not None and len(value) > high:
            _add(errors, path, f"must have at most {int(high)} items, not {len(value)}")
        if item_check is None:
            _check_data(value, depth, path, errors)
            return
        for index, item in enumerate(value):
            item_check(item, (path, index), errors)

    return check


def _compile_object(node: dict[str, Any], depth: int) -> _Check:
    checks: dict[str, _Check] = {}
    for name, child in node.get("properties", {}).items():
        checks[name] = _compiled(child, depth + 1)
    required = tuple(node.get("required", ()))
    is_open = node.get("additionalProperties", True)
    members = _members(node)

    def check(value: Any, path: _Path, errors: _Errors) -> None:
        kind = type(value)
        if kind is not dict and kind is not FrozenDict:
            _add(errors, path, f"must be an object, not {_described(value)}")
            return
        if members is not None:
            _add(errors, path, members[1])
        for name in required:
            if name not in value:
                _add(errors, (path, name), "required member is missing")
        for key, item in value.items():
            if type(key) is not str:
                _add(errors, path, f"has a key that is not a string: {_described(key)}")
                continue
            member_check = checks.get(key)
            if member_check is not None:
                member_check(item, (path, key), errors)
            elif not is_open:
                _add(errors, (path, key), "is not allowed")
            elif type(item) is not str:
                _check_data(item, depth + 1, (path, key), errors)

    return check


def _check_data(value: Any, depth: int, path: _Path, errors: _Errors) -> None:
    fault = data_fault(value, depth)
    if fault is not None:
        for step in fault[0]:
            path = (path, step)
        _add(errors, path, fault[1])


_COMPILERS: dict[str, Callable[[dict[str, Any], int], _Check]] = {
    "null": _compile_scalar,
    "boolean": _compile_scalar,
    "string": _compile_string,
    "number": _compile_number,
    "integer": _compile_number,
    "array": _compile_array,
    "object": _compile_object,
}
