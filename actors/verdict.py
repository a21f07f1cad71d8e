"""What a contract is: one function that judges a return, and the value that it gives.

Lives here: the base of all contracts and their common reading of the arguments of
`reply`.  The kinds of contract are in `schema.py` and `contract.py`; how many returns
an agent has is for `ledger.py` to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from ..mailbox.canonical import canonical_json, digest_text
from ..mailbox.errors import InvalidArgumentsError
from ..mailbox.message import record
from .arguments import parse_arguments

__all__ = ["Contract", "Verdict"]

T_co = TypeVar("T_co", covariant=True)


@record
class Verdict:
    """What a contract says of one return.

    `canonical` is the canonical text of the value, also of one that was refused;
    `None` when there is no value.  `errors` are lines of `path: message`, at most 20
    of at most 500 characters (A-109).  `empty` marks an accepted return without a
    value (A-018).
    """

    valid: bool
    canonical: str | None = None
    errors: tuple[str, ...] = ()
    empty: bool = False


class Contract(ABC, Generic[T_co]):
    """What a returning agent must return; fixed before the agent exists.

    The type variable is that of the value which code receives.  A contract is immutable
    and keeps nothing that its maker can still change (A-006).
    """

    __slots__ = ()

    kind: ClassVar[str]
    """The contract's name in records: `reply`, `choice`, `schema` or `text`."""

    fallback: str | None
    """The value that stands in when the submissions are exhausted; only `Choice` has
    one."""

    has_tool: ClassVar[bool] = True
    """Whether the agent returns through the tool `reply`; only `Text` does not."""

    @property
    @abstractmethod
    def value_schema(self) -> dict[str, Any]:
        """The JSON schema that stands under `value` in the parameters of `reply`."""

    @abstractmethod
    def shown(self) -> tuple[str, ...]:
        """Give the lines that show a model the allowed argument objects (A-009)."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Give the contract as plain JSON data, for a header and a receipt (A-123)."""

    @abstractmethod
    def errors_of(self, value: Any) -> tuple[str, ...]:
        """Judge a value of JSON data; the lines are empty when it is accepted."""

    @abstractmethod
    def value(self, canonical: str | None) -> T_co:
        """Give code the accepted value, immutable, from its canonical text (A-025)."""

    @property
    def digest(self) -> str:
        """The identity of the contract: equal contracts have equal digests."""
        return _digest_of(self)

    @property
    def strict_preferred(self) -> bool:
        """Whether strict decoding would change no meaning (A-111)."""
        return False

    def parameters(self) -> dict[str, Any]:
        """Give the JSON schema of the arguments of `reply` (A-100)."""
        return {
            "type": "object",
            "properties": {"value": self.value_schema},
            "required": ["value"],
            "additionalProperties": False,
        }

    def judge(self, raw: str) -> Verdict:
        """Judge the argument text of one call of `reply`; nothing is repaired.

        This one function judges at dispatch, at a replay and for values of Python
        (A-110).
        """
        try:
            arguments = parse_arguments(raw)
        except InvalidArgumentsError as error:
            return Verdict(False, None, (f"arguments: {error}"[:500],))
        if type(arguments) is not dict:
            return Verdict(False, None, ("arguments: must be a JSON object",))
        if "value" not in arguments:
            return self._judge_missing(arguments)
        value = arguments["value"]
        canonical = canonical_json(value)
        extra = [key for key in arguments if key != "value"]
        if extra:
            return Verdict(False, canonical, _not_allowed(extra))
        errors = self.errors_of(value)
        return Verdict(not errors, canonical, errors, self._is_empty(value))

    def judge_value(self, value: Any) -> Verdict:
        """Judge a value of Python by the bytes that it would be returned with (A-110).

        Raises:
            UsageError: it is not JSON data.
        """
        return self.judge(f'{{"value":{canonical_json(value)}}}')

    def _judge_missing(self, arguments: dict[str, Any]) -> Verdict:
        lines = ('arguments["value"]: required member is missing',)
        return Verdict(False, None, lines + _not_allowed(list(arguments)))

    def _is_empty(self, value: Any) -> bool:
        return False


@lru_cache(maxsize=256)
def _digest_of(contract: Contract[Any]) -> str:
    record = {key: item for key, item in contract.record().items() if key != "regex"}
    return digest_text(canonical_json(record))


def _not_allowed(keys: list[str]) -> tuple[str, ...]:
    shown = [canonical_json(key[:100]) for key in keys[:10]]
    return tuple(f"arguments[{key}]: is not allowed" for key in shown)
