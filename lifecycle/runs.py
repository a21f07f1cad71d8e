"""Runs of scripts in a store: which there are, and how each can be taken up again.

Lives here: the names of the journal events that begin and end a run, and what they say.
It needs a reader of a store and nothing else, so that the command line can look before
it opens a store for writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ..mailbox.canonical import read_canonical
from ..mailbox.errors import CorruptLogError, RametError, UnsupportedLogError
from ..mailbox.events import Created, Journaled
from ..mailbox.store import Reader

__all__ = [
    "ENDED",
    "RESUMED",
    "STARTED",
    "ReplayRefusedError",
    "Run",
    "read_run",
    "runs",
]

STARTED = "run.started"
RESUMED = "run.resumed"
ENDED = "run.ended"

_PAGE = 500


class ReplayRefusedError(RametError):
    """Raised when a run cannot be taken up again, before any call of it (A-171).

    `code` is `source-run-unusable` or `target-changed`.
    """

    code: str = "source-run-unusable"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


@attrs.frozen
class Run:
    """A run of a script, as its journal tells it.

    Attributes:
        id: the session of its root.
        name: the name of its root's spec.
        script: the path of the script.
        digest: of the script's bytes.
        args: the words that it was given.
        input: the JSON data that it was given.
        model: the name of the model that it was given, or `None`.
        backend: what it ran on.
        started_at: milliseconds since 1970.
        status: how it ended, or `None` while it has not.
        result: what it gave, when it completed.
        ended_at: milliseconds since 1970, or `None` while it has not ended.
        folder: where it was started: relative names are meant from there.
    """

    id: str
    name: str
    script: str
    digest: str
    args: tuple[str, ...]
    input: Any
    model: str | None
    backend: str
    started_at: int
    status: str | None
    result: Any = None
    ended_at: int | None = None
    folder: str | None = None


def runs(reader: Reader) -> Iterator[Run]:
    """Every run in a store, oldest first; what cannot be read is left out."""
    after: str | None = None
    while True:
        page = reader.children(None, after, _PAGE)
        for row in page:
            after = row.session
            if row.kind == "interactive":
                try:
                    run = _run(reader, row.session)
                except (CorruptLogError, UnsupportedLogError, ReplayRefusedError):
                    continue
                if run is not None:
                    yield run
        if len(page) < _PAGE:
            return


def read_run(reader: Reader, session: str) -> Run:
    """The run whose root is a session.

    Raises:
        ReplayRefusedError: `source-run-unusable`: it is no run, or cannot be read.
    """
    try:
        run = _run(reader, session)
    except (CorruptLogError, UnsupportedLogError) as error:
        raise ReplayRefusedError(f"run {session} cannot be read: {error}") from error
    if run is None:
        raise ReplayRefusedError(
            f"session {session} is no run of a script: only those can be resumed"
        )
    return run


def _run(reader: Reader, session: str) -> Run | None:
    events = reader.load(session)
    if not events or not isinstance(events[0], Created):
        return None
    journal = [event for event in events if isinstance(event, Journaled)]
    if not journal or journal[0].kind != STARTED:
        return None
    end: dict[str, Any] = {}
    ended_at: int | None = None
    model: str | None = None
    for event in journal:
        if event.kind == ENDED:
            end, ended_at = _data(event, session), event.at
        elif event.kind in (STARTED, RESUMED):
            end, ended_at = {}, None
            model = _data(event, session).get("model") or model
    started = _data(journal[0], session)
    try:
        return Run(
            session,
            events[0].spec.name,
            started["script"],
            started["digest"],
            tuple(started["args"]),
            started["input"],
            model,
            started.get("backend", "asyncio"),
            journal[0].at,
            end.get("status"),
            end.get("result"),
            ended_at,
            started.get("folder"),
        )
    except (KeyError, TypeError) as error:
        raise ReplayRefusedError(
            f"the journal of run {session} lacks {error}"
        ) from error


def _data(event: Journaled, session: str) -> dict[str, Any]:
    try:
        data = read_canonical(event.data)
    except RametError as error:
        raise ReplayRefusedError(
            f"the journal of run {session} cannot be read: {error}"
        ) from error
    if not isinstance(data, dict):
        raise ReplayRefusedError(f"the journal of run {session} is not of its form")
    return data
