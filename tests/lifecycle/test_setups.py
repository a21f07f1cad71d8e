"""Set-up contributions on the running runtime: order, revocation and release."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import ramet
from ramet import AgentSpec, CallResult, Setup, ToolCall, ToolMessage
from ramet.mailbox.events import Activated, CallEnded, Ended
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import (
    DIGGER,
    LEAD,
    ORACLE,
    SCOUT,
    Stage,
    gone,
    of,
    resident,
    start,
)

pytestmark = pytest.mark.anyio


class Recorder:
    """Contributions that record when they are installed and released."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.failing: set[str] = set()

    def make(self, name: str) -> Any:
        def contribute(setup: Setup) -> Any:
            self.seen.append(("install", name, setup.agent_id))
            if f"install {name}" in self.failing:
                raise ValueError(f"install {name}")

            def release() -> None:
                self.seen.append(("release", name, setup.agent_id))
                if f"release {name}" in self.failing:
                    raise ValueError(f"release {name}")

            return release

        return contribute

    def steps(self, agent_id: str) -> list[str]:
        return [f"{what} {name}" for what, name, one in self.seen if one == agent_id]


@pytest.mark.case("R-189", "R-190", "R-234", "R-193")
async def test_contributions_are_installed_in_order_and_released_in_reverse(
    stage: Stage,
) -> None:
    recorder = Recorder()
    hold = Gate()
    model = ScriptedModel({"lead": [step("n")], "scout": [step("x", hold=hold)]})
    async with stage.open(model) as sup:
        for name in "XYZ":
            sup.register_setup(recorder.make(name))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        assert recorder.steps(scout.id) == ["install X", "install Y", "install Z"]
        hold.open()
        await gone(scout)
        assert recorder.steps(scout.id)[3:] == ["release Z", "release Y", "release X"]
        assert len(recorder.steps(root.id)) == 3
        await root.wait_idle()
    assert recorder.steps(root.id)[3:] == ["release Z", "release Y", "release X"]


@pytest.mark.case("R-190", "R-091")
async def test_nothing_is_visible_while_an_agent_is_being_set_up(stage: Stage) -> None:
    seen: list[Any] = []
    async with stage.open(ScriptedModel({"scout": [step("x", hold=Gate())]})) as sup:
        stage.whole = False

        def contribute(setup: Setup) -> None:
            seen.append(
                (sup.agent(setup.agent_id), sup.statistics()["agents"], setup.kind)
            )

        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        await start(sup, root, SCOUT)
        await sup.start_call(root, ORACLE, "x")
        await sup.start_root(LEAD, interactive=False)
        kinds = ["interactive", "continuable", "oneshot", "headless"]
        assert seen == [(None, count, kind) for count, kind in enumerate(kinds)]


@pytest.mark.case("R-191", "R-092")
async def test_a_contribution_that_is_revoked_before_publication_leaves_nothing(
    stage: Stage,
) -> None:
    released: list[str] = []
    revoke: list[Any] = []
    async with stage.open(ScriptedModel({})) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        before = stage.log(root)

        def contribute(setup: Setup) -> Any:
            revoke[0]()
            return lambda: released.append(setup.agent_id)

        for begin in (sup.start_child, sup.start_call, sup.call):
            revoke[:] = [sup.register_setup(contribute)]
            with pytest.raises(ramet.SetupRevokedError):
                await begin(root, SCOUT, "x", key="k")
        assert len(released) == len(set(released)) == 3
        for name in released:
            assert sup.agent(name) is None
            with pytest.raises(ramet.NotResumableError):
                await sup.resume(name)
        assert await sup.children(root.id) == []
        assert await sup.lookup(root.id, "k") is None
        assert stage.log(root) == before
        revoke[:] = [sup.register_setup(contribute)]
        revoke[0]()
        await sup.start_root(LEAD, interactive=True)
        assert len(released) == 3


