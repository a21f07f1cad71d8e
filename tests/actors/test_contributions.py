"""Set-ups: installed in order, released in reverse, exactly once, and revocable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.contributions import (
    Contribution,
    Contributions,
    Installation,
    Revoked,
    Setup,
)
from ramet.actors.errors import DeclarationError
from ramet.mailbox.errors import UsageError
from ramet.mailbox.events import Kind
from tests.actors.hosts import NoHost
from tests.actors.specs import tool

HOST = NoHost()


class Stage:
    """Contributions that write down what happens to them."""

    def __init__(self) -> None:
        self.contributions = Contributions()
        self.seen: list[str] = []

    def register(
        self, name: str, *, fails: bool = False, release_fails: bool = False
    ) -> Callable[[], list[Exception]]:
        def contribute(setup: Setup) -> Callable[[], None]:
            self.seen.append(f"{name} begins")
            if fails:
                raise OSError(f"{name} fails")
            setup.add_tool(tool(name))
            setup.add_instructions(f"text of {name}")

            def dispose() -> None:
                self.seen.append(f"{name} released")
                if release_fails:
                    raise OSError(f"release of {name}")

            return dispose

        return self.contributions.register(contribute)

    def install(self, kind: Kind = "continuable", agent: str = "c") -> Installation:
        return self.contributions.install(kind, agent, "p", "worker", HOST)

    def said(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


def texts(errors: list[Exception]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.case("A-003")
def test_no_set_up_offers_a_tool_of_the_name_by_which_agents_return() -> None:
    contributions = Contributions()
    contributions.register(lambda setup: setup.add_tool(tool("reply")))
    with pytest.raises(DeclarationError, match="'reply' belongs to the runtime"):
        contributions.install("interactive", "c", "p", "worker", HOST)


@pytest.mark.case("R-189")
def test_set_ups_are_installed_in_order_and_released_in_reverse() -> None:
    stage = Stage()
    for name in "xyz":
        stage.register(name)
    installation = stage.install()
    assert stage.said() == ["x begins", "y begins", "z begins"]
    assert list(installation.tools) == ["x", "y", "z"]
    assert installation.texts == ("text of x", "text of y", "text of z")
    installation.publish()
    assert installation.release() == []
    assert stage.said() == ["z released", "y released", "x released"]
    assert installation.release() == []
    assert stage.said() == []


@pytest.mark.case("R-234")
def test_a_set_up_says_for_whom_it_is() -> None:
    seen: list[Setup] = []
    contributions = Contributions()
    contributions.register(seen.append)
    kinds: list[Kind] = ["interactive", "headless", "oneshot", "continuable"]
    for kind in kinds:
        contributions.install(kind, "c", None, "worker", HOST)
    assert [it.kind for it in seen] == kinds
    assert {(it.agent_id, it.parent_id, it.name) for it in seen} == {
        ("c", None, "worker")
    }
    assert all(it.host is HOST for it in seen)


@pytest.mark.case("R-235")
def test_a_set_up_gives_tools_texts_and_hooks() -> None:
    def before(name: str, arguments: str, call: object) -> None: ...

    def after(name: str, result: object, call: object) -> None: ...

    def look() -> str:
        """Look around."""
        return "nothing"

    def contribute(setup: Setup) -> None:
        setup.add_tool(look)
        setup.withhold_tool("report")
        setup.before_call(before)
        setup.after_call(after)

    contributions = Contributions()
    contributions.register(contribute)
    installation = contributions.install("oneshot", "c", "p", "worker", HOST)
    assert list(installation.tools) == ["look"]
    assert installation.withheld == ("report",)
    assert installation.before == (before,)
    assert installation.after == (after,)
    assert installation.names == {"look", "report"}


def test_a_set_up_is_over_when_the_contribution_returned() -> None:
    kept: list[Setup] = []
    contributions = Contributions()
    contributions.register(kept.append)
    contributions.install("oneshot", "c", "p", "worker", HOST)
    setup = kept[0]
    attempts: list[Callable[[], None]] = [
        lambda: setup.add_tool(tool("late")),
        lambda: setup.withhold_tool("late"),
        lambda: setup.add_instructions("late"),
        lambda: setup.before_call(print),
        lambda: setup.after_call(print),
    ]
    for attempt in attempts:
        with pytest.raises(UsageError, match="this set-up is over"):
            attempt()


def test_instructions_that_are_no_text_are_refused() -> None:
    contributions = Contributions()
    contributions.register(lambda setup: setup.add_instructions(7))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="instructions must be text"):
        contributions.install("oneshot", "c", "p", "worker", HOST)


async def coroutine_function(setup: Setup) -> None: ...


@pytest.mark.case("R-234")
@pytest.mark.parametrize("contribution", [None, "x", coroutine_function])
def test_a_contribution_is_a_plain_function(contribution: Any) -> None:
    with pytest.raises(UsageError, match="must be a plain function"):
        Contributions().register(contribution)


@pytest.mark.case("R-234")
@pytest.mark.parametrize("given_back", [7, coroutine_function])
def test_what_a_contribution_gives_back_is_a_plain_function_or_nothing(
    given_back: Any,
) -> None:
    contributions = Contributions()
    contributions.register(lambda setup: given_back)
    with pytest.raises(UsageError, match="must give a plain function or None"):
        contributions.install("oneshot", "c", "p", "worker", HOST)


@pytest.mark.case("R-192")
def test_when_the_third_fails_the_fourth_never_runs_and_the_others_are_released() -> (
    None
):
    stage = Stage()
    stage.register("a", release_fails=True)
    stage.register("b")
    stage.register("c", fails=True)
    stage.register("d")
    with pytest.raises(OSError, match="c fails") as caught:
        stage.install()
    assert stage.said() == [
        *("a begins", "b begins", "c begins"),
        *("b released", "a released"),
    ]
    (note,) = caught.value.__notes__
    assert "release of a" in note


def test_two_contributions_with_one_tool_are_refused_and_released() -> None:
    stage = Stage()
    stage.register("x")
    stage.register("x", release_fails=True)
    with pytest.raises(
        DeclarationError, match="two contributions add a tool 'x'"
    ) as it:
        stage.install()
    assert stage.said()[2:] == ["x released", "x released"]
    assert "release of x" in it.value.__notes__[0]


@pytest.mark.case("R-191")
def test_a_revoked_contribution_is_not_installed() -> None:
    stage = Stage()
    revoke = stage.register("x")
    assert revoke() == []
    assert stage.install().tools == {}
    assert stage.said() == []


@pytest.mark.case("R-191", "R-190")
def test_a_revocation_before_publication_refuses_it_and_is_released_once() -> None:
    stage = Stage()
    revoke = stage.register("x")
    stage.register("y")
    installation = stage.install()
    revoke()
    with pytest.raises(Revoked):
        installation.publish()
    stage.said()
    assert installation.release() == []
    assert stage.said() == ["y released", "x released"]
    assert installation.release() == []


@pytest.mark.case("R-191")
def test_a_contribution_may_revoke_itself_in_its_own_set_up() -> None:
    contributions = Contributions()
    released: list[str] = []
    revokes: list[Callable[[], list[Exception]]] = []

    def contribute(setup: Setup) -> Callable[[], None]:
        revokes[0]()
        return lambda: released.append("x")

    revokes.append(contributions.register(contribute))
    installation = contributions.install("oneshot", "c", "p", "worker", HOST)
    with pytest.raises(Revoked):
        installation.publish()
    installation.release()
    assert released == ["x"]


@pytest.mark.case("R-193", "R-194", "R-197")
def test_a_revocation_takes_what_it_gave_from_every_resident_and_nothing_else() -> None:
    stage = Stage()
    revoke_x = stage.register("x")
    stage.register("y")
    one, other = stage.install(agent="one"), stage.install(agent="other")
    one.publish()
    other.publish()
    stage.said()
    assert revoke_x() == []
    assert stage.said() == ["x released", "x released"]
    for installation in (one, other):
        assert list(installation.tools) == ["y"]
        assert installation.texts == ("text of y",)
        assert "x" in installation.names
    assert revoke_x() == []
    stage.register("x")
    assert list(one.tools) == ["y"]
    assert list(stage.install().tools) == ["y", "x"]
    stage.said()
    one.release()
    assert stage.said() == ["y released"]


@pytest.mark.case("R-196")
def test_every_release_is_attempted_and_all_errors_come_out() -> None:
    stage = Stage()
    stage.register("w")
    revoke = stage.register("x", release_fails=True)
    stage.register("y", release_fails=True)
    stage.register("z")
    residents = [stage.install(agent=name) for name in "abc"]
    for resident in residents:
        resident.publish()
    assert texts(revoke()) == ["release of x"] * 3
    stage.said()
    assert texts(residents[0].release()) == ["release of y"]
    assert stage.said() == ["z released", "y released", "w released"]


def test_a_registration_that_came_in_a_set_up_counts_for_the_next_one() -> None:
    contributions = Contributions()
    late: list[str] = []

    def first(setup: Setup) -> None:
        contributions.register(lambda setup: late.append(setup.agent_id))

    revoke = contributions.register(first)
    contributions.install("oneshot", "one", "p", "worker", HOST)
    assert late == []
    revoke()
    contributions.install("oneshot", "two", "p", "worker", HOST)
    assert late == ["two"]


@pytest.mark.case("R-193")
@given(st.lists(st.sampled_from(["revoke x", "revoke y", "end one", "end two"])))
def test_each_release_runs_exactly_once_whatever_meets(steps: list[str]) -> None:
    stage = Stage()
    released: list[str] = []

    def giving(name: str) -> Contribution:
        def contribute(setup: Setup) -> Callable[[], None]:
            return lambda: released.append(f"{name} of {setup.agent_id}")

        return contribute

    revokes = {name: stage.contributions.register(giving(name)) for name in ("x", "y")}
    residents = {name: stage.install(agent=name) for name in ("one", "two")}
    for resident in residents.values():
        resident.publish()
    due: set[str] = set()
    for step in steps:
        what, _, name = step.partition(" ")
        if what == "revoke":
            revokes[name]()
            due |= {f"{name} of one", f"{name} of two"}
        else:
            residents[name].release()
            due |= {f"x of {name}", f"y of {name}"}
        assert sorted(released) == sorted(due)


@pytest.mark.parametrize(
    "wish",
    [
        lambda setup: setup.before_call(5),
        lambda setup: setup.after_call("no"),
        lambda setup: setup.withhold_tool(5),
    ],
)
def test_a_wish_of_a_wrong_type_is_refused_in_the_set_up(wish: Any) -> None:
    stage = Stage()
    stage.contributions.register(wish)
    with pytest.raises(UsageError):
        stage.install()


def test_a_disposer_that_wants_to_exit_is_an_error_like_others() -> None:
    stage = Stage()

    def leave() -> None:
        raise SystemExit(3)

    stage.contributions.register(lambda setup: leave)
    installation = stage.install()
    installation.publish()
    (error,) = installation.release()
    assert "SystemExit" in str(error)
    assert isinstance(error.__cause__, SystemExit)


def test_an_interrupt_in_a_disposer_comes_out() -> None:
    stage = Stage()

    def interrupt() -> None:
        raise KeyboardInterrupt

    stage.contributions.register(lambda setup: interrupt)
    installation = stage.install()
    installation.publish()
    with pytest.raises(KeyboardInterrupt):
        installation.release()
