"""Frozen values: the immutable objects and arrays that code is handed.

Lives here: a dictionary and a list that equal the plain ones and refuse every write,
so that they work with `json`, `match` and everything that reads.  What may stand in
them is for `canonical.py` to say, which also makes them (`freeze`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["FrozenDict", "FrozenList"]


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot be written to; it equals the plain `dict` (A-024).

    `copy()` and `|` give plain dictionaries, which can be written to.
    """

    __slots__ = ()

    def __new__(cls, items: Any = ()) -> FrozenDict:
        """Make it of a mapping or of pairs."""
        made = dict.__new__(cls)
        dict.update(made, items)
        return made

    def __init__(self, items: Any = ()) -> None:
        """Do nothing: `__new__` filled it, and a second call must not write."""

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()


class FrozenList(list[Any]):
    """A JSON array that cannot be written to; it equals the plain `list` (A-024).

    `copy()`, `+` and slices give plain lists, which can be written to.
    """

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> FrozenList:
        """Make it of its items."""
        made = list.__new__(cls)
        list.extend(made, items)
        return made

    def __init__(self, items: Iterable[Any] = ()) -> None:
        """Do nothing: `__new__` filled it, and a second call must not write."""

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()


def _refuse_write(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("this value is immutable; copy() gives one that can be changed")


if not TYPE_CHECKING:
    for _name in (
        *("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem"),
        *("setdefault", "update"),
    ):
        setattr(FrozenDict, _name, _refuse_write)
    for _name in (
        *("__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear"),
        *("extend", "insert", "pop", "remove", "reverse", "sort"),
    ):
        setattr(FrozenList, _name, _refuse_write)
