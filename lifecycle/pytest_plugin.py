"""The pytest plugin: tests that are simulated, and a supervisor for tests under trio.

Lives here: the marker `simulate`, which makes a search of a test function, and the
fixture `supervisor` for pytest-trio.  pytest loads it by the entry point of the
package; nothing of ramet is imported before a test needs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

__all__ = ["pytest_configure", "pytest_itemcollected", "supervisor", "world"]

_MARK = "simulate"
_OPTIONS = frozenset(("seeds", "backend", "store", "faults", "bound", "replay"))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "simulate(seeds=100, backend=None, store=None, faults=None, bound=None,"
        " replay=None): run an async test of a `world` for each seed, or under every"
        " schedule within a bound, or as a report names one run; on both backends if"
        " none is named",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a search in the place of a marked test function."""
    mark = item.get_closest_marker(_MARK)
    if mark is not None and isinstance(item, pytest.Function):
        item.obj = partial(_searched, item.obj, mark)


@pytest.fixture
def world() -> None:
    """What a test that is marked with `simulate` gets: the world of the run."""


@pytest.fixture
def supervisor_options() -> dict[str, Any]:
    """What `supervisor` opens its store with; a test module may give its own."""
    return {}


@pytest.fixture
async def supervisor(supervisor_options: dict[str, Any]) -> AsyncIterator[Any]:
    """A supervisor on a store in memory, under pytest-trio.

    With `autojump_clock` time passes as soon as everybody waits for it.
    """
    from .opening import open as open_supervisor

    async with open_supervisor(":memory:", **supervisor_options) as opened:
        yield opened


def _searched(
    function: Callable[..., Any], mark: pytest.Mark, /, **arguments: Any
) -> None:
    """Run the search that a marker asks for, and raise what it found."""
    from .fault_plan import Faults
    from .laws_log import LawBrokenError
    from .simulate import explore, simulate
    from .simulate_run import Scenario
    from .simulate_world import World

    unknown = sorted(mark.kwargs.keys() - _OPTIONS)
    if unknown or mark.args or "world" not in arguments:
        raise pytest.UsageError(
            f"@pytest.mark.simulate takes only {', '.join(sorted(_OPTIONS))}, by name,"
            " and marks an async test with an argument `world`"
        )
    given = {name: value for name, value in arguments.items() if name != "world"}
    options = mark.kwargs

    async def scenario(world: World) -> None:
        await function(world=world, **given)

    name = getattr(function, "__name__", "test")
    faults = options.get("faults")
    store: Any = options.get("store") or "memory"
    found = Scenario(scenario, name, store=store, faults=faults or Faults())
    backend = options.get("backend")
    for one in ("asyncio", "trio") if backend is None else (backend,):
        if options.get("replay") is not None:
            report = simulate(found, replay=options["replay"], backend=one)
        elif options.get("bound") is not None:
            report = explore(found, backend=one, bound=options["bound"])
        else:
            seeds = options.get("seeds", 100)
            listed = range(seeds) if isinstance(seeds, int) else seeds
            report = simulate(found, seeds=listed, backend=one, most_failures=1)
        if not report.ok:
            drawn = report.failures[0].trace.text()
            raise LawBrokenError(f"{report}\n\n{drawn}")
