"""Which store a command means, and which session."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ramet import UsageError
from ramet.lifecycle.cli_store import (
    add_store_argument,
    default_store,
    find_session,
    missing_store,
    opened_reader,
)
from tests.lifecycle.commands import make_finished


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_store_argument(parser)
    return parser.parse_args(words)


def test_the_store_is_the_option_then_the_variable_then_a_file_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAMET_STORE", raising=False)
    assert default_store(arguments()) == "ramet.db"
    assert default_store(argparse.Namespace()) == "ramet.db"
    monkeypatch.setenv("RAMET_STORE", "")
    assert default_store(arguments()) == "ramet.db"
    monkeypatch.setenv("RAMET_STORE", "other.db")
    assert default_store(arguments()) == "other.db"
    assert default_store(arguments("--store", "mine.db")) == "mine.db"
    with pytest.raises(UsageError, match="--store needs"):
        default_store(arguments("--store", ""))


def test_what_is_told_of_a_missing_store_names_it_and_how_to_make_one() -> None:
    text = missing_store(Path("/some/where.db"))
    assert "/some/where.db" in text
    assert "ramet run" in text
    assert "--store FILE" in text


def test_a_session_is_found_by_what_a_person_would_type(tmp_path: Path) -> None:
    path = tmp_path / "ramet.db"
    ids = make_finished(path)
    with opened_reader(arguments("--store", str(path))) as reader:
        scout = ids["scout"]
        assert find_session(reader, scout) == scout
        assert find_session(reader, "scout") == scout
        assert find_session(reader, ids["message"]) == scout
        others = [one for name, one in ids.items() if name not in ("scout", "message")]
        parts = [scout[:cut] for cut in range(1, 19)] + [scout[2:14], scout[8:]]
        for part in parts:
            if sum(part in other for other in others) == 0:
                assert find_session(reader, part) == scout
        with pytest.raises(UsageError) as raised:
            find_session(reader, scout[:3])
        for name in ("scout", "slow", "lead", "oracle"):
            assert f"{ids[name]} ({name})" in str(raised.value)
        for nothing in ("", " ", "zzz", "%", "s_", ids["message"] + "x"):
            with pytest.raises(UsageError, match="no session has"):
                find_session(reader, nothing)
