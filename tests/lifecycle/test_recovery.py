"""What a kill leaves, and what the next open makes of it.

Lives here: the store is copied at a chosen acknowledgement, as a kill at that instant
would leave it, and the copy is opened.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, MemoryStore, Policy, ToolMessage
from ramet.lifecycle.laws import check_laws, logs_of
from ramet.mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Concluded,
    Created,
    Ended,
    Promoted,
    Told,
    TurnEnded,
    TurnOpened,
)
from ramet.mailbox.session import fold
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
    texts,
)
from tests.lifecycle.stores import CountingStore

pytestmark = pytest.mark.anyio


@pytest.mark.case("R-175", "R-179", "R-177", "R-158")
async def test_a_turn_that_a_kill_cut_is_closed_and_never_repeated(
    stored: Stage,
) -> None:
    inside = Gate()

    async def dig() -> str:
        """Dig."""
        await inside.passed()
        return "dug"

    spec = AgentSpec("scout", tools=[dig])
    model = ScriptedModel({"scout": [step(calls=[call("dig"), call("nothing")])]})
    stored.whole = False
    async with stored.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        started = await sup.start_child(root, spec, "A")
        await inside.reached()
        waiting = [
            await sup.followup(root, started.child_id, text) for text in ("B", "C")
        ]
        copy = stored.crashed()
    model = ScriptedModel(
        {"scout": [step("b"), step("c"), step("d")], "lead": [step("n")] * 3}
    )
    async with copy.open(model, specs=[LEAD, spec]) as sup:
        root = await sup.resume(root.id)
        await root.wait_idle()
        assert sup.agent(started.child_id) is None
        outcome = await sup.wait(started.message_id)
        assert (outcome.status, outcome.cause) == ("failed", "crashed")
        notices = accepted_in(copy.log(root), "notice")
        assert [notice.about for notice in notices] == [(started.message_id,)]
        assert "still wait: 2" in notices[0].content[0]
        assert notices[0].given == "wakeup"
        assert await sup.outcome(waiting[0]) is None
        new = await sup.followup(root, started.child_id, "D")
        assert (await sup.wait(new)).status == "completed"
        log = copy.log(started.child_id)
        assert of(log, TurnEnded)[0].cause == "crashed"
        opened = [e.claimed for e in of(log, TurnOpened)][1:]
        assert opened == [(message,) for message in (*waiting, new)]
        request = model.requests_of("scout")[0]
        assert texts(request) == ["A", "B"]
        landed = request.messages[2]
        assert isinstance(landed, ToolMessage)
        assert [result.error for result in landed.results] == [
            "TOOL_OUTCOME_UNKNOWN",
            "UNKNOWN_TOOL",
        ]
        assert of(log, Ended)[0].reason == "crashed"


@pytest.mark.case("R-176", "R-062", "R-223")
@pytest.mark.parametrize("accepted", [True, False])
async def test_a_cut_report_says_what_its_recipient_knows(
    stored: Stage, accepted: bool
) -> None:
    before, after = Gate(), Gate()

    async def hook_before(name: str, arguments: str, call: Any) -> None:
        if not accepted:
            await before.passed()

    async def hook_after(name: str, result: Any, call: Any) -> None:
        await after.passed()

    def contribute(setup: ramet.Setup) -> None:
        setup.before_call(hook_before)
        setup.after_call(hook_after)

    model = ScriptedModel({"scout": [step(calls=[call("report", output="once")])]})
    stored.whole = False
    async with stored.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await (after if accepted else before).reached()
        copy = stored.crashed()
    model = ScriptedModel({"scout": [step("again")], "lead": [step("n")] * 4})
    async with copy.open(model) as sup:
        root = await sup.resume(root.id)
        await sup.wait(await sup.followup(root, scout.id, "go on"))
        reports = accepted_in(copy.log(root), "report")
        assert len(reports) == accepted
        landed = model.requests_of("scout")[0].messages[2]
        assert isinstance(landed, ToolMessage)
        result = landed.results[0]
        if accepted:
            assert result.error is None
            assert reports[0].id in result.content
        else:
            assert result.error == "TOOL_OUTCOME_UNKNOWN"
            assert "not delivered" in result.content


@pytest.mark.case("R-176", "R-077", "R-075")
async def test_a_cut_send_message_says_what_its_recipient_knows(
    stored: Stage,
) -> None:
    after, first, hold = Gate(), Gate(), Gate()

    async def hook_after(name: str, result: Any, call: Any) -> None:
        await after.passed()

    async def mind(request: ramet.ModelRequest) -> Any:
        if request.name == "scout":
            await hold.passed()
            return "x"
        return ramet.ModelResponse(
            calls=(call("send_message", agent_id=scouts[0], message="from a tool"),),
            stop="tool_calls",
        )

    scouts: list[str] = []
    stored.whole = False
    async with stored.open(ramet.FunctionModel(mind)) as sup:
        sup.register_setup(ramet.control_setup())
        sup.register_setup(lambda setup: setup.after_call(hook_after))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        scouts.append(scout.id)
        await sup.tell(root, "send it")
        await after.reached()
        copy = stored.crashed()
    first.open()
    model = ScriptedModel({"lead": [step("read")] * 3})
    async with copy.open(model) as sup:
        root = await sup.resume(root.id)
        await root.wait_idle()
        sent = accepted_in(copy.log(scout), "followup")
        assert [e.content for e in sent] == [("from a tool",)]
        ended = of(copy.log(root), CallEnded)
        assert ended[0].error is None
        assert sent[0].id in ended[0].content


@pytest.mark.case("R-178", "R-055", "R-170")
async def test_what_was_staged_at_a_kill_has_entered_before_the_next_request(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {name: [step("x", hold=hold)] for name in ("lead", "scout", "digger")}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, root, DIGGER)
        await sup.report_from(digger, "d0")
        await sup.tell(root, "open")
        await hold.reached(3)
        for agent, text, delivery in (
            (scout, "s1", "quiet"),
            (digger, "d1", "wakeup"),
            (scout, "s2", "wakeup"),
            (digger, "d2", "quiet"),
            (scout, "s3", "quiet"),
        ):
            await sup.report_from(agent, text, delivery=delivery)  # type: ignore[arg-type]
        copy = stored.crashed()
    model = ScriptedModel({"lead": [step("n")] * 4})
    async with copy.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        shown = [
            text for text in texts(model.requests[-1]) if not text.startswith("Back")
        ]
        assert [t for t in shown if t[0] == "s"] == ["s1", "s2", "s3"]
        assert [t for t in shown if t[0] == "d"] == ["d0", "d1", "d2"]
        assert texts(model.requests[0])[:4] == ["d0", "open", "s1", "d1"]


@pytest.mark.case("R-172", "R-173", "R-232", "R-184", "R-171")
async def test_a_kill_after_any_commit_leaves_whole_spans_and_repeats_send_once(
    tmp_path: Any,
) -> None:
    """Every prefix of the commits is opened, and the same sends are made again."""
    store = CountingStore()
    snapshots: list[MemoryStore] = []
    append = store.append

    def recording(batch: Any) -> None:
        append(batch)
        snapshots.append(store.snapshot())

    store.append = recording  # type: ignore[method-assign]
    stage = Stage("memory", tmp_path)
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * 9,
            "scout": [step(calls=[call("report", output="r")]), step("x", hold=hold)],
            "oracle": [step(calls=[call("reply", value=1)])],
        }
    )

    async def script(sup: ramet.Supervisor, root: ramet.Agent) -> None:
        started = await sup.start_child(root, SCOUT, "go", key="start")
        begun = await sup.start_call(root, ORACLE, "ask", key="call")
        await sup.wait(begun.message_id)
        scout = sup.agent(started.child_id)
        if scout is not None:
            await sup.report_from(scout, "from code", key="report")
        await sup.followup(root, started.child_id, "more", key="more")
        hold.open()
        await sup.wait(started.message_id)
        await root.wait_idle()

    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        await script(sup, root)
    assert len(snapshots) > 10
    for number, snapshot in enumerate(snapshots):
        for events in logs_of(snapshot.reader()).values():
            for prefix in range(1, len(events) + 1):
                fold(events[:prefix])
        folder = tmp_path / f"prefix{number}"
        folder.mkdir()
        copy = Stage("memory", folder)
        copy.use(snapshot)
        copy.whole = False
        hold.open()
        again = ScriptedModel(
            {
                "lead": [step("n")] * 9,
                "scout": [step("x")] * 9,
                "oracle": [step(calls=[call("reply", value=1)])] * 2,
            }
        )
        async with copy.open(again) as sup:
            resumed = await sup.resume(root.id)
            await script(sup, resumed)
            children = await sup.children(root.id)
            kinds = [line.kind for line in children]
            assert kinds.count("continuable") == 1
            assert kinds.count("oneshot") <= 2
            scout = next(line for line in children if line.kind == "continuable")
            assert len(accepted_in(copy.log(scout.id), "followup")) == 1
            code = [
                e
                for e in accepted_in(copy.log(root), "report")
                if e.content == ("from code",)
            ]
            assert len(code) <= 1
        # What the copy was told of is in its own store; its laws hold.
        check_laws(copy.reader(), again.requests, copy.entries)


@pytest.mark.case("R-179", "R-250")
async def test_recovery_that_is_killed_and_repeated_tells_once(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel(
        {name: [step("x", hold=hold)] for name in ("scout", "digger", "oracle")}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        digger = await start(sup, scout, DIGGER)
        begun = await sup.start_call(root, ORACLE, "x")
        await hold.reached(3)
        copy = stored.crashed()
    hang = Gate()
    for _ in range(3):
        model = ScriptedModel({"lead": [step("x", hold=hang)] * 2})
        copy.whole = False
        async with copy.open(model) as sup:
            await sup.resume(root.id)
            following = copy.crashed()
        copy = following
    model = ScriptedModel({"lead": [step("n")] * 9})
    async with copy.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        log = copy.log(root)
        notices = accepted_in(log, "notice")
        assert [n.sender for n in notices] == [scout.id]
        told = accepted_in(log, "outcome")
        assert [m.about for m in told] == [(begun.message_id,)]
        outcome = await sup.wait(begun.message_id)
        assert (outcome.status, outcome.cause) == ("failed", "crashed")
        assert len(of(copy.log(begun.child_id), Concluded)) == 1
        # The grandchild is told of when its own parent is resumed.
        assert of(copy.log(digger), Ended) == []
        resumed = await sup.resume(scout.id)
        await resumed.wait_idle()
        assert of(copy.log(digger), Ended)[0].reason == "crashed"
        assert [n.sender for n in accepted_in(copy.log(scout), "notice")] == [digger.id]


@pytest.mark.case("R-250", "R-249")
async def test_a_background_call_that_settled_before_a_kill_is_told_once(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "oracle": [step(calls=[call("reply", value=7)], hold=hold)],
            "lead": [step("n", hold=Gate())],
        }
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        begun = await sup.start_call(root, ORACLE, "x")
        hold.open()
        await sup.wait(begun.message_id)
        copy = stored.crashed()
    model = ScriptedModel({"lead": [step("n")]})
    async with copy.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        told = accepted_in(copy.log(root), "outcome")
        assert [m.about for m in told] == [(begun.message_id,)]
        assert "7" in told[0].content[0]
        assert (await sup.wait(begun.message_id)).unwrap() == 7


@pytest.mark.case("R-251", "R-064")
async def test_a_keyed_call_that_crashed_is_made_once_more(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"oracle": [step("x", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        first = await sup.start_call(root, ORACLE, "x", key="k")
        await hold.reached()
        copy = stored.crashed()
    model = ScriptedModel(
        {"lead": [step("n")] * 3, "oracle": [step(calls=[call("reply", value=1)])]}
    )
    async with copy.open(model) as sup:
        root = await sup.resume(root.id)
        outcome: ramet.Outcome[Any] = await sup.call(root, ORACLE, "x", key="k")
        assert outcome.unwrap() == 1
        assert outcome.message_id != first.message_id
        again: ramet.Outcome[Any] = await sup.call(root, ORACLE, "x", key="k")
        assert again.message_id == outcome.message_id
        assert len(await sup.children(root.id)) == 2
        await root.wait_idle()


@pytest.mark.case("R-260", "R-170")
async def test_a_resume_judges_what_a_kill_left_undecided(stored: Stage) -> None:
    last, hold = Gate(), Gate()
    model = ScriptedModel(
        {"lead": [step("x", hold=last)], "scout": [step("x", hold=hold)]}
    )
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await sup.tell(root, "x")
        await last.reached()
        await sup.report_from(scout, "unread")
        hold.open()
        await gone(scout)
        await sup.lookup("host", "x")
        given = [n.given for n in accepted_in(stored.log(root), "notice")]
        assert given == ["undecided"]
        copy = stored.crashed()
    model = ScriptedModel({"lead": [step("read")]})
    async with copy.open(model) as sup:
        again = await sup.resume(root.id)
        await again.wait_idle()
        assert len(of(copy.log(root), Promoted)) == 1
        assert sources(model.requests[0]) == ["tell", "report", "notice"]


@pytest.mark.case("R-181", "R-003")
async def test_what_a_dead_holder_held_can_be_resumed(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        copy = stored.crashed()
    async with copy.open(ScriptedModel({})) as sup:
        again = await sup.resume(scout.id)
        assert again.state == "parked"
        with pytest.raises(ramet.SessionHeldError):
            await sup.resume(scout.id)
        again.release()
        await gone(again)
        activations = of(copy.log(scout), Activated)
        assert len({a.activation for a in activations}) == 2


@pytest.mark.case("R-181")
async def test_a_second_writer_is_refused(stored: Stage) -> None:
    async with stored.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        with pytest.raises(ramet.StoreInUseError):
            async with ramet.open(stored.store()):
                raise AssertionError("it was opened twice")
        assert root.state == "parked"
        if stored.kind == "sqlite":
            reader = stored.reader()
            assert reader.sessions() == 1
            reader.close()


@pytest.mark.case("R-101", "R-229")
async def test_a_log_that_cannot_be_read_is_named_and_not_continued(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    stage.whole = False
    async with stage.open(model, policy=Policy(notices="quiet")) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        hold.open()
        await gone(scout)
        await root.wait_idle()
        for error in (
            ramet.CorruptLogError("broken event"),
            ramet.UnsupportedLogError("of a newer release"),
        ):
            store = sup._runtime.storage.store
            load = store.load

            def fail(
                session: str, after: int = 0, error: Any = error, load: Any = load
            ) -> Any:
                if session == scout.id:
                    raise error
                return load(session, after)

            store.load = fail  # type: ignore[method-assign]
            try:
                for attempt in (
                    lambda: sup.resume(scout.id),
                    lambda: sup.followup(root, scout.id, "x"),
                    lambda: sup.cancel(scout.id),
                ):
                    with pytest.raises(ramet.NotResumableError) as caught:
                        await attempt()
                    assert caught.value.__cause__ is error
                assert (await sup.explain(scout.id)).state == "unreadable"
                assert len(await sup.children(root.id)) == 1
            finally:
                store.load = load  # type: ignore[method-assign]
        assert sup.agent(scout.id) is None
        message = await sup.followup(root, scout.id, "fine")
        await sup.wait(message)


@pytest.mark.case("R-173", "R-113")
async def test_an_end_and_what_is_told_of_it_are_one_batch(stage: Stage) -> None:
    store = CountingStore()
    stage.use(store)
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("n")] * 2,
            "scout": [step("x", hold=hold)],
            "oracle": [step(calls=[call("reply", value=1)], hold=hold)],
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        begun = await sup.start_call(root, ORACLE, "x")
        await hold.reached(2)
        hold.open()
        await gone(scout)
        await sup.wait(begun.message_id)
        await root.wait_idle()
    for child in (scout.id, begun.child_id):
        batch = next(
            batch
            for batch in store.batches
            if any(e.session == child and isinstance(e.event, Ended) for e in batch)
        )
        assert any(
            e.session == root.id
            and isinstance(e.event, Accepted)
            and e.event.sender == child
            for e in batch
        )


@pytest.mark.case("R-186", "R-071")
async def test_the_next_open_starts_from_what_is_stored(stored: Stage) -> None:
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)]})
    stored.whole = False
    async with stored.open(model) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await hold.reached()
        await sup.report_from(scout, "x", key="k")
        copy = stored.crashed()
    async with copy.open(ScriptedModel({"lead": [step("n")] * 2})) as sup:
        assert await sup.lookup(scout.id, "k") is not None
        again = await sup.resume(root.id)
        live = fold(copy.log(root))
        await again.wait_idle()
        await anyio.wait_all_tasks_blocked()
        assert fold(copy.log(root)) == again._activation.session
        assert live.header == again._activation.session.header
        assert of(copy.log(root), Told) == []
        assert [type(e) for e in copy.log(root)].count(Created) == 1
        assert resident(sup, root.id) is again
