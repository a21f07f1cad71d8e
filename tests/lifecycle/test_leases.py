"""Two supervisors on the data of one memory store, each with a lease on what it claims.

Lives here: the first is paused, its lease runs out, and the second goes on.  Whatever
the first does then is refused and acknowledged to nobody, and it comes to rest as after
any commit that failed (R-182, R-186).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    Agent,
    MemoryStore,
    PersistenceUnavailableError,
    SendUnknownError,
    SessionHeldError,
    Supervisor,
)
from ramet.lifecycle.laws import check_laws
from ramet.mailbox.events import StepEnded, TurnEnded
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import (
    HANG_S,
    LEAD,
    SCOUT,
    accepted_in,
    left_with,
    of,
    start,
    texts,
)

pytestmark = pytest.mark.anyio

SPECS = [LEAD, SCOUT]


def lose(second: MemoryStore, session: str) -> None:
    """Let the lease of whoever holds a session run out."""
    row = second.row(session)
    assert row is not None
    assert row.holder is not None
    second.bury(row.holder)


async def tells(sup: Supervisor, root: Agent, scout: Agent) -> None:
    await sup.tell(root, "late", key="late")


async def reports(sup: Supervisor, root: Agent, scout: Agent) -> None:
    await sup.report_from(scout, "late", key="late")


async def starts_a_child(sup: Supervisor, root: Agent, scout: Agent) -> None:
    await sup.start_child(root, SCOUT, "late", key="late")


async def starts_a_root(sup: Supervisor, root: Agent, scout: Agent) -> None:
    await sup.start_root(LEAD, interactive=True)


async def follows_up(sup: Supervisor, root: Agent, scout: Agent) -> None:
    await sup.followup(root, scout.id, "late", key="late")


Late = Callable[[Supervisor, Agent, Agent], Awaitable[None]]

LATE: list[Late] = [tells, reports, starts_a_child, starts_a_root, follows_up]


@pytest.mark.case("R-182")
@pytest.mark.parametrize("late", LATE)
async def test_a_write_after_the_lease_ran_out_is_refused_and_acknowledged_to_nobody(
    late: Late,
) -> None:
    store = MemoryStore()
    other = MemoryStore(store.data)
    hold = Gate()
    first_model = ScriptedModel(
        {"lead": [step("one")], "scout": [step("x", hold=hold)]}
    )
    second_model = ScriptedModel({"lead": [step("two"), step("three")]})
    done: list[Late] = []
    with anyio.fail_after(HANG_S):
        with left_with(PersistenceUnavailableError) as caught:
            async with ramet.open(store, specs=SPECS, model=first_model) as first:
                root = await first.start_root(LEAD, interactive=True)
                await first.wait(await first.tell(root, "hello"))
                scout = await start(first, root, SCOUT)
                await hold.reached()
                lose(other, root.id)
                async with ramet.open(other, specs=SPECS, model=second_model) as second:
                    again = await second.resume(root.id)
                    await again.wait_idle()
                    before = other.load(root.id)
                    sessions = other.sessions()
                    with pytest.raises(SendUnknownError):
                        await late(first, root, scout)
                    assert other.load(root.id) == before
                    assert other.sessions() == sessions
                    assert await first.lookup("host", "late") is None
                    assert await first.lookup(root.id, "late") is None
                    await root.wait_gone()
                    assert first.agent(root.id) is None
                    with pytest.raises(PersistenceUnavailableError):
                        await first.tell(root, "more")
                    answered = await second.tell(again, "still there?")
                    assert (await second.wait(answered)).status == "completed"
                    done.append(late)
        assert done == [late]
        assert isinstance(caught[0].__cause__, SessionHeldError)
    assert texts(second_model.requests[-1])[-1] == "still there?"
    check_laws(other, [*first_model.requests, *second_model.requests])


@pytest.mark.case("R-182", "R-174")
async def test_a_turn_that_was_paused_is_closed_by_the_second_and_asks_no_more() -> (
    None
):
    """The first was in a request: what came of it is nowhere, and none follows."""
    store = MemoryStore()
    other = MemoryStore(store.data)
    paused = Gate()
    first_model = ScriptedModel(
        {"lead": [step("late", [call("nothing")], hold=paused), step("never")]}
    )
    second_model = ScriptedModel({"lead": [step("on")]})
    done: list[Agent] = []
    with anyio.fail_after(HANG_S):
        with left_with(PersistenceUnavailableError):
            async with ramet.open(store, specs=SPECS, model=first_model) as first:
                root = await first.start_root(LEAD, interactive=True)
                message = await first.tell(root, "work")
                await paused.reached()
                lose(other, root.id)
                async with ramet.open(other, specs=SPECS, model=second_model) as second:
                    again = await second.resume(root.id)
                    outcome = await second.wait(message)
                    assert (outcome.status, outcome.cause) == ("failed", "crashed")
                    paused.open()
                    await root.wait_gone()
                    assert (await first.wait(message)).cause == "crashed"
                    await second.wait(await second.tell(again, "go on"))
                    log = other.load(root.id)
                    assert [event.text for event in of(log, StepEnded)] == ["on"]
                    causes = [event.cause for event in of(log, TurnEnded)]
                    assert causes == ["crashed", None]
                    done.append(again)
        assert len(done) == 1
        assert len(first_model.requests) == 1
    check_laws(other, second_model.requests)


@pytest.mark.case("R-182")
async def test_a_waiter_of_the_first_is_told_that_it_cannot_know() -> None:
    store = MemoryStore()
    other = MemoryStore(store.data)
    paused = Gate()
    model = ScriptedModel({"lead": [step("late", hold=paused)]})
    told: list[type[BaseException]] = []

    async def wait(first: Supervisor, message: str) -> None:
        try:
            await first.wait(message)
        except PersistenceUnavailableError as error:
            told.append(type(error))

    with anyio.fail_after(HANG_S):
        with left_with(PersistenceUnavailableError):
            async with ramet.open(store, specs=SPECS, model=model) as first:
                root = await first.start_root(LEAD, interactive=True)
                message = await first.tell(root, "work")
                await paused.reached()
                async with anyio.create_task_group() as group:
                    group.start_soon(wait, first, message)
                    await anyio.wait_all_tasks_blocked()
                    lose(other, root.id)
                    paused.open()
        assert told == [PersistenceUnavailableError]


@pytest.mark.case("R-182", "R-181")
async def test_while_the_lease_lasts_the_second_gets_nothing() -> None:
    store = MemoryStore()
    other = MemoryStore(store.data)
    model = ScriptedModel({"lead": [step("one"), step("two")]})
    with anyio.fail_after(HANG_S):
        async with (
            ramet.open(store, specs=SPECS, model=model) as first,
            ramet.open(other, specs=SPECS, model=model) as second,
        ):
            root = await first.start_root(LEAD, interactive=True)
            with pytest.raises(SessionHeldError):
                await second.resume(root.id)
            own = await second.start_root(LEAD, interactive=True)
            await first.wait(await first.tell(root, "a"))
            await second.wait(await second.tell(own, "b"))
    check_laws(store, model.requests)
    assert store.data.buried == set()


@pytest.mark.case("R-182")
async def test_a_paused_supervisor_takes_no_session_either() -> None:
    """A resume claims before it loads: it is refused, and nothing changes."""
    store = MemoryStore()
    other = MemoryStore(store.data)
    model = ScriptedModel({})
    with anyio.fail_after(HANG_S):
        async with ramet.open(store, specs=SPECS, model=model) as before:
            root = await before.start_root(LEAD, interactive=True)
        with left_with(PersistenceUnavailableError):
            async with ramet.open(store, specs=SPECS, model=model) as first:
                own = await first.start_root(LEAD, interactive=True)
                lose(other, own.id)
                with pytest.raises(PersistenceUnavailableError, match="ran out"):
                    await first.resume(root.id)
                row = store.row(root.id)
                assert row is not None
                assert row.holder is None
                # It is not at rest yet: what it writes next tells it.
                with pytest.raises(SendUnknownError):
                    await first.tell(own, "late")
        async with ramet.open(other, specs=SPECS, model=model) as second:
            assert (await second.resume(root.id)).id == root.id


@pytest.mark.case("R-182")
async def test_what_the_first_had_acknowledged_the_second_has() -> None:
    store = MemoryStore()
    other = MemoryStore(store.data)
    hold = Gate()
    steps: dict[str, Any] = {"lead": [step("n")] * 2, "scout": [step("x", hold=hold)]}
    model = ScriptedModel(steps)
    done: list[Agent] = []
    with anyio.fail_after(HANG_S):
        with left_with(PersistenceUnavailableError):
            async with ramet.open(store, specs=SPECS, model=model) as first:
                first.register_setup(ramet.report_setup())
                root = await first.start_root(LEAD, interactive=True)
                scout = await start(first, root, SCOUT)
                await hold.reached()
                report = await first.report_from(scout, "R")
                lose(other, root.id)
                async with ramet.open(other, specs=SPECS, model=model) as second:
                    again = await second.resume(root.id)
                    await again.wait_idle()
                    log = other.load(root.id)
                    assert [e.id for e in accepted_in(log, "report")] == [report]
                    notices = accepted_in(log, "notice")
                    assert [e.sender for e in notices] == [scout.id]
                    done.append(again)
        assert len(done) == 1
