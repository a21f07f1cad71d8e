"""The errors of one agent's work have their classes, codes and texts, also pickled."""

from __future__ import annotations

import pytest

from ramet.actors import errors
from ramet.actors.errors import (
    AgentFailedError,
    ContextOverflowError,
    DeclarationError,
    ModelError,
    OutcomeError,
    RequestTimeoutError,
    UnsupportedSchemaError,
)
from ramet.actors.outcome import Outcome
from ramet.mailbox.errors import RametError, RemoteCause
from tests.errors import Stubborn, errors_of, pickled


@pytest.mark.case("R-218")
@pytest.mark.parametrize("cls", errors_of(errors), ids=lambda cls: cls.__name__)
def test_an_error_is_pickled_with_class_code_text_and_the_text_of_its_cause(
    cls: type[RametError],
) -> None:
    pickled(cls("what to do"))
    assert cls.__doc__


def test_a_declaration_has_the_code_that_it_is_given() -> None:
    assert DeclarationError("x").code == "bad-option"
    blank = DeclarationError("x", "blank-prompt")
    assert blank.code == "blank-prompt"
    assert pickled(blank).code == "blank-prompt"


def test_an_unsupported_schema_names_its_path() -> None:
    error = UnsupportedSchemaError("$.properties.a")
    assert str(error) == "unsupported-schema at $.properties.a"
    assert error.code == "unsupported-schema"
    assert pickled(error).path == "$.properties.a"


def test_what_a_model_port_says_has_three_codes() -> None:
    assert ModelError("x").code == "provider-error"
    assert RequestTimeoutError("x").code == "request-timeout"
    assert ContextOverflowError("x").code == "context-overflow"


@pytest.mark.case("A-046")
def test_the_code_of_an_outcome_error_is_the_cause_of_the_outcome() -> None:
    failed: Outcome[None] = Outcome(status="failed", cause="no-reply")
    bare: Outcome[None] = Outcome(status="cancelled")
    assert AgentFailedError("x", failed).code == "no-reply"
    assert OutcomeError("x", bare).code == "cancelled"
    assert OutcomeError("x").code == "RAMET"
    assert not hasattr(OutcomeError("x"), "outcome")


@pytest.mark.case("R-218", "A-046")
@pytest.mark.parametrize(
    ("error", "kind"), [(Stubborn("a", "b"), RemoteCause), (OSError("c"), OSError)]
)
def test_an_outcome_error_is_pickled_with_its_outcome(
    error: Exception, kind: type[Exception]
) -> None:
    outcome: Outcome[str] = Outcome(status="failed", cause="unclassified", error=error)
    back = pickled(AgentFailedError("it failed", outcome))
    assert back.outcome == outcome
    assert type(back.outcome.error) is kind
    assert back.code == "unclassified"
