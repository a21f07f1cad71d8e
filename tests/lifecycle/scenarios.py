"""Races of the protocol, one scenario each: what comes first between two parties.

Lives here: the scenarios that the simulator explores, schedule by schedule, and plays
by seed.  None says who wins; each holds that whoever does, every law is kept.  A mind
is held at a gate, so that a race begins where both parties can still win.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

import ramet
from ramet import Agent, AgentSpec, Limits, ModelRequest, ModelResponse, Policy, Setup
from ramet.testing import Gate, World, call
from tests.lifecycle.minds import reply

__all__ = ["PAIRS", "TREES"]

LEAD = AgentSpec("lead")
SCOUT = AgentSpec("scout")
ORACLE = AgentSpec("oracle")
SPECS = (LEAD, SCOUT, ORACLE)

Mind = Callable[[ModelRequest], Awaitable[str | ModelResponse]]


def held(gate: Gate, *names: str) -> ramet.FunctionModel:
    """Agents of these names wait at the gate before their first answer."""

    async def think(request: ModelRequest) -> str | ModelResponse:
        if request.name in names and request.turn == 1:
            await gate.passed()
        if any(tool.name == "reply" for tool in request.tools):
            return ModelResponse("", (reply("v"),), "tool_calls")
        return "done"

    return ramet.FunctionModel(think)


class Family:
    """A root with one live child, whose first answer waits for `gate`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gate = Gate()
        self.root: Agent
        self.child: Agent

    async def begin(self) -> ramet.Supervisor:
        """Start them; the child's request is under way."""
        supervisor = self.world.supervisor
        self.root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_child(self.root, SCOUT, "go")
        child = supervisor.agent(begun.child_id)
        assert child is not None
        self.child = child
        await self.gate.reached()
        return supervisor

    async def settle(self) -> None:
        """Let the child come to its end."""
        self.gate.open()
        await self.child.wait_gone()


async def report_against_settle(world: World) -> None:
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        sent, _ = await world.race(
            lambda: supervisor.report_from(family.child, "found", key="k"),
            family.settle,
        )
    told = [e for e in world.accepted() if e.source == "report"]
    world.need(len(told) == isinstance(sent, str), "7 refused and there", sent, told)


async def report_against_drain(world: World) -> None:
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        await world.race(
            lambda: supervisor.report_from(family.child, "found", delivery="wakeup"),
            supervisor.drain,
        )


async def report_against_cancel(world: World) -> None:
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        await world.race(
            lambda: supervisor.report_from(family.child, "found"),
            lambda: supervisor.cancel(family.child),
        )


async def report_against_parents_close(world: World) -> None:
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        await world.race(
            lambda: supervisor.report_from(family.child, "found", delivery="wakeup"),
            lambda: supervisor.cancel(family.root),
        )


async def call_against_revocation(world: World) -> None:
    """A tool of a contribution is called while that is revoked (law 17)."""
    gate, revoked = Gate(), False

    def lend(setup: Setup) -> None:
        async def lent() -> str:
            """Do a little."""
            world.need(not revoked, "17 a call of what was revoked")
            return "done"

        setup.add_tool(lent)

    async def think(request: ModelRequest) -> str | ModelResponse:
        if request.step:
            return "done"
        await gate.passed()
        return ModelResponse("", (call("lent"), call("lent")), "tool_calls")

    async with world.open(specs=SPECS, model=ramet.FunctionModel(think)) as supervisor:
        revoke = supervisor.register_setup(lend)
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "go")
        await gate.reached()

        async def take_back() -> None:
            nonlocal revoked
            await world.checkpoint()
            revoke()
            revoked = True

        async def go_on() -> None:
            gate.open()
            await root.wait_idle()

        await world.race(take_back, go_on)


async def setup_against_revocation(world: World) -> None:
    """Agents are started and resumed while a contribution comes and goes (law 18)."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_child(root, SCOUT, "go")
        await world.rest()

        async def come_and_go() -> None:
            revoke = supervisor.register_setup(lambda setup: None)
            await world.checkpoint()
            revoke()

        resumes = world.dice.random() < 0.5
        await world.race(
            come_and_go,
            lambda: (
                supervisor.followup(root, begun.child_id, "more")
                if resumes
                else supervisor.start_child(root, SCOUT, "go")
            ),
        )


async def wake_against_park(world: World) -> None:
    """A root is told something as its turn ends: the wake is not lost (law 5)."""
    gate = Gate()
    async with world.open(specs=SPECS, model=held(gate, "lead")) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "first")
        await gate.reached()

        async def end_turn() -> None:
            gate.open()
            await root.wait_idle()

        await world.race(lambda: supervisor.tell(root, "second"), end_turn)
        await world.rest()
        turns = [r for r in world.requests if r.session_id == root.id]
        world.need(len(turns) == 2, "5 one turn for each wake", len(turns))


async def followup_against_dispose(world: World) -> None:
    """A child is sent more as it settles: it takes it, or is resumed for it."""
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        sent, _ = await world.race(
            lambda: supervisor.followup(family.root, family.child.id, "more"),
            family.settle,
        )
        assert isinstance(sent, str)
        assert (await supervisor.wait(sent)).status == "completed"


async def two_followups_to_an_absent_child(world: World) -> None:
    """Both resume it: one life, and both are answered (law 1)."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_child(root, SCOUT, "go")
        await world.rest()
        sent = await world.race(
            lambda: supervisor.followup(root, begun.child_id, "one"),
            lambda: supervisor.followup(root, begun.child_id, "two"),
        )
        for message in sent:
            assert isinstance(message, str)
            assert (await supervisor.wait(message)).status == "completed"


