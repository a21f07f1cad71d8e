"""Samples: the last few numbers of a kind, and how they were spread."""

from __future__ import annotations

from ramet.mailbox.samples import Samples, Spread


def test_of_no_number_there_is_no_spread() -> None:
    assert Samples().spread() == Spread(0, 0, 0, 0)


def test_one_number_is_all_there_is() -> None:
    samples = Samples()
    samples.note(7)
    assert samples.spread() == Spread(1, 7, 7, 7)


def test_the_spread_does_not_ask_in_which_order_the_numbers_came() -> None:
    samples = Samples()
    for number in (5, 1, 4, 2, 3):
        samples.note(number)
    assert samples.spread() == Spread(5, 3, 5, 5)


def test_the_greatest_of_a_hundred_is_not_in_the_99() -> None:
    samples = Samples()
    for number in range(1, 101):
        samples.note(number)
    assert samples.spread() == Spread(100, 50, 99, 100)


def test_the_last_thousand_numbers_are_told_of() -> None:
    """So that a burst of long ago is not seen for ever, and memory is bounded."""
    samples = Samples()
    for number in range(5_000, 0, -1):
        samples.note(number)
    assert samples.spread() == Spread(1_000, 500, 990, 1_000)
