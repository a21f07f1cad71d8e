"""`ramet check` on what is no script: it says so in one finding, and never crashes."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramet.lifecycle.script_check import CODES, check_script
from ramet.lifecycle.script_outline import LARGEST
from tests.lifecycle.test_script_check import BAD, GOOD

PROJECT = Path(__file__).resolve().parent.parent.parent

MAIN = "async def main(flow):\n    return await flow.agent({})\n"


def only(source: bytes) -> tuple[str, int]:
    """The code and the line of the one finding."""
    (found,) = check_script(source)
    assert found.text
    assert found.remedy
    return found.code, found.line


@pytest.mark.parametrize(
    ("source", "code", "line"),
    [
        (b"", "no-main", 1),
        (b"\n\nasync def main(flow:\n", "not-python", 3),
        (b"x = 1\x00", "not-python", 1),
        (b"\xff\xfe\x00\x00", "not-python", 1),
        (b"# -*- coding: klingon -*-\n", "not-python", 1),
        (b"x = '\xe9'\n", "not-python", 1),
        (b"\xef\xbb\xbf# -*- coding: latin-1 -*-\n", "not-python", 1),
        (b"x = " + b"9" * 5000, "not-python", 1),
        (b"return 1\n", "not-python", 1),
        (b"def f():\n    x = 1\n    nonlocal x\n", "not-python", 3),
        (b"x = " + b"(" * 300 + b")" * 300, "not-python", 1),
        (b"#" * (LARGEST + 1), "too-large", 1),
        (b"x = " + b"-" * 20_000 + b"1", "too-large", 1),
        (b"x = " + b"+".join([b"a"] * 20_000), "too-large", 1),
        (b"x = a" + b".b" * 20_000, "too-large", 1),
    ],
)
def test_what_is_no_script_has_one_finding(source: bytes, code: str, line: int) -> None:
    assert only(source) == (code, line)


def test_what_is_deep_and_still_a_script_is_checked() -> None:
    long = " + ".join(["'a'"] * 800)
    script = f"x = {long}\n" + "".join(f"x{n + 1} = x{n}\n" for n in range(400))
    main = MAIN.format("x400").replace("return", "x =")
    script += main + "    x[0][0].b\n    return await flow.agent('')\n"
    found = check_script(script.encode())
    assert [one.code for one in found] == ["blank-prompt"]
    deep = "lambda: " * 1200
    script = MAIN.format("'a'") + f"x = [{deep} 1 for one in ()]\n"
    assert only(script.encode()) == ("too-large", 1)


@pytest.mark.parametrize("coding", ["utf-8", "punycode", "unicode_escape"])
def test_a_comment_of_any_bytes_hides_no_finding(coding: str) -> None:
    bad = MAIN.format("''").encode()
    source = f"# coding: {coding}\n".encode() + bad + b"# \x80 ramet: ignore\n"
    assert {one.code for one in check_script(source)} <= {"blank-prompt", "not-python"}
    assert only(b"#\x80\n")[0] in ("no-main", "not-python")
    assert only(bad + b"# \x80 ramet: ignore\n")[0] in ("blank-prompt", "not-python")


def test_a_script_in_another_encoding_is_read_and_columns_count_characters() -> None:
    text = "# coding: {}\nasync def main(flow):\n    'é€'; flow.agent('Hé')\n"
    for encoding in ("utf-8", "iso8859-15"):
        (found,) = check_script(text.format(encoding).encode(encoding))
        assert (found.line, found.column, found.code) == (3, 11, "not-awaited")
    marked = b"\xef\xbb\xbf" + MAIN.format("''").encode()
    (found,) = check_script(marked.replace(b"\n", b"\r\n"))
    assert (found.line, found.column, found.code) == (2, 29, "blank-prompt")


@pytest.mark.parametrize(
    "before",
    [
        "a = a + a",
        "a = b\nb = a",
        "a = [a, a]",
        "a = {**a}",
        "a = a[0]",
        "a = f'{a}{a}'",
        "a0 = ['x']\n" + "".join(f"a{n + 1} = [*a{n}, *a{n}]\n" for n in range(64)),
        "a0 = 'x'\n" + "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(64)),
        "a0 = ['x']\n" + "".join(f"a{n + 1} = [a{n}, a{n}]\n" for n in range(64)),
        "import ramet\na = ramet.Schema(a)",
        "class a(a): pass",
        "a: a = a",
        "a = lambda a=a: a",
    ],
)
@pytest.mark.parametrize("name", ["a", "a64"])
def test_names_that_lead_to_themselves_or_grow_are_not_known(
    before: str, name: str
) -> None:
    for option in ("choice", "schema", "returns", "contract", "label", "limits"):
        script = f"{before}\n" + MAIN.format(f"'Go', {option}={name}")
        found = {one.code for one in check_script(script.encode())}
        assert found <= {"bad-option"}, option


def test_a_flow_and_results_that_lead_to_themselves_are_nothing() -> None:
    script = (
        "async def main(flow):\n    f = g\n    g = f\n    f.agent()\n"
        "    x = x\n    y = await y\n    z = z['a']['b']\n    for w in w: w['a']\n"
        "    return [x.y, y['a'], z, v := v]\n"
    )
    assert check_script(script.encode()) == []


def test_the_sources_of_this_project_and_of_python_are_read_without_a_crash() -> None:
    own = sorted(PROJECT.glob("*/*.py"))
    library = sorted(Path(ast_file()).parent.glob("*.py"))
    chosen = [*own[::4], *random.Random(7).sample(library, 25)]
    for path in chosen:
        assert {one.code for one in check_script(path.read_bytes())} <= set(CODES)


def ast_file() -> str:
    """Where the standard library lies."""
    found = sys.modules["random"].__file__
    assert found is not None
    return found


SOURCES = [text.encode() for text in (*BAD.values(), *GOOD.values())]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_scripts_that_were_mangled_give_findings_and_no_traceback(
    data: st.DataObject,
) -> None:
    source = data.draw(st.sampled_from(SOURCES))
    other = data.draw(st.sampled_from(SOURCES))
    lines = source.splitlines(keepends=True)
    way = data.draw(st.sampled_from(["cut", "drop", "swap", "splice", "byte"]))
    place = data.draw(st.integers(0, len(lines) - 1))
    if way == "cut":
        source = source[: data.draw(st.integers(0, len(source)))]
    elif way == "drop":
        source = b"".join(lines[:place] + lines[place + 1 :])
    elif way == "swap":
        lines[0], lines[place] = lines[place], lines[0]
        source = b"".join(lines)
    elif way == "splice":
        source = source + other
    else:
        at = data.draw(st.integers(0, len(source) - 1))
        source = source[:at] + data.draw(st.binary(max_size=3)) + source[at + 1 :]
    for one in check_script(source):
        assert one.code in CODES
        assert one.line >= 1
        assert one.column >= 1
        assert one.text
        assert one.remedy


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda it: it.encode()))
def test_any_bytes_give_findings_and_no_traceback(source: bytes) -> None:
    assert {one.code for one in check_script(source)} <= set(CODES)
