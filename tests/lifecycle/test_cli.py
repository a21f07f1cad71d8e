"""The command: its help, its errors in one sentence, and its exit statuses."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import ramet
from ramet.lifecycle import cli
from ramet.lifecycle.cli import build_parser, main
from tests.lifecycle.commands import command, environment

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory, and no variable that a person may have set."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAMET_STORE", "RAMET_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make every command end with an error."""

    def run(arguments: argparse.Namespace) -> int:
        raise error

    build = build_parser

    def changed() -> argparse.ArgumentParser:
        parser = build()
        assert isinstance(parser, cli._Welcome)
        for one in parser.commands.choices.values():
            one.set_defaults(func=run)
        return parser

    monkeypatch.setattr(cli, "build_parser", changed)


def test_without_words_it_shows_a_newcomer_what_there_is(capsys: Printed) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for word in ("ps ", "log ", "explain ", "usage ", "doctor ", "RAMET_STORE"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 88
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == shown


def test_it_tells_its_version(capsys: Printed) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ramet {ramet.__version__}\n"


@pytest.mark.parametrize("name", ["ps", "log", "explain", "usage", "doctor"])
def test_every_command_has_a_help_of_its_own(name: str, capsys: Printed) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: ramet {name}" in shown
    assert "--store FILE" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pss"], "there is no command 'pss': did you mean 'ps'?"),
        (["zzz"], "there is no command 'zzz': ramet alone lists them"),
        (["--nothing"], "a command is needed"),
        (["ps", "--nothing"], "ramet ps has no '--nothing' (see: ramet ps --help)"),
        (["ps", "--js"], "ramet ps has no '--js'"),
        (["log"], "the following arguments are required: ID (see: ramet log --help)"),
        (["ps", "--store"], "argument --store: expected one argument"),
        (["ps", "--store", " "], "--store needs the name of a file"),
        (["ps", "--watch"], "--watch needs a terminal"),
        (["ps", "--watch", "--json"], "take one"),
    ],
)
def test_a_wrong_use_is_told_in_one_sentence(
    words: list[str], said: str, capsys: Printed
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"ramet: {said}") or said in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ramet.UsageError("so not"), 2, "ramet: so not\n"),
        (ramet.DeclarationError("nor so"), 2, "ramet: nor so\n"),
        (ramet.StoreInUseError("taken"), 1, "ramet: taken [STORE_IN_USE]\n"),
        (
            ramet.CorruptLogError("a \x1b[31mred\nlog"),
            1,
            "ramet: a \\x1b[31mred log [CORRUPT_LOG]\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 1, ""),
        (
            KeyError("x"),
            1,
            "ramet: this is a fault of ramet itself: KeyError: 'x'"
            " (with RAMET_TRACEBACK=1 it shows where)\n",
        ),
    ],
)
def test_how_a_command_ends_is_told_by_status_and_sentence(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Printed,
) -> None:
    fail_with(monkeypatch, error)
    assert main(["doctor"]) == status
    assert capsys.readouterr().err == said


def test_a_traceback_is_shown_only_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    fail_with(monkeypatch, ramet.StoreInUseError("taken"))
    monkeypatch.setenv("RAMET_TRACEBACK", "1")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("ramet: taken [STORE_IN_USE]\n")


WITHOUT_STORE: list[tuple[str, ...]] = [
    ("ps",),
    ("ps", "--json"),
    ("log", "x"),
    ("log", "x", "-f"),
    ("explain", "x"),
    ("usage",),
]


@pytest.mark.parametrize("words", WITHOUT_STORE, ids=" ".join)
def test_a_store_that_is_not_there_is_named_and_not_made(
    words: tuple[str, ...], tmp_path: Path, capsys: Printed
) -> None:
    assert main(words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"ramet: there is no store {tmp_path / 'ramet.db'}:")
    assert "`ramet run` makes one" in printed.err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_store_is_told_so(tmp_path: Path, capsys: Printed) -> None:
    prose = tmp_path / "prose.txt"
    prose.write_text("no database at all, but long enough to be looked at" * 100)
    empty = tmp_path / "empty.db"
    empty.touch()
    said: list[tuple[Path, str]] = [
        (prose, "it is damaged or no database"),
        (empty, "nothing has been stored"),
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "x.db", "there is no directory"),
    ]
    for path, text in said:
        assert main(["ps", "--store", str(path)]) == 1
        assert text in capsys.readouterr().err
    assert empty.stat().st_size == 0


@pytest.mark.parametrize("start", ["module", "function"])
def test_it_can_be_started_as_a_module_and_by_its_entry_point(start: str) -> None:
    words = ["-m", "ramet", "--version"]
    if start == "function":
        program = "import sys; from ramet.lifecycle.cli import main; sys.exit(main())"
        words = ["-c", program, "--version"]
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"ramet {ramet.__version__}\n", "")


@pytest.mark.parametrize("wrong", [("pss",), ("ps", "--store", "none.db")])
def test_a_process_that_fails_shows_no_traceback(
    wrong: tuple[str, ...], tmp_path: Path
) -> None:
    done = command(*wrong, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
