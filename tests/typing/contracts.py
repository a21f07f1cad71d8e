"""What type checkers say of contracts; mypy and pyright read it, nothing runs it."""

from __future__ import annotations

from typing import Any, TypeVar, assert_type

import attrs

from ramet.actors.contract import (
    Choice,
    Contract,
    Reply,
    Returns,
    Schema,
    Text,
    contract_from_record,
)

T = TypeVar("T")


@attrs.frozen
class Point:
    x: int


def given(contract: Contract[T]) -> T:
    return contract.value("null")


def check() -> None:
    assert_type(given(Reply()), Any)
    assert_type(given(Schema({"type": "null"})), Any)
    assert_type(given(Choice(["a", "b"])), str)
    assert_type(given(Text()), str)
    assert_type(given(Returns(Point)), Point)
    assert_type(Returns(Point).value("{}"), Point)
    assert_type(contract_from_record({}), Contract[Any])
    widened: Contract[object] = Returns(Point)
    assert_type(widened.value("{}"), object)
