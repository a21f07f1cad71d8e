"""Leaves: immutable data that the garbage collector need not look at.

Lives here: how the classes are made of which logs and transcripts consist.  They hold
texts, numbers and tuples of such, so that no cycle can go through them, and an agent
has many: a collection that walked them all would stop the loop for as long as there is
text in memory.

A class written as for `attrs.frozen` becomes a `msgspec.Struct` that no collection
visits, which is also the quickest to make.  It stays one of attrs for whoever asks:
`attrs.evolve`, `attrs.fields` and `attrs.asdict` work as they did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import msgspec

__all__ = ["leaf"]

T = TypeVar("T")

_MADE_ANEW = frozenset(("__dict__", "__weakref__", "__annotations__"))


class _Leaf(msgspec.Struct, frozen=True, gc=False):
    """What all of them have in common: nothing."""


if TYPE_CHECKING:
    from attrs import frozen as leaf
else:

    def leaf(cls: type[T]) -> type[T]:
        """Make an immutable class of a plain one with annotated fields.

        Nothing in its fields may ever refer back to the instance: the collector would
        not find that cycle.
        """
        fields = attrs.fields(attrs.define(cls))
        namespace: dict[str, Any] = {
            name: value for name, value in vars(cls).items() if name not in _MADE_ANEW
        }
        declared: list[Any] = []
        for field in fields:
            hint = cls.__annotations__[field.name]
            namespace.pop(field.name, None)
            if field.default is attrs.NOTHING:
                declared.append((field.name, hint))
            else:
                declared.append((field.name, hint, field.default))
        namespace["__attrs_attrs__"] = fields
        return msgspec.defstruct(
            cls.__name__,
            declared,
            bases=(_Leaf,),
            namespace=namespace,
            module=cls.__module__,
            frozen=True,
            gc=False,
        )
