"""A working tree is killed at writes of its store; the next open keeps every law.

Each point is a kind of event, a write that holds one, and a moment of that write.  An
ordinary run takes 20 points, `--full-sweeps` takes 100; every kind of event has one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from ramet import SqliteReader
from ramet.lifecycle.laws import Logs, check_laws, logs_of
from ramet.mailbox.events import (
    Accepted,
    CallEnded,
    Concluded,
    Created,
    Ended,
    Event,
    RequestFailed,
    StepEnded,
    TurnEnded,
)
from ramet.mailbox.message import ASSIGNING
from ramet.mailbox.session import Session, fold
from tests.lifecycle.commands import environment
from tests.lifecycle.killed_tree import KINDS, MOMENTS, Point, Tree
from tests.lifecycle.stage import HANG_S, OrderObserver, of

KILLED = -9
RARE = frozenset(
    "Concluded Discarded Interrupted Journaled Promoted RequestFailed Told".split()
)
"""Kinds of which a run writes so few that only the first is sure to come."""


def points(*, full: bool) -> list[tuple[str, Point]]:
    """Where to kill, and on which backend: each kind of event, and any writes besides.

    Whether a run goes on from an earlier kill shows in its kind: only then is there
    somebody who was not told.
    """
    dice = random.Random(9)
    chosen = []
    for number, kind in enumerate(KINDS):
        for place, moment in enumerate(MOMENTS):
            if full or place == number % len(MOMENTS):
                nth = 1 if kind in RARE else dice.randint(1, 4)
                chosen.append(Point(moment, kind, nth))
    while len(chosen) < (100 if full else 20):
        moment = MOMENTS[len(chosen) % len(MOMENTS)]
        chosen.append(Point(moment, "", dice.randint(1, 40)))
    backends = ("asyncio", "trio")
    return [(backends[(n // 4 + n) % 2], one) for n, one in enumerate(chosen)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each point."""
    if "point" in metafunc.fixturenames:
        chosen = points(full=bool(metafunc.config.getoption("--full-sweeps")))
        names = [f"{b}-{p.moment}-{p.kind or 'any'}-{p.nth}" for b, p in chosen]
        metafunc.parametrize(("backend", "point"), chosen, ids=names)


