"""Items: work units keep their places, whatever their number and order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ramet import Call, FunctionModel, ModelRequest, ModelResponse, UsageError
from ramet.lifecycle.flow import Flow
from ramet.lifecycle.items import Item
from ramet.testing import ScriptedModel, call, step
from tests.lifecycle.scripts import begun, journal_of, of_kind, reasons, run_script
from tests.lifecycle.stage import ORACLE, Stage, texts

pytestmark = pytest.mark.anyio


def replies(*values: Any) -> ScriptedModel:
    steps = [step(calls=[call("reply", value=value)]) for value in values]
    return ScriptedModel({"oracle": steps})


def echoing(asked: list[str]) -> FunctionModel:
    """A mind that says in capitals what it is asked, and is asked no more than once."""

    async def mind(request: ModelRequest) -> ModelResponse:
        word = texts(request)[0].split()[-1]
        asked.append(word)
        raw = json.dumps({"value": word.upper()})
        return ModelResponse("", (Call("reply", raw),), "tool_calls")

    return FunctionModel(mind)


async def test_units_are_known_by_their_values(stage: Stage) -> None:
    async def main(flow: Flow) -> Any:
        long = {"text": "x" * 100}
        items = flow.items("file", ["a", "a", 3, "", long])
        assert [item.value for item in items] == ["a", "a", 3, "", long]
        assert [item.index for item in items] == [0, 1, 2, 3, 4]
        labels = [item.label for item in items]
        assert labels[:4] == ["file a", "file a (2)", "file 3", 'file ""']
        assert len(labels[4]) < 30
        assert repr(items[0]) == "<Item file a>"
        for name, values in ((" ", []), (3, []), ("x", "ab"), ("x", 3), ("x", [{1}])):
            with pytest.raises(UsageError):
                flow.items(name, values)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="not made"):
            Item()

    assert (await run_script(stage, main)).error is None
    assert of_kind(journal_of(stage), "log items")[0]["count"] == 5


@pytest.mark.parametrize("side_by_side", [True, False])
async def test_other_units_do_not_move_the_calls_of_a_unit(
    stored: Stage, side_by_side: bool
) -> None:
    units = ["b", "c"]

    async def main(flow: Flow) -> Any:
        async def ask(word: str, unit: str) -> Any:
            return await flow.agent(f"{word} {unit}", spec=ORACLE)

        items = flow.items("unit", units)
        if side_by_side:
            return await flow.parallel([item.bind(ask, "say") for item in items])
        found = []
        for item in items:
            with item:
                found.append(await ask("say", item.value))
        return found

    asked: list[str] = []
    copy = await begun(stored, main, echoing(asked))
    units[:] = ["b", "c", "a"]
    result = await run_script(copy, main, echoing(asked), take_up=True)
    assert result.value == ["B", "C", "A"]
    assert sorted(map(str, reasons(copy))) == ["no-record", "replayed", "replayed"]
    units[:] = ["c", "a"]
    again = await run_script(copy, main, take_up=True)
    assert again.value == ["C", "A"]
    assert sorted(asked) == ["a", "b", "c"]


async def test_units_that_are_worked_at_twice_have_places_for_both(
    stored: Stage,
) -> None:
    async def main(flow: Flow) -> Any:
        async def ask(unit: str) -> Any:
            return await flow.agent("x", spec=ORACLE)

        items = flow.items("unit", ["a"])
        return [await flow.parallel([one.bind(ask) for one in items]) for _ in "12"]

    copy = await begun(stored, main, replies(1, 2))
    assert (await run_script(copy, main, take_up=True)).value == [[1], [2]]


async def test_a_loop_over_units_is_one_sequence(stored: Stage) -> None:
    words = ["x"]

    async def main(flow: Flow) -> Any:
        found = []
        for item in flow.items("unit", ["a", "b"]):
            with item:
                found.append(await flow.agent(f"{words[0]} {item.index}", spec=ORACLE))
            words[0] = "x"
        return found

    copy = await begun(stored, main, replies(1, 2))
    words[0] = "y"
    result = await run_script(copy, main, replies(3, 4), take_up=True)
    assert result.value == [3, 4]
    assert reasons(copy) == ["key-mismatch", "diverged"]
