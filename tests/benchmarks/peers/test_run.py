"""The whole command: quick in a process of its own, and with peers that fail here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers import environments, run
from benchmarks.peers.systems import OURS, OURS_ON_TRIO, SYSTEMS, System
from benchmarks.peers.workloads import WORKLOADS

PYKKA = next(one for one in SYSTEMS if one.name == "pykka")


def test_a_quick_run_measures_ramet_on_both_backends_and_writes_all(
    tmp_path: Path,
) -> None:
    page, numbers = tmp_path / "new" / "page.md", tmp_path / "numbers.json"
    command = [sys.executable, run.__file__, "--quick", "--rounds", "1"]
    files = ["--page", str(page), "--json", str(numbers)]
    kept = ["--environments", str(tmp_path / "environments")]
    done = subprocess.run(
        [*command, *files, *kept], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(numbers.read_text())
    measured = {(one["system"], one["workload"]) for one in said["measured"]}
    assert measured == {
        (name, workload) for name in (OURS, OURS_ON_TRIO) for workload in WORKLOADS
    }
    assert all(one["us"] > 0 and one["limit_us"] > 0 for one in said["measured"])
    assert said["missing"] == {}
    assert page.read_text().count("\n| ramet on trio ") == len(WORKLOADS)
    assert not (tmp_path / "environments").exists()


def taken(systems: Sequence[System], folder: Path, *, rounds: int = 1) -> run.Bench:
    """A bench that has done all it can with these."""
    bench = run.Bench(systems, quick=True)
    bench.prepare(folder)
    bench.measure(rounds)
    return bench


def test_a_peer_that_cannot_be_installed_is_told_in_one_line_and_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(folder: Path, pins: Sequence[str]) -> Path:
        raise environments.NotInstalledError("ERROR: no network")

    monkeypatch.setattr(environments, "prepare", refuse)
    later = replace(PYKKA, name="later", python=(99, 0))
    bench = taken([PYKKA, later], tmp_path)
    assert list(bench.missing) == ["pykka", "later"]
    assert bench.samples == []
    said = capsys.readouterr().out.splitlines()
    assert "not measured: pykka: cannot be installed: ERROR: no network" in said
    assert [line for line in said if line.startswith("not measured: later: needs")]


def test_a_peer_whose_package_does_not_work_is_not_tried_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # This Python in the place of an environment: without the package.
    monkeypatch.setattr(environments, "prepare", lambda folder, pins: sys.executable)
    bench = taken([PYKKA], tmp_path, rounds=3)
    assert bench.samples == []
    assert "pykka" in bench.missing["pykka"]
    assert capsys.readouterr().out.count("not measured: pykka:") == 1


def test_rounds_are_at_least_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.read_arguments(["--rounds", "0"])
    assert "--rounds must be at least 1" in capsys.readouterr().err


def test_an_unknown_peer_is_refused_and_the_known_ones_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run.read_arguments(["--only", "nobody"])
    assert "'langgraph, saved'" in capsys.readouterr().err
