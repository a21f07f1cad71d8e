"""How a regular expression becomes a grammar for the inside of a JSON string.

Lives here: a small reader of regular expressions, and sets of characters.  What comes
out accepts a part of what the pattern accepts, and only text that needs no escape in
JSON: quotes, backslashes and control characters are never written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..mailbox.message import record

__all__ = ["Expression", "PatternError", "class_of", "literal", "pattern_expression"]

_LAST = 0x10FFFF
_UNSAFE = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x9F), (0xD800, 0xDFFF))
_LARGEST_REPEAT = 1000
_LARGEST_DEPTH = 50

Ranges = tuple[tuple[int, int], ...]

_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x20, 0x20),)
_NEVER: Ranges = ((0x0A, 0x0A),)
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_NAMED = frozenset(("\\d", "\\w", "\\s"))
_CONTROLS = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B, "0": 0}


class PatternError(ValueError):
    """Raised when a pattern holds what the grammar cannot say."""


@record
class Expression:
    """A piece of a grammar and the number of characters that it may write at most."""

    text: str
    longest: int


def literal(text: str) -> str:
    """Write a text as a literal of the grammar."""
    written = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            written.append("\\" + character)
        elif 0x20 <= code < 0x7F:
            written.append(character)
        else:
            written.append(_code(code))
    return '"' + "".join(written) + '"'


def class_of(ranges: Iterable[tuple[int, int]]) -> str:
    """Write a set of characters as a class of the grammar."""
    parts = []
    for low, high in ranges:
        parts.append(_code(low) if low == high else f"{_code(low)}-{_code(high)}")
    return "[" + "".join(parts) + "]"


def _code(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _sorted(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _all_but(ranges: Iterable[tuple[int, int]]) -> Ranges:
    left = []
    start = 0
    for low, high in _sorted(ranges):
        if start < low:
            left.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        left.append((start, _LAST))
    return tuple(left)


def _ascii(ranges: Ranges) -> Ranges:
    """Keep what is ASCII: beyond it, what a class means is not the same everywhere."""
    return tuple((low, min(high, 0x7F)) for low, high in ranges if low <= 0x7F)


def _safe(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Leave out what a JSON string would have to escape."""
    return _all_but((*_all_but(ranges), *_UNSAFE))