@pytest.mark.case("R-192", "R-196")
async def test_when_a_set_up_raises_those_before_it_are_released(stage: Stage) -> None:
    recorder = Recorder()
    recorder.failing = {"install C", "release A"}
    async with stage.open(ScriptedModel({})) as sup:
        for name in "ABCD":
            sup.register_setup(recorder.make(name))
        with pytest.raises(ValueError, match="install C") as caught:
            await sup.start_root(LEAD, interactive=True)
        assert any("release A" in note for note in caught.value.__notes__)
        steps = [f"{what} {name}" for what, name, _ in recorder.seen]
        assert steps == [
            "install A",
            "install B",
            "install C",
            "release B",
            "release A",
        ]
        assert await sup.children() == []
        assert sup.statistics()["agents"] == 0


@pytest.mark.case("R-193", "R-196", "R-197")
async def test_a_revocation_attempts_every_release_and_holds(stage: Stage) -> None:
    recorder = Recorder()
    recorder.failing = {"release X"}
    hold = Gate()
    model = ScriptedModel({"scout": [step("x", hold=hold)] * 3})
    stage.whole = False
    async with stage.open(model) as sup:
        revoke = sup.register_setup(recorder.make("X"))
        sup.register_setup(recorder.make("Y"))
        root = await sup.start_root(LEAD, interactive=True)
        agents = [root, *[await start(sup, root, SCOUT) for _ in range(2)]]
        with pytest.raises(ramet.SetupReleaseError) as caught:
            revoke()
        assert len(caught.value.exceptions) == 3
        late = await start(sup, root, SCOUT)
        assert recorder.steps(late.id) == ["install Y"]
        revoke()
        for agent in agents:
            assert recorder.steps(agent.id) == ["install X", "install Y", "release X"]
            assert agent.state != "gone"
        await sup.cancel(root)
        for agent in agents:
            assert recorder.steps(agent.id).count("release X") == 1
            assert recorder.steps(agent.id)[-1] == "release Y"


def _sing() -> tuple[Any, list[str], Gate]:
    sung: list[str] = []
    inside = Gate()

    async def sing(call: ToolCall) -> str:
        """Sing."""
        sung.append(call.agent.id)
        await inside.passed()
        return "la"

    return sing, sung, inside


@pytest.mark.case("R-194", "R-195", "R-081")
async def test_after_a_revocation_no_call_of_the_tool_starts(stage: Stage) -> None:
    sing, sung, inside = _sing()
    hold = Gate()
    model = ScriptedModel(
        {
            "scout": [
                step(calls=[call("sing")]),
                step(calls=[call("sing"), call("dance")], hold=hold),
                step("x", hold=Gate()),
            ]
        }
    )
    stage.whole = False
    async with stage.open(model) as sup:
        revoke = sup.register_setup(lambda setup: setup.add_tool(sing))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await inside.reached()
        # The call that runs goes on, and the revocation does not wait for it.
        revoke()
        inside.open()
        await hold.reached()
        asked = model.requests_of("scout")
        assert [t.name for t in asked[0].tools] == ["report", "sing"]
        assert [t.name for t in asked[1].tools] == ["report"]
        landed = asked[1].messages[2]
        assert isinstance(landed, ToolMessage)
        assert landed.results == (CallResult("la"),)
        hold.open()
        while len(model.requests) < 3:
            await anyio.lowlevel.checkpoint()
        ended = of(stage.log(scout), CallEnded)[1:]
        assert {e.place: e.error for e in ended} == {
            0: "TOOL_WITHHELD",
            1: "UNKNOWN_TOOL",
        }
        assert sung == [scout.id]


