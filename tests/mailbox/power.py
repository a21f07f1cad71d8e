"""A recorded disk: what SQLite writes and syncs, and what a loss of power leaves of it.

Lives here: a file system for apsw that writes down whatever reaches one folder, and the
disk images that a power cut after any of it may leave.  What was synced survives.  Of
all else each sector has any of the contents that it was given since, or the one before,
and a file any of its sizes; a name is there or not.  It knows files, and nothing of
what is in them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import apsw
import attrs
import pytest

from tests.mailbox.apsw_face import ApswConnection

__all__ = [
    "Image",
    "Loss",
    "Platter",
    "Recording",
    "Recordings",
    "Resize",
    "Sync",
    "Write",
    "recorded",
    "recordings",
]

Image: TypeAlias = dict[str, bytes]
"""The contents of a folder, by the names of its files."""

_SECTORS = (512, 4096)
_NAMES_WITH_THE_FIRST_SYNC = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
_NUMBERS = itertools.count()


@attrs.frozen
class Write:
    """Bytes were written into a file."""

    file: int
    offset: int
    data: bytes


@attrs.frozen
class Resize:
    """A file ends at a place: it was cut there, or made longer."""

    file: int
    offset: int


@attrs.frozen
class Sync:
    """All that was written into a file is on the disk."""

    file: int


@attrs.frozen
class Name:
    """A name in the folder stands for another file, or for none."""

    name: str
    file: int | None


@attrs.frozen
class SyncNames:
    """All names are on the disk."""


Step: TypeAlias = Write | Resize | Sync | Name | SyncNames


@attrs.frozen
class Loss:
    """How a power cut chooses among what was not synced.

    Args:
        dice: chance.
        sector: how many bytes reach the disk whole.
        kept: the share of sectors whose last content reached it; the others have an
            earlier one.  0 and 1 mean none at all, and all.
        junk: what a sector holds that is within a file's size and was never written.
    """

    dice: random.Random
    sector: int = 512
    kept: float = 0.5
    junk: bool = False

    @classmethod
    def draw(cls, dice: random.Random) -> Loss:
        """Some loss."""
        kept = dice.choice((0.05, 0.5, 0.5, 0.95))
        return cls(dice, dice.choice(_SECTORS), kept, dice.random() < 0.5)

    def latest(self, count: int) -> int:
        """How many of so many changes, in their order, reached the disk."""
        if not count or self.kept in (0.0, 1.0):
            return count if self.kept else 0
        whole = self.dice.random() < self.kept
        return count if whole else self.dice.randrange(count)

    def filler(self, size: int) -> bytes:
        """What was never written."""
        return self.dice.randbytes(size) if self.junk else bytes(size)


class _File:
    """One file: what is on the disk for certain, and what was done to it since."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.pending: list[Write | Resize] = []

    def sync(self) -> None:
        """All of it is on the disk."""
        for step in self.pending:
            self.durable.extend(bytes(max(0, step.offset - len(self.durable))))
            if isinstance(step, Resize):
                del self.durable[step.offset :]
            else:
                self.durable[step.offset : step.offset + len(step.data)] = step.data
        self.pending.clear()

    def left(self, loss: Loss) -> bytes:
        """What a power cut leaves."""
        if not self.pending:
            return bytes(self.durable)
        steps, sizes = self._sized(loss)
        before, sector = len(self.durable), loss.sector
        content = bytearray(max(before, *sizes))
        content[:before] = self.durable
        content[before:] = loss.filler(len(content) - before)
        changes: dict[int, list[Write | Resize]] = {}
        for step in steps:
            first, end = step.offset, len(content)
            if isinstance(step, Write):
                end = first + len(step.data)
            for place in range(first // sector, -(-end // sector)):
                changes.setdefault(place, []).append(step)
        for place, found in changes.items():
            certain = 0
            for number, step in enumerate(found, 1):
                certain = number if isinstance(step, Resize) else certain
            count = certain + loss.latest(len(found) - certain)
            self._change(content, place * sector, sector, found[:count])
        del content[sizes[loss.latest(len(sizes) - 1)] :]
        return bytes(content)

    def _sized(self, loss: Loss) -> tuple[list[Write | Resize], list[int]]:
        """The steps without the cuts that did not happen, and the sizes since the last
        that did: a cut happens to the whole file, or to none of it."""
        happened = loss.latest(sum(isinstance(it, Resize) for it in self.pending))
        steps: list[Write | Resize] = []
        sizes = [len(self.durable)]
        for step in self.pending:
            if isinstance(step, Write):
                sizes.append(max(sizes[-1], step.offset + len(step.data)))
            elif happened:
                happened -= 1
                sizes = [step.offset]
            else:
                continue
            steps.append(step)
        return steps, sizes

    def _change(
        self, content: bytearray, first: int, sector: int, steps: list[Write | Resize]
    ) -> None:
        """Bring one sector to what it was after these steps."""
        end = min(first + sector, len(content))
        if steps and first < end:
            fresh = max(first, min(len(self.durable), end))
            content[fresh:end] = bytes(end - fresh)
        for step in steps:
            low, high = max(first, step.offset), end
            if isinstance(step, Write):
                high = min(end, step.offset + len(step.data))
                content[low:high] = step.data[low - step.offset : high - step.offset]
            else:
                content[low:high] = bytes(max(high - low, 0))


class Platter:
    """What is on the disk after each step of a recording.

    Args:
        base: what the folder held before the first.
    """

    def __init__(self, base: Mapping[str, bytes]) -> None:
        self._files = {n: _File(data) for n, data in enumerate(base.values())}
        self._names: dict[str, int] = {name: n for n, name in enumerate(base)}
        self._pending: dict[str, list[int | None]] = {}

    def take(self, step: Step) -> None:
        """One more step."""
        if isinstance(step, SyncNames):
            for name, files in self._pending.items():
                self._rename(self._names, name, files[-1])
            self._pending.clear()
        elif isinstance(step, Name):
            self._pending.setdefault(step.name, []).append(step.file)
        elif isinstance(step, Sync):
            self._file(step.file).sync()
        else:
            self._file(step.file).pending.append(step)

    def image(self, loss: Loss) -> Image:
        """The folder as a power cut leaves it now."""
        names = dict(self._names)
        for name, files in self._pending.items():
            count = loss.latest(len(files))
            if count:
                self._rename(names, name, files[count - 1])
        return {name: self._file(number).left(loss) for name, number in names.items()}

    def _file(self, number: int) -> _File:
        return self._files.setdefault(number, _File())

    @staticmethod
    def _rename(names: dict[str, int], name: str, number: int | None) -> None:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


class Recording:
    """Everything that reaches a folder through SQLite, in order.

    Args:
        folder: where the files are; what is in it counts as synced.

    Attributes:
        base: what was in it.
        steps: what came since.
        syncs: how many syncs were asked for.
        fails: the number of the sync that fails, once.
        failed_at: after how many steps it did.
        lies: whether a sync of this file is answered and not made.
        said: what is executed in the place of each statement.
        open: whether anything is still written down.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base: Image = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.endswith((".lock", "-shm"))
        }
        self.steps: list[Step] = []
        self.syncs = 0
        self.fails: int | None = None
        self.failed_at: int | None = None
        self.lies: Callable[[str], bool] = lambda name: False
        self.said: Callable[[str], str] = lambda statement: statement
        self.open = True
        self._numbers = {name: number for number, name in enumerate(self.base)}
        self._files = len(self.base)
        self.vfs = f"recorded-{next(_NUMBERS)}"
        self._system = _System(self)

    def platter(self, count: int) -> Platter:
        """What is on the disk after so many steps."""
        found = Platter(self.base)
        for step in self.steps[:count]:
            found.take(step)
        return found

    def end(self) -> None:
        """Let go of the file system; nothing may be open in it any more."""
        self._system.unregister()

    # -- for the file system -----------------------------------------------------------

    def take(self, step: Step) -> None:
        """Write a step down."""
        if self.open:
            self.steps.append(step)

    def opened(self, name: str) -> int:
        """The number of a file, which may be new."""
        if name not in self._numbers:
            self._numbers[name] = self._files
            self._files += 1
            self.take(Name(name, self._numbers[name]))
        return self._numbers[name]

    def removed(self, name: str) -> None:
        """A name is gone."""
        if self._numbers.pop(name, None) is not None:
            self.take(Name(name, None))

    def sync(self, step: Sync | SyncNames, name: str = "") -> None:
        """A sync; it fails if this is the one that does.

        Raises:
            OSError: it failed.
        """
        if not self.open:
            return
        self.syncs += 1
        if self.syncs == self.fails:
            self.failed_at = len(self.steps)
            raise OSError(5, "the disk did not write")
        if not self.lies(name):
            self.take(step)


class _RecordedFile(apsw.VFSFile):
    """A file that is written down."""

    def __init__(self, recording: Recording, name: Any, flags: list[int]) -> None:
        self._recording = recording
        self._name = _path(name).name
        self._number = recording.opened(self._name)
        self._syncs_names = bool(flags[0] & _NAMES_WITH_THE_FIRST_SYNC)
        super().__init__("", name, flags)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """What a close cannot say is not said."""
        return True

    def xWrite(self, data: Any, offset: int) -> None:
        """Write."""
        self._recording.take(Write(self._number, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        """Cut."""
        self._recording.take(Resize(self._number, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        """Sync; the first one of a new log syncs its name too, as SQLite's own does."""
        try:
            self._recording.sync(Sync(self._number), self._name)
        except OSError as error:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC) from error
        if self._syncs_names:
            self._syncs_names = False
            self._recording.take(SyncNames())


