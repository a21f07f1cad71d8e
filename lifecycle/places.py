"""Places: where in a supervisor script a call stands, and the key that is made of it.

Lives here: the counting of calls in a script, so that the same call has the same place
in every run, and the spelling of keys.  A labelled call is found by its phase, its
label and how often that was used; any other one by its ordinal among the unlabelled.
"""

from __future__ import annotations

from collections import Counter

from ..actors.errors import DeclarationError
from ..mailbox.canonical import canonical_json
from ..mailbox.keys import RESERVED
from ..mailbox.message import record

__all__ = ["Place", "Places", "again", "key_at"]

_PREFIX = f"{RESERVED}flow."
_DIGEST = 16


@record
class Place:
    """Where a call stands; `live` is what no other live call may share."""

    steps: tuple[str | int, ...]
    live: tuple[str, str] | None = None


class Places:
    """The places that a run of a script has taken."""

    def __init__(self) -> None:
        self.phase = ""
        self._ordinal = 0
        self._used: Counter[tuple[str, str, str]] = Counter()
        self._live: set[tuple[str, str]] = set()

    def take(self, operation: str, label: str | None, key: str | None) -> Place:
        """The place of the next call.

        Args:
            operation: what kind of call it is.
            label: its label within the phase.
            key: the script's own name for it, which stands for any place.

        Raises:
            DeclarationError: `slot-conflict`: a live call has this phase and label
                (A-161); nothing was taken.
        """
        live = None
        if label is not None:
            live = (self.phase, label)
            if live in self._live:
                where = f" of phase {self.phase!r}" if self.phase else ""
                raise DeclarationError(
                    f"a live call{where} has the label {label!r} already",
                    "slot-conflict",
                )
            self._live.add(live)
        if key is not None:
            return Place((operation, "key", key), live)
        if label is None:
            self._ordinal += 1
            return Place((operation, self._ordinal))
        slot = (operation, self.phase, label)
        self._used[slot] += 1
        return Place((*slot, self._used[slot]), live)

    def leave(self, place: Place) -> None:
        """The call at a place is over: its label may be used again."""
        if place.live is not None:
            self._live.discard(place.live)


def key_at(place: Place, digest: str, *, named: bool = False) -> str:
    """The key of what is asked at a place.

    Args:
        place: where it is asked.
        digest: of what is asked, so that another request is not answered by it.
        named: whether the script named the call itself: then the same name with
            another request is a conflict and not another call.
    """
    spelled = f"{_PREFIX}{canonical_json(list(place.steps))}"
    return spelled if named else f"{spelled}.{digest[:_DIGEST]}"


def again(key: str, attempt: int) -> str:
    """The key of an attempt; the first has the key itself."""
    return key if attempt == 1 else f"{key}.again{attempt}"
