"""Tests of running one call of a tool, on both backends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from ramet.actors.tool import Tool, ToolCall, tool_from
from ramet.actors.tool_run import TEXT_LIMIT, failure_result, run_tool
from ramet.mailbox.errors import UnauthorizedError
from ramet.mailbox.message import CallResult

pytestmark = pytest.mark.anyio

CALL = ToolCall(agent=None, place=2, call_id="c1", key="s/1/1/2", epoch=3)


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(number: int) -> None:
        raise error

    return fail


def failing_later(error: BaseException) -> Callable[..., Any]:
    async def fail(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        raise error

    return fail


async def outcome(
    function: Callable[..., Any], raw: str = '{"number": 1}'
) -> CallResult:
    return await run_tool(tool_from(function), raw, CALL)


async def test_an_async_function_runs_in_the_loop_and_a_plain_one_in_a_thread() -> None:
    async def near(number: int) -> bool:
        return threading.current_thread() is here

    def far(number: int) -> bool:
        return threading.current_thread() is here

    here = threading.current_thread()
    assert await outcome(near) == CallResult("true")
    assert await outcome(far) == CallResult("false")


async def test_the_call_is_given_to_a_function_that_asks_for_it() -> None:
    async def show(number: int, call: ToolCall) -> Any:
        assert call.agent is None
        return [call.key, call.place, call.call_id, call.epoch]

    result = await outcome(show)
    assert result.content == '[\n  "s/1/1/2",\n  2,\n  "c1",\n  3\n]'


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("two\nlines", "two\nlines"),
        ("", ""),
        (None, "null"),
        ({"a": 1.0}, '{\n  "a": 1\n}'),
    ],
)
async def test_text_is_given_as_it_is_and_data_as_indented_json(
    value: Any, content: str
) -> None:
    async def give(number: int) -> Any:
        return value

    assert await outcome(give) == CallResult(content)


async def test_a_result_is_given_as_it_is() -> None:
    async def give(number: int) -> CallResult:
        return CallResult("no", "NOT_RESUMABLE")

    assert await outcome(give) == CallResult("no", "NOT_RESUMABLE")


@pytest.mark.parametrize("value", [{1}, (1,), b"x", float("nan"), object()])
async def test_what_is_not_data_is_an_error_result(value: Any) -> None:
    async def give(number: int) -> Any:
        return value

    result = await outcome(give)
    assert result.error == "TOOL_FAILED"
    assert "The tool ran" in result.content


@pytest.mark.case("R-208")
@pytest.mark.parametrize(
    "raw", ["", "[]", '{"number": "1"}', '{"number":1,"number":2}']
)
async def test_a_tool_does_not_run_with_arguments_that_do_not_fit(raw: str) -> None:
    def never(number: int) -> None:
        pytest.fail("it ran")

    result = await outcome(never, raw)
    assert result.error == "INVALID_ARGS"
    assert "did not run" in result.content


@pytest.mark.case("R-207")
@pytest.mark.parametrize("make", [failing, failing_later])
@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("wrong"), "ValueError: wrong"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (UnreadableError(), "UnreadableError: (its text cannot be read)"),
        (
            ExceptionGroup("two", [ValueError()]),
            "ExceptionGroup: two (1 sub-exception)",
        ),
        (
            BaseExceptionGroup("two", [SystemExit(1)]),
            "BaseExceptionGroup: two (1 sub-exception)",
        ),
    ],
)
async def test_whatever_a_tool_raises_is_an_error_result(
    make: Callable[[BaseException], Callable[..., Any]],
    error: BaseException,
    content: str,
) -> None:
    assert await outcome(make(error)) == CallResult(content, "TOOL_FAILED")


@pytest.mark.parametrize("make", [failing, failing_later])
async def test_an_error_of_the_runtime_gives_its_own_code(
    make: Callable[[BaseException], Callable[..., Any]],
) -> None:
    assert await outcome(make(UnauthorizedError("not yours"))) == CallResult(
        "not yours", "UNAUTHORIZED"
    )


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), StopIteration(), GeneratorExit()]
)
async def test_what_a_thread_raises_is_always_its_own(error: BaseException) -> None:
    result = await outcome(failing(error))
    assert result.error == "TOOL_FAILED"


async def test_a_long_text_of_an_error_is_shortened() -> None:
    result = await outcome(failing(ValueError("x" * 100_000)))
    assert len(result.content) < TEXT_LIMIT + 100


async def test_a_blocking_function_may_give_an_awaitable() -> None:
    async def later() -> str:
        return "later"

    def give(number: int) -> Any:
        return later()

    assert await outcome(give) == CallResult("later")


async def test_the_cancellation_of_the_caller_passes_through() -> None:
    async def hang(number: int) -> None:
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await outcome(hang)
        pytest.fail("it was not cancelled")
    assert scope.cancelled_caught


async def test_a_group_with_more_than_failures_passes_through() -> None:
    group = BaseExceptionGroup("mixed", [ValueError(), KeyboardInterrupt()])
    with pytest.raises(BaseExceptionGroup, match="mixed"):
        await outcome(failing_later(group))


@pytest.mark.case("R-213")
async def test_a_blocking_tool_is_abandoned_when_the_caller_is_cancelled() -> None:
    begun, release = anyio.Event(), threading.Event()

    def hang(number: int) -> None:
        anyio.from_thread.run_sync(begun.set)
        release.wait(30)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(outcome, hang)
            await begun.wait()
            group.cancel_scope.cancel()
    finally:
        release.set()


async def test_a_tool_that_does_not_block_runs_in_the_loop() -> None:
    here = threading.current_thread()
    tool = Tool(
        "near",
        "",
        {"type": "object"},
        lambda arguments, call: threading.current_thread() is here,
        blocking=False,
    )
    assert await run_tool(tool, "{}", CALL) == CallResult("true")


async def test_a_failure_has_a_result_of_its_own() -> None:
    assert failure_result(KeyError("k")) == CallResult("KeyError: 'k'", "TOOL_FAILED")
