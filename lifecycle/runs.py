"""Runs of scripts in a store: which there are, and how each can be taken up again.

Lives here: what the journal events say that begin and end a run, and when a run may not
be taken up again.  It needs a reader of a store and nothing else, so that the command
line can look before it opens a store for writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..mailbox.canonical import canonical_json, read_canonical
from ..mailbox.errors import CorruptLogError, RametError, UnsupportedLogError
from ..mailbox.events import Created, Journaled
from ..mailbox.store import Reader
from .recorded import ENDED, RESUMED, STARTED

__all__ = ["ReplayRefusedError", "Run", "check_replay", "read_run", "runs"]

_PAGE = 500


class ReplayRefusedError(RametError):
    """Raised when a run cannot be taken up again, before any call of it (A-171).

    `code` is `source-run-unusable`, `target-changed` or `no-recorded-calls`.
    """

    code: str = "source-run-unusable"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


_UNREADABLE = (CorruptLogError, UnsupportedLogError, ReplayRefusedError)


@attrs.frozen
class Run:
    """A run of a script, as its journal tells it.

    Attributes:
        id: the session of its root.
        name: the name of its root's spec.
        script: the path of the script.
        digest: of the script and the local modules that it imports, as it was last.
        sources: the digest of each of these files, by its name.
        args: the words that it was given.
        input: the JSON data that it was given.
        model: the name of the model that it was given, or `None`.
        backend: what it ran on.
        started_at: milliseconds since 1970.
        status: how it ended, or `None` while it has not.
        result: what it gave, when it completed.
        ended_at: milliseconds since 1970, or `None` while it has not ended.
        folder: where it was started: relative names are meant from there.
        called: whether it made any call or started any child.
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
    sources: dict[str, str] = attrs.field(factory=dict)
    called: bool = True


def runs(reader: Reader, faults: list[str] | None = None) -> Iterator[Run]:
    """Every run in a store, oldest first; what cannot be read is left out.

    Args:
        reader: the store.
        faults: gets a text for each root that cannot be read, and so may be a run.
    """
    after: str | None = None
    while True:
        page = reader.children(None, after, _PAGE)
        for row in page:
            after = row.session
            if row.kind == "interactive":
                try:
                    run = _run(reader, row.session)
                except _UNREADABLE as error:
                    if faults is not None:
                        faults.append(f"session {row.session}: {error}")
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
        row = reader.row(session)
        hint = "only those can be resumed"
        if row is not None and row.kind == "interactive" and row.parent is None:
            hint = f"`ramet chat --resume {session}` goes on with a conversation"
        raise ReplayRefusedError(f"session {session} is no run of a script: {hint}")
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
    latest: dict[str, Any] = {}
    for event in journal:
        if event.kind == ENDED:
            end, ended_at = _data(event, session), event.at
        elif event.kind in (STARTED, RESUMED):
            end, ended_at = {}, None
            data = _data(event, session)
            latest |= data
            model = data.get("model") or model
    started = _data(journal[0], session)
    try:
        return Run(
            session,
            events[0].spec.name,
            started["script"],
            latest["digest"],
            tuple(latest["args"]),
            latest["input"],
            model,
            started.get("backend", "asyncio"),
            journal[0].at,
            end.get("status"),
            end.get("result"),
            ended_at,
            started.get("folder"),
            dict(latest.get("sources") or {}),
            any(event.kind == "call.queued" for event in journal)
            or bool(reader.children(session, None, 1)),
        )
    except (KeyError, TypeError) as error:
        raise ReplayRefusedError(
            f"the journal of run {session} lacks {error}"
        ) from error


def check_replay(
    run: Run,
    *,
    digest: str,
    sources: Mapping[str, str],
    data: Any,
    args: Sequence[str],
    allowed: bool,
) -> None:
    """Refuse to take up a run whose target has changed, or that has no calls (A-171).

    Args:
        run: the recorded run.
        digest: of the script that would go on with it.
        sources: the digests of the files that the script is made of.
        data: the input that it would have.
        args: the words that it would have.
        allowed: whether a change of script, input or words is allowed.

    Raises:
        ReplayRefusedError: `target-changed` or `no-recorded-calls`.
    """
    changed = []
    if digest != run.digest:
        names = sorted(
            name
            for name in {*sources, *run.sources}
            if run.sources and sources.get(name) != run.sources.get(name)
        )
        changed.append(f"the script ({', '.join(names)})" if names else "the script")
    if canonical_json(data) != canonical_json(run.input):
        changed.append("the input")
    if tuple(args) != run.args:
        changed.append("the words after --")
    if changed and not allowed:
        raise ReplayRefusedError(
            f"{' and '.join(changed)} changed since run {run.id} began:"
            " --allow-changed-source goes on all the same",
            "target-changed",
        )
    if not run.called:
        raise ReplayRefusedError(
            f"run {run.id} made no call, so that there is nothing to go on with:"
            " start it again with `ramet run`",
            "no-recorded-calls",
        )


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
