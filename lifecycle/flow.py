"""The flow: what a supervisor script has in its hands.

Lives here: the calls of a script, each at a place of its own, so that a resumed run
gets the answers that it had.  What is refused is `declaration.py`'s, places and keys
are `places.py`'s, how a call is made or replayed is `calling.py`'s, and children are
recalled by `recall.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.contract import Contract
from ..actors.errors import DeclarationError
from ..actors.model import Model
from ..actors.tool import Tool
from ..mailbox.canonical import canonical_json, digest_text
from ..mailbox.errors import UsageError
from ..mailbox.message import Content
from .call_report import CAPTURED, report_of_answer, report_of_failure
from .calling import Answer, Calling
from .declaration import Declaration, check_name, check_prompt, declare, spec_of_options
from .flow_child import FlowChild
from .group import check_members, run_group
from .handle import Agent
from .items import Item, items_of
from .journal import Journal
from .places import Places, key_at
from .recall import Recall
from .recorded import Recorded
from .replay import Replay

if TYPE_CHECKING:
    from .supervisor import Supervisor

__all__ = ["Flow"]

T = TypeVar("T")
M = TypeVar("M", bound=str)


class Flow:
    """What `main(flow)` of a supervisor script is given; it is never made by a script.

    The calls of a script are found again by their place: a labelled call by its phase
    and label, any other by its ordinal, and each in the group or the work unit that it
    stands in.  So a run that is resumed gets the value of each call that completed, and
    makes the rest.
    """

    _recall: Recall
    _places: Places
    _journal: Journal
    _replay: Replay
    _calling: Calling
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
        source: str = "",
        recorded: Recorded | None = None,
        rerun: str | None = None,
    ) -> Flow:
        flow = object.__new__(cls)
        flow._recall = Recall(supervisor, root)
        flow._places = Places()
        flow._journal = Journal(supervisor, root)
        flow._replay = Replay(supervisor, root.id, flow._places, recorded, rerun)
        flow._calling = Calling(
            flow._recall,
            flow._journal,
            flow._replay,
            source,
            digest_text(canonical_json(data)),
        )
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

    @overload
    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        result: Literal["report"],
        returns: type[Any] | None = None,
        text: bool = False,
        contract: Contract[Any] | None = None,
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> str: ...

    @overload
    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        contract: Contract[T],
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> T: ...

    @overload
    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        choice: Sequence[M],
        choice_fallback: str | None = None,
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> M: ...

    @overload
    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        returns: type[T],
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> T: ...

    @overload
    async def agent(
        self,
        prompt: Content,
        *,
        label: str | None = None,
        title: str | None = None,
        text: Literal[True],
        spec: AgentSpec | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        model: Model | str | None = None,
        limits: Limits | None = None,
        attempts: int = 1,
        key: str | None = None,
    ) -> str: ...

    @overload
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
    ) -> Any: ...

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
            result: `"report"`: give a text about the call instead of its value, also
                where it failed by `provider-error`, `empty-answer` or `no-reply`.
            spec: what it is made from; `None`: a plain agent with the default model.
            tools: more tools than those of the spec.
            model: another model than that of the spec.
            limits: what it may spend.
            attempts: how many agents it may take: after a `request-timeout` of one that
                had done nothing, a fresh one gets the time that is left.
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
            named = key is not None
            answer = await self._calling.call(declared, place, named=named)
        finally:
            self._places.leave(place)
        return _report(declared, answer) if declared.report else answer.outcome.unwrap()

    async def parallel(
        self,
        members: Sequence[Callable[[], Awaitable[T]]],
        *,
        fail_fast: bool = False,
    ) -> list[T]:
        """Run functions side by side, and give what they gave, in their order.

        All of them have settled when it returns or raises.  Each call in a member has a
        place of its own, by the number of the group and of the member, or by the work
        unit that `Item.bind` bound.

        Args:
            members: functions without arguments that are awaited: a `partial` of
                `flow.agent`, or a function of the script.
            fail_fast: whether the others are cancelled when one has failed.

        Raises:
            DeclarationError: `bad-option`: a member is no such function.
            GroupFailureError: members failed; it holds each failure, and how each
                member ended.
        """
        try:
            found = check_members(members)
            if type(fail_fast) is not bool:
                raise DeclarationError("fail_fast must be True or False")
        except DeclarationError as error:
            self._refused(error)
            raise
        return await run_group(
            found,
            self._places,
            self._journal,
            self._replay,
            backend=self.supervisor._runtime.backend,
            fail_fast=fail_fast,
        )

    def items(self, name: str, values: Iterable[T]) -> list[Item[T]]:
        """Name work units, so that each has a place by its value and not its number.

        Args:
            name: what they are called.
            values: JSON data, each; equal ones are told apart by their order.

        Raises:
            UsageError: the name is blank, or a value is not JSON data.
        """
        made = items_of(self._places, name, values)
        self._journal.tell(
            "items", f"{len(made)} work units: {name}", name=name, count=len(made)
        )
        return made

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
            name = key_at(place, declared.first_request, named=key is not None)
            child_id, messages = await self._recall.start(declared.spec, prompt, name)
            self._journal.tell(
                "spawned",
                f"the child {declared.spec.name} is {child_id}",
                session=child_id,
                label=label,
                phase=place.phase,
                place=list(place.steps),
            )
        finally:
            self._places.leave(place)
        return FlowChild._make(self._recall, child_id, place, messages)

    # -- the journal -------------------------------------------------------------------

    def phase(self, name: str) -> None:
        """Begin a phase: a name for what follows, also for the labels of calls.

        In a member of a group it is the phase of that member alone.

        Raises:
            UsageError: the name is no text, or blank.
        """
        if type(name) is not str or not name.strip():
            raise UsageError(f"a phase is named by text, not by {name!r}")
        self._places.lane.phase = name
        self._journal.note("phase", {"name": name})

    def log(self, text: str) -> None:
        """Write a line to the journal, and to whoever watches the run.

        Raises:
            UsageError: it is no text.
        """
        if type(text) is not str:
            raise UsageError(f"what is logged is text, not {type(text).__name__}")
        self._journal.note("log", {"text": text})

    def _refused(self, error: DeclarationError) -> None:
        """A refused declaration is one line of the journal (A-158)."""
        self._journal.tell(error.code, str(error))

    def __repr__(self) -> str:
        return f"<Flow of {self.root.id}>"


def _report(declared: Declaration, answer: Answer) -> str:
    """The call as an observation; what no report captures is raised (A-133)."""
    outcome, session = answer.outcome, answer.session
    label, title = declared.label, declared.title
    if outcome.status == "completed" and outcome.acceptance and session is not None:
        return report_of_answer(label, title, outcome, session)
    if outcome.status == "failed" and outcome.cause in CAPTURED:
        return report_of_failure(label, title, outcome, session)
    outcome.unwrap()
    raise AssertionError("a call without acceptance raises")
