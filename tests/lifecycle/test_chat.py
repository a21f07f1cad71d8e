"""Conversations: what is asked, answered, shown and interrupted, without a terminal."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

import ramet
from ramet.lifecycle.chat import Chat, ChatScreen
from ramet.lifecycle.cli_text import Line, plain
from ramet.lifecycle.terminal_chat import PlainChat
from ramet.mailbox.events import TurnEnded
from ramet.testing import Gate, ScriptedModel, call, step
from tests.lifecycle.stage import LEAD, SCOUT, Stage, accepted_in, of, resident

pytestmark = pytest.mark.anyio


class Person:
    """Writes what a test lets it write; asked for more than that, it waits."""

    def __init__(self, *lines: str | None) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str | None](99)
        for line in lines:
            self.write(line)

    def write(self, line: str | None) -> None:
        self._send.send_nowait(line)

    async def next(self) -> str | None:
        return await self._receive.receive()

    def close(self) -> None:
        self._send.close()
        self._receive.close()


class Paper:
    """A screen that keeps what it was told."""

    def __init__(self, *, talks: bool = True) -> None:
        self.talks = talks
        self.lines: list[str] = [""]

    def ask(self) -> None:
        self._line(">")

    def answer(self, text: str) -> None:
        self.lines[-1] += text

    def end_answer(self) -> None:
        self.lines.append("")

    def activity(self, line: Line) -> None:
        self._line(f"* {plain(line)}")

    def note(self, text: str) -> None:
        self._line(f"({text})")

    def _line(self, text: str) -> None:
        self.lines[-1:] = [text, ""]

    def seen(self) -> list[str]:
        return [line for line in self.lines if line]


@asynccontextmanager
async def talking(
    stage: Stage, model: ramet.Model, person: Person, paper: ChatScreen
) -> AsyncIterator[tuple[ramet.Supervisor, ramet.Agent, Chat]]:
    try:
        async with stage.open(model) as sup:
            sup.register_setup(ramet.delegation_setup([SCOUT]))
            root = await sup.start_root(LEAD, interactive=True)
            chat = Chat(sup, root, person, paper)
            sup.observe(chat)
            yield sup, root, chat
    finally:
        person.close()


@pytest.mark.case("A-002")
@pytest.mark.parametrize("stream", [False, True])
async def test_each_line_is_told_and_each_answer_shown(
    stored: Stage, stream: bool
) -> None:
    model = ScriptedModel(
        {"lead": [step("Good morning to you."), step("A second\nanswer.")]},
        stream=stream,
    )
    person, paper = Person("hello", "  ", "more", None), Paper()
    async with talking(stored, model, person, paper) as (_, root, chat):
        await chat.run()
        told = [one.content for one in accepted_in(stored.log(root), "tell")]
    assert told == [("hello",), ("more",)]
    assert paper.seen() == [
        *[">", "Good morning to you.", ">", ">", "A second\nanswer.", ">"],
    ]
    for request in model.requests:
        assert "reply" not in [tool.name for tool in request.tools]


async def test_the_activity_of_the_tree_is_shown(stage: Stage) -> None:
    model = ScriptedModel(
        {
            "lead": [
                step("I ask.", [call("agent", agent="scout", prompt="look")]),
                step("It found moss."),
            ],
            "scout": [step("", [call("reply", value="moss")])],
        }
    )
    person, paper = Person("go", None), Paper()
    async with talking(stage, model, person, paper) as (_, _root, chat):
        await chat.run()
    seen = paper.seen()
    assert seen[:2] == [">", "I ask."]
    assert seen[-2:] == ["It found moss.", ">"]
    activity = [line.split("  ", 1) for line in seen if line.startswith("*")]
    assert [" ".join(pieces) for pieces in activity] == [
        '* lead calls agent("scout", "look")',
        "* scout is asked: look",
        '* scout calls reply("moss")',
        '* scout replies "moss"',
    ]


async def test_the_first_interrupt_stops_the_turn_and_the_second_leaves(
    stored: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel({"lead": [step("never", hold=hold), step("again")]})
    person, paper = Person("go"), Paper()
    async with talking(stored, model, person, paper) as (_, root, chat):
        async with anyio.create_task_group() as group:
            group.start_soon(chat.run)
            await hold.reached()
            chat.interrupt()
            await root.wait_idle()
            await anyio.wait_all_tasks_blocked()
            assert paper.seen()[-2:] == ["(stopped; Ctrl-C once more leaves)", ">"]
            # What is written then is a new beginning.
            person.write("well?")
            while chat.interrupts:
                await anyio.lowlevel.checkpoint()
            await root.wait_idle()
            await anyio.wait_all_tasks_blocked()
            assert "again" in paper.seen()
            chat.interrupt()
            assert "(Ctrl-C once more leaves)" in paper.seen()
            chat.interrupt()
        assert chat.interrupts == 2
        ends = [(e.status, e.cause) for e in of(stored.log(root), TurnEnded)]
    assert ends == [("cancelled", "interrupted"), ("completed", None)]


async def test_what_comes_while_the_person_writes_is_shown_and_it_is_asked_again(
    stage: Stage,
) -> None:
    hold = Gate()
    model = ScriptedModel(
        {
            "lead": [step("Started."), step("A report came.")],
            "scout": [step("x", hold=hold)],
        }
    )
    person, paper = Person("go"), Paper()
    async with (
        talking(stage, model, person, paper) as (sup, root, chat),
        anyio.create_task_group() as group,
    ):
        group.start_soon(chat.run)
        await anyio.wait_all_tasks_blocked()
        started = await sup.start_child(root, SCOUT, "look")
        await hold.reached()
        await root.wait_idle()
        while "Started." not in paper.seen():
            await anyio.lowlevel.checkpoint()
        scout = resident(sup, started.child_id)
        await sup.report_from(scout, "moss", delivery="wakeup")
        await root.wait_idle()
        await anyio.wait_all_tasks_blocked()
        assert paper.seen()[-2:] == ["A report came.", ">"]
        assert any("reports: moss" in line for line in paper.seen())
        person.write(None)
    stage.whole = False


async def test_without_a_person_the_whole_tree_comes_to_rest_first(
    stored: Stage,
) -> None:
    """Lines from a pipe: no prompt, no commands, and the last answer is waited for."""
    scouting = Gate()
    model = ScriptedModel(
        {
            "lead": [
                step(calls=[call("agent", agent="scout", prompt="x", background=True)]),
                step("Asked."),
                step("It is moss."),
            ],
            "scout": [step("", [call("reply", value="moss")], hold=scouting)],
        }
    )
    person, paper = Person("/agents are asked", None), Paper(talks=False)
    async with talking(stored, model, person, paper) as (_, root, chat):
        async with anyio.create_task_group() as group:
            group.start_soon(chat.run)
            await scouting.reached()
            await root.wait_idle()
            await anyio.wait_all_tasks_blocked()
            assert "Asked." in paper.seen()
            scouting.open()
        told = [one.content for one in accepted_in(stored.log(root), "tell")]
    assert told == [("/agents are asked",)]
    assert [line for line in paper.seen() if line[0] not in "*"] == [
        "Asked.",
        "It is moss.",
    ]


async def test_commands_are_for_the_person_and_not_for_the_agent(stage: Stage) -> None:
    model = ScriptedModel({"lead": [step("yes")]})
    person, paper = Person("hello", "/agents", "/help", "/nothing", None), Paper()
    async with talking(stage, model, person, paper) as (_, root, chat):
        await chat.run()
        assert len(accepted_in(stage.log(root), "tell")) == 1
    seen = paper.seen()
    assert any(line.startswith("(there is no /nothing: ") for line in seen)
    assert any(line.startswith("(write, and press enter") for line in seen)


async def test_a_turn_that_failed_is_told_and_the_conversation_goes_on(
    stage: Stage,
) -> None:
    error = ramet.ModelError("the service is not there")
    model = ScriptedModel({"lead": [step(error=error), step("here I am")]})
    person, paper = Person("one", "two", None), Paper()
    async with talking(stage, model, person, paper) as (_, _root, chat):
        await chat.run()
    seen = paper.seen()
    assert any("request failed" in line and "not there" in line for line in seen)
    assert seen[-2:] == ["here I am", ">"]


async def test_a_failure_after_a_part_of_an_answer_begins_a_line(stage: Stage) -> None:
    error = ramet.ModelError("the service went away")
    model = ScriptedModel(
        {
            "lead": [
                step(raw=[ramet.TextDelta("I was abou")], error=error),
                step("again"),
            ]
        },
        stream=True,
    )
    person = Person("one", "two", None)
    answers, remarks = io.StringIO(), io.StringIO()
    screen = PlainChat(answers, remarks)
    async with talking(stage, model, person, screen) as (_, _root, chat):
        await chat.run()
    assert answers.getvalue() == "I was abou\nagain\n"
    assert (
        remarks.getvalue()
        == "lead  request failed: ModelError: the service went away\n"
    )
    assert chat.failures == 1


async def test_a_root_that_is_ended_ends_the_conversation(stage: Stage) -> None:
    person, paper = Person(), Paper()
    async with (
        talking(stage, ScriptedModel({}), person, paper) as (sup, root, chat),
        anyio.create_task_group() as group,
    ):
        group.start_soon(chat.run)
        await anyio.wait_all_tasks_blocked()
        await sup.cancel(root)
        person.write("hello?")
    assert any("the conversation has ended" in line for line in paper.seen())
