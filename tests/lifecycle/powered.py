"""Simulated runs on a recorded disk: a process that is killed has lost its power.

Lives here: the simulator's store in a file, over the recorded file system of
`tests/mailbox/power.py`.  A kill leaves one of the images that a power cut at a chosen
place may leave: before, inside or after the batch that is on its way.  Whatever of that
batch is in the image, the run is told, so that its laws hold both of what was
acknowledged and of what was not.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from ramet.lifecycle import simulate_world
from ramet.lifecycle.simulate_store import (
    Disk,
    SimulatedSqliteStore,
    SimulatedStorage,
)
from ramet.mailbox.backend import Backend
from ramet.mailbox.storage import Storage
from ramet.mailbox.store import Batch
from ramet.mailbox.store_sqlite import SqliteReader
from tests.mailbox.power import Loss, Recording, Recordings, recordings
from tests.mailbox.power_work import LostError

__all__ = ["Cuts", "powered"]


@attrs.define
class Cuts:
    """What was cut.

    Attributes:
        cuts: how often the power was.
        whole: how many batches were on their way then, and are there.
        absent: how many were, and are not.
    """

    cuts: int = 0
    whole: int = 0
    absent: int = 0


class _PoweredStorage(SimulatedStorage):
    """Tells its store what is on its way."""

    store: PoweredStore

    async def append(self, batch: Batch) -> None:
        """Store a batch, or fail."""
        self.store.flying = batch
        await super().append(batch)


class PoweredStore(SimulatedSqliteStore):
    """The store in a file, on a disk that is recorded."""

    recordings: ClassVar[Recordings]
    counts: ClassVar[Cuts]

    def __init__(self, disk: Disk, path: Path) -> None:
        super().__init__(disk, path)
        self.flying: Batch | None = None
        self._recording: Recording = self.recordings.of(path.parent)

    def open(self) -> None:
        """Open it; whatever happened to its disk, it is sound."""
        super().open()
        assert self._connection is not None
        sound = self._connection.execute("pragma integrity_check").fetchall()
        if sound != [("ok",)]:
            raise LostError(f"the file is not sound: {sound[:2]}")

    def storage(self, backend: Backend) -> Storage:
        """How a supervisor calls it."""
        return _PoweredStorage(self, backend)

    def append(self, batch: Batch) -> None:
        """Store a batch."""
        super().append(batch)
        self.flying = None

    def again(self, disk: Disk) -> PoweredStore:
        """The same file on another disk."""
        return PoweredStore(disk, self.path)

    def remains(self, disk: Disk) -> PoweredStore:
        """What a power cut leaves that comes at this instant, or in the batch that is
        on its way."""
        recording, dice = self._recording, disk._dice
        first, flying = len(recording.steps), self.flying
        if flying is not None and dice.random() < 0.8:
            self.append(flying)
        else:
            flying = None
        last = len(recording.steps)
        cut = last if dice.random() < 0.3 else dice.randrange(first, last + 1)
        recording.open = False
        image = recording.platter(cut).image(Loss.draw(random.Random(dice.random())))
        folder = self.path.with_suffix(".after")
        folder.mkdir()
        for name, content in image.items():
            (folder / name).write_bytes(content)
        self.counts.cuts += 1
        if flying is not None:
            there = _holds(folder / self.path.name, flying)
            self.counts.whole += there
            self.counts.absent += not there
            if there:
                disk.committed(flying)
        return PoweredStore(disk, folder / self.path.name)


def _holds(path: Path, batch: Batch) -> bool:
    """Whether an image holds the beginning of a batch; then it must hold all of it."""
    with tempfile.TemporaryDirectory(dir=path.parent.parent) as name:
        copy = Path(shutil.copytree(path.parent, Path(name) / "copy"))
        reader = SqliteReader(copy / path.name)
        try:
            row = reader.row(batch.entries[0].session)
        finally:
            reader.close()
        return row is not None and row.seq > batch.entries[0].seq


@contextlib.contextmanager
def powered(
    before: Callable[[Recording], None] = lambda recording: None,
) -> Iterator[Cuts]:
    """A block in which whatever a simulation kills has lost its power.

    Args:
        before: what is done to each disk before its first step.
    """
    with recordings(before) as found, pytest.MonkeyPatch.context() as patch:
        counts = Cuts()
        patch.setattr(PoweredStore, "recordings", found, raising=False)
        patch.setattr(PoweredStore, "counts", counts, raising=False)
        patch.setattr(simulate_world, "SimulatedSqliteStore", PoweredStore)
        yield counts
