"""Work on a recorded store, and what must be in every image that a power cut leaves.

Lives here: a program of batches, claims and openings that the dice choose, run on the
shipped store beside a store in memory that says what each transaction makes of it; and
the check of an image, which the shipped store opens with the SQLite of Python.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from ramet import MemoryStore, PersistenceUnavailableError, RametError, Reader
from ramet.lifecycle.bookkeeper import BookKeeper, header, message
from ramet.mailbox.events import Event, Told
from ramet.mailbox.store_sqlite import SqliteReader, SqliteStore
from tests.mailbox.power import Image, Loss, Platter, Recording, recorded

__all__ = ["FILE", "Contents", "LostError", "Sweep", "Work", "check_image", "place"]

FILE = "store.db"

_SHARED_MEMORY = Path("/dev/shm")
_SIZES = (10, 10, 200, 3000, 9000, 60_000)
_NUDGES = ("2", "5", "20", "4000")
"""After how many pages the log is put into the file; the last is what is shipped."""

Contents = dict[str, Any]
"""All that a store says, but who holds what, which no opening outlives."""


class LostError(AssertionError):
    """Raised when an image does not hold what it must."""


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A folder that is quick, for the time of a block."""
    quick = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="ramet-power-", dir=quick) as name:
        yield Path(name)


@attrs.define
class Universe:
    """The names of all that was ever written."""

    sessions: list[str] = attrs.field(factory=list)
    messages: list[str] = attrs.field(factory=list)
    keys: list[str] = attrs.field(factory=list)

    def of(self, reader: Reader) -> Contents:
        """All that a store says of it."""
        found: Contents = {"sessions": reader.sessions()}
        for name in self.sessions:
            row = reader.row(name)
            if row is None:
                found[name] = None
                continue
            row = attrs.evolve(row, holder=None)
            found[name] = row, reader.load(name), reader.usage(name)
        found["roots"] = [row.session for row in reader.children(None)]
        for name in self.messages:
            found[name] = reader.place(name)
        for name in self.keys:
            found[f"key {name}"] = reader.find("host", name)
        return found


