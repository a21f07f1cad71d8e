"""Groups: every member settles, and each member's calls have their places."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from ramet import (
    AgentFailedError,
    AgentStoppedError,
    DeclarationError,
    GroupFailureError,
    Limits,
)
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.group import Settled
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.scripts import begun, journal_of, of_kind, reasons, run_script
from tests.lifecycle.stage import DIGGER, LEAD, ORACLE, SCOUT, Stage

pytestmark = pytest.mark.anyio


def reply(value: Any, **more: Any) -> Any:
    return step(calls=[call("reply", value=value)], **more)


async def test_results_stand_in_the_order_of_the_members(stage: Stage) -> None:
    first, second = Gate(), Gate()

    async def main(flow: Flow) -> Any:
        async def order() -> str:
            second.open()
            await anyio.wait_all_tasks_blocked()
            first.open()
            return "of the script"

        assert await flow.parallel([]) == []
        return await flow.parallel(
            [
                partial(flow.agent, "a", spec=ORACLE),
                partial(flow.agent, "b", spec=SCOUT),
                order,
            ]
        )

    model = ScriptedModel(
        {"oracle": [reply(1, hold=first)], "scout": [reply(None, hold=second)]}
    )
    result = await run_script(stage, main, model)
    assert result.value == [1, None, "of the script"]
    journal = journal_of(stage)
    ended = [data["group"]["index"] for data in of_kind(journal, "call.ended")]
    assert ended == [1, 0]
    assert [data["size"] for data in of_kind(journal, "group.started")] == [0, 3]
    last = of_kind(journal, "group.ended")[-1]
    assert (last["completed"], last["failed"], last["cancelled"]) == (3, 0, 0)


@pytest.mark.case("A-057")
async def test_all_members_settle_before_their_failures_come_out_together(
    stage: Stage,
) -> None:
    gate = Gate()
    caught: list[GroupFailureError] = []

    async def main(flow: Flow) -> Any:
        async def late() -> Any:
            while not of_kind(journal_of(stage), "call.ended"):
                await anyio.wait_all_tasks_blocked()
            gate.open()
            return await flow.agent("late", spec=DIGGER)

        members: list[Any] = [
            partial(flow.agent, "x", spec=SCOUT, text=True),
            partial(flow.agent, "y", spec=ORACLE),
            late,
            partial(flow.agent, "z", spec=LEAD, limits=Limits(requests=1)),
        ]
        with pytest.raises(GroupFailureError) as info:
            await flow.parallel(members)
        caught.append(info.value)
        outcomes = [
            await flow.supervisor.outcome(data["message"])
            for data in of_kind(journal_of(stage), "call.ended")
        ]
        assert all(outcome is not None for outcome in outcomes)
        return len(outcomes)

    model = ScriptedModel(
        {
            "scout": [step(" ")],
            "oracle": [reply(None, hold=gate)],
            "lead": [step("no", hold=gate)],
            "digger": [reply("late")],
        }
    )
    result = await run_script(stage, main, model)
    assert result.value == 4
    (error,) = caught
    assert error.code == "group-failure"
    assert [type(one) for one in error.exceptions] == [
        AgentFailedError,
        AgentStoppedError,
    ]
    statuses = [(one.status, one.value) for one in error.settled]
    assert statuses == [
        ("failed", None),
        ("completed", None),
        ("completed", "late"),
        ("failed", None),
    ]
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, GroupFailureError)
    assert len(copied.exceptions) == 2


async def test_fail_fast_cancels_the_others_and_still_waits_for_them(
    stage: Stage,
) -> None:
    stage.whole = False

    async def main(flow: Flow) -> Any:
        with pytest.raises(GroupFailureError) as info:
            await flow.parallel(
                [
                    partial(flow.agent, "x", spec=ORACLE),
                    partial(flow.agent, "y", spec=SCOUT, text=True),
                ],
                fail_fast=True,
            )
        assert info.value.settled[0] == Settled("cancelled")
        return len(await flow.supervisor.children(flow.root.id))

    model = ScriptedModel({"oracle": [reply(1, hold=Gate())], "scout": [step(" ")]})
    assert (await run_script(stage, main, model)).value == 2
    by_status = {d["status"] for d in of_kind(journal_of(stage), "call.ended")}
    assert by_status == {"cancelled", "failed"}


async def test_a_run_whose_group_was_only_stopped_is_stopped(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        ask = partial(flow.agent, "x", spec=ORACLE, limits=Limits(requests=1))
        await flow.parallel([ask, ask])

    model = ScriptedModel({"oracle": [step("no"), step("no")]})
    result = await run_script(stage, main, model)
    assert (result.status, type(result.error)) == ("stopped", AgentStoppedError)


@pytest.mark.case("A-158")
async def test_what_is_no_list_of_functions_is_refused_by_its_index(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        called = flow.agent("x", spec=ORACLE)
        for members, text in (
            ("ab", "takes a list"),
            ([print, 3], r"parallel\[1\] must be a function"),
            ([called], r"parallel\[0\] .* was called already"),
        ):
            with pytest.raises(DeclarationError, match=text) as caught:
                await flow.parallel(members)  # type: ignore[arg-type]
            assert caught.value.code == "bad-option"
        with pytest.raises(DeclarationError, match="fail_fast"):
            await flow.parallel([], fail_fast=1)  # type: ignore[arg-type]

    result = await run_script(stage, main)
    assert result.error is None
    assert len(of_kind(journal_of(stage), "log bad-option")) == 4


# -- replay ----------------------------------------------------------------------------


@pytest.mark.case("A-172", "A-136")
async def test_each_member_is_looked_up_by_its_own_place_whichever_ended_first(
    stored: Stage,
) -> None:
    gate = Gate()

    async def main(flow: Flow) -> Any:
        async def two(word: str) -> Any:
            one = await flow.agent(f"{word} one", spec=ORACLE)
            return [one, await flow.agent(f"{word} two", spec=ORACLE)]

        async def open_later() -> None:
            await anyio.wait_all_tasks_blocked()
            gate.open()

        return await flow.parallel(
            [
                partial(flow.agent, "held", spec=SCOUT),
                partial(two, "a"),
                partial(two, "b"),
                open_later,
            ]
        )

    first = ScriptedModel(
        {
            "scout": [reply("late", hold=gate)],
            "oracle": [reply(n) for n in range(4)],
        }
    )
    copy = await begun(stored, main, first)
    result = await run_script(copy, main, take_up=True)
    assert result.error is None
    assert result.value[0] == "late"
    assert sorted([*result.value[1], *result.value[2]]) == [0, 1, 2, 3]
    assert reasons(copy) == ["replayed"] * 5


@pytest.mark.case("A-172")
async def test_a_failed_member_runs_again_its_siblings_do_not_and_what_follows_does(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        before = await flow.agent("before", spec=ORACLE)
        try:
            group = await flow.parallel(
                [
                    partial(flow.agent, "x", spec=SCOUT, text=True),
                    partial(flow.agent, "y", spec=DIGGER, text=True),
                ]
            )
        except GroupFailureError as error:
            group = [one.value for one in error.settled]
        after = await flow.agent("after", spec=ORACLE)
        return [before, *group, after]

    first = ScriptedModel(
        {
            "oracle": [reply("b"), reply("old")],
            "scout": [step(" ")],
            "digger": [step("kept")],
        }
    )
    copy = await begun(stored, main, first)
    second = ScriptedModel({"oracle": [reply("new")], "scout": [step("now")]})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == ["b", "now", "kept", "new"]
    assert reasons(copy) == ["replayed", "recorded-failure", "replayed", "diverged"]
    third = await run_script(copy, main, take_up=True)
    assert third.value == ["b", "now", "kept", "new"]


@pytest.mark.case("A-172")
async def test_an_unfinished_member_runs_again_and_its_siblings_are_replayed(
    stored: Stage,
) -> None:
    gate = Gate()
    copies: list[Stage] = []

    async def main(flow: Flow) -> Any:
        return await flow.parallel(
            [
                partial(flow.agent, str(n), spec=spec, label=str(n))
                for n, spec in enumerate((SCOUT, ORACLE, ORACLE))
            ]
        )

    async def cut(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(main, flow)
            while len(of_kind(journal_of(stored), "call.ended")) < 2:
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()

    model = ScriptedModel(
        {"scout": [reply("x", hold=gate)], "oracle": [reply(1), reply(1)]}
    )
    await run_script(stored, cut, model)
    (copy,) = copies
    second = ScriptedModel({"scout": [reply(0)]})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value == [0, 1, 1]
    assert reasons(copy) == ["recorded-failure", "replayed", "replayed"]
    ended = of_kind(journal_of(copy), "call.ended")
    assert len(ended) == 6
    crashed = [one for one in ended if one["cause"] == "crashed"]
    assert [one["label"] for one in crashed] == ["0"]


async def test_a_group_of_another_size_closes_what_follows(stored: Stage) -> None:
    size = [2]

    async def main(flow: Flow) -> Any:
        ask = partial(flow.agent, "x", spec=ORACLE)
        found = await flow.parallel([ask] * size[0])
        return [*found, await flow.agent("after", spec=ORACLE)]

    first = ScriptedModel({"oracle": [reply(1), reply(2), reply("old")]})
    copy = await begun(stored, main, first)
    size[0] = 1
    second = ScriptedModel({"oracle": [reply("new")]})
    result = await run_script(copy, main, second, take_up=True)
    assert result.value[1] == "new"
    assert reasons(copy) == ["replayed", "diverged"]


# -- groups that a kill cut off --------------------------------------------------------


@pytest.mark.case("A-154", "A-155")
async def test_a_group_that_a_kill_cut_off_has_its_end_in_the_journal(
    stored: Stage,
) -> None:
    copies: list[Stage] = []
    gate = Gate()

    async def main(flow: Flow) -> Any:
        async def inner() -> Any:
            calls = [partial(flow.agent, word, spec=DIGGER) for word in ("x", "y")]
            values = await flow.parallel(calls)
            while not of_kind(journal_of(stored), "group.ended"):
                await anyio.wait_all_tasks_blocked()
            copies.append(stored.crashed())
            gate.open()
            return values

        held = partial(flow.agent, "held", spec=SCOUT)
        return await flow.parallel([partial(flow.agent, "a", spec=ORACLE), inner, held])

    minds = {"oracle": [reply("a")], "digger": [reply("d")] * 2}
    first = ScriptedModel(minds | {"scout": [reply("late", hold=gate)]})
    await run_script(stored, main, first)
    (copy,) = copies
    begun = of_kind(journal_of(copy), "group.started")
    assert [one["size"] for one in begun] == [3, 2]
    assert begun[1]["within"] == {"id": begun[0]["group"], "index": 1}
    result = await run_script(
        copy, main, ScriptedModel({"scout": [reply("again")]}), take_up=True
    )
    assert result.value == ["a", ["d", "d"], "again"]
    ends = of_kind(journal_of(copy), "group.ended")
    whole, cut, *later = ends
    assert (whole["group"], whole["completed"]) == (begun[1]["group"], 2)
    assert (cut["group"], cut["cut"], cut["size"]) == (begun[0]["group"], True, 3)
    assert cut["calls"] == {"completed": 1, "failed": 1}
    assert [one["completed"] for one in later] == [2, 3]
    kinds = [kind for kind, _ in journal_of(copy)]
    before = kinds[: kinds.index("run.resumed")]
    assert before[-2:] == ["call.ended", "group.ended"]


@pytest.mark.case("A-172")
async def test_a_group_that_differed_and_was_cut_off_closes_what_follows_it(
    stored: Stage,
) -> None:
    """What followed it in the first process rests on what its members gave then."""
    copies: list[Stage] = []
    words = ["old"]

    def script(cut: Callable[[], Awaitable[None]]) -> Callable[[Flow], Awaitable[Any]]:
        async def main(flow: Flow) -> Any:
            async def member() -> Any:
                value = await flow.agent(f"{words[-1]} word", spec=SCOUT)
                await cut()
                return value

            async def same() -> Any:
                return await flow.agent("the same", spec=DIGGER)

            values = await flow.parallel([member, same])
            return [*values, await flow.agent("after", spec=ORACLE)]

        return main

    async def nothing() -> None: ...

    async def dies() -> None:
        copies.append(copy.crashed())

    minds = {"scout": [reply("s1")], "digger": [reply("d1")], "oracle": [reply("o1")]}
    copy = await begun(stored, script(nothing), ScriptedModel(minds))
    words.append("new")
    second = ScriptedModel({"scout": [reply("s2")], "oracle": [reply("o2")]})
    await run_script(copy, script(dies), second, take_up=True)
    (third,) = copies
    model = ScriptedModel({"oracle": [reply("o3")]})
    result = await run_script(third, script(nothing), model, take_up=True)
    assert result.value == ["s2", "d1", "o3"]
    assert reasons(third) == ["replayed", "replayed", "diverged"]
    # The next process reads that from the journal.
    model.assert_exhausted()
    again = await run_script(third, script(nothing), take_up=True)
    assert again.value == ["s2", "d1", "o3"]


async def test_a_failed_group_says_how_many_failed_and_why_the_first_did(
    stage: Stage,
) -> None:
    async def breaks() -> None:
        raise ValueError("no soup")

    async def is_silent() -> None:
        raise KeyError

    async def main(flow: Flow) -> Any:
        texts = []
        for members in ([breaks, is_silent, breaks], [is_silent, breaks]):
            with pytest.raises(GroupFailureError) as caught:
                await flow.parallel(members)
            texts.append(caught.value.message)
        return texts

    result = await run_script(stage, main)
    assert result.value == [
        "3 of 3 members of a group failed; the first: no soup",
        "2 of 2 members of a group failed; the first: KeyError",
    ]
