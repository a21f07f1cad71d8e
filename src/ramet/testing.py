"""What tests of agents need: scripted models, gates, contract suites, the simulator."""

from .actors.model_scripted import (
    Gate,
    ScriptedModel,
    ScriptExhaustedError,
    Step,
    call,
    step,
)
from .lifecycle.bookkeeper import BookKeeper
from .lifecycle.contract_bookmarks import BookmarksContract
from .lifecycle.contract_model import ModelContract, ModelSubject
from .lifecycle.contract_store import StoreContract
from .lifecycle.fault_plan import EVERY_FAULT, NO_FAULTS, Faults
from .lifecycle.held import HookLostError
from .lifecycle.laws import check_laws
from .lifecycle.laws_log import LawBrokenError
from .lifecycle.simulate import explore, simulate
from .lifecycle.simulate_draw import Trace
from .lifecycle.simulate_report import Failure, SimulationReport
from .lifecycle.simulate_run import Scenario
from .lifecycle.simulate_world import World
from .lifecycle.waits import turn_ended

__all__ = [  # noqa: RUF022 (plain order, as in the face)
    "BookKeeper",
    "BookmarksContract",
    "EVERY_FAULT",
    "Failure",
    "Faults",
    "Gate",
    "HookLostError",
    "LawBrokenError",
    "ModelContract",
    "ModelSubject",
    "NO_FAULTS",
    "Scenario",
    "ScriptExhaustedError",
    "ScriptedModel",
    "SimulationReport",
    "Step",
    "StoreContract",
    "Trace",
    "World",
    "call",
    "check_laws",
    "explore",
    "simulate",
    "step",
    "turn_ended",
]
