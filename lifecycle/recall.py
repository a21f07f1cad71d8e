"""Recall: the continuable children of a script, and what became of them.

Lives here: the rules by which a resumed script gets its children again.  A child and
what it is sent are asked for by their keys; what has ended runs no more, and a child
whose turn was cut is told to go on, in its own session.  It knows keys, not how they
are made.  One-shot calls are `calling.py`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ..actors.agent import AgentSpec
from ..actors.outcome import Outcome
from ..mailbox.errors import DrainingError, SessionHeldError
from ..mailbox.events import Accepted, TurnOpened
from ..mailbox.keys import RESERVED
from ..mailbox.message import Content, to_blocks
from ..mailbox.store import KeyRow, Reader
from .handle import Agent
from .places import again

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["CUT", "GO_ON", "Recall"]

GO_ON = "Your previous turn was cut off. Go on with this:"
"""What a child is told, before the text itself, when its turn was cut."""

_MOST_ATTEMPTS = 20
CUT = frozenset(("crashed", "drain", "interrupted"))
"""The causes of an end that nobody meant: the work itself is not over."""


class Recall:
    """Asks, for one root; what was asked in an earlier process is recalled.

    Args:
        supervisor: the running supervisor.
        root: the root of the run.
    """

    def __init__(self, supervisor: Supervisor, root: Agent) -> None:
        self.root = root
        self.supervisor = supervisor
        self.interrupted = False
        """Whether the run is being interrupted: what fails then is nobody's answer."""
        self._asked: set[str] = set()
        self._reports: dict[str, list[tuple[str, str]]] = {}
        self._after = 0

    async def hold(self) -> None:
        """While the run is being interrupted: wait for the cancellation that follows.

        A script must not take for a failure what only the interruption brought about.
        """
        if self.interrupted:
            await anyio.sleep_forever()

    # -- continuable children ----------------------------------------------------------

    async def start(
        self, spec: AgentSpec, prompt: Content, key: str
    ) -> tuple[str, tuple[str, ...]]:
        """A continuable child, recalled or started: its id, and the messages that stand
        for its first assignment, the last one in force.

        Raises:
            what `Supervisor.start_child` raises.
        """
        fresh = await self._is_fresh(key)
        try:
            started = await self.supervisor._sending.start_child(
                self.root, spec, prompt, key=key, own=True, known=True
            )
            messages: tuple[str, ...] = (started.message_id,)
            if not fresh:
                messages = await self._continued(
                    started.child_id, messages, prompt, key
                )
        except DrainingError:
            await self.hold()
            raise
        return started.child_id, messages

    async def send(self, child_id: str, content: Content, key: str) -> tuple[str, ...]:
        """A followup to a child, recalled or sent: the messages that stand for it.

        Raises:
            what `Supervisor.followup` raises.
        """
        fresh = await self._is_fresh(key)
        try:
            message = await self._followup(child_id, content, key)
            if fresh:
                return (message,)
            return await self._continued(child_id, (message,), content, key)
        except DrainingError:
            await self.hold()
            raise

    async def outcome(self, messages: tuple[str, ...]) -> Outcome[Any]:
        """The outcome of the last of an assignment's messages, once there is one."""
        outcome = await self.supervisor.wait(messages[-1])
        if outcome.cause in CUT:
            await self.hold()
        return outcome

    async def _continued(
        self, child_id: str, messages: tuple[str, ...], content: Content, key: str
    ) -> tuple[str, ...]:
        """See to it that an assignment of an earlier process comes to its end."""
        for attempt in range(2, _MOST_ATTEMPTS + 1):
            outcome = await self.supervisor.outcome(messages[-1])
            if outcome is None:
                await self._awaken(child_id)
                break
            if not _is_cut(outcome):
                break
            name = again(key, attempt)
            known = not await self._is_fresh(name)
            more = (GO_ON, *to_blocks(content))
            messages = (*messages, await self._followup(child_id, list(more), name))
            if not known:
                break
        return messages

    async def _followup(self, child_id: str, content: Content, key: str) -> str:
        return await self.supervisor._sending.followup(
            self.root, child_id, content, key=key, own=True, known=True
        )

    async def _awaken(self, child_id: str) -> None:
        """Let what waits in a stored session run."""
        if self.supervisor.agent(child_id) is not None:
            return
        try:
            child = await self.supervisor.resume(child_id)
        except SessionHeldError:
            return
        if child._activation.session.inbox.parked:
            # Only a wakeup lets it run; so that a wait says that, it settles again.
            child.release()

    async def _is_fresh(self, key: str) -> bool:
        """Whether a key is asked for the first time, or by this process before."""
        fresh = key in self._asked or await self._row(key) is None
        if fresh:
            self._asked.add(key)
        return fresh

    async def _row(self, key: str) -> KeyRow | None:
        storage = self.supervisor._runtime.storage
        return await storage.read(Reader.find, self.root.id, key)

    # -- reports -----------------------------------------------------------------------

    async def reports(
        self, child_id: str, messages: tuple[str, ...] | None = None
    ) -> list[str]:
        """What a child reported, from the durable log of the root.

        Args:
            child_id: the child.
            messages: only what it reported by its tool in turns that answered one of
                these; `None`: everything.
        """
        await self._read_reports()
        found = self._reports.get(child_id, [])
        if messages is None:
            return [text for _, text in found]
        prefixes = tuple(
            [
                f"{RESERVED}{child_id}/{turn}/"
                for turn in await self._turns(child_id, frozenset(messages))
            ]
        )
        return [text for key, text in found if key.startswith(prefixes)]

    async def _turns(self, child_id: str, messages: frozenset[str]) -> list[int]:
        storage = self.supervisor._runtime.storage
        events = await storage.read(Reader.load, child_id)
        return [
            event.turn
            for event in events
            if isinstance(event, TurnOpened) and not messages.isdisjoint(event.claimed)
        ]

    async def _read_reports(self) -> None:
        """Read on in the root's log; many may do so at once."""
        begin = self._after
        storage = self.supervisor._runtime.storage
        events = await storage.read(Reader.load, self.root.id, begin)
        for event in events[self._after - begin :]:
            if isinstance(event, Accepted) and event.source == "report":
                text = "\n".join(event.content)
                report = (event.key or "", text)
                self._reports.setdefault(event.sender, []).append(report)
        self._after = max(self._after, begin + len(events))


def _is_cut(outcome: Outcome[Any]) -> bool:
    """Whether an assignment of a child is to be gone on with in a resumed run.

    What somebody stopped on purpose, and what a limit stopped, stays as it is.
    """
    if outcome.status == "failed":
        return True
    # A turn that an agent or the host interrupted has the cause of an interrupted run.
    on_purpose = (outcome.detail or "").startswith("interrupted by ")
    return outcome.cause in CUT and not on_purpose
