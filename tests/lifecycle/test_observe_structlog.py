"""Logs by structlog: what a line holds, what is remembered, and that nothing depends
on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

import ramet
from ramet.lifecycle.bookkeeper import ODD, sample_events
from ramet.lifecycle.observe_structlog import StructlogObserver, log_to_structlog
from ramet.mailbox.codec import KINDS
from ramet.mailbox.events import Accepted, Created, Ended, SpecRecord, TurnOpened
from ramet.testing import Gate, ScriptedModel, call, step

KEY = "a-key-of-mine"
LONG = "a long text " * 100

NAMES = ("lead", "scout", "slow")


def model(hold: Gate | None = None) -> ScriptedModel:
    return ScriptedModel(
        {
            "lead": [step("I have read it.", usage=ramet.Usage(1, 5, 6))] * 9,
            "scout": [
                step(calls=[call("report", output="found it")]),
                step("done"),
                step("done again"),
            ],
            "slow": [step("late", hold=hold)],
        }
    )


def opened(
    minds: ScriptedModel, store: str | Path | ramet.MemoryStore = ":memory:"
) -> Any:
    specs = [ramet.AgentSpec(name) for name in NAMES]
    return ramet.open(store, specs=specs, model=minds)


async def work(supervisor: ramet.Supervisor) -> tuple[str, str]:
    """A lead and a child that reports; gives both ids."""
    supervisor.register_setup(ramet.report_setup())
    lead, scout = ramet.AgentSpec("lead"), supervisor._runtime.specs["scout"]
    root = await supervisor.start_root(
        supervisor._runtime.specs.get("lead", lead), interactive=True
    )
    started = await supervisor.start_child(root, scout, LONG, key=KEY)
    await supervisor.wait(started.message_id)
    await root.wait_idle()
    return root.id, started.child_id


@pytest.mark.anyio
async def test_nothing_is_logged_until_it_is_asked_for() -> None:
    with capture_logs() as lines:
        async with opened(model()) as supervisor:
            await work(supervisor)
    assert lines == []


@pytest.mark.anyio
async def test_each_line_has_session_parent_turn_and_the_name_of_the_event() -> None:
    with capture_logs() as lines:
        async with opened(model()) as supervisor:
            log_to_structlog(supervisor)
            root, child = await work(supervisor)
    assert {line["event"] for line in lines} <= {*KINDS, "closing"}
    assert all({"session", "parent", "turn"} <= line.keys() for line in lines)
    of = [line for line in lines if line["session"] == child]
    assert {line["parent"] for line in of} == {root}
    names = [line["event"] for line in of]
    assert names[:4] == ["created", "activated", "accepted", "turn_opened"]
    assert names[-1] == "ended"
    assert [line["seq"] for line in of] == list(range(len(of)))
    assert [line["turn"] for line in of if line["event"] != "closing"][:4] == [
        0,
        0,
        0,
        1,
    ]
    step_line = next(line for line in of if line["event"] == "step_ended")
    assert (step_line["calls"], step_line["stop"]) == (("report",), "tool_calls")
    call_line = next(line for line in of if line["event"] == "call_ended")
    assert call_line["tool"] == "report"
    tops = [line for line in lines if line["session"] == root]
    assert {line["parent"] for line in tops} == {None}
    told = next(line for line in tops if line["event"] == "step_ended")
    assert (told["input_tokens"], told["output_tokens"]) == (5, 6)
    ends = [line["event"] for line in tops if line["event"] in ("closing", "ended")]
    assert ends == ["closing", "ended"]


@pytest.mark.anyio
@pytest.mark.parametrize("most", [80, 10, 0])
async def test_no_line_holds_more_of_a_text_than_a_preview_and_none_a_key(
    most: int,
) -> None:
    with capture_logs() as lines:
        async with opened(model()) as supervisor:
            log_to_structlog(supervisor, preview_characters=most)
            await work(supervisor)
    assert KEY not in repr(lines)
    previews = [line["preview"] for line in lines if "preview" in line]
    assert bool(previews) is (most > 0)
    assert all(len(one) <= most + 1 for one in previews)
    assert any(line.get("characters") == len(LONG) for line in lines)
    assert LONG not in repr(lines)


@pytest.mark.anyio
async def test_what_is_live_already_is_known_and_what_stops_it_stops_it() -> None:
    hold = Gate()
    async with opened(model(hold)) as supervisor:
        root = await supervisor.start_root(
            supervisor._runtime.specs["lead"], interactive=True
        )
        slow = await supervisor.start_child(
            root, supervisor._runtime.specs["slow"], "go"
        )
        await hold.reached()
        with capture_logs() as lines:
            stop = log_to_structlog(supervisor)
            hold.open()
            await supervisor.wait(slow.message_id)
            await root.wait_idle()
        with capture_logs() as later:
            stop()
            await supervisor.tell(root, "more")
            await root.wait_idle()
    of = [line for line in lines if line["session"] == slow.child_id]
    assert [line["event"] for line in of] == ["step_ended", "turn_ended", "ended"]
    assert {(line["parent"], line["turn"]) for line in of} == {(root.id, 1)}
    assert later == []


@pytest.mark.anyio
async def test_a_resumed_session_has_its_parent_again_and_its_turns_go_on() -> None:
    with capture_logs() as lines:
        async with opened(model()) as supervisor:
            log_to_structlog(supervisor)
            root, child = await work(supervisor)
            parent = supervisor.agent(root)
            assert parent is not None
            again = await supervisor.followup(parent, child, "again")
            await supervisor.wait(again)
    of = [line for line in lines if line["session"] == child]
    assert {line["parent"] for line in of} == {root}
    assert [line["turn"] for line in of if line["event"] == "turn_opened"] == [1, 2]
    second = [line["event"] for line in of].index("activated", 2)
    assert of[second]["turn"] == 1


def test_only_live_sessions_are_remembered() -> None:
    observer = StructlogObserver(structlog.get_logger())
    with capture_logs():
        for number in range(1000):
            name = f"s{number}"
            header = Created(name, "p", 1, "continuable", SpecRecord("n"), 1)
            observer.on_event(name, 0, header)
            observer.on_event(name, 1, TurnOpened(1, (), 2))
            assert observer.statistics() == {"sessions": 1}
            observer.on_event(name, 2, Ended("settled", True, 3))
            assert observer.statistics() == {"sessions": 0}


def test_a_session_that_was_never_live_here_has_an_unknown_parent() -> None:
    observer = StructlogObserver()
    with capture_logs() as lines:
        observer.on_event("s", 9, TurnOpened(4, ("m",), 1))
        observer.on_closing("s", "drain")
    assert [(line["parent"], line["turn"]) for line in lines] == [
        ("unknown", 4),
        ("unknown", None),
    ]
    assert observer.statistics() == {"sessions": 0}


RESERVED = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def test_every_kind_has_a_line_that_any_logger_can_take() -> None:
    """No field has a name that `logging` keeps, and no text breaks a line."""
    observer = StructlogObserver()
    with capture_logs() as lines:
        for seq, event in enumerate(sample_events()):
            observer.on_event("s", seq, event)
    assert [line["event"] for line in lines] == [
        name
        for event in sample_events()
        for name in KINDS
        if KINDS[name] is type(event)
    ]
    for line in lines:
        assert not RESERVED.intersection(line), line
        for value in line.values():
            if isinstance(value, str):
                assert value.isprintable()
                value.encode()
    levels = {line["event"]: line["log_level"] for line in lines}
    for name in ("request_failed", "turn_ended", "discarded", "concluded"):
        assert levels.pop(name) == "warning"
    assert set(levels.values()) == {"info"}


def test_a_logger_of_ones_own_is_used() -> None:
    said: list[dict[str, Any]] = []

    def keep(logger: Any, name: str, line: Any) -> Any:
        said.append(dict(line))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(None, processors=[keep]).bind(run="r1")
    observer = StructlogObserver(logger)
    observer.on_event("s", 0, Accepted("m", "tell", "host", (ODD,), "wakeup", 1))
    assert said[0]["run"] == "r1"
    assert said[0]["source"] == "tell"


@pytest.mark.anyio
@pytest.mark.case("R-215")
async def test_a_processor_that_fails_disturbs_no_run_and_is_itself_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = 0

    def fail(logger: Any, name: str, line: Any) -> Any:
        nonlocal calls
        calls += 1
        raise RuntimeError("the log is full")

    heard: list[object] = []

    class Other:
        def on_event(self, session_id: str, seq: int, event: object) -> None:
            heard.append(event)

    minds = model()
    with caplog.at_level(logging.ERROR, logger="ramet"):
        async with opened(minds) as supervisor:
            logger = structlog.wrap_logger(None, processors=[fail])
            log_to_structlog(supervisor, logger)
            supervisor.observe(Other())
            root, child = await work(supervisor)
            parent = supervisor.agent(root)
            assert parent is not None
            again = await supervisor.followup(parent, child, "again")
            outcome = await supervisor.wait(again)
    assert outcome.status == "completed"
    assert calls > 10
    assert len(heard) > 10
    assert "an observer of ramet raised" in caplog.text
    assert "the log is full" in caplog.text
