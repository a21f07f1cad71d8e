"""A random play over the running runtime: one seed, one run, every law looked at.

Lives here: one play from its opening to its end, and the command that searches many
seeds:

    python -m tests.lifecycle.play --backend trio --kind pct --seeds 2000 --first 0

The hosts and minds of a play are in `play_hosts.py` and `play_minds.py`, what they
share in `play_world.py`, and what must hold in `play_checks.py` and `laws.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

import anyio
import attrs

import ramet
from ramet import Entry, Supervisor
from tests.lifecycle.play_checks import check_end, check_logs, check_rest
from tests.lifecycle.play_hosts import Host, Waiters
from tests.lifecycle.play_minds import Minds
from tests.lifecycle.play_world import Disk, Setting, World, steps
from tests.schedules import Backend, Kind, run_seeded

__all__ = ["BrokenPlayError", "Played", "main", "play", "replayable", "run_again"]

_HOSTS = 3
_REST_S = 0.001
"""Virtual time passes only when nobody can run, so that any wait is a wait for rest."""


class BrokenPlayError(AssertionError):
    """Raised when a play broke a law: which, by which seed, and how to see it again."""


@attrs.frozen
class Played:
    """A play that broke no law.

    `order` are its events as they became durable, `marks` how many there were after
    each batch; `resumed` the sessions that the host made resident.
    """

    order: list[Entry]
    marks: list[int]
    resumed: set[str]
    setting: Setting
    counts: Counter[str]

    def digest(self) -> str:
        """Stands for every event: two plays with one digest are the same."""
        return hashlib.sha256(repr(self.order).encode()).hexdigest()[:16]


def run_again(backend: Backend, kind: Kind, seed: int, *options: str) -> str:
    """The command that plays one seed again."""
    parts = [
        f"python -m tests.lifecycle.play --backend {backend} --kind {kind}",
        f"--seeds 1 --first {seed}",
        *options,
    ]
    return " ".join(parts)


@contextmanager
def replayable(
    backend: Backend, kind: Kind, seed: int, *options: str
) -> Iterator[None]:
    """A block whose failure says how to see it again."""
    try:
        yield
    except BrokenPlayError:
        raise
    except Exception as error:
        raise BrokenPlayError(
            f"{backend} {kind} seed {seed}: {_leaf(error)}\n"
            f"again: {run_again(backend, kind, seed, *options)}"
        ) from error


def play(
    backend: Backend,
    kind: Kind,
    seed: int,
    *,
    breaking: bool = False,
    limited: bool = False,
) -> Played:
    """Play one seed.

    Args:
        backend: on which loop.
        kind: how the schedule is drawn.
        seed: of the schedule and of everything else.
        breaking: whether a commit fails on the way.
        limited: whether the run, and perhaps each agent, has limits.

    Raises:
        BrokenPlayError: a law was broken.
    """
    options = ["--breaking"] * breaking + ["--limited"] * limited
    with replayable(backend, kind, seed, *options):
        world = World(seed, breaking=breaking, limited=limited)
        run_seeded(_play, world, backend=backend, seed=seed, kind=kind)
        check_logs(world)
        assert not world.broken, "; ".join(world.broken[:3])
    world.counts["requests"] += len(world.requests)
    world.counts["commits that failed"] += world.failed
    for entry in world.order:
        world.counts[type(entry.event).__name__] += 1
    return Played(world.order, world.marks, world.resumed, world.setting, world.counts)


async def _play(world: World) -> None:
    minds = Minds(world)
    scope = anyio.CancelScope()
    left_with: list[ramet.RametError] = []
    async with anyio.create_task_group() as world.group:
        with scope, _may_fail(world, left_with):
            async with ramet.open(
                world.store,
                specs=[minds.goes_on, minds.returns],
                model=minds.model,
                ambient=world.ambient,
                limits=world.limits,
            ) as supervisor:
                world.supervisor = supervisor
                Disk(world).attach(supervisor._runtime.storage)
                with _may_fail(world, []):
                    await _body(world, minds, scope)
    told = bool(left_with) or scope.cancel_called or not world.failed
    world.need(told, "R-186 a failed commit was not told on leaving")
    check_end(world)


@contextmanager
def _may_fail(world: World, left_with: list[ramet.RametError]) -> Iterator[None]:
    """A block that the failed store of this play may end, and nothing else."""
    try:
        yield
    except (ramet.SendUnknownError, ramet.PersistenceUnavailableError) as error:
        if not world.failed or world.setting.fails_at is None:
            raise
        left_with.append(error)


async def _body(world: World, minds: Minds, scope: anyio.CancelScope) -> None:
    """What happens inside the open block."""
    supervisor, setting = world.supervisor, world.setting
    revoke = supervisor.register_setup(minds.lend)
    roots = [(await supervisor.start_root(minds.goes_on, interactive=True)).id]
    if setting.headless:
        root = await supervisor.start_root(minds.returns, interactive=False)
        roots.append(root.id)
    if setting.killed_after is not None:
        world.group.start_soon(_later, setting.killed_after, scope.cancel)
    async with anyio.create_task_group() as waiting:
        waiters = Waiters(world, waiting)
        async with anyio.create_task_group() as hosts:
            for _ in range(_HOSTS):
                hosts.start_soon(Host(world, minds, roots, waiters).run)
            hosts.start_soon(_revoke, world, revoke)
            if setting.drained_after is not None:
                hosts.start_soon(_drain, world, supervisor, setting.drained_after)
        if setting.rests and not world.failed:
            await anyio.sleep(_REST_S)
            if not world.failed:
                await check_rest(world, waiters)
                world.counts["plays that rested"] += 1
        waiting.cancel_scope.cancel()


async def _later(count: int, action: Callable[[], None]) -> None:
    await steps(count)
    action()


async def _revoke(world: World, revoke: Callable[[], None]) -> None:
    await world.pause(100)
    revoke()
    world.revoked = True


async def _drain(world: World, supervisor: Supervisor, after: int) -> None:
    await steps(after)
    try:
        await supervisor.drain()
    except ramet.RametError as error:
        world.counts[f"drain {error.code}"] += 1
        world.need(world.failed, "20 a drain failed", repr(error))


def _leaf(error: BaseException) -> str:
    """The first error of groups; one without words is named by its place."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if type(error) is not AssertionError:
        return f"{type(error).__name__}: {error}"
    if str(error):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{place.name} in line {place.lineno}: {place.line}"


