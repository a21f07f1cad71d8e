"""The page of guarantees: each sentence names tests, and each named test exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "semantics.md"

_NAMED = re.compile(r"^  - \[(?P<name>\w+)\]\((?P<target>[^)]+\.py)\)$")


def guarantees(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each sentence of the page with the tests below it, as (name, link)."""
    held = text.partition("## Not yet held by a test")[0]
    for item in re.split(r"^- ", held, flags=re.MULTILINE)[1:]:
        lines = item.partition("\n\n")[0].splitlines()
        named = [match for match in map(_NAMED.match, lines) if match is not None]
        sentence = " ".join(
            line.strip() for line in lines if not line.startswith("  -")
        )
        yield sentence, [(match["name"], match["target"]) for match in named]


def faults(text: str, folder: Path) -> Iterator[str]:
    """What is wrong with a page that lies in a folder."""
    for sentence, named in guarantees(text):
        if not named:
            yield f"no test: {sentence}"
        for name, target in named:
            path = (folder / target).resolve()
            if not path.is_file():
                yield f"{name}: there is no file {target}"
            elif name not in functions(path):
                yield f"{name}: {target} does not define it"


def functions(path: Path) -> set[str]:
    """The names of all functions that a file defines, also in classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_guarantee_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(list(guarantees(text))) > 40
    assert list(faults(text, PAGE.parent)) == []


def test_what_is_not_held_is_said_and_names_no_test() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rest = text.partition("## Not yet held by a test")[2]
    assert rest.strip()
    assert not [line for line in rest.splitlines() if _NAMED.match(line)]


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ("- One.\n", "no test: One."),
        ("- One,\n  two.\n\nMore.\n  - [f](t.py)\n", "no test: One, two."),
        ("- One.\n  - [g](t.py)\n", "g: t.py does not define it"),
        ("- One.\n  - [f](u.py)\n", "f: there is no file u.py"),
    ],
)
def test_a_sentence_without_its_test_is_found(
    item: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "t.py").write_text("class C:\n    def f(self): ...\n")
    assert list(faults(item, tmp_path)) == [fault]
    assert list(faults("- One.\n  - [f](t.py)\n", tmp_path)) == []
