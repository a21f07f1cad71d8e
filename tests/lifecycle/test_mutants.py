"""The simulator can fail: each wrong rule that is planted here is found, by its law.

And many of them would be found by nothing else: under plain turns and without faults
they keep every law in every scenario.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ramet.lifecycle.held_loops import BackendName
from ramet.lifecycle.simulate_run import Replay, ScenarioFunction, run_one
from ramet.testing import NO_FAULTS, simulate
from tests.lifecycle.mutants import MUTANTS, Mutant
from tests.lifecycle.scenarios import PAIRS


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_rule_is_found_within_a_few_seeds(
    mutant: Mutant, backend: BackendName, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    for seed in range(mutant.within):
        law = run_one(mutant.scenario, backend, Replay(seed)).law
        # What else it breaks is passed over.
        if law is not None and re.search(mutant.law, law):
            return
    pytest.fail(f"{mutant.name} survived {mutant.within} seeds")


def test_ten_wrong_rules_pass_every_race_in_plain_turns(
    remark: Callable[[str], None],
) -> None:
    survivors = []
    for mutant in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            mutant.plant(patch)
            if all(_passes(scenario) for scenario in PAIRS):
                survivors.append(mutant.name)
    remark(f"{len(survivors)} of {len(MUTANTS)} mutants pass every race in plain turns")
    assert len(survivors) >= 10


def _passes(scenario: ScenarioFunction) -> bool:
    report = simulate(
        scenario, seeds=[2], backend="asyncio", faults=NO_FAULTS, fifo=True
    )
    return report.ok


def test_every_mutant_has_a_name_of_its_own_and_there_are_enough() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 25
