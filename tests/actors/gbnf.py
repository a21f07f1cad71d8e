"""Reads a grammar of ours as a regular expression, so that tests can sample it.

Lives here: the translation.  The grammars have no recursion, and what they write of
classes, groups and repetition means the same in a regular expression.
"""

from __future__ import annotations

import re

__all__ = ["as_regex"]

_TOKEN = re.compile(
    r'"(?P<literal>(?:[^"\\]|\\.)*)"|(?P<class>\[(?:[^\]\\]|\\.)*\])'
    r"|(?P<name>[a-z]+)|(?P<other>[(){}|?]|\{\d+,\d+\}|\d+|,)|(?P<space>\s+)"
)
_ESCAPE = re.compile(
    r'\\(?:x([0-9A-F]{2})|u([0-9A-F]{4})|U([0-9A-F]{8})|(["\\nt\]\[-]))'
)
_SHORT = {"n": "\n", "t": "\t"}


def as_regex(expression: str, rules: str) -> str:
    """Return a regular expression for what an expression of a grammar accepts."""
    named = dict(line.split(" ::= ", 1) for line in rules.splitlines() if line)
    return _translate(expression, named)


def _translate(expression: str, named: dict[str, str]) -> str:
    written = []
    place = 0
    while place < len(expression):
        token = _TOKEN.match(expression, place)
        assert token is not None, expression[place:]
        place = token.end()
        if token["literal"] is not None:
            # A literal is one thing: a repetition after it repeats all of it.
            written.append(f"(?:{re.escape(_unescaped(token['literal']))})")
        elif token["class"]:
            inside = token["class"][1:-1]
            negated = "^" if inside.startswith("^") else ""
            written.append(f"[{negated}{_members(inside[len(negated) :])}]")
        elif token["name"]:
            written.append(f"(?:{_translate(named[token['name']], named)})")
        elif token["other"] == "(":
            written.append("(?:")
        elif token["other"]:
            written.append(token["other"])
    return "".join(written)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    return chr(int(digits, 16)) if digits else _SHORT.get(found[4], found[4])


def _members(inside: str) -> str:
    written = []
    place = 0
    while place < len(inside):
        found = _ESCAPE.match(inside, place)
        if found:
            written.append(f"\\U{ord(_character(found)):08x}")
            place = found.end()
        elif inside[place] == "-":
            written.append("-")
            place += 1
        else:
            written.append(f"\\U{ord(inside[place]):08x}")
            place += 1
    return "".join(written)
