"""What type checkers say of a flow; mypy and pyright read it, nothing runs it."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, assert_type

import attrs

import ramet


@attrs.frozen
class Point:
    x: int


async def main(flow: ramet.Flow) -> None:
    assert_type(await flow.agent("x"), Any)
    assert_type(await flow.agent("x", schema={"type": "null"}), Any)
    assert_type(await flow.agent("x", returns=Point), Point)
    assert_type(await flow.agent("x", text=True), str)
    assert_type(await flow.agent("x", choice=["a", "b"]), str)
    assert_type(await flow.agent("x", contract=ramet.Returns(Point)), Point)
    assert_type(await flow.agent("x", result="report"), str)
    assert_type(await flow.agent("x", result="report", returns=Point), str)
    names: list[Literal["yes", "no"]] = ["yes", "no"]
    chosen = await flow.agent("x", choice=names, choice_fallback="no")
    assert_type(chosen, Literal["yes", "no"])

    async def measure(unit: str) -> int:
        return len(unit)

    items = flow.items("unit", ["a", "b"])
    assert_type(items[0].value, str)
    assert_type(await flow.parallel([one.bind(measure) for one in items]), list[int])
    assert_type(await flow.parallel([partial(measure, "a")]), list[int])
