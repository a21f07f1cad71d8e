"""Calling: second attempts, and what the journal says of a call."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from ramet import (
    AgentFailedError,
    AgentSpec,
    AgentStoppedError,
    FunctionModel,
    Limits,
    MemoryStore,
    ModelError,
    ModelRequest,
    ModelResponse,
    PersistenceUnavailableError,
    RequestTimeoutError,
    SendUnknownError,
    Usage,
)
from ramet.lifecycle.flow import Flow
from ramet.mailbox.canonical import digest_text
from ramet.mailbox.events import Accepted, Concluded, Journaled
from ramet.mailbox.store import Batch
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.scripts import (
    begun,
    journal_of,
    of_kind,
    run_of,
    run_script,
)
from tests.lifecycle.stage import ORACLE, SCOUT, Stage, of
from tests.schedules import Backend, run_seeded

pytestmark = pytest.mark.anyio

LOST = step(error=RequestTimeoutError("lost"))


def reply(value: Any, **more: Any) -> Any:
    return step(calls=[call("reply", value=value)], **more)


async def dig(where: str) -> str:
    """Dig a hole."""
    return f"dug {where}"


# -- second attempts -------------------------------------------------------------------


@pytest.mark.case("A-138")
async def test_one_attempt_is_one_agent(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        with pytest.raises(AgentFailedError) as caught:
            await flow.agent("x", spec=ORACLE)
        assert caught.value.code == "request-timeout"

    assert (await run_script(stage, main, ScriptedModel({"oracle": [LOST]}))).error is (
        None
    )
    assert len(of_kind(journal_of(stage), "call.started")) == 1


@pytest.mark.case("A-139", "A-140", "A-157")
async def test_a_lost_request_gets_a_fresh_agent_under_one_logical_call(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=ORACLE, attempts=3)

    model = ScriptedModel({"oracle": [LOST, LOST, reply(1)]})
    copy = await begun(stored, main, model)
    journal = journal_of(copy)
    (queued,) = of_kind(journal, "call.queued")
    started = of_kind(journal, "call.started")
    (ended,) = of_kind(journal, "call.ended")
    assert [one["attempt"] for one in started] == [1, 2, 3]
    assert {one["call"] for one in (queued, *started, ended)} == {queued["call"]}
    assert len({one["session"] for one in started}) == 3
    assert (ended["attempt"], ended["session"]) == (3, started[-1]["session"])
    retries = of_kind(journal, "log retry")
    assert [one["attempt"] for one in retries] == [2, 3]
    assert (await run_script(copy, main, take_up=True)).value == 1


@pytest.mark.case("A-139")
@pytest.mark.parametrize(
    "steps",
    [
        [step(calls=[call("dig", where="here")]), LOST],
        [step("no reply"), LOST],
        [step(error=ModelError("down"))],
        [step("a"), step("b"), step("c"), step("d")],
    ],
)
async def test_nothing_is_tried_again_after_a_tool_a_return_or_another_cause(
    stage: Stage, steps: list[Any]
) -> None:
    async def main(flow: Flow) -> Any:
        with pytest.raises(AgentFailedError):
            await flow.agent("x", spec=ORACLE, tools=[dig], attempts=2)

    result = await run_script(stage, main, ScriptedModel({"oracle": steps}))
    assert result.error is None
    assert len(of_kind(journal_of(stage), "call.started")) == 1


@pytest.mark.case("A-141")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("where", ["call", "spec"])
def test_the_second_attempt_has_the_time_that_the_first_left(
    stage: Stage, backend: Backend, where: str
) -> None:
    limits = Limits(call_s=1.0)
    spec = AgentSpec("oracle", limits=limits) if where == "spec" else ORACLE
    more: dict[str, Any] = {"limits": limits} if where == "call" else {}
    taken: list[float] = []

    async def mind(request: ModelRequest) -> ModelResponse:
        began = anyio.current_time()
        try:
            await anyio.sleep(9.0 if taken else 0.4)
        finally:
            taken.append(anyio.current_time() - began)
        raise RequestTimeoutError("lost")

    async def main(flow: Flow) -> Any:
        with pytest.raises(AgentStoppedError) as caught:
            await flow.agent("x", spec=spec, attempts=2, **more)
        return caught.value.code

    async def run() -> Any:
        return (await run_script(stage, main, FunctionModel(mind))).value

    assert run_seeded(run, backend=backend, seed=1) == "call-timeout"
    assert taken == [pytest.approx(0.4), pytest.approx(0.6)]


# -- the journal -----------------------------------------------------------------------


@pytest.mark.case("A-154", "A-155")
async def test_each_call_is_queued_started_and_ended_with_all_that_is_known(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        flow.phase("work")
        await flow.agent("x", spec=ORACLE, label="one", title="One")
        with pytest.raises(AgentFailedError):
            await flow.agent("x", spec=SCOUT, text=True)

    usage = Usage(1, 10, 2)
    model = ScriptedModel({"oracle": [reply(1, usage=usage)], "scout": [step(" ")]})
    await run_script(stored, main, model)
    journal = journal_of(stored)
    calls = [kind for kind, _ in journal if kind.startswith("call.")]
    assert calls == ["call.queued", "call.started", "call.ended"] * 2
    good, bad = of_kind(journal, "call.ended")
    assert good["usage"] == {
        "requests": 1,
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_read_tokens": "not recorded",
        "cache_creation_tokens": "not recorded",
        "tool_calls": 0,
    }
    assert bad["usage"]["input_tokens"] == "not recorded"
    names = ("status", "cause", "label", "phase", "group", "attempt", "replayed")
    assert [good[name] for name in names] == [
        *("completed", None, "one", "work", None, 1, False),
    ]
    assert [bad[name] for name in names] == [
        *("failed", "empty-answer", None, "work", None, 1, False),
    ]
    assert bad["text"] == "the final text is blank"
    assert "acceptance" not in bad
    assert (good["acceptance"]["source"], good["acceptance"]["attempts"]) == (
        "reply",
        1,
    )
    assert all(type(one["duration_ms"]) is int for one in (good, bad))
    assert all(one["available"] for one in (good, bad))


@pytest.mark.case("A-156", "A-159")
async def test_a_receipt_is_stored_before_the_end_that_names_it_and_does_not_copy_it(
    stored: Stage,
) -> None:
    secret = "s3cr3t" * 1000

    async def main(flow: Flow) -> Any:
        return len(await flow.agent(secret, spec=ORACLE))

    value = secret[::-1]
    result = await run_script(stored, main, ScriptedModel({"oracle": [reply(value)]}))
    (ended,) = of_kind(journal_of(stored), "call.ended")
    (concluded,) = of(stored.log(ended["session"]), Concluded)
    assert concluded.receipt is not None
    assert ended["acceptance"]["receipt"] == digest_text(concluded.receipt)
    assert ended["acceptance"]["value"] == digest_text(json.dumps(value))
    kinds = [
        "concluded" if isinstance(entry.event, Concluded) else entry.event.kind
        for entry in stored.entries
        if isinstance(entry.event, (Concluded, Journaled))
    ]
    assert kinds.index("concluded") < kinds.index("call.ended")
    journal = [e.data for e in of(stored.log(result.run), Journaled)]
    assert not any("s3cr3t" in data or value[:20] in data for data in journal)
    assert max(map(len, journal)) < 2000


@pytest.mark.case("A-157", "A-094", "A-095")
async def test_each_decision_of_a_call_is_one_event_of_fixed_shape(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        pair: dict[str, Any] = {
            "choice": ["yes", "no"],
            "choice_fallback": "no",
            "spec": ORACLE,
        }
        one = await flow.agent("x", **pair, limits=Limits(requests=5))
        two = await flow.agent("x", **pair)
        three = await flow.agent("x", spec=ORACLE, schema={"type": "integer"})
        with pytest.raises(AgentFailedError):
            await flow.agent("x", **pair)
        return [one, two, three]

    model = ScriptedModel(
        {
            "oracle": [
                reply("maybe"),
                reply("yes"),
                *(reply("maybe"), reply("perhaps")),
                *(reply("three"), reply(3)),
                step(error=ModelError("down")),
            ]
        }
    )
    result = await run_script(stage, main, model)
    assert result.value == ["yes", "no", 3]
    journal = journal_of(stage)
    calls = [one["call"] for one in of_kind(journal, "call.queued")]
    contracts = of_kind(journal, "log contract")
    assert [one["kind"] for one in contracts] == [
        "choice",
        "choice",
        "schema",
        "choice",
    ]
    corrections = of_kind(journal, "log correction")
    assert [one["call"] for one in corrections] == calls[:3]
    assert all(one["errors"] for one in corrections)
    choices = [(one["call"], one["member"]) for one in of_kind(journal, "log choice")]
    assert choices == [(calls[0], 0), (calls[1], 1)]
    (fallback,) = of_kind(journal, "log fallback")
    assert fallback["call"] == calls[1]
    assert ["maybe" in fallback["errors"][0][0], "perhaps" in fallback["errors"][1][0]]
    (applied,) = of_kind(journal, "log budget-applied")
    assert (applied["call"], applied["limits"]["requests"]) == (calls[0], 5)
    shapes = [sorted(one) for one in contracts]
    assert shapes == [["call", "code", "digest", "kind", "text"]] * 4


@pytest.mark.case("A-157")
async def test_a_stop_names_its_axis_in_an_event(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        await flow.agent("x", spec=ORACLE, limits=Limits(requests=1))

    result = await run_script(stage, main, ScriptedModel({"oracle": [step("no")]}))
    assert result.status == "stopped"
    (stop,) = of_kind(journal_of(stage), "log budget-stopped")
    assert stop["axis"] == "requests"


@pytest.mark.case("A-154")
async def test_a_call_whose_caller_is_cancelled_has_its_end_too(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(flow.agent, "x")
            while not of_kind(journal_of(stage), "call.started"):
                await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    model = ScriptedModel({"agent": [step("x", hold=Gate())]})
    stage.whole = False
    assert (await run_script(stage, main, model)).error is None
    (ended,) = of_kind(journal_of(stage), "call.ended")
    assert (ended["status"], ended["cause"]) == ("cancelled", "cancelled")


async def test_a_call_that_could_not_be_started_has_its_end_too(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        await flow.agent("x", model="no such model")

    result = await run_script(stage, main)
    assert result.status == "failed"
    (ended,) = of_kind(journal_of(stage), "call.ended")
    assert (ended["status"], ended["session"], ended["attempt"]) == ("failed", None, 0)


class Failing(MemoryStore):
    """A store that stores no end of a call, or none of a run."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def append(self, batch: Batch) -> None:
        """Store a batch, unless it holds such an end."""
        for entry in batch.entries:
            if isinstance(entry.event, Journaled) and entry.event.kind == self._kind:
                raise OSError("no space")
        super().append(batch)


