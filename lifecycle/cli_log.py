"""`ramet log`: what happened in one session.

Lives here: how its log is read, followed and written out.  What an event is in words is
`cli_narrate.py`'s.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from ..mailbox.codec import encode
from ..mailbox.events import Event
from .cli_narrate import Narrator
from .cli_store import add_store_argument, find_session, opened_reader
from .cli_view import Changed, Screen, wait_for

__all__ = ["add_parser"]

_LATEST_S = 60.0


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add the command to a command line."""
    parser = subparsers.add_parser(
        "log",
        description="what happened in one session; -f follows it",
        epilog=(
            "A line has its time, its turn and step (2.3 is the third step of the"
            " second turn), and what happened."
        ),
    )
    parser.add_argument(
        "session",
        metavar="ID",
        help="the session: its id, a part of it, or the agent's name if it has one",
    )
    add_store_argument(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on with what happens, until it is interrupted",
    )
    parser.add_argument("--full", action="store_true", help="whole texts")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line for each event"
    )
    parser.set_defaults(func=_run)


def _run(arguments: argparse.Namespace) -> int:
    screen = Screen()
    narrator = Narrator(screen.width, full=arguments.full)
    with opened_reader(arguments) as reader:
        session = find_session(reader, arguments.session)
        changed = Changed(reader.changes)
        seq = 0
        try:
            while True:
                events = reader.load(session, seq)
                if arguments.json:
                    _write_json(screen, session, seq, events)
                else:
                    for event in events:
                        screen.show(narrator.tell(event))
                seq += len(events)
                if not arguments.follow:
                    return 0
                while not wait_for(changed, _LATEST_S):
                    pass
        except KeyboardInterrupt:
            if not arguments.follow:
                raise
            return 0


def _write_json(
    screen: Screen, session: str, seq: int, events: Sequence[Event]
) -> None:
    """One line for each event: the stored text, with its session and its place."""
    for place, event in enumerate(events, seq):
        stored = json.loads(encode(event))
        screen.text(json.dumps({"session": session, "seq": place, **stored}))