class _System(apsw.VFS):
    """The file system of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        super().__init__(recording.vfs, "")

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """What a close cannot say is not said."""
        return True

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        """Open a file of the folder; what is temporary is nobody's."""
        if name is None:
            return apsw.VFSFile("", name, flags)
        return _RecordedFile(self._recording, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove a file."""
        super().xDelete(filename, syncdir)
        self._recording.removed(Path(filename).name)
        if syncdir:
            self._recording.take(SyncNames())


def _path(name: Any) -> Path:
    return Path(name.filename() if isinstance(name, apsw.URIFilename) else name)


class Recordings:
    """The folders that are written down, each with its recording.

    Args:
        before: what is done to each recording before its first step.
    """

    def __init__(self, before: Callable[[Recording], None]) -> None:
        self._before = before
        self._found: dict[Path, Recording] = {}

    def of(self, folder: Path) -> Recording:
        """The recording of a folder, which begins now if there is none."""
        folder = folder.resolve()
        if folder not in self._found:
            self._forget()
            self._found[folder] = found = Recording(folder)
            self._before(found)
        return self._found[folder]

    def end(self) -> None:
        """Let go of all of them."""
        for recording in self._found.values():
            recording.end()

    def _forget(self) -> None:
        """Let go of those whose folders are gone."""
        for folder in [one for one in self._found if not one.exists()]:
            self._found.pop(folder).end()

    def connect(self, real: Any, database: str, **options: Any) -> Any:
        """Stands for `sqlite3.connect`."""
        folder = Path(unquote(urlsplit(database).path)).parent
        found = self._found.get(folder)
        if found is None:
            return real(database, **options)
        return ApswConnection(database, found.vfs, options["timeout"], found.said)

    def fsync(self, real: Callable[[int], None], descriptor: int) -> None:
        """Stands for `os.fsync`, which the store asks to sync the names of a folder."""
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            for folder, recording in self._found.items():
                if folder.exists() and os.path.samestat(status, folder.stat()):
                    recording.sync(SyncNames())
                    return
        real(descriptor)


def _nothing(recording: Recording) -> None:
    return


@contextlib.contextmanager
def recordings(
    before: Callable[[Recording], None] = _nothing,
) -> Iterator[Recordings]:
    """A block in which stores may be written down.

    Those of other folders are opened as ever, by the SQLite of Python.
    """
    found = Recordings(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(found.connect, sqlite3.connect))
        patch.setattr(os, "fsync", partial(found.fsync, os.fsync))
        try:
            yield found
        finally:
            found.end()


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[Recording]:
    """A block in which the store of one folder is written down."""
    with recordings() as found:
        yield found.of(folder)