class Work:
    """A program of batches, and what each of its transactions leaves.

    Args:
        recording: of the folder in which the store is.
        dice: chance.

    Attributes:
        universe: the names of all that was written.
        states: what the store says before the first transaction, and after each.
        begun: for each transaction, after how many steps of the recording it began.
        acknowledged: after how many steps how many transactions were acknowledged.
        failure: what ended the work before its end.
    """

    def __init__(self, recording: Recording, dice: random.Random) -> None:
        self.recording = recording
        self.universe = Universe()
        self.begun: list[int] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.failure: PersistenceUnavailableError | None = None
        self._dice = dice
        self._model = MemoryStore()
        self._model.open()
        self._moments: list[MemoryStore] = [self._model.snapshot()]
        self._fixed: list[Contents] = []
        self._settled: tuple[int, int] | None = None
        self._path = recording.folder / FILE
        self._readers: list[SqliteReader] = []
        self._holders = 0

    @property
    def states(self) -> list[Contents]:
        """What the store says before the first transaction, and after each."""
        return self._fixed or [self.universe.of(store) for store in self._moments]

    def bounds(self, steps: int) -> tuple[int, int]:
        """Between which states the store is after so many steps."""
        if self._settled is not None and steps >= self._settled[0]:
            return self._settled[1], self._settled[1]
        acknowledged = [count for at, count in self.acknowledged if at <= steps]
        return max(acknowledged, default=0), sum(at <= steps for at in self.begun)

    def run(self, openings: int, batches: int) -> None:
        """Do it all, or what is possible until a commit fails."""
        nudge = self._dice.choice(_NUDGES)
        self.recording.said = _instead(self.recording.said, nudge)
        try:
            for number in range(openings):
                self._opening(batches, last=number == openings - 1)
        except PersistenceUnavailableError as error:
            self.failure = error
            self._close_readers()
            self._recover()
        finally:
            self._close_readers()

    def _recover(self) -> None:
        """The next process opens what a failure left: what it reads is so for good."""
        low, high = self.bounds(len(self.recording.steps))
        store = SqliteStore(self._path)
        store.open()
        try:
            seen = self.universe.of(store)
        finally:
            store.close()
        fitting = [n for n, state in enumerate(self.states) if state == seen]
        if not fitting or not low <= fitting[-1] <= high:
            raise LostError(f"after a failure there is {_brief(seen)}")
        self._settled = len(self.recording.steps), fitting[-1]

    def begin_with(self, reader: Reader) -> None:
        """What a store says now is what it holds throughout."""
        self._fixed = [self.universe.of(reader)]

    def _opening(self, batches: int, *, last: bool) -> None:
        """One process: it opens the store, writes, and ends, in order or not."""
        store = SqliteStore(self._path)
        store.open()
        self._holders += 1
        keeper = BookKeeper(store, f"holder {self._holders}")
        try:
            for name in self.universe.sessions:
                self._claim(keeper, name)
            for _ in range(batches):
                self._one(keeper)
        except PersistenceUnavailableError:
            self._must_be_poisoned(keeper)
            raise
        else:
            # The last one may be killed: then nothing of its end is on the disk.
            self.recording.open = not last or self._dice.random() < 0.7
        finally:
            self._close_readers()
            store.close()
            for name in self.universe.sessions:
                self._model.release(name, keeper.holder)

    def _one(self, keeper: BookKeeper) -> None:
        chance = self._dice.random()
        if chance < 0.1 and self.universe.sessions:
            self._claim(keeper, self._dice.choice(self.universe.sessions))
        elif chance < 0.2:
            # A reader keeps the log from being begun anew, and stays for a while.
            self._readers.append(SqliteReader(self._path))
        elif chance < 0.25:
            self._close_readers()
        else:
            self._batch(keeper)

    def _close_readers(self) -> None:
        for reader in self._readers:
            reader.close()
        self._readers.clear()

    def _claim(self, keeper: BookKeeper, name: str) -> None:
        self._begin()
        epoch = self._model.claim(name, keeper.holder)
        self._moments.append(self._model.snapshot())
        assert keeper.claim(name) == epoch

    def _batch(self, keeper: BookKeeper) -> None:
        """Sessions, messages and more, over several logs, some of it large."""
        dice, universe = self._dice, self.universe
        written: list[tuple[str, Event]] = []
        if len(universe.sessions) < 6 and dice.random() < 0.4:
            parent = dice.choice([None, *universe.sessions])
            name = f"s{len(universe.sessions)}"
            universe.sessions.append(name)
            written.append((name, header(name, parent, len(universe.sessions))))
        for _ in range(dice.randrange(1, 5)):
            if not universe.sessions:
                break
            name = dice.choice(universe.sessions)
            written.append((name, self._event()))
        if not written:
            return
        pending = dice.randrange(9)
        batch = keeper.batch(*written, pending=pending)
        self._begin()
        self._model.append(batch)
        self._moments.append(self._model.snapshot())
        keeper.write(*written, pending=pending)
        self.acknowledged.append((len(self.recording.steps), len(self.begun)))

    def _event(self) -> Event:
        dice, universe = self._dice, self.universe
        if dice.random() < 0.3:
            return Told(dice.randrange(1000))
        name = f"m{len(universe.messages)}"
        universe.messages.append(name)
        key = None
        if dice.random() < 0.5:
            key = f"k{len(universe.keys)}"
            universe.keys.append(key)
        text = dice.choice("abc") * dice.choice(_SIZES)
        return attrs.evolve(message(name, key), content=(text,))

    def _begin(self) -> None:
        self.begun.append(len(self.recording.steps))

    def _must_be_poisoned(self, keeper: BookKeeper) -> None:
        """Nothing is acknowledged after a failure, nor written."""
        before = len(self.recording.steps)
        try:
            keeper.write(("late", header("late")))
        except PersistenceUnavailableError:
            same = len(self.recording.steps) == before
            if same:
                return
        raise LostError("something was written after a failure")


def _instead(said: Any, nudge: str) -> Any:
    """The same statements, with another number of pages."""
    shipped = "pragma wal_autocheckpoint = "
    return lambda it: said(f"{shipped}{nudge}" if it.startswith(shipped) else it)


