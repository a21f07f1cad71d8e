"""Items: the work units of a script, which its caller owns.

Lives here: `Flow.items`: each unit has a place in the journal that is made of its name
and its value, so that another number or another order of units moves no other's calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from ..mailbox.canonical import canonical_json, digest_text
from ..mailbox.errors import UsageError
from .places import Places, Steps

__all__ = ["Bound", "Item", "items_of"]

T = TypeVar("T")
R = TypeVar("R")

_SHORT = 60
_DIGEST = 16


class Item(Generic[T]):
    """A work unit of a script.  Received from `Flow.items`, never made.

    In a loop, the block `with item:` holds its calls; for `Flow.parallel`, `bind` makes
    a member of it.
    """

    _places: Places
    _steps: Steps
    _name: str
    _index: int
    _value: T
    _within: list[AbstractContextManager[None]]

    def __init__(self) -> None:
        raise TypeError("an item is received from flow.items, not made")

    @classmethod
    def _make(
        cls, places: Places, steps: Steps, name: str, index: int, value: T
    ) -> Item[T]:
        item: Item[T] = object.__new__(cls)
        item._places = places
        item._steps = steps
        item._name = name
        item._index = index
        item._value = value
        item._within = []
        return item

    @property
    def value(self) -> T:
        """The unit itself, as it was given."""
        return self._value

    @property
    def index(self) -> int:
        """Its number among the units, from 0."""
        return self._index

    @property
    def label(self) -> str:
        """A label for a call about it: its name and what it is known by."""
        known_by, count = self._steps[-2:]
        more = "" if count == 1 else f" ({count})"
        return f"{self._name} {known_by}{more}"

    def bind(self, function: Callable[..., Awaitable[R]], *args: Any) -> Bound[R]:
        """A member for `Flow.parallel`, which awaits `function(*args, value)`."""
        return Bound(self._steps, function, (*args, self._value))

    def __enter__(self) -> Item[T]:
        """Begin the block of its calls."""
        block = self._places.within(self._places.lane.unit(self._steps))
        block.__enter__()
        self._within.append(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the block of its calls."""
        self._within.pop().__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Item {self.label}>"


class Bound(Generic[R]):
    """A work unit and what is to be done with it.  Received from `Item.bind`."""

    def __init__(
        self,
        steps: Steps,
        function: Callable[..., Awaitable[R]],
        args: tuple[Any, ...],
    ) -> None:
        self.steps = steps
        self._function = function
        self._args = args

    def __call__(self) -> Awaitable[R]:
        """Do it."""
        return self._function(*self._args)


def items_of(places: Places, name: str, values: Iterable[T]) -> list[Item[T]]:
    """The work units of some values.

    Args:
        places: of the run.
        name: what the units are called.
        values: JSON data, each.

    Raises:
        UsageError: the name is blank, or a value is not JSON data.
    """
    if type(name) is not str or not name.strip():
        raise UsageError(f"work units are named by text, not by {name!r}")
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"values must be a list, not {type(values).__name__}")
    lane = places.lane
    made = []
    for index, value in enumerate(values):
        steps = lane.unit_steps(name, _known_by(value))
        made.append(Item._make(places, steps, name, index, value))
    return made


def _known_by(value: object) -> str:
    """A short text is known by itself, anything else by its digest."""
    text = canonical_json(value)
    if isinstance(value, str) and value.strip() and len(value) <= _SHORT:
        return value
    return text if len(text) <= _SHORT else digest_text(text)[:_DIGEST]
