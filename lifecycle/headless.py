"""Headless: one agent that answers one prompt and ends, and the document of its result.

Lives here: `run_headless` and the result document (acceptance list, 7), which runs of
scripts use too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import AXES, Limits, stated
from ..actors.contract import Contract, Reply
from ..actors.errors import DeclarationError
from ..actors.model import Model
from ..actors.outcome import Outcome
from ..actors.policy import Policy
from ..mailbox.canonical import canonical_json, indented_json
from ..mailbox.errors import UsageError
from ..mailbox.message import Content, Usage
from ..mailbox.store import Store
from .declaration import check_prompt
from .opening import open as open_supervisor

if TYPE_CHECKING:
    from .handle import Agent
    from .supervisor import Supervisor

__all__ = ["Headless", "HeadlessResult", "run_headless"]


@attrs.frozen(kw_only=True)
class HeadlessResult:
    """How a headless run ended, with what its document says.

    Attributes:
        outcome: the outcome of its assignment.
        usage: what the whole tree spent.
        turns: model requests of the root.
        duration_ms: whole milliseconds that it took.
        limits: the limits that were in force.
        session_id: the session of the root.
    """

    outcome: Outcome[Any]
    usage: Usage
    turns: int
    duration_ms: int
    limits: Limits
    session_id: str

    @property
    def value(self) -> Any:
        """The value, immutable; `None` for Empty and with every error."""
        return None if self.is_error else self.outcome.value

    @property
    def is_error(self) -> bool:
        """Whether it is anything but completed with acceptance."""
        return self.outcome.status != "completed" or self.outcome.acceptance is None

    @property
    def subtype(self) -> str:
        """The kind of result, as users of the field know it (A-061 to A-063)."""
        outcome = self.outcome
        if not self.is_error:
            return "success"
        if outcome.status == "stopped":
            turns = outcome.axis == "requests"
            return f"error_max_{'turns' if turns else outcome.axis}"
        if outcome.cause == "output-contract-exhausted":
            return "error_max_structured_output_retries"
        return "error_during_execution"

    @property
    def stop_reason(self) -> str:
        """`completed`, the cause with `_` for `-`, or the axis when it was stopped."""
        outcome = self.outcome
        if not self.is_error:
            return "completed"
        if outcome.status == "stopped" and outcome.axis is not None:
            return outcome.axis
        return (outcome.cause or outcome.status).replace("-", "_")

    @property
    def exit_status(self) -> int:
        """0 done, 1 failed, 3 stopped by a budget, 130 interrupted or cancelled."""
        if not self.is_error:
            return 0
        if self.outcome.cause in ("interrupted", "drain"):
            return 130
        return {"stopped": 3, "cancelled": 130}.get(self.outcome.status, 1)

    def document(self) -> dict[str, Any]:
        """The result document, as plain JSON data with every field."""
        outcome = self.outcome
        error = None
        if self.is_error:
            code = outcome.axis if outcome.status == "stopped" else outcome.cause
            error = {"code": code or outcome.status, "message": str(outcome)}
        budget = {axis: getattr(self.limits, axis) for axis in AXES}
        return {
            "type": "result",
            "subtype": self.subtype,
            "is_error": self.is_error,
            "result": self.value,
            "stop_reason": self.stop_reason,
            "num_turns": self.turns,
            "duration_ms": self.duration_ms,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cache_creation_input_tokens": self.usage.cache_creation_tokens,
                "cache_read_input_tokens": self.usage.cache_read_tokens,
            },
            "total_cost_usd": None,
            "budget": {
                axis: "unbounded" if value is None else value
                for axis, value in budget.items()
            },
            "session_id": self.session_id,
            "error": error,
        }

    def to_json(self) -> str:
        """The document as JSON text; unpaired surrogates are escaped (A-068)."""
        return indented_json(self.document())

    def to_line(self) -> str:
        """The document as JSON on one line."""
        return canonical_json(self.document())


class Headless:
    """One headless root on a running supervisor: `begin`, then `finish`.

    Args:
        supervisor: the running supervisor.
        spec: what the root is made from.
        sources: who set which axis of the limits, for its log.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        spec: AgentSpec,
        *,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(spec, AgentSpec):
            raise UsageError(f"an AgentSpec is needed, not {type(spec).__name__}")
        self._supervisor = supervisor
        self._spec = spec
        self._sources = sources
        run = supervisor._runtime.limits or Limits()
        self._limits = run.within(spec.limits or Limits())
        self._began = anyio.current_time()

    async def begin(
        self, prompt: Content, contract: Contract[Any] | None = None
    ) -> tuple[Agent, str]:
        """Start the root and tell it the prompt; gives it and the message.

        Raises:
            DeclarationError: `blank-prompt`, before any session.
            UsageError: the spec is refused.
        """
        check_prompt(prompt)
        contract = Reply() if contract is None else contract
        sending = self._supervisor._sending
        limits = canonical_json({"limits": stated(self._limits, self._sources)})
        root = await sending.start_root(
            self._spec,
            interactive=False,
            contract=contract,
            journal=("limits", limits),
        )
        return root, await self._supervisor.tell(root, prompt)

    async def finish(self, root: Agent, message: str) -> HeadlessResult:
        """Wait for its outcome and give the result."""
        outcome = await self._supervisor.wait(message)
        await root.wait_gone()
        usage = await self._supervisor.usage(root.id)
        spent = anyio.current_time() - self._began
        return HeadlessResult(
            outcome=outcome,
            usage=usage.subtree,
            turns=usage.own.requests,
            duration_ms=round(spent * 1000),
            limits=self._limits,
            session_id=root.id,
        )


async def run_headless(
    spec: AgentSpec,
    prompt: Content,
    *,
    store: str | os.PathLike[str] | Store = ":memory:",
    specs: Iterable[AgentSpec] = (),
    model: Model | str | None = None,
    policy: Policy | None = None,
    limits: Limits | None = None,
    contract: Contract[Any] | None = None,
) -> HeadlessResult:
    """Run one agent that answers one prompt with a value, and ends.

    Args:
        spec: what it is made from.
        prompt: what it is asked.
        store: as for `open`.
        specs: specs that agents below it may need.
        model: the default model.
        policy: the deployment's decisions.
        limits: what the run may spend, the root and all below it.
        contract: what it must return; `None`: any JSON value.

    Raises:
        DeclarationError: `blank-prompt`; nothing was started.
        UsageError: an argument is outside its contract.
        and what `open` raises.  How the run ended is in the result.
    """
    check_prompt(prompt)
    if contract is not None and not isinstance(contract, Contract):
        raise DeclarationError(f"contract must be a Contract, not {contract!r}")
    if not isinstance(spec, AgentSpec):
        raise UsageError(f"an AgentSpec is needed, not {type(spec).__name__}")
    async with open_supervisor(
        store, specs=[spec, *specs], model=model, policy=policy, limits=limits
    ) as supervisor:
        headless = Headless(supervisor, spec)
        root, message = await headless.begin(prompt, contract)
        return await headless.finish(root, message)
