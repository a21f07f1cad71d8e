"""Declarations: what a supervisor script asks for in one call, checked and frozen.

Lives here: how the options of a call become a contract, a spec and limits, and which
combinations are refused.  Everything is refused here, before an ordinal is taken and
before anything is started (A-075).  It knows no run and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.contract import Choice, Contract, Reply, Returns, Schema, Text
from ..actors.errors import DeclarationError
from ..actors.model import Model
from ..actors.tool import Tool
from ..mailbox.canonical import canonical_json, digest_text
from ..mailbox.errors import UsageError
from ..mailbox.message import Content, to_blocks

__all__ = [
    "Declaration",
    "check_name",
    "check_prompt",
    "contract_of_options",
    "declare",
    "model_name",
    "spec_of_options",
]

_DEFAULT_NAME = "agent"


@attrs.frozen(eq=False)
class Declaration:
    """One call of a script, ready to be made.

    Attributes:
        prompt: what the agent is asked.
        spec: what it is made from.
        contract: what it must return.
        limits: what it may spend, or `None`.
        label: its name within the phase, or `None`.
        title: what a person reads of it, or `None`.
        report: whether the call gives an observation instead of its value.
        attempts: how many agents it may take.
    """

    prompt: Content
    spec: AgentSpec
    contract: Contract[Any]
    limits: Limits | None
    label: str | None
    title: str | None
    report: bool = False
    attempts: int = 1

    @classmethod
    def of_child(
        cls, prompt: Content, spec: AgentSpec, label: str | None
    ) -> Declaration:
        """A continuable child: it returns nothing, and no contract is in force."""
        return cls(prompt, spec, Reply(), None, label, None)

    def asked(self, phase: str) -> str:
        """The digest of what is asked, without the contract (A-163).

        Title and attempts are not a part of it, and neither is the default model of the
        run, so that a run can go on with another one.
        """
        spec = self.spec
        return digest_text(
            canonical_json(
                [
                    list(to_blocks(self.prompt)),
                    spec.name,
                    spec.instructions,
                    None if spec.allow is None else list(spec.allow),
                    list(spec.deny),
                    [[tool.name, tool.digest] for tool in spec.tools],
                    model_name(spec.model),
                    str(spec.limits or Limits()),
                    str(self.limits or Limits()),
                    self.label,
                    phase,
                ]
            )
        )

    def request(self, phase: str) -> str:
        """The digest of what is asked and of what must be returned."""
        return digest_text(canonical_json([self.asked(phase), self.contract.digest]))

    @property
    def first_request(self) -> str:
        """The digest of what is asked, as version 0.1.0 made it for its keys."""
        return digest_text(
            canonical_json(
                [
                    list(to_blocks(self.prompt)),
                    self.spec.name,
                    self.spec.instructions,
                    self.contract.record(),
                    str(self.limits or Limits()),
                ]
            )
        )


def model_name(model: Model | str | None) -> str | None:
    """How a model is named in what is asked: by its name, or by its class."""
    if model is None or isinstance(model, str):
        return model
    return f"{type(model).__module__}:{type(model).__qualname__}"


def declare(
    prompt: Content,
    *,
    label: str | None,
    title: str | None,
    contract: Contract[Any] | None,
    choice: Sequence[str] | None,
    choice_fallback: str | None,
    schema: object,
    returns: type[Any] | None,
    text: bool,
    result: str | None,
    spec: AgentSpec | None,
    tools: Iterable[Tool | Callable[..., Any]],
    model: Model | str | None,
    limits: Limits | None,
    attempts: int,
) -> Declaration:
    """Check a call and give its declaration.

    Raises:
        DeclarationError: `bad-option` or `blank-prompt`; nothing has happened.
        UnsupportedSchemaError: the schema is outside the dialect.
    """
    check_prompt(prompt)
    check_name("label", label)
    check_name("title", title)
    if type(attempts) is not int or attempts < 1:
        raise DeclarationError(
            f"attempts must be a whole number from 1 on, not {attempts!r}"
        )
    _check_result(result, choice, choice_fallback, schema)
    found = contract_of_options(
        contract=contract,
        choice=choice,
        choice_fallback=choice_fallback,
        schema=schema,
        returns=returns,
        text=text,
    )
    if result is not None and found.kind in ("choice", "schema") and returns is None:
        raise DeclarationError(
            f"result='report' and a contract of the kind {found.kind!r} exclude each"
            " other"
        )
    if limits is not None and not isinstance(limits, Limits):
        raise DeclarationError(f"limits must be Limits, not {type(limits).__name__}")
    return Declaration(
        prompt,
        spec_of_options(spec, label, tools, model),
        found,
        limits,
        label,
        title,
        result is not None,
        attempts,
    )


def contract_of_options(
    *,
    contract: Contract[Any] | None = None,
    choice: Sequence[str] | None = None,
    choice_fallback: str | None = None,
    schema: object = None,
    returns: type[Any] | None = None,
    text: bool = False,
) -> Contract[Any]:
    """The contract that the options of a call stand for (A-077 to A-083).

    Raises:
        DeclarationError: `bad-option`; the text names the options.
        UnsupportedSchemaError: the schema is outside the dialect.
    """
    if type(text) is not bool:
        raise DeclarationError(f"text must be True or False, not {text!r}")
    options = {
        "contract": contract,
        "choice": choice,
        "schema": schema,
        "returns": returns,
        "text": text or None,
    }
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise DeclarationError(f"{' and '.join(given)} exclude each other")
    if choice_fallback is not None and choice is None:
        raise DeclarationError("choice_fallback needs choice")
    if contract is not None:
        if not isinstance(contract, Contract):
            raise DeclarationError(
                f"contract must be a Contract, not {type(contract).__name__}"
            )
        return contract
    if choice is not None:
        return Choice(choice, choice_fallback)
    if schema is not None:
        return schema if isinstance(schema, Schema) else Schema(schema)
    if returns is not None:
        return Returns(returns)
    return Text() if text else Reply()


def spec_of_options(
    spec: AgentSpec | None,
    label: str | None,
    tools: Iterable[Tool | Callable[..., Any]],
    model: Model | str | None,
) -> AgentSpec:
    """The spec of a call: the one given, or a plain one, with more tools or a model."""
    if spec is None:
        spec = AgentSpec(label or _DEFAULT_NAME)
    elif not isinstance(spec, AgentSpec):
        raise DeclarationError(f"spec must be an AgentSpec, not {type(spec).__name__}")
    if isinstance(tools, (str, bytes)) or not isinstance(tools, Iterable):
        raise DeclarationError("tools must be a list of functions or tools")
    more = tuple(tools)
    if not more and model is None:
        return spec
    changed: dict[str, Any] = {"tools": (*spec.tools, *more)}
    if model is not None:
        changed["model"] = model
    return attrs.evolve(spec, **changed)


def check_prompt(prompt: Content) -> None:
    """Refuse a prompt that is blank or no content (A-080).

    Raises:
        DeclarationError: `blank-prompt` or `bad-option`.
    """
    blocks = [prompt] if isinstance(prompt, str) else prompt
    if isinstance(blocks, (list, tuple)) and all(
        isinstance(block, str) and not block.strip() for block in blocks
    ):
        raise DeclarationError("the prompt is blank", "blank-prompt")
    try:
        to_blocks(prompt)
    except UsageError as error:
        raise DeclarationError(f"the prompt is refused: {error}") from None


def check_name(option: str, value: object) -> None:
    """Refuse a label, title or key that is not text with a visible character.

    Raises:
        DeclarationError: `bad-option`; the text names the option.
    """
    if value is None:
        return
    if type(value) is not str or not value.strip():
        raise DeclarationError(
            f"{option} must be text that is not blank, not {value!r}"
        )


def _check_result(
    result: str | None,
    choice: Sequence[str] | None,
    choice_fallback: str | None,
    schema: object,
) -> None:
    if result is None:
        return
    if result != "report":
        raise DeclarationError(f"result must be 'report' or absent, not {result!r}")
    for name, value in (
        ("choice", choice),
        ("choice_fallback", choice_fallback),
        ("schema", schema),
    ):
        if value is not None:
            raise DeclarationError(f"result='report' and {name} exclude each other")
