"""`ramet explain` and `ramet usage`: why a session is as it is, and what was spent.

Lives here: the two commands, and `add_parsers`, which adds every command that only
reads a store.  They work while another process writes it, and after it was killed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

import attrs

from ..mailbox.errors import CorruptLogError, IllegalEventError, UnsupportedLogError
from ..mailbox.message import Usage
from ..mailbox.sqlite_inspector import SqliteInspector
from ..mailbox.store import SessionRow
from . import cli_doctor, cli_log, cli_ps
from .cli_go_on import how_to_go_on
from .cli_store import add_store_argument, find_session, opened_reader
from .cli_text import Cell, Column, Line, one_line, paragraph, plural, table
from .cli_tree import read_tree, rows_below
from .cli_view import Screen
from .readers import Explanation, Listing, explain_row

__all__ = ["add_parsers"]

_UNKNOWN = "not recorded"

_COLUMNS = (
    Column("AGENT", least=10),
    Column("REQUESTS", right=True, least=8),
    Column("INPUT", right=True, least=6),
    Column("OUTPUT", right=True, least=6),
    Column("CACHE READ", right=True, rank=3),
    Column("CACHE WRITE", right=True, rank=3),
    Column("TOOL CALLS", right=True, rank=1),
    Column("SESSION", rank=2),
)


def add_parsers(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add `ps`, `log`, `explain`, `usage` and `doctor` to a command line."""
    cli_ps.add_parser(subparsers)
    cli_log.add_parser(subparsers)
    explain = subparsers.add_parser(
        "explain", description="why a session is in its state"
    )
    explain.add_argument(
        "session",
        metavar="ID",
        help="the session: its id, a part of it, or the agent's name if it has one",
    )
    add_store_argument(explain)
    explain.add_argument("--json", action="store_true", help="one JSON document")
    explain.set_defaults(func=_explain)
    usage = subparsers.add_parser(
        "usage",
        description="what was spent: requests, tokens, tool calls",
        epilog=(
            "Without ID there is a line for each root, with everything below it.  With"
            " ID there is one for each session at and below it, of its own."
        ),
    )
    usage.add_argument("session", nargs="?", metavar="ID", help="only it and below")
    add_store_argument(usage)
    usage.add_argument("--json", action="store_true", help="one JSON document")
    usage.set_defaults(func=_usage)
    cli_doctor.add_parser(subparsers)


# -- explain ---------------------------------------------------------------------------


def _explain(arguments: argparse.Namespace) -> int:
    screen = Screen()
    with opened_reader(arguments) as reader:
        session = find_session(reader, arguments.session)
        below = read_tree(reader, session).sessions
        explanation = _explained(reader, below)
        hint = _hint(reader, explanation)
    line = below[0]
    if arguments.json:
        document = {**attrs.asdict(explanation), "name": line.name, "hint": hint}
        screen.text(json.dumps(document, indent=2))
        return 0
    lines: list[Line] = [
        ((one_line(line.name), "name"), (f"  {line.kind}  {line.id}", "dim")),
        (("state  ", "title"), (explanation.state, explanation.state)),
    ]
    why: Line = (("why    ", "title"),)
    lines += paragraph(why, one_line(explanation.why), "", screen.width)
    if hint is not None:
        lines += paragraph((("next   ", "title"),), hint, "note", screen.width)
    screen.show(lines)
    return 0


def _explained(reader: SqliteInspector, below: tuple[Listing, ...]) -> Explanation:
    """Why the first of these sessions is in its state; the others are below it."""
    line = below[0]
    row = reader.row(line.id)
    assert row is not None
    if line.state == "waiting":
        live = [
            f"{one.name} {one.id} ({one.state})"
            for one in below
            if one.parent_id == line.id and one.state not in ("gone", "cut")
        ]
        names = ", ".join(live[:5])
        more = ", ..." if len(live) > 5 else ""
        children = "live child" if len(live) == 1 else "live children"
        why = f"it waits for {len(live)} {children}: {names}{more}"
        return Explanation(line.id, line.state, why)
    try:
        events = reader.load(line.id)
        return explain_row(row, events, here=line.state == "cut")
    except (CorruptLogError, UnsupportedLogError, IllegalEventError) as error:
        return Explanation(line.id, "unreadable", f"its log cannot be read: {error}")


def _hint(reader: SqliteInspector, explanation: Explanation) -> str | None:
    if explanation.state == "cut":
        return how_to_go_on(reader, [explanation.id])
    if explanation.state == "unreadable":
        return "ramet doctor looks at the whole store"
    return None


# -- usage -----------------------------------------------------------------------------


def _usage(arguments: argparse.Namespace) -> int:
    screen = Screen()
    with opened_reader(arguments) as reader:
        root = None
        if arguments.session is not None:
            root = find_session(reader, arguments.session)
        with reader.snapshot():
            if root is None:
                rows = _roots(reader)
                spent = [reader.usage(row.session)[1] for row in rows]
                total = _sum(spent)
            else:
                rows = rows_below(reader, root)
                spent = [row.summary.usage for row in rows]
                total = reader.usage(root)[1]
        path = str(reader.path)
    if arguments.json:
        screen.text(_document(path, root, rows, spent, total))
    else:
        screen.show(_page(rows, spent, total, screen.width))
    return 0


def _roots(reader: SqliteInspector) -> list[SessionRow]:
    found: list[SessionRow] = []
    while True:
        page = reader.children(None, found[-1].session if found else None, 500)
        found += page
        if len(page) < 500:
            return found


def _sum(spent: Iterable[Usage]) -> Usage:
    total = Usage()
    for one in spent:
        total += one
    return total


def _document(
    path: str,
    root: str | None,
    rows: list[SessionRow],
    spent: list[Usage],
    total: Usage,
) -> str:
    # Without a session the lines are whole trees; with one they are single sessions.
    of = "subtree" if root is None else "own"
    sessions = [
        {
            "id": row.session,
            "parent_id": row.parent,
            "name": row.name,
            "kind": row.kind,
            of: attrs.asdict(usage),
        }
        for row, usage in zip(rows, spent, strict=True)
    ]
    document = {
        "store": path,
        "session": root,
        "sessions": sessions,
        "total": attrs.asdict(total),
    }
    return json.dumps(document, indent=2)


def _page(
    rows: list[SessionRow], spent: list[Usage], total: Usage, width: int | None
) -> list[Line]:
    top = min((row.depth for row in rows), default=0)
    cells: list[tuple[Cell, ...]] = [
        _row(
            f"{'  ' * min(row.depth - top, 12)}{one_line(row.name)}", usage, row.session
        )
        for row, usage in zip(rows, spent, strict=True)
    ]
    label = "sum" if len(rows) == 1 else f"sum of {plural(len(rows), 'line')}"
    cells.append(tuple((text, "title") for text, _ in _row(label, total, "")))
    return table(_COLUMNS, cells, width)


def _row(label: str, usage: Usage, session: str) -> tuple[Cell, ...]:
    return (
        (label, "name"),
        _number(usage.requests),
        _number(usage.input_tokens),
        _number(usage.output_tokens),
        _number(usage.cache_read_tokens),
        _number(usage.cache_creation_tokens),
        _number(usage.tool_calls),
        (session, "dim"),
    )


def _number(number: int | None) -> Cell:
    return (_UNKNOWN, "dim") if number is None else (f"{number:,}", "")
