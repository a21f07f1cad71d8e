"""Canonical text: the one spelling of a JSON value, by which values are compared.

Lives here: what counts as JSON data, its canonical text and indented text, the digest
of a text, and the immutable values that code is handed.  Identities are made of these
texts, so that nothing here may change without a new name for the dialect.  Nothing
here knows who wrote a value or which schema it should meet.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any, NoReturn

from .errors import UsageError
from .frozen import FrozenDict, FrozenList

__all__ = [
    "MAX_DEPTH",
    "canonical_json",
    "data_fault",
    "digest_text",
    "fits_double",
    "freeze",
    "indented_json",
    "join_surrogates",
    "number_text",
    "quoted",
    "read_canonical",
    "read_frozen",
    "value_path",
]

MAX_DEPTH = 256
"""How many containers may stand in each other; what is deeper is not JSON data.

The bound is fixed, so that a verdict never depends on how deep the caller's stack is.
"""

_SAFE = 1 << 1023
_SURROGATE = re.compile("[\ud800-\udfff]")
_quote = encode_basestring


class _NotDataError(Exception):
    """Carries why something is not JSON data; the path grows while it passes up."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str | int] = []

    def place(self) -> tuple[str | int, ...]:
        """Give the steps from the root; of what is too deep, the root itself."""
        return () if self.args == (_TOO_DEEP,) else tuple(reversed(self.path))


def canonical_json(value: object) -> str:
    """Write the canonical text of a value: two values are equal when their texts are.

    Raises:
        UsageError: it is not finite JSON data of exactly the types of the dialect
            (strings, finite numbers, plain lists and so on), holds itself, or is
            deeper than `MAX_DEPTH`; the text names the place.
    """
    return _text(value, indented=False)


def quoted(text: str) -> str:
    """Write the canonical text of a text."""
    return _escape_surrogates(_quote(text))


def indented_json(value: object) -> str:
    """Write a value for a reader: two spaces, canonical order and numbers (A-174).

    Raises:
        UsageError: as `canonical_json`.
    """
    return _text(value, indented=True)


def data_fault(
    value: object, depth: int = 0
) -> tuple[tuple[str | int, ...], str] | None:
    """Say where and why a value is not JSON data; `None` when it is.

    Args:
        value: anything at all.
        depth: how many containers it already stands in.
    """
    try:
        _walk(value, depth)
    except _NotDataError as fault:
        return fault.place(), str(fault)
    except RecursionError:
        return (), _TOO_DEEP
    return None


def digest_text(text: str) -> str:
    """Give the SHA-256 of a text's UTF-8 bytes, in lower-case hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_canonical(text: str) -> Any:
    """Read a canonical text back to plain data.

    Raises:
        UsageError: it is not the canonical text of any value.
    """
    try:
        value = _DECODER.decode(text)
        same = canonical_json(value) == text
    except (ValueError, UsageError, RecursionError) as error:
        raise UsageError(f"this is not a canonical JSON text: {error}") from error
    if not same:
        raise UsageError("this JSON text is not spelled canonically")
    return value


def read_frozen(text: str) -> Any:
    """Read a canonical text as an immutable value.

    Raises:
        UsageError: it is not the canonical text of any value.
    """
    return _frozen(read_canonical(text))


def freeze(value: Any) -> Any:
    """Give an immutable value that equals `value`; what is frozen already stays itself.

    Raises:
        UsageError: it is not JSON data.
    """
    fault = data_fault(value)
    if fault is not None:
        raise UsageError(f"{value_path(fault[0])}: {fault[1]}")
    return _frozen(value)


def value_path(steps: Iterable[str | int]) -> str:
    """Write the path of a place in a value: `$`, then `["key"]` or `[0]` by step."""
    path = ["$"]
    for step in steps:
        text = str(step) if isinstance(step, int) else _escape_surrogates(_quote(step))
        path.append(f"[{text}]")
    return "".join(path)


def fits_double(number: int) -> bool:
    """Say whether a whole number is within the range of a finite double."""
    if -_SAFE < number < _SAFE:
        return True
    try:
        float(number)
    except OverflowError:
        return False
    return True


def number_text(number: int | float) -> str:
    """Write a finite number canonically: shortest digits, no point when it has no use.

    The value must be an `int` that fits a double, or a finite `float`.
    """
    if type(number) is int:
        return int.__repr__(number)
    text = float.__repr__(float(number))
    if "e" not in text:
        if not text.endswith(".0"):
            return text
        return "0" if text == "-0.0" else text[:-2]
    return _plain(text)


def join_surrogates(text: str) -> str:
    """Join each pair of surrogates to the one character that it stands for."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw.decode("utf-16-le", "surrogatepass")


_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels, or holds itself"