def pattern_expression(pattern: str, repeat: int) -> Expression:
    """Translate a pattern; the whole string must match it.

    Args:
        pattern: a regular expression of characters, classes, groups, alternatives and
            repetition; `^` and `$` may stand at its ends.
        repeat: how often `*`, `+` and `{n,}` may repeat at most.

    Raises:
        PatternError: the pattern holds anything else.
    """
    reader = _Reader(pattern, min(repeat, _LARGEST_REPEAT))
    expression = reader.alternatives(0)
    if reader.place < len(pattern):
        raise PatternError(f"an unexpected {reader.peek()!r} at {reader.place}")
    return expression


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str, repeat: int) -> None:
        self.pattern = pattern
        self.repeat = repeat
        self.place = 0

    def peek(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def take(self) -> str:
        character = self.peek()
        if not character:
            raise PatternError("an unexpected end")
        self.place += 1
        return character

    def alternatives(self, depth: int) -> Expression:
        if depth > _LARGEST_DEPTH:
            raise PatternError("groups are nested too deeply")
        found = [self.sequence(depth)]
        while self.peek() == "|":
            self.place += 1
            found.append(self.sequence(depth))
        if len(found) == 1:
            return found[0]
        text = " | ".join(one.text for one in found)
        return Expression(f"({text})", max(one.longest for one in found))

    def sequence(self, depth: int) -> Expression:
        texts = []
        longest = 0
        if depth == 0 and self.peek() == "^":
            self.place += 1
        while (character := self.peek()) and character not in "|)":
            if character == "$" and depth == 0:
                self.place += 1
                if self.peek() not in ("", "|"):
                    raise PatternError(f"a '$' inside, at {self.place - 1}")
                break
            expression = self.repeated(self.atom(depth))
            texts.append(expression.text)
            longest += expression.longest
        return Expression(" ".join(texts) or '""', longest)

    def atom(self, depth: int) -> Expression:
        character = self.take()
        if character == "(":
            return self.group(depth)
        if character == "[":
            return self.one_of(self.bracket())
        if character == ".":
            return self.one_of(_all_but(_NEVER))
        if character == "\\":
            return self.one_of(self.escape())
        if character in "^$*+?{}":
            raise PatternError(f"an unexpected {character!r} at {self.place - 1}")
        return self.one_of(((ord(character), ord(character)),))

    def group(self, depth: int) -> Expression:
        if self.peek() == "?":
            self.place += 1
            if self.take() != ":":
                raise PatternError(f"a special group at {self.place - 3}")
        inner = self.alternatives(depth + 1)
        if self.peek() != ")":
            raise PatternError("a group that is not closed")
        self.place += 1
        return Expression(f"({inner.text})", inner.longest)

    def one_of(self, ranges: Ranges) -> Expression:
        safe = _safe(ranges)
        if not safe:
            raise PatternError(
                f"a character that JSON has to escape, before {self.place}"
            )
        return Expression(class_of(safe), 1)

    def escape(self) -> Ranges:
        character = self.take()
        if character in "dws":
            return _CLASSES[character]
        if character in "DWS":
            return _ascii(_all_but(_CLASSES[character.lower()]))
        if character in _CONTROLS:
            code = _CONTROLS[character]
            return ((code, code),)
        if character in "xu":
            digits = self.pattern[
                self.place : self.place + (2 if character == "x" else 4)
            ]
            self.place += len(digits)
            try:
                code = int(digits, 16)
            except ValueError:
                raise PatternError(f"a broken \\{character} at {self.place}") from None
            return ((code, code),)
        if character.isalnum():
            raise PatternError(f"a special \\{character} at {self.place - 2}")
        return ((ord(character), ord(character)),)

    def bracket(self) -> Ranges:
        negated = self.peek() == "^"
        if negated:
            self.place += 1
        ranges: list[tuple[int, int]] = []
        named = False
        first = True
        while first or self.peek() != "]":
            first = False
            named = named or self.pattern[self.place : self.place + 2].lower() in _NAMED
            low = self.member()
            if self.peek() == "-" and self.pattern[self.place + 1 :][:1] not in (
                "]",
                "",
            ):
                self.place += 1
                high = self.member()
                ranges.append(self.range_of(low, high))
            else:
                ranges.extend(low)
        self.place += 1
        if not negated:
            return _sorted(ranges)
        return _ascii(_all_but(ranges)) if named else _all_but(ranges)

    def range_of(self, low: Ranges, high: Ranges) -> tuple[int, int]:
        (first, first_end), (last, last_end) = low[0], high[0]
        single = len(low) == len(high) == 1 and first == first_end and last == last_end
        if not single or first > last:
            raise PatternError(f"a broken range before {self.place}")
        return first, last

    def member(self) -> Ranges:
        character = self.take()
        if character == "\\":
            if self.peek() == "b":
                raise PatternError(f"a special \\b at {self.place - 1}")
            return self.escape()
        return ((ord(character), ord(character)),)

    def repeated(self, atom: Expression) -> Expression:
        bounds = self.bounds()
        if bounds is None:
            return atom
        least, most = bounds
        if self.peek() in ("?", "+") and self.take() == "+":
            raise PatternError(f"a possessive repetition at {self.place - 1}")
        text = f"{atom.text}{{{least},{most}}}"
        return Expression(text, atom.longest * most)

    def bounds(self) -> tuple[int, int] | None:
        character = self.peek()
        if not character or character not in "*+?{":
            return None
        self.place += 1
        if character == "?":
            return 0, 1
        if character != "{":
            least = 0 if character == "*" else 1
            return least, max(least, self.repeat)
        end = self.pattern.find("}", self.place)
        low, comma, high = self.pattern[self.place : max(end, 0)].partition(",")
        self.place = end + 1
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise PatternError("a broken repetition")
        least = int(low)
        most = int(high) if high else (max(least, self.repeat) if comma else least)
        if least > most or most > _LARGEST_REPEAT:
            raise PatternError(f"a repetition of {least} to {most}")
        return least, most
