"""What tests of agents need: scripted models, gates and contract suites."""

from .actors.model_scripted import (
    Gate,
    ScriptedModel,
    ScriptExhaustedError,
    Step,
    call,
    step,
)
from .lifecycle.bookkeeper import BookKeeper
from .lifecycle.contract_model import ModelContract, ModelSubject
from .lifecycle.contract_store import StoreContract
from .lifecycle.waits import turn_ended

__all__ = [
    "BookKeeper",
    "Gate",
    "ModelContract",
    "ModelSubject",
    "ScriptExhaustedError",
    "ScriptedModel",
    "Step",
    "StoreContract",
    "call",
    "step",
    "turn_ended",
]
