"""Long logs: what is read of them, and that it is enough.

Lives here: sessions that are read back from a bookmark, and questions about messages
that read a log only from where it begins to matter.  Bookmarks are made after a few
events here, so that logs need not be long.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

import ramet
from ramet import AgentSpec, Ambient, MemoryStore, Policy, Reader
from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.protocol import PROTOCOL
from ramet.lifecycle.readers import explain_row
from ramet.mailbox import bookmark as bookmarks
from ramet.mailbox.bookmark import session_of
from ramet.mailbox.events import Event
from ramet.mailbox.session import fold
from ramet.mailbox.store import Bookmarks, Store
from ramet.testing import EVERY_FAULT, ScriptedModel, simulate, step
from tests.lifecycle.stage import LEAD, SCOUT, Stage, start

pytestmark = pytest.mark.anyio

TURNS = 12


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a bookmark in each batch that has ten events after the last one."""
    monkeypatch.setattr(bookmarks, "LEAST_EVENTS", 10)
    monkeypatch.setattr(bookmarks, "SHARE", 1_000)


class Noting(MemoryStore):
    """A store that notes which logs were read, and from where on."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[str, int]] = []

    def load(self, session: str, after: int = 0) -> list[Event]:
        """Note and answer."""
        self.loads.append((session, after))
        return super().load(session, after)


def talkative() -> ScriptedModel:
    """A model that has something to say for many turns."""
    return ScriptedModel({"lead": [step(f"answer {n}") for n in range(4 * TURNS)]})


def check_bookmark(reader: Reader, session: str) -> int:
    """A session has a bookmark, and it is right; gives where it is."""
    assert isinstance(reader, Bookmarks)
    found = reader.bookmark(session)
    assert found is not None
    assert session_of(found) == fold(reader.load(session)[: found.seq])
    return found.seq


async def asked(supervisor: ramet.Supervisor) -> ramet.Agent:
    """A root that was asked so often that its log has a bookmark."""
    root = await supervisor.start_root(LEAD, interactive=True)
    for turn in range(TURNS):
        await supervisor.tell(root, f"question {turn}")
        await root.wait_idle()
    return root


async def test_a_long_log_is_read_back_from_its_bookmark(stage: Stage) -> None:
    store = Noting()
    stage.use(store)
    stage.whole = False
    async with stage.open(talkative()) as sup:
        root = await asked(sup)
    length = len(store.load(root.id))
    seq = check_bookmark(store, root.id)
    assert length - 15 < seq <= length
    store.loads.clear()
    async with stage.open(talkative()) as sup:
        again = await sup.resume(root.id)
        assert store.loads == [(root.id, seq)]
        assert again._activation.session == fold(store.load(root.id))
        await sup.tell(again, "and then?")
        await again.wait_idle()
    assert len(stage.requests[-1].messages) == 2 * TURNS + 1


async def test_a_kill_loses_nothing_that_a_bookmark_stands_for(
    stored: Stage,
) -> None:
    """What a kill leaves is the batch with its bookmark, or neither."""
    stored.whole = False
    async with stored.open(talkative(), policy=Policy(notices="off")) as sup:
        root = await asked(sup)
        left = stored.crashed()
        log = stored.log(root)
    async with left.open(talkative()) as sup:
        reader = left.reader()
        seq = check_bookmark(reader, root.id)
        assert 0 < seq <= len(log)
        assert reader.load(root.id) == log
        reader.close()
        again = await sup.resume(root.id)
        assert len(again._activation.session.transcript) == 2 * TURNS
        await sup.wait(await sup.tell(again, "and then?"))
        assert again.statistics().turns == TURNS + 1


async def test_a_question_about_a_message_reads_its_log_from_there(
    stage: Stage,
) -> None:
    """Also of a session that is not resident, and about what was long ago."""
    store = Noting()
    stage.use(store)
    stage.whole = False
    told: list[str] = []
    async with stage.open(talkative()) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for turn in range(TURNS):
            told.append(await sup.tell(root, f"question {turn}"))
            store.loads.clear()
            outcome = await sup.wait(told[-1])
            assert outcome.status == "completed"
            position = store.position(told[-1])
            assert position == (root.id, 2 + 4 * turn)
            assert set(store.loads) <= {position}
    seq = check_bookmark(store, root.id)
    async with stage.open(talkative()) as sup:
        for turn, message in enumerate(told):
            store.loads.clear()
            assert (await sup.wait(message)).status == "completed"
            assert (await sup.outcome(message)) == (await sup.wait(message))
            assert set(store.loads) == {(root.id, 2 + 4 * turn)}
            store.loads.clear()
            status = await sup.message(message)
            assert (status.state, status.turn) == ("claimed", turn + 1)
            begun = seq if seq <= 2 + 4 * turn else 0
            assert store.loads == [(root.id, begun)]


async def test_a_state_is_explained_and_a_kept_message_refused_from_a_bookmark(
    stage: Stage,
) -> None:
    """As from the whole log: by what the state says."""
    store = Noting()
    stage.use(store)
    stage.whole = False
    async with stage.open(talkative()) as sup:
        root = await asked(sup)
        kept = await sup.tell(root, "the last one")
        await sup.drain()
    check_bookmark(store, root.id)
    async with stage.open(talkative()) as sup:
        store.loads.clear()
        found = await sup.explain(root.id)
        assert all(after for _, after in store.loads)
        row = store.row(root.id)
        assert row is not None
        assert found == explain_row(row, store.load(root.id), here=True)
        store.loads.clear()
        if (await sup.outcome(kept)) is None:
            with pytest.raises(ramet.ParkedError):
                await sup.wait(kept)
        assert all(after for _, after in store.loads)


async def test_a_bookmark_that_cannot_be_read_is_as_none(
    tmp_path: Path, anyio_backend: str
) -> None:
    """It is only a shortcut; and one that is ahead of its log stands for nothing."""
    made = Stage("sqlite", tmp_path)
    made.whole = False
    async with made.open(talkative()) as sup:
        root = await asked(sup)
    for statement in (
        "update bookmark set state = '{'",
        "update bookmark set state = x'00'",
        'update bookmark set state = replace(state, \'"v":"1.\', \'"v":"9.\')',
        "update bookmark set state = replace(state, '\"turn\":', '\"turn\":1')",
        "update bookmark set state = replace(state, '\"seq\":', '\"seq\":-')",
        "update bookmark set seq = 100000",
        "delete from bookmark",
    ):
        path = str(made.store())
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute(statement).rowcount == 1
            connection.commit()
        async with made.open(talkative()) as sup:
            again = await sup.resume(root.id)
            live = again._activation.session
            assert live == fold(made.log(root))
            for _ in range(3):
                await sup.tell(again, "go on")
                await again.wait_idle()
        reader = made.reader()
        check_bookmark(reader, root.id)
        reader.close()
    made.check()


class Plain:
    """A store that keeps no bookmarks: the port, and nothing besides."""

    blocking = False

    def __init__(self) -> None:
        self.inner = MemoryStore()
        for name in (
            "append children claim close find load open place reader release row"
            " sessions unfinished usage"
        ).split():
            setattr(self, name, getattr(self.inner, name))


async def test_a_store_without_bookmarks_works_as_well() -> None:
    store = Plain()
    assert isinstance(store, Store)
    assert not isinstance(store, Bookmarks)
    message = ""
    async with ramet.open(store, model=talkative(), ambient=Ambient()) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for turn in range(TURNS):
            message = await sup.tell(root, f"question {turn}")
            assert (await sup.wait(message)).status == "completed"
        assert (await sup.message(message)).turn == TURNS
    async with ramet.open(store, model=talkative(), specs=[LEAD]) as sup:
        assert (await sup.wait(message)).status == "completed"
        assert (await sup.message(message)).turn == TURNS
        again = await sup.resume(root.id)
        assert again._activation.session == fold(store.inner.load(root.id))


async def test_children_that_a_kill_cut_are_repaired_from_their_bookmarks(
    stored: Stage,
) -> None:
    """The parent is told, and the child goes on, as without."""
    stored.whole = False
    scout = AgentSpec("scout")
    model = ScriptedModel(
        {
            "lead": [step("well")] * 40,
            "scout": [step("seen")] * 40,
        }
    )
    async with stored.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        child = await start(sup, root, scout)
        await child.wait_gone()
        for turn in range(TURNS):
            message = await sup.followup(root, child.id, f"look {turn}")
            assert (await sup.wait(message)).status == "completed"
        left = stored.crashed()
    left.whole = False
    async with left.open(model, specs=[LEAD, SCOUT]) as sup:
        again = await sup.resume(root.id)
        message = await sup.followup(again, child.id, "look again")
        assert (await sup.wait(message)).status == "completed"
        reader = left.reader()
        check_bookmark(reader, child.id)
        reader.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("store", "first", "count"), [("memory", 5000, 60), ("sqlite", 6000, 15)]
)
def test_no_seed_breaks_a_law_when_every_batch_has_bookmarks(
    monkeypatch: pytest.MonkeyPatch,
    backend: BackendName,
    store: str,
    first: int,
    count: int,
) -> None:
    """Every state that a kill, a drain or a settling leaves is read back from one."""
    monkeypatch.setattr(bookmarks, "LEAST_EVENTS", 1)
    simulate(
        PROTOCOL,
        seeds=range(first, first + count),
        backend=backend,
        faults=EVERY_FAULT,
        store=store,  # type: ignore[arg-type]
    ).check()