async def followup_against_cancel_of_an_absent_child(world: World) -> None:
    """Its resume and its cancel: one comes wholly before the other (R-265)."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_child(root, SCOUT, "go")
        await world.rest()
        sent, _ = await world.race(
            lambda: supervisor.followup(root, begun.child_id, "more"),
            lambda: supervisor.cancel(begun.child_id),
        )
        if isinstance(sent, str):
            await supervisor.wait(sent)


async def wait_against_a_resume_that_is_given_up(world: World) -> None:
    """A wait that meets a load looks again once it is over, whatever came of it."""
    family = Family(world)
    async with world.open(specs=SPECS, model=held(family.gate, "scout")) as supervisor:
        await family.begin()
        kept = await supervisor.followup(family.root, family.child.id, "more")
        supervisor.interrupt(family.child.id)
        await family.child.wait_gone()
        scope = anyio.CancelScope()

        async def resume() -> None:
            with scope:
                await supervisor.resume(family.child.id)
            again = supervisor.agent(family.child.id)
            if again is not None:
                again.release()

        async def give_up() -> None:
            await anyio.lowlevel.checkpoint()
            scope.cancel()

        waited, *_ = await world.race(lambda: supervisor.wait(kept), resume, give_up)
        ended = isinstance(waited, (ramet.ParkedError, ramet.Outcome))
        world.need(ended, "R-264 a wait ends", waited)


async def cold_resume_against_crash(world: World) -> None:
    """The process is killed while a child is resumed; nothing stored is lost."""
    stored: list[str] = []
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_child(root, SCOUT, "go")
        await world.rest()

        async def follow_up() -> None:
            sending = supervisor.followup(root, begun.child_id, "more", key="k")
            stored.append(await sending)

        async def kill() -> None:
            await world.checkpoint()
            world.crash()

        await world.race(follow_up, kill)
    async with world.open(specs=SPECS) as supervisor:
        again = await supervisor.resume(root.id)
        sent = await supervisor.followup(again, begun.child_id, "more", key="k")
        world.need(stored in ([], [sent]), "19 a repeat is new", stored, sent)
        # A repeat resumes nobody; what is new does, and what waits comes first.
        await supervisor.wait(await supervisor.followup(again, begun.child_id, "new"))
        await supervisor.wait(sent)


async def reply_against_cancel(world: World) -> None:
    """A one-shot child returns as it is cancelled: one outcome, told once (law 11)."""
    gate = Gate()
    async with world.open(specs=SPECS, model=held(gate, "oracle")) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        begun = await supervisor.start_call(root, ORACLE, "why?")
        await gate.reached()

        async def answer() -> ramet.Outcome[Any]:
            gate.open()
            return await supervisor.wait(begun.message_id)

        outcome, _ = await world.race(answer, lambda: supervisor.cancel(begun.child_id))
        world.need(outcome.status in ("completed", "cancelled"), "11", outcome)
        world.need(
            (outcome.acceptance is not None) == (outcome.status == "completed"),
            "13 acceptance without completion",
            outcome,
        )


async def interrupt_against_tell(world: World) -> None:
    """An interrupt parks, and a later wake un-parks, whichever comes last (R-141)."""
    gate = Gate()
    async with world.open(specs=SPECS, model=held(gate, "lead")) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await supervisor.tell(root, "first")
        await gate.reached()

        async def interrupt() -> None:
            await world.checkpoint()
            supervisor.interrupt(root.id)

        await world.race(interrupt, lambda: supervisor.tell(root, "second"))
        gate.open()


async def notice_against_open_turn(world: World) -> None:
    """A child that has reported ends while its parent's only turn is open (R-127)."""
    gate, family = Gate(), Family(world)

    async def think(request: ModelRequest) -> str:
        if request.name == "scout":
            await family.gate.passed()
        elif request.turn == 1:
            await gate.passed()
        return "done"

    async with world.open(specs=SPECS, model=ramet.FunctionModel(think)) as supervisor:
        await family.begin()
        await supervisor.tell(family.root, "go")
        await gate.reached()
        await supervisor.report_from(family.child, "found", delivery="quiet")

        async def end_turn() -> None:
            gate.open()
            await family.root.wait_idle()

        await world.race(family.settle, end_turn)


async def turn_against_the_hosts_cancel(world: World) -> None:
    """The host is cancelled around the block: open turns rest, what waits is kept."""
    family = Family(world)
    with anyio.CancelScope() as scope:
        async with world.open(specs=SPECS, model=held(family.gate, "scout")):
            supervisor = await family.begin()
            await supervisor.followup(family.root, family.child.id, "more")

            async def cancel() -> None:
                await world.checkpoint()
                scope.cancel()

            await world.race(cancel, family.settle)


