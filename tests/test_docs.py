"""The documents: every link points at something, and every example runs.

A block that is fenced ```python is a whole example: it runs here, in an empty folder
and with a name space of its own.  A piece that cannot run alone is fenced ```py.  Async
examples end with `anyio.run(main)`.
"""

from __future__ import annotations

import doctest
import importlib
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.architecture import ROOMS

PROJECT = Path(__file__).resolve().parent.parent

DOCUMENTS = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^\n`]*)\n"
    r"(?P<body>.*?)^ *(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"(?<!`)\[[^\]\n]*(?:\n[^\]\n]*)?\]\((?P<target>[^)\s]+)[^)]*\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]: +(?P<target>\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def told(path: Path) -> str:
    """The name of a document, from the root of the project."""
    return path.relative_to(PROJECT).as_posix()


def broken_links(document: Path) -> Iterator[str]:
    """The relative links of a document that point at nothing."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    for match in (*_LINK.finditer(text), *_REFERENCE.finditer(text)):
        target = match["target"].strip("<>")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        place = (document.parent / name).resolve() if name else document
        if not place.exists():
            yield f"{target}: there is no such file"
        elif anchor and place.suffix == ".md" and anchor not in anchors(place):
            yield f"{target}: there is no such heading"


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as they are commonly made."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    headings = _HEADING.findall(text)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def examples(document: Path) -> Iterator[tuple[int, str]]:
    """The first line and the text of each complete example of a document."""
    text = document.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match["language"].strip() == "python":
            width = len(match["indent"])
            lines = [line[width:] for line in match["body"].splitlines(keepends=True)]
            yield text.count("\n", 0, match.start("body")) + 1, "".join(lines)


def run_example(name: str, line: int, text: str) -> None:
    """Run an example; a traceback shows its lines, at their place in the document."""
    padded = "\n" * (line - 1) + text
    linecache.cache[name] = (len(padded), None, padded.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": name}
    exec(compile(padded, name, "exec", dont_inherit=True), space)


MODULES = [
    f"ramet.{told(path).removesuffix('.py').replace('/', '.')}"
    for room in ROOMS
    for path in sorted((PROJECT / room).rglob("*.py"))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=told)
def test_every_relative_link_points_at_something(document: Path) -> None:
    assert list(broken_links(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=told)
def test_every_example_of_a_document_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line, text in examples(document):
        folder = tmp_path / f"line{line}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        run_example(told(document), line, text)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_of_a_module_are_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS, report=True)
    assert failed == 0


# From here on: these tests find what they are for.


def test_links_that_point_at_nothing_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One `more` heading!\n", encoding="utf-8")
    document = tmp_path / "document.md"
    document.write_text(
        "# Here\n[a](other.md) [b](other.md#one-more-heading) [c](#here)\n"
        "[d](https://example.org/x) [e](missing.md) ![f](missing.png 'title')\n"
        "[g](other.md#nowhere) [h](#nowhere)\n[two\nlines](gone.md)\n"
        "```\n[in a block](missing.md)\n```\n[i]: gone.txt\n",
        encoding="utf-8",
    )
    assert list(broken_links(document)) == [
        "missing.md: there is no such file",
        "missing.png: there is no such file",
        "other.md#nowhere: there is no such heading",
        "#nowhere: there is no such heading",
        "gone.md: there is no such file",
        "gone.txt: there is no such file",
    ]


def test_only_complete_examples_are_taken_and_they_can_fail(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(
        "```py\nnothing\n```\n\n```python\nx = 1\nassert x == 2\n```\n"
        "* in a list\n  ```python\n  y = [\n      1]\n  ```\n````python\nz\n````\n",
        encoding="utf-8",
    )
    found = list(examples(document))
    assert found == [
        (6, "x = 1\nassert x == 2\n"),
        (11, "y = [\n    1]\n"),
        (15, "z\n"),
    ]
    with pytest.raises(AssertionError) as raised:
        run_example("document.md", *found[0])
    assert raised.traceback[-1].lineno == 6