def main(arguments: list[str] | None = None) -> int:
    """Search many seeds; prints each failure and a summary, gives the exit status."""
    # That file stands on this one.
    from tests.lifecycle.recover import recover

    parser = argparse.ArgumentParser(
        prog="python -m tests.lifecycle.play", description="Play many seeds."
    )
    parser.add_argument("--backend", choices=get_args(Backend), default="trio")
    parser.add_argument("--kind", choices=get_args(Kind), default="walk")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--breaking", action="store_true", help="a commit fails")
    how.add_argument("--recover", action="store_true", help="kill, open again, go on")
    parser.add_argument("--limited", action="store_true", help="with limits")
    chosen = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    whole = hashlib.sha256()
    failures = 0
    begin = time.monotonic()
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            if chosen.recover:
                counts += recover(chosen.backend, chosen.kind, seed)
            played = play(
                chosen.backend,
                chosen.kind,
                seed,
                breaking=chosen.breaking,
                limited=chosen.limited,
            )
            counts += played.counts
            whole.update(played.digest().encode())
        except BrokenPlayError as error:
            failures += 1
            print(f"BROKEN {error}", flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    print(
        f"{chosen.seeds} seeds on {chosen.backend} by {chosen.kind} in"
        f" {time.monotonic() - begin:.1f} s: {failures} broken;"
        f" digest {whole.hexdigest()[:16]}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    # By its own name, so that its classes are not there twice.
    from tests.lifecycle import play as itself

    sys.exit(itself.main())
