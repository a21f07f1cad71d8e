"""The kinds of contract: reply, choice, returns and text, and their records.

Lives here: what each kind accepts, how a model is shown it, and how it is stored and
read again.  `Schema` is in `schema.py`, what all have in common in `verdict.py`; both
are given on from here.  Nothing here counts submissions or knows an agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, final

from ..mailbox.canonical import canonical_json, read_canonical, read_frozen
from ..mailbox.errors import CorruptLogError, UsageError
from .dialect import DIALECT
from .errors import DeclarationError
from .returns import class_schema, make_instance
from .schema import Schema
from .verdict import Contract, Verdict

__all__ = [
    "Choice",
    "Contract",
    "Reply",
    "Returns",
    "Schema",
    "Text",
    "Verdict",
    "contract_from_record",
    "contract_from_text",
    "contract_text",
]

T = TypeVar("T")


@final
class Reply(Contract[Any]):
    """Any JSON value.  An empty string, null or nothing at all is Empty (A-018).

    >>> Reply().judge('{"value": [1.0]}').canonical
    '[1]'
    >>> Reply().judge("{}").empty
    True
    """

    __slots__ = ()

    kind = "reply"
    fallback: str | None = None

    _only: ClassVar[Reply | None] = None

    def __new__(cls) -> Reply:
        """Give the only one: it has no state, and is its own identity."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    @property
    def value_schema(self) -> dict[str, Any]:
        """Any value."""
        return {"description": "The whole result: a text, or any other JSON value."}

    def shown(self) -> tuple[str, ...]:
        """Give the line that shows a model what to return (A-009)."""
        return ('{"value": VALUE}, where VALUE is the whole result: any JSON value',)

    def record(self) -> dict[str, Any]:
        """Give the contract as plain data."""
        return {"kind": "reply", "version": 1}

    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Accept every value."""
        return ()

    def value(self, canonical: str | None) -> Any:
        """Give the accepted value, immutable; `None` for Empty."""
        value = None if canonical is None else read_frozen(canonical)
        return None if self._is_empty(value) else value

    def _judge_missing(self, arguments: dict[str, Any]) -> Verdict:
        if not arguments:
            return Verdict(True, empty=True)
        return super()._judge_missing(arguments)

    def _is_empty(self, value: Any) -> bool:
        return value is None or (type(value) is str and not value)

    def __repr__(self) -> str:
        return "Reply()"


class Choice(Contract[str]):
    """Exactly one of some texts, letter by letter (A-086).

    Args:
        members: a list or tuple of at least two different texts, none blank.  It is
        copied.  fallback: a member that stands in when the submissions are exhausted.

    Raises:
        DeclarationError: `bad-option`; the text names the index of a member at fault.
    """

    __slots__ = ("_canonical", "fallback", "members")

    kind = "choice"

    members: tuple[str, ...]

    def __init__(self, members: Sequence[str], fallback: str | None = None) -> None:
        if not isinstance(members, (list, tuple)):
            raise DeclarationError(
                f"choice must be a list or tuple of texts, not {type(members).__name__}"
            )
        if len(members) < 2:
            raise DeclarationError(
                f"choice needs at least two members, not {len(members)}"
            )
        seen: dict[str, int] = {}
        for index, member in enumerate(members):
            if type(member) is not str:
                raise DeclarationError(
                    f"choice[{index}] must be text, not {type(member).__name__}"
                )
            if not member.strip():
                raise DeclarationError(f"choice[{index}] is blank")
            first = seen.setdefault(canonical_json(member), index)
            if first != index:
                raise DeclarationError(f"choice[{index}] repeats choice[{first}]")
        if fallback is not None and (
            type(fallback) is not str or canonical_json(fallback) not in seen
        ):
            shown = repr(fallback)[:100]
            raise DeclarationError(
                f"choice_fallback must be exactly a member, unlike {shown}"
            )
        self.members = tuple(members)
        self.fallback: str | None = fallback
        self._canonical = frozenset(seen)

    @property
    def value_schema(self) -> dict[str, Any]:
        """An enum of the members."""
        return {"type": "string", "enum": list(self.members)}

    @property
    def strict_preferred(self) -> bool:
        """Whether strict decoding would change no meaning: an enum keeps it (A-111)."""
        return True

    def shown(self) -> tuple[str, ...]:
        """Give one line for each member (A-009)."""
        return tuple(f'{{"value": {canonical_json(it)}}}' for it in self.members)

    def record(self) -> dict[str, Any]:
        """Give the contract as plain data: its members and its fallback."""
        record: dict[str, Any] = {"kind": "choice", "version": 1}
        return record | {"members": list(self.members), "fallback": self.fallback}

    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Refuse everything but a member; nothing is parsed into one (A-088)."""
        if type(value) is str and canonical_json(value) in self._canonical:
            return ()
        if type(value) is str:
            shown = canonical_json(value[:60])
            return (f"$: {shown} is not exactly one of the members",)
        kinds = {dict: "an object", list: "an array", type(None): "null"}
        shown = kinds.get(type(value)) or canonical_json(value)
        return (f"$: must be a string that is exactly one of the members, not {shown}",)

    def value(self, canonical: str | None) -> str:
        """Give the member that was returned."""
        return str(read_canonical(canonical or ""))

    def __eq__(self, other: object) -> bool:
        return type(other) is Choice and (self.members, self.fallback) == (
            other.members,
            other.fallback,
        )

    def __hash__(self) -> int:
        return hash((self.members, self.fallback))

    def __repr__(self) -> str:
        return f"Choice({list(self.members)!r}, fallback={self.fallback!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Choice, (self.members, self.fallback)


