"""Limits over runs, subtrees and agents, on the running runtime and in virtual time.

Lives here: what happens in agents.  Each scene is one run under a seeded schedule, on
both backends, so that a wait for what never comes fails at once and an hour takes none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    AgentSpec,
    AgentStoppedError,
    Limits,
    ModelRequest,
    Outcome,
    Policy,
    Supervisor,
)
from ramet.lifecycle.laws import check_laws
from ramet.mailbox.events import Accepted, Concluded, Discarded
from ramet.testing import Gate
from ramet.testing import call as call_of
from tests.lifecycle.minds import reply, results_in
from tests.lifecycle.stage import LEAD, OrderObserver, of, resident
from tests.schedules import Backend, run_seeded

BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")
SEEDS = range(4)

R = TypeVar("R")
T = TypeVar("T", bound=Callable[..., None])
Scene = Callable[["Hall"], Awaitable[R]]


class Hall:
    """A store in memory, who runs on it, and the order in which they did.

    Attributes:
        running: the agents whose mind or tool runs now.
        most: how many ran at once at the most.
        order: what began to run, in order.
    """

    def __init__(self) -> None:
        self.store = ramet.MemoryStore()
        self.running: list[str] = []
        self.most = 0
        self.order: list[str] = []
        self.requests: list[ModelRequest] = []
        self.observer = OrderObserver()
        self.supervisor: Supervisor = None  # type: ignore[assignment]

    def runs(self, name: str) -> None:
        """Somebody runs from here on."""
        self.running.append(name)
        self.order.append(name)
        self.most = max(self.most, len(self.running))

    def mind(self, function: Callable[[ModelRequest], Any]) -> ramet.FunctionModel:
        """A mind that is seen to run while it thinks."""

        async def think(request: ModelRequest) -> Any:
            self.requests.append(request)
            self.runs(request.name)
            try:
                for _ in range(3):
                    await anyio.lowlevel.checkpoint()
                answer = function(request)
                return await answer if hasattr(answer, "__await__") else answer
            finally:
                self.running.remove(request.name)

        return ramet.FunctionModel(think)

    def worker(self, name: str = "worker", **options: Any) -> AgentSpec:
        """A spec whose agents reply with their name at once."""
        answer = ramet.ModelResponse(calls=(reply(name),))
        return AgentSpec(name, model=self.mind(lambda _: answer), **options)

    def log(self, session: str) -> list[Any]:
        """The durable events of a session."""
        reader = self.store.reader()
        try:
            return list(reader.load(session))
        finally:
            reader.close()


def staged(
    scene: Scene[R],
    backend: Backend,
    seed: int,
    limits: Limits | None = None,
    policy: Policy | None = None,
    specs: tuple[AgentSpec, ...] = (),
) -> R:
    """Play a scene, and check the laws over what it left."""
    hall = Hall()

    async def play() -> R:
        async with ramet.open(
            hall.store, specs=[LEAD, *specs], limits=limits, policy=policy
        ) as hall.supervisor:
            hall.supervisor.observe(hall.observer)
            return await scene(hall)

    result = run_seeded(play, backend=backend, seed=seed)
    check_laws(hall.store.reader(), hall.requests, hall.observer.entries, told=True)
    return result


def both(function: T) -> T:
    """A test that is played on both backends, under a few schedules."""
    with_seeds: T = pytest.mark.parametrize("seed", SEEDS)(function)
    with_both: T = pytest.mark.parametrize("backend", BACKENDS)(with_seeds)
    return with_both


async def root_of(hall: Hall) -> Agent:
    """An interactive root, which does nothing by itself."""
    return await hall.supervisor.start_root(LEAD, interactive=True)


async def all_of(*functions: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Run them at once; gives what each gave or raised of the runtime's errors."""
    results: list[Any] = [None] * len(functions)

    async def one(place: int, function: Callable[[], Awaitable[Any]]) -> None:
        try:
            results[place] = await function()
        except AgentStoppedError as error:
            results[place] = error

    async with anyio.create_task_group() as group:
        for place, function in enumerate(functions):
            group.start_soon(one, place, function)
    return results


