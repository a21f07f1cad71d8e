"""The small model returns values of each contract, through the whole path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import attrs
import pytest

from ramet import AgentSpec, Choice, Contract, Returns, Schema
from ramet.actors.local_server import LocalServer
from ramet.actors.model_local import LocalModel
from ramet.mailbox.events import Concluded, Submitted
from tests.lifecycle.stage import LEAD, Stage, of

pytestmark = [pytest.mark.anyio, pytest.mark.real_model]


@attrs.frozen
class Card:
    """What the model fills in."""

    colour: Literal["green", "red"]
    number: int


NODE = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["green", "red"]},
        "numbers": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    },
    "required": ["colour", "numbers"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def small() -> Iterator[LocalModel]:
    """The small model, with one thread."""
    model = LocalModel(threads=1, context_tokens=1024)
    yield model
    server: LocalServer = model._server
    server.stop()


@pytest.mark.case("A-086", "A-097", "A-083")
@pytest.mark.parametrize(
    "contract",
    [Choice(["green", "red"]), Schema(NODE), Returns(Card)],
    ids=["choice", "schema", "returns"],
)
async def test_the_small_model_returns_a_value_that_conforms(
    stored: Stage, small: LocalModel, contract: Contract[Any]
) -> None:
    """Protocol, not words: whatever it says has the declared shape, and a receipt."""
    spec = AgentSpec("oracle", "Answer at once.", model=small)
    async with stored.open(specs=[LEAD, spec]) as sup:
        root = await sup.start_root(LEAD, interactive=True)
        outcome = await sup.call(
            root, spec, "What colour is grass? Give a number too.", contract=contract
        )
        value = outcome.unwrap()
        assert outcome.acceptance is not None
        assert outcome.usage.own.output_tokens
    if isinstance(contract, Returns):
        assert isinstance(value, Card)
        value = attrs.asdict(value)
    assert contract.errors_of(value) == ()
    log = stored.log(outcome.session_id)
    (concluded,) = of(log, Concluded)
    receipt = json.loads(concluded.receipt or "")
    assert receipt["value"] == value
    assert [one["verdict"] for one in receipt["submissions"]][-1] == "valid"
    assert len(of(log, Submitted)) == outcome.acceptance.attempts
