"""What odd ports, tools, signals and callers can do to a running store: no harm."""

from __future__ import annotations

import asyncio
import copy
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from types import coroutine
from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, Call, CallResult, ModelResponse, Setup, ToolCall, Usage
from ramet.lifecycle.calls import passes_through
from ramet.lifecycle.current import CURRENT
from ramet.mailbox.events import CallEnded, TurnEnded
from ramet.mailbox.file_lock import lock_owner
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import DIGGER, LEAD, SCOUT, Stage, gone, of, start
from tests.lifecycle.stores import HeldStore

pytestmark = pytest.mark.anyio

ANY: Any = ramet
ODD: dict[str, Callable[[], Any]] = {
    "text": lambda: ModelResponse(ANY),
    "a call's arguments": lambda: ModelResponse("", (Call("x", ANY),)),
    "a call's name": lambda: ModelResponse("", (Call(ANY, "{}"),)),
    "a call's id": lambda: ModelResponse("", (Call("x", "{}", ANY),)),
    "calls": lambda: ModelResponse("", ANY),
    "stop": lambda: ModelResponse("x", (), ANY),
    "usage": lambda: ModelResponse("x", usage=ANY),
    "a fraction of a token": lambda: ModelResponse("x", usage=Usage(1, ANY)),
    "tokens beyond count": lambda: ModelResponse("x", usage=Usage(1, 10**30)),
    "tokens below none": lambda: ModelResponse("x", usage=Usage(1, -1)),
}


class OddModel:
    """A model port that gives whatever it is told to."""

    capabilities = ramet.ModelCapabilities()

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @asynccontextmanager
    async def request(self, request: Any) -> AsyncIterator[Any]:
        made = self._make()

        async def events() -> AsyncIterator[Any]:
            if isinstance(made, ModelResponse):
                yield ramet.ResponseEnded(response=made)
            else:
                yield made
                yield ramet.ResponseEnded()

        stream = events()
        try:
            yield stream
        finally:
            await stream.aclose()  # type: ignore[attr-defined]


@pytest.mark.case("A-048")
@pytest.mark.parametrize("what", ODD)
async def test_an_odd_field_of_a_response_fails_its_turn_and_nothing_else(
    stored: Stage, what: str
) -> None:
    await _fails_alone(stored, OddModel(ODD[what]))


@pytest.mark.case("A-048")
@pytest.mark.parametrize(
    "event",
    [
        ramet.TextDelta(ANY),
        ramet.CallStarted(ANY, "x"),
        ramet.CallStarted(0, ANY),
        ramet.CallDone(0, ANY),
        ramet.Refused(ANY),
        "no event at all",
    ],
)
async def test_an_odd_event_fails_its_turn_and_nothing_else(
    stored: Stage, event: Any
) -> None:
    await _fails_alone(stored, OddModel(lambda: event))


async def _fails_alone(stored: Stage, model: Any) -> None:
    spec = AgentSpec("odd", model=model)
    stored.whole = False
    fine = ScriptedModel({"lead": [step("fine")]})
    async with stored.open(fine, specs=[spec]) as sup:
        odd = await sup.start_root(spec, interactive=True)
        outcome = await sup.wait(await sup.tell(odd, "go"))
        assert outcome.status == "failed"
        root = await sup.start_root(LEAD, interactive=True)
        assert (await sup.wait(await sup.tell(root, "go"))).status == "completed"


@pytest.mark.case("R-207")
@pytest.mark.parametrize("result", [CallResult(ANY), CallResult("x", ANY)])
@pytest.mark.parametrize("by", ["tool", "hook"])
async def test_an_odd_result_is_a_failed_call(
    stored: Stage, result: CallResult, by: str
) -> None:
    async def dig() -> Any:
        """Dig."""
        return result if by == "tool" else "dug"

    def contribute(setup: Setup) -> None:
        if by == "hook":
            setup.after_call(lambda name, plain, call: result)

    spec = AgentSpec("worker", tools=[dig])
    model = ScriptedModel({"worker": [step(calls=[call("dig")]), step("ok")]})
    async with stored.open(model, specs=[spec]) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(spec, interactive=True)
        outcome = await sup.wait(await sup.tell(root, "go"))
        assert outcome.status == "completed"
        ended = of(stored.log(root), CallEnded)
        assert [event.error for event in ended] == ["TOOL_FAILED"]


