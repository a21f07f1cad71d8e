"""`ramet chat` in a process of its own, with a mind written in Python.

Lives here: the program that tests run at a pseudo-terminal or through pipes.  The mind
does what it is told: `hang` never ends, `ask` asks a sub-agent, `break` fails, and
anything else is said again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sys
import termios
from unittest import mock

import anyio

from ramet import (
    Call,
    FunctionModel,
    ModelError,
    ModelRequest,
    ModelResponse,
    ToolMessage,
    UserMessage,
)
from ramet.lifecycle import cli, models

__all__ = ["mind"]


async def mind(request: ModelRequest) -> ModelResponse:
    last = request.messages[-1]
    names = {tool.name for tool in request.tools}
    if request.name == "helper":
        assert "reply" in names
        return ModelResponse("", (Call("reply", '{"value": "moss"}'),))
    assert "reply" not in names
    if isinstance(last, ToolMessage):
        return ModelResponse(f"The helper found {last.results[0].content}.")
    assert isinstance(last, UserMessage)
    text = last.blocks[-1]
    if text == "hang":
        await anyio.sleep_forever()
    if text == "break":
        raise ModelError("the service is not there")
    if text == "ask":
        arguments = json.dumps({"agent": "helper", "prompt": "look around"})
        return ModelResponse("I ask.", (Call("agent", arguments),))
    return ModelResponse(f"You said: {text}")


def main() -> None:
    if sys.stdin.isatty():
        # So that the keys of this terminal are signals to this process.
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    model = FunctionModel(mind)
    with mock.patch.object(models, "resolve_model", return_value=model):
        cli.entry()


if __name__ == "__main__":
    main()
