"""Scripts that mean to end the process: their run fails, and nothing else does."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from ramet import GroupFailureError, ScriptExitedError
from ramet.lifecycle.cli import main as ramet
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.script_exit import ends_the_run
from ramet.mailbox.backend import Backend
from tests.lifecycle.scripts import journal_of, of_kind, run_of, run_script
from tests.lifecycle.stage import Stage


class OddError(BaseException):
    """No `Exception`."""


class Never:
    """Something that is awaited and does not come."""

    def __await__(self) -> Generator[None, None, None]:
        yield


EXITS = [
    (SystemExit(5), "the script called sys.exit(5)"),
    (KeyboardInterrupt(), "the script raised KeyboardInterrupt"),
    (GeneratorExit(), "the script raised GeneratorExit"),
    (asyncio.CancelledError(), "the script raised CancelledError"),
    (OddError("x"), "the script raised OddError"),
    (
        BaseExceptionGroup("two", [ValueError("a"), OddError("x")]),
        "the script raised OddError",
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("raised", "text"), EXITS)
async def test_what_is_no_exception_fails_the_run(
    stage: Stage, raised: BaseException, text: str
) -> None:
    async def main(flow: Flow) -> Any:
        await anyio.lowlevel.checkpoint()
        raise raised

    result = await run_script(stage, main)
    assert isinstance(result.error, ScriptExitedError)
    assert str(result.error) == text
    assert result.error.__cause__ is raised
    (end,) = of_kind(journal_of(stage), "run.ended")
    assert end["error"] == {"code": "script-exited", "message": text}


@pytest.mark.anyio
@pytest.mark.parametrize("raised", [SystemExit(5), KeyboardInterrupt()])
async def test_a_member_of_a_group_that_exits_has_failed(
    stage: Stage, raised: BaseException
) -> None:
    async def exits() -> None:
        await anyio.lowlevel.checkpoint()
        raise raised

    async def main(flow: Flow) -> Any:
        try:
            await flow.parallel([exits, anyio.lowlevel.checkpoint])
        except GroupFailureError as error:
            return ", ".join(one.status for one in error.settled)

    result = await run_script(stage, main)
    assert result.value == "failed, completed"


@pytest.mark.anyio
async def test_a_cancel_that_somebody_asked_for_is_no_end_of_the_run(
    stage: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        scope.cancel()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        await run_script(stage, main)
    assert scope.cancelled_caught
    assert run_of(stage).status is None


def test_a_coroutine_that_nobody_runs_any_more_is_closed() -> None:
    async def held() -> None:
        with ends_the_run(backend):
            await never

    async def begin() -> Coroutine[Any, Any, None]:
        made = held()
        made.send(None)
        return made

    backend = cast(Backend, None)
    never = Never()
    left = anyio.run(begin)
    # It would complain if the block went on after this.
    left.close()
    assert inspect.getcoroutinestate(left) == "CORO_CLOSED"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "what", ["KeyboardInterrupt", "GeneratorExit", "asyncio.CancelledError"]
)
def test_the_command_says_one_sentence_and_prints_one_document(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
    backend: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"import asyncio\n\nasync def main(flow):\n    raise {what}\n"
    (tmp_path / "job.py").write_text(text)
    words = ["run", "job.py", "--backend", backend, "--output-format", "json"]
    assert ramet(words) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["stop_reason"] == "script_exited"
    name = what.rpartition(".")[2]
    said = f"ramet: the run failed: the script raised {name} [script-exited]"
    assert said in err.splitlines()
    assert "Traceback" not in err


WAYS = {
    "task group": "asyncio.TaskGroup() as group:\n        group.create_task(leave())",
    "anyio": "anyio.create_task_group() as group:\n        group.start_soon(leave)",
    "callback": "anyio.create_task_group():\n"
    "        asyncio.get_running_loop().call_soon(exits)\n"
    "        await anyio.sleep_forever()",
}
"""Ways to end the loop itself, which asyncio alone has."""

BREAKING = """\
import asyncio, os, sys
import anyio, ramet

async def mind(request):
    usage = ramet.Usage(input_tokens=3)
    call = ramet.Call("reply", '{"value": 1}')
    return ramet.ModelResponse(calls=(call,), usage=usage)

model = ramet.FunctionModel(mind)

def exits():
    WHAT

async def leave():
    exits()

async def main(flow):
    value = await flow.agent("x")
    if os.path.exists("mended"):
        return value
    async with HOW
"""


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("what", "status", "reason", "said"),
    [
        (
            "sys.exit(5)",
            1,
            "script_exited",
            "the run broke off: the script called sys.exit(5) in a task of its own"
            " [script-exited]",
        ),
        ("raise KeyboardInterrupt", 130, "interrupted", "interrupted"),
    ],
)
def test_a_task_that_ends_the_loop_leaves_a_document_and_a_run_to_go_on_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: str,
    what: str,
    status: int,
    reason: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = BREAKING.replace("WHAT", what).replace("HOW", how)
    (tmp_path / "job.py").write_text(text)
    assert ramet(["run", "job.py", "--output-format", "stream-json"]) == status
    out, err = capsys.readouterr()
    document = json.loads(out.splitlines()[-1])
    assert (document["type"], document["is_error"]) == ("result", True)
    assert document["stop_reason"] == reason
    assert document["usage"]["input_tokens"] == 3
    run = document["session_id"]
    last = [line for line in err.splitlines() if line.startswith("ramet: ")][-1]
    assert last == f"ramet: {said}; `ramet resume {run}` goes on with it"
    (tmp_path / "mended").touch()
    assert ramet(["resume"]) == 0
    out, _ = capsys.readouterr()
    assert json.loads(out) == 1


def test_a_script_that_exits_while_it_is_loaded_is_refused_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text("x = 1\nraise SystemExit(5)\n")
    assert ramet(["run", "job.py"]) == 2
    err = capsys.readouterr().err
    assert "the script called sys.exit(5) when it was loaded (" in err
    assert "job.py, line 2)" in err
    assert not (tmp_path / "ramet.db").exists()