def caller(hall: Hall, below: AgentSpec | None, name: str) -> AgentSpec:
    """A spec whose agents call one below with a tool, and reply with what it gave."""

    async def ask(call: ramet.ToolCall) -> Any:
        """Ask the one below."""
        agent = call.agent
        assert isinstance(agent, Agent)
        if below is None:
            return "deep"
        outcome = await hall.supervisor.call(agent, below, "go")
        hall.runs(f"{name} again")
        await anyio.lowlevel.checkpoint()
        hall.running.remove(f"{name} again")
        return outcome.unwrap()

    def think(request: ModelRequest) -> ramet.ModelResponse:
        results = results_in(request)
        if results:
            return ramet.ModelResponse(calls=(reply(results[-1].content),))
        return ramet.ModelResponse(calls=(call_of("ask"),))

    return AgentSpec(name, model=hall.mind(think), tools=[ask])


# Concurrency.


@pytest.mark.case("A-144")
@both
def test_no_more_run_than_may_and_the_others_wait_in_order(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        root = await root_of(hall)
        specs = [hall.worker(f"w{n}") for n in range(5)]
        started = [await hall.supervisor.start_call(root, spec, "go") for spec in specs]
        outcomes = [await hall.supervisor.wait(one.message_id) for one in started]
        assert [one.unwrap() for one in outcomes] == [spec.name for spec in specs]
        ran = [name for name in hall.order if name != "lead"]
        if limits.concurrency == 1:
            assert ran == [spec.name for spec in specs]
        assert hall.most <= (limits.concurrency or 5)

    for size in (1, 2):
        limits = Limits(concurrency=size)
        staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-144")
@both
def test_who_is_cancelled_in_the_queue_leaves_it_and_charged_nothing(
    backend: Backend, seed: int
) -> None:
    limits = Limits(concurrency=1, agents=2)

    async def scene(hall: Hall) -> None:
        hold = Gate()

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return ramet.ModelResponse(calls=(reply("late"),))

        sup, root = hall.supervisor, await root_of(hall)
        first = await sup.start_call(
            root, AgentSpec("slow", model=hall.mind(slow)), "x"
        )
        second = await sup.start_call(root, hall.worker("second"), "go")
        await hold.reached()
        with pytest.raises(AgentStoppedError):
            await sup.start_call(root, hall.worker("refused"), "go")
        await sup.cancel(second.child_id)
        outcome = await sup.wait(second.message_id)
        assert (outcome.status, outcome.cause) == ("cancelled", "cancelled")
        assert outcome.usage.own.requests == 0
        third = await sup.start_call(root, hall.worker("third"), "go")
        hold.open()
        assert (await sup.wait(first.message_id)).unwrap() == "late"
        assert (await sup.wait(third.message_id)).unwrap() == "third"
        assert "second" not in hall.order

    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-186", "A-187")
@both
@pytest.mark.parametrize("where", ["run", "subtree"])
def test_a_chain_of_calls_completes_in_one_place(
    where: str, backend: Backend, seed: int
) -> None:
    limits = Limits(concurrency=1)

    async def scene(hall: Hall) -> None:
        spec: AgentSpec | None = None
        for depth in range(5, 0, -1):
            spec = caller(hall, spec, f"c{depth}")
        assert spec is not None
        call = partial(
            hall.supervisor.call,
            await root_of(hall),
            spec,
            "go",
            limits=limits if where == "subtree" else None,
        )
        outcome: Outcome[Any] = await call()
        assert outcome.unwrap() == "deep"
        assert hall.most == 1
        again = [name for name in hall.order if name.endswith("again")]
        assert again == ["c4 again", "c3 again", "c2 again", "c1 again"]

    staged(
        scene,
        backend,
        seed,
        limits if where == "run" else None,
        Policy(max_depth=9, notices="quiet"),
    )


@pytest.mark.case("A-186")
@both
def test_who_waited_for_a_child_comes_back_before_who_is_new(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        hold = Gate()

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return ramet.ModelResponse(calls=(reply("late"),))

        below = AgentSpec("below", model=hall.mind(slow))
        sup, root = hall.supervisor, await root_of(hall)
        begun = await sup.start_call(root, caller(hall, below, "top"), "go")
        await hold.reached()
        new = await sup.start_call(root, hall.worker("new"), "go")
        hold.open()
        assert (await sup.wait(begun.message_id)).unwrap() == "late"
        assert (await sup.wait(new.message_id)).unwrap() == "new"
        assert hall.order == ["top", "below", "top again", "top", "new"]

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))


