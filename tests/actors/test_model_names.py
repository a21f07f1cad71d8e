"""Tests of the names of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from ramet.actors.model_local import LocalModel
from ramet.actors.model_names import resolve_model
from ramet.actors.model_openai import OpenAIModel
from ramet.mailbox.errors import UsageError


def test_local_is_the_packaged_model() -> None:
    assert isinstance(resolve_model("local"), LocalModel)


def test_local_with_a_file_is_that_file(tmp_path: Path) -> None:
    weights = tmp_path / "own.gguf"
    weights.write_bytes(b"")
    assert repr(resolve_model(f"local:{weights}")) == "LocalModel('own.gguf')"
    with pytest.raises(UsageError, match=r"none\.gguf"):
        resolve_model("local:none.gguf")


def test_openai_takes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    model = resolve_model("openai:gpt:latest")
    assert isinstance(model, OpenAIModel)
    assert repr(model) == "OpenAIModel('gpt:latest')"


@pytest.mark.parametrize(
    "name", ["", "local:", "openai", "openai:", "openai: ", "gpt-5", "Local", " local"]
)
def test_another_name_is_refused_with_those_that_are_allowed(name: str) -> None:
    with pytest.raises(UsageError, match=r'"local".*"local:FILE\.gguf".*"openai:NAME"'):
        resolve_model(name)


def test_anthropic_is_not_there_yet() -> None:
    with pytest.raises(UsageError, match="this release has no adapter for anthropic"):
        resolve_model("anthropic:claude")


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(UsageError, match="not int"):
        resolve_model(7)  # type: ignore[arg-type]
