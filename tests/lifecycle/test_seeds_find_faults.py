"""The seeds can fail: they find faults of the table in `tests/planted/`, by its law.

Too rare for a few seeds is a promotion at the end of a turn that was interrupted: some
two seeds in a thousand find it, and `test_notices.py` holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import pytest

from tests.lifecycle.play import BrokenPlayError, main, play
from tests.lifecycle.recover import recover
from tests.planted.table import FAULTS
from tests.schedules import Backend, Kind


@attrs.frozen
class Search:
    """Where a fault is found: the words that name its law, and in which plays.

    `within` is the number of seeds in which both backends must find it: some five times
    what it takes on the average, since any change of the runtime moves the seeds.
    """

    law: str
    within: int = 40
    search: Callable[[Backend, Kind, int], object] = play


SEARCHES = {
    "a wake is lost between the last look and parking": Search("a wake was lost", 150),
    "a quiet message wakes": Search("a quiet message of"),
    "a quiet message overtakes a wakeup of its sender": Search("order of", 200),
    "nothing inside an agent waits for its log": Search("before its log is durable"),
    "a message is acknowledged before it is stored": Search(
        "acknowledged and not stored"
    ),
    "a key leaves its table while somebody asks for it": Search("used the key", 250),
    "a load does not wait for what the session wrote": Search("a commit failed", 80),
    "a cancel forgets the grandchildren": Search("below who is closing", 100),
    "a drain discards": Search("discarded by drain", 60),
    "a parent in a turn gets no notice": Search("that were told"),
    "an agent settles with a wakeup that waits": Search("settled with a wakeup", 150),
    "an interrupt is forgotten at the end of the turn": Search("forgot an interrupt"),
    "a claim is never given back": Search("epochs are left", 60),
    "state changes outside of events": Search("the fold of the log", 80),
    "recovery tells again": Search("told of twice|was told|were told", search=recover),
}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_planted_fault_is_found_within_a_few_seeds(
    name: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[name].plant(monkeypatch)
    with pytest.raises(BrokenPlayError, match=SEARCHES[name].law) as found:
        _search(SEARCHES[name], backend)
    again = f"again: python -m tests.lifecycle.play --backend {backend} --kind "
    assert again in str(found.value)


def _search(search: Search, backend: Backend) -> None:
    """Play seeds until the law is named; what else the fault breaks is passed over."""
    for seed in range(search.within):
        try:
            search.search(backend, "walk" if seed % 2 else "pct", seed)
        except BrokenPlayError as error:
            if re.search(search.law, str(error)):
                raise


def test_the_command_names_what_it_found_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--backend", "asyncio", "--seeds", "4", "--first", "2"]
    assert main(options) == 0
    assert " 0 broken; digest " in capsys.readouterr().out
    FAULTS["a message is acknowledged before it is stored"].plant(monkeypatch)
    assert main(options) == 1
    shown = capsys.readouterr().out
    assert "BROKEN asyncio walk seed " in shown
    assert "\nagain: python -m tests.lifecycle.play --backend asyncio " in shown
    assert main([*options, "--recover"]) == 1
