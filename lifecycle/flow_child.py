"""A script's child: a continuable agent as the script that started it sees it.

Lives here: the child and its assignments.  How they are recalled after a resume is
`recall.py`'s.
"""

from __future__ import annotations

from typing import Any

from ..actors.outcome import Outcome
from ..mailbox.canonical import canonical_json, digest_text
from ..mailbox.message import Content, to_blocks
from .declaration import check_name, check_prompt
from .places import Place, key_at
from .recall import Recall

__all__ = ["Assignment", "FlowChild"]


class Assignment:
    """What a child was asked once.  Received from a child, never made.

    After a resume, an assignment that was cut off is gone on with by a followup in the
    same session; then that one's outcome is the assignment's.
    """

    _recall: Recall
    _child_id: str
    _messages: tuple[str, ...]

    def __init__(self) -> None:
        raise TypeError("an assignment is received from a child, not made")

    @classmethod
    def _make(
        cls, recall: Recall, child_id: str, messages: tuple[str, ...]
    ) -> Assignment:
        assignment = object.__new__(cls)
        assignment._recall = recall
        assignment._child_id = child_id
        assignment._messages = messages
        return assignment

    @property
    def message_id(self) -> str:
        """The message whose outcome is the assignment's."""
        return self._messages[-1]

    async def outcome(self) -> Outcome[Any]:
        """Wait for its outcome; a child converses, so that there is no value.

        Raises:
            ParkedError: it waits in a session that is not resident, and nothing here is
                about to run it; the text says what would.
        """
        return await self._recall.outcome(self._messages)

    async def reports(self) -> list[str]:
        """The texts that the child reported by its tool in the turns that answered it.

        They come in order, from the durable log of the root.
        """
        return await self._recall.reports(self._child_id, self._messages)

    def __repr__(self) -> str:
        return f"<Assignment {self.message_id} of {self._child_id}>"


class FlowChild:
    """A continuable child of a script.  Received from `Flow.spawn`, never made."""

    _recall: Recall
    _id: str
    _place: Place
    _assignments: list[Assignment]
    _sent: int

    def __init__(self) -> None:
        raise TypeError("a child is received from flow.spawn, not made")

    @classmethod
    def _make(
        cls, recall: Recall, child_id: str, place: Place, messages: tuple[str, ...]
    ) -> FlowChild:
        child = object.__new__(cls)
        child._recall = recall
        child._id = child_id
        child._place = place
        child._assignments = [Assignment._make(recall, child_id, messages)]
        child._sent = 0
        return child

    @property
    def id(self) -> str:
        """The id of its session."""
        return self._id

    @property
    def assignment(self) -> Assignment:
        """The assignment that it was given last."""
        return self._assignments[-1]

    async def send(self, text: Content, *, key: str | None = None) -> Assignment:
        """Send it a followup, which becomes one later turn; returns when it is durable.

        In a resumed run the same send, counted for this child, gives the assignment
        that it gave before, and runs nothing that has ended.

        Args:
            text: what it is told.
            key: the script's own name for it, instead of its number.

        Raises:
            DeclarationError: `blank-prompt` or `bad-option`; nothing happened.
            KeyConflictError: the key names another text.
            and what `Supervisor.followup` raises.
        """
        check_prompt(text)
        check_name("key", key)
        step: str | int | None = key
        if step is None:
            self._sent += 1
            step = self._sent
        place = Place((*self._place.steps, "send", step))
        digest = digest_text(canonical_json(list(to_blocks(text))))
        name = key_at(place, digest, named=key is not None)
        messages = await self._recall.send(self._id, text, name)
        assignment = Assignment._make(self._recall, self._id, messages)
        self._assignments.append(assignment)
        return assignment

    async def reports(self) -> list[str]:
        """All texts that it reported, in order, from the durable log of the root."""
        return await self._recall.reports(self._id)

    async def outcome(self) -> Outcome[Any]:
        """Wait for the outcome of the assignment that it was given last."""
        return await self.assignment.outcome()

    def __repr__(self) -> str:
        return f"<FlowChild {self._id}>"
