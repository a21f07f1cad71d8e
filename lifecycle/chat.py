"""A conversation: one person and one interactive root, on a running supervisor.

Lives here: what is said to the root and when the next line is asked for, what of the
tree's activity is shown meanwhile, and what an interrupt means.  It knows lines and a
screen, not where they come from or how they look; `cli_chat.py` brings a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import anyio

from ..mailbox.errors import ActivationClosingError, DrainingError, UnauthorizedError
from ..mailbox.events import (
    Accepted,
    Event,
    RequestFailed,
    StepEnded,
    TurnEnded,
)
from .cli_progress import Watch, activity_line
from .cli_text import Line
from .teardown import until_gone

if TYPE_CHECKING:
    from .handle import Agent
    from .supervisor import Supervisor

__all__ = ["HELP", "Chat", "ChatScreen", "Lines"]

HELP = (
    "write, and press enter; Ctrl-C stops the answer, once more leaves; Ctrl-D leaves"
    " too. /agents shows the tree of agents, /help this."
)

_LAST = 60


class Lines(Protocol):
    """Where the person's words come from."""

    async def next(self) -> str | None:
        """The next line, without its end; `None` when there will be none.

        It is cancelled safely.
        """
        ...


class ChatScreen(Protocol):
    """Where the conversation is shown.  Every method is plain and quick."""

    talks: bool
    """Whether a person is there, who is asked for lines and may give commands."""

    def ask(self) -> None:
        """It is the person's turn to write."""
        ...

    def answer(self, text: str) -> None:
        """A piece of what the root says."""
        ...

    def end_answer(self) -> None:
        """What the root said is whole."""
        ...

    def activity(self, line: Line) -> None:
        """Something happened in the tree."""
        ...

    def note(self, text: str) -> None:
        """A sentence for the person."""
        ...


class Chat:
    """Leads a conversation.

    Args:
        supervisor: the running supervisor.
        root: the interactive root.
        lines: what the person writes.
        screen: what the person sees.

    Observe it with the supervisor, so that it hears what happens: `observe(chat)`.
    """

    def __init__(
        self, supervisor: Supervisor, root: Agent, lines: Lines, screen: ChatScreen
    ) -> None:
        self.interrupts: int = 0
        """How many interrupts came since the person's last line."""
        self.failures: int = 0
        """How many turns of the root failed, or were stopped by a limit."""
        self._supervisor = supervisor
        self._root = root
        self._lines = lines
        self._screen = screen
        self._streamed = ""
        self._asking = False
        self._leaving = anyio.Event()
        self._watch = Watch(self._named)
        self._watch.progress = _Activity(screen)

    # -- the person --------------------------------------------------------------------

    async def run(self) -> None:
        """Talk until the person leaves or there are no more lines."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._talk)
            await self._leaving.wait()
            group.cancel_scope.cancel()

    def interrupt(self) -> None:
        """Stop the open turn; when that was asked for before, leave."""
        self.interrupts += 1
        if self.interrupts > 1:
            self.leave()
        elif self._root.state == "running":
            self._supervisor.interrupt(self._root.id)
            self._screen.note("stopped; Ctrl-C once more leaves")
        else:
            self._screen.note("Ctrl-C once more leaves")
            self._ask_again()

    def leave(self) -> None:
        """End the conversation; who opened the store brings to rest what runs."""
        self._leaving.set()

    async def _talk(self) -> None:
        root = self._root
        try:
            await root.wait_idle()
            while True:
                self._asking = self._screen.talks
                if self._asking:
                    self._screen.ask()
                line = await self._lines.next()
                self._asking = False
                if line is None:
                    break
                self.interrupts = 0
                if not line.strip() or self._command(line):
                    continue
                await self._supervisor.tell(root, line)
                await root.wait_idle()
            if not self._screen.talks:
                await self._rest()
        except (ActivationClosingError, DrainingError, UnauthorizedError):
            # The root has come to its end meanwhile, by somebody else's doing.
            self._screen.note(f"the conversation has ended: its root is {root.state}")
        self.leave()

    def _command(self, line: str) -> bool:
        """Do what a command asks; only where a person writes is there one."""
        if not self._screen.talks or not line.startswith("/"):
            return False
        word = line.split()[0]
        if word == "/agents":
            for agent in self._watch.tree():
                cells = activity_line(agent, _LAST)
                padded = [(f"{text}  ", style) for text, style in cells if text]
                self._screen.activity(tuple(padded))
        else:
            self._screen.note(
                HELP if word == "/help" else f"there is no {word}: {HELP}"
            )
        return True

    async def _rest(self) -> None:
        """Without a person there: wait until nothing of the tree runs any more."""
        root = self._root
        while True:
            await root.wait_idle()
            children = list((root._activation.children or {}).values())
            if not children:
                return
            await until_gone(self._supervisor._runtime.backend, children[0])

    def _ask_again(self) -> None:
        if self._asking:
            self._screen.ask()

    # -- what happens ------------------------------------------------------------------

    def on_event(self, session_id: str, seq: int, event: Event) -> None:
        """An event became durable."""
        if session_id != self._root.id:
            self._watch.on_event(session_id, seq, event)
            return
        if isinstance(event, StepEnded):
            self._said(event)
        if isinstance(event, (RequestFailed, TurnEnded)) and self._streamed:
            # What comes now is not a part of the answer.
            self._screen.end_answer()
        if isinstance(event, (StepEnded, RequestFailed, TurnEnded)):
            self._streamed = ""
        if _is_shown(event):
            self._watch.on_event(session_id, seq, event)
        if isinstance(event, TurnEnded):
            self.failures += event.status in ("failed", "stopped")
            self._ask_again()

    def on_delta(self, session_id: str, turn: int, step: int, text: str) -> None:
        """A model streamed a piece of text."""
        if session_id == self._root.id and text:
            self._streamed += text
            self._screen.answer(text)

    def _said(self, event: StepEnded) -> None:
        """What the root said: all of it, if none of it has come in pieces."""
        rest = event.text
        if self._streamed and rest.startswith(self._streamed):
            rest = rest[len(self._streamed) :]
        if rest:
            self._screen.answer(rest)
        if event.text or self._streamed:
            self._screen.end_answer()

    def _named(self, session_id: str) -> tuple[str, str | None, int] | None:
        agent = self._supervisor.agent(session_id)
        return None if agent is None else (agent.name, agent.parent_id, agent.depth)


def _is_shown(event: Event) -> bool:
    """Whether the root's activity tells more than the conversation itself does."""
    if isinstance(event, StepEnded):
        return bool(event.calls)
    if isinstance(event, Accepted):
        return event.source != "tell"
    if isinstance(event, TurnEnded):
        return event.cause != "interrupted"
    if isinstance(event, RequestFailed):
        return event.code != "cancelled"
    return True


class _Activity:
    """Shows the lines of the tree's activity; the progress port of `Watch`."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen

    def start(self) -> None:
        """Nothing is to be prepared."""

    def changed(self, told: Line | None) -> None:
        """Show the line, without its time: a conversation is read as it comes."""
        if told is not None:
            self._screen.activity(told[1:])

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._screen.note(text)

    def stop(self) -> None:
        """Nothing is left to show."""
