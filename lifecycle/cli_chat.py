"""`ramet chat`: a conversation in the terminal, from words to its end.

Lives here: the parser, which session is gone on with, what its root is made from, and
the signals.  What is said when is `chat.py`'s, how it looks `terminal_chat.py`'s.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio
import attrs
from anyio.abc import TaskStatus

from ..actors.agent import AgentSpec
from ..actors.tools_agents import delegation_setup
from ..actors.tools_talk import control_setup, report_setup
from ..mailbox.errors import UsageError
from ..mailbox.events import StepEnded
from .chat import HELP, Chat, ChatScreen
from .cli_store import (
    add_store_argument,
    default_store,
    find_session,
    opened_reader,
    store_option,
)
from .interruption import ending_signals
from .opening import open as open_supervisor
from .runs import ReplayRefusedError, read_run
from .terminal_chat import FileLines, PlainChat, TerminalChat

if TYPE_CHECKING:
    pass

__all__ = ["add_parsers"]

_CHAT = "talk with an agent in the terminal; it is stored, and --resume goes on"
_NAME = "chat"
_FAILED = 1
_INTERRUPTED = 130

_INSTRUCTIONS = "You talk with a person in a terminal. Be helpful and brief."
_HELPER = """Does one piece of work on its own.

Do what you are asked, and give the whole result."""


@attrs.frozen(kw_only=True, eq=False)
class Talk:
    """What is to be opened.

    Attributes:
        store: the path of the store.
        option: how a command names that store, beginning with a blank; or nothing.
        model: the name of the model.
        spec: what the root is made from.
        session: the session that is gone on with, or `None`.
        last: what the root said last in it, or `None`.
        agents: whether it may start agents of its own.
    """

    store: str
    option: str
    model: str
    spec: AgentSpec
    session: str | None = None
    last: str | None = None
    agents: bool = False


def add_parsers(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add `chat` to the command line."""
    chat = subparsers.add_parser("chat", description=_CHAT, epilog=HELP.capitalize())
    add_store_argument(chat)
    chat.add_argument(
        "--model", metavar="NAME", help="local, local:FILE.gguf or openai:NAME"
    )
    chat.add_argument(
        "--resume", metavar="ID", help="go on with this conversation: a part of its id"
    )
    chat.add_argument(
        "--instructions", metavar="TEXT", help="what the agent is told of its task"
    )
    chat.add_argument(
        "--agents",
        action=argparse.BooleanOptionalAction,
        help="whether it may start agents of its own; default: not with a local model,"
        " which is too small for it",
    )
    chat.add_argument(
        "--backend",
        choices=("asyncio", "trio"),
        default="asyncio",
        help="what it runs on; default: asyncio",
    )
    chat.set_defaults(func=_chat)


def _chat(arguments: argparse.Namespace) -> int:
    if arguments.model is None:
        raise UsageError("ramet chat needs --model NAME, for example --model local")
    talk = Talk(
        store=default_store(arguments),
        option=store_option(arguments),
        model=arguments.model,
        spec=AgentSpec(_NAME, arguments.instructions or _INSTRUCTIONS),
        agents=_may_start(arguments),
    )
    if arguments.resume is not None:
        if arguments.instructions is not None:
            raise UsageError("a conversation keeps the instructions that it began with")
        talk = _found(arguments, talk)
    try:
        return anyio.run(partial(_converse, talk), backend=arguments.backend)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _may_start(arguments: argparse.Namespace) -> bool:
    if arguments.agents is not None:
        return bool(arguments.agents)
    return str(arguments.model).partition(":")[0] != "local"


def _found(arguments: argparse.Namespace, talk: Talk) -> Talk:
    """The conversation that a person means.

    Raises:
        UsageError: it is no conversation; it says what else goes on with it.
    """
    with opened_reader(arguments) as reader:
        session = find_session(reader, arguments.resume)
        row = reader.row(session)
        assert row is not None
        if row.kind != "interactive":
            raise UsageError(
                f"{session} ({row.name}) is {row.kind}: nobody talks to it"
            )
        with contextlib.suppress(ReplayRefusedError):
            read_run(reader, session)
            raise UsageError(
                f"{session} is a run of a script: `ramet resume` goes on with it"
            )
        said = [one for one in reader.load(session) if isinstance(one, StepEnded)]
    spec = attrs.evolve(talk.spec, name=row.name)
    last = next((one.text for one in reversed(said) if one.text.strip()), None)
    return attrs.evolve(talk, spec=spec, session=session, last=last)


async def _converse(talk: Talk) -> int:
    """Talk on an open store until the person leaves; gives the exit status."""
    helper = AgentSpec("helper", _HELPER)
    async with open_supervisor(
        talk.store, specs=[talk.spec, helper], model=talk.model
    ) as supervisor:
        supervisor.register_setup(report_setup())
        if talk.agents:
            supervisor.register_setup(control_setup())
            supervisor.register_setup(delegation_setup([helper]))
        screen = _screen()
        if talk.session is None:
            root = await supervisor.start_root(talk.spec, interactive=True)
        else:
            if talk.last is not None and screen.talks:
                screen.answer(talk.last)
                screen.end_answer()
            root = await supervisor.resume(talk.session)
        if screen.talks:
            screen.note(HELP)
        chat = Chat(supervisor, root, FileLines(sys.stdin.fileno()), screen)
        stop = supervisor.observe(chat)
        try:
            async with anyio.create_task_group() as group:
                await group.start(_listen, chat)
                await chat.run()
                group.cancel_scope.cancel()
        finally:
            stop()
        # What is left is to come to rest; who cannot wait for that ends the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with contextlib.suppress(OSError):
            # After a hangup there is no terminal to say it on.
            screen.note(
                f"`ramet chat --resume {root.id}{talk.option}` goes on with this"
                " conversation"
            )
    if chat.interrupts > 1:
        return _INTERRUPTED
    # A person has seen what failed, and went on; a program has only the status.
    return _FAILED if chat.failures and not screen.talks else 0


def _screen() -> ChatScreen:
    """What fits: a terminal for both directions, or plain streams."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return TerminalChat(sys.stdout)
    return PlainChat(sys.stdout, sys.stderr)


async def _listen(chat: Chat, *, task_status: TaskStatus[None]) -> None:
    """Receive signals until the conversation is left; the next one is fatal then."""
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGINT:
                chat.interrupt()
            else:
                chat.interrupts = 2
                chat.leave()
