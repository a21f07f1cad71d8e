"""Teardown: bringing activations to rest in bounded time.

Lives here: the wait for the end of what was closed, and the grace after which a driver
that does not come back is given up.  The grace belongs to a task of the supervisor, not
to the caller, so that a caller who is cancelled leaves a teardown that still completes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Protocol

import anyio

from ..mailbox.backend import Backend
from ..mailbox.errors import UsageError
from ..mailbox.writer import Gate
from .activation import Activation, Closing, Life
from .errors import TeardownError
from .forest import Forest

__all__ = ["Teardown", "check_seconds"]


def check_seconds(value: object, name: str) -> None:
    """Check the seconds that a caller gives for a teardown; infinity waits for ever.

    Raises:
        UsageError: it is no number, or none from 0 on.
    """
    number = isinstance(value, (int, float)) and type(value) is not bool
    if not number or not (0 <= value < 2**53 or value == inf):  # type: ignore[operator]
        raise UsageError(
            f"{name} must be a number of seconds from 0 on, not {value!r:.100}"
        )


class Teardown:
    """Closes activations and waits until they are gone."""

    def __init__(self, forest: Forest, backend: Backend) -> None:
        self._forest = forest
        self._backend = backend

    async def bring_down(
        self, tops: Sequence[Activation], closing: Closing, grace_s: float
    ) -> None:
        """Close `tops` and everything below them, and wait until they are gone.

        Raises:
            TeardownError: releases failed, or drivers were given up after the grace.
        """
        self.raise_errors(await self.end(tops, closing, grace_s))

    async def end(
        self, tops: Sequence[Activation], closing: Closing, grace_s: float
    ) -> set[Activation]:
        """The same, and gives whose end it was: what failed in it is kept.

        So a failure is raised once, by whoever asked for the outermost end.
        """
        forest = self._forest
        own = {one for top in tops for one in top.subtree()}
        forest.close(tops, closing)
        waiting = [top for top in tops if top.life is not Life.GONE]
        if waiting:
            watch = _Watch(forest, waiting, grace_s)
            self._backend.spawn(watch.run)
            for top in waiting:
                await until_gone(self._backend, top)
        return own

    def raise_left(self) -> None:
        """Raise what failed in agents that ended by themselves, or whose end nobody
        waited for.

        Raises:
            TeardownError: something did.
        """
        self.raise_errors({one for one, _ in self._forest.errors})

    def raise_errors(self, own: set[Activation]) -> None:
        """Raise what failed in these agents, once.

        Raises:
            TeardownError: something did.
        """
        forest = self._forest
        errors = [error for one, error in forest.errors if one in own]
        forest.errors = [(one, error) for one, error in forest.errors if one not in own]
        if errors:
            raise TeardownError(
                "everything was attempted and is at rest, but some of it failed", errors
            )


class _Watch:
    """A task of the supervisor that gives up on drivers when the grace has passed."""

    def __init__(
        self, forest: Forest, tops: Sequence[Activation], grace_s: float
    ) -> None:
        self._forest = forest
        self._tops = tops
        self._grace_s = grace_s

    async def run(self) -> None:
        done = anyio.Event()
        left = len(self._tops)

        def one_gone() -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        for top in self._tops:
            when_gone(top, one_gone)
        with anyio.move_on_after(self._grace_s, shield=True) as grace:
            await done.wait()
        if grace.cancelled_caught:
            self._give_up()

    def _give_up(self) -> None:
        lost: dict[Activation, None] = {}
        for top in self._tops:
            if top.life is not Life.GONE:
                for one in top.subtree():
                    lost[one] = None
        for one in reversed(list(lost)):
            if one.life is not Life.GONE:
                if one.driving:
                    error = TimeoutError(
                        f"{_doing(one)} of agent {one.id} ({one.name}) did not end"
                        f" within {self._grace_s:g} s of being cancelled"
                    )
                    self._forest.errors.append((one, error))
                self._forest.force(one)


def _doing(activation: Activation) -> str:
    session = activation.session
    if session.calls is not None:
        places = sorted(activation.batch or ())
        names = [session.calls[place].name for place in places]
        if names:
            return f"tool {', '.join(map(repr, names))}"
    return "the policy's compact" if activation.compacting else "the turn"


def when_gone(activation: Activation, callback: Callable[[], None]) -> None:
    """Call back when an activation is gone, at once if it is."""
    if activation.life is Life.GONE:
        callback()
        return
    if activation.on_gone is None:
        activation.on_gone = []
    activation.on_gone.append(callback)


class Waiter(Protocol):
    """What waits for a callback: the backend, or a wait in which a place is lent."""

    async def wait(self, register: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the callback that is registered was called."""
        ...


async def until_over(backend: Backend, activation: Activation, gate: Gate) -> None:
    """Wait until an activation is gone and that is stored, or never will be.

    It is one wait, for those who need nothing in between.
    """
    if activation.life is Life.GONE:
        return
    waiters: list[Any] = []
    when_gone(activation, partial(_tell_when_stored, activation, gate, waiters))
    await backend.waiter(waiters)


def _tell_when_stored(activation: Activation, gate: Gate, waiters: list[Any]) -> None:
    gate.wake_at(activation.ticket, waiters)


async def until_gone(waiter: Waiter, activation: Activation) -> None:
    """Wait until an activation is gone."""
    if activation.life is not Life.GONE:
        await waiter.wait(lambda done: when_gone(activation, done))
