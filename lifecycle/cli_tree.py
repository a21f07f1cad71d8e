"""The tree of stored sessions, as one list in pre-order.

Lives here: how a whole store, or what is below one session, is read from the index, and
what state a stored session is in, given whether its writer lives.  No log is read.
"""

from __future__ import annotations

import attrs

from ..mailbox.errors import CorruptLogError
from ..mailbox.sqlite_inspector import SqliteInspector
from ..mailbox.store import Reader, SessionRow
from .readers import Listing, listing_of

__all__ = ["Tree", "read_tree", "rows_below"]

_PAGE = 500


@attrs.frozen
class Tree:
    """What a store holds at one moment.

    Attributes:
        writer: the number of the live process that writes it, 0 when it gives none, or
            `None` when there is none.
        sessions: every session, parents before children, each parent's children in
            order of creation.
    """

    writer: int | None
    sessions: tuple[Listing, ...]

    def children(self) -> dict[str | None, list[str]]:
        """The children of each session, and the roots under `None`."""
        found: dict[str | None, list[str]] = {None: []}
        for one in self.sessions:
            found.setdefault(one.parent_id, []).append(one.id)
        return found


def read_tree(reader: SqliteInspector, root: str | None = None) -> Tree:
    """Read what a store holds, or what is at and below one session of it.

    Raises:
        PersistenceUnavailableError: it cannot be read.
        CorruptLogError: an index row is damaged, or a session is below itself.
    """
    # It is asked first: a writer that ends meanwhile leaves its sessions at rest.
    writer = reader.writer()
    with reader.snapshot():
        rows = rows_below(reader, root)
    running = frozenset(
        [row.parent for row in rows if row.parent and _is_live(row, writer)]
    )
    return Tree(
        writer,
        tuple(
            [
                listing_of(row, None, here=not _is_live(row, writer), running=running)
                for row in rows
            ]
        ),
    )


def _is_live(row: SessionRow, writer: int | None) -> bool:
    """Whether an activation is resident in a live process: it has a claim there."""
    return (
        writer is not None
        and row.holder is not None
        and row.summary.activation is not None
    )


def rows_below(reader: Reader, root: str | None) -> list[SessionRow]:
    """A session and everything below it, or everything, in pre-order.

    It is found without recursion, whatever the depth.

    Raises:
        CorruptLogError: an index row is damaged, or a session is below itself.
    """
    found: list[SessionRow] = []
    seen: set[str] = set()
    if root is None:
        stack = _children(reader, None)
    else:
        row = reader.row(root)
        stack = [] if row is None else [row]
    stack.reverse()
    while stack:
        row = stack.pop()
        if row.session in seen:
            raise CorruptLogError(f"session {row.session} is below itself in the index")
        seen.add(row.session)
        found.append(row)
        stack.extend(reversed(_children(reader, row.session)))
    return found


def _children(reader: Reader, parent: str | None) -> list[SessionRow]:
    found: list[SessionRow] = []
    while True:
        after = found[-1].session if found else None
        page = reader.children(parent, after, _PAGE)
        found += page
        if len(page) < _PAGE:
            return found
