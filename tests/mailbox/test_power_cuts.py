"""Power cuts on the real file: torn and reordered writes, and syncs that fail.

The shipped store runs on a SQLite whose file system is written down; then every image
that a power cut may leave is opened by the shipped store on the SQLite of Python.  What
was acknowledged is there, and of what was not each batch is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ramet.lifecycle.bookkeeper import BookKeeper, header, message
from ramet.mailbox import sqlite_file
from ramet.mailbox.events import Told
from ramet.mailbox.store import Batch
from ramet.mailbox.store_sqlite import SqliteStore
from tests.mailbox.power import Loss, Platter, Recording, Resize, Sync, Write, recorded
from tests.mailbox.power_work import FILE, LostError, Sweep, Work, place

FORMER = Path(__file__).with_name("format_1.sql")


def worked(
    seed: int,
    *,
    openings: int = 2,
    batches: int = 7,
    before: Callable[[Recording], None] = lambda recording: None,
) -> Work:
    """A work that was done, and is recorded."""
    with place() as folder, recorded(folder) as recording:
        before(recording)
        work = Work(recording, random.Random(seed))
        work.run(openings, batches)
    return work


@pytest.mark.case("R-173", "R-232")
def test_no_power_cut_loses_what_was_acknowledged_or_leaves_half_of_a_batch(
    full_sweeps: bool, remark: Callable[[str], None]
) -> None:
    sweep = Sweep(random.Random(0), more=4 if full_sweeps else 1)
    for seed in range(12 if full_sweeps else 3):
        sweep.go(worked(seed))
    remark(f"power cuts: {sweep}")
    assert sweep.different > 500
    assert sweep.reopened > 200


@pytest.mark.case("R-173")
def test_no_power_cut_harms_an_upgrade() -> None:
    sweep = Sweep(random.Random(0), more=1)
    sweep.go(upgraded())
    assert sweep.different > 30


def upgraded() -> Work:
    """A store of format 1, and the opening that brings it up to date."""
    with place() as folder:
        path = folder / FILE
        store = SqliteStore(path)
        store.open()
        keeper = BookKeeper(store)
        for number in range(40):
            name = f"s{number}"
            keeper.write((name, header(name)))
            keeper.write((name, message(f"m{number}", f"k{number}")))
            keeper.write((name, Told(number)))
        store.close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(FORMER.read_text(encoding="utf-8"))
        with recorded(folder) as recording:
            work = Work(recording, random.Random(0))
            for number in range(40):
                work.universe.sessions.append(f"s{number}")
                work.universe.messages.append(f"m{number}")
                work.universe.keys.append(f"k{number}")
            store = SqliteStore(path)
            store.open()
            work.begin_with(store)
            store.close()
    return work


@pytest.mark.case("R-186")
def test_a_sync_that_fails_poisons_the_handle_and_loses_nothing_acknowledged(
    full_sweeps: bool, remark: Callable[[str], None]
) -> None:
    """Each sync of a work fails once, that of the folder's names too."""
    sweep = Sweep(random.Random(0), more=2, again=0.0)
    failed = 0
    for seed in range(3 if full_sweeps else 1):
        whole = worked(seed, batches=5)
        for number in range(1, whole.recording.syncs + 1):
            work = worked(seed, batches=5, before=partial(_failing, number))
            at = work.recording.failed_at
            assert at is not None
            failed += work.failure is not None
            sweep.go(work, after=at)
    remark(f"failed syncs: {failed}, {sweep}")
    assert failed > 10


def _failing(number: int, recording: Recording) -> None:
    recording.fails = number


# Faults are found.

Patch = pytest.MonkeyPatch


def synchronous_is(mode: str, patch: Patch) -> Callable[[Recording], None]:
    """Commits of the whole opening wait for less than they should."""
    shipped = "pragma synchronous = full"
    patch.setattr(sqlite_file, "_FULL", {"off": 0, "normal": 1}[mode])

    def plant(recording: Recording) -> None:
        recording.said = lambda it: it.replace(shipped, f"pragma synchronous = {mode}")

    return plant


