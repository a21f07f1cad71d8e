from __future__ import annotations

from benchmarks.peers.page import Report, goals, page, verdict
from benchmarks.peers.results import Comparison, Judgement, Sample, rows
from benchmarks.peers.systems import OURS, OURS_ON_TRIO, SYSTEMS
from benchmarks.peers.workloads import BURST, Goal

TAKING_PART = [one for one in SYSTEMS if one.name in (OURS, OURS_ON_TRIO, "pykka")]


def report(*samples: Sample, **others: object) -> Report:
    said = {"versions": {"pykka": {"pykka": "4.5.0"}}, "missing": {}} | others
    return Report(
        {"Python": "3.11.7", "cores": "2"},
        2,
        TAKING_PART,
        rows(samples),
        **said,  # type: ignore[arg-type]
    )


def sample(system: str, turn: int, us: float, variant: str = "") -> Sample:
    return Sample(system, BURST, variant, turn, us, 0.25, us / 0.25)


MEASURED = report(
    sample(OURS, 1, 4.0),
    sample(OURS, 2, 6.0),
    sample(OURS, 1, 8.0, "with its commit"),
    sample(OURS_ON_TRIO, 1, 2.0),
    sample("pykka", 1, 4.0),
    sample("pykka", 2, 4.0),
)


def lines(text: str, first: str) -> list[list[str]]:
    """The cells of the lines of tables that begin with a cell."""
    cut = [line.strip("|").split("|") for line in text.splitlines()]
    stripped = [[cell.strip() for cell in cells] for cells in cut]
    return [cells for cells in stripped if cells[0] == first]


def test_a_system_is_told_beside_its_limit_and_beside_ramet() -> None:
    assert lines(page(MEASURED), "pykka")[0] == [
        "pykka",
        "4.00 us",
        "16.0",
        "1.25 times slower",
        "2.00 times faster",
        "█████",
    ]


def test_ramet_is_not_compared_with_itself() -> None:
    (line,) = lines(page(MEASURED), OURS)
    assert line == [OURS, "5.00 us", "20.0", "", "", "█████"]


def test_the_least_comes_first() -> None:
    text = page(MEASURED)
    names = (OURS_ON_TRIO, "pykka", OURS, f"{OURS}, with its commit")
    places = [
        text.index(f"\n| {name} ", text.index("## Tell, a burst")) for name in names
    ]
    assert places == sorted(places)


def test_each_way_of_doing_it_is_held_against_each_goal() -> None:
    found = [line for line in lines(page(MEASURED), BURST) if line[2] == "pykka"]
    assert [line[1:] for line in found] == [
        [
            OURS,
            "pykka",
            "at most 1.4 times its cost",
            "1.25 times slower (1.00 to 1.50)",
            "met",
        ],
        [
            f"{OURS}, with its commit",
            "pykka",
            "at most 1.4 times its cost",
            "2.00 times slower",
            "missed: costs 1.43 times what it may",
        ],
        [
            OURS_ON_TRIO,
            "pykka",
            "at most 1.4 times its cost",
            "2.00 times faster",
            "met",
        ],
    ]


def test_the_range_of_what_is_faster_is_told_in_the_same_words() -> None:
    goal = Goal(BURST, "theirs", 1 / 14)
    text = goals([Judgement(goal, OURS, Comparison(0.05, 0.04, 0.1))])
    (line,) = lines(text, BURST)
    assert line[3:] == ["14 times faster", "20.0 times faster (10.0 to 25.0)", "met"]


def test_a_goal_beside_a_missing_peer_is_not_measured() -> None:
    assert verdict(Judgement(Goal(BURST, "theirs", 1.0), OURS, None)) == "not measured"
    found = [line for line in lines(page(MEASURED), BURST) if line[2] == "autogen-core"]
    assert [line[4:] for line in found] == [["", "not measured"]] * 3


def test_what_was_not_measured_is_listed_with_its_reason() -> None:
    text = page(report(missing={"pykka": "cannot be installed: no network"}))
    assert "Not measured:\n\n* pykka: cannot be installed: no network\n" in text
    assert lines(text, "pykka") == []


def test_a_page_without_peers_judges_nothing() -> None:
    text = page(report(sample(OURS, 1, 4.0), quick=True))
    assert "its numbers say nothing" in text
    assert "No goal names anything that was measured." in text


def test_a_workload_that_nobody_did_has_no_table() -> None:
    text = page(MEASURED)
    assert "## Tell, a burst" in text
    assert "## Delegation" not in text


def test_what_each_system_does_is_said_once_for_both_backends() -> None:
    text = page(MEASURED).partition("## What each system does here")[2]
    assert [line[0] for line in lines(text, "ramet")] == ["ramet"] * 5
    assert OURS_ON_TRIO not in text
    assert lines(text, "pykka")[0][1] == "pykka 4.5.0"
