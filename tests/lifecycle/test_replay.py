"""Replay: what comes back without an agent, and why anything does not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

import ramet
from ramet import AgentFailedError, Limits, MemoryStore, SqliteStore
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.recorded import read_recorded
from ramet.lifecycle.script import ScriptRun
from ramet.lifecycle.script_file import load_script
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.events import Concluded, Event, Journaled
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.scripts import (
    begun,
    journal_of,
    of_kind,
    reasons,
    run_of,
    run_script,
)
from tests.lifecycle.stage import ORACLE, SCOUT, Stage

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent / "golden"


def reply(value: Any, **more: Any) -> Any:
    return step(calls=[call("reply", value=value)], **more)


def replies(*values: Any) -> ScriptedModel:
    return ScriptedModel({"oracle": [reply(value) for value in values]})


def altered(stage: Stage, change: Callable[[Event], Event]) -> None:
    """Rewrite the logs of a stage's store, event by event."""
    store = stage.store()
    assert isinstance(store, MemoryStore)
    for one in store.data.sessions.values():
        one.log[:] = [change(event) for event in one.log]


# -- what comes back -------------------------------------------------------------------


@pytest.mark.case("A-163")
async def test_every_contract_comes_back_without_agent_usage_or_charge(
    stored: Stage,
) -> None:
    @attrs.frozen
    class Size:
        wide: int

    async def main(flow: Flow) -> Any:
        size = await flow.agent("a", spec=ORACLE, returns=Size)
        assert isinstance(size, Size)
        return [
            size.wide,
            await flow.agent("b", spec=ORACLE, choice=["x", "y"]),
            await flow.agent("c", spec=ORACLE, schema={"type": "number"}),
            await flow.agent("d", spec=SCOUT, text=True),
            await flow.agent("e", spec=ORACLE),
            await flow.agent("f", spec=ORACLE, limits=Limits(requests=5)),
        ]

    model = ScriptedModel(
        {
            "oracle": [reply(v) for v in ({"wide": 3}, "y", 1.0, "", [1])],
            "scout": [step(" exactly\n")],
        }
    )
    copy = await begun(stored, main, model)
    result = await run_script(copy, main, take_up=True)
    assert result.value == [3, "y", 1, " exactly\n", None, [1]]
    assert reasons(copy) == ["replayed"] * 6
    assert result.usage.subtree.requests == 6
    again = of_kind(journal_of(copy), "call.ended")[6:]
    assert all(one["usage"]["requests"] == 0 for one in again)
    assert [one["attempt"] for one in again] == [0] * 6
    assert len(of_kind(journal_of(copy), "call.started")) == 6


@pytest.mark.case("A-163", "A-164")
async def test_a_title_and_attempts_are_no_part_of_what_is_asked(
    stored: Stage,
) -> None:
    more: dict[str, Any] = {}

    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=ORACLE, **more)

    copy = await begun(stored, main, replies(1))
    more.update(title="another", attempts=3)
    assert (await run_script(copy, main, take_up=True)).value == 1


# -- what runs fresh, and why ----------------------------------------------------------


@pytest.mark.case("A-164", "A-165")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt": "other"}, "key-mismatch"),
        ({"label": "other"}, "key-mismatch"),
        ({"limits": Limits(requests=9)}, "key-mismatch"),
        ({"spec": ramet.AgentSpec("oracle", "Answer.")}, "key-mismatch"),
        ({"model": "other"}, "key-mismatch"),
        ({"phase": "other"}, "key-mismatch"),
        ({"choice": ["x", "z"]}, "return-contract-changed"),
    ],
)
async def test_a_call_that_differs_runs_fresh_with_all_that_follow_it(
    stage: Stage, change: dict[str, Any], reason: str
) -> None:
    options: dict[str, Any] = {"prompt": "two", "spec": ORACLE, "choice": ["x", "y"]}

    async def main(flow: Flow) -> Any:
        flow.phase("first")
        found = [await flow.agent("one", spec=ORACLE)]
        flow.phase(options.get("phase", "second"))
        asked = {name: value for name, value in options.items() if name != "phase"}
        if asked.get("model"):
            asked["model"] = replies("x")
        found.append(await flow.agent(**asked))
        flow.phase("third")
        found.append(await flow.agent("three", spec=ORACLE))
        found.append(await flow.agent("four", spec=ORACLE))
        return found

    copy = await begun(stage, main, replies(1, "y", 3, 4))
    options |= change
    fresh = [5, 6] if "model" in change else ["x", 5, 6]
    result = await run_script(copy, main, replies(*fresh), take_up=True)
    assert result.value == [1, "x", 5, 6]
    assert reasons(copy) == ["replayed", reason, "diverged", "diverged"]
    third = await run_script(copy, main, take_up=True)
    assert third.value == [1, "x", 5, 6]
    assert reasons(copy) == ["replayed"] * 4


