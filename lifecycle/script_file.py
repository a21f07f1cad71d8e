"""Script files: a supervisor script read from disk, and what it declares.

Lives here: reading, loading and checking a script.  Its identity is made of the bytes
that were loaded (`sources.py`).  It runs the module's own top level and nothing else of
it.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..actors.agent import AgentSpec
from ..actors.budget import Limits
from ..actors.model import Model
from ..actors.policy import Policy
from ..mailbox.errors import UsageError
from .sources import digest_of, sources_of

if TYPE_CHECKING:
    from .flow import Flow

__all__ = ["Main", "ScriptFile", "load_script"]

Main: TypeAlias = "Callable[[Flow], Awaitable[Any]]"
"""What a script is: `async def main(flow)`."""

_QUIET: Mapping[str, Any] = {"notices": "quiet", "wake_budget": 0}
"""The policy of a root whose mind is the script: nothing that it hears wakes it."""


@attrs.frozen(eq=False)
class ScriptFile:
    """A loaded supervisor script.

    Attributes:
        path: where it lies, absolute.
        digest: of it and the local modules that it imports, in lower-case hex.
        main: its `main`.
        root: what the root of a run of it is made from.
        specs: other specs that stored sessions may need.
        model: the model that it declares for itself, or `None`.
        policy: the policy that it declares, or `None`.
        limits: what a run of it may spend, as it declares, or `None`.
        sources: the digest of each file that it is made of, by its name.
    """

    path: str
    digest: str
    main: Main
    root: AgentSpec
    specs: tuple[AgentSpec, ...] = ()
    model: Model | str | None = None
    policy: Policy | None = None
    limits: Limits | None = None
    sources: Mapping[str, str] = attrs.field(factory=dict)


def load_script(path: str | os.PathLike[str]) -> ScriptFile:
    """Read and load a supervisor script.

    A script has an `async def main(flow)`.  It may have, as names of its module, `root`
    (an `AgentSpec`), `specs` (a list of them), `model` (a model or its name),
    `policy` (a `Policy`) and `limits` (`Limits`, of the whole run).  The folder that it
    lies in is importable from then on.

    Raises:
        UsageError: there is no such file, or it is no supervisor script; the text says
            what is wrong, and where its top level raised.
    """
    given = os.fspath(path)
    if not given.strip():
        raise UsageError("a script is named by its path, which is blank")
    place = Path(given).absolute()
    try:
        source = place.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the script {given} cannot be read: {error.strerror or error}"
        ) from error
    sources = sources_of(place, source)
    module = _module(place, source)
    return ScriptFile(
        str(place),
        digest_of(sources),
        _main(module, given),
        _root(module, given),
        _specs(module, given),
        _optional(module, given, "model", (Model, str), "a model or its name"),
        _optional(module, given, "policy", (Policy,), "a Policy"),
        _optional(module, given, "limits", (Limits,), "Limits"),
        sources,
    )


def _module(place: Path, source: bytes) -> ModuleType:
    """Run the top level of a script, as a module of its own; no bytecode is written."""
    try:
        code = compile(source, str(place), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{place}{where} is not Python: {error}") from error
    name = f"ramet_script_{place.stem}"
    module = ModuleType(name)
    module.__file__ = str(place)
    folder = str(place.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Type hints and pickles of the script look their module up by its name.
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except KeyboardInterrupt:
        # A person's: no signal is received while a script is loaded.
        raise
    except BaseException as error:
        raise UsageError(_at_its_top_level(error, place)) from error
    return module


def _at_its_top_level(error: BaseException, place: Path) -> str:
    """What the top level of a script did instead of coming to its end, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(place)]
    where = f"({place}, line {lines[-1]})" if lines else f"({place})"
    if isinstance(error, SystemExit):
        return f"the script called sys.exit({error.code!r}) when it was loaded {where}"
    return (
        f"the script raised {type(error).__name__} when it was loaded:"
        f" {safe_text(error)} {where}"
    )


def safe_text(error: BaseException) -> str:
    """The text of an error, also of one whose text cannot be had."""
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"


def _main(module: ModuleType, given: str) -> Main:
    found = getattr(module, "main", None)
    if found is None:
        raise UsageError(f"{given} has no `async def main(flow)`")
    if not inspect.iscoroutinefunction(found):
        raise UsageError(f"main of {given} must be an `async def`")
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        raise UsageError(f"main of {given} must take one argument: {error}") from None
    main: Main = found
    return main


def _root(module: ModuleType, given: str) -> AgentSpec:
    found = _optional(module, given, "root", (AgentSpec,), "an AgentSpec")
    spec: AgentSpec = AgentSpec(Path(given).stem) if found is None else found
    if isinstance(spec.policy, Policy):
        return spec
    return attrs.evolve(spec, policy={**_QUIET, **(spec.policy or {})})


def _specs(module: ModuleType, given: str) -> tuple[AgentSpec, ...]:
    specs = getattr(module, "specs", ())
    if not isinstance(specs, (list, tuple)) or not all(
        isinstance(one, AgentSpec) for one in specs
    ):
        raise UsageError(f"specs of {given} must be a list of AgentSpec objects")
    return tuple(specs)


def _optional(
    module: ModuleType, given: str, name: str, kinds: tuple[Any, ...], what: str
) -> Any:
    value = getattr(module, name, None)
    if value is not None and not isinstance(value, kinds):
        raise UsageError(
            f"{name} of {given} must be {what}, not {type(value).__name__}"
        )
    return value