@pytest.mark.case("A-160")
@pytest.mark.parametrize("kind", ["call.ended", "run.ended"])
async def test_when_the_journal_cannot_be_written_the_original_error_comes_out(
    stage: Stage, kind: str
) -> None:
    stage.use(Failing(kind))
    caught: list[BaseException] = []

    async def main(flow: Flow) -> Any:
        try:
            await flow.agent("x", spec=ORACLE, text=True)
        except AgentFailedError as error:
            caught.append(error)
            raise

    model = ScriptedModel({"oracle": [step(" ")]})
    with pytest.raises(PersistenceUnavailableError):
        await run_script(stage, main, model)
    (error,) = caught
    assert isinstance(error, AgentFailedError)
    assert error.code == "empty-answer"
    assert isinstance(error.__context__, SendUnknownError)


async def test_an_accepted_answer_whose_end_is_not_stored_is_not_announced(
    stage: Stage,
) -> None:
    stage.use(Failing("call.ended"))
    caught: list[BaseException] = []

    async def main(flow: Flow) -> Any:
        with pytest.raises(SendUnknownError) as info:
            await flow.agent("x", spec=ORACLE)
        caught.append(info.value)

    model = ScriptedModel({"oracle": [reply(1)]})
    with pytest.raises(SendUnknownError):
        await run_script(stage, main, model)
    assert len(caught) == 1


@pytest.mark.case("A-123")
async def test_a_receipt_holds_the_identities_of_the_script(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        return await flow.agent("x", spec=ORACLE, label="one")

    await run_script(stage, main, ScriptedModel({"oracle": [reply(1)]}), data=[7])
    (ended,) = of_kind(journal_of(stage), "call.ended")
    (concluded,) = of(stage.log(ended["session"]), Concluded)
    script = json.loads(concluded.receipt or "")["script"]
    assert script["run"] == run_of(stage).id
    assert script["place"] == ["agent", "", "one", 1]
    assert (script["source"], script["input"]) == ("digest", digest_text("[7]"))
    accepted = of(stage.log(ended["session"]), Accepted)[0]
    assert accepted.key is not None
    assert script["request"].startswith(accepted.key.rpartition(".")[2])
