"""What tests of agents need: scripted models, gates and contract suites."""

from .actors.model_scripted import Gate, ScriptedModel, ScriptExhaustedError, call, step
from .lifecycle.contract_store import StoreContract
from .lifecycle.waits import turn_ended

__all__ = [
    "Gate",
    "ScriptExhaustedError",
    "ScriptedModel",
    "StoreContract",
    "call",
    "step",
    "turn_ended",
]
