"""The flow: what a supervisor script has in its hands.

Lives here: the calls of a script, each under a key that is made of its place, so that a
resumed run gets the answers that it had.  What is refused is `declaration.py`'s, places
and keys are `places.py`'s, and what is recalled is `recall.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.contract import Contract, Text
from ..actors.errors import DeclarationError
from ..actors.model import Model
from ..actors.tool import Tool
from ..mailbox.canonical import canonical_json
from ..mailbox.errors import UsageError
from ..mailbox.events import Journaled
from ..mailbox.message import Content
from ..mailbox.store import Reader
from .activation import Life
from .declaration import Declaration, check_name, check_prompt, declare, spec_of_options
from .flow_child import FlowChild
from .handle import Agent
from .places import Places, key_at
from .prose import prose_note
from .recall import Recall

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["Flow", "journal", "note"]


class Flow:
    """What `main(flow)` of a supervisor script is given; it is never made by a script.

    The calls of a script are found again by their place: a labelled call by its phase
    and label, any other by its ordinal.  So a run that is resumed gets the stored
    outcome of each call that completed, and makes the rest.
    """

    _recall: Recall
    _places: Places
    _input: Any
    _args: tuple[str, ...]
    _limits: Limits
    _model: str | None

    def __init__(self) -> None:
        raise TypeError("a flow is given to the main of a script, not made")

    @classmethod
    def _make(
        cls,
        supervisor: Supervisor,
        root: Agent,
        *,
        data: Any,
        args: Sequence[str],
        limits: Limits,
        model: str | None,
    ) -> Flow:
        flow = object.__new__(cls)
        flow._recall = Recall(supervisor, root)
        flow._places = Places()
        flow._input = data
        flow._args = tuple(args)
        flow._limits = limits
        flow._model = model
        return flow

    # -- what the run was given --------------------------------------------------------

    @property
    def input(self) -> Any:
        """The input of the run, as immutable JSON data; `None` when there is none."""
        return self._input

    @property
    def args(self) -> tuple[str, ...]:
        """The words after `--` on the command line."""
        return self._args

    @property
    def limits(self) -> Limits:
        """What the run may spend."""
        return self._limits

    @property
    def model(self) -> str | None:
        """How the default model of the run is called, or `None` when it has none."""
        return self._model

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor, with all that it offers."""
        return self._recall.supervisor

    @property
    def root(self) -> Agent:
        """The root of the run: the parent of every agent that the script starts."""
        return self._recall.root

    # -- calls -------------------------------------------------------------------------

    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        contract: Contract[Any] | None = None,
        choice: Sequence[str] | None = None,
        choice_fallback: str | None = None,
        schema: object = None,
        returns: type[Any] | None = None,
        text: bool = False,
        result: str | None = None,
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> Any:
        """Call a one-shot agent and give its value.

        Args:
            prompt: what it is asked.
            label: its name within the phase; no two live calls share one.
            title: what a person reads of it.
            contract: what it must return; or, instead, one of `choice` (its members,
                with `choice_fallback`), `schema`, `returns` (an attrs class) or `text`.
            choice: the members of a choice.
            choice_fallback: the member that stands in when it does not choose.
            schema: a JSON schema of the dialect.
            returns: an attrs class, of which the value is an instance.
            text: whether its exact final message is the value.
            result: not offered by this release.
            spec: what it is made from; `None`: a plain agent with the default model.
            tools: more tools than those of the spec.
            model: another model than that of the spec.
            limits: what it may spend.
            attempts: 1; more is not offered by this release.
            key: the script's own name for the call, instead of its place.

        Raises:
            DeclarationError: `bad-option`, `blank-prompt`, `slot-conflict` or
                `unsupported-schema`; nothing was started (A-075).
            OutcomeError: it came to no value; the class says how, `code` why.
        """
        try:
            check_name("key", key)
            declared = declare(
                prompt,
                label=label,
                title=title,
                contract=contract,
                choice=choice,
                choice_fallback=choice_fallback,
                schema=schema,
                returns=returns,
                text=text,
                result=result,
                spec=spec,
                tools=tools,
                model=model,
                limits=limits,
                attempts=attempts,
            )
            place = self._places.take("agent", label, key)
        except DeclarationError as error:
            self._refused(error)
            raise
        try:
            name = key_at(place, declared.request, named=key is not None)
            outcome = await self._recall.call(declared, name)
        finally:
            self._places.leave(place)
        if isinstance(declared.contract, Text) and outcome.acceptance is not None:
            await self._note_prose(outcome.session_id)
        return outcome.unwrap()

    async def spawn(
        self,
        prompt: Content,
        *,
        spec: AgentSpec | None = None,
        label: str | None = None,
        key: str | None = None,
    ) -> FlowChild:
        """Start a continuable child; returns when its prompt is durable.

        In a resumed run the same call gives the same child: what it was asked and has
        ended runs no more; a turn that was cut off is gone on with.

        Args:
            prompt: its first assignment.
            spec: what it is made from; `None`: a plain agent with the default model.
                Specs of children need names of their own.
            label: its name within the phase.
            key: the script's own name for it, instead of its place.

        Raises:
            DeclarationError: `bad-option`, `blank-prompt` or `slot-conflict`; nothing
                was started.
            and what `Supervisor.start_child` raises.
        """
        try:
            check_prompt(prompt)
            check_name("label", label)
            check_name("key", key)
            declared = Declaration.of_child(
                prompt, spec_of_options(spec, label, (), None), label
            )
            place = self._places.take("spawn", label, key)
        except DeclarationError as error:
            self._refused(error)
            raise
        try:
            name = key_at(place, declared.request, named=key is not None)
            child_id, messages = await self._recall.start(declared.spec, prompt, name)
        finally:
            self._places.leave(place)
        return FlowChild._make(self._recall, child_id, place, messages)

    # -- the journal -------------------------------------------------------------------

    def phase(self, name: str) -> None:
        """Begin a phase: a name for what follows, also for the labels of calls.

        Raises:
            UsageError: the name is no text, or blank.
        """
        if type(name) is not str or not name.strip():
            raise UsageError(f"a phase is named by text, not by {name!r}")
        self._places.phase = name
        self._note("phase", {"name": name})

    def log(self, text: str) -> None:
        """Write a line to the journal, and to whoever watches the run.

        Raises:
            UsageError: it is no text.
        """
        if type(text) is not str:
            raise UsageError(f"what is logged is text, not {type(text).__name__}")
        self._note("log", {"text": text})

    async def _note_prose(self, session_id: str) -> None:
        """Note that a text call wrote much more than its final message (A-073)."""
        storage = self.supervisor._runtime.storage
        text = prose_note(await storage.read(Reader.load, session_id))
        if text is not None:
            data = {"code": "longer-prose", "text": text, "session": session_id}
            self._note("log", data)

    def _refused(self, error: DeclarationError) -> None:
        """A refused declaration is one line of the journal (A-158)."""
        self._note("log", {"code": error.code, "text": str(error)})

    def _note(self, kind: str, data: dict[str, Any]) -> None:
        note(self.supervisor, self.root, kind, data)

    def __repr__(self) -> str:
        return f"<Flow of {self.root.id}>"


def note(supervisor: Supervisor, agent: Agent, kind: str, data: dict[str, Any]) -> None:
    """Write to the journal in an agent's log; nothing when the agent is gone.

    It awaits no durability: it is stored in order with all else.
    """
    activation = agent._activation
    if activation.life is Life.GONE:
        return
    runtime = supervisor._runtime
    event = Journaled(kind, canonical_json(data), runtime.ambient.now_ms())
    runtime.forest.log(activation, event)


async def journal(
    supervisor: Supervisor, agent: Agent, kind: str, data: dict[str, Any]
) -> None:
    """Write to the journal in an agent's log; durable when it returns.

    Raises:
        SendUnknownError: the commit failed.
    """
    note(supervisor, agent, kind, data)
    await supervisor._runtime.stored(agent.id, agent._activation.ticket, None)
