"""`ramet doctor`: what it finds of the installation."""

from __future__ import annotations

import json
import sqlite3
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import pytest

from ramet import UsageError
from ramet.lifecycle import cli_doctor
from ramet.lifecycle.cli import main
from ramet.lifecycle.cli_checkup import Finding
from tests.lifecycle.commands import make_finished

Printed = pytest.CaptureFixture[str]

SECRET = "sk-not-to-be-seen"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory, and no service."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAMET_STORE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let some packages not be installed."""
    version = metadata.version

    def asked(name: str) -> str:
        if name in packages:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", asked)


def findings(capsys: Printed, status: int = 0) -> dict[str, dict[str, Any]]:
    """What it finds, by subject; of one subject the last."""
    capsys.readouterr()
    assert main(["doctor", "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is (status == 0)
    return {one["subject"]: one for one in document["findings"]}


def test_a_usable_installation_is_told_so_and_nothing_is_made(
    tmp_path: Path, capsys: Printed
) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for word in ("python", "packages", "sqlite", "asyncio runs", "trio runs", "store"):
        assert word in shown
    assert f"none yet: `ramet run` makes {tmp_path / 'ramet.db'}" in shown
    assert shown.endswith("ramet can be used here\n")
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_looked_through(tmp_path: Path, capsys: Printed) -> None:
    make_finished(tmp_path / "ramet.db")
    found = findings(capsys)
    assert "holds 4 sessions" in found["store"]["text"]
    assert found["integrity"]["state"] == "good"
    assert found["logs"]["text"].startswith("4 logs with ")
    assert "everything is at rest" in found["writer"]["text"]


def test_a_key_is_told_to_be_there_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    assert findings(capsys)["openai"]["state"] == "note"
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{SECRET}@localhost")
    for words in (["doctor"], ["doctor", "--json"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert "OPENAI_API_KEY is set, OPENAI_BASE_URL is set" in shown
        assert SECRET not in shown


def test_what_is_not_installed_and_is_not_needed_is_a_note_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    without(monkeypatch, "rich", "openai", "xllamacpp", "ramet")
    found = findings(capsys)
    assert "ramet[cli]" in found["screen"]["advice"]
    assert "ramet[openai]" in found["openai"]["advice"]
    assert "ramet[local]" in found["local model"]["advice"]
    assert "xllamacpp and openai" in found["local model"]["text"]
    assert "from its sources" in found["packages"]["advice"]


def test_weights_that_are_missing_are_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def none() -> Path:
        raise UsageError("install the weights")

    monkeypatch.setattr(cli_doctor, "packaged_weights", none)
    monkeypatch.setattr(cli_doctor, "_version", lambda name: "1.0")
    found = findings(capsys)["local model"]
    assert found["state"] == "note"
    assert found["advice"] == "install the weights"


def test_a_needed_package_that_is_missing_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    without(monkeypatch, "msgspec")
    found = findings(capsys, 1)["packages"]
    assert found["text"] == "missing: msgspec"
    assert found["advice"] == "pip install msgspec"
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.endswith("1 thing is wrong\n")


def test_a_python_that_is_too_old_and_a_backend_that_does_not_run_are_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def run(function: Any, *arguments: Any, backend: str) -> None:
        if backend == "trio":
            raise LookupError("no such backend")

    monkeypatch.setattr(cli_doctor, "_OLDEST_PYTHON", (9, 0))
    monkeypatch.setattr(anyio, "run", run)
    found = findings(capsys, 1)
    assert found["python"]["state"] == "bad"
    assert "trio does not run" in found["backends"]["text"]


@pytest.mark.parametrize(
    ("version", "state"), [((3, 40, 1), "note"), ((3, 51, 3), "good")]
)
def test_an_sqlite_with_a_known_fault_is_a_note(
    version: tuple[int, ...],
    state: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Printed,
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert findings(capsys)["sqlite"]["state"] == state


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError("broken")

    assert cli_doctor._guarded("it", fail) == [
        Finding("it", "bad", "cannot be checked: OSError: broken")
    ]
