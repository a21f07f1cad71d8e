"""An acknowledgement means stored: what copies of the files show at that instant.

Lives here: many senders at once, whose messages share commits, so that a message that
was acknowledged with another one's commit would be found missing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

import ramet
from ramet.mailbox.events import Accepted
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.stage import HANG_S

LEAD = ramet.AgentSpec("lead")
SCOUT = ramet.AgentSpec("scout")

SENDERS = 8
EACH = 4
"""Few enough that the log of the file is never moved into it during a copy."""


def copied(store: Path, folder: Path) -> Path:
    """A copy of the files of a store as they are now, as a crash would leave them."""
    folder.mkdir()
    for name in (store.name, f"{store.name}-wal"):
        shutil.copyfile(store.with_name(name), folder / name)
    return folder / store.name


def accepted_in(store: Path, session: str) -> dict[str, tuple[str, ...]]:
    """What a session has accepted, by the id of the message, after a recovery."""
    recovered = ramet.SqliteStore(store)
    recovered.open()
    try:
        events = recovered.load(session)
    finally:
        recovered.close()
    return {one.id: one.content for one in events if isinstance(one, Accepted)}


@pytest.mark.anyio
@pytest.mark.case("R-066")
async def test_a_copy_taken_at_each_acknowledgement_holds_the_message(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store.db"
    model = ScriptedModel({"scout": [step("done", hold=Gate())] * SENDERS})
    copies: list[tuple[Path, str, str]] = []

    async def send(child: ramet.Agent, sender: int) -> None:
        for number in range(EACH):
            text = f"report {number} of {sender}"
            message = await supervisor.report_from(child, text, ack="stored")
            folder = tmp_path / f"{sender}-{number}"
            copies.append((copied(store, folder), message, text))

    with anyio.fail_after(HANG_S):
        async with ramet.open(store, model=model) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            async with anyio.create_task_group() as group:
                for sender in range(SENDERS):
                    started = await supervisor.start_child(root, SCOUT, "look")
                    child = supervisor.agent(started.child_id)
                    assert child is not None
                    group.start_soon(send, child, sender)
            commits = supervisor.statistics()["commits"]
            await supervisor.cancel(root)
    assert len(copies) == SENDERS * EACH
    assert commits < SENDERS * EACH + SENDERS, "no two messages shared a commit"
    for copy, message, text in copies:
        assert accepted_in(copy, root.id)[message] == (text,)


@pytest.mark.anyio
@pytest.mark.case("R-066")
async def test_a_copy_taken_before_the_commit_does_not_hold_the_message(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store.db"
    model = ScriptedModel({"scout": [step("done", hold=Gate())]})
    with anyio.fail_after(HANG_S):
        async with ramet.open(store, model=model) as supervisor:
            root = await supervisor.start_root(LEAD, interactive=True)
            started = await supervisor.start_child(root, SCOUT, "look")
            child = supervisor.agent(started.child_id)
            assert child is not None
            while supervisor.statistics()["undecided_events"]:
                await supervisor.report_from(child, "earlier", ack="stored")
            message = await supervisor.report_from(child, "late", ack="accepted")
            # Nothing has run since the acceptance, the writer neither.
            before = copied(store, tmp_path / "before")
            await supervisor.report_from(child, "last", ack="stored")
            after = copied(store, tmp_path / "after")
            await supervisor.cancel(root)
    assert message not in accepted_in(before, root.id)
    assert message in accepted_in(after, root.id)
