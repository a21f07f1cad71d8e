"""The errors of lives: groups that keep every branch, also split and pickled."""

from __future__ import annotations

import pytest

from ramet.lifecycle import errors
from ramet.lifecycle.errors import (
    GroupFailureError,
    SetupReleaseError,
    SetupRevokedError,
    TeardownError,
)
from ramet.mailbox.errors import RametError, RemoteCause, UsageError
from tests.errors import Stubborn, pickled

GROUPS = [GroupFailureError, SetupReleaseError, TeardownError]


def test_the_codes_are_those_of_the_table() -> None:
    codes = {name: getattr(errors, name).code for name in errors.__all__}
    assert codes == {
        "GroupFailureError": "group-failure",
        "SetupReleaseError": "ACTIVATION_SETUP_RELEASE_FAILED",
        "SetupRevokedError": "ACTIVATION_SETUP_REVOKED",
        "TeardownError": "ACTIVATION_TEARDOWN_FAILED",
    }


@pytest.mark.case("R-218")
def test_a_revocation_is_pickled_with_its_text_and_causes() -> None:
    pickled(SetupRevokedError("nothing was started"))


@pytest.mark.case("R-218")
@pytest.mark.parametrize("cls", GROUPS)
def test_a_group_is_pickled_with_its_branches_and_causes(
    cls: type[GroupFailureError | SetupReleaseError | TeardownError],
) -> None:
    group = cls("two failed", [UsageError("one"), Stubborn("t", "wo")])
    group.add_note("a note")
    back = pickled(group)
    assert [type(it) for it in back.exceptions] == [UsageError, RemoteCause]
    assert [str(it) for it in back.exceptions] == ["one", "Stubborn: t wo"]
    assert back.message == "two failed"
    assert back.__notes__ == ["a note"]


def leaves_of(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors at the ends of a group."""
    found: list[BaseException] = []
    for one in group.exceptions:
        found += leaves_of(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


@pytest.mark.case("R-114")
@pytest.mark.parametrize("cls", GROUPS)
def test_except_catches_a_group_and_except_star_its_leaves(
    cls: type[GroupFailureError | SetupReleaseError | TeardownError],
) -> None:
    inner = cls("below", [KeyError("deep")])
    group = cls("failed", [OSError("near"), inner])
    with pytest.raises(RametError) as caught:
        raise group
    assert caught.value is group
    near, deep = group.split(OSError)
    for part, leaves in ((near, [OSError]), (deep, [KeyError])):
        assert part is not None
        assert type(part) is cls
        assert [type(leaf) for leaf in leaves_of(part)] == leaves
    seen: list[BaseException] = []
    try:
        raise group
    except* OSError as found:
        seen += leaves_of(found)
    except* KeyError as found:
        seen += leaves_of(found)
    assert [str(leaf) for leaf in seen] == ["near", "'deep'"]
