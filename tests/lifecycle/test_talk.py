"""What agents see: their tools, their results, and the events that others hear."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    AgentSpec,
    Call,
    CallResult,
    Entry,
    Gap,
    ModelRequest,
    ToolCall,
    ToolMessage,
)
from ramet.mailbox.events import CallEnded, Ended, TurnEnded, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    of,
    resident,
    sources,
    start,
)

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"


def results_in(request: ModelRequest) -> list[CallResult]:
    return [
        result
        for message in request.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


async def look(place: str) -> str:
    """Look at a place.

    Args:
        place: Where to look.
    """
    return place


# -- tools -----------------------------------------------------------------------------


@pytest.mark.case("R-242", "R-011", "R-014", "R-075", "R-078", "R-024")
@pytest.mark.parametrize("kind", ["interactive", "headless", "oneshot", "continuable"])
async def test_the_tools_of_each_kind_are_those_of_its_golden_file(
    stage: Stage, kind: str
) -> None:
    spec = AgentSpec("same", "Be short.", tools=[look])
    hold = Gate()
    model = ScriptedModel({"same": [step("x", hold=hold)] * 2})
    stage.whole = False
    async with stage.open(model, specs=[spec, LEAD]) as sup:
        sup.register_setup(ramet.control_setup())
        sup.register_setup(ramet.delegation_setup([AgentSpec("scout", "Look around.")]))
        root = await sup.start_root(
            LEAD if kind in ("oneshot", "continuable") else spec,
            interactive=kind != "headless",
        )
        if kind == "oneshot":
            await sup.start_call(root, spec, "x")
        elif kind == "continuable":
            await sup.start_child(root, spec, "x")
        else:
            await sup.tell(root, "x")
        await hold.reached()
    request = model.requests[0]
    seen = {
        "instructions": request.instructions,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(ramet.canonical_json(tool.parameters)),
            }
            for tool in request.tools
        ],
    }
    golden = json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))
    assert seen == golden


@pytest.mark.case("R-243", "R-019")
async def test_what_a_parent_reads_of_a_report_is_its_golden_file(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("read")],
            "scout": [
                step(calls=[call("report", output="found\n\nit")]),
                step("x", hold=hold),
            ],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.tell(root, "what is new?")
        await root.wait_idle()
        names = {scout.id: "CHILD", "host": "host"}
        seen = [
            {
                "source": message.source,
                "sender": names[message.sender],
                "blocks": [b.replace(scout.id, "CHILD") for b in message.blocks],
            }
            for message in model.requests_of("lead")[0].messages
            if isinstance(message, ramet.UserMessage)
        ]
        golden = json.loads((GOLDEN / "report.json").read_text(encoding="utf-8"))
        assert seen == golden


@pytest.mark.case("R-015", "R-022", "R-208", "R-017")
@pytest.mark.parametrize(
    "raw",
    [
        "{}",
        '{"output": 7}',
        '{"output": "x", "to": "s-other"}',
        '{"output": ""}',
        '{"output": " \\n"}',
        '{"output": "x", "output": "y"}',
        "[]",
        '"x"',
        "{",
        "",
    ],
)
async def test_wrong_arguments_of_report_send_nothing_and_the_turn_goes_on(
    stage: Stage, raw: str
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {"scout": [step(calls=[Call("report", raw)]), step("x", hold=hold)]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await start(sup, root, SCOUT)
        await hold.reached()
        assert [r.error for r in results_in(model.requests[1])] == ["INVALID_ARGS"]
        assert not accepted_in(stage.log(root), "report")


@pytest.mark.case("R-014", "R-012", "R-081")
async def test_a_tool_that_an_agent_may_not_call_is_withheld(stage: Stage) -> None:
    async def sing() -> str:
        """Sing."""
        raise AssertionError("it ran")

    spec = AgentSpec("lead", tools=[sing], deny=["sing"])
    calls = [call(name) for name in ("report", "reply", "sing", "nothing")]
    model = ScriptedModel(
        {
            "lead": [step(calls=calls), step("end")],
            "oracle": [
                step(calls=[call("report", output="x")]),
                step(calls=[call("reply", value=1)]),
            ],
        }
    )
    async with stage.open(model, specs=[spec, ORACLE]) as sup:
        root = await sup.start_root(spec, interactive=True)
        await sup.tell(root, "x")
        await root.wait_idle()
        assert model.requests[0].tools == ()
        assert [r.error for r in results_in(model.requests[1])] == [
            "TOOL_WITHHELD",
            "TOOL_WITHHELD",
            "TOOL_WITHHELD",
            "UNKNOWN_TOOL",
        ]
        assert (await sup.call(root, ORACLE, "x")).unwrap() == 1
        result = results_in(model.requests_of("oracle")[1])[0]
        assert result.error == "TOOL_WITHHELD"
        assert not accepted_in(stage.log(root), "report")


@pytest.mark.case("R-076", "R-077", "R-078", "R-079", "R-142")
async def test_a_model_controls_its_children_and_nobody_else(stage: Stage) -> None:
    first, hold = Gate(), Gate()
    ids: dict[str, str] = {}
    answers: list[CallResult] = []

    async def mind(request: ModelRequest) -> Any:
        if request.name == "scout":
            await (hold if first.is_open else first).passed()
            return "x"
        if request.name == "digger":
            await hold.passed()
            return "x"
        done = results_in(request)
        if done or sources(request)[-1] == "notice":
            answers[:] = done
            return "done"
        calls = (
            call("send_message", agent_id=ids["settled"], message="again"),
            call("send_message", agent_id="s-absent", message="x"),
            call("send_message", agent_id=ids["cousin"], message="x"),
            call("send_message", agent_id=ids["settled"], message=" "),
            call("interrupt_agent", agent_id=ids["running"]),
            call("interrupt_agent", agent_id=ids["cousin"]),
            call("list_agents"),
            call("list_agents", scope="descendants"),
            call("list_agents", scope="everything"),
        )
        return ramet.ModelResponse(calls=calls, stop="tool_calls")

    stage.whole = False
    async with stage.open(
        ramet.FunctionModel(mind), policy=ramet.Policy(notices="quiet")
    ) as sup:
        sup.register_setup(ramet.control_setup())
        root = await sup.start_root(LEAD, interactive=True)
        other = await sup.start_root(LEAD, interactive=True)
        settled = await start(sup, root, SCOUT)
        await first.reached()
        first.open()
        await gone(settled)
        running = await start(sup, root, DIGGER)
        cousin = await start(sup, other, DIGGER)
        await hold.reached(2)
        ids.update(settled=settled.id, running=running.id, cousin=cousin.id)
        log = stage.log(cousin)
        await sup.tell(root, "act")
        await root.wait_idle()
        assert [answer.error for answer in answers] == [
            None,
            "NOT_RESUMABLE",
            "UNAUTHORIZED",
            "INVALID_ARGS",
            None,
            "UNAUTHORIZED",
            None,
            None,
            "INVALID_ARGS",
        ]
        message = accepted_in(stage.log(settled), "followup")[0]
        assert message.sender == root.id
        assert json.loads(answers[0].content) == {"message_id": message.id}
        assert running.id in answers[6].content
        assert "pending=" in answers[6].content
        assert stage.log(cousin) == log
        await gone(running)
        assert of(stage.log(running), TurnEnded)[0].cause == "interrupted"


# -- transcripts -----------------------------------------------------------------------


@pytest.mark.case("R-205", "R-206", "R-207", "R-210")
async def test_results_stand_in_the_order_of_calls_whatever_happens_to_them(
    stage: Stage,
) -> None:
    last = Gate()

    async def slow() -> str:
        """Be slow."""
        await last.passed()
        return "slow"

    async def fast() -> str:
        """Be fast."""
        last.open()
        return "fast"

    async def fail() -> str:
        """Fail."""
        raise ValueError("broken " * 1000)

    async def leave() -> str:
        """Leave the process."""
        raise SystemExit(3)

    def block() -> str:
        """Leave the process, from a thread."""
        raise SystemExit(4)

    spec = AgentSpec("lead", tools=[slow, fast, fail, leave, block])
    names = ["slow", "fail", "leave", "block", "fast"]
    model = ScriptedModel(
        {
            "lead": [
                step(calls=[call(name) for name in names], stop="length"),
                step("end"),
            ]
        }
    )
    async with stage.open(model, specs=[spec]) as sup:
        root = await sup.start_root(spec, interactive=True)
        message = await sup.tell(root, "x")
        assert (await sup.wait(message)).status == "completed"
        results = results_in(model.requests[1])
        assert [r.error for r in results] == [
            None,
            "TOOL_FAILED",
            "TOOL_FAILED",
            "TOOL_FAILED",
            None,
        ]
        assert len(results[1].content) < 2000
        ended = of(stage.log(root), CallEnded)
        assert ended[0].place != 0
        assert (await sup.usage(root.id)).own.tool_calls == 5


@pytest.mark.case("R-209", "R-211")
async def test_nothing_of_an_empty_or_failed_answer_is_in_a_transcript(
    stage: Stage,
) -> None:
    model = ScriptedModel(
        {
            "lead": [
                step(""),
                step(
                    raw=[ramet.TextDelta("half an answer")],
                    error=ramet.ModelError("cut"),
                ),
                step("end"),
            ]
        }
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        for text in "abc":
            await sup.tell(root, text)
            await root.wait_idle()
        assert [type(m).__name__ for m in model.requests[2].messages] == [
            "UserMessage"
        ] * 3
        assert (await sup.usage(root.id)).own.requests == 3


# -- events and observers --------------------------------------------------------------


@pytest.mark.case("R-240")
async def test_a_handles_events_are_its_log_and_end_with_the_agent(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    seen: dict[int, list[Entry]] = {0: [], 3: []}
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()

        async def follow(after: int) -> None:
            async for entry in scout.events(after):
                seen[after].append(entry)

        async with anyio.create_task_group() as group:
            for after in seen:
                group.start_soon(follow, after)
            await anyio.wait_all_tasks_blocked()
            await sup.inject(root, scout.id, "quietly")
            hold.open()
        log = stored.log(scout)
        assert isinstance(log[-1], Ended)
        for after, entries in seen.items():
            assert [entry.event for entry in entries] == log[after:]
            assert [entry.seq for entry in entries] == list(range(after, len(log)))
            assert {entry.session for entry in entries} == {scout.id}
        again = [entry async for entry in scout.events(len(log) - 1)]
        assert [entry.event for entry in again] == log[-1:]
        for wrong in (-1, True, "1"):
            with pytest.raises(ramet.UsageError):
                [entry async for entry in scout.events(wrong)]  # type: ignore[arg-type]
        await root.wait_idle()


@pytest.mark.case("R-216")
async def test_a_slow_reader_holds_nobody_up_and_sees_a_gap(stage: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        events: AsyncIterator[Any] = sup.events()
        async with aclosing(events) as reader:  # type: ignore[type-var]
            first: list[Any] = []

            async def begin() -> None:
                first.append(await anext(reader))

            async with anyio.create_task_group() as group:
                group.start_soon(begin)
                await anyio.wait_all_tasks_blocked()
                await sup.report_from(scout, "first")
            for _ in range(10_050):
                await sup.report_from(scout, "x", ack="accepted")
            await sup.report_from(scout, "last")
            found: Any = None
            count = 0
            async for found in reader:
                if isinstance(found, Gap):
                    break
                count += 1
            assert isinstance(found, Gap)
            assert found.missed > 0
            assert count + found.missed + len(first) == 10_052


@pytest.mark.case("R-215")
async def test_an_observer_that_raises_changes_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    class Broken:
        def on_event(self, *arguments: Any) -> None:
            raise RuntimeError("observer")

        def on_closing(self, *arguments: Any) -> None:
            raise RuntimeError("observer")

        def on_delta(self, *arguments: Any) -> None:
            raise RuntimeError("observer")

    class Silent:
        pass

    class Listener:
        def on_event(self, session: str, seq: int, event: Any) -> None:
            heard.append(type(event).__name__)

    model = ScriptedModel({"lead": [step("ok " * 10)]}, stream=True)
    with caplog.at_level(logging.ERROR, logger="ramet"):
        async with stage.open(model) as sup:
            for observer in (Broken(), Silent(), Listener()):
                sup.observe(observer)
            stop = sup.observe(Listener())
            stop()
            stop()
            root = await sup.start_root(LEAD, interactive=True)
            message = await sup.tell(root, "x")
            assert (await sup.wait(message)).status == "completed"
            await sup.cancel(root)
    assert heard == [type(event).__name__ for event in stage.log(root)]
    assert any("observer" in record.getMessage() for record in caplog.records)


@pytest.mark.case("R-241")
async def test_deltas_are_heard_in_order_and_are_in_no_log(stage: Stage) -> None:
    heard: list[str] = []

    class Listener:
        def on_delta(self, session: str, turn: int, number: int, text: str) -> None:
            heard.append(text)

    text = "one two three four five"
    model = ScriptedModel({"lead": [step(text)]}, stream=True)
    async with stage.open(model) as sup:
        sup.observe(Listener())
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "x")
        await root.wait_idle()
        assert "".join(heard) == text
        assert len(heard) > 1
        assert not any("elta" in type(event).__name__ for event in stage.log(root))


@pytest.mark.case("R-204")
async def test_wait_idle_returns_when_nothing_is_open_and_all_is_durable(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("a", hold=hold), step("b")]})
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await root.wait_idle()
        await sup.tell(root, "a")
        await sup.tell(root, "b")
        idle: list[int] = []

        async def wait() -> None:
            await root.wait_idle()
            idle.append(len(of(stored.log(root), TurnEnded)))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await hold.reached()
            await anyio.wait_all_tasks_blocked()
            assert idle == []
            hold.open()
        assert idle == [2]


@pytest.mark.case("R-219")
async def test_one_native_cancel_of_a_sender_comes_out_once(
    stage: Stage, anyio_backend: str
) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        if anyio_backend == "trio":
            # Trio has no cancel of a single await; a scope around it is its nearest.
            with anyio.CancelScope() as scope:
                scope.cancel()
                await sup.report_from(scout, "x", key="k")
            assert await sup.lookup(scout.id, "k") is None
            await sup.report_from(scout, "x", key="k")
            return
        import asyncio

        for late in range(6):
            cancelled: list[bool] = []
            key = f"k{late}"

            async def send(key: str = key, cancelled: list[bool] = cancelled) -> str:
                try:
                    await sup.report_from(scout, "x", key=key)
                except asyncio.CancelledError:
                    cancelled.append(True)
                return await sup.report_from(scout, "x", key=key)

            task = asyncio.get_running_loop().create_task(send())
            for _ in range(late):
                await asyncio.sleep(0)
            if late == 0:
                await asyncio.sleep(0)
            task.cancel()
            try:
                message = await task
            except asyncio.CancelledError:
                message = await sup.report_from(scout, "x", key=key)
            assert len(cancelled) <= 1
            found = [e for e in accepted_in(stage.log(root), "report") if e.key == key]
            assert [e.id for e in found] == [message]


@pytest.mark.case("R-080")
async def test_a_built_in_tool_without_a_calling_agent_changes_nothing(
    stage: Stage,
) -> None:
    hold = Gate()
    tools: dict[str, Any] = {}

    def contribute(setup: ramet.Setup) -> None:
        for contribution in (ramet.report_setup(), ramet.control_setup()):
            inner = ramet.Setup(
                setup.kind, setup.agent_id, setup.parent_id, setup.name, setup.host
            )
            contribution(inner)
            tools.update({tool.name: tool for tool in inner._tools})

    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, report=False) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        log = stage.log(root)
        arguments = {
            "report": {"output": "x"},
            "send_message": {"agent_id": scout.id, "message": "x"},
            "interrupt_agent": {"agent_id": scout.id},
            "list_agents": {},
        }
        for name, given in arguments.items():
            nobody = ToolCall(agent=None, place=0, call_id="", key="k", epoch=1)
            with pytest.raises(ramet.UnauthorizedError):
                await tools[name].run(tools[name].convert(given), nobody)
        assert stage.log(root) == log
        assert resident(sup, scout.id).state == "running"


@pytest.mark.case("R-048", "R-184", "R-008", "R-200")
async def test_every_prefix_of_a_log_has_a_fold_that_places_each_message_once(
    stage: Stage,
) -> None:
    from ramet.mailbox.events import Accepted, Discarded
    from ramet.mailbox.session import fold

    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first)] + [step("n")] * 4,
            "scout": [step("x", hold=hold)],
            "digger": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.tell(root, "open")
        await first.reached()
        for delivery in ("quiet", "wakeup", "quiet"):
            for agent in (scout, digger):
                await sup.report_from(agent, delivery, delivery=delivery)
        sup.interrupt(root.id)
        await root.wait_idle()
        await sup.report_from(scout, "behind")
        await sup.cancel(digger)
        await root.wait_idle()
        await sup.tell(root, "on")
        await sup.cancel(root)
        log = stage.log(root)
        for prefix in range(1, len(log) + 1):
            events = log[:prefix]
            session = fold(events)
            entered = [m.id for m in session.transcript if hasattr(m, "id")]
            inbox = session.inbox
            held = [m.id for _, m in (*inbox.waiting, *inbox.staged)]
            discarded = [e.id for e in of(events, Discarded)]
            accepted = [e.id for e in of(events, Accepted)]
            assert sorted(entered + held + discarded) == sorted(accepted)
        assert fold(log) == root._activation.session
        assert of(log, TurnOpened)