def a_claim_forgets_to_wait_again(patch: Patch) -> Callable[[Recording], None]:
    """What a claim takes back for itself stays so for the batches after it."""

    def plant(recording: Recording) -> None:
        asked = 0

        def said(statement: str) -> str:
            nonlocal asked
            if statement == "pragma synchronous = full":
                asked += 1
                return statement if asked == 1 else "select 1"
            return statement

        recording.said = said

    return plant


def acknowledged_before_it_is_committed(patch: Patch) -> Callable[[Recording], None]:
    """A batch is written when the store is used the next time."""
    held: list[Batch] = []
    append = SqliteStore.append

    def write(store: SqliteStore) -> None:
        while held:
            append(store, held.pop())

    def hasty(store: SqliteStore, batch: Batch) -> None:
        write(store)
        held.append(batch)

    def first(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(store: SqliteStore, *arguments: str) -> Any:
            write(store)
            return method(store, *arguments)

        return call

    patch.setattr(SqliteStore, "append", hasty)
    for name in ("claim", "close"):
        patch.setattr(SqliteStore, name, first(getattr(SqliteStore, name)))

    def plant(recording: Recording) -> None:
        held.clear()

    return plant


def the_file_is_not_synced(patch: Patch) -> Callable[[Recording], None]:
    """A checkpoint goes on before the file is on the disk."""

    def plant(recording: Recording) -> None:
        recording.lies = lambda name: name == FILE

    return plant


PLANTED: dict[str, Callable[[Patch], Callable[[Recording], None]]] = {
    "synchronous off": partial(synchronous_is, "off"),
    "synchronous normal": partial(synchronous_is, "normal"),
    "normal for good after a claim": a_claim_forgets_to_wait_again,
    "acknowledged before the commit": acknowledged_before_it_is_committed,
    "a checkpoint without a sync": the_file_is_not_synced,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_store_that_waits_for_too_little_is_found(
    name: str, monkeypatch: Patch
) -> None:
    before = PLANTED[name](monkeypatch)
    for seed in range(4):
        sweep, work = Sweep(random.Random(seed), again=0.0), worked(seed, before=before)
        assert work.failure is None
        with contextlib.suppress(LostError):
            sweep.go(work)
        if sweep.lost is not None:
            return
    pytest.fail(f"{name} survived every power cut")


def test_an_upgrade_in_pieces_is_found(monkeypatch: Patch) -> None:
    @contextlib.contextmanager
    def pieces(connection: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(sqlite_file, "transaction", pieces)
    with pytest.raises(LostError, match=r"cannot be read|no state"):
        Sweep(random.Random(0)).go(upgraded())


# The recorded disk itself.


def disk(*steps: Any) -> Platter:
    found = Platter({"f": b"a" * 1024})
    for step in steps:
        found.take(step)
    return found


def every(platter: Platter, sector: int = 512, junk: bool = False) -> set[bytes]:
    dice = random.Random(0)
    return {platter.image(Loss(dice, sector, 0.5, junk))["f"] for _ in range(200)}


def test_what_was_synced_survives_and_of_the_rest_any_part() -> None:
    old, new = b"a" * 512, b"b" * 512
    assert every(disk(Write(0, 0, new * 2))) == {
        old + old,
        old + new,
        new + old,
        new + new,
    }
    assert every(disk(Write(0, 0, new * 2)), 4096) == {old + old, new + new}
    assert every(disk(Write(0, 0, new * 2), Sync(0))) == {new + new}
    assert every(disk(Write(0, 0, new * 2), Sync(0), Write(0, 512, old))) == {
        new + new,
        new + old,
    }


def test_a_cut_happens_to_a_whole_file_or_not_at_all() -> None:
    old, new = b"a" * 512, b"b" * 512
    assert every(disk(Resize(0, 0))) == {b"", old + old}
    assert every(disk(Resize(0, 0), Write(0, 0, new))) == {
        b"",
        bytes(512),
        new,
        old + old,
        new + old,
    }


def test_a_file_grows_before_or_after_what_is_in_it() -> None:
    old, new = b"a" * 1024, b"b" * 512
    assert every(disk(Write(0, 1024, new))) == {old, old + bytes(512), old + new}
    junk = every(disk(Write(0, 1024, new)), junk=True)
    assert {len(one) for one in junk} == {1024, 1536}
    assert len(junk) > 10
