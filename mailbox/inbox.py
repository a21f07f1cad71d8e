"""The inbox: the only queue of turns, and the order in which messages enter.

Lives here: which accepted messages wait, which are staged, and what enters together.
It knows messages and senders, not turns: the session tells it when a position is safe.
A message is staged while an earlier occurrence of its own sender still waits, so that
between two parties order is that of acceptance, whatever the delivery (law 3).
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from typing import ClassVar, TypeAlias

from .errors import IllegalEventError
from .events import Accepted

__all__ = ["Inbox", "Placed", "bytes_of"]

Placed: TypeAlias = tuple[int, Accepted]
"""A message with its place in the order of acceptance."""

_place = operator.itemgetter(0)


class Inbox:
    """What one session has accepted and not let enter yet.

    The occurrences accepted or promoted are always exactly the claimed, the discarded
    and the waiting (R-198).
    """

    __slots__ = (
        "_accepts",
        "_behind",
        "_blocking",
        "_bytes",
        "_fresh",
        "_undecided",
        "parked",
        "staged",
        "waiting",
    )

    def __init__(self) -> None:
        self._accepts = 0
        self._blocking: dict[str, list[int]] = {}
        self._undecided: dict[str, int] = {}
        # Shortcuts, and no part of the state: whether a staged message may be free to
        # enter; the first of each sender that is known to be blocked; and the bytes of
        # all that is held, from when somebody first asks.
        self._fresh: bool = False
        self._behind: dict[str, int] | None = None
        self._bytes: int | None = None
        self.parked: bool = False
        self.waiting: list[Placed] = []
        self.staged: list[Placed] = []

    @classmethod
    def of(
        cls,
        accepts: int,
        waiting: list[Placed],
        staged: list[Placed],
        *,
        parked: bool,
    ) -> Inbox:
        """An inbox that holds this, as one does that `accepts` messages came to."""
        inbox = cls()
        inbox._accepts = accepts
        inbox.parked = parked
        inbox.waiting = waiting
        inbox.staged = staged
        inbox._fresh = bool(staged)
        for place, message in waiting:
            inbox._block(message.sender, place)
        for place, message in staged:
            if message.given == "undecided":
                inbox._undecided[message.id] = place
        return inbox

    @property
    def accepts(self) -> int:
        """How many messages were accepted, whatever became of them."""
        return self._accepts

    def __eq__(self, other: object) -> bool:
        if type(other) is not Inbox:
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in _STATE)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @property
    def claimable(self) -> bool:
        """Whether the next turn would claim something."""
        return bool(self.waiting) and not self.parked

    @property
    def blocked(self) -> dict[str, list[int]]:
        """The places of each sender's waiting occurrences, oldest first."""
        return self._blocking

    def next_claim(self, *, everything: bool) -> tuple[str, ...]:
        """The ids that the next turn claims; nothing changes.

        One message, or all that wait, or the notices that stand together at the head of
        the queue (R-042, R-043, R-130).
        """
        if not self.waiting or self.parked:
            return ()
        if everything:
            return tuple([message.id for _, message in self.waiting])
        first = self.waiting[0][1]
        if first.source != "notice" or len(self.waiting) == 1:
            return (first.id,)
        ids = []
        for _, message in self.waiting:
            if message.source != "notice":
                break
            ids.append(message.id)
        return tuple(ids)

    def accept(self, message: Accepted, *, safe: bool) -> bool:
        """Take a message in; says whether it enters at once.

        Args:
            message: what was accepted.
            safe: whether a message may enter now, that is whether no turn is open.
        """
        self._accepts = place = self._accepts + 1
        sender = message.sender
        if self._bytes is not None:
            self._bytes += bytes_of(message.content)
        if message.given == "wakeup":
            self.waiting.append((place, message))
            self._block(sender, place)
            self.parked = False
            return False
        if safe and sender not in self._blocking:
            if self._bytes is not None:
                self._bytes -= bytes_of(message.content)
            return True
        self.staged.append((place, message))
        if not safe:
            self._fresh = True
        elif self._behind is None:
            self._behind = {sender: place}
        else:
            self._behind.setdefault(sender, place)
        if message.given == "undecided":
            self._undecided[message.id] = place
        return False

    def claim(self, ids: tuple[str, ...]) -> list[Placed]:
        """Take the claimed occurrences out of the queue, which must begin with them."""
        taken = self.waiting[: len(ids)]
        if not ids or self.parked or tuple([m.id for _, m in taken]) != ids:
            raise IllegalEventError(f"the queue does not begin with {ids}")
        del self.waiting[: len(ids)]
        self._let_go(taken)
        for _, message in taken:
            self._unblock(message.sender)
        return taken

    def discard(self, message_id: str) -> Accepted:
        """Take one waiting occurrence out of the queue."""
        for index, (place, message) in enumerate(self.waiting):
            if message.id == message_id:
                del self.waiting[index]
                self._let_go([(place, message)])
                self._unblock(message.sender, place)
                return message
        raise IllegalEventError(f"{message_id} does not wait")

    def promote(self, message_id: str) -> None:
        """Make an undecided notice an occurrence, at its place (R-260).

        It overtakes nobody: the queue stays in order of acceptance.
        """
        place = self._undecided.get(message_id)
        if place is None:
            raise IllegalEventError(f"{message_id} is not an undecided notice")
        if self.waiting and self.waiting[-1][0] > place:
            raise IllegalEventError(f"{message_id} would be out of its place")
        index = bisect_left(self.staged, place, key=_place)
        placed = self.staged.pop(index)
        del self._undecided[message_id]
        self.waiting.append(placed)
        self._block(placed[1].sender, place)
        self.parked = False

    def enter(self, claimed: list[Placed]) -> list[Accepted]:
        """What enters at a safe position, in order of acceptance.

        That is the claimed, and what is staged and not blocked any more.
        """
        if not self._fresh or not self.staged:
            return [message for _, message in claimed]
        entering = list(claimed)
        keep = []
        self._fresh = False
        behind: dict[str, int] = {}
        self._behind = behind
        for placed in self.staged:
            sender = placed[1].sender
            earlier = self._blocking.get(sender)
            if earlier is not None and earlier[0] < placed[0]:
                keep.append(placed)
                behind.setdefault(sender, placed[0])
            else:
                entering.append(placed)
                if placed[1].given == "undecided":
                    del self._undecided[placed[1].id]
        self._let_go(entering[len(claimed) :])
        self.staged = keep
        if len(entering) > 1:
            entering.sort(key=_place)
        return [message for _, message in entering]

    def held_bytes(self) -> int:
        """The bytes of all that waits or is staged: counted once, then kept."""
        if self._bytes is None:
            held = (*self.waiting, *self.staged)
            self._bytes = sum(bytes_of(message.content) for _, message in held)
        return self._bytes

    def _let_go(self, placed: list[Placed]) -> None:
        if self._bytes is not None:
            self._bytes -= sum(bytes_of(message.content) for _, message in placed)

    def staying(self) -> list[Placed]:
        """What a safe position would leave staged; nothing changes."""
        blocking = self._blocking
        return [
            placed
            for placed in self.staged
            if blocking.get(placed[1].sender, (placed[0],))[0] < placed[0]
        ]

    def _block(self, sender: str, place: int) -> None:
        places = self._blocking.get(sender)
        if places is None:
            self._blocking[sender] = [place]
        else:
            places.append(place)

    def _unblock(self, sender: str, place: int | None = None) -> None:
        places = self._blocking[sender]
        if place is None:
            del places[0]
        else:
            places.remove(place)
        if not places:
            del self._blocking[sender]
        first = None if self._behind is None else self._behind.get(sender)
        if first is not None and (not places or first < places[0]):
            self._fresh = True


_STATE = tuple(
    [name for name in Inbox.__slots__ if name not in ("_behind", "_bytes", "_fresh")]
)


def bytes_of(content: tuple[str, ...]) -> int:
    """How many bytes the blocks of a message have, also where they are no Unicode."""
    return sum(len(block.encode("utf-8", "surrogatepass")) for block in content)