async def two_senders_with_one_key(world: World) -> None:
    """The same key at the same time is one message (law 19)."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        ids = await world.race(
            lambda: supervisor.tell(root, "go", key="k"),
            lambda: supervisor.tell(root, "go", key="k"),
        )
        world.need(len(set(ids)) == 1, "19 two messages for one key", ids)


async def tell_against_cancel(world: World) -> None:
    """A root is told something as it is cancelled: it is in, or nothing is (law 6)."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        sent, _ = await world.race(
            lambda: supervisor.tell(root, "go"), lambda: supervisor.cancel(root)
        )
        if isinstance(sent, str):
            await supervisor.wait(sent)


async def start_against_drain(world: World) -> None:
    """A child is started as everything is drained: it is there whole, or not at all."""
    async with world.open(specs=SPECS) as supervisor:
        root = await supervisor.start_root(LEAD, interactive=True)
        await world.race(
            lambda: supervisor.start_child(root, SCOUT, "go"),
            lambda: supervisor.start_root(LEAD, interactive=True),
            supervisor.drain,
        )


async def budget_under_parallel_delegation(world: World) -> None:
    """Calls in one batch share what is left of a budget, exactly (law 16)."""
    calls = 0

    async def work() -> str:
        """Do a little."""
        nonlocal calls
        await world.checkpoint()
        calls += 1
        return "done"

    async def think(request: ModelRequest) -> str | ModelResponse:
        batch = (call("work"), call("work"), call("work"))
        return ModelResponse("", batch, "tool_calls")

    spec = AgentSpec("lead", tools=[work], limits=Limits(tool_calls=4, requests=5))
    async with world.open(specs=[spec], model=ramet.FunctionModel(think)) as supervisor:
        root = await supervisor.start_root(spec, interactive=True)
        await world.race(
            lambda: supervisor.tell(root, "go"), lambda: supervisor.tell(root, "go")
        )
        await world.rest()
        world.need(calls == 4, "16 four calls, and not one more", calls)


PAIRS = (
    report_against_settle,
    report_against_drain,
    report_against_cancel,
    report_against_parents_close,
    call_against_revocation,
    setup_against_revocation,
    wake_against_park,
    followup_against_dispose,
    two_followups_to_an_absent_child,
    followup_against_cancel_of_an_absent_child,
    wait_against_a_resume_that_is_given_up,
    cold_resume_against_crash,
    reply_against_cancel,
    interrupt_against_tell,
    notice_against_open_turn,
    turn_against_the_hosts_cancel,
    two_senders_with_one_key,
    tell_against_cancel,
    start_against_drain,
    budget_under_parallel_delegation,
)
"""Each pair of parties; `explore` tries its schedules."""


async def deep_tree(world: World) -> None:
    """A chain of six levels; children report, and some cancel their own parents."""

    async def think(request: ModelRequest) -> str | ModelResponse:
        return await _branch(world, request, width=1, depth=6)

    await _grow(world, think)


async def wide_tree(world: World) -> None:
    """Eight children at once below each of the first levels."""

    async def think(request: ModelRequest) -> str | ModelResponse:
        return await _branch(world, request, width=8, depth=1)

    await _grow(world, think)


async def _branch(
    world: World, request: ModelRequest, *, width: int, depth: int
) -> str | ModelResponse:
    """Grow downwards first; then report, or do harm."""
    below = world.durable[request.session_id].header.depth
    if request.turn == 1 and request.step == 0 and below < depth:
        return ModelResponse("", (call("start"),) * width, "tool_calls")
    if request.step < 2 and below:
        harm = world.dice.random() < 0.15
        return ModelResponse("", (call("harm" if harm else "tell"),), "tool_calls")
    return "done"


async def _grow(world: World, think: Mind) -> None:
    async def start(call: ramet.ToolCall) -> str:
        """Start a child."""
        agent = _agent(call)
        return (await world.supervisor.start_child(agent, spec, "grow")).child_id

    async def tell(call: ramet.ToolCall) -> str:
        """Report to the parent."""
        waking = world.dice.random() < 0.3
        return await world.supervisor.report_from(
            _agent(call), "found", delivery="wakeup" if waking else "quiet"
        )

    async def harm(call: ramet.ToolCall) -> str:
        """Cancel the parent, or itself."""
        agent = _agent(call)
        target = agent.parent_id if world.dice.random() < 0.5 else agent.id
        await world.supervisor.cancel(target or agent.id, reason="harm")
        return "nobody reads this"

    policy = Policy(max_depth=6)
    spec = AgentSpec("branch", tools=[start, tell, harm], policy=policy)
    async with world.open(specs=[spec], model=ramet.FunctionModel(think)) as supervisor:
        root = await supervisor.start_root(spec, interactive=True)
        await supervisor.tell(root, "grow")


def _agent(call: ramet.ToolCall) -> Agent:
    agent = call.agent
    assert isinstance(agent, Agent)
    return agent


TREES = (deep_tree, wide_tree)
"""Forests that grow by themselves."""
