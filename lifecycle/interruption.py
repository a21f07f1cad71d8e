"""Interruption: what the signals of a terminal mean for a run.

Lives here: the first SIGINT, SIGTERM or SIGHUP brings everything to rest and keeps it,
the second gives up on what does not come to rest, the third ends the process as always.
Signals are received as a stream, so that none is raised inside a machine's step.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from .activation import Closing
from .errors import TeardownError

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["Interruption", "ending_signals", "interruptible"]


def ending_signals() -> list[signal.Signals]:
    """The signals that bring a run or a conversation to rest.

    SIGHUP is one, unless it is ignored, as `nohup` asks for.
    """
    found = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        found.append(hangup)
    return found


class Interruption:
    """Whether signals came, and which was the last.

    `count` is how many came; `before` is called at the first, before anything rests.
    """

    def __init__(self) -> None:
        self.count = 0
        self.before: Callable[[], None] = lambda: None


@asynccontextmanager
async def interruptible(
    supervisor: Supervisor, say: Callable[[str], None]
) -> AsyncIterator[Interruption]:
    """A block that signals end: its body is cancelled once everything is at rest.

    It belongs into the main thread.

    Args:
        supervisor: what is brought to rest.
        say: tells a person what happens.
    """
    interruption = Interruption()
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            listener = _Listener(supervisor, interruption, scope, say)
            await group.start(listener.listen)
            try:
                yield interruption
            except Exception as error:
                # As it is: the group would wrap it.
                failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Listener:
    def __init__(
        self,
        supervisor: Supervisor,
        interruption: Interruption,
        scope: anyio.CancelScope,
        say: Callable[[str], None],
    ) -> None:
        self._supervisor = supervisor
        self._interruption = interruption
        self._scope = scope
        self._tell = say

    def _say(self, text: str) -> None:
        # After a hangup there is no terminal to say it on.
        with contextlib.suppress(OSError):
            self._tell(text)

    async def listen(self, *, task_status: TaskStatus[None]) -> None:
        """Receive two signals; when this has returned, the next one is fatal."""
        interruption = self._interruption
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(*ending_signals()) as signals:
                task_status.started()
                async for number in signals:
                    interruption.count += 1
                    if interruption.count == 1:
                        name = signal.Signals(number).name
                        self._say(
                            f"{name}: bringing every agent to rest; once more gives up"
                            " on those that do not come"
                        )
                        interruption.before()
                        group.start_soon(self._drain, name)
                    else:
                        break
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            await self._give_up()

    async def _drain(self, name: str) -> None:
        deadline_s = self._supervisor._runtime.policy.rest_deadline_s
        try:
            await self._supervisor._drain(Closing("interrupted", name), deadline_s)
        except TeardownError as error:
            for one in error.exceptions:
                self._say(str(one))
        if self._interruption.count == 1:
            self._scope.cancel()

    async def _give_up(self) -> None:
        runtime = self._supervisor._runtime
        live = list(runtime.forest.live.values())
        names = ", ".join(one.name for one in live if one.driving)
        self._say(f"giving up on {names or 'the rest'}; once more ends the process")
        tops = [one for one in live if one.parent is None]
        # What was given up on is named already.
        with contextlib.suppress(TeardownError):
            await runtime.teardown.bring_down(tops, Closing("cancelled"), 0.0)
        self._scope.cancel()