class Killer:
    """The process that works and dies, as often as it is asked to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lifecycle.killed_tree"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, backend: str, point: Point) -> int:
        """Let a tree work in a folder until it is killed; gives how it ended."""
        asked = {
            "folder": str(folder),
            "backend": backend,
            "point": [point.moment, point.kind, point.nth],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    made = Killer()
    yield made
    made.end()


@pytest.fixture(scope="module")
def counted(remark: Callable[[str], None]) -> Iterator[Counter[str]]:
    """Counts the kills, by the kind of event that was being written."""
    counts: Counter[str] = Counter()
    yield counts
    if counts:
        each = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        remark(f"kill sweep: {counts.total()} writes of a store killed: {each}")


def cut_short(folder: Path, killer: Killer, backend: str) -> None:
    """Leave in a folder a store whose tree was killed in the middle of a turn."""
    assert killer.run(folder, backend, Point("after", "CallEnded", 1)) == KILLED


def tear(folder: Path) -> None:
    """Take away a half of the last commit, as a loss of power before its sync does."""
    note = folder / "torn"
    before, after = json.loads(note.read_text())
    assert before < after, "the write-ahead log began anew: choose another write"
    os.truncate(folder / "store.db-wal", before + (after - before) // 2)


@pytest.mark.case(
    "R-171", "R-172", "R-173", "R-175", "R-176", "R-177", "R-179", "R-232", "A-056"
)
def test_a_kill_at_any_write_keeps_every_law(
    backend: str,
    point: Point,
    tmp_path: Path,
    killer: Killer,
    counted: Counter[str],
) -> None:
    if point.kind == "Told":
        cut_short(tmp_path, killer, backend)
    status = killer.run(tmp_path, backend, point)
    assert status == KILLED, (tmp_path / "err").read_text()
    if point.moment == "torn":
        tear(tmp_path)
    reopen_and_check(tmp_path, backend)
    counted[f"{point.moment} {point.kind or 'any'}"] += 1


def reopen_and_check(folder: Path, backend: str) -> None:
    """Let a calm tree finish the work, and look at every promise that a kill tests."""
    killed = stored(folder)
    sent = said(folder)
    tree = Tree(folder, calm=True)
    observer = OrderObserver()

    async def finish() -> None:
        with anyio.fail_after(HANG_S):
            await tree.run(str(tree.path), observer)

    anyio.run(finish, backend=backend)
    with_reader = SqliteReader(tree.path)
    try:
        check_laws(with_reader, tree.requests, observer.entries)
    finally:
        with_reader.close()
    final = stored(folder)
    for name, events in killed.items():
        assert final[name][: len(events)] == events, "what was stored has changed"
        _check_cut(name, events, final)
        _check_stopped(events, final[name])
    _check_tools(folder, killed, final)
    _check_sent(sent, tree.sent, final)
    for name, events in final.items():
        session = fold(events)
        assert session.activation is None, f"{name} has no end"
        assert session.open is None, f"{name} has an open turn"
        # The prompt of a call that never began stays with it; the call has crashed.
        assert session.returning or not session.inbox.waiting, f"{name} is deaf"
        assert not session.untold or session.header.parent is None


def stored(folder: Path) -> dict[str, list[Event]]:
    """Every log of the store of a folder, by a reader from outside."""
    if not (folder / "store.db").exists():
        return {}
    reader = SqliteReader(folder / "store.db")
    try:
        return logs_of(reader)
    finally:
        reader.close()


def said(folder: Path) -> dict[str, str]:
    """What each key stood for, as far as it was acknowledged before the kill."""
    path = folder / "sent"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(json.loads(line) for line in lines)


def _check_cut(name: str, events: list[Event], final: Logs) -> None:
    """A cut turn is closed with its cause, repeats nothing, and is told once."""
    session = fold(events)
    if session.activation is None:
        return
    after = final[name][len(events) :]
    ended = of(after, Ended)
    assert ended[0].reason == "crashed", f"the end of {name}"
    repair = after[: after.index(ended[0])]
    assert not of(repair, StepEnded), "a request of a cut turn was made again"
    assert not of(repair, RequestFailed)
    if session.open is None:
        return
    turn = of(repair, TurnEnded)
    assert [(it.status, it.cause) for it in turn] == [("failed", "crashed")]
    _check_calls(session, repair, final)
    header = session.header
    claimed = [message.id for message in session.open if message.source in ASSIGNING]
    if session.returning:
        (concluded,) = of(repair, Concluded)
        assert (concluded.status, concluded.cause) == ("failed", "crashed")
    if header.parent is not None and (not session.returning or header.background):
        for message in claimed:
            told = [
                event
                for event in of(final[header.parent], Accepted)
                if message in event.about
            ]
            assert len(told) == 1, f"{message} was told {len(told)} times"


def _check_calls(session: Session, repair: Sequence[Event], final: Logs) -> None:
    """Calls without a result say that nobody knows, unless the recipient's log does."""
    calls = session.calls or ()
    results = {event.place: event for event in of(repair, CallEnded)}
    open_ = [place for place, it in enumerate(session.results or ()) if it is None]
    assert sorted(results) == open_, "one result for each call, and not two"
    for place, event in results.items():
        known = calls[place].name == "report" and event.error is None
        assert known or event.error == "TOOL_OUTCOME_UNKNOWN", event
        if known:
            message = json.loads(event.content)["message_id"]
            parent = final[session.header.parent or ""]
            assert message in {it.id for it in of(parent, Accepted)}


def _check_stopped(events: list[Event], final: list[Event]) -> None:
    """What was stopped on purpose does not come back."""
    header = events[0]
    assert isinstance(header, Created)
    ends = [event.reason for event in of(events, Ended)]
    if header.spec.name == "stopped" and ends == ["cancelled"]:
        assert final == events


def _check_tools(folder: Path, killed: Logs, final: Logs) -> None:
    """No body of a tool ran twice for one call, and no finished one was forgotten."""
    dug = folder / "dug"
    ran = Counter(dug.read_text().splitlines() if dug.exists() else [])
    assert all(count == 1 for count in ran.values()), "a tool ran twice"
    ended = [
        event
        for events in final.values()
        for event in of(events, CallEnded)
        if event.content == "dug"
    ]
    known = [e for events in killed.values() for e in of(events, CallEnded)]
    assert len(ended) <= len(ran)
    assert len([it for it in known if it.content == "dug"]) <= len(ended)


def _check_sent(before: dict[str, str], again: dict[str, str], final: Logs) -> None:
    """What was acknowledged is there once, and a repeat of it is no second one."""
    accepted = Counter(
        it.id for events in final.values() for it in of(events, Accepted)
    )
    for key, message in before.items():
        assert accepted[message] == 1, f"{key} was acknowledged and is lost"
        # A call that crashed is made once more, under another id.
        if key != "bg":
            assert again.get(key, message) == message, f"{key} was sent twice"


def test_every_kind_of_event_is_among_the_points() -> None:
    for full, count in ((False, 20), (True, 100)):
        chosen = [point for _, point in points(full=full)]
        assert len(chosen) == count
        assert {point.kind for point in chosen} == {"", *KINDS}
        assert {point.moment for point in chosen} == set(MOMENTS)


def test_an_undisturbed_tree_writes_every_kind_of_event(
    tmp_path: Path, killer: Killer
) -> None:
    """All but `told`, which only follows a kill."""
    assert killer.run(tmp_path, "trio", Point()) == 0, (tmp_path / "err").read_text()
    written = set(json.loads((tmp_path / "counts").read_text()))
    assert written == {"", *KINDS} - {"Told"}
    shutil.rmtree(tmp_path)