@pytest.mark.case("A-186")
@both
def test_who_waits_between_its_turns_is_woken_before_who_is_new(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        hold = Gate()
        sup, root = hall.supervisor, await root_of(hall)

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return ramet.ModelResponse(calls=(reply("late"),))

        below = AgentSpec("below", model=hall.mind(slow))

        async def send(call: ramet.ToolCall) -> str:
            """Call in the background."""
            assert isinstance(call.agent, Agent)
            await sup.start_call(call.agent, below, "go")
            return "sent"

        def think(request: ModelRequest) -> Any:
            if request.turn > 1:
                return ramet.ModelResponse(calls=(reply("done"),))
            if results_in(request):
                return "I wait"
            return ramet.ModelResponse(calls=(call_of("send"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[send])
        begun = await sup.start_call(root, top, "go")
        await hold.reached()
        assert resident(sup, begun.child_id).state == "waiting"
        new = await sup.start_call(root, hall.worker("new"), "go")
        hold.open()
        assert (await sup.wait(begun.message_id)).unwrap() == "done"
        assert (await sup.wait(new.message_id)).unwrap() == "new"
        assert hall.order == ["top", "top", "below", "top", "new"]

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))


@pytest.mark.case("A-186")
@both
def test_many_that_wait_for_their_children_never_block_each_other(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        below = caller(hall, hall.worker("leaf"), "middle")
        spec = caller(hall, below, "top")
        root = await root_of(hall)
        call = partial(hall.supervisor.call, root, spec, "go")
        outcomes = await all_of(*[call] * 12)
        assert [one.unwrap() for one in outcomes] == ["leaf"] * 12
        assert hall.most <= 2

    staged(scene, backend, seed, Limits(concurrency=2), Policy(notices="quiet"))


@both
def test_an_agent_waits_for_its_children_only_while_no_other_call_of_it_runs(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        hold = Gate()
        leaf = hall.worker("leaf")

        async def ask(call: ramet.ToolCall) -> Any:
            """Ask."""
            assert isinstance(call.agent, Agent)
            return (await hall.supervisor.call(call.agent, leaf, "go")).unwrap()

        async def work() -> str:
            """Work."""
            hall.runs("work")
            await hold.passed()
            hall.running.remove("work")
            return "worked"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return ramet.ModelResponse(calls=(reply("done"),))
            calls = [call_of(name) for name in ("ask", "work", "ask")]
            return ramet.ModelResponse(calls=tuple(calls))

        top = AgentSpec("top", model=hall.mind(think), tools=[ask, work])
        sup, root = hall.supervisor, await root_of(hall)
        begun = await sup.start_call(root, top, "go")
        await hold.reached()
        await anyio.sleep(1)
        assert len(await sup.children(begun.child_id)) == 2
        assert "leaf" not in hall.order
        hold.open()
        assert (await sup.wait(begun.message_id)).unwrap() == "done"
        assert hall.order == ["top", "work", "leaf", "leaf", "top"]
        assert hall.most == 1

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))


@both
def test_a_tool_that_gives_up_a_call_has_its_place_again_before_it_goes_on(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        async def slow(request: ModelRequest) -> Any:
            await anyio.sleep_forever()

        below = AgentSpec("below", model=hall.mind(slow))

        async def ask(call: ramet.ToolCall) -> str:
            """Ask, but not for long."""
            assert isinstance(call.agent, Agent)
            with anyio.move_on_after(5):
                await hall.supervisor.call(call.agent, below, "go")
            hall.runs("gave up")
            await anyio.sleep(3)
            hall.running.remove("gave up")
            return "gave up"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return ramet.ModelResponse(calls=(reply("done"),))
            return ramet.ModelResponse(calls=(call_of("ask"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[ask])
        sup, root = hall.supervisor, await root_of(hall)
        call = partial(sup.call, root, top, "go")
        outcomes = await all_of(*[call] * 3)
        assert [one.unwrap() for one in outcomes] == ["done"] * 3
        assert hall.most == 1

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))


@both
def test_an_agent_that_waits_at_its_reply_gives_its_place_back(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        leaf = hall.worker("leaf")

        async def send(call: ramet.ToolCall) -> str:
            """Call in the background."""
            assert isinstance(call.agent, Agent)
            await hall.supervisor.start_call(call.agent, leaf, "go")
            return "sent"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return ramet.ModelResponse(calls=(reply("done"),))
            return ramet.ModelResponse(calls=(call_of("send"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[send])
        root = await root_of(hall)
        outcome = await hall.supervisor.call(root, top, "go")
        assert outcome.unwrap() == "done"
        assert hall.order == ["top", "top", "leaf"]

    policy = Policy(at_reply="wait", notices="quiet")
    staged(scene, backend, seed, Limits(concurrency=1), policy)


@pytest.mark.case("A-194")
@both
def test_a_background_call_returns_at_acceptance_when_no_place_is_left(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        hold = Gate()

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return ramet.ModelResponse(calls=(reply("late"),))

        sup, root = hall.supervisor, await root_of(hall)
        first = await sup.start_call(
            root, AgentSpec("slow", model=hall.mind(slow)), "x"
        )
        await hold.reached()
        begun = await sup.start_call(root, hall.worker(), "go")
        assert of(hall.log(begun.child_id), Accepted)
        assert "place" in (await sup.explain(begun.child_id)).why
        assert hall.order == ["slow"]
        hold.open()
        assert (await sup.wait(begun.message_id)).unwrap() == "worker"
        assert (await sup.wait(first.message_id)).unwrap() == "late"

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))


@both
def test_agents_that_converse_let_others_in_between_their_turns(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        hold = Gate()

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return "said"

        sup, root = hall.supervisor, await root_of(hall)
        talker = AgentSpec("talker", model=hall.mind(slow))
        started = await sup.start_child(root, talker, "one")
        second = await sup.followup(root, started.child_id, "two")
        await hold.reached()
        begun = await sup.start_call(root, hall.worker(), "go")
        hold.open()
        await sup.wait(begun.message_id)
        await sup.wait(second)
        assert hall.order == ["talker", "worker", "talker"]

    policy = Policy(notices="quiet")
    staged(scene, backend, seed, Limits(concurrency=1), policy)


@both
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
def test_who_waits_for_its_place_inside_a_turn_can_be_stopped(
    how: str, backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)
        hold, ready = Gate(), Gate()

        async def slow(request: ModelRequest) -> Any:
            await hold.passed()
            return ramet.ModelResponse(calls=(reply("late"),))

        async def ask(call: ramet.ToolCall) -> str:
            """Let another one in, and want to come back while it runs."""
            await ready.passed()
            with anyio.move_on_after(5):
                await sup.wait(blocking.message_id)
            hall.runs("never")
            return "asked"

        def think(request: ModelRequest) -> Any:
            return ramet.ModelResponse(calls=(call_of("ask"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[ask])
        started = await sup.start_child(root, top, "one")
        blocker = AgentSpec("slow", model=hall.mind(slow))
        blocking = await sup.start_call(root, blocker, "x")
        ready.open()
        await anyio.sleep(10)
        assert "place" in (await sup.explain(started.child_id)).why
        if how == "interrupt":
            sup.interrupt(started.child_id)
        else:
            await sup.cancel(started.child_id)
        outcome = await sup.wait(started.message_id)
        assert (outcome.status, outcome.cause) == (
            "cancelled",
            "interrupted" if how == "interrupt" else "cancelled",
        )
        hold.open()
        assert (await sup.wait(blocking.message_id)).unwrap() == "late"
        assert hall.most == 1
        assert "never" not in hall.order

    policy = Policy(notices="quiet")
    staged(scene, backend, seed, Limits(concurrency=1), policy)


# Agents and starts.


@pytest.mark.case("A-145", "A-151")
@both
@pytest.mark.parametrize(("most", "calls"), [(3, 10), (37, 100)])
def test_exactly_as_many_agents_start_as_may(
    most: int, calls: int, backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        root = await root_of(hall)
        call = partial(hall.supervisor.call, root, hall.worker(), "go")
        results = await all_of(*[call] * calls)
        refused = [one for one in results if isinstance(one, AgentStoppedError)]
        assert len(refused) == calls - most
        assert len(hall.order) == most
        for error in refused:
            assert error.code == "agent-budget"
            assert error.outcome.status == "stopped"
            assert error.outcome.axis == "agents"
            assert f"agents={most} of the run" in str(error)
        done = [one for one in results if not isinstance(one, AgentStoppedError)]
        assert [one.unwrap() for one in done] == ["worker"] * most
        assert len(await hall.supervisor.children(root.id, limit=200)) == most

    staged(scene, backend, seed, Limits(agents=most), Policy(notices="quiet"))


@pytest.mark.case("A-151", "A-152")
@both
def test_a_start_that_fails_is_not_charged(backend: Backend, seed: int) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)
        fails = True

        def setup(setup: ramet.Setup) -> None:
            if fails:
                raise OSError("no")

        revoke = sup.register_setup(setup)
        for _ in range(3):
            with pytest.raises(OSError, match="no"):
                await sup.call(root, hall.worker(), "go")
        fails = False
        assert (await sup.call(root, hall.worker(), "go")).unwrap() == "worker"
        with pytest.raises(AgentStoppedError):
            await sup.call(root, hall.worker(), "go")
        revoke()

    limits = Limits(agents=1)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-193")
@both
def test_a_repeat_with_its_key_is_one_agent_and_one_charge(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)
        begun = partial(sup.start_call, root, hall.worker(), "go", key="k")
        started = await all_of(*[begun] * 5)
        assert len({one.child_id for one in started}) == 1
        assert (await sup.wait(started[0].message_id)).unwrap() == "worker"
        assert await begun() == started[0]
        with pytest.raises(AgentStoppedError):
            await sup.start_call(root, hall.worker(), "go", key="other")

    limits = Limits(agents=1)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-150")
@both
def test_after_the_start_deadline_nobody_starts_and_who_runs_goes_on(
    backend: Backend, seed: int
) -> None:
    limits = Limits(start_deadline_s=10, concurrency=1)

    async def scene(hall: Hall) -> None:
        async def slow(request: ModelRequest) -> Any:
            await anyio.sleep(30)
            return ramet.ModelResponse(calls=(reply("late"),))

        began = anyio.current_time()
        sup, root = hall.supervisor, await root_of(hall)
        first = await sup.start_call(
            root, AgentSpec("slow", model=hall.mind(slow)), "x"
        )
        queued = await sup.start_call(root, hall.worker(), "go")
        talker = await sup.start_child(root, hall.worker("talker"), "go")
        for started in (queued, talker):
            outcome = await sup.wait(started.message_id)
            assert (outcome.status, outcome.cause) == ("stopped", "start-deadline")
            assert outcome.axis == "start_deadline_s"
            assert outcome.usage.own.requests == 0
        assert anyio.current_time() == pytest.approx(began + 10)
        with pytest.raises(AgentStoppedError) as caught:
            await sup.start_call(root, hall.worker(), "go")
        assert caught.value.code == "start-deadline"
        # Who was late never started, though a turn says so: a resume would start it.
        with pytest.raises(AgentStoppedError) as caught:
            await sup.followup(root, talker.child_id, "and now?")
        assert caught.value.code == "start-deadline"
        with pytest.raises(AgentStoppedError):
            await sup.start_root(LEAD, interactive=True)
        assert (await sup.wait(first.message_id)).unwrap() == "late"
        assert hall.order == ["slow"]
        assert of(hall.log(queued.child_id), Concluded)[0].axis == "start_deadline_s"

    staged(scene, backend, seed, limits, Policy(notices="quiet"))


# The time of a call.


@pytest.mark.case("A-149")
@both
@pytest.mark.parametrize("place", ["request", "tool"])
def test_a_call_past_its_time_is_stopped_where_it_is(
    place: str, backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        async def dig() -> str:
            """Dig for ever."""
            await anyio.sleep_forever()
            return ""

        async def think(request: ModelRequest) -> Any:
            if place == "request":
                await anyio.sleep_forever()
            return ramet.ModelResponse(calls=(call_of("dig"),))

        spec = AgentSpec("slow", model=hall.mind(think), tools=[dig])
        root = await root_of(hall)
        began = anyio.current_time()
        outcome = await hall.supervisor.call(root, spec, "x", limits=Limits(call_s=60))
        assert (outcome.status, outcome.cause) == ("stopped", "call-timeout")
        assert outcome.axis == "call_s"
        assert anyio.current_time() == pytest.approx(began + 60)
        assert outcome.usage.own.requests == 1

    staged(scene, backend, seed, None, Policy(notices="quiet"))


@pytest.mark.case("A-149")
@both
@pytest.mark.parametrize("how", ["parked", "awaited"])
def test_a_call_that_only_waits_for_its_children_ends_in_time(
    how: str, backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)

        async def slow(request: ModelRequest) -> Any:
            await anyio.sleep_forever()

        below = AgentSpec("below", model=hall.mind(slow))

        async def send(call: ramet.ToolCall) -> str:
            """Call the one below."""
            assert isinstance(call.agent, Agent)
            if how == "awaited":
                await sup.call(call.agent, below, "go")
            await sup.start_call(call.agent, below, "go")
            return "sent"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return "I wait"
            return ramet.ModelResponse(calls=(call_of("send"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[send])
        began = anyio.current_time()
        outcome = await sup.call(root, top, "go", limits=Limits(call_s=60))
        assert (outcome.status, outcome.axis) == ("stopped", "call_s")
        assert anyio.current_time() == pytest.approx(began + 60)
        below_it = await sup.children(outcome.session_id)
        assert [line.state for line in below_it] == ["gone"]

    limits = Limits(concurrency=1)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@both
def test_the_time_in_the_queue_does_not_count(backend: Backend, seed: int) -> None:
    async def scene(hall: Hall) -> None:
        async def slow(request: ModelRequest) -> Any:
            await anyio.sleep(50)
            return ramet.ModelResponse(calls=(reply("late"),))

        spec = AgentSpec("slow", model=hall.mind(slow))
        root = await root_of(hall)
        limits = Limits(call_s=60)
        call = partial(hall.supervisor.call, root, spec, "x", limits=limits)
        began = anyio.current_time()
        outcomes = await all_of(*[call] * 5)
        assert [one.unwrap() for one in outcomes] == ["late"] * 5
        assert anyio.current_time() == pytest.approx(began + 250)

    limits = Limits(concurrency=1)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@both
def test_the_time_in_which_it_waits_to_come_back_does_not_count(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)

        def sleeper(name: str, seconds: float) -> AgentSpec:
            async def sleep(request: ModelRequest) -> Any:
                await anyio.sleep(seconds)
                return ramet.ModelResponse(calls=(reply(name),))

            return AgentSpec(name, model=hall.mind(sleep))

        long = sleeper("long", 100)

        ready = Gate()

        async def ask(call: ramet.ToolCall) -> str:
            """Let another one in, and wait for a short time."""
            await ready.passed()
            with anyio.move_on_after(5):
                await sup.wait(blocking.message_id)
            await anyio.sleep(20)
            return "asked"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return ramet.ModelResponse(calls=(reply("done"),))
            return ramet.ModelResponse(calls=(call_of("ask"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[ask])
        begun = await sup.start_call(root, top, "x", limits=Limits(call_s=30))
        blocking = await sup.start_call(root, long, "x")
        ready.open()
        began = anyio.current_time()
        assert (await sup.wait(begun.message_id)).unwrap() == "done"
        assert anyio.current_time() == pytest.approx(began + 120)

    limits = Limits(concurrency=1)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


# Tool calls and requests.


def digger(hall: Hall, ran: list[int], batch: int, **options: Any) -> AgentSpec:
    """A spec whose agents make one batch of calls, and then reply."""

    async def dig(place: int) -> str:
        """Dig."""
        ran.append(place)
        await anyio.lowlevel.checkpoint()
        return "dug"

    def think(request: ModelRequest) -> Any:
        if results_in(request):
            return ramet.ModelResponse(calls=(reply("done"),))
        calls = [call_of("dig", place=n) for n in range(batch)]
        return ramet.ModelResponse(calls=tuple(calls))

    return AgentSpec("digger", model=hall.mind(think), tools=[dig], **options)


@pytest.mark.case("A-146", "A-151", "A-152")
@both
def test_the_tool_calls_of_a_run_are_exact_under_parallel_calls(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        ran: list[int] = []
        root = await root_of(hall)
        call = partial(hall.supervisor.call, root, digger(hall, ran, 3), "go")
        outcomes = await all_of(*[call] * 100)
        assert len(ran) == 100
        statuses = [one.status for one in outcomes]
        assert statuses.count("completed") == 33
        assert statuses.count("stopped") == 67
        assert {one.axis for one in outcomes} == {None, "tool_calls"}
        usage = await hall.supervisor.usage(root.id)
        assert usage.subtree.tool_calls == 100

    limits = Limits(tool_calls=100)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-151")
@both
def test_a_tool_call_that_did_not_run_is_given_back(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        def think(request: ModelRequest) -> Any:
            if request.step < 5:
                names = ("no_such_tool",) * 3 if request.step < 4 else ("dig",) * 3
                calls = [call_of(name) for name in names]
                return ramet.ModelResponse(calls=tuple(calls))
            return ramet.ModelResponse(calls=(reply("done"),))

        async def dig() -> str:
            """Dig."""
            return "dug"

        spec = AgentSpec("digger", model=hall.mind(think), tools=[dig])
        outcome = await hall.supervisor.call(await root_of(hall), spec, "go")
        assert outcome.unwrap() == "done"
        assert outcome.usage.own.tool_calls == 3

    limits = Limits(tool_calls=3)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-148", "A-152")
@both
def test_the_first_limit_that_is_spent_is_named_and_none_is_widened(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)

        def talker(name: str, **options: Any) -> AgentSpec:
            spec: AgentSpec = AgentSpec(
                name, model=hall.mind(lambda _: "no reply"), **options
            )
            return spec

        async def ended(spec: AgentSpec, limits: Limits | None) -> Outcome[Any]:
            return await sup.call(root, spec, "go", limits=limits)

        wide = talker("wide", limits=Limits(requests=9))
        outcome = await ended(wide, None)
        assert (outcome.axis, outcome.usage.own.requests) == ("requests", 3)
        assert "requests=3 of the run" in (outcome.detail or "")
        outcome = await ended(wide, Limits(requests=2))
        assert outcome.usage.own.requests == 2
        assert f"requests=2 of {outcome.session_id}" in (outcome.detail or "")

        ran: list[int] = []
        narrow = digger(hall, ran, 3, limits=Limits(tool_calls=2))
        outcome = await ended(narrow, Limits(tool_calls=8))
        assert (outcome.axis, len(ran)) == ("tool_calls", 2)
        assert f"of {outcome.session_id}" in (outcome.detail or "")
        outcome = await ended(digger(hall, ran, 3), Limits(tool_calls=8))
        assert "of the run" in (outcome.detail or "")
        assert len(ran) == 4

    limits = Limits(requests=3, tool_calls=4)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-152")
@both
def test_a_subtree_has_what_its_top_has_and_no_more(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)
        leaf = hall.worker("leaf", limits=Limits(agents=99, concurrency=99))
        refused: list[str] = []

        async def spread(call: ramet.ToolCall) -> str:
            """Call many."""
            assert isinstance(call.agent, Agent)
            one = partial(sup.call, call.agent, leaf, "go")
            for result in await all_of(*[one] * 6):
                if isinstance(result, AgentStoppedError):
                    refused.append(str(result))
            return "spread"

        def think(request: ModelRequest) -> Any:
            if results_in(request):
                return ramet.ModelResponse(calls=(reply("done"),))
            return ramet.ModelResponse(calls=(call_of("spread"),))

        top = AgentSpec("top", model=hall.mind(think), tools=[spread])
        limits = Limits(agents=4, concurrency=2)
        one = partial(sup.call, root, top, "go", limits=limits)
        outcomes = await all_of(one, one)
        assert [result.unwrap() for result in outcomes] == ["done"] * 2
        assert len(refused) == 4
        assert all("agents=4 of s" in text for text in refused)
        assert hall.order.count("leaf") == 8
        assert hall.most <= 3

    limits = Limits(agents=50, concurrency=3)
    staged(scene, backend, seed, limits, Policy(notices="quiet"))


@pytest.mark.case("A-153")
@both
def test_what_was_finished_before_a_stop_stays_completed_and_readable(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)
        done = [await sup.call(root, hall.worker(), "go") for _ in range(3)]
        with pytest.raises(AgentStoppedError, match="stays completed and readable"):
            await sup.call(root, hall.worker(), "go")
        for outcome in done:
            stored = await sup.outcome(outcome.message_id)
            assert stored is not None
            assert (stored.status, stored.value) == ("completed", "worker")

    staged(scene, backend, seed, Limits(agents=3), Policy(notices="quiet"))


@both
def test_a_drain_lets_the_queue_go_and_keeps_what_waits(
    backend: Backend, seed: int
) -> None:
    async def scene(hall: Hall) -> None:
        sup, root = hall.supervisor, await root_of(hall)

        async def slow(request: ModelRequest) -> Any:
            await anyio.sleep_forever()

        spec = AgentSpec("slow", model=hall.mind(slow))
        await sup.start_call(root, spec, "x")
        queued = await sup.start_child(root, hall.worker("talker"), "kept")
        await sup.drain()
        assert not of(hall.log(queued.child_id), Discarded)
        assert (await sup.children(root.id))[1].pending == 1

    staged(scene, backend, seed, Limits(concurrency=1), Policy(notices="quiet"))
