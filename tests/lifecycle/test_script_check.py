"""`ramet check`: what it finds in scripts, on which line, and where it is silent."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from ramet import Flow
from ramet.lifecycle.script_check import CODES, check_script, face_of_flow
from tests import vectors

PROJECT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).parent.parent / "data"

_MARK = re.compile(r"#! (.+)$")


def scripts(name: str) -> dict[str, str]:
    """The scripts of a file of examples, by their titles."""
    _, *parts = (DATA / name).read_text(encoding="utf-8").split("\n=== ")
    found = dict(part.split("\n", 1) for part in parts)
    assert len(found) == len(parts)
    return found


def expected(text: str) -> list[tuple[int, str]]:
    """The lines that are marked, each with its codes."""
    return [
        (number, code)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := _MARK.search(line))
        for code in match[1].split()
    ]


BAD = scripts("check_bad.txt")
GOOD = scripts("check_good.txt")


@pytest.mark.parametrize("title", BAD)
def test_what_is_wrong_is_found_on_its_line_and_nothing_else(title: str) -> None:
    text = BAD[title]
    found = check_script(text.encode())
    assert [(one.line, one.code) for one in found] == expected(text)
    assert expected(text)


@pytest.mark.parametrize("title", GOOD)
def test_a_good_script_is_silent(title: str) -> None:
    assert check_script(GOOD[title].encode()) == []


def codes(source: str) -> list[str]:
    """What is found, without its lines."""
    return [one.code for one in check_script(source.encode())]


def test_every_code_has_a_bad_script_and_a_row_in_the_page_of_scripts() -> None:
    shown = {code for text in BAD.values() for _, code in expected(text)}
    assert shown | {"too-large"} == set(CODES)
    page = (PROJECT / "docs" / "scripts.md").read_text(encoding="utf-8")
    table = page.split("| code | ", 1)[1].split("\n\n", 1)[0]
    named = re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(CODES)


def test_the_good_line_of_each_row_is_silent_and_the_bad_one_is_not() -> None:
    page = (PROJECT / "docs" / "scripts.md").read_text(encoding="utf-8")
    table = page.split("| code | ", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(
        r"^\| `([\w-]+)` \|[^|]+\| `([^`]+)` \| `([^`]+)` \|$", table, re.MULTILINE
    )
    assert len(rows) > 15
    for code, bad, good in rows:
        assert code in codes(whole(bad)), bad
        assert codes(whole(good)) == [], good


HEAD = """\
import time
from functools import partial

import anyio
import attrs
import ramet

places = ["wall", "gate"]
found = object()


@attrs.frozen
class Report:
    title: str


S = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "note": {"type": "string"}},
    "required": ["title"],
}


"""


def whole(line: str) -> str:
    """A script that has the line, which may have parts with `;` or be a `main`."""
    if line.startswith(("def main", "async def main", "model =")):
        rest = "" if "main" in line else "async def main(flow): ..."
        return f"{HEAD}{line}\n{rest}\n"
    setup = ""
    if "verdict" in line:
        setup = "    verdict = await flow.agent('A', choice=['safe', 'unsafe'])\n"
    if "data" in line:
        setup += "    data = await flow.agent('B', schema=S)\n"
    if "report" in line and "result=" not in line:
        setup += "    report = await flow.agent('C', returns=Report)\n"
    body = line.replace("; ", "\n    ")
    return f"{HEAD}async def main(flow):\n{setup}    {body}\n"


FENCE = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_scripts_of_documents_and_examples_are_silent_but_the_one_that_is_shown() -> (
    None
):
    found = {}
    for path in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))):
        for text in FENCE.findall(path.read_text(encoding="utf-8")):
            if "async def main(flow" in text:
                found[f"{path.name}: {text[:40]}"] = text
    for path in sorted((PROJECT / "examples").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "async def main(flow" in text:
            found[path.name] = text
    assert len(found) >= 3
    wrong = {name: codes(text) for name, text in found.items() if codes(text)}
    # The one by which the page of commands shows what is found.
    (shown,) = wrong
    assert shown.startswith("cli.md")
    page = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")
    for one in check_script(found[shown].encode()):
        place = f"review.py:{one.line}:{one.column}  {one.code}\n"
        assert f"{place}    {one.text}\n    {one.remedy}\n" in page


# -- the vectors: what the checker says is what a run says -----------------------------


def called(options: str) -> str:
    """A script with one call of these options."""
    return f"async def main(flow):\n    return await flow.agent('Go', {options})\n"


@pytest.mark.parametrize("row", vectors.rows("choice_declarations"))
def test_a_choice_is_judged_as_a_run_judges_it(row: dict[str, Any]) -> None:
    given = {"choice": row["choice_py"], "choice_fallback": row.get("fallback_py")}
    absent = (None, "<absent>")
    options = [f"{name}={it}" for name, it in given.items() if it not in absent]
    found = codes(called(", ".join(options)))
    assert ("bad-option" in found) is not row["ok"]
    assert set(found) <= {"bad-option", "lookalike-members"}


@pytest.mark.parametrize("row", vectors.rows("option_combinations"))
def test_options_together_are_judged_as_a_run_judges_them(row: dict[str, Any]) -> None:
    found = check_script(called(f"**{row['options_py']}").encode())
    assert found == []
    options = ast.literal_eval(row["options_py"])
    words = ", ".join(f"{name}={value!r}" for name, value in options.items())
    # What a release does not offer yet, it refuses in these words.
    found = [
        one
        for one in check_script(called(words).encode())
        if "not offered by this release" not in one.text
    ]
    assert [one.code for one in found] == ["bad-option"] * (not row["ok"])


@pytest.mark.parametrize("row", vectors.rows("unsupported"))
def test_a_schema_is_judged_as_a_run_judges_it(row: dict[str, Any]) -> None:
    source = f"import ramet\nS = ramet.Schema({row['schema']!r})\nmain = print\n"
    found = check_script(source.encode())
    assert [one.code for one in found] == ["unsupported-schema"]
    assert f"unsupported-schema at {row['at']}: " in found[0].text


def test_the_schemas_of_the_vectors_that_a_run_takes_are_silent() -> None:
    rows: list[Any] = [one.values[0] for one in vectors.rows("vectors")]
    schemas = {repr(row["schema"]) for row in rows}
    assert len(schemas) > 50
    for schema in schemas:
        assert codes(called(f"schema={schema}")) == [], schema


def test_the_face_has_all_that_a_flow_has() -> None:
    public = {name for name in vars(Flow) if not name.startswith("_")}
    assert public <= face_of_flow().keys()
    signature = face_of_flow()["agent"]
    assert signature is not None
    assert next(iter(signature.parameters)) == "prompt"
