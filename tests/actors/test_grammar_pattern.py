"""Tests of the translation of regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.actors.grammar_pattern import PatternError, literal, pattern_expression
from tests.actors.gbnf import as_regex

PATTERNS = [
    "^$",
    "^abc$",
    "abc",
    "^a|b$",
    "^(a|bc)+d?$",
    '^[A-Z][a-z]+ [^"\\\\\\n{}<>.]{20,200}\\.$',
    "^(?:x[0-9]{2,}|y*)z{3}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^\w+@\w+\.(org|com)$",
    r"^[\w.-]+$",
    r"^[]a-]+$",
    r"^[^a]{1,3}$",
    r"^\S\D\W$",
    r"^[^\s]{2}[^\w-][^\D]$",
    r"^[\u00e0-\u00ff]+\x41é$",
    r"^a+?b*?c??$",
    r"^.{0,5}$",
    r"^[ -~]{1,4}$",
    r"^\[\]\/\-$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=8)
@given(data=st.data())
def test_what_the_grammar_writes_matches_and_needs_no_escape(
    pattern: str, data: st.DataObject
) -> None:
    expression = pattern_expression(pattern, 10)
    regex = as_regex(expression.text, "")
    text = data.draw(st.from_regex(regex, fullmatch=True))
    assert re.search(pattern, text), text
    assert len(text) <= expression.longest
    assert not re.search(r'["\\\x00-\x1f]', text)


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        ("^a{2}$", ["aa"], ["a", "aaa"]),
        ("^(a|b)c$", ["ac", "bc"], ["c", "abc"]),
        ("^a|b$", ["a", "b"], ["ab", ""]),
        ("^[^a-c]$", ["d", "é"], ["a", '"', "\\", "\n"]),
        ("^x?y$", ["y", "xy"], ["xxy"]),
        (r"^\.\*$", [".*"], ["ab"]),
        ("^a*$", ["", "a" * 5], ["a" * 6]),
    ],
)
def test_the_grammar_accepts_what_the_pattern_means(
    pattern: str, accepted: list[str], refused: list[str]
) -> None:
    regex = re.compile(as_regex(pattern_expression(pattern, 5).text, ""))
    assert [text for text in accepted if not regex.fullmatch(text)] == []
    assert [text for text in refused if regex.fullmatch(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "(a",
        "a)",
        "[a",
        "[]",
        "[z-a]",
        r"[\d-z]",
        "*a",
        "a**",
        "a{2",
        "a{x}",
        "a{3,2}",
        "a{1,100000}",
        "a^b",
        "a$b",
        r"\b",
        r"\1",
        r"[\b]",
        r"\xZZ",
        "\\",
        "(?=a)",
        "(?P<n>a)",
        "a++",
        '"',
        r"\\",
        r"\n",
        "(" * 100 + ")" * 100,
    ],
)
def test_what_the_grammar_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        pattern_expression(pattern, 5)
    assert str(caught.value)


@given(st.text(st.characters(codec="utf-8")))
def test_a_literal_is_read_as_it_was_written(text: str) -> None:
    assert re.fullmatch(as_regex(literal(text), ""), text)


@given(st.text(st.sampled_from("ab()[]{}|^$*+?.\\-,0123dwsnbxu")))
def test_no_pattern_breaks_the_reader(pattern: str) -> None:
    try:
        expression = pattern_expression(pattern, 5)
    except PatternError:
        return
    re.compile(as_regex(expression.text, ""))


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)b", "(?P<n>a)"])
def test_a_special_group_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="special group"):
        pattern_expression(pattern, 5)


def test_a_group_that_is_not_closed_is_refused() -> None:
    with pytest.raises(PatternError, match="a group that is not closed"):
        pattern_expression("(a", 5)
