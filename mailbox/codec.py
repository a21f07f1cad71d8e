"""The canonical text of a stored event: how the closed union is written and read.

Lives here: the codec of `events.py`, its version, and the digest of what a key stands
for.  It knows shapes and no meanings.  An event is one JSON object in ASCII with sorted
keys and no blanks: `"event"` is its class in snake case, `"v"` the version, and a field
that equals its default is left out.  So equal events have equal texts, and any string
survives, also one that is no Unicode text.

A string in which two lone surrogates would read back as one character is written as the
array of its pieces, cut between them: JSON has no other way to keep them apart.
"""

from __future__ import annotations

import hashlib
import json
import re
import types
import typing
from collections.abc import Callable
from functools import partial
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any, Literal, NoReturn, get_args

import attrs

from .bookmark import MEANING, Bookmark
from .errors import CorruptLogError, UnsupportedLogError, UsageError
from .events import Event

__all__ = [
    "KINDS",
    "VERSION",
    "content_digest",
    "decode",
    "decode_bookmark",
    "encode",
    "encode_bookmark",
]

VERSION = 1
"""The version of the whole union; a new meaning of an old kind needs a new one."""

_SEAM = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")


class _MisfitError(Exception):
    """A value does not fit its field; the text says where and how."""


@attrs.frozen
class _Shape:
    """How values of one type are written and read; `read` also gets the place."""

    write: Callable[[Any], str]
    read: Callable[[Any, str], Any]


def encode(event: Event) -> str:
    """Write an event as canonical text.

    Raises:
        UsageError: it is no event, or a field holds what its type does not allow.
    """
    shape = _SHAPES.get(type(event))
    if shape is None:
        raise UsageError(f"{type(event).__name__} is no event that a log stores")
    try:
        text = shape.write(event)
        return _EXACT[type(event)].write(event) if "\\ud" in text else text
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise UsageError(
            f"a field of {type(event).__name__} does not have its type: {error}"
        ) from error