@pytest.mark.case("A-164", "A-165")
async def test_a_failure_that_the_script_caught_runs_again_with_all_that_follow(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        try:
            first = await flow.agent("x", spec=SCOUT, text=True)
        except AgentFailedError as error:
            first = error.code
        return [first, await flow.agent("y", spec=ORACLE)]

    model = ScriptedModel({"scout": [step(" ")], "oracle": [reply("old")]})
    copy = await begun(stage, main, model)
    again = ScriptedModel({"scout": [step("now")], "oracle": [reply("new")]})
    result = await run_script(copy, main, again, take_up=True)
    assert result.value == ["now", "new"]
    assert reasons(copy) == ["recorded-failure", "diverged"]


@pytest.mark.case("A-164")
async def test_what_ran_beside_an_unfinished_call_is_not_paid_for_twice(
    stored: Stage,
) -> None:
    gate = Gate()
    copies: list[Stage] = []

    async def main(flow: Flow) -> Any:
        found: dict[str, Any] = {}

        async def ask(name: str, spec: ramet.AgentSpec) -> None:
            for n in range(2):
                label = f"{name}{n}"
                found[label] = await flow.agent(label, spec=spec, label=label)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "a", SCOUT)
            group.start_soon(ask, "b", ORACLE)
        return found

    async def cut(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(main, flow)
            while len(of_kind(journal_of(stored), "call.ended")) < 2:
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()

    held = [reply("late", hold=gate), reply("later")]
    first = ScriptedModel({"scout": held, "oracle": [reply(1), reply(2)]})
    await run_script(stored, cut, first)
    (copy,) = copies
    second = ScriptedModel({"scout": [reply("c"), reply("d")]})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == {"a0": "c", "a1": "d", "b0": 1, "b1": 2}
    found = sorted(map(str, reasons(copy)))
    assert found == ["diverged", "recorded-failure", "replayed", "replayed"]


@pytest.mark.case("A-165")
async def test_a_fresh_run_gives_no_reasons_and_what_is_new_has_no_record(
    stage: Stage,
) -> None:
    more = [False]

    async def main(flow: Flow) -> Any:
        await flow.agent("x", spec=ORACLE)
        if more[0]:
            await flow.agent("y", spec=ORACLE)

    copy = await begun(stage, main, replies(1))
    assert reasons(copy) == [None]
    more[0] = True
    await run_script(copy, main, replies(2), take_up=True)
    assert reasons(copy) == ["replayed", "no-record"]


@pytest.mark.case("A-165")
async def test_a_record_whose_events_make_no_sense_runs_fresh(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=ORACLE)

    copy = await begun(stage, main, replies(1))

    def twice(event: Event) -> Event:
        if isinstance(event, Journaled) and event.kind == "call.started":
            data = json.loads(event.data) | {"attempt": 2}
            return attrs.evolve(event, data=canonical_json(data))
        return event

    altered(copy, twice)
    assert (await run_script(copy, main, replies(2), take_up=True)).value == 2
    assert reasons(copy) == ["recorded-sequence-invalid"]


async def test_a_key_of_the_script_names_one_request_also_in_a_resumed_run(
    stage: Stage,
) -> None:
    word = ["x"]

    async def main(flow: Flow) -> Any:
        return await flow.agent(word[0], spec=ORACLE, key="k")

    copy = await begun(stage, main, replies(1))
    word[0] = "y"
    result = await run_script(copy, main, take_up=True)
    assert isinstance(result.error, ramet.KeyConflictError)
    word[0] = "x"
    assert (await run_script(copy, main, take_up=True)).value == 1


# -- what is refused -------------------------------------------------------------------


def receipt_with(field: str, value: Any) -> Callable[[Event], Event]:
    def change(event: Event) -> Event:
        if isinstance(event, Concluded) and event.receipt is not None:
            receipt = json.loads(event.receipt) | {field: value}
            return attrs.evolve(event, receipt=canonical_json(receipt))
        return event

    return change


@pytest.mark.case("A-167")
@pytest.mark.parametrize("journal_cut", [False, True])
async def test_an_altered_receipt_fails_closed_and_closes_what_follows(
    stage: Stage, journal_cut: bool
) -> None:
    async def main(flow: Flow) -> Any:
        found: list[Any] = []
        for prompt in ("one", "two"):
            try:
                found.append(await flow.agent(prompt, spec=ORACLE))
            except AgentFailedError as error:
                found.append(error.code)
        return found

    copy = await begun(stage, main, replies("a", "b"))
    altered(copy, receipt_with("attempts", 2))
    result = await run_script(copy, main, replies("new"), take_up=True)
    assert result.value == ["replay-contract-failure", "new"]
    assert reasons(copy) == [None, "diverged"]
    ended = of_kind(journal_of(copy), "call.ended")[-2]
    assert (ended["status"], ended["replayed"]) == ("failed", False)
    assert "acceptance" not in ended
    assert (ended["attempt"], ended["usage"]["requests"]) == (0, 0)
    # The record stands: the next resume refuses it again, and keeps what was made.
    third = await run_script(copy, main, take_up=True)
    assert third.value[0] == "replay-contract-failure"


@pytest.mark.case("A-168")
async def test_a_value_that_the_present_function_refuses_is_not_handed_on(
    stage: Stage,
) -> None:
    most = [9]

    def small(instance: Any, attribute: Any, value: int) -> None:
        if value > most[0]:
            raise ValueError("too wide")

    @attrs.frozen
    class Size:
        wide: int = attrs.field(validator=small)

    async def main(flow: Flow) -> Any:
        return (await flow.agent("x", spec=ORACLE, returns=Size)).wide

    copy = await begun(stage, main, replies({"wide": 7}))
    assert (await run_script(copy, main, take_up=True)).value == 7
    most[0] = 5
    result = await run_script(copy, main, take_up=True)
    assert isinstance(result.error, AgentFailedError)
    assert result.error.code == "replay-contract-failure"
    assert "too wide" in str(result.error)
    assert of_kind(journal_of(copy), "call.started") != []
    assert len(of_kind(journal_of(copy), "call.started")) == 1


async def dig(where: str) -> str:
    """Dig a hole."""
    return f"dug {where}"


@pytest.mark.case("A-170", "A-188")
async def test_a_schema_call_that_may_have_had_effects_runs_again_only_when_allowed(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        schema = {"type": "integer"}
        try:
            first = await flow.agent("x", spec=SCOUT, schema=schema, tools=[dig])
        except AgentFailedError as error:
            first = error.code
        return [first, await flow.agent("y", spec=ORACLE)]

    works = step(calls=[call("dig", where="here")])
    wrong = step(calls=[call("reply", value="none")])
    model = ScriptedModel({"scout": [works, wrong, wrong], "oracle": [reply(1)]})
    copy = await begun(stored, main, model)
    result = await run_script(copy, main, replies(2), take_up=True)
    assert result.value == ["replay-contract-failure", 2]
    ended = of_kind(journal_of(copy), "call.ended")[-2]
    assert "--rerun-uncertain" in ended["text"]
    old = of_kind(journal_of(copy), "call.started")[0]["session"]
    again = ScriptedModel({"scout": [works, reply(7)], "oracle": [reply(3)]})
    third = await run_script(copy, main, again, take_up=True, rerun="me, by name")
    assert third.value == [7, 3]
    assert reasons(copy) == ["recorded-failure", "diverged"]
    (allowed,) = of_kind(journal_of(copy), "log rerun-uncertain")
    assert (allowed["by"], allowed["session"]) == ("me, by name", old)
    sessions = {one["session"] for one in of_kind(journal_of(copy), "call.started")}
    assert len(sessions) == 5
    assert (await run_script(copy, main, take_up=True)).value == [7, 3]


@pytest.mark.case("A-170")
@pytest.mark.parametrize("options", [{"schema": {"type": "integer"}}, {}])
async def test_without_effects_or_under_another_contract_a_failure_runs_again(
    stage: Stage, options: dict[str, Any]
) -> None:
    async def main(flow: Flow) -> Any:
        more: dict[str, Any] = {} if options else {"tools": [dig]}
        limits = Limits(requests=2)
        return await flow.agent("x", spec=ORACLE, limits=limits, **options, **more)

    first = step(calls=[call("dig", where="here")]) if not options else step("x")
    model = ScriptedModel({"oracle": [first, step("x")]})
    assert (await run_script(stage, main, model)).status != "completed"
    assert (await run_script(stage, main, replies(7), take_up=True)).value == 7
    assert reasons(stage) == ["recorded-failure"]


@pytest.mark.case("A-171")
async def test_a_journal_that_cannot_be_read_is_no_run_to_go_on_with(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=ORACLE)

    copy = await begun(stage, main, replies(1))

    def broken(event: Event) -> Event:
        if isinstance(event, Journaled) and event.kind == "call.queued":
            return attrs.evolve(event, data="{}")
        return event

    altered(copy, broken)
    with pytest.raises(ramet.ReplayRefusedError) as caught:
        await run_script(copy, main, take_up=True)
    assert caught.value.code == "source-run-unusable"


# -- runs of earlier versions ----------------------------------------------------------


async def test_a_run_that_0_1_0_began_goes_on_without_asking_again(
    tmp_path: Path,
) -> None:
    stage = Stage("sqlite", tmp_path)
    dump = (GOLDEN / "store_0_1_0.sql").read_text(encoding="utf-8")
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.executescript(dump)
    connection.close()
    writer = SqliteStore(tmp_path / "store.db")
    writer.open()
    writer.close()
    script = load_script(GOLDEN / "script_0_1_0.py")
    run = run_of(stage)
    assert (run.digest, run.called) == (script.digest, True)
    model = ScriptedModel({"clerk": [reply(9)]})
    for expected in ("recorded-failure", None):
        asked = model if expected else None
        async with stage.open(asked, specs=(script.root, *script.specs)) as supervisor:
            again = ScriptRun(supervisor, script, data=run.input, args=run.args)
            result = await again.finish(await again.take_up(run_of(stage)))
        assert result.error is None
        assert (result.value["colour"], result.value["last"]) == ("green", 9)
        assert result.value["size"] == {"wide": 3}
        assert result.value["scout"][1:] == ["completed", ["a tree"]]
        last = expected or "replayed"
        assert reasons(stage) == ["replayed", "replayed", last]
    recorded = read_recorded(stage.log(run.id))
    assert recorded.early
