"""The public face: `ramet` exports what it promises, and nothing by accident."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ramet
from tests.architecture import ROOMS

PROJECT = Path(__file__).resolve().parent.parent

OPTIONAL = ("anthropic", "openai", "opentelemetry", "psycopg", "rich", "xllamacpp")


def names_of_rooms() -> list[str]:
    """The dotted names of all modules in the rooms, without importing them."""
    return [
        ".".join(("ramet", *path.relative_to(PROJECT).with_suffix("").parts))
        for room in ROOMS
        for path in sorted((PROJECT / room).rglob("*.py"))
    ]


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    return [importlib.import_module(name) for name in names_of_rooms()]


def test_the_face_is_sorted_and_has_no_name_twice() -> None:
    assert list(ramet.__all__) == sorted(set(ramet.__all__))


@pytest.mark.parametrize("name", ramet.__all__)
def test_every_exported_name_is_exported_by_the_module_of_a_room(
    name: str, modules: list[ModuleType]
) -> None:
    value = getattr(ramet, name)
    assert not isinstance(value, ModuleType)
    owners = [
        module.__name__
        for module in modules
        if name in module.__all__ and getattr(module, name) is value
    ]
    assert owners, f"no module of a room has {name} in its __all__"


def test_open_is_there_and_a_star_import_hides_no_builtin() -> None:
    assert callable(ramet.open)
    assert "open" not in ramet.__all__
    builtins = set(dir(importlib.import_module("builtins")))
    assert not builtins.intersection(ramet.__all__)


def test_every_error_that_a_room_declares_is_exported(
    modules: list[ModuleType],
) -> None:
    declared = {
        name
        for module in modules
        if module.__name__.endswith(".errors")
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, ramet.RametError)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert "RametError" in declared
    assert not sorted(declared.difference(ramet.__all__))


def test_every_exported_exception_is_a_ramet_error_with_a_code() -> None:
    for name in ramet.__all__:
        value = getattr(ramet, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            assert issubclass(value, ramet.RametError), name
            assert isinstance(value.code, str), name


def test_the_version_is_that_of_the_distribution() -> None:
    assert ramet.__version__ == importlib.metadata.version("ramet")


def test_everything_public_in_the_face_is_in_its_list() -> None:
    public = {
        name
        for name, value in vars(ramet).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert sorted(public - {"annotations", "open"} - set(ramet.__all__)) == []


def test_the_test_kit_exports_exactly_its_list() -> None:
    kit = importlib.import_module("ramet.testing")
    assert list(kit.__all__) == sorted(set(kit.__all__))
    for name in kit.__all__:
        assert hasattr(kit, name), name
    defined = {
        name
        for name, value in vars(kit).items()
        if getattr(value, "__module__", None) == kit.__name__
        and not name.startswith("_")
    }
    assert sorted(defined.difference(kit.__all__)) == []


def test_importing_ramet_needs_no_optional_package() -> None:
    """Neither the face nor the test kit; an import set to None fails."""
    program = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import ramet, ramet.testing\n"
        "assert ramet.__all__\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
