"""`ramet ps`: the agents of a store as a tree.

Lives here: which trees are shown, what stands in the columns, and the hints below them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import attrs

from ..mailbox.errors import UsageError
from ..mailbox.ids import Ambient
from ..mailbox.sqlite_inspector import SqliteInspector
from .cli_go_on import how_to_go_on
from .cli_store import add_store_argument, find_session, opened_reader
from .cli_text import (
    Cell,
    Column,
    Line,
    count,
    duration,
    one_line,
    plural,
    table,
    visible,
)
from .cli_tree import Tree, read_tree
from .cli_view import Changed, Screen
from .readers import Listing

__all__ = ["add_parser"]

_RESTING_ROOTS = 10
"""How many trees at rest are shown, the newest, besides all that are not."""

_MOST_GUIDES = 12
"""How deep the lines of a tree are drawn; below that, the depth is a number."""

_COLUMNS = (
    Column("AGENT", least=10),
    Column("STATE", least=7),
    Column("KIND", rank=7),
    Column("AGE", right=True, rank=6),
    Column("TURNS", right=True, rank=3),
    Column("REQUESTS", right=True, rank=4),
    Column("IN", right=True, rank=5),
    Column("OUT", right=True, rank=5),
    Column("CALLS", right=True, rank=5),
    Column("PENDING", right=True, rank=2),
    Column("ACTIVE", right=True, rank=1),
    Column("SESSION", least=19),
)


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add the command to a command line."""
    parser = subparsers.add_parser(
        "ps",
        description="the agents as a tree: state, age, turns, tokens, last activity",
        epilog=(
            "IN and OUT are tokens, ACTIVE is the time since the last event, and - is"
            " what no model told.  A session that is `cut` was left behind by a process"
            " that is no more."
        ),
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="only it and below")
    add_store_argument(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"every tree; else those at work and the {_RESTING_ROOTS} newest at rest",
    )
    parser.add_argument(
        "--watch", action="store_true", help="a live view, until it is interrupted"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document of all")
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    screen = Screen()
    if arguments.watch and arguments.json:
        raise UsageError("--watch shows a screen and --json a document: take one")
    if arguments.watch and not screen.terminal:
        raise UsageError("--watch needs a terminal: leave it out to write to a file")
    with opened_reader(arguments) as reader:
        root = None
        if arguments.session is not None:
            root = find_session(reader, arguments.session)
        if arguments.json:
            screen.text(_document(str(reader.path), read_tree(reader, root)))
            return 0

        def draw() -> list[Line]:
            tree = read_tree(reader, root)
            now = Ambient().now_ms()
            every = arguments.all or root is not None
            return _page(reader, tree, now, screen, every=every)

        if arguments.watch:
            screen.watch(draw, Changed(reader.changes))
        else:
            screen.show(draw())
    return 0


def _document(path: str, tree: Tree) -> str:
    document = {
        "store": path,
        "writer": tree.writer,
        "sessions": [attrs.asdict(one) for one in tree.sessions],
    }
    return json.dumps(document, indent=2)


def _page(
    reader: SqliteInspector, tree: Tree, now: int, screen: Screen, *, every: bool
) -> list[Line]:
    """The tree and what is to be said about it."""
    shown, hidden = _chosen(tree, every=every)
    if not shown and reader.sessions():
        text = "no session is a root or below one: ramet doctor says what is wrong"
        return [((text, "bad"),)]
    if not shown:
        return [((f"no session is stored in {visible(str(reader.path))} yet", "dim"),)]
    labels = _labels(shown, glyphs=screen.glyphs)
    rows = [_row(one, label, now) for one, label in zip(shown, labels, strict=True)]
    lines = table(_COLUMNS, rows, screen.width)
    return lines + _notes(reader, tree, shown, hidden)


def _chosen(tree: Tree, *, every: bool) -> tuple[list[Listing], int]:
    """The sessions of the trees that are shown, and how many trees are not."""
    trees: list[list[Listing]] = []
    ids: set[str] = set()
    for one in tree.sessions:
        if one.parent_id not in ids:
            trees.append([])
        trees[-1].append(one)
        ids.add(one.id)
    resting = [
        place
        for place, sessions in enumerate(trees)
        if all(one.state == "gone" for one in sessions)
    ]
    hidden = set() if every else set(resting[:-_RESTING_ROOTS])
    shown = [
        one
        for place, sessions in enumerate(trees)
        if place not in hidden
        for one in sessions
    ]
    return shown, len(hidden)


def _labels(shown: Sequence[Listing], *, glyphs: bool) -> list[str]:
    """The names, each behind the lines that lead to it or, without glyphs, indented."""
    top = min(one.depth for one in shown)
    labels = []
    # Read backwards, the first session of a depth is the last of its siblings.
    more: list[bool] = []
    for one in reversed(shown):
        depth = one.depth - top
        name = one_line(one.name)
        follows = depth < len(more) and more[depth]
        more = [*more[:depth], *[False] * (depth - len(more)), True]
        if depth > _MOST_GUIDES:
            labels.append(f"{'  ' * _MOST_GUIDES}({depth}) {name}")
        elif not glyphs:
            labels.append(f"{'  ' * depth}{name}")
        elif depth == 0:
            labels.append(name)
        else:
            bars = ["│  " if more[level] else "   " for level in range(1, depth)]
            labels.append("".join([*bars, "├─ " if follows else "└─ ", name]))
    return labels[::-1]


def _row(one: Listing, label: str, now: int) -> tuple[Cell, ...]:
    resting = "dim" if one.state == "gone" else ""
    return (
        (label, "name" if one.depth == 0 else resting),
        (one.state, one.state),
        (one.kind, "dim"),
        (duration(now - one.created_at), resting),
        (count(one.turns), resting),
        (count(one.requests), resting),
        (count(one.input_tokens), resting),
        (count(one.output_tokens), resting),
        (count(one.tool_calls), resting),
        (count(one.pending), "note" if one.pending else resting),
        (duration(now - one.last_at), resting),
        (one.id, "dim"),
    )


def _notes(
    reader: SqliteInspector, tree: Tree, shown: Sequence[Listing], hidden: int
) -> list[Line]:
    """What a person should know besides, and what can be done."""
    notes: list[Line] = []
    cut = [one.id for one in shown if one.state == "cut"]
    if cut:
        were = "was" if len(cut) == 1 else "were"
        text = f"{plural(len(cut), 'session')} {were} cut off"
        text += f"; {how_to_go_on(reader, cut)}"
        notes.append(((text, "cut"),))
    if hidden:
        text = f"{plural(hidden, 'older tree')} at rest: ramet ps --all"
        notes.append(((text, "dim"),))
    if tree.writer is not None:
        text = "a live process writes it"
        if tree.writer:
            text = f"process {tree.writer} writes it"
        notes.append(((text, "dim"),))
    return [(), *notes] if notes else []
