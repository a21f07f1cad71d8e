"""What must be true of a disturbed return: the value stands or it does not exist.

Lives here: one play from its opening to its verdict, over the log, over what the
process told, and over what the next opening finds where a commit failed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import attrs

import ramet
from ramet import AgentSpec, MemoryStore, ModelRequest, Outcome
from ramet.lifecycle.laws import Logs, check_laws, logs_of
from ramet.mailbox.events import Accepted, Concluded, Created, Event, TurnEnded
from tests.lifecycle.accepting import DISTURBANCES, Return, World
from tests.lifecycle.stage import of
from tests.schedules import Backend, run_seeded

__all__ = ["Played", "play"]


@attrs.frozen
class Played:
    """How a run ended: how many points it had, and whether the value was accepted."""

    points: int
    accepted: bool
    disturbed: bool


def play(
    returns: Return, backend: Backend, disturbance: str | None = None, at: int = 0
) -> Played:
    """Play a return, disturbed at one point, and judge it.

    Raises:
        AssertionError: there is both a value and none, or neither; or a law is broken.
    """
    world = World(returns, backend, disturbance, at)
    try:
        run_seeded(world.run, backend=backend, seed=0)
    except BaseException as error:
        unstored = ramet.PersistenceUnavailableError, ramet.SendUnknownError
        lost = world.decided is not None and (disturbance or "").endswith("lost")
        if not (lost and _only(error, unstored)):
            raise
    return _judged(world, disturbance)


def _only(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)[1] is None
    return isinstance(error, kinds)


def _judged(world: World, disturbance: str | None) -> Played:
    logs = logs_of(world.store)
    log = _log(logs) or ()
    concluded = of(log, Concluded)
    lost = (disturbance or "").endswith("lost") and world.decided is not None
    if lost:
        _judge_reopened(world)
    if lost and not concluded:
        assert world.told is None or world.told.acceptance is None, "told, not stored"
        return Played(world.points, False, True)
    assert len(concluded) == 1, f"{len(concluded)} outcomes: both, or neither"
    (end,) = concluded
    accepted = end.status == "completed"
    assert (end.receipt is not None) is accepted, "a receipt proves a value"
    assert (end.value is not None) is accepted, "a value, and it is not accepted"
    if accepted:
        assert json.loads(end.value or "") == world.returns.value
    else:
        assert disturbance is not None, f"nothing disturbed it: {end}"
        ends = DISTURBANCES[disturbance]
        assert (end.status, end.cause) in ends, f"{disturbance} ended it as {end}"
        assert not world.decided, "what was committed before did not stand"
    turns = of(log, TurnEnded)
    assert not turns or turns[-1].status == end.status, "turn and outcome differ"
    _judge_told(world, accepted, lost=lost)
    if not lost:
        check_laws(world.store, world.requests, world.observer.entries)
    return Played(world.points, accepted, world.decided is not None)


def _judge_reopened(world: World) -> None:
    """After a commit that failed the next opening knows: the value, or a crash."""
    before = logs_of(world.store)
    store = MemoryStore(world.store.data)
    requests: list[ModelRequest] = []
    outcomes: list[Outcome[Any] | None] = []

    async def think(request: ModelRequest) -> str:
        requests.append(request)
        return "noted"

    async def reopen() -> None:
        model = ramet.FunctionModel(think)
        lead, below = AgentSpec("lead", model=model), AgentSpec("below", model=model)
        async with ramet.open(store, specs=(lead, world.spec, below)) as supervisor:
            for line in await supervisor.children(None):
                with contextlib.suppress(ramet.NotResumableError):
                    (await supervisor.resume(line.id)).release()
            for events in before.values():
                for event in of(events, Accepted):
                    if event.source in ("prompt", "tell") and events is _log(before):
                        outcomes.append(await supervisor.outcome(event.id))

    run_seeded(reopen, backend=world.backend, seed=0)
    stored = of(_log(before) or [], Concluded)
    for outcome in outcomes:
        # A root whose message no turn had claimed is asked again, and still owes it.
        if outcome is None:
            assert not stored
        elif stored and stored[0].status == "completed":
            assert outcome.unwrap() == world.returns.value
        else:
            assert outcome.acceptance is None
            assert outcome.cause in ("crashed", stored[0].cause if stored else None)


def _log(logs: Logs) -> Sequence[Event] | None:
    """The log of the agent that returns, if it is stored."""
    for events in logs.values():
        header = events[0]
        assert isinstance(header, Created)
        if header.spec.name == "returns":
            return events
    return None


def _judge_told(world: World, accepted: bool, *, lost: bool) -> None:
    """What the process told is what is stored; only a lost answer leaves that open."""
    told = world.told
    if told is None:
        return
    if not lost:
        assert (told.acceptance is not None) is accepted, "told otherwise"
    if told.acceptance is not None:
        assert accepted
        assert told.unwrap() == world.returns.value
        return
    try:
        told.unwrap()
    except ramet.OutcomeError:
        return
    raise AssertionError("a value came out that was not accepted")