class Returns(Contract[T]):
    """An instance of an attrs class, made from a value of the schema that it makes.

    Args:
        declared: an attrs class whose fields the dialect can express (`returns.py`).

    Raises:
        UnsupportedSchemaError: it cannot; the text names the field's path (A-083).
    """

    __slots__ = ("declared", "schema")

    kind = "schema"
    fallback: str | None = None

    declared: type[T]
    schema: Schema
    """The schema that is in force."""

    def __init__(self, declared: type[T]) -> None:
        self.schema = Schema(class_schema(declared))
        self.declared = declared

    @property
    def digest(self) -> str:
        """The digest of the schema's canonical text."""
        return self.schema.digest

    @property
    def strict_preferred(self) -> bool:
        """Whether strict decoding would change no meaning (A-111)."""
        return self.schema.strict_preferred

    @property
    def value_schema(self) -> dict[str, Any]:
        """The schema that the class makes."""
        return self.schema.node

    def shown(self) -> tuple[str, ...]:
        """Give the lines that show a model what to return (A-009)."""
        return self.schema.shown()

    def record(self) -> dict[str, Any]:
        """Give the contract as plain data: that of its schema, and the class's name."""
        name = f"{self.declared.__module__}:{self.declared.__qualname__}"
        return self.schema.record() | {"returns": name}

    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Judge by the schema, and then by the class's own validators."""
        errors = self.schema.check(value)
        if errors:
            return errors
        try:
            make_instance(self.declared, value)
        except Exception as error:
            return (f"$: is refused by {self.declared.__name__}: {error}"[:500],)
        return ()

    def value(self, canonical: str | None) -> T:
        """Give an instance of the class, made from the accepted value."""
        return make_instance(self.declared, read_canonical(canonical or ""))

    def __eq__(self, other: object) -> bool:
        return type(other) is Returns and self.declared is other.declared

    def __hash__(self) -> int:
        return hash(self.declared)

    def __repr__(self) -> str:
        return f"Returns({self.declared.__qualname__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Returns, (self.declared,)


class Text(Contract[str]):
    """The exact final message; there is no tool to return by (A-005, A-070)."""

    __slots__ = ()

    kind = "text"
    fallback: str | None = None
    has_tool = False

    @property
    def value_schema(self) -> dict[str, Any]:
        """There is none.

        Raises:
            UsageError: always.
        """
        raise UsageError("a text contract offers no return tool")

    def shown(self) -> tuple[str, ...]:
        """Show nothing: prompt and system text say nothing of a return (A-005)."""
        return ()

    def record(self) -> dict[str, Any]:
        """Give the contract as plain data."""
        return {"kind": "text", "version": 1}

    def judge(self, raw: str) -> Verdict:
        """Judge the final message itself: any text that is not blank."""
        errors = self.errors_of(raw)
        return Verdict(not errors, canonical_json(raw), errors)

    def judge_value(self, value: Any) -> Verdict:
        """Judge a text of Python, as `judge` does.

        Raises:
            UsageError: it is not text.
        """
        if type(value) is not str:
            raise UsageError(f"a text contract wants text, not {type(value).__name__}")
        return self.judge(value)

    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Refuse what is blank."""
        if type(value) is str and value.strip():
            return ()
        return ("$: the final message is blank",)

    def value(self, canonical: str | None) -> str:
        """Give the text."""
        return str(read_canonical(canonical or ""))

    def __eq__(self, other: object) -> bool:
        return type(other) is Text

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return "Text()"


def contract_from_record(record: Mapping[str, Any]) -> Contract[Any]:
    """Read a contract from what `record()` gave.

    A `Returns` reads as the `Schema` that it makes: its class is code, which no record
    holds, so that the value of such a contract is plain data.

    Raises:
        CorruptLogError: it is not a record of this version, or its digest is wrong.
    """
    try:
        contract = _READ[record["kind"]](record)
        same = contract.record()
    except (KeyError, TypeError, DeclarationError) as error:
        raise CorruptLogError(f"this is not a contract's record: {error!r}") from error
    ours = {key: it for key, it in same.items() if key != "regex"}
    theirs = {key: it for key, it in record.items() if key not in ("regex", "returns")}
    if canonical_json(ours) != canonical_json(theirs):
        raise CorruptLogError(
            "a contract's record was altered or is of another version"
        )
    return contract


@lru_cache(maxsize=256)
def contract_text(contract: Contract[Any]) -> str:
    """The canonical text of a contract's record, as a header holds it."""
    return canonical_json(contract.record())


@lru_cache(maxsize=256)
def contract_from_text(text: str) -> Contract[Any]:
    """Read a contract from what `contract_text` gave.

    Raises:
        CorruptLogError: as `contract_from_record`.
    """
    record = json.loads(text)
    return contract_from_record(record)


def _read_reply(record: Mapping[str, Any]) -> Contract[Any]:
    return Reply()


def _read_choice(record: Mapping[str, Any]) -> Contract[Any]:
    return Choice(record["members"], record["fallback"])


def _read_schema(record: Mapping[str, Any]) -> Contract[Any]:
    if record["dialect"] != DIALECT:
        raise CorruptLogError(f"this release does not know {record['dialect']!r}")
    return Schema(record["schema"])


def _read_text(record: Mapping[str, Any]) -> Contract[Any]:
    return Text()


_READ = {
    "reply": _read_reply,
    "choice": _read_choice,
    "schema": _read_schema,
    "text": _read_text,
}
