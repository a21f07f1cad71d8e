from __future__ import annotations

from benchmarks.peers.plan import interleaved


def test_every_round_has_every_system_once_and_every_other_goes_backwards() -> None:
    assert interleaved("abc", 3) == [
        (1, "a"),
        (1, "b"),
        (1, "c"),
        (2, "c"),
        (2, "b"),
        (2, "a"),
        (3, "a"),
        (3, "b"),
        (3, "c"),
    ]


def test_without_systems_nothing_is_run() -> None:
    assert interleaved([], 3) == []
