"""Running one call of a tool: from raw arguments to a result for the model.

Lives here: the call itself, in a worker thread where it may block, and what becomes
of what it returns or raises.  Whether the agent may call the tool, and what the log
says of it, is decided elsewhere.  A call that fails is a result and never an
exception; only the cancellation of the caller, a `KeyboardInterrupt` outside of a
worker thread, and the end of the coroutine pass through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread

from ..mailbox.errors import InvalidArgumentsError, RametError, UsageError
from ..mailbox.message import CallResult
from .render import render
from .tool import Tool, ToolCall, read_call

__all__ = ["TEXT_LIMIT", "checked_result", "failure_result", "run_tool"]

TEXT_LIMIT = 1000
"""The characters that an error result has at most of an exception's own text."""


async def run_tool(
    tool: Tool,
    raw_arguments: str,
    call: ToolCall,
    check: Callable[[], CallResult | None] | None = None,
) -> CallResult:
    """Run one call of a tool and give its result.

    Arguments that are not strict JSON or do not fit give `INVALID_ARGS`, and the tool
    does not run (R-208).  A `RametError` of the tool gives its own code; any other
    exception, `SystemExit` included, and a result that is not JSON data give
    `TOOL_FAILED` (R-207). A tool may return a `CallResult`, which stands as it is.

    A blocking tool is abandoned in its thread when the caller is cancelled: what it
    returns later is dropped (R-213).  It may have to wait for a thread: then `check` is
    asked in that thread, and what it gives is the result of a call that may not start
    any more (R-194).
    """
    try:
        arguments = read_call(tool, raw_arguments)
    except InvalidArgumentsError as error:
        return CallResult(str(error), error.code)
    try:
        if tool.blocking:
            attempt = partial(_attempted, tool, arguments, call, check)
            (value,) = await anyio.to_thread.run_sync(attempt, abandon_on_cancel=True)
        else:
            value = tool.run(arguments, call)
        if inspect.isawaitable(value):
            value = await value
    except (Exception, SystemExit) as error:
        return failure_result(error)
    except BaseExceptionGroup as group:
        if group.split((Exception, SystemExit))[1] is not None:
            raise
        return failure_result(group)
    return _result(value)


def failure_result(error: BaseException) -> CallResult:
    """Give the result that tells a model of an exception, short and without a trace."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    if len(text) > TEXT_LIMIT:
        text = f"{text[:TEXT_LIMIT]}..."
    if isinstance(error, RametError) and type(error.code) is str:
        return CallResult(text, error.code)
    name = type(error).__name__
    return CallResult(f"{name}: {text}" if text else name, "TOOL_FAILED")


def checked_result(result: CallResult) -> CallResult:
    """Give a result that a tool or a hook made, if a log can hold it."""
    whole = type(result) is CallResult and type(result.content) is str
    if whole and (result.error is None or type(result.error) is str):
        return result
    return CallResult(
        "The tool ran, but its CallResult holds something else than text.",
        "TOOL_FAILED",
    )


def _attempted(
    tool: Tool,
    arguments: dict[str, Any],
    call: ToolCall,
    check: Callable[[], CallResult | None] | None,
) -> tuple[Any]:
    """Call a blocking tool in its thread; whatever it raises there is its own.

    What it gives is wrapped, since a thread may not hand an awaitable over as it is.
    """
    refused = None if check is None else check()
    if refused is not None:
        return (refused,)
    try:
        return (tool.run(arguments, call),)
    except BaseException as error:
        return (failure_result(error),)


def _result(value: Any) -> CallResult:
    if isinstance(value, CallResult):
        return checked_result(value)
    try:
        return CallResult(render(value))
    except UsageError as error:
        return CallResult(
            f"The tool ran, but what it returned cannot be shown: {error}",
            "TOOL_FAILED",
        )
