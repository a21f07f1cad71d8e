"""Acknowledgement on the running runtime: slow commits and failed ones."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

import anyio
import pytest

import ramet
from ramet.mailbox.events import TurnOpened
from ramet.mailbox.store import Batch
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.minds import held
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    left_with,
    resident,
    start,
    texts,
)
from tests.lifecycle.stores import FailingStore, HeldStore

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-066", "R-171")
async def test_a_stored_acknowledgement_means_that_a_copy_has_the_message(
    stored: Stage,
) -> None:
    hold = Gate()
    stored.whole = False
    async with stored.open(held("scout", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        message = await sup.report_from(scout, "durable")
        copy = stored.crashed()
    async with copy.open(ScriptedModel({"lead": [step("n")]})) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        assert [e.id for e in accepted_in(copy.log(root), "report")] == [message]


@pytest.mark.case("R-066", "R-068", "R-174", "R-047")
async def test_before_it_is_durable_a_message_is_accepted_and_wakes_nobody(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {"lead": [step("read", hold=hold)], "scout": [step("x", hold=hold)]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        store.free.clear()
        message = await sup.report_from(
            scout, "x", delivery="wakeup", ack="accepted", key="k"
        )
        assert (await sup.message(message)).state == "accepted"
        assert not accepted_in(stage.log(root), "report")
        assert root.statistics()["turns"] == 0
        assert await sup.report_from(scout, "x", key="k", ack="accepted") == message
        store.free.set()
        await hold.reached(2)
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)
        hold.open()
        await root.wait_idle()


@pytest.mark.case("R-068")
async def test_a_message_is_claimed_only_when_its_claim_is_durable(
    stage: Stage,
) -> None:
    free = anyio.Event()
    async with stage.open(ScriptedModel({"lead": [step("read")]})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        storage: Any = sup._runtime.storage
        append = storage.append

        async def slow(batch: Batch) -> None:
            if any(isinstance(entry.event, TurnOpened) for entry in batch.entries):
                await free.wait()
            await append(batch)

        storage.append = slow
        message = await sup.tell(root, "x")
        while root.statistics()["turns"] == 0:
            await anyio.lowlevel.checkpoint()
        assert (await sup.message(message)).state == "stored"
        free.set()
        await root.wait_idle()
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)


@pytest.mark.case("R-256", "R-222", "R-255")
async def test_a_repeat_waits_for_the_first_message_to_be_durable(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    async with stage.open(held("scout", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        store.free.clear()
        answers: list[str] = []

        async def send() -> None:
            answers.append(await sup.report_from(scout, "x", key="k"))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(send)
            while sup.statistics()["keys"] == 0:
                await anyio.lowlevel.checkpoint()
            group.start_soon(send)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert answers == []
            store.free.set()
        assert len(answers) == 5
        assert len(set(answers)) == 1
        assert len(accepted_in(stage.log(root), "report")) == 1
        assert sup.statistics()["keys"] == 0


@pytest.mark.case("R-054")
async def test_reports_of_two_tasks_enter_in_order_of_acceptance_whoever_returns_first(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    first, hold = Gate(), Gate()
    model = ScriptedModel(
        {
            "lead": [step("0", hold=first), step("1")],
            "scout": [step("x", hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "begin")
        await first.reached()
        await hold.reached()
        store.free.clear()
        returned: list[str] = []

        async def send(text: str, ack: Literal["accepted", "stored"]) -> None:
            await sup.report_from(scout, text, ack=ack)
            returned.append(text)

        async with anyio.create_task_group() as group:
            group.start_soon(send, "slow", "stored")
            while root.statistics()["staged"] == 0:
                await anyio.lowlevel.checkpoint()
            group.start_soon(send, "quick", "accepted")
            while not returned:
                await anyio.lowlevel.checkpoint()
            assert returned == ["quick"]
            store.free.set()
        first.open()
        await root.wait_idle()
        await sup.tell(root, "go on")
        await root.wait_idle()
        seen = texts(model.requests_of("lead")[1])
        assert seen == ["begin", "slow", "quick", "go on"]
        accepted = accepted_in(stage.log(root), "report")
        assert [e.content for e in accepted] == [("slow",), ("quick",)]


async def _cut(
    sup: ramet.Supervisor,
    store: HeldStore,
    send: Callable[[], Coroutine[Any, Any, Any]],
) -> None:
    """Send under a key, and be cancelled when it is accepted and not stored."""
    store.free.clear()
    before = sup.statistics()["keys"]
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            while sup.statistics()["keys"] == before:
                await anyio.lowlevel.checkpoint()
            scope.cancel()
    assert scope.cancelled_caught
    store.free.set()


@pytest.mark.case("R-252")
async def test_a_background_call_whose_caller_was_cancelled_runs_on_and_is_told(
    stage: Stage,
) -> None:
    store = HeldStore()
    stage.use(store)
    model = ScriptedModel(
        {"lead": [step("n")], "oracle": [step(calls=[call("reply", value="42")])]}
    )
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await _cut(sup, store, lambda: sup.start_call(root, ORACLE, "x", key="c"))
        started = await sup.start_call(root, ORACLE, "x", key="c")
        assert (await sup.wait(started.message_id)).value == "42"
        await root.wait_idle()
        told = accepted_in(stage.log(root), "outcome")
        assert [event.about for event in told] == [(started.message_id,)]


@pytest.mark.case("R-032", "R-094", "R-107")
async def test_a_caller_cancelled_after_acceptance_has_sent(stage: Stage) -> None:
    store = HeldStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    async with stage.open(held("scout", "digger", hold=hold)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()

        cut = partial(_cut, sup, store)
        await cut(lambda: sup.report_from(scout, "x", key="r"))
        report = await sup.report_from(scout, "x", key="r")
        assert [e.id for e in accepted_in(stage.log(root), "report")] == [report]
        assert await sup.lookup(scout.id, "r") == report
        await cut(lambda: sup.start_child(root, DIGGER, "x", key="s"))
        started = await sup.start_child(root, DIGGER, "x", key="s")
        assert (await sup.message(started.message_id)).session_id == started.child_id
        await hold.reached(2)
        await cut(lambda: sup.followup(root, scout.id, "x", key="f"))
        await sup.followup(root, scout.id, "x", key="f")
        assert len(accepted_in(stage.log(scout), "followup")) == 1


@pytest.mark.case("R-070", "R-071", "R-186", "R-187", "R-221", "R-256")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_failed_commit_is_unknown_until_lookup_settles_it(
    stage: Stage, when: Any
) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    unknown: list[ramet.SendUnknownError] = []
    with left_with(ramet.PersistenceUnavailableError) as left:
        async with stage.open(held("scout", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            other = await sup.report_from(scout, "fine", key="fine")
            store.failing = when

            async def send(key: str | None) -> None:
                with pytest.raises(ramet.SendUnknownError) as caught:
                    await sup.report_from(scout, "x", key=key)
                unknown.append(caught.value)

            accepted = ""
            store.free.clear()
            store.spare = 1
            await sup.report_from(scout, "flying", ack="accepted")
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as group:
                group.start_soon(send, "k")
                group.start_soon(send, "k")
                group.start_soon(send, None)
                while root.statistics()["transcript"] < 4 or sup._runtime.calls.count:
                    await anyio.lowlevel.checkpoint()
                accepted = await sup.report_from(scout, "y", ack="accepted")
                await anyio.wait_all_tasks_blocked()
                store.free.set()
            assert len(unknown) == 3
            keys = {error.key for error in unknown}
            assert "k" in keys
            assert len(keys) == 2
            assert (await sup.message(accepted)).state == "unknown"
            attempt: Any
            for attempt in (
                lambda: sup.report_from(scout, "z"),
                lambda: sup.report_from(scout, "x", key="k"),
                lambda: sup.tell(root, "z"),
                lambda: sup.followup(root, scout.id, "z"),
                lambda: sup.start_child(root, SCOUT, "z"),
                lambda: sup.call(root, SCOUT, "z"),
                lambda: sup.start_root(LEAD, interactive=True),
                lambda: sup.resume(scout.id),
                lambda: sup.cancel("s-absent"),
            ):
                with pytest.raises(ramet.PersistenceUnavailableError):
                    await attempt()
            is_stored = when == "after"
            for key in keys:
                found = await sup.lookup(scout.id, key)
                assert (found is not None) is is_stored
                assert await sup.lookup(scout.id, key) == found
            assert await sup.lookup(scout.id, "fine") == other
            status = await sup.message(accepted)
            assert status.state == ("stored" if is_stored else "lost")
            await scout.wait_gone()
            await root.wait_gone()
    assert isinstance(left[0].__cause__, OSError)
    reports = [e.content[0] for e in accepted_in(stage.log(root), "report")]
    assert reports == ["fine", "flying", *(["x", "x", "y"] if is_stored else [])]
    # The next open is the recovery, and the same send goes once.
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=Gate())]})
    async with stage.open(model) as sup:
        root = await sup.resume(root.id)
        await sup.followup(root, scout.id, "go on")
        again = resident(sup, scout.id)
        await sup.report_from(again, "x", key="k")
        reports = [e.content[0] for e in accepted_in(stage.log(root), "report")]
        assert reports.count("x") == (2 if is_stored else 1)


@pytest.mark.case("R-187", "R-186")
async def test_lookup_fails_only_when_the_store_cannot_be_reached_again(
    stage: Stage,
) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(held("scout", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            await hold.reached()
            store.failing = "before"
            with pytest.raises(ramet.SendUnknownError):
                await sup.report_from(scout, "x", key="k")
            store.unreachable = True
            with pytest.raises(ramet.PersistenceUnavailableError):
                await sup.lookup(scout.id, "k")
            store.unreachable = False
            assert await sup.lookup(scout.id, "k") is None


@pytest.mark.case("R-186", "A-125")
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    ("spare", "found"),
    [(1, "the start"), (2, "cancelled"), (3, "storage-failed"), (4, "yes")],
)
async def test_a_call_whose_commit_fails_tells_what_is_known(
    key: str | None, spare: int, found: str, stage: Stage
) -> None:
    """A key makes no difference: of a start that is stored nothing is unknown."""
    store = FailingStore()
    stage.use(store)
    stage.whole = False
    model = ScriptedModel({"oracle": [step(calls=[call("reply", value="yes")])]})
    store.failing, store.spare = "before", spare
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(model) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            told: Any = None
            try:
                outcome = await sup.call(root, ORACLE, "well?", key=key)
                told = outcome.value or outcome.cause
                if told == "drain":
                    told = outcome.status
            except ramet.SendUnknownError:
                told = "the start"
            assert told == found


@pytest.mark.case("R-186", "R-070")
async def test_nobody_waits_for_ever_when_a_commit_has_failed(stage: Stage) -> None:
    store = FailingStore()
    stage.use(store)
    hold = Gate()
    stage.whole = False
    ended: list[str] = []
    with left_with(ramet.PersistenceUnavailableError):
        async with stage.open(held("scout", "oracle", "lead", hold=hold)) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            started = await sup.start_child(root, SCOUT, "x")
            scout = resident(sup, started.child_id)
            await hold.reached()

            async def wait() -> None:
                with pytest.raises(ramet.PersistenceUnavailableError):
                    await sup.wait(started.message_id)
                ended.append("wait")

            async def call_one() -> None:
                outcome: ramet.Outcome[Any] = await sup.call(root, ORACLE, "x")
                assert outcome.status == "cancelled"
                ended.append("call")

            async def follow() -> None:
                async for _ in scout.events():
                    pass
                ended.append("events")

            async def follow_all() -> None:
                async for _ in sup.events():
                    pass
                ended.append("all")

            async with anyio.create_task_group() as group:
                for one in (wait, call_one, follow, follow_all):
                    group.start_soon(one)
                await hold.reached(2)
                await anyio.wait_all_tasks_blocked()
                store.failing = "before"
                with pytest.raises(ramet.SendUnknownError):
                    await sup.tell(root, "x")
                await root.wait_gone()
            assert sorted(ended) == ["all", "call", "events", "wait"]
