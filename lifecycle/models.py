"""The models of one supervisor: names turned into models, made once and closed once.

Lives here: which model an agent thinks with.  What is made here from a name is closed
here; a model object that a user made is the user's to close.
"""

from __future__ import annotations

from collections.abc import Callable

from ..actors.model import Model
from ..actors.model_names import resolve_model
from ..mailbox.errors import UsageError

__all__ = ["Models"]


class Models:
    """Resolves model names; `default` is what a spec without a model gets.

    `around` is put around each model that is given out: the simulator's, to look on.
    """

    def __init__(self, default: Model | str | None) -> None:
        self.around: Callable[[Model], Model] = lambda model: model
        self._made: dict[str, Model] = {}
        self._default = None if default is None else self._resolve(default)

    def of(self, model: Model | str | None) -> Model | None:
        """The model of a spec, or the default.

        Raises:
            UsageError: the name is unknown, or it is no model.
        """
        found = self._default if model is None else self._resolve(model)
        return None if found is None else self.around(found)

    def _resolve(self, model: Model | str) -> Model:
        if isinstance(model, str):
            if model not in self._made:
                self._made[model] = resolve_model(model)
            return self._made[model]
        # As `isinstance` says it of this port, which takes long about it.
        if not (hasattr(model, "capabilities") and hasattr(model, "request")):
            raise UsageError(
                f"a model needs capabilities and request(), unlike {model!r}"
            )
        return model

    async def close(self) -> list[Exception]:
        """Close what was made from names; gives the errors."""
        errors: list[Exception] = []
        for model in self._made.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                try:
                    await close()
                except Exception as error:
                    errors.append(error)
        self._made.clear()
        return errors
