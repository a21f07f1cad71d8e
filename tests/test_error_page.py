"""The page of errors: every class with its codes, and every code that it names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import ramet
import ramet.testing
from ramet import RametError
from tests.architecture import ROOMS

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "errors.md"

_WORD = re.compile(r"`([^`]+)`")


def rows(columns: str) -> list[list[str]]:
    """The cells of every row of the tables that have these columns."""
    found: list[list[str]] = []
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line == columns:
            inside = True
        elif inside and not set(line) <= set("|- "):
            found.append(cells)
    return found


def classes() -> dict[str, set[str]]:
    """The error classes of the page, each with its codes."""
    wanted = "| class | code | raised when | the caller may assume |"
    return {
        _WORD.findall(row[0])[0]: set(_WORD.findall(row[1])) for row in rows(wanted)
    }


def sources() -> Iterator[str]:
    """The text of every file of the rooms."""
    for room in ROOMS:
        for path in sorted((PROJECT / room).rglob("*.py")):
            yield path.read_text(encoding="utf-8")


def declared() -> dict[str, type[RametError]]:
    """Every public error class of the rooms."""
    found: dict[str, type[RametError]] = {}
    for room in ROOMS:
        for path in sorted((PROJECT / room).glob("*.py")):
            module = importlib.import_module(f"ramet.{room}.{path.stem}")
            for name in module.__all__:
                value = getattr(module, name)
                if isinstance(value, type) and issubclass(value, RametError):
                    found[name] = value
    return found


def test_every_exported_error_is_in_a_table_with_its_code() -> None:
    page = classes()
    missing = []
    for face in (ramet, ramet.testing):
        for name in face.__all__:
            value = getattr(face, name)
            is_error = isinstance(value, type) and issubclass(value, RametError)
            if is_error and value.code not in page.get(name, ()):
                missing.append((name, value.code))
    assert missing == []


def test_every_class_in_a_table_is_public_and_every_other_is_there() -> None:
    page = classes()
    known = declared()
    assert page.keys() == known.keys()
    assert {name for name in page if known[name].code not in page[name]} == set()


def test_every_code_and_cause_in_a_table_is_one_of_the_code() -> None:
    text = "\n".join(sources())
    codes = {code for named in classes().values() for code in named}
    codes.update(
        _WORD.findall(row[0])[0] for row in rows("| code | the model reads that |")
    )
    codes.update(_WORD.findall(row[0])[0] for row in rows("| cause | status | when |"))
    assert len(codes) > 50
    assert {code for code in codes if f'"{code}"' not in text} == set()
