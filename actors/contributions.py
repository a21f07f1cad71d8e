"""Set-up contributions: plug-in set-ups that give agents tools, texts and hooks.

Lives here: their registration and order, what one activation got of them, and
revocation. Publication is a commit (law 18): before it nothing of a set-up counts, and
it is validated again, synchronously, at that instant.  Grants wait for the next
activation, revocations do not (law 17).  It knows nothing of lives: whoever publishes
calls `publish`, whoever ends an activation calls `release`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..mailbox.errors import UsageError
from ..mailbox.events import Kind
from ..mailbox.message import CallResult
from .errors import DeclarationError
from .tool import Tool, ToolCall, as_tool

if TYPE_CHECKING:
    from .host import Host

__all__ = [
    "AfterCall",
    "BeforeCall",
    "Contribution",
    "Contributions",
    "Installation",
    "Revoked",
    "Setup",
]

Disposer: TypeAlias = Callable[[], None]
BeforeCall: TypeAlias = Callable[[str, str, ToolCall], "Awaitable[None] | None"]
AfterCall: TypeAlias = Callable[
    [str, CallResult, ToolCall], "Awaitable[CallResult | None] | CallResult | None"
]


class Setup:
    """What a contribution is given for one activation that is being set up.

    It is closed when the contribution returns.  Attributes: `kind` (one of the four
    kinds of agent), `agent_id`, `parent_id` and `name`.
    """

    __slots__ = (
        "_after",
        "_before",
        "_host",
        "_open",
        "_texts",
        "_tools",
        "_withheld",
        "agent_id",
        "kind",
        "name",
        "parent_id",
    )

    def __init__(
        self, kind: Kind, agent_id: str, parent_id: str | None, name: str, host: Host
    ) -> None:
        self.kind = kind
        self.agent_id: str = agent_id
        self.parent_id: str | None = parent_id
        self.name: str = name
        self._host = host
        self._open = True
        self._tools: list[Tool] = []
        self._withheld: list[str] = []
        self._texts: list[str] = []
        self._before: list[BeforeCall] = []
        self._after: list[AfterCall] = []

    @property
    def host(self) -> Host:
        """What tools may ask of the runtime, on behalf of their agent."""
        return self._host

    def add_tool(self, tool: Tool | Callable[..., Any]) -> None:
        """Offer a tool to this agent, for this activation.

        Raises:
            DeclarationError: it cannot be offered, or has the name `reply`, which only
                a returning agent has, from the runtime (A-003).
        """
        self._check()
        made = as_tool(tool)
        if made.name == "reply":
            raise DeclarationError("the name 'reply' belongs to the runtime")
        self._tools.append(made)

    def withhold_tool(self, name: str) -> None:
        """Say that a tool exists and that this agent may not call it (R-014)."""
        self._check()
        if type(name) is not str:
            raise UsageError("a tool is named by text")
        self._withheld.append(name)

    def add_instructions(self, text: str) -> None:
        """Add a text to the instructions of every request of this activation."""
        self._check()
        if type(text) is not str:
            raise UsageError("instructions must be text")
        self._texts.append(text)

    def before_call(self, hook: BeforeCall) -> None:
        """Run `hook(name, arguments, call)` before each tool call; may be async.

        When it raises, the call is not made and its result is that error.
        """
        self._check()
        _check_hook(hook)
        self._before.append(hook)

    def after_call(self, hook: AfterCall) -> None:
        """Run `hook(name, result, call)` after each tool call; may be async.

        It may give another `CallResult`, also an error; `None` keeps the result.
        """
        self._check()
        _check_hook(hook)
        self._after.append(hook)

    def _check(self) -> None:
        if not self._open:
            raise UsageError("this set-up is over: use it only inside the contribution")


Contribution: TypeAlias = Callable[[Setup], "Disposer | None"]


class _Registration:
    __slots__ = ("contribution", "installations", "revoked")

    def __init__(self, contribution: Contribution) -> None:
        self.contribution: Contribution = contribution
        self.revoked: bool = False
        self.installations: dict[Installation, None] = {}


class _Part:
    """What one contribution gave to one activation."""

    __slots__ = ("disposer", "registration", "setup")

    def __init__(
        self, registration: _Registration, setup: Setup, disposer: Disposer | None
    ) -> None:
        self.registration: _Registration = registration
        self.setup: Setup = setup
        self.disposer: Disposer | None = disposer


class Revoked(Exception):
    """A contribution was revoked between its set-up and publication."""


class Installation:
    """What one activation has of all contributions.

    `tools`, `texts` and the hooks leave out what was revoked.  Each disposer runs
    exactly once, whatever meets (R-193).
    """

    __slots__ = ("_parts", "after", "before", "names", "texts", "tools", "withheld")

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.withheld: tuple[str, ...] = ()
        self.tools: dict[str, Tool] = {}
        self.texts: tuple[str, ...] = ()
        self.before: tuple[BeforeCall, ...] = ()
        self.after: tuple[AfterCall, ...] = ()
        self.names: frozenset[str] = frozenset()

    def publish(self) -> None:
        """Validate again and commit, in the span that publishes the activation.

        Raises:
            Revoked: a contribution was revoked since its set-up; nothing is committed.
        """
        if not self._parts:
            return
        if any(part.registration.revoked for part in self._parts):
            raise Revoked
        for part in self._parts:
            part.registration.installations[self] = None

    def release(self) -> list[Exception]:
        """Dispose of everything, in reverse order; gives the errors."""
        errors: list[Exception] = []
        while self._parts:
            part = self._parts.pop()
            part.registration.installations.pop(self, None)
            _dispose(part, errors)
        return errors

    def drop(self, registration: _Registration) -> list[Exception]:
        """Dispose of what a revoked contribution gave; the rest stays."""
        errors: list[Exception] = []
        gone = [part for part in self._parts if part.registration is registration]
        self._parts = [p for p in self._parts if p.registration is not registration]
        self.collect()
        for part in reversed(gone):
            _dispose(part, errors)
        return errors

    def add(self, part: _Part) -> None:
        """Keep what a contribution gave, in order of registration."""
        self._parts.append(part)

    def collect(self) -> None:
        """Work out tools, texts and hooks from the parts that are left."""
        tools: dict[str, Tool] = {}
        for part in self._parts:
            for tool in part.setup._tools:
                if tool.name in tools:
                    raise DeclarationError(
                        f"two contributions add a tool {tool.name!r}"
                    )
                tools[tool.name] = tool
        self.tools = tools
        self.withheld = tuple(n for part in self._parts for n in part.setup._withheld)
        self.texts = tuple(t for part in self._parts for t in part.setup._texts)
        self.before = tuple(h for part in self._parts for h in part.setup._before)
        self.after = tuple(h for part in self._parts for h in part.setup._after)


_NOTHING = Installation()
"""What every agent has of no contributions; nothing is ever added to it."""


class Contributions:
    """The registered contributions, in order of registration."""

    def __init__(self) -> None:
        self._registrations: list[_Registration] = []

    def register(self, contribution: Contribution) -> Callable[[], list[Exception]]:
        """Register a contribution; gives what revokes it.

        Calling that again does nothing.  It gives the errors of the releases; when it
        has returned, no new call of the contribution's tools starts anywhere (R-194).

        Raises:
            UsageError: it is not a plain function.
        """
        if not _is_plain(contribution):
            raise UsageError("a contribution must be a plain function of a set-up")
        registration = _Registration(contribution)
        self._registrations.append(registration)

        def revoke() -> list[Exception]:
            if registration.revoked:
                return []
            registration.revoked = True
            self._registrations.remove(registration)
            errors: list[Exception] = []
            for installation in list(registration.installations):
                errors += installation.drop(registration)
            registration.installations.clear()
            return errors

        return revoke

    def install(
        self, kind: Kind, agent_id: str, parent_id: str | None, name: str, host: Host
    ) -> Installation:
        """Run every contribution for an activation that is being set up.

        When one raises, the ones before it are released in reverse order and the error
        comes out; errors of those releases are its notes (R-192).
        """
        if not self._registrations:
            return _NOTHING
        installation = Installation()
        for registration in tuple(self._registrations):
            setup = Setup(kind, agent_id, parent_id, name, host)
            try:
                disposer = registration.contribution(setup)
                if disposer is not None and not _is_plain(disposer):
                    raise UsageError(
                        "a contribution must give a plain function or None"
                    )
            except BaseException as error:
                _undo(installation, error)
                raise
            finally:
                setup._open = False
            installation.add(_Part(registration, setup, disposer))
        try:
            installation.collect()
            installation.names = frozenset(
                (*installation.tools, *installation.withheld)
            )
        except DeclarationError as error:
            _undo(installation, error)
            raise
        return installation


def _is_plain(function: object) -> bool:
    return callable(function) and not inspect.iscoroutinefunction(function)


def _undo(installation: Installation, error: BaseException) -> None:
    for other in installation.release():
        error.add_note(f"and a release failed: {other!r}")


def _check_hook(hook: object) -> None:
    if not callable(hook):
        raise UsageError(f"a hook must be a function, not {hook!r:.100}")


def _dispose(part: _Part, errors: list[Exception]) -> None:
    if part.disposer is not None:
        disposer, part.disposer = part.disposer, None
        try:
            disposer()
        except Exception as error:
            errors.append(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # A `SystemExit` of a disposer must not cut the end of an agent in two.
            failure = RuntimeError(f"a disposer raised {type(error).__name__}: {error}")
            failure.__cause__ = error
            errors.append(failure)
