"""The union of events is closed: every class of the file is in it, and only those."""

from __future__ import annotations

from typing import get_args

import attrs

from ramet.lifecycle.bookkeeper import sample_events
from ramet.mailbox import events
from ramet.mailbox.events import Event, SpecRecord

KINDS = get_args(Event)


def test_every_class_of_the_file_is_in_the_union_or_a_part_of_one() -> None:
    classes = {
        getattr(events, name)
        for name in events.__all__
        if attrs.has(getattr(events, name))
    }
    parts = {events.LimitsRecord, events.SpecRecord, events.ToolRecord}
    assert classes - parts == set(KINDS)


def test_every_event_says_when_it_was() -> None:
    for kind in KINDS:
        assert str(attrs.fields_dict(kind)["at"].type) == "int"


def test_events_are_equal_by_what_they_hold() -> None:
    assert sample_events() == sample_events()
    one, *others = sample_events()
    assert all(one != other for other in others)


def test_two_records_share_no_default_that_can_be_changed() -> None:
    one, other = SpecRecord("a"), SpecRecord("b")
    assert one.limits == other.limits == events.LimitsRecord()
    for record in (SpecRecord, *KINDS):
        for field in attrs.fields(record):
            assert not isinstance(field.default, (list, dict, set))
