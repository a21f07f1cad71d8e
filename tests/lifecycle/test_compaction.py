"""Compaction on the running runtime: an agent goes on past the limit of its model.

Lives here: what `Policy.compact` is asked, what comes of each answer, and that nothing
else of the agent changes: its children, its inbox, its assignment, its returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

import ramet
from ramet import (
    AgentSpec,
    Compaction,
    ContextOverflowError,
    Limits,
    ModelError,
    Policy,
    Shortened,
    Supervisor,
    ToolMessage,
    Usage,
    UserMessage,
)
from ramet.lifecycle.readers import status_in
from ramet.mailbox.events import (
    Accepted,
    Compacted,
    Concluded,
    RequestFailed,
    Submitted,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.session import fold
from ramet.testing import Gate, ScriptedModel, Step, call, step
from tests.lifecycle.minds import reply, results_in
from tests.lifecycle.stage import (
    DIGGER,
    HANG_S,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    accepted_in,
    gone,
    left_with,
    of,
    resident,
    sources,
    start,
    texts,
)

pytestmark = pytest.mark.anyio

TOO_LONG = ContextOverflowError("more than 8000 tokens", Usage(1, 8001))


def overflow() -> Step:
    """A step for which the context was too long."""
    return step(error=TOO_LONG)


class Compactor:
    """A `Policy.compact` that gives fixed answers and remembers what it was asked."""

    def __init__(self, *answers: Any, hold: Gate | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[Compaction] = []
        self.hold = hold

    async def __call__(self, compaction: Compaction) -> Any:
        """Give the next answer."""
        self.asked.append(compaction)
        if self.hold is not None:
            await self.hold.passed()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def asked(sup: Supervisor, *, name: str = "lead") -> tuple[ramet.Agent, str]:
    """A root that was told something, at rest."""
    root = await sup.start_root(AgentSpec(name), interactive=True)
    message = await sup.tell(root, "work")
    await root.wait_idle()
    return root, message


@pytest.mark.case("A-183")
async def test_without_compact_an_overflow_has_its_own_code(stage: Stage) -> None:
    model = ScriptedModel({"lead": [overflow()], "oracle": [overflow()]})
    async with stage.open(model) as sup:
        root, message = await asked(sup)
        outcome = await sup.wait(message)
        assert (outcome.status, outcome.cause) == ("failed", "provider-error")
        assert outcome.detail is not None
        assert outcome.detail.startswith("context-overflow: ")
        assert of(stage.log(root), RequestFailed)[0].code == "context-overflow"
        called = await sup.call(root, ORACLE, "say")
        assert (called.status, called.cause) == ("failed", "provider-error")
        log = stage.log(called.session_id)
        assert not of(log, Submitted)
        assert accepted_in(log, "nudge") == []


@pytest.mark.case("R-236", "A-183", "R-212")
async def test_after_a_compaction_the_request_is_made_again_and_folded_from_it(
    stored: Stage,
) -> None:
    hold = Gate()
    compact = Compactor(Shortened("two tools ran", keep=2, usage=Usage(0, 70, 5)))
    model = ScriptedModel(
        {
            "lead": [
                step("I look", [call("nothing")]),
                step("again", [call("nothing")]),
                overflow(),
                step("done"),
                step("more"),
            ],
            "scout": [step("x", hold=hold)],
        }
    )
    async with stored.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.tell(root, "work")
        assert (await sup.wait(message)).status == "completed"
        (compaction,) = compact.asked
        third, fourth = model.requests_of("lead")[2:4]
        assert compaction.request == third
        assert compaction.model is model
        assert compaction.error == "ContextOverflowError: more than 8000 tokens"
        summary, prompt, answer, results = fourth.messages
        assert isinstance(summary, UserMessage)
        assert summary.source == "summary"
        assert summary.blocks[1:] == (
            "two tools ran",
            f"Your live children: {scout.id}.",
        )
        assert prompt == third.messages[0]
        assert (answer, results) == third.messages[-2:]
        log = stored.log(root)
        (event,) = of(log, Compacted)
        assert event.children == (scout.id,)
        assert len(of(log, Accepted)) == 1
        assert [len(of(log, kind)) for kind in (RequestFailed, TurnEnded)] == [1, 1]
        usage = await sup.usage(root.id)
        assert (usage.own.requests, usage.own.input_tokens) == (5, 8071)
        await sup.tell(root, "and now?")
        await root.wait_idle()
        later = model.requests_of("lead")[4]
        assert later.messages[:4] == fourth.messages
        hold.open()
        await gone(scout)
    model = ScriptedModel({"lead": [step("on")]})
    async with stored.open(model) as sup:
        root = await sup.resume(root.id)
        await sup.tell(root, "still there?")
        await root.wait_idle()
        (request,) = model.requests
        assert request.messages[: len(later.messages)] == later.messages


@pytest.mark.case("R-238")
@pytest.mark.parametrize("bad", [False, True])
async def test_a_notice_that_comes_while_compact_runs_is_in_the_next_request_once(
    stored: Stage, bad: bool
) -> None:
    hold, compacting = Gate(), Gate()
    compact = Compactor("so far", hold=compacting)
    finish = step(error=ModelError("no")) if bad else step("seen")
    model = ScriptedModel(
        {
            "lead": [step("", [call("nothing")]), overflow(), step("a"), step("b")],
            "scout": [step(calls=[call("report", output="R")], hold=hold), finish],
        }
    )
    stored.whole = False
    policy = Policy(compact=compact, notices="quiet" if bad else "auto")
    async with stored.open(model, policy=policy) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "work")
        await compacting.reached()
        hold.open()
        await gone(scout)
        assert (await sup.explain(root.id)).why.endswith("is being compacted")
        (notice,) = accepted_in(stored.log(root), "notice")
        compacting.open()
        await root.wait_idle()
        retried = model.requests_of("lead")[2]
        assert sources(retried) == ["summary", "tell", "report", "notice"]
        ids = [m.id for m in retried.messages if isinstance(m, UserMessage)]
        assert ids[-1] == notice.id
        for request in model.requests_of("lead")[2:]:
            shown = [m.id for m in request.messages if isinstance(m, UserMessage)]
            assert shown.count(notice.id) == 1
        assert len(model.requests_of("lead")) == 3
        status = await sup.message(notice.id)
        assert (status.state, status.turn) == ("claimed", 1)
        # It was live when the summary was asked for, and is not when it is written.
        assert of(stored.log(root), Compacted)[0].children == ()


@pytest.mark.case("R-238", "R-068")
async def test_what_enters_with_a_compaction_is_claimed_when_its_request_is_made(
    stage: Stage,
) -> None:
    compacting, asking = Gate(), Gate()
    compact = Compactor("so far", hold=compacting)
    filler = [step("", [call("nothing")])] * 3
    model = ScriptedModel(
        {
            "lead": [*filler, overflow(), step("a", hold=asking)],
            "scout": [step("x")],
        }
    )
    stage.whole = False
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "work")
        await compacting.reached()
        scout = await start(sup, root, SCOUT)
        message = await sup.report_from(scout, "R")
        assert (await sup.message(message)).state == "stored"
        between: list[str] = []

        class Between:
            """Asks in the instant in which the compaction has become durable."""

            def on_event(self, session_id: str, seq: int, event: Any) -> None:
                if isinstance(event, Compacted):
                    asked = root._activation.asked
                    log = stage.log(root)
                    found = status_in(log, message, root.id, asked)
                    between.append(found.state)

        sup.observe(Between())
        compacting.open()
        await asking.reached()
        assert between == ["stored"]
        status = await sup.message(message)
        assert (status.state, status.turn) == ("claimed", 1)
        asking.open()
        await root.wait_idle()


def _told(stage: Stage, agent: ramet.Agent) -> list[Any]:
    """What a log says, without times, ids of messages and what compaction adds."""
    log = stage.log(agent)
    names = {e.id: e.content for e in of(log, Accepted)}
    found: list[Any] = []
    for event in log:
        if isinstance(event, Accepted):
            found.append((event.source, event.content[0][:6], event.given))
        elif isinstance(event, TurnOpened):
            found.append([names[one][0][:6] for one in event.claimed])
        elif isinstance(event, (TurnEnded, Concluded)):
            found.append((event.status, event.cause))
    return found


@pytest.mark.case("R-237")
async def test_a_compaction_leaves_children_messages_and_assignment_as_they_were(
    stored: Stage,
) -> None:
    """The same story with and without a compaction: only the transcript differs."""
    stories, inboxes = [], []
    for long in (False, True):
        hold, compacting = Gate(), Gate()
        compact = Compactor("so far", hold=compacting)
        middle = [overflow()] if long else []
        model = ScriptedModel(
            {
                "lead": [
                    step("", [call("nothing")]),
                    *middle,
                    step("", [call("nothing")], hold=compacting),
                    *[step("t")] * 5,
                ],
                "scout": [step("x", hold=hold), *[step("y")] * 2],
                "digger": [step("x", hold=hold)],
            }
        )
        stored.whole = False
        policy = Policy(compact=compact)
        async with stored.open(model, policy=policy) as sup:
            root = await sup.start_root(LEAD, interactive=True)
            scout = await start(sup, root, SCOUT)
            digger = await start(sup, root, DIGGER)
            message = await sup.tell(root, "first")
            await compacting.reached()
            await sup.report_from(scout, "loud", delivery="wakeup")
            await sup.report_from(scout, "behind")
            await sup.report_from(digger, "staged")
            await sup.tell(root, "second")
            activation = root._activation
            inbox = activation.session.inbox
            inboxes.append([m.content for _, m in (*inbox.waiting, *inbox.staged)])
            assert await sup.outcome(message) is None
            assert root.statistics()["children"] == 2
            compacting.open()
            assert (await sup.wait(message)).status == "completed"
            await root.wait_idle()
            later = await sup.followup(root, scout.id, "more")
            hold.open()
            assert (await sup.wait(later)).status == "completed"
            await gone(scout)
            await gone(digger)
            await root.wait_idle()
            assert (len(compact.asked) == 1) is long
            stories.append(_told(stored, root))
            for name in ("loud", "behind", "staged", "first", "second"):
                last = texts(model.requests_of("lead")[-1])
                assert last.count(name) == 1
    plain, compacted = stories
    assert inboxes[0] == inboxes[1]
    head = len(plain)
    assert compacted[:head] == plain
    assert len(plain) > 9


@pytest.mark.case("A-183")
async def test_contract_ledger_and_nudges_go_on_as_they_were(stored: Stage) -> None:
    compact = Compactor("so far", "so far again")
    contract = ramet.Choice(("yes", "no"))
    model = ScriptedModel(
        {
            "oracle": [
                step("", [reply("perhaps")]),
                overflow(),
                step("", [reply("yes")]),
            ],
            "scout": [step("hm"), overflow(), step("hm"), step("", [reply(1)])],
        }
    )
    policy = Policy(compact=compact, nudges=2)
    async with stored.open(model, policy=policy) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, ORACLE, "yes or no?", contract=contract)
        assert outcome.unwrap() == "yes"
        assert outcome.acceptance is not None
        assert outcome.acceptance.attempts == 2
        retried = model.requests_of("oracle")[2]
        assert [tool.name for tool in retried.tools] == ["reply"]
        assert sources(retried) == ["summary", "prompt"]
        assert texts(retried)[-1] == "yes or no?"
        assert retried.instructions == model.requests_of("oracle")[0].instructions
        value = await sup.call(root, SCOUT, "count")
        assert value.unwrap() == 1
        assert len(accepted_in(stored.log(value.session_id), "nudge")) == 2
        assert sources(model.requests_of("scout")[2]) == ["summary", "prompt", "nudge"]


@pytest.mark.case("A-183")
async def test_it_is_asked_once_for_a_request_and_again_after_an_answer(
    stage: Stage,
) -> None:
    compact = Compactor("one", "two", "three")
    on = step("", [call("nothing")])
    model = ScriptedModel(
        {"lead": [on, overflow(), on, overflow(), on, overflow(), overflow()]}
    )
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root, message = await asked(sup)
        outcome = await sup.wait(message)
        assert (outcome.status, outcome.cause) == ("failed", "provider-error")
        assert outcome.detail is not None
        assert outcome.detail.startswith("context-overflow: ")
        assert len(compact.asked) == 3
        assert [e.summary for e in of(stage.log(root), Compacted)] == [
            "one",
            "two",
            "three",
        ]


def _exit() -> SystemExit:
    return SystemExit(3)


ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: None, "compact gave nothing"),
    "a number": (lambda: 7, "must give a Shortened, a text or None, not int"),
    "a blank text": (lambda: " ", "not blank"),
    "too much kept": (lambda: Shortened("x", keep=99), "drops nothing"),
    "an error": (lambda: ValueError("no idea"), "ValueError: no idea"),
    "an overflow of its own": (lambda: TOO_LONG, "ContextOverflowError: more than"),
    "an exit": (_exit, "SystemExit: 3"),
}


@pytest.mark.case("A-183", "A-048")
@pytest.mark.parametrize("name", ODD)
async def test_an_answer_that_helps_nothing_ends_the_turn_and_no_more(
    stage: Stage, name: str
) -> None:
    answer, words = ODD[name]
    compact = Compactor(answer())
    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow(), step("later")]})
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root, message = await asked(sup)
        outcome = await sup.wait(message)
        assert (outcome.status, outcome.cause) == ("failed", "provider-error")
        assert outcome.detail is not None
        assert outcome.detail.startswith("context-overflow: ")
        assert words in outcome.detail
        assert not of(stage.log(root), Compacted)
        await sup.wait(await sup.tell(root, "and now?"))
        assert sources(model.requests[-1]) == ["tell", "tell"]


async def test_a_plain_function_is_named_as_what_is_wrong(stage: Stage) -> None:
    def plain(compaction: Compaction) -> str:
        return "x"

    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow()]})
    policy = Policy(compact=plain)  # type: ignore[arg-type]
    async with stage.open(model, policy=policy) as sup:
        _, message = await asked(sup)
        detail = (await sup.wait(message)).detail
        assert detail is not None
        assert "must be an async function, and gave a str" in detail


async def test_another_failure_of_a_model_is_not_compacted(stage: Stage) -> None:
    compact = Compactor()
    model = ScriptedModel({"lead": [step(error=ModelError("no net"))]})
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        _, message = await asked(sup)
        assert (await sup.wait(message)).cause == "provider-error"
        assert compact.asked == []


@pytest.mark.case("R-225")
async def test_the_compact_of_a_spec_beats_that_of_the_supervisor(stage: Stage) -> None:
    general, own = Compactor(), Compactor("so far")
    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow(), step("done")]})
    spec = AgentSpec("lead", policy={"compact": own})
    async with stage.open(model, specs=[spec], policy=Policy(compact=general)) as sup:
        root = await sup.start_root(spec, interactive=True)
        assert (await sup.wait(await sup.tell(root, "work"))).status == "completed"
        assert (len(own.asked), len(general.asked)) == (1, 0)


async def test_a_spent_budget_asks_no_compaction(stage: Stage) -> None:
    compact = Compactor()
    on = step("", [call("nothing")])
    model = ScriptedModel({"oracle": [on, overflow()]})
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, ORACLE, "say", limits=Limits(requests=2))
        assert (outcome.status, outcome.axis) == ("stopped", "requests")
        assert compact.asked == []


async def test_what_a_compaction_spent_counts_against_the_limit(stage: Stage) -> None:
    compact = Compactor(Shortened("so far", usage=Usage(2)))
    on = step("", [call("nothing")])
    model = ScriptedModel({"oracle": [on, overflow()]})
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, ORACLE, "say", limits=Limits(requests=4))
        assert (outcome.status, outcome.axis) == ("stopped", "requests")
        assert outcome.usage.own.requests == 4


@pytest.mark.case("R-138")
@pytest.mark.parametrize("how", ["interrupt", "cancel", "drain"])
async def test_what_stops_a_turn_stops_its_compaction(stored: Stage, how: str) -> None:
    compacting = Gate()
    compact = Compactor("so far", hold=compacting)
    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow(), step("later")]})
    stored.whole = False
    async with stored.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        message = await sup.tell(root, "work")
        await compacting.reached()
        if how == "interrupt":
            sup.interrupt(root.id)
        elif how == "cancel":
            await sup.cancel(root)
        else:
            await sup.drain()
        outcome = await sup.wait(message)
        cause = {"interrupt": "interrupted", "cancel": "cancelled"}.get(how, how)
        assert (outcome.status, outcome.cause) == ("cancelled", cause)
        assert not of(stored.log(root), Compacted)
        if how == "interrupt":
            await sup.wait(await sup.tell(root, "and now?"))
            assert texts(model.requests[-1]) == ["work", "and now?"]


async def test_a_limit_of_time_stops_a_compaction(stage: Stage) -> None:
    compacting = Gate()
    compact = Compactor("so far", hold=compacting)
    on = step("", [call("nothing")])
    model = ScriptedModel({"oracle": [on, overflow()], "lead": [step("n")]})
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "say", limits=Limits(call_s=HANG_S))
        await compacting.reached()
        scope = resident(sup, begun.child_id)._activation.scope
        scope.deadline = anyio.current_time()  # its time is over now
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.axis) == ("stopped", "call_s")
        await root.wait_idle()


@pytest.mark.case("R-155")
async def test_a_compact_that_refuses_cancellation_is_named_and_its_answer_dropped(
    stage: Stage,
) -> None:
    inside = Gate()

    async def stubborn(compaction: Compaction) -> str:
        with anyio.CancelScope(shield=True):
            await inside.passed()
        return "late"

    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow()]})
    async with stage.open(model, policy=Policy(compact=stubborn)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await sup.tell(root, "work")
        await inside.reached()
        with left_with(ramet.TeardownError) as caught:
            await sup.cancel(root, grace_s=0)
        assert "the policy's compact of agent" in str(caught[0].exceptions[0])
        inside.open()
    assert not of(stage.log(root), Compacted)


async def test_an_interrupt_while_a_stubborn_compact_runs_wins(stage: Stage) -> None:
    inside = Gate()

    async def stubborn(compaction: Compaction) -> str:
        with anyio.CancelScope(shield=True):
            await inside.passed()
        return "late"

    on = step("", [call("nothing")])
    model = ScriptedModel({"lead": [on, overflow()]})
    async with stage.open(model, policy=Policy(compact=stubborn)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        message = await sup.tell(root, "work")
        await inside.reached()
        sup.interrupt(root.id)
        inside.open()
        assert (await sup.wait(message)).cause == "interrupted"
        assert not of(stage.log(root), Compacted)


@pytest.mark.case("R-175", "R-236")
@pytest.mark.parametrize("where", ["while it runs", "after it"])
async def test_a_kill_around_a_compaction_loses_nothing(
    stored: Stage, where: str
) -> None:
    compacting, asking, hold = Gate(), Gate(), Gate()
    if where == "after it":
        compacting.open()
    compact = Compactor("so far", hold=compacting)
    on = step("", [call("nothing")])
    model = ScriptedModel(
        {
            "lead": [on, overflow(), step("", [], hold=asking)],
            "scout": [step("x", hold=hold)],
        }
    )
    stored.whole = False
    async with stored.open(model, policy=Policy(compact=compact)) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        message = await sup.tell(root, "work")
        await (compacting if where == "while it runs" else asking).reached()
        report = await sup.report_from(scout, "R")
        waiting = await sup.tell(root, "second")
        copy = stored.crashed()
    model = ScriptedModel({"lead": [step("on"), step("n"), step("n")]})
    async with copy.open(model) as sup:
        root = await sup.resume(root.id)
        assert (await sup.wait(message)).cause == "crashed"
        assert (await sup.wait(waiting)).status == "completed"
        await root.wait_idle()
        events = copy.log(root)
        assert len(of(events, Compacted)) == (where == "after it")
        request = model.requests[0]
        shown = [m.id for m in request.messages if isinstance(m, UserMessage)]
        assert shown.count(report) == 1
        assert ("summary" in sources(request)) is (where == "after it")
        assert texts(request).count("work") == texts(request).count("second") == 1


@pytest.mark.case("R-236")
async def test_an_agent_goes_on_for_as_long_as_its_context_can_be_shortened(
    stored: Stage,
) -> None:
    """A model of small context, a long task, and a function that keeps the end."""
    most = 12

    async def mind(request: ramet.ModelRequest) -> ramet.ModelResponse:
        if len(request.messages) > most:
            raise ContextOverflowError(f"{len(request.messages)} messages")
        done = 0
        for entry in request.messages:
            if isinstance(entry, UserMessage) and entry.source == "summary":
                done = int(entry.blocks[1])
            done += isinstance(entry, ToolMessage)
        if done == 60:
            return ramet.ModelResponse(calls=(reply(done),))
        return ramet.ModelResponse(calls=(call("work"),))

    async def compact(compaction: Compaction) -> Shortened:
        done = 0
        kept = compaction.request.messages[:-2]
        for entry in kept:
            if isinstance(entry, UserMessage) and entry.source == "summary":
                done = int(entry.blocks[1])
            done += isinstance(entry, ToolMessage)
        return Shortened(str(done), keep=2)

    ran: list[int] = []

    def work() -> str:
        """Do a piece of the work."""
        ran.append(1)
        return "x"

    spec = AgentSpec("oracle", tools=[work])
    policy = Policy(compact=compact)
    async with stored.open(ramet.FunctionModel(mind), policy=policy) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(root, spec, "do sixty")
        assert outcome.unwrap() == len(ran) == 60
        events = stored.log(outcome.session_id)
        assert len(of(events, Compacted)) > 5
        assert len(fold(events).transcript) <= most + 2
        assert sup.agent(outcome.session_id) is None
        assert resident(sup, root.id).statistics()["children"] == 0


async def test_results_stay_whole_behind_a_summary(stage: Stage) -> None:
    compact = Compactor(Shortened("so far", keep=1))
    model = ScriptedModel(
        {
            "lead": [
                step("", [call("other")]),
                step("", [call("nothing"), call("no")]),
                overflow(),
                step("done"),
            ]
        }
    )
    async with stage.open(model, policy=Policy(compact=compact)) as sup:
        root, _ = await asked(sup)
        retried = model.requests_of("lead")[3]
        assert [result.error for result in results_in(retried)] == ["UNKNOWN_TOOL"] * 2
        assert sources(retried) == ["summary", "tell"]
        assert root.state == "parked"
