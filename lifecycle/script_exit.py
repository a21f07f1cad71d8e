"""How a script ends that means to end the process, and not its run.

Lives here: what is no `Exception` and comes out of a script's own code becomes an error
of its run, and what must go on its way does: a cancel that somebody asked for, and the
closing of a coroutine that nobody runs any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import anyio

from ..mailbox.backend import Backend
from ..mailbox.errors import RametError

__all__ = ["ScriptExitedError", "ends_the_run"]


class ScriptExitedError(RametError):
    """Raised at the end of a run whose script gave nothing, and meant to end more.

    It called `sys.exit`, or raised another exception that is no `Exception`.
    """

    code = "script-exited"


@contextlib.contextmanager
def ends_the_run(backend: Backend) -> Iterator[None]:
    """A block around a script's own code, within one task.

    Raises:
        ScriptExitedError: the code raised what is no `Exception`.
    """
    task = anyio.get_current_task().id
    try:
        yield
    except Exception:
        raise
    except BaseException as raised:
        if not _is_own(raised, task, backend):
            raise
        raise ScriptExitedError(_text(raised)) from raised


def _is_own(raised: BaseException, task: int, backend: Backend) -> bool:
    """Whether the code raised it of itself."""
    try:
        if anyio.get_current_task().id != task:
            return False
        cancelled = anyio.get_cancelled_exc_class()
    except RuntimeError:
        # Nothing runs any more: what is left of the code is being closed.
        return False
    is_cancel = any(isinstance(one, cancelled) for one in _leaves(raised))
    return not is_cancel or backend.stray_cancel()


def _leaves(raised: BaseException) -> Iterator[BaseException]:
    stack = [raised]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseExceptionGroup):
            stack += reversed(one.exceptions)
        else:
            yield one


def _text(raised: BaseException) -> str:
    """What the script did, by the first of what came out that is no `Exception`."""
    first = next(one for one in _leaves(raised) if not isinstance(one, Exception))
    if isinstance(first, SystemExit):
        return f"the script called sys.exit({first.code!r})"
    return f"the script raised {type(first).__name__}"
