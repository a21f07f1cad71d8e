"""Recovery of random plays: kill at a batch, open again, resume, and go on.

Lives here: what a kill leaves of a play, which is a prefix of its batches; the run that
recovers from it, and may itself be killed and recovered from; and what must hold then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import anyio
import attrs

import ramet
from ramet import Agent, Entry, MemoryStore, ModelRequest, ModelResponse
from ramet.mailbox.events import Accepted
from ramet.mailbox.session import Session, fold
from ramet.mailbox.store import Batch
from tests.lifecycle.laws import check_laws
from tests.lifecycle.play import Played, play, replayable
from tests.lifecycle.play_checks import check_end, check_rest
from tests.lifecycle.play_hosts import Waiters
from tests.lifecycle.play_minds import Minds, response
from tests.lifecycle.play_world import Disk, Setting, World
from tests.schedules import Backend, Kind, run_seeded

__all__ = ["recover", "stored"]

_CUTS = 4
_REST_S = 0.001


def recover(backend: Backend, kind: Kind, seed: int) -> Counter[str]:
    """Play a seed, then kill it at a few of its batches and recover each time.

    Once for each kill, recovery is killed too, and recovered from.

    Raises:
        BrokenPlayError: a law was broken.
    """
    counts: Counter[str] = Counter()
    with replayable(backend, kind, seed, "--recover"):
        played = play(backend, kind, seed)
        dice = random.Random(seed)
        cuts = dice.sample(played.marks, min(_CUTS, len(played.marks)))
        for cut in cuts:
            first = _recovered(backend, kind, seed, played, played.order[:cut])
            counts["recoveries"] += 1
            if first.marks:
                again = first.order[: dice.choice(first.marks)]
                _recovered(backend, kind, seed, played, again, generation=2)
                counts["recoveries of a recovery"] += 1
    return counts


def stored(order: Sequence[Entry]) -> MemoryStore:
    """A store that holds these events, and that no living supervisor has opened."""
    sessions: dict[str, Session] = {}
    for entry in order:
        sessions.setdefault(entry.session, Session()).apply(entry.event)
    expected = dict.fromkeys(sessions, 0)
    epochs = dict.fromkeys(sessions, 1)
    summaries = {name: session.summary() for name, session in sessions.items()}
    store = MemoryStore()
    store.open()
    store.append(Batch("the one that was killed", order, expected, epochs, summaries))
    store.close()
    return store


def _recovered(
    backend: Backend,
    kind: Kind,
    seed: int,
    played: Played,
    order: list[Entry],
    *,
    generation: int = 1,
) -> World:
    """Recover from what a kill left, and check what came of it."""
    world = World(seed, generation=generation)
    world.setting = _calm(world.setting, played.setting)
    world.store = stored(order)
    world.order = list(order)
    before = len(order)
    run_seeded(_recover, world, backend=backend, seed=seed, kind=kind)
    check_laws(
        world.store,
        world.requests,
        world.order,
        told=world.setting.policy.notices != "off",
        orphans=played.resumed,
    )
    _check_recovered(world)
    assert not world.broken, f"killed after {before} events: {world.broken[:3]}"
    return world


def _calm(drawn: Setting, played: Setting) -> Setting:
    """The policy of the play, on a disk of its own."""
    return attrs.evolve(drawn, policy=played.policy)


class _CalmMinds(Minds):
    """The same agents, who do no more than come to an end."""

    async def think(self, request: ModelRequest) -> str | ModelResponse:
        """Return a value, or say something."""
        self.look(request)
        self._world.requests.append(request)
        await self._world.pause(2)
        if request.name == "returns":
            return response([("reply", {"value": "v"})])
        return "done"


async def _recover(world: World) -> None:
    minds = _CalmMinds(world)
    headers = world.headers(roots=True)
    roots = [it.session for it in headers if it.parent is None]
    roots = [root for root in roots if not _is_over(world, root)]
    world.resumed.update(roots)
    async with anyio.create_task_group() as world.group:
        waiters = Waiters(world, world.group)
        async with ramet.open(
            world.store,
            specs=[minds.goes_on, minds.returns],
            model=minds.model,
            ambient=world.ambient,
        ) as supervisor:
            world.supervisor = supervisor
            Disk(world).attach(supervisor._runtime.storage)
            resumed = [await supervisor.resume(root) for root in roots]
            for root in resumed:
                if root.kind == "headless":
                    root.release()
            await anyio.sleep(_REST_S)
            await check_rest(world, waiters)
            for root in resumed:
                if root.kind == "interactive":
                    await _go_on(world, root)
            await anyio.sleep(_REST_S)
            await check_rest(world, waiters)
    check_end(world)


def _is_over(world: World, root: str) -> bool:
    """Whether a root has returned, and so cannot be continued."""
    session = fold(world.store.load(root))
    return session.concluded is not None and session.activation is None


async def _go_on(world: World, root: Agent) -> None:
    """Repeat what had a key, send something new, and wake every child."""
    supervisor = world.supervisor
    for event in list(world.accepted().values()):
        if event.key is not None and _is_told(world, root, event):
            again = await supervisor.tell(root, event.content[0], key=event.key)
            world.need(again == event.id, "R-060 a repeat is new", event, again)
    await world.sent(supervisor.tell(root, "go on"))
    for header in world.headers():
        if header.parent == root.id and header.kind == "continuable":
            await world.sent(supervisor.followup(root, header.session, "go on"))


def _is_told(world: World, root: Agent, event: Accepted) -> bool:
    place = world.store.place(event.id)
    return event.source == "tell" and place == root.id


def _check_recovered(world: World) -> None:
    """A root is as good as new, and knows what became of its children (R-179)."""
    for header in world.headers(roots=True):
        if header.parent is not None and header.parent not in world.resumed:
            continue
        session = fold(world.store.load(header.session))
        name = header.session
        world.need(session.activation is None, "R-117 without an end", name)
        world.need(session.open is None, "R-175 a turn without an end", name)
        world.need(session.calls is None, "12 a call without a result", name)
        told = not session.untold or header.parent is None
        world.need(told, "R-179 an outcome that nobody was told", name)
        if header.kind == "oneshot":
            world.need(session.concluded is not None, "11 in silence", name)
