"""What is recorded: the fold of a journal, and what a difference makes void."""

from __future__ import annotations

from typing import Any

import pytest

from ramet import CorruptLogError
from ramet.lifecycle.recorded import FOREVER, Recorded, RecordedCall, read_recorded
from ramet.mailbox.canonical import canonical_json
from ramet.mailbox.events import Event, Journaled
from tests.logs import accepted

Told = tuple[str, dict[str, Any]]


def journal(*told: Told) -> list[Event]:
    return [
        Journaled(kind, canonical_json(data), at) for at, (kind, data) in told_at(told)
    ]


def told_at(told: tuple[Told, ...]) -> list[tuple[int, Told]]:
    return list(enumerate(told))


def began(kind: str = "started", **more: Any) -> Told:
    data = {"journal": 1, "digest": "s", "input_digest": "i"}
    return f"run.{kind}", data | more


def queued(call: str, *place: str | int, **more: Any) -> Told:
    lane = list(more.pop("lane", []))
    data = {
        "call": call,
        "place": list(place),
        "lane": lane,
        "ordinal": 1,
        "asked": "a",
        "contract": "c",
    }
    return "call.queued", data | more


def started(call: str, session: str, attempt: int = 1, key: str = "k") -> Told:
    data = {"call": call, "attempt": attempt, "session": session}
    return "call.started", data | {"message": f"m-{session}", "key": key}


def ended(call: str, replayed: str | None = None, /, **more: Any) -> Told:
    data = {"call": call, "cause": None, "replayed": replayed is not None}
    return "call.ended", data | {"session": replayed} | more


def whole(call: str, *place: str | int, session: str) -> list[Told]:
    end = ended(call, acceptance={"receipt": f"r-{session}"})
    return [queued(call, *place), started(call, session), end]


def test_calls_are_found_by_their_places_with_what_the_journal_names() -> None:
    found = read_recorded(
        [
            accepted("m"),
            *journal(
                began(),
                ("log", {"text": "x"}),
                *whole("c1", "agent", 1, session="s1"),
                queued("c2", "agent", 2, ordinal=2),
            ),
        ]
    )
    assert not found.early
    assert found.calls["agent", 1] == RecordedCall(
        *(("agent", 1), (), 1, "a", "c", 3, 5, "s1", "r-s1", "s", "i"),
    )
    assert found.calls["agent", 2].ended == FOREVER
    assert found.stood_at((), 2) == found.calls["agent", 2]
    assert found.stood_at((), 3) is None
    (unended,) = found.unended
    assert (unended.queued["call"], unended.session) == ("c2", None)
    assert found.starts == {"k": 1}


def test_a_run_without_a_version_of_the_journal_is_an_early_one() -> None:
    found = read_recorded(journal(("run.started", {"digest": "s"})))
    assert found.early
    found = read_recorded(
        journal(
            ("run.started", {"digest": "s"}),
            began("resumed"),
            queued("c1", "agent", 1),
            ended("c1", "s1"),
        )
    )
    assert found.early
    assert found.calls["agent", 1].source == ""


def test_the_keys_of_attempts_are_counted_by_the_last() -> None:
    told = [started("x", "s1", key="k.again7"), started("x", "s2", key="k.again3")]
    assert read_recorded(journal(began(), *told)).starts == {"k": 7}


def test_a_replayed_call_keeps_the_source_that_made_it() -> None:
    found = read_recorded(
        journal(
            began(),
            *whole("c1", "agent", 1, session="s1"),
            began("resumed", digest="other"),
            queued("c2", "agent", 1),
            ended("c2", "s1", acceptance={"receipt": "r-s1"}),
            *whole("c3", "agent", 2, session="s3"),
        )
    )
    assert (found.calls["agent", 1].source, found.calls["agent", 2].source) == (
        "s",
        "other",
    )
    assert found.calls["agent", 1].session == "s1"