def check_image(
    image: Image, universe: Universe, states: Sequence[Contents], folder: Path
) -> int:
    """Open an image as the next process does; gives which of the states it holds.

    Raises:
        LostError: it holds none of them, or is not sound, or cannot be gone on with.
    """
    for path in folder.iterdir():
        path.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    store = SqliteStore(folder / FILE)
    try:
        store.open()
        found = _look(store, universe)
        # The last that fits: a batch that is there stays there.
        fitting = [n for n, state in enumerate(states) if state == found]
        if not fitting:
            raise LostError(
                f"it holds no state that was ever committed: {_brief(found)}"
            )
        keeper = BookKeeper(store, "the next")
        for name in universe.sessions[:1]:
            if found[name] is not None:
                keeper.claim(name)
                keeper.write((name, Told(1)))
        store.close()
    except RametError as error:
        raise LostError(f"it cannot be read: {error}") from error
    finally:
        store.close()
    return fitting[-1]


def _look(store: SqliteStore, universe: Universe) -> Contents:
    connection = store._connection
    assert connection is not None
    sound = connection.execute("pragma integrity_check").fetchall()
    if sound != [("ok",)]:
        raise LostError(f"the file is not sound: {sound[:2]}")
    return universe.of(store)


def _brief(found: Contents) -> str:
    logs = {k: len(v[1]) for k, v in found.items() if isinstance(v, tuple)}
    return f"{found['sessions']} sessions, events {logs}"


@attrs.define
class Sweep:
    """A sweep of power cuts, and what it has looked at.

    Args:
        dice: chance.
        more: how many images of each cut have some of what was not synced, beside the
            one with all of it and the one with none.
        again: the share of images that are opened with another power cut.

    Attributes:
        cuts: how often the power was cut.
        images: how many images that left; `different` ones were checked.
        reopened: how many more a power cut left that came while one was opened.
        lost: what was lost, if anything was; that ends the sweep.
    """

    dice: random.Random
    more: int = 2
    again: float = 0.02
    cuts: int = 0
    images: int = 0
    different: int = 0
    reopened: int = 0
    lost: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.cuts} power cuts, {self.images} images, {self.different} of them"
            f" different, {self.reopened} of a second cut"
        )

    def go(self, work: Work, *, after: int = 0) -> None:
        """Cut the power after every step of a work from `after` on.

        Raises:
            LostError: an image does not hold what it must.
        """
        states = work.states
        known: dict[int, int] = {}
        platter = work.recording.platter(after)
        with place() as folder:
            for count in range(after, len(work.recording.steps) + 1):
                if count > after:
                    platter.take(work.recording.steps[count - 1])
                self.cuts += 1
                try:
                    self._cut(platter, work, states, known, folder, count)
                except LostError as error:
                    self.lost = f"a power cut after step {count}: {error}"
                    raise LostError(self.lost) from error

    def _cut(
        self,
        platter: Platter,
        work: Work,
        states: Sequence[Contents],
        known: dict[int, int],
        folder: Path,
        count: int,
    ) -> None:
        low, high = work.bounds(count)
        losses = [Loss(self.dice, kept=0.0), Loss(self.dice, kept=1.0)]
        for loss in [*losses, *(Loss.draw(self.dice) for _ in range(self.more))]:
            image = platter.image(loss)
            self.images += 1
            key = hash(tuple(sorted(image.items())))
            held = known.get(key)
            if held is None:
                self.different += 1
                held = known[key] = check_image(image, work.universe, states, folder)
                if self.dice.random() < self.again:
                    self._again(image, work.universe, states)
            if not low <= held <= high:
                text = f"{held} transactions are there, and not {low} to {high}"
                raise LostError(f"{text}: {loss}")

    def _again(
        self, image: Image, universe: Universe, states: Sequence[Contents]
    ) -> None:
        """Cut the power again, while the image is opened, and after it was read."""
        with place() as folder, place() as other:
            for name, content in image.items():
                (folder / name).write_bytes(content)
            with recorded(folder) as recording:
                store = SqliteStore(folder / FILE)
                store.open()
                read = len(recording.steps)
                seen = _look(store, universe)
                store.close()
            platter = recording.platter(0)
            for count, step in enumerate([None, *recording.steps]):
                if step is not None:
                    platter.take(step)
                self.reopened += 1
                left = platter.image(Loss.draw(self.dice))
                held = check_image(left, universe, states, other)
                # What was read once is so for good.
                if count >= read and states[held] != seen:
                    raise LostError("what was read is gone after another power cut")
