"""Prose beside a text: noted where it is much longer, and nothing else."""

from __future__ import annotations

import json

import pytest

from ramet import FunctionModel, ModelRequest, ModelResponse
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.prose import prose_note
from ramet.mailbox.events import Journaled
from ramet.testing import call
from tests.lifecycle.minds import results_in
from tests.lifecycle.scripts import run_script
from tests.lifecycle.stage import ORACLE, Stage, of
from tests.logs import stepped


@pytest.mark.case("A-073")
def test_much_more_text_before_the_final_message_is_noted() -> None:
    steps = [stepped("a" * 300), stepped("b" * 100), stepped("c" * 100)]
    note = prose_note(steps)
    assert note is not None
    assert "has 100 characters" in note
    assert "hold 400" in note
    assert prose_note([stepped("a" * 399), stepped("c" * 100)]) is None
    assert prose_note([stepped("a" * 199), stepped("c")]) is None
    assert prose_note([stepped("c" * 1000)]) is None
    assert prose_note([]) is None


@pytest.mark.anyio
@pytest.mark.case("A-073")
@pytest.mark.parametrize("length", [3, 3000])
async def test_a_text_call_of_a_script_notes_it_and_gives_the_final_message(
    stored: Stage, length: int
) -> None:
    """The final message is the value whatever stood before it."""

    async def mind(request: ModelRequest) -> ModelResponse:
        if not results_in(request):
            return ModelResponse("x" * length, (call("nothing"),))
        return ModelResponse("short")

    async def main(flow: Flow) -> str:
        value: str = await flow.agent("Write.", spec=ORACLE, text=True)
        return value

    result = await run_script(stored, main, FunctionModel(mind))
    assert result.value == "short"
    notes = [
        json.loads(event.data)
        for event in of(stored.log(result.run), Journaled)
        if event.kind == "log"
    ]
    noted = [note for note in notes if note["code"] == "longer-prose"]
    assert len(noted) == (length > 3)
