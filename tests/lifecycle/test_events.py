"""What observers and readers hear of the running runtime."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

import ramet
from ramet import Entry, Gap
from ramet.mailbox.events import (
    Accepted,
    Activated,
    Created,
    Ended,
    StepEnded,
    TurnEnded,
    TurnOpened,
)
from ramet.testing import Gate, ScriptedModel, step
from tests.lifecycle.stage import DIGGER, LEAD, SCOUT, Stage, accepted_in, of, start

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"


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

        late: list[Entry] = []

        async def catch_up(stream: AsyncIterator[Entry]) -> None:
            late.extend([entry async for entry in stream])

        async with anyio.create_task_group() as group:
            for after in seen:
                group.start_soon(follow, after)
            await anyio.wait_all_tasks_blocked()
            stream = scout.events()
            await sup.inject(root, scout.id, "quietly")
            group.start_soon(catch_up, stream)
            await anyio.wait_all_tasks_blocked()
            hold.open()
        log = stored.log(scout)
        assert late == seen[0]
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
        assert [type(event) for event in stage.log(root)] == [
            Created,
            Activated,
            Accepted,
            TurnOpened,
            StepEnded,
            TurnEnded,
        ]


@pytest.mark.case("R-204")
async def test_wait_idle_returns_when_nothing_is_open_and_all_is_durable(
    stored: Stage,
) -> None:
    hold, last = Gate(), Gate()
    model = ScriptedModel({"lead": [step("a", hold=hold), step("b", hold=last)]})
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
            await last.reached()
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert idle == []
            last.open()
        assert idle == [2, 2]


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
            asked = task.cancel()
            try:
                message = await task
            except asyncio.CancelledError:
                cancelled.append(True)
                message = await sup.report_from(scout, "x", key=key)
            assert len(cancelled) == asked
            found = [e for e in accepted_in(stage.log(root), "report") if e.key == key]
            assert [e.id for e in found] == [message]


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
            entered = [
                m.id for m in session.transcript if isinstance(m, ramet.UserMessage)
            ]
            inbox = session.inbox
            held = [m.id for _, m in (*inbox.waiting, *inbox.staged)]
            discarded = [e.id for e in of(events, Discarded)]
            accepted = [e.id for e in of(events, Accepted)]
            assert sorted(entered + held + discarded) == sorted(accepted)
        assert fold(log) == root._activation.session
        assert of(log, TurnOpened)


@pytest.mark.case("R-240")
async def test_a_reader_that_is_cancelled_while_the_log_is_read_misses_nothing(
    stored: Stage,
) -> None:
    async with stored.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        stream = sup.events(root.id)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(stream)
        assert scope.cancelled_caught
        heard = [await anext(stream) for _ in stored.log(root)]
        assert [entry.event for entry in heard if isinstance(entry, Entry)] == (
            stored.log(root)
        )