def decode(text: str) -> Event:
    """Read the event that a text holds.

    Raises:
        CorruptLogError: it is not such a JSON object, or a field is missing, unknown or
            not of its type.
        UnsupportedLogError: its version or kind is not of this release.
    """
    try:
        found = _JSON.decode(text)
    except _MisfitError as error:
        raise CorruptLogError(f"a stored event {error}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptLogError(f"a stored event is not JSON: {error}") from error
    if type(found) is not dict:
        raise CorruptLogError(f"a stored event must be an object, not {_name(found)}")
    version = found.pop("v", None)
    if type(version) is not int:
        raise CorruptLogError('a stored event must have a version "v"')
    if version != VERSION:
        raise UnsupportedLogError(
            f"a stored event has version {version}; this release reads {VERSION}"
        )
    kind = found.pop("event", None)
    if type(kind) is not str:
        raise CorruptLogError('a stored event must have a kind "event"')
    cls = KINDS.get(kind)
    if cls is None:
        raise UnsupportedLogError(f"a stored event is of the unknown kind {kind!r}")
    try:
        event: Event = _SHAPES[cls].read(found, kind)
    except _MisfitError as error:
        raise CorruptLogError(f"a stored event does not fit: {error}") from None
    return event


def encode_bookmark(bookmark: Bookmark) -> str:
    """Write a bookmark as text, with the version of the fold that it came from.

    Raises:
        UsageError: a field holds what its type does not allow.
    """
    try:
        text = _BOOKMARK.write(bookmark)
        return _EXACT_BOOKMARK.write(bookmark) if "\\ud" in text else text
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise UsageError(
            f"a field of a bookmark does not have its type: {error}"
        ) from error


def decode_bookmark(text: str) -> Bookmark:
    """Read the bookmark that a text holds.

    Raises:
        CorruptLogError: it is none, or a field is missing, unknown or not of its type.
        UnsupportedLogError: it is of another version of the log or of the fold.
    """
    try:
        found = _JSON.decode(text)
        if type(found) is not dict:
            raise _MisfitError(f"is {_name(found)}")
        version = found.pop("v", None)
        if version != _BOOKMARK_VERSION:
            raise UnsupportedLogError(f"a bookmark has version {version!r:.20}")
        bookmark: Bookmark = _BOOKMARK.read(found, "bookmark")
    except (_MisfitError, ValueError, TypeError, RecursionError) as error:
        raise CorruptLogError(f"a stored bookmark cannot be read: {error}") from error
    return bookmark


def content_digest(operation: str, content: tuple[str, ...], extra: str = "") -> str:
    """SHA-256, in lower-case hex, of what a sender asked for under a key.

    Two requests have one digest only if operation, blocks and `extra` are the same: the
    lengths of all parts come first, so that text cannot move between them.
    """
    parts = (operation, extra, *content)
    text = f"{list(map(len, parts))}{''.join(parts)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_constant(name: str) -> NoReturn:
    raise _MisfitError(f"holds {name}, which is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _MisfitError("holds a field twice")
    return found


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _name(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _write_exactly(value: str) -> str:
    if _SEAM.search(value):
        return f"[{','.join(map(encode_basestring_ascii, _SEAM.split(value)))}]"
    return encode_basestring_ascii(value)


def _read_text(value: Any, where: str) -> str:
    if type(value) is str:
        return value
    if type(value) is list and value and all(type(piece) is str for piece in value):
        text = "".join(value)
        if _SEAM.split(text) == value and len(value) > 1:
            return text
    raise _MisfitError(f"{where} must be text, not {_name(value)}")


def _read_integer(value: Any, where: str) -> int:
    if type(value) is not int:
        raise _MisfitError(f"{where} must be an integer, not {_name(value)}")
    return value


def _write_truth(value: bool) -> str:
    return {True: "true", False: "false"}[value]


def _read_truth(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise _MisfitError(f"{where} must be true or false, not {_name(value)}")
    return value


def _write_number(value: float) -> str:
    if not isfinite(value):
        raise ValueError("a number must be finite")
    return float.__repr__(float(value))


def _read_number(value: Any, where: str) -> float:
    if type(value) is int and abs(value) < 1 << 53:
        value = float(value)
    if type(value) is not float or not isfinite(value):
        raise _MisfitError(f"{where} must be a finite number, not {_name(value)}")
    return value


_TEXT = _Shape(encode_basestring_ascii, _read_text)
"""Text in which nothing is seen to be no Unicode text: the quick way."""

_EXACT_TEXT = _Shape(_write_exactly, _read_text)

_SCALARS: dict[object, _Shape] = {
    int: _Shape(int.__repr__, _read_integer),
    bool: _Shape(_write_truth, _read_truth),
    float: _Shape(_write_number, _read_number),
}


def _shape(hint: Any, text: _Shape) -> _Shape:
    """The shape of a type; a type that no event may have raises at import."""
    if hint is str:
        return text
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(arguments)
    if origin in (types.UnionType, typing.Union) and len(arguments) == 2:
        (inner,) = (one for one in arguments if one is not type(None))
        return _optional(_shape(inner, text))
    if origin in (types.UnionType, typing.Union):
        return _either(arguments, text)
    if origin is tuple and arguments[1:] == (...,):
        return _array(_shape(arguments[0], text))
    return _record(hint, text)


def _literal(words: tuple[str, ...]) -> _Shape:
    texts = {word: encode_basestring_ascii(word) for word in words}

    def read(value: Any, where: str) -> str:
        if type(value) is str and value in texts:
            return value
        raise _MisfitError(f"{where} must be one of {', '.join(words)}")

    return _Shape(texts.__getitem__, read)


def _optional(inner: _Shape) -> _Shape:
    write_inner, read_inner = inner.write, inner.read

    def write(value: Any) -> str:
        return "null" if value is None else write_inner(value)

    def read(value: Any, where: str) -> Any:
        return None if value is None else read_inner(value, where)

    return _Shape(write, read)


def _either(classes: tuple[Any, ...], text: _Shape) -> _Shape:
    """The shape of one of several records: an object with its class as only member."""
    shapes = {_snake(cls.__name__): _record(cls, text) for cls in classes}
    writers = {
        cls: (f'{{"{name}":', shape.write)
        for cls, (name, shape) in zip(classes, shapes.items(), strict=True)
    }

    def write(value: Any) -> str:
        prefix, write_inner = writers[type(value)]
        return f"{prefix}{write_inner(value)}}}"

    def read(value: Any, where: str) -> Any:
        if type(value) is dict and len(value) == 1:
            ((name, inner),) = value.items()
            if name in shapes:
                return shapes[name].read(inner, name)
        raise _MisfitError(f"{where} must be one of {', '.join(shapes)}")

    return _Shape(write, read)


def _array(inner: _Shape) -> _Shape:
    write_inner, read_inner = inner.write, inner.read

    def write(values: Any) -> str:
        if type(values) is not tuple:
            raise TypeError(f"must be a tuple, not {_name(values)}")
        return f"[{','.join(map(write_inner, values))}]"

    def read(values: Any, where: str) -> tuple[Any, ...]:
        if type(values) is not list:
            raise _MisfitError(f"{where} must be an array, not {_name(values)}")
        return tuple(read_inner(value, f"{where}[]") for value in values)

    return _Shape(write, read)


def _record(
    cls: type[attrs.AttrsInstance], text: _Shape, fixed: dict[str, str] | None = None
) -> _Shape:
    """The shape of a record; `fixed` are texts of members that are no fields."""
    hints = typing.get_type_hints(cls)
    fields = attrs.fields(cls)
    shapes = {field.name: _shape(hints[field.name], text) for field in fields}
    defaults = {field.name: field.default for field in fields}
    constants = fixed or {}
    writers = {name: shape.write for name, shape in shapes.items()}
    quick = _writer(writers, defaults, constants)
    required = frozenset(
        name for name, default in defaults.items() if default is attrs.NOTHING
    )
    readers = {name: shape.read for name, shape in shapes.items()}

    def write(value: Any) -> str:
        if type(value) is not cls:
            raise TypeError(f"must be a {cls.__name__}, not {_name(value)}")
        return quick(value)

    def read(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise _MisfitError(f"{where} must be an object, not {_name(value)}")
        found = {}
        for name, held in value.items():
            read_field = readers.get(name)
            if read_field is None:
                raise _MisfitError(f"{where} has the unknown field {name!r}")
            found[name] = read_field(held, f"{where}.{name}")
        if not required <= found.keys():
            missing = ", ".join(sorted(required - found.keys()))
            raise _MisfitError(f"{where} lacks {missing}")
        return cls(**found)

    return _Shape(write if fixed is None else quick, read)


def _writer(
    writers: dict[str, Callable[[Any], str]],
    defaults: dict[str, Any],
    constants: dict[str, str],
) -> Callable[[Any], str]:
    """What writes the members of one class, compiled, since every event passes here.

    It is one expression: the members in order, each followed by a comma, of which the
    last is cut off.  A member that equals its default is nothing.
    """
    names: dict[str, Any] = {}
    members = []
    for name in sorted([*writers, *constants]):
        if name in constants:
            members.append(f'"{name}":{constants[name]},')
            continue
        names[f"write_{name}"] = writers[name]
        member = f'"{name}":{{write_{name}(value.{name})}},'
        if defaults[name] is not attrs.NOTHING:
            names[f"default_{name}"] = defaults[name]
            member = (
                f"{{'' if value.{name} == default_{name} else "
                f"member_{name}(value.{name})}}"
            )
            names[f"member_{name}"] = partial(_member, f'"{name}":', writers[name])
        members.append(member)
    text = "".join(members)
    source = f"lambda value: '{{' + f'''{text}'''[:-1] + '}}'"
    compiled: Callable[[Any], str] = eval(source, names)
    return compiled


def _member(prefix: str, write: Callable[[Any], str], value: Any) -> str:
    return f"{prefix}{write(value)},"


def _snake(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


KINDS: dict[str, type[Event]] = {_snake(cls.__name__): cls for cls in get_args(Event)}
"""The class of each kind, by the word that a text says for it."""


def _shapes(text: _Shape) -> dict[type, _Shape]:
    version = int.__repr__(VERSION)
    return {
        cls: _record(cls, text, {"event": encode_basestring_ascii(kind), "v": version})
        for kind, cls in KINDS.items()
    }


_SHAPES = _shapes(_TEXT)
_EXACT = _shapes(_EXACT_TEXT)

_BOOKMARK_VERSION = f"{VERSION}.{MEANING}"


def _bookmarks(text: _Shape) -> _Shape:
    fixed = {"v": encode_basestring_ascii(_BOOKMARK_VERSION)}
    return _record(Bookmark, text, fixed)


_BOOKMARK = _bookmarks(_TEXT)
_EXACT_BOOKMARK = _bookmarks(_EXACT_TEXT)