def test_a_call_that_came_to_no_agent_leaves_the_earlier_record() -> None:
    refused = [queued("c2", "agent", 1), ended("c2", cause="replay-contract-failure")]
    found = read_recorded(
        journal(began(), *whole("c1", "agent", 1, session="s1"), *refused)
    )
    assert found.calls["agent", 1].session == "s1"
    alone = read_recorded(journal(began(), *refused))
    assert alone.calls["agent", 1].session is None


@pytest.mark.parametrize(
    "told",
    [
        [queued("c", "agent", 1), started("c", "s1", 2), ended("c")],
        [queued("c", "agent", 1), started("c", "s1"), started("c", "s2", 3)],
        [queued("c", "agent", 1), ended("c"), started("c", "s1")],
        [queued("c", "agent", 1), started("c", "s1"), ended("c"), ended("c")],
        [queued("c", "agent", 1), queued("c", "agent", 1), started("c", "s1")],
    ],
)
def test_events_in_no_order_that_makes_sense_are_marked(told: list[Told]) -> None:
    assert not read_recorded(journal(began(), *told)).calls["agent", 1].valid


def test_events_of_calls_that_were_never_queued_are_left_out() -> None:
    found = read_recorded(journal(began(), started("x", "s1"), ended("x")))
    assert (found.calls, found.unended) == ({}, [])


@pytest.mark.parametrize(
    "told",
    [
        ("call.queued", {}),
        ("call.started", {"key": 3}),
        ("run.started", {"journal": 1}),
    ],
)
def test_what_is_not_of_its_form_cannot_be_read(told: Told) -> None:
    if told[0] == "run.started":
        events: list[Event] = [Journaled("run.started", "[]", 0)]
    else:
        events = journal(began(), told)
    with pytest.raises(CorruptLogError):
        read_recorded(events)


def put(recorded: Recorded, place: tuple[str | int, ...], queued: int) -> None:
    lane = place[:-2] if place[0] == "group" else ()
    recorded.put(RecordedCall(place, lane, 0, "a", "c", queued))


@pytest.mark.case("A-164", "A-172")
def test_closing_makes_void_what_was_queued_later_in_the_lane_and_below() -> None:
    recorded = Recorded()
    put(recorded, ("agent", 1), 1)
    put(recorded, ("group", 1, 0, "agent", 1), 3)
    put(recorded, ("group", 1, 1, "agent", 1), 4)
    put(recorded, ("agent", 2), 9)
    recorded.close(("group", 1, 1), 3)
    assert recorded.void == {("group", 1, 1, "agent", 1)}
    recorded.close((), 2, before=5)
    assert set(recorded.calls) == {("agent", 1), ("agent", 2)}
    recorded.close((), 1)
    assert set(recorded.calls) == {("agent", 1)}
    put(recorded, ("agent", 2), 12)
    assert ("agent", 2) not in recorded.void
    recorded.forget(("agent", 7))
    assert ("agent", 7) not in recorded.void


@pytest.mark.case("A-164")
def test_what_a_resumed_process_closed_stays_closed_in_the_next_one() -> None:
    first = [
        *whole("c1", "agent", 1, session="s1"),
        *whole("c2", "agent", 2, session="s2"),
    ]
    fresh = queued(
        "c3", "agent", 1, fresh="recorded-failure", closes={"lane": [], "after": 3}
    )
    found = read_recorded(journal(began(), *first, began("resumed"), fresh))
    assert ("agent", 2) in found.void
    assert found.calls["agent", 1].session == "s1"
    nothing = queued("c3", "agent", 1, closes={"lane": [], "after": None})
    found = read_recorded(journal(began(), *first, began("resumed"), nothing))
    assert ("agent", 2) in found.calls
    diverged = queued("c3", "agent", 2, fresh="diverged")
    found = read_recorded(journal(began(), *first, began("resumed"), diverged))
    assert found.calls["agent", 2].session is None


@pytest.mark.case("A-172")
def test_groups_are_known_by_their_size_and_their_end() -> None:
    place = ["group", 1]
    group = {"group": "g", "place": place}
    found = read_recorded(
        journal(
            began(),
            ("group.started", group | {"size": 2}),
            ("group.ended", group),
            *whole("c1", "agent", 1, session="s1"),
            began("resumed"),
            ("group.ended", group | {"closes": {"lane": [], "after": 2}}),
        )
    )
    assert found.sizes == {("group", 1): 2}
    assert found.groups == {("group", 1): 7}
    assert ("agent", 1) in found.void