@pytest.mark.case("R-194")
async def test_a_call_that_a_hook_holds_back_does_not_start_after_a_revocation(
    stage: Stage,
) -> None:
    sing, sung, inside = _sing()
    inside.open()
    before = Gate()

    async def hook(name: str, arguments: str, call: ToolCall) -> None:
        await before.passed()

    model = ScriptedModel(
        {"scout": [step(calls=[call("sing")]), step("x", hold=Gate())]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        revoke = sup.register_setup(lambda setup: setup.add_tool(sing))
        sup.register_setup(lambda setup: setup.before_call(hook))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await before.reached()
        revoke()
        before.open()
        while len(model.requests) < 2:
            await anyio.lowlevel.checkpoint()
        assert [e.error for e in of(stage.log(scout), CallEnded)] == ["TOOL_WITHHELD"]
        assert sung == []


@pytest.mark.case("R-194")
async def test_a_call_that_waits_for_a_thread_does_not_start_after_a_revocation(
    stage: Stage,
) -> None:
    sung: list[str] = []

    def sing() -> str:
        """Sing, in a thread."""
        sung.append("la")
        return "la"

    model = ScriptedModel(
        {"scout": [step(calls=[call("sing")]), step("x", hold=Gate())]}
    )
    stage.whole = False
    limiter = anyio.to_thread.current_default_thread_limiter()
    async with stage.open(model) as sup:
        revoke = sup.register_setup(lambda setup: setup.add_tool(sing))
        root = await sup.start_root(LEAD, interactive=True)
        borrowers = [object() for _ in range(int(limiter.total_tokens))]
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        scout = await start(sup, root, SCOUT)
        while limiter.statistics().tasks_waiting == 0:
            await anyio.lowlevel.checkpoint()
        revoke()
        for borrower in borrowers:
            limiter.release_on_behalf_of(borrower)
        while len(model.requests) < 2:
            await anyio.lowlevel.checkpoint()
        assert [e.error for e in of(stage.log(scout), CallEnded)] == ["TOOL_WITHHELD"]
        assert sung == []


@pytest.mark.case("R-195", "R-193")
async def test_a_tool_may_revoke_its_own_contribution(stage: Stage) -> None:
    revoke: list[Any] = []

    async def leave() -> str:
        """Revoke oneself."""
        revoke[0]()
        return "left"

    model = ScriptedModel(
        {"scout": [step(calls=[call("leave")]), step("x", hold=Gate())]}
    )
    stage.whole = False
    async with stage.open(model) as sup:
        revoke.append(sup.register_setup(lambda setup: setup.add_tool(leave)))
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        while len(model.requests) < 2:
            await anyio.lowlevel.checkpoint()
        assert [(e.content, e.error) for e in of(stage.log(scout), CallEnded)] == [
            ("left", None)
        ]
        assert "leave" not in [t.name for t in model.requests[1].tools]


@pytest.mark.case("R-197", "R-012")
async def test_a_new_contribution_waits_for_the_next_activation(stored: Stage) -> None:
    first, second = Gate(), Gate()
    model = ScriptedModel(
        {
            "scout": [
                step(calls=[call("report", output="x")], hold=first),
                step("end"),
                step("again", hold=second),
            ],
            "lead": [step("n")] * 3,
        }
    )
    stored.whole = False
    async with stored.open(model, report=False) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        scout = await start(sup, root, SCOUT)
        await first.reached()
        sup.register_setup(ramet.report_setup())
        first.open()
        await gone(scout)
        assert [e.error for e in of(stored.log(scout), CallEnded)] == ["UNKNOWN_TOOL"]
        await sup.followup(root, scout.id, "more")
        await second.reached()
        offered = [
            [tool.name for tool in request.tools]
            for request in model.requests_of("scout")
        ]
        assert offered == [[], [], ["report"]]


@pytest.mark.case("R-235", "R-063")
async def test_tools_texts_and_hooks_of_a_set_up_are_there_in_every_request(
    stage: Stage,
) -> None:
    around: list[str] = []

    async def sing() -> str:
        """Sing."""
        around.append("sing")
        return "la"

    def before(name: str, arguments: str, call: ToolCall) -> None:
        around.append(f"before {name}")
        if name == "refused":
            raise ramet.UsageError("not today")

    async def after(name: str, result: CallResult, call: ToolCall) -> CallResult | None:
        around.append(f"after {name}")
        await anyio.lowlevel.checkpoint()
        return CallResult("spoiled", "TOOL_FAILED") if name == "spoil" else None

    async def spoil() -> str:
        """Be spoiled."""
        return "fine"

    async def refused() -> str:
        """Be refused."""
        raise AssertionError("it ran")

    def contribute(setup: Setup) -> None:
        for tool in (sing, spoil, refused):
            setup.add_tool(tool)
        setup.add_instructions("Sing often.")
        setup.before_call(before)
        setup.after_call(after)
        kept.append(setup)

    kept: list[Setup] = []
    spec = AgentSpec("lead", "Be short.")
    model = ScriptedModel(
        {
            "lead": [
                step(calls=[call("sing")]),
                step(calls=[call("spoil")]),
                step(calls=[call("refused")]),
                step("end"),
            ]
        }
    )
    async with stage.open(model, specs=[spec]) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(spec, interactive=True)
        await sup.tell(root, "x")
        await root.wait_idle()
        for request in model.requests:
            assert request.instructions == "Be short.\n\nSing often."
            assert [t.name for t in request.tools] == ["sing", "spoil", "refused"]
        ended = of(stage.log(root), CallEnded)
        assert [(e.content, e.error) for e in ended] == [
            ("la", None),
            ("spoiled", "TOOL_FAILED"),
            ("not today", "USAGE"),
        ]
        assert around[:5] == [
            "before sing",
            "sing",
            "after sing",
            "before spoil",
            "after spoil",
        ]
        with pytest.raises(ramet.UsageError):
            kept[0].add_instructions("too late")


@pytest.mark.case("R-234")
@pytest.mark.parametrize("wrong", [None, 7, "async"])
async def test_a_contribution_is_a_plain_function(stage: Stage, wrong: Any) -> None:
    async def contribute(setup: Setup) -> None:
        raise AssertionError("it was called")

    async with stage.open(ScriptedModel({})) as sup:
        given: Any = contribute if wrong == "async" else wrong
        with pytest.raises(ramet.UsageError):
            sup.register_setup(given)
        revoke = sup.register_setup(lambda setup: 7)  # type: ignore[arg-type,return-value]
        with pytest.raises(ramet.UsageError):
            await sup.start_root(LEAD, interactive=True)
        revoke()
        await sup.start_root(LEAD, interactive=True)


@pytest.mark.case("R-214", "R-010")
async def test_activations_begin_and_end_in_pairs_after_their_releases(
    stored: Stage,
) -> None:
    order: list[str] = []

    class Listener:
        def on_event(self, session: str, seq: int, event: Any) -> None:
            if isinstance(event, (Activated, Ended)):
                order.append(f"{type(event).__name__} {names.get(session, 'scout')}")

    names: dict[str, str] = {}

    def contribute(setup: Setup) -> Any:
        if setup.name == "digger":
            raise ValueError("no")
        if setup.name == "scout":
            return released
        return None

    def released() -> None:
        written = sup._runtime.gate.undecided()
        late = any(isinstance(entry.event, Ended) for entry in written)
        order.append("released late" if late else "released")

    first = Gate()
    model = ScriptedModel(
        {"lead": [step("n")] * 2, "scout": [step("x", hold=first)] * 2}
    )
    async with stored.open(model) as sup:
        sup.register_setup(contribute)
        root = await sup.start_root(LEAD, interactive=True)
        names[root.id] = "lead"
        sup.observe(Listener())
        scout = await start(sup, root, SCOUT)
        with pytest.raises(ValueError, match="no"):
            await sup.start_child(root, DIGGER, "x")
        first.open()
        await gone(scout)
        message = await sup.followup(root, scout.id, "more")
        await sup.wait(message)
        await root.wait_idle()
        log = stored.log(scout)
        assert [e.reason for e in of(log, Ended)] == ["settled", "settled"]
        assert len({e.activation for e in of(log, Activated)}) == 2
        pair = ["Activated scout", "released", "Ended scout"]
        assert [one for one in order if "lead" not in one] == pair * 2
        assert sup.agent(scout.id) is None
        assert resident(sup, root.id) is root
