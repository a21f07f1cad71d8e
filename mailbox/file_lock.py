"""The lock beside a file: one writing process, and nobody else shut out.

Lives here: a lock that the operating system gives back when its process dies, however
it dies.  It is a file of its own, so that readers of the locked file never meet it.  It
is never deleted, since another process could hold the deleted one.  It says which
process has it.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

from .errors import PersistenceUnavailableError, StoreInUseError

__all__ = ["FileLock", "create_private", "lock_owner"]

_PRIVATE = stat.S_IRUSR | stat.S_IWUSR

_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Follow no link, and wait for nobody who would open the other end of a pipe."""

_LOOKS = 200
"""How many looks of others a writer lets pass, a millisecond each."""


def create_private(path: Path, flags: int) -> int:
    """Open a file, made readable by its owner alone whatever the umask is.

    Raises:
        OSError: what the operating system says.
    """
    descriptor = os.open(path, flags | os.O_CREAT | _CAREFUL, 0o600)
    try:
        if sys.platform != "win32":
            os.fchmod(descriptor, _PRIVATE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class FileLock:
    """A lock for writers, held until `release` or the end of the process.

    Two objects exclude each other in one process too.  A forked child shares the lock
    of its parent and must not use it.

    Args:
        path: the file that is locked, resolved; the lock is the file `<path>.lock`.
    """

    def __init__(self, path: Path) -> None:
        self._locked = path
        self.path: Path = path.with_name(path.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or say at once who has it.

        Raises:
            StoreInUseError: another one has it.
            PersistenceUnavailableError: the lock file cannot be opened or locked.
        """
        try:
            descriptor = create_private(self.path, os.O_RDWR)
        except OSError as error:
            raise PersistenceUnavailableError(
                f"the lock file {self.path} cannot be opened ({error.strerror}):"
                " its directory must exist and belong to you"
            ) from error
        try:
            if not _take(descriptor):
                raise StoreInUseError(
                    f"{self._locked} is being written by {_owner(descriptor)}:"
                    " one process at a time can write a store; close the other one"
                )
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError as error:
            os.close(descriptor)
            raise PersistenceUnavailableError(
                f"{self.path} cannot be locked ({error.strerror}):"
                " use a local file system that has locks"
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; may be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)


def lock_owner(path: Path) -> int | None:
    """The number of the live process that has a file's lock, or `None`: nobody has it.

    The lock is not taken, and a writer that opens at this moment is not refused.  A
    process that gives no number is 0.

    Args:
        path: the file that is locked, resolved.

    Raises:
        PersistenceUnavailableError: the lock file cannot be read.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDONLY | _CAREFUL)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PersistenceUnavailableError(
            f"the lock file {lock} cannot be read ({error.strerror}): it must belong"
            " to you"
        ) from error
    try:
        text = _written(descriptor)
        # A writer that ended in order has left it empty: there is nothing to look for.
        if not text or not _is_taken(descriptor):
            return None
        text = _written(descriptor)
        return int(text) if text.isdigit() else 0
    except OSError as error:
        raise PersistenceUnavailableError(
            f"{lock} cannot be looked at ({error.strerror}): use a local file system"
            " that has locks"
        ) from error
    finally:
        os.close(descriptor)


def _written(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, 20).decode("ascii", "replace")


def _owner(descriptor: int) -> str:
    text = _written(descriptor)
    if text == str(os.getpid()):
        return "this process already"
    return f"process {text}" if text.isdigit() else "another process"


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> bool:
        # A locked byte cannot be read by others: it lies far behind the process number.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_taken(descriptor: int) -> bool:
        if not _take(descriptor):
            return True
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        return False

else:
    import fcntl

    def _take(descriptor: int) -> bool:
        for _ in range(_LOOKS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Only a look shares it, and only for an instant: that one is let pass.
                if _is_taken(descriptor):
                    return False
                time.sleep(0.001)
            else:
                return True
        return False

    def _is_taken(descriptor: int) -> bool:
        """Whether a writer has it, found by sharing it for an instant."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False
