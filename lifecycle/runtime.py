"""The runtime: where ports meet adapters, and what all operations share.

Lives here: the wiring of one open store: gate, forest, admission, driver, observers,
and the specs bound by name.  It has no operation of its own; `sending.py`,
`residency.py` and `inquiry.py` have them, and `supervisor.py` is their public face.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from ..actors.agent import AgentSpec
from ..actors.bound import BoundSpec, bind
from ..actors.budget import Limits
from ..actors.contract import Contract, Returns, contract_text
from ..actors.contributions import Contributions
from ..actors.host import Host
from ..actors.model import Model
from ..actors.policy import Policy
from ..mailbox.backend import Backend
from ..mailbox.errors import SendUnknownError, UsageError
from ..mailbox.ids import Ambient
from ..mailbox.keys import check_key
from ..mailbox.storage import Storage
from ..mailbox.store import KeyRow, Reader
from ..mailbox.writer import Gate
from .activation import Activation
from .admission import Admission
from .alarms import Alarms
from .allowance import Account
from .driver import Driver
from .forest import Forest
from .handle import Agent, Owner, handle_of
from .lending import Lending
from .models import Models
from .observe import Stage
from .returning import child_view
from .tally import Tally
from .teardown import Teardown

__all__ = ["Runtime"]


class Asked:
    """The block around an accepting span; it gives what the store knows of a key.

    Every send pays for it, so it is written by hand.
    """

    __slots__ = ("_asking", "_key", "_runtime", "_sender")

    def __init__(self, runtime: Runtime, sender: str, key: str | None) -> None:
        self._runtime = runtime
        self._sender = sender
        self._key = key
        self._asking = 0

    async def __aenter__(self) -> KeyRow | None:
        runtime = self._runtime
        runtime.calls.enter()
        try:
            await runtime.backend.check_cancelled()
            if self._key is None:
                return None
            runtime.admission.open()
            self._asking = runtime.forest.keys.begin_asking()
            return await runtime.storage.read(Reader.find, self._sender, self._key)
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._asking:
            self._runtime.forest.keys.end_asking(self._asking)
        self._runtime.calls.leave()


class Runtime:
    """Everything that one open store runs with."""

    def __init__(
        self,
        storage: Storage,
        backend: Backend,
        ambient: Ambient,
        *,
        specs: Iterable[AgentSpec],
        model: Model | str | None,
        policy: Policy,
        limits: Limits | None,
        host: Host,
        owner: Owner,
    ) -> None:
        self.policy = policy
        self.limits = limits
        self.storage = storage
        self.backend = backend
        self.ambient = ambient
        self.owner = owner
        self.gate: Gate = Gate(storage, backend, ambient.new("h"))
        self.forest: Forest = Forest(self.gate, ambient, self._drive)
        self.stage: Stage = Stage(backend)
        self.models: Models = Models(model)
        self.contributions: Contributions = Contributions()
        self.admission: Admission = Admission(self.forest, self.contributions, host)
        self.teardown: Teardown = Teardown(self.forest, backend)
        self.driver: Driver = Driver(self.forest, self.stage, backend, self.agent)
        # A spec may be made for one agent: what is made of it goes with it.
        self.bound: WeakKeyDictionary[AgentSpec, BoundSpec] = WeakKeyDictionary()
        self.specs: dict[str, AgentSpec] = {}
        self.declared: dict[str, Returns[Any]] = {}
        self.failures: list[Exception] = []
        self.faults: dict[str, str] = {}
        self.gate_scope: anyio.CancelScope | None = None
        self.calls: Tally = Tally(backend)
        self.waits: Tally = Tally(backend)
        for spec in specs:
            self._name_spec(spec)
        self.gate.on_commit = self.stage.committed
        self.gate.on_failure = self._store_failed
        self.gate.on_error = self._note_error
        self.forest.on_closing = self._tell_closing
        self.forest.view = self._view
        limiter = self.forest.limiter
        limiter.clock = backend.now
        limiter.alarm = Alarms(backend, self._note_error).set
        if limits is not None and limits.bounded:
            limiter.run = Account(limits, "the run", now=backend.now())

    def agent(self, activation: Activation) -> Agent:
        """The handle of an activation."""
        return handle_of(activation, self.owner)

    def lending(self) -> Lending:
        """The block around a wait for another agent."""
        return Lending(self.forest.limiter, self.backend)

    # -- specs -------------------------------------------------------------------------

    def _name_spec(self, spec: AgentSpec) -> None:
        if not isinstance(spec, AgentSpec):
            raise UsageError(f"specs must hold AgentSpec objects, not {spec!r}")
        other = self.specs.get(spec.name)
        if other is not None and other is not spec:
            raise UsageError(f"two specs have the name {spec.name!r}")
        self.specs[spec.name] = spec

    def declare(self, contract: Contract[Any]) -> str:
        """The record of a contract, for a header.

        The class of a `Returns` is kept beside its record, so that this process gives
        instances whoever asks for the outcome (A-189).
        """
        text = contract_text(contract)
        if contract.kind == "schema" and isinstance(contract, Returns):
            self.declared[text] = contract
        return text

    def bind(self, spec: AgentSpec) -> BoundSpec:
        """The bound form of a spec, made once.

        Raises:
            UsageError: it is no spec, or its model cannot be had.
        """
        if not isinstance(spec, AgentSpec):
            raise UsageError(f"an AgentSpec is needed, not {type(spec).__name__}")
        bound = self.bound.get(spec)
        if bound is None:
            bound = bind(spec, self.policy, self.models.of(spec.model))
            self.bound[spec] = bound
        return bound

    def _differs(self, one: AgentSpec, other: AgentSpec) -> bool:
        """Whether agents of two specs would not be the same."""
        if one is other:
            return False
        return (
            self.bind(one).record != self.bind(other).record
            or one.model is not other.model
            or one.policy != other.policy
            or one.settings != other.settings
        )

    def bind_by_name(self, spec: AgentSpec) -> BoundSpec:
        """The bound form of a spec whose agents may be resumed by its name.

        Raises:
            UsageError: another spec has that name, so that a resume could not tell.
        """
        bound = self.bind(spec)
        if spec.name not in self.specs:
            self.specs[spec.name] = spec
        elif self._differs(self.specs[spec.name], spec):
            raise UsageError(
                f"another spec has the name {spec.name!r}: a session is resumed by the"
                " name of its spec, so use one object, or another name"
            )
        return bound

    # -- keys and acknowledgement ------------------------------------------------------

    def asked(self, sender: str, key: str | None, *, own: bool = False) -> Asked:
        """Ask the store for a key; the accepting span belongs inside the block.

        Args:
            sender: whose key it is.
            key: the key, or `None`.
            own: whether it is one of the runtime's own.
        """
        if not own:
            check_key(key)
        return Asked(self, sender, key)

    def stored(self, name: str, ticket: int, key: str | None) -> Awaitable[None]:
        """Wait until what `name` names is durable."""
        return self.gate.wait(ticket, key or name)

    def _view(self, activation: Activation) -> str:
        parent = activation.parent
        cap = None if parent is None else parent.bound.policy.inline_cap
        return child_view(activation, cap)

    def let_go(self) -> None:
        """Let go of the store at once, whatever is left; nothing when all is done."""
        if self.gate_scope is not None:
            self.gate_scope.cancel()
        self.storage.abandon()

    async def quiet(self) -> None:
        """Wait until everything written is durable; a failed commit ends the wait."""
        with contextlib.suppress(SendUnknownError):
            await self.gate.wait(self.gate.ticket)

    # -- what others call --------------------------------------------------------------

    def _drive(self, activation: Activation) -> None:
        self.backend.spawn(self.driver.run, activation)

    def _store_failed(self) -> None:
        self.forest.store_failed()
        self.stage.close()

    def _note_error(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            error = RuntimeError(f"{type(error).__name__} in a callback: {error}")
        self.failures.append(error)

    def _tell_closing(self, activation: Activation) -> None:
        closing = activation.closing
        self.stage.closing(activation.id, "" if closing is None else closing.cause)
