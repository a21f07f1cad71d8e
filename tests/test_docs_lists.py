"""What lists must be whole: the files of the rooms, and the documents."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture import ROOMS

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "architecture.md"

_LINE = re.compile(r"^\| \[(\w+)\]\(\.\./(\w+)/(\w+)\.py\) \| \S.* \|$", re.MULTILINE)


def test_every_file_of_a_room_has_one_line_and_every_line_its_file() -> None:
    lines = _LINE.findall(PAGE.read_text(encoding="utf-8"))
    assert all(shown == name for shown, _, name in lines)
    told = sorted((room, name) for _, room, name in lines)
    files = sorted(
        (room, path.stem) for room in ROOMS for path in (PROJECT / room).glob("*.py")
    )
    assert told == files, "docs/architecture.md lists one line for each file of a room"


def test_every_document_is_in_the_index() -> None:
    documents = PROJECT / "docs"
    index = (documents / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", index))
    found = {path.relative_to(documents).as_posix() for path in documents.rglob("*.md")}
    assert found - {"index.md"} - listed == set()
