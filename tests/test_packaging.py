"""The archives: what is built from a checkout holds real files and can be installed."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.architecture import ROOMS

PROJECT = Path(__file__).resolve().parent.parent

PROBE = """
import importlib.metadata, json, mailbox, os
import ramet, ramet.mailbox.errors
folder = os.path.dirname(ramet.__file__)
print(json.dumps({
    "folder": folder,
    "entries": sorted(os.listdir(folder)),
    "links": [name for name in os.listdir(folder)
              if os.path.islink(os.path.join(folder, name))],
    "typed": os.path.exists(os.path.join(folder, "py.typed")),
    "version": ramet.__version__,
    "files": sorted(str(path) for path in importlib.metadata.files("ramet")),
    "mailbox": mailbox.__file__,
    "mbox": hasattr(mailbox, "mbox"),
}))
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An sdist made of a copy of the checkout, and a wheel made of that sdist."""
    copy = tmp_path_factory.mktemp("archives") / "checkout"
    shutil.copytree(
        PROJECT,
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__"),
    )
    run(sys.executable, "-m", "build", "--no-isolation", str(copy))
    (sdist,) = (copy / "dist").glob("*.tar.gz")
    (wheel,) = (copy / "dist").glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command; a failure shows all that it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources() -> set[str]:
    """The files of the import package, as paths inside it."""
    package = PROJECT / "src" / "ramet"
    found = {path.name for path in package.iterdir() if path.is_file()}
    for room in ROOMS:
        found |= {
            path.relative_to(PROJECT).as_posix()
            for path in (PROJECT / room).rglob("*.py")
        }
    return found


def test_the_wheel_holds_the_import_package_and_nothing_else(
    archives: dict[str, Path],
) -> None:
    with zipfile.ZipFile(archives["wheel"]) as wheel:
        names = wheel.namelist()
        modes = {one.external_attr >> 16 for one in wheel.infolist()}
    assert not any(stat.S_ISLNK(mode) for mode in modes)
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == {f"ramet/{name}" for name in sources()}
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_sdist_holds_real_files(archives: dict[str, Path]) -> None:
    with tarfile.open(archives["sdist"]) as sdist:
        members = sdist.getmembers()
    assert all(member.isfile() for member in members)
    names = {member.name.partition("/")[2] for member in members}
    assert {f"src/ramet/{name}" for name in sources()} <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_what_is_installed_imports_outside_the_checkout(
    archives: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    """Dependencies come from the environment of the tests, by a line in a .pth file.

    Packages that are themselves installed by .pth files, as an editable ramet is, are
    not seen through it.
    """
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = str(environment / "bin" / "python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", ask).strip())
    (site / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n", encoding="utf-8"
    )
    pip = (sys.executable, "-m", "pip", "--python", python, "--quiet")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--force-reinstall")
    run(*pip, "install", *options, "--prefix", str(environment), str(archives[kind]))
    told = json.loads(run(python, "-I", "-W", "error", "-c", PROBE, cwd=tmp_path))
    assert Path(told["folder"]) == site / "ramet"
    assert told["typed"]
    assert not told["links"]
    assert set(ROOMS) <= set(told["entries"])
    assert told["version"] in archives[kind].name
    installed = {name.partition("/")[0] for name in told["files"]}
    assert installed <= {"ramet", f"ramet-{told['version']}.dist-info", ".."}
    scripts = [name for name in told["files"] if name.startswith("..")]
    assert [Path(name).name for name in scripts] == ["ramet"]
    assert told["mbox"]
    assert Path(told["mailbox"]) == Path(sysconfig.get_path("stdlib")) / "mailbox.py"


def test_a_checkout_on_the_path_does_not_hide_the_standard_mailbox() -> None:
    program = "import mailbox; print(mailbox.__file__)"
    for folder in (PROJECT, PROJECT / "tests"):
        told = run(sys.executable, "-c", program, cwd=folder).strip()
        assert Path(told) == Path(sysconfig.get_path("stdlib")) / "mailbox.py"
