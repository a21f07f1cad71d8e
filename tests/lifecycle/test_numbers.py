"""Every public number, of seconds and of counts: what is outside of it is refused.

It is refused with `UsageError`, at once, and on both backends alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from math import inf, nan
from typing import Any

import pytest

import ramet
from ramet import Limits, Policy
from ramet.testing import ScriptedModel, step
from tests.lifecycle.stage import DIGGER, LEAD, SCOUT, Stage

pytestmark = pytest.mark.anyio

NO_SECONDS: tuple[Any, ...] = ("x", nan, -1, -inf, True, 10**400, [1.0], 1j)
NO_COUNTS: tuple[Any, ...] = ("x", nan, -1, True, 1.0, inf, None)

Ask = Callable[[ramet.Supervisor, ramet.Agent, Any], Awaitable[object]]


async def plainly(value: object) -> object:
    """What was made without an await."""
    return value


SECONDS: dict[str, Ask] = {
    "cancel(grace_s) of an agent": lambda sup, agent, value: sup.cancel(
        agent, grace_s=value
    ),
    "cancel(grace_s) by id": lambda sup, agent, value: sup.cancel(
        agent.id, grace_s=value
    ),
    "drain(deadline_s)": lambda sup, agent, value: sup.drain(deadline_s=value),
    "drain(below, deadline_s)": lambda sup, agent, value: sup.drain(
        below=agent, deadline_s=value
    ),
    "Policy(rest_deadline_s)": lambda sup, agent, value: plainly(
        Policy(rest_deadline_s=value)
    ),
    "Limits(call_s)": lambda sup, agent, value: plainly(Limits(call_s=value)),
    "Limits(start_deadline_s)": lambda sup, agent, value: plainly(
        Limits(start_deadline_s=value)
    ),
}

COUNTS: dict[str, Ask] = {
    "children(limit)": lambda sup, agent, value: sup.children(limit=value),
    "descendants(limit)": lambda sup, agent, value: sup.descendants(
        agent.id, limit=value
    ),
    "events(session, after)": lambda sup, agent, value: plainly(
        sup.events(agent.id, value)
    ),
    "events(after)": lambda sup, agent, value: plainly(sup.events(None, value)),
    "agent.events(after)": lambda sup, agent, value: plainly(agent.events(value)),
    "log_to_structlog(preview_characters)": lambda sup, agent, value: plainly(
        ramet.log_to_structlog(sup, preview_characters=value)
    ),
}

POLICY = ("max_depth", "nudges")
OPTIONAL_POLICY = ("wake_budget", "inbox_limit", "inbox_bytes", "inline_cap")
AXES = ("concurrency", "agents", "tool_calls", "requests")


def refusals() -> Iterator[Any]:
    """Each number with each value that it may not be."""
    for name, ask in SECONDS.items():
        for value in NO_SECONDS:
            yield pytest.param(ask, value, id=f"{name} {value!r:.10}")
    for name, ask in COUNTS.items():
        for value in NO_COUNTS:
            yield pytest.param(ask, value, id=f"{name} {value!r}")
    for names, make, values in (
        (POLICY, Policy, NO_COUNTS),
        (OPTIONAL_POLICY, Policy, NO_COUNTS[:-1]),
        (AXES, Limits, NO_COUNTS[:-1]),
    ):
        for name in names:
            for value in values:
                yield pytest.param(
                    made(make, name), value, id=f"{make.__name__}({name}) {value!r}"
                )


def made(make: Callable[..., object], name: str) -> Ask:
    """An operation that makes an object with one number."""
    return lambda sup, agent, value: plainly(make(**{name: value}))


@pytest.mark.parametrize(("ask", "value"), list(refusals()))
async def test_a_number_outside_of_its_contract_is_refused_and_nothing_happens(
    stage: Stage, ask: Ask, value: object
) -> None:
    async with stage.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        with pytest.raises(ramet.UsageError):
            await ask(sup, root, value)
        assert root.state == "parked"
        await sup.start_root(SCOUT, interactive=True)


@pytest.mark.parametrize("value", [3, 1.5, "x", True, [], {}])
async def test_open_and_a_headless_run_take_limits_and_policies_and_nothing_else(
    anyio_backend: str, value: Any
) -> None:
    with pytest.raises(ramet.UsageError):
        async with ramet.open(":memory:", limits=value):
            raise AssertionError("it was opened")
    with pytest.raises(ramet.UsageError):
        async with ramet.open(":memory:", policy=value):
            raise AssertionError("it was opened")
    with pytest.raises(ramet.UsageError):
        await ramet.run_headless(LEAD, "x", limits=value)


@pytest.mark.parametrize("seconds", [0, 0.0, 2, inf])
async def test_no_grace_and_an_endless_one_are_numbers_of_seconds(
    stage: Stage, seconds: float
) -> None:
    stage.whole = False
    async with stage.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        other = await sup.start_root(LEAD, interactive=True)
        await sup.cancel(other, grace_s=seconds)
        await sup.drain(below=root, deadline_s=seconds)
        await sup.drain(deadline_s=seconds)
        assert (root.state, other.state) == ("gone", "gone")


@pytest.mark.case("R-165")
@pytest.mark.parametrize("below", [3, "x", object(), True])
async def test_what_is_drained_below_must_be_agents(stage: Stage, below: Any) -> None:
    async with stage.open(
        ScriptedModel({"digger": [step("x")], "lead": [step("n")]})
    ) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        with pytest.raises(ramet.UsageError, match="below must be live agents"):
            await sup.drain(below=below)
        with pytest.raises(ramet.UnauthorizedError):
            await sup.drain(below=[root, below])
        child = await sup.start_child(root, DIGGER, "x")
        assert (await sup.wait(child.message_id)).status == "completed"
        await root.wait_idle()
