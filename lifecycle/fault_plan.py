"""The fault plan of a simulated run: what goes wrong in it, and when.

Lives here: the faults that a search may draw, and the plan that one seed draws of them
before its run.  What a plan says is done by the simulated store and world.
"""

from __future__ import annotations

import random
from collections.abc import Collection

import attrs

from ..mailbox.errors import UsageError

__all__ = ["EVERY_FAULT", "NO_FAULTS", "Faults", "Plan"]

_SOME = 0.15
"""The share of requests or calls that a fault meets, in a run that has it."""


def _check_share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{attribute.name} must be a share from 0 to 1, not {value}")


def _share(default: float) -> float:
    found: float = attrs.field(default=default, converter=float, validator=_check_share)
    return found


@attrs.frozen(kw_only=True)
class Faults:
    """What may go wrong, each as the share of runs, from 0 to 1, in which it does.

    By default a run meets the faults that change nothing which a sound program may rely
    on: time passes, and a process ends.  The others change outcomes.

    Args:
        late_commits: the store takes seconds for some commits.
        slow_models: models take seconds for some answers.
        crash: the process is killed; what was durable is there when it is opened again.
        failed_commit: a commit fails, and whether it was stored is not known.
        failing_models: some requests fail as a provider fails them.
        raising_tools: some calls of tools raise.
        hanging_tools: some calls of tools hang until they are cancelled.
        stubborn_tools: some calls of tools take seconds and ignore a cancellation.
    """

    late_commits: float = _share(0.5)
    slow_models: float = _share(0.5)
    crash: float = _share(0.15)
    failed_commit: float = _share(0.1)
    failing_models: float = _share(0.0)
    raising_tools: float = _share(0.0)
    hanging_tools: float = _share(0.0)
    stubborn_tools: float = _share(0.0)


NO_FAULTS = Faults(late_commits=0.0, slow_models=0.0, crash=0.0, failed_commit=0.0)
"""Nothing goes wrong; who goes next, and how many steps a commit takes, still vary."""

EVERY_FAULT = Faults(
    failing_models=0.25, raising_tools=0.25, hanging_tools=0.15, stubborn_tools=0.15
)
"""All that there is."""


@attrs.frozen(kw_only=True)
class Plan:
    """What one run meets.

    Attributes:
        steps: the most steps that a commit or a read takes.
        threaded: whether batches are handed over as to a writer's thread.
        late_commits_s: how long a late commit takes, if some are.
        slow_models_s: how long a slow answer takes, if some are.
        crash: the commit at which the process is killed, and how many steps later.
        crash_again: the same for its recovery.
        failed_commit: the commit that fails, and whether it was stored nevertheless.
        failing_models: the share of requests that fail.
        raising_tools: the share of calls that raise.
        hanging_tools: the share of calls that hang.
        stubborn_tools: the share of calls that ignore a cancellation.
        reopens: whether what ended in order is opened once more.
    """

    steps: int = 0
    threaded: bool = True
    late_commits_s: float | None = None
    slow_models_s: float | None = None
    crash: tuple[int, int] | None = None
    crash_again: tuple[int, int] | None = None
    failed_commit: tuple[int, bool] | None = None
    failing_models: float = 0.0
    raising_tools: float = 0.0
    hanging_tools: float = 0.0
    stubborn_tools: float = 0.0
    reopens: bool = False

    @classmethod
    def draw(cls, seed: int, faults: Faults) -> Plan:
        """Draw the plan of a seed."""
        dice = random.Random(f"plan {seed}")

        def meets(share: float) -> bool:
            # Drawn also where it cannot be, so that one share does not move another.
            return dice.random() < share

        def commit() -> int:
            return dice.randrange(dice.choice((8, 25, 80)))

        steps = dice.choice((0, 1, 4, 16))
        threaded = dice.random() < 0.5
        late_commits_s, slow_models_s = (
            dice.choice((0.01, 0.3, 40.0)),
            dice.choice((0.01, 2.0, 600.0)),
        )
        crash = commit(), dice.randrange(dice.choice((1, 4, 20)))
        again = commit(), dice.randrange(4)
        failed = commit(), dice.random() < 0.5
        return cls(
            steps=steps,
            threaded=threaded,
            late_commits_s=late_commits_s if meets(faults.late_commits) else None,
            slow_models_s=slow_models_s if meets(faults.slow_models) else None,
            crash=crash if meets(faults.crash) else None,
            crash_again=again if meets(0.4 if faults.crash else 0.0) else None,
            failed_commit=failed if meets(faults.failed_commit) else None,
            failing_models=_SOME if meets(faults.failing_models) else 0.0,
            raising_tools=_SOME if meets(faults.raising_tools) else 0.0,
            hanging_tools=_SOME if meets(faults.hanging_tools) else 0.0,
            stubborn_tools=_SOME if meets(faults.stubborn_tools) else 0.0,
            reopens=dice.random() < 0.2,
        )

    @property
    def drawn(self) -> tuple[str, ...]:
        """The names of what it has beyond the plain plan, in the order of the fields.

        `steps` and `threaded` count too: the shortest failing run has neither.
        """
        plain = Plan()
        names = [field.name for field in attrs.fields(Plan)]
        return tuple([n for n in names if getattr(self, n) != getattr(plain, n)])

    def without(self, names: Collection[str]) -> Plan:
        """The same plan with some of it left out; `all` names all of it.

        Raises:
            UsageError: a name is none of a plan's.
        """
        plain = Plan()
        if "all" in names:
            return plain
        known = {field.name for field in attrs.fields(Plan)}
        unknown = sorted(set(names) - known)
        if unknown:
            raise UsageError(f"a plan has no {unknown[0]!r}")
        return attrs.evolve(self, **{name: getattr(plain, name) for name in names})
