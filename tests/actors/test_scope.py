"""The scope: what is offered is what may be called, and the rest says why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ramet.actors.bound import BoundSpec
from ramet.actors.contributions import Contributions, Installation, Setup
from ramet.actors.scope import Scope
from ramet.actors.tool import Tool
from ramet.mailbox.events import Kind
from ramet.mailbox.message import CallResult
from tests.actors.hosts import NoHost
from tests.actors.specs import bound_of, tool

REPLY = tool("reply")


def installed(
    *names: str, withheld: tuple[str, ...] = (), kind: Kind = "continuable"
) -> Installation:
    """What a contribution with these tools gives."""

    def contribute(setup: Setup) -> None:
        for name in names:
            setup.add_tool(tool(name))
        for name in withheld:
            setup.withhold_tool(name)

    contributions = Contributions()
    contributions.register(contribute)
    return contributions.install(kind, "c", "p", "worker", NoHost())


def scope_of(
    bound: BoundSpec | None = None,
    installation: Installation | None = None,
    reply: Tool | None = None,
) -> Scope:
    return Scope(
        "continuable", bound or bound_of(), installation or Installation(), reply
    )


def offered(scope: Scope, *, narrowed: bool = False) -> list[str]:
    return [it.name for it in scope.offered(narrowed=narrowed)]


def refusal(scope: Scope, name: str, *, narrowed: bool = False) -> str | None:
    found = scope.find(name, narrowed=narrowed)
    return found.error if isinstance(found, CallResult) else None


def test_tools_are_offered_in_a_fixed_order() -> None:
    scope = scope_of(bound_of("look", "find"), installed("report", "extra"), REPLY)
    assert offered(scope) == ["look", "find", "report", "extra", "reply"]
    assert offered(scope_of(bound_of("look"))) == ["look"]
    assert offered(scope_of(bound_of("look"), reply=REPLY)) == ["look", "reply"]
    assert offered(scope_of()) == []


@pytest.mark.case("R-013")
def test_the_filter_of_a_spec_does_not_reach_the_tools_of_the_runtime() -> None:
    bound = bound_of("look", allow=())
    scope = scope_of(bound, installed("report", "extra"), REPLY)
    assert offered(scope) == ["report", "reply"]
    assert refusal(scope, "extra") == "TOOL_WITHHELD"
    assert refusal(scope, "look") == "TOOL_WITHHELD"
    denied = scope_of(bound_of(deny=("report", "extra")), installed("report", "extra"))
    assert offered(denied) == ["report"]


@pytest.mark.case("R-014")
def test_a_withheld_tool_exists_and_may_not_be_called() -> None:
    scope = scope_of(installation=installed(withheld=("report",)))
    assert offered(scope) == []
    result = scope.find("report")
    assert result == CallResult("report is not offered to this agent", "TOOL_WITHHELD")


@pytest.mark.case("R-012")
def test_a_tool_that_does_not_exist_is_unknown_and_the_others_are_named() -> None:
    assert scope_of(bound_of("look", "find")).find("dig") == CallResult(
        "there is no tool 'dig'; the tools are: look, find", "UNKNOWN_TOOL"
    )
    assert scope_of().find("dig") == CallResult(
        "there is no tool 'dig'; the tools are: none", "UNKNOWN_TOOL"
    )


def test_an_agent_that_converses_has_no_reply_and_is_told_what_to_do() -> None:
    result = scope_of(bound_of("look")).find("reply")
    assert isinstance(result, CallResult)
    assert result.error == "TOOL_WITHHELD"
    assert "just answer in text" in result.content


@pytest.mark.case("A-092")
def test_after_the_first_return_only_a_return_is_left() -> None:
    scope = scope_of(bound_of("look"), installed("extra"), REPLY)
    assert offered(scope, narrowed=True) == ["reply"]
    assert scope.find("reply", narrowed=True) is REPLY
    for name in ("look", "extra", "dig"):
        assert refusal(scope, name, narrowed=True) == "TOOL_WITHHELD"
    assert offered(scope_of(bound_of("look")), narrowed=True) == []


def test_the_tool_of_a_spec_hides_one_of_a_contribution_with_its_name() -> None:
    bound = bound_of("look")
    scope = scope_of(bound, installed("look"))
    assert offered(scope) == ["look"]
    assert scope.find("look") is bound.tools["look"]


@pytest.mark.case("R-194")
def test_a_revoked_tool_is_offered_no_longer_and_called_no_longer() -> None:
    contributions = Contributions()
    revoke = contributions.register(lambda setup: setup.add_tool(tool("extra")))
    installation = contributions.install("continuable", "c", "p", "worker", NoHost())
    installation.publish()
    scope = scope_of(installation=installation)
    assert offered(scope) == ["extra"]
    assert isinstance(scope.find("extra"), Tool)
    assert revoke() == []
    assert offered(scope) == []
    assert refusal(scope, "extra") == "TOOL_WITHHELD"


NAMES = st.lists(
    st.sampled_from(["look", "find", "report", "extra"]), unique=True, max_size=4
)


@pytest.mark.case("R-081")
@given(
    own=NAMES,
    given_=NAMES,
    withheld=NAMES,
    allow=st.none() | NAMES,
    deny=NAMES,
    returns=st.booleans(),
    narrowed=st.booleans(),
)
def test_what_is_offered_is_exactly_what_dispatch_accepts(
    own: list[str],
    given_: list[str],
    withheld: list[str],
    allow: list[str] | None,
    deny: list[str],
    returns: bool,
    narrowed: bool,
) -> None:
    scope = scope_of(
        bound_of(*own, allow=allow, deny=deny),
        installed(*given_, withheld=tuple(withheld)),
        REPLY if returns else None,
    )
    names = offered(scope, narrowed=narrowed)
    assert len(names) == len(set(names))
    for name in ("look", "find", "report", "extra", "reply", "nothing"):
        found = scope.find(name, narrowed=narrowed)
        assert isinstance(found, Tool) == (name in names)
        if isinstance(found, CallResult):
            assert found.error in ("TOOL_WITHHELD", "UNKNOWN_TOOL")