@pytest.mark.case("R-207", "R-205")
@pytest.mark.parametrize("count", [1, 2])
async def test_a_tool_that_awaits_a_cancelled_future_fails_alone(
    stage: Stage, count: int, anyio_backend: str
) -> None:
    async def dig() -> str:
        """Dig."""
        if anyio_backend == "asyncio":
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        raise ValueError("no such thing on trio")

    spec = AgentSpec("worker", tools=[dig])
    model = ScriptedModel({"worker": [step(calls=[call("dig")] * count), step("ok")]})
    async with stage.open(model, specs=[spec]) as sup:
        root = await sup.start_root(spec, interactive=True)
        outcome = await sup.wait(await sup.tell(root, "go"))
        assert outcome.status == "completed"
        ended = of(stage.log(root), CallEnded)
        assert [event.error for event in ended] == ["TOOL_FAILED"] * count


@pytest.mark.case("R-265")
async def test_a_cancel_by_id_that_meets_a_resume_is_not_lost(stored: Stage) -> None:
    hold = Gate()
    hold.open()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await gone(scout)
        await root.wait_idle()
        async with anyio.create_task_group() as group:
            group.start_soon(sup.resume, scout.id)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            await sup.cancel(scout.id)
            assert sup.agent(scout.id) is None


@pytest.mark.case("R-087")
async def test_who_has_just_ended_is_not_listed_as_cut_off() -> None:
    store = HeldStore()
    async with ramet.open(store, model=ScriptedModel({"scout": [step("n")]})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        store.free.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(sup.cancel, scout.id)
            while sup.agent(scout.id) is not None:
                await anyio.lowlevel.checkpoint()
            (listed,) = await sup.children(root.id)
            assert listed.state == "closing"
            told = await sup.explain(scout.id)
            assert (told.state, told.why) == ("closing", "its end is being stored")
            store.free.set()
        (listed,) = await sup.children(root.id)
        assert listed.state == "gone"


@pytest.mark.case("A-051", "A-058")
async def test_who_gives_up_a_call_ends_it_only_when_nobody_else_waits(
    stage: Stage,
) -> None:
    hold = Gate()
    answer = step(calls=[call("reply", value="yes")], hold=hold)
    model = ScriptedModel({"scout": [answer, answer]})
    told: list[str] = []
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)

        async def ask(key: str) -> None:
            outcome = await sup.call(root, SCOUT, "well?", key=key)
            told.append(outcome.status)

        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as gives_up:
                async with anyio.create_task_group() as impatient:
                    group.start_soon(ask, "shared")
                    await hold.reached()
                    impatient.start_soon(ask, "shared")
                    impatient.start_soon(ask, "alone")
                    await hold.reached(2)
                    gives_up.cancel()
            (scout,) = await sup.children(root.id, limit=1)
            assert scout.state == "running"
            hold.open()
        assert told == ["completed"]
        states = [one.state for one in await sup.children(root.id)]
        assert states == ["gone", "gone"]
        assert (await sup.call(root, SCOUT, "well?", key="alone")).status == "cancelled"


