"""Keys in this process: what a sender's key names while the store may not know it yet.

Lives here: the table of keys that were accepted and are not durable, and the rule of
when one may leave it.  A send with a caller's key first asks the store, which is an
await, and checks this table in its accepting span.  A key leaves when it is durable and
no operation that asked before is still on its way to its span: else that one would find
it in neither place (R-222, R-255).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .errors import KeyConflictError, UsageError
from .leaf import leaf
from .store import KeyRow

__all__ = ["RESERVED", "KeyTable", "Known", "check_key"]

RESERVED = "ramet:"
"""The prefix of the runtime's own keys, which no caller may use."""


@leaf
class Known:
    """What a key named already.  `ticket` is 0 when the store knows it durably."""

    row: KeyRow
    ticket: int


class KeyTable:
    """The keys of this process that are not durable, or may still be asked for."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Known] = {}
        self._begun = 0
        self._asking: dict[int, None] = {}
        self._durable: deque[tuple[int, tuple[str, str]]] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def begin_asking(self) -> int:
        """An operation is about to ask the store; gives its number for the end."""
        self._begun += 1
        self._asking[self._begun] = None
        return self._begun

    def end_asking(self, number: int) -> None:
        """That operation has left its span, or gave up.

        What became durable before the oldest of the others began leaves the table, so
        that a stream of operations that overlap does not keep it for good.
        """
        del self._asking[number]
        oldest = next(iter(self._asking), self._begun + 1)
        while self._durable and self._durable[0][0] < oldest:
            self._rows.pop(self._durable.popleft()[1], None)

    def add(self, sender: str, key: str, row: KeyRow, ticket: int) -> None:
        """A key was accepted."""
        self._rows[sender, key] = Known(row, ticket)

    def is_durable(self, sender: str, key: str) -> None:
        """A key's commit is done."""
        if self._asking:
            self._durable.append((self._begun, (sender, key)))
        else:
            self._rows.pop((sender, key), None)

    def known(
        self,
        sender: str,
        key: str,
        stored: KeyRow | None,
        *,
        operation: str,
        digest: str,
        recipient: str | None,
        other: Callable[[KeyRow], str] | None = None,
    ) -> Known | None:
        """What a key names, or `None` if it is new.

        Args:
            sender: whose key it is.
            key: the key.
            stored: what the store answered.
            operation: the source of the message that would be sent.
            digest: the digest of its content.
            recipient: the session it would go to; `None` when it is not known yet.
            other: what a key with another digest names, in words.

        Raises:
            KeyConflictError: it names another operation, content or recipient (R-058).
        """
        known = self._rows.get((sender, key))
        if known is None:
            if stored is None:
                return None
            known = Known(stored, 0)
        row = known.row
        if row.operation != operation:
            names = f"a {row.operation}, not a {operation}"
        elif row.digest != digest:
            names = "other content" if other is None else other(row)
        elif recipient is not None and row.session != recipient:
            names = f"a message to {row.session}, not to {recipient}"
        else:
            return known
        raise KeyConflictError(
            f"key {key!r} of {sender} already names {names}: use a new key"
        )


def check_key(key: object) -> None:
    """Check a caller's key.

    Raises:
        UsageError: it is no text, blank, or begins as the runtime's own keys do.
    """
    if key is None:
        return
    if type(key) is not str or not key or key.isspace():
        raise UsageError("a key must be text that is not blank")
    if key.startswith(RESERVED):
        raise UsageError(f"keys that begin with {RESERVED!r} belong to the runtime")
