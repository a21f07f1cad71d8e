"""The strict reading of what a model wrote as the arguments of a call.

Lives here: raw text to JSON data, once, without any repair (A-105).  What the data
must look like is for schemas and tools to say.  The time and the memory that it takes
grow with the length of the text and not faster, whatever the text is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

from ..mailbox.canonical import (
    MAX_DEPTH,
    canonical_json,
    fits_double,
)
from ..mailbox.errors import InvalidArgumentsError, UsageError

__all__ = ["parse_arguments"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_DOUBLE = 309
"""The digits of the largest finite double; a longer whole number never fits."""


def parse_arguments(raw: str) -> Any:
    """Read a JSON text from a model strictly, as any JSON value.

    Refused are text around the value, a byte-order mark, fences, comments, a repeated
    key at any depth, control characters in a string, `NaN` and `Infinity`, a number
    that does not fit a finite double, and nesting deeper than `MAX_DEPTH`.

    Raises:
        InvalidArgumentsError: the text is refused; the message says why and where.
        UsageError: `raw` is not a `str`.
    """
    if type(raw) is not str:
        raise UsageError(f"arguments are text, not {type(raw).__name__}")
    try:
        value = _DECODER.decode(raw)
    except json.JSONDecodeError as error:
        raise InvalidArgumentsError(_described(error)) from None
    except RecursionError:
        raise InvalidArgumentsError(_TOO_DEEP) from None
    if raw.count("[") + raw.count("{") > MAX_DEPTH and type(value) in (dict, list):
        _check_depth(value)
    if not raw.isascii() and _SURROGATE.search(raw) is not None:
        return _joined(value)
    return value


_TOO_DEEP = f"the text is not usable JSON: it is nested deeper than {MAX_DEPTH} levels"


def _described(error: json.JSONDecodeError) -> str:
    if not error.doc.strip(" \t\n\r"):
        return "the text is not JSON: it is empty"
    place = f"line {error.lineno}, column {error.colno}"
    return f"the text is not JSON: {error.msg} ({place})"


def _check_depth(value: Any) -> None:
    """Refuse what is too deep, level by level: the reader's own limit may vary."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            members: Iterable[Any] = item.values() if type(item) is dict else item
            deeper.extend(
                [it for it in members if type(it) is dict or type(it) is list]
            )
        if not deeper:
            return
        level = deeper
    raise InvalidArgumentsError(_TOO_DEEP)


def _joined(value: Any) -> Any:
    """Read the value again from its canonical text, which joins split characters."""
    try:
        return json.loads(canonical_json(value))
    except UsageError as error:
        raise InvalidArgumentsError(f"the text is not usable JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidArgumentsError(
            f"the text is not usable JSON: the key {key[:100]!r} is repeated"
        )
    return members


def _whole(text: str) -> int:
    if len(text) > _LONGEST_DOUBLE + 1:
        _refuse_number(text)
    number = int(text)
    if not fits_double(number):
        _refuse_number(text)
    return number


def _fraction(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        _refuse_number(text)
    return number


def _refuse_number(text: str) -> NoReturn:
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    raise InvalidArgumentsError(
        f"the text is not usable JSON: {shown} is too large for a finite double"
    )


def _constant(name: str) -> NoReturn:
    raise InvalidArgumentsError(f"the text is not JSON: {name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_whole,
    parse_float=_fraction,
    parse_constant=_constant,
    strict=True,
)