@pytest.mark.case("R-265")
async def test_cancels_of_a_session_and_of_its_parent_meet_its_resume() -> None:
    """What is below a session is loaded and written under latches of its own."""

    async def later(steps: int, act: Callable[[str], Any], session: str) -> None:
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        with suppress(ramet.SessionHeldError, ramet.NotResumableError):
            await act(session)

    for place in range(40):
        hold = Gate()
        model = ScriptedModel(
            {"lead": [step("n")], "scout": [step("x", hold=hold)] * 3}
        )
        async with ramet.open(":memory:", model=model, specs=[LEAD, SCOUT]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            above = await start(sup, root, SCOUT)
            below = await start(sup, above, SCOUT)
            await sup.followup(above, below.id, "it waits")
            for one in (below, above):
                sup.interrupt(one.id)
                await gone(one)
            async with anyio.create_task_group() as group:
                group.start_soon(later, 0, sup.cancel, below.id)
                group.start_soon(later, 3 + place // 8, sup.cancel, above.id)
                group.start_soon(later, 6 + place % 8, sup.resume, below.id)
            hold.open()


@pytest.mark.case("R-258", "R-266")
async def test_a_child_that_ends_while_its_parent_is_loaded_was_no_crash() -> None:
    """What was live when a load began is not what a crash cut."""

    async def later(steps: int, agent: ramet.Agent) -> None:
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        agent.release()

    for place in range(16):
        model = ScriptedModel({"lead": [step("n")] * 9, "scout": [step("x")] * 2})
        async with ramet.open(":memory:", model=model, specs=[LEAD, SCOUT]) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            above = await start(sup, root, SCOUT)
            below = await start(sup, above, SCOUT)
            await gone(above)
            orphan = await sup.resume(below.id)
            async with anyio.create_task_group() as group:
                group.start_soon(later, place, orphan)
                resumed = await sup.resume(above.id)
                resumed.release()


@pytest.mark.case("R-162", "R-166")
async def test_drains_that_meet_all_return(stage: Stage) -> None:
    model = ScriptedModel({"lead": [step("x")]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        returned: list[int] = []

        async def drain() -> None:
            await sup.drain()
            returned.append(1)

        async def tell() -> None:
            with suppress(ramet.DrainingError):
                await sup.tell(root, "x", key="k")

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(tell)
                group.start_soon(drain)
                group.start_soon(drain)
        assert returned == [1, 1]


async def test_a_wait_that_could_never_end_is_refused(stage: Stage) -> None:
    hold, busy = Gate(), Gate()
    model = ScriptedModel(
        {"lead": [step("n", hold=busy)], "scout": [step("x", hold=hold)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        report = await sup.report_from(scout, "x")
        with pytest.raises(ramet.UsageError, match="opens no assignment"):
            await sup.wait(report)
        head = await sup.start_root(SCOUT, interactive=False)
        await sup.tell(head, "one")
        with pytest.raises(ramet.UsageError, match="one value"):
            await sup.tell(head, "two")
        first = await sup.tell(root, "one")
        kept = await sup.tell(root, "two")
        await busy.reached()
        ends: list[str] = []

        async def wait(message: str) -> None:
            try:
                ends.append((await sup.wait(message)).status)
            except ramet.DrainingError:
                ends.append("kept")

        async with anyio.create_task_group() as group:
            group.start_soon(wait, first)
            group.start_soon(wait, kept)
            await anyio.wait_all_tasks_blocked()
            await sup.drain()
        assert sorted(ends) == ["cancelled", "kept"]
        ended = of(stage.log(root), TurnEnded)
        assert [event.cause for event in ended] == ["drain"]
    async for _ in sup.events():
        raise AssertionError("nothing happens after the block was left")


EMBEDDED = """
import sys, anyio, ramet

async def mind(request):
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)

async def dig():
    "Dig."
    raise KeyboardInterrupt

async def main():
    model = ramet.FunctionModel(mind)
    async with ramet.open(sys.argv[2], model=model) as supervisor:
        root = await supervisor.start_root(ramet.AgentSpec("lead"), interactive=True)
        await supervisor.tell(root, "x")
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.case("R-230")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_interrupt_while_the_block_is_left_ends_the_process(
    backend: str, tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    process = subprocess.Popen(
        [sys.executable, "-c", EMBEDDED, backend, str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0
    assert lock_owner(store) is None


async def test_a_second_native_cancel_of_the_task_that_holds_the_block(
    tmp_path: Path, anyio_backend: str
) -> None:
    store = tmp_path / "s.db"
    leaving = anyio.Event()

    async def mind(request: ramet.ModelRequest) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            leaving.set()
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
        raise AssertionError("it sleeps for ever")

    async def hold() -> None:
        async with ramet.open(store, model=ramet.FunctionModel(mind)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            await sup.tell(root, "x")
            await anyio.sleep_forever()

    if anyio_backend == "trio":
        with anyio.move_on_after(0.2):
            await hold()
    else:
        task = asyncio.create_task(hold())
        await asyncio.sleep(0.2)
        task.cancel()
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    while lock_owner(store) is not None:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_tool_that_raises_an_interrupt_ends_the_run_and_not_in_a_hang(
    backend: str, tmp_path: Path
) -> None:
    async def dig(call: ToolCall) -> str:
        """Dig."""
        raise KeyboardInterrupt

    spec = AgentSpec("worker", tools=[dig])
    model = ScriptedModel({"worker": [step(calls=[call("dig")])]})

    async def main() -> None:
        async with ramet.open(tmp_path / "s.db", specs=[spec], model=model) as sup:
            root = await sup.start_root(spec, interactive=True)
            await sup.tell(root, "x")
            await anyio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend)


class Odd(BaseException):
    """An exception that is no `Exception`, as test runners have."""


@pytest.mark.case("R-207", "R-215", "R-193")
@pytest.mark.parametrize("what", ["tool", "before", "after", "mind", "disposer", "ear"])
@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Odd("odd")])
@pytest.mark.parametrize("count", [1, 2])
async def test_no_exception_of_plug_in_code_ends_more_than_its_own(
    stage: Stage, what: str, error: BaseException, count: int
) -> None:
    def raise_it(*arguments: Any) -> Any:
        raise error

    async def dig() -> str:
        """Dig."""
        return raise_it() if what == "tool" else "dug"

    async def mind(request: ramet.ModelRequest) -> Any:
        if what == "mind":
            raise_it()
        if request.step:
            return "done"
        return ModelResponse("", (Call("dig", "{}"),) * count, "tool_calls")

    def contribute(setup: Setup) -> Any:
        if what == "before":
            setup.before_call(raise_it)
        if what == "after":
            setup.after_call(raise_it)
        return raise_it if what == "disposer" else None

    class Ear:
        on_event = on_closing = on_delta = staticmethod(raise_it)

    spec = AgentSpec("worker", tools=[dig], model=ramet.FunctionModel(mind))
    store = ramet.MemoryStore()
    outcome: ramet.Outcome[Any] | None = None
    log: list[Any] = []
    with suppress(ExceptionGroup):
        async with ramet.open(store, specs=[spec]) as sup:
            if what == "ear":
                sup.observe(Ear())
            sup.register_setup(contribute)
            with anyio.fail_after(30):
                root = await sup.start_root(spec, interactive=True)
                started = await sup.start_child(root, spec, "go")
                outcome = await sup.wait(started.message_id)
                await root.wait_idle()
            log = store.load(started.child_id)
    assert outcome is not None
    assert outcome.status == ("failed" if what == "mind" else "completed")
    ended = [event.error for event in of(log, CallEnded)]
    if what in ("tool", "before", "after"):
        assert ended == ["TOOL_FAILED"] * count
    elif what != "mind":
        assert ended == [None] * count


@pytest.mark.case("R-207")
@pytest.mark.parametrize("group", [False, True])
async def test_the_end_of_a_coroutine_passes_only_when_it_is_really_closed(
    group: bool,
) -> None:
    activation: Any = object()
    passed: list[bool] = []

    @coroutine
    def plug_in(own: bool) -> Generator[None, None, None]:
        try:
            yield
        except GeneratorExit as error:
            if group:
                raise BaseExceptionGroup("two", [error]) from None
            raise
        if own:
            raise (
                BaseExceptionGroup("one", [GeneratorExit()]) if group else GeneratorExit
            )

    async def turn(own: bool) -> None:
        CURRENT.set((activation, 1))
        try:
            await plug_in(own)
        except BaseException as error:
            passed.append(passes_through(error, ANY, activation))
            raise

    for own in (True, False):
        running = turn(own)
        context = copy_context()
        context.run(running.send, None)
        with suppress(GeneratorExit, BaseExceptionGroup):
            if own:
                context.run(running.send, None)
            else:
                running.close()
    assert passed == [False, True]


@pytest.mark.case("R-005", "R-148")
async def test_cancel_takes_no_copy_and_no_agent_of_another_supervisor(
    stage: Stage,
) -> None:
    stage.whole = False
    async with stage.open(ScriptedModel({})) as sup, ramet.open(":memory:") as other:
        root = await sup.start_root(LEAD, interactive=True)
        for target in (copy.copy(root), copy.deepcopy(root)):
            with pytest.raises(ramet.UnauthorizedError):
                await sup.cancel(target)
        with pytest.raises(ramet.UnauthorizedError):
            await other.cancel(root)
        assert root.state == "parked"


@pytest.mark.case("R-229")
async def test_cancel_of_an_absent_session_ends_what_lives_below_it(
    stored: Stage,
) -> None:
    hold = Gate()
    hold.open()
    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("x")], "digger": [step("y")]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "x")
        scout = sup.agent(started.child_id)
        assert scout is not None
        below = await sup.start_child(scout, DIGGER, "y")
        await gone(scout)
        await root.wait_idle()
        digger = await sup.resume(below.child_id)
        assert sup.agent(scout.id) is None
        await sup.cancel(scout.id)
        assert digger.state == "gone"


@pytest.mark.parametrize(
    "name",
    ["message", "outcome", "wait", "children", "descendants", "usage", "explain"],
)
async def test_a_reader_that_is_given_no_id_says_so(stage: Stage, name: str) -> None:
    async with ramet.open(":memory:") as sup:
        started: Any = ramet.Started("s", "m")
        with pytest.raises(ramet.UsageError, match="named by its id"):
            await getattr(sup, name)(started)
        with pytest.raises(ramet.UsageError, match="no session"):
            await sup.usage("s-unknown")


async def test_two_specs_of_one_name_do_not_both_start_what_is_resumed_by_name(
    stage: Stage,
) -> None:
    async with ramet.open(":memory:") as sup:
        await sup.start_root(AgentSpec("a", "one"), interactive=True)
        await sup.start_root(AgentSpec("a", "one"), interactive=True)
        with pytest.raises(ramet.UsageError, match="another spec has the name"):
            await sup.start_root(AgentSpec("a", "two"), interactive=True)


async def test_plain_calls_from_inside_observers_and_set_ups_break_nothing(
    stage: Stage,
) -> None:
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x")]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, SCOUT, "x")
        await sup.wait(started.message_id)
        await root.wait_idle()
        scout = await sup.resume(started.child_id)

        class Ear:
            def on_closing(self, session_id: str, cause: str) -> None:
                scout.release()

        sup.observe(Ear())
        await sup.cancel(root)
        assert (root.state, scout.state) == ("gone", "gone")


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("body_fails", [False, True])
async def test_a_store_that_cannot_be_closed_is_told(
    blocking: bool, body_fails: bool
) -> None:
    class Unclosed(ramet.MemoryStore):
        def close(self) -> None:
            closes.append(threading.current_thread())
            super().close()
            raise OSError("the disk is gone")

    closes: list[threading.Thread] = []
    store = Unclosed()
    store.blocking = blocking

    async def live() -> None:
        async with ramet.open(store, model=ScriptedModel({})) as sup:
            await sup.start_root(LEAD, interactive=True)
            if body_fails:
                raise KeyError("body")

    expected = KeyError if body_fails else ramet.PersistenceUnavailableError
    with pytest.raises(expected) as caught:
        await live()
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "could not be closed" in told
    assert "the disk is gone" in told
    assert len(closes) == 1
    assert not blocking or not closes[0].is_alive()