def _plain(text: str) -> str:
    """Spell `repr` of a float as ECMAScript does: plain from 1e-6 to below 1e21.

    It has an exponent, so that no digit stands behind the point of a large number.
    """
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def _text(value: object, *, indented: bool) -> str:
    try:
        text = _write(value, 0, indented)
    except _NotDataError as fault:
        raise UsageError(f"{value_path(fault.place())}: {fault}") from None
    except RecursionError:
        raise UsageError(f"$: {_TOO_DEEP}") from None
    return _escape_surrogates(text)


def _escape_surrogates(text: str) -> str:
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(
        lambda match: f"\\u{ord(match[0]):04x}", join_surrogates(text)
    )


def _write(value: Any, depth: int, indented: bool) -> str:
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is dict or kind is FrozenDict:
        return _write_object(value, depth, indented)
    if kind is list or kind is FrozenList:
        return _write_array(value, depth, indented)
    return _scalar(value)


def _write_object(value: dict[str, Any], depth: int, indented: bool) -> str:
    if depth >= MAX_DEPTH:
        raise _NotDataError(_TOO_DEEP)
    if not value:
        return "{}"
    colon = ": " if indented else ":"
    pieces = []
    for key in _ordered(value):
        item = value[key]
        kind = type(item)
        try:
            if kind is str:
                text = _quote(item)
            elif kind is dict or kind is FrozenDict:
                text = _write_object(item, depth + 1, indented)
            elif kind is list or kind is FrozenList:
                text = _write_array(item, depth + 1, indented)
            else:
                text = _scalar(item)
        except _NotDataError as fault:
            fault.path.append(key)
            raise
        pieces.append(_quote(key) + colon + text)
    return _joined("{", pieces, "}", depth, indented)


def _write_array(value: list[Any], depth: int, indented: bool) -> str:
    if depth >= MAX_DEPTH:
        raise _NotDataError(_TOO_DEEP)
    if not value:
        return "[]"
    pieces: list[str] = []
    for item in value:
        kind = type(item)
        try:
            if kind is str:
                text = _quote(item)
            elif kind is dict or kind is FrozenDict:
                text = _write_object(item, depth + 1, indented)
            elif kind is list or kind is FrozenList:
                text = _write_array(item, depth + 1, indented)
            else:
                text = _scalar(item)
        except _NotDataError as fault:
            fault.path.append(len(pieces))
            raise
        pieces.append(text)
    return _joined("[", pieces, "]", depth, indented)


def _joined(
    opening: str, pieces: list[str], closing: str, depth: int, indented: bool
) -> str:
    if not indented:
        return f"{opening}{','.join(pieces)}{closing}"
    inner = "\n" + "  " * (depth + 1)
    outer = "\n" + "  " * depth
    return f"{opening}{inner}{(',' + inner).join(pieces)}{outer}{closing}"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    kind = type(value)
    if kind is int:
        if fits_double(value):
            return int.__repr__(value)
        raise _NotDataError("is a whole number too large for a finite double")
    if kind is float:
        if math.isfinite(value):
            return number_text(value)
        raise _NotDataError("is not a finite number")
    raise _NotDataError(f"is not JSON data but of the type {kind.__name__}")


def _ordered(value: dict[str, Any]) -> Iterable[str]:
    """Give the keys in the order of their UTF-16 code units, each checked."""
    units = _units(value)
    if units is None:
        return sorted(value)
    return [units[unit] for unit in sorted(units)]


def _units(value: dict[str, Any]) -> dict[bytes, str] | None:
    """Check the keys; give them by their UTF-16 code units, unless all are ASCII."""
    plain = True
    for key in value:
        if type(key) is not str:
            raise _NotDataError(f"has a key that is not a string but {_named(key)}")
        plain = plain and key.isascii()
    if plain:
        return None
    units = {key.encode("utf-16-be", "surrogatepass"): key for key in value}
    if len(units) != len(value):
        raise _NotDataError("has one key in two spellings of the same characters")
    return units


def _named(key: object) -> str:
    return "null" if key is None else f"of the type {type(key).__name__}"


def _walk(value: Any, depth: int) -> None:
    """Check that a value is JSON data, without writing it."""
    kind = type(value)
    if kind is str:
        return
    steps: Iterable[tuple[str | int, Any]]
    if kind is dict or kind is FrozenDict:
        _units(value)
        steps = value.items()
    elif kind is list or kind is FrozenList:
        steps = enumerate(value)
    else:
        _scalar(value)
        return
    if depth >= MAX_DEPTH:
        raise _NotDataError(_TOO_DEEP)
    for step, item in steps:
        if type(item) is str:
            continue
        try:
            _walk(item, depth + 1)
        except _NotDataError as fault:
            fault.path.append(step)
            raise


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        members = {}
        for key in value:
            members[key] = _frozen(value[key])
        return FrozenDict(members)
    if kind is list:
        items = []
        for item in value:
            items.append(_frozen(item))
        return FrozenList(items)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
