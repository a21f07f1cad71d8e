"""Sources: the files that a script is made of, found without running any of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ramet.lifecycle import sources
from ramet.lifecycle.script_file import load_script
from ramet.lifecycle.sources import digest_of, sources_of


def written(folder: Path, **files: str) -> Path:
    """Files by their names, `__` for a folder's slash; gives the script."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("-", "__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "script.py"


def found(script: Path) -> set[str]:
    return set(sources_of(script, script.read_bytes()))


def test_a_script_of_one_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    script = written(tmp_path, script="import os, json.decoder\nfrom anyio import x\n")
    made = sources_of(script, script.read_bytes())
    assert made == {"script.py": hashlib.sha256(script.read_bytes()).hexdigest()}
    assert digest_of(made) == made["script.py"]


@pytest.mark.case("A-171")
def test_local_modules_are_found_through_each_other_and_wherever_they_are_named(
    tmp_path: Path,
) -> None:
    script = written(
        tmp_path,
        script="import one\nasync def main(flow):\n    from two import thing, part\n",
        one="import one, three as other\n",
        two__part="from . import near\nfrom .near import x\nfrom .. import far\n",
        two__near="from ..three import y\n",
        three="",
        four="never named",
    )
    (tmp_path / "two" / "__init__.py").write_text("from .deep.er import z\n")
    (tmp_path / "two" / "deep").mkdir()
    (tmp_path / "two" / "deep" / "er.py").write_text("from .... import above\n")
    names = {"script.py", "one.py", "two/__init__.py", "two/part.py", "two/near.py"}
    assert found(script) == names | {"three.py", "two/deep/er.py"}
    before = digest_of(sources_of(script, script.read_bytes()))
    (tmp_path / "three.py").write_text("x = 1\n")
    assert digest_of(sources_of(script, script.read_bytes())) != before


def test_what_cannot_be_read_is_left_to_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = written(
        tmp_path, script="import bad\nimport good\n", bad="def (\n", good=""
    )
    assert found(script) == {"script.py", "bad.py", "good.py"}
    unreadable = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "good.py":
            raise PermissionError
        return unreadable(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert found(script) == {"script.py", "bad.py"}
    monkeypatch.setattr(sources, "_MOST", 1)
    assert found(script) == {"script.py"}


def test_a_loaded_script_says_what_it_is_made_of(tmp_path: Path) -> None:
    main = "async def main(flow): ...\n"
    script = written(
        tmp_path, script=f"import a_near_module\n{main}", a_near_module="y = 1\n"
    )
    loaded = load_script(script)
    assert set(loaded.sources) == {"script.py", "a_near_module.py"}
    assert loaded.digest == digest_of(loaded.sources)
