"""Places: the same call has the same place and key in every run of a script."""

from __future__ import annotations

import pytest

from ramet import DeclarationError
from ramet.lifecycle.places import Places, again, attempt_of, key_at
from ramet.mailbox.keys import RESERVED

DIGEST = "0123456789abcdef" * 4


def test_calls_without_a_label_are_counted_and_labelled_ones_are_not() -> None:
    places = Places()
    first = places.take("agent", None, None)
    places.leave(places.take("agent", "a", None))
    second = places.take("spawn", None, None)
    places.leave(places.take("agent", "a", None))
    assert [first.steps, second.steps] == [("agent", 1), ("spawn", 2)]
    assert places.take("agent", "a", None).steps == ("agent", "", "a", 3)
    places.lane.phase = "later"
    assert places.take("agent", "a", None).steps == ("agent", "later", "a", 1)


@pytest.mark.case("A-161")
def test_a_live_label_is_not_taken_twice_in_its_phase() -> None:
    places = Places()
    place = places.take("agent", "a", None)
    with pytest.raises(DeclarationError) as caught:
        places.take("spawn", "a", None)
    assert caught.value.code == "slot-conflict"
    places.leave(place)
    places.leave(places.take("spawn", "a", "named"))


def test_keys_are_the_runtimes_own_and_no_two_places_share_one() -> None:
    places = Places()
    places.lane.phase = 'a","b'
    one = places.take("agent", "c", None)
    places.lane.phase = "a"
    other = places.take("agent", 'b","c', None)
    named = places.take("agent", None, "1")
    plain = places.take("agent", None, None)
    keys = {key_at(place, DIGEST) for place in (one, other, named, plain)}
    assert len(keys) == 4
    assert all(key.startswith(f"{RESERVED}flow.") for key in keys)


def test_another_request_has_another_key_unless_the_script_named_the_call() -> None:
    place = Places().take("agent", None, None)
    assert key_at(place, DIGEST) != key_at(place, DIGEST[::-1])
    assert key_at(place, DIGEST, named=True) == key_at(place, "", named=True)


def test_each_attempt_has_a_key_of_its_own() -> None:
    assert [again("k", n) for n in (1, 2, 3)] == ["k", "k.again2", "k.again3"]
    assert [attempt_of(again("k.again9]", n))[1] for n in (1, 2, 30)] == [1, 2, 30]
    assert attempt_of("k\n]x.again2") == ("k\n]x", 2)