def group(kind: str, name: str, *place: str | int, **more: Any) -> Told:
    return f"group.{kind}", {"group": name, "place": list(place), **more}


def test_groups_without_an_end_are_known_with_the_calls_in_them() -> None:
    inside = {"group": {"id": "g2", "index": 0}}
    found = read_recorded(
        journal(
            began(),
            group("started", "g0", "group", 1, size=1),
            began("resumed"),
            group("started", "g1", "group", 1, size=1, lane=[], within=None),
            group("started", "g3", "group", 2, size=1, lane=["unit"]),
            group("started", "g2", "x", "group", 1, size=2, within={"id": "g1"}),
            queued("c1", "agent", 1, **inside),
            ended("c1", status="completed", **inside),
            queued("c2", "agent", 2, **inside),
            queued("c3", "agent", 3, group={"id": "g0", "index": 0}),
            group("ended", "g3", "group", 2),
        )
    )
    inner, outer = found.unended_groups
    assert (inner.started["group"], outer.started["group"]) == ("g2", "g1")
    assert (inner.place, inner.lane) == (("x", "group", 1), ("x",))
    assert (outer.place, outer.lane) == (("group", 1), ())
    assert inner.calls == {"c1": "completed", "c2": None}
    assert (outer.calls, outer.closes, inner.closes) == ({}, None, None)


@pytest.mark.case("A-172")
@pytest.mark.parametrize(
    "differing",
    [
        [queued("c2", "agent", 2, group={"id": "g3", "index": 0}, fresh="diverged")],
        [queued("c2", "x", 2, group={"id": "g2"}, closes={"lane": [], "after": None})],
        [
            queued("c2", "agent", 2, group={"id": "g2", "index": 0}),
            ended(
                "c2",
                status="failed",
                group={"id": "g2", "index": 0},
                cause="replay-contract-failure",
            ),
        ],
        [group("started", "g4", "group", 7, size=2, within={"id": "g3"})],
    ],
)
def test_a_group_that_was_cut_off_and_differed_closes_what_followed_its_earlier_end(
    differing: list[Told],
) -> None:
    first = [
        began(),
        group("started", "g0", "group", 7, size=1),
        group("ended", "g0", "group", 7),
        group("started", "g1", "group", 1, size=1),
        group("ended", "g1", "group", 1),
        *whole("c1", "agent", 1, session="s1"),
        began("resumed"),
        group("started", "g2", "group", 1, size=1),
        group("started", "g3", "inner", "group", 1, size=1, within={"id": "g2"}),
    ]
    same = read_recorded(journal(*first))
    assert ("agent", 1) in same.calls
    assert [one.closes for one in same.unended_groups] == [None, None]
    told = [*first, *differing]
    found = read_recorded(journal(*told))
    assert ("agent", 1) in found.void
    closed = {one.started["group"]: one.closes for one in found.unended_groups}
    assert closed["g2"] == ((), 4)
    # Once its end is written, that is what says so, and its earlier end still counts.
    end = group("ended", "g2", "group", 1, cut=True, closes={"lane": [], "after": 4})
    found = read_recorded(journal(*told, end))
    assert ("agent", 1) in found.void
    assert found.groups["group", 1] == 4
    assert "g2" not in {one.started["group"] for one in found.unended_groups}
    later = [began("resumed"), *whole("c9", "agent", 1, session="s9")]
    assert ("agent", 1) in read_recorded(journal(*told, end, *later)).calls


def test_groups_that_name_each_other_are_read_all_the_same() -> None:
    found = read_recorded(
        journal(
            began(),
            group("started", "g1", "group", 1, size=1, within={"id": "g2"}),
            group("started", "g2", "group", 2, size=1, within={"id": "g1"}),
            queued("c1", "agent", 1, group={"id": "g1"}, fresh="no-record"),
        )
    )
    assert [one.differs for one in found.unended_groups] == [True, True]
