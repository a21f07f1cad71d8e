"""The architecture: what may import what, what is pure, and how things are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture import (
    ROOMS,
    RULES,
    Allowances,
    House,
    backends,
    circles,
    faces,
    file_names,
    large_parts,
    no_circles,
    optional_packages,
    plain_names,
    purity,
    read_house,
    relative_imports,
    room_order,
)

PROJECT = Path(__file__).resolve().parent.parent

PURE = frozenset(
    f"{room}/{name}.py"
    for room, names in {
        "mailbox": (
            "batch canonical bookmark codec errors events frozen inbox keys leaf "
            "message samples session shortening store"
        ),
        "actors": (
            "agent arguments bound budget chat_messages chat_stream compaction "
            "contract contributions dialect errors grammar grammar_pattern graphemes "
            "ledger local_form model outcome policy proof receipt render response "
            "returns schema scope submission tool tool_signature turn verdict"
        ),
        "lifecycle": (
            "activation admission allowance call_report concurrency errors figures "
            "forest limiter notices prose readers recorded returning script_branches "
            "script_calls script_check script_course script_declared script_finding "
            "script_labels script_results script_shapes script_tree script_values "
            "telling"
        ),
    }.items()
    for name in names.split()
)
"""The files that decide: they never wait, log, read clocks, roll dice or do I/O.

Tests reach every branch of them (`make coverage` fails when not).
"""

BACKEND = {
    "lifecycle/held_asyncio.py": "a loop of asyncio whose steps a schedule chooses",
    "lifecycle/held_loops.py": "what asks for a thread of either runs in the loop",
    "lifecycle/held_trio.py": "a loop of trio whose steps a schedule chooses",
    "mailbox/backend_asyncio.py": "adapter of the backend port for asyncio",
    "mailbox/backend_trio.py": "adapter of the backend port for trio",
}
"""The only files that may import asyncio or trio, each with its reason."""

OPTIONAL = {
    "anthropic": ("actors/model_anthropic*.py",),
    "openai": (
        "actors/chat_client.py",
        "actors/model_local*.py",
        "actors/model_openai*.py",
    ),
    "opentelemetry": ("lifecycle/observe_otel.py",),
    "psycopg": ("mailbox/store_postgres.py",),
    "pydantic_ai": ("actors/model_pydantic_ai.py",),
    "pytest": ("lifecycle/pytest_plugin.py",),
    "rich": ("lifecycle/cli*.py", "lifecycle/terminal*.py"),
    "xllamacpp": ("actors/model_local*.py",),
}
"""The adapters that may import a package that not every user has."""

ALLOWANCES = Allowances(PURE, BACKEND, OPTIONAL)

Rule = Callable[[House], Iterator[str]]


@pytest.fixture(scope="module")
def house() -> House:
    return read_house(PROJECT, ALLOWANCES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rooms_keep_the_rule(house: House, rule: Rule) -> None:
    faults = list(rule(house))
    assert not faults, "\n".join(faults)


def test_every_room_is_read(house: House) -> None:
    assert {source.room for source in house.sources.values()} == set(ROOMS)


def test_the_import_package_has_one_link_for_each_room_and_nothing_else() -> None:
    package = PROJECT / "src" / "ramet"
    links = {path.name for path in package.iterdir() if path.is_symlink()}
    assert links == set(ROOMS)
    for room in ROOMS:
        assert (package / room).resolve() == PROJECT / room


def test_large_files_and_functions_are_remarked(
    house: House, remark: Callable[[str], None]
) -> None:
    for line in large_parts(house):
        remark(f"large: {line}")
    runtime = set(circles(house, typing_too=False))
    for circle in circles(house, typing_too=True):
        if circle not in runtime:
            remark(f"a circle for types only: {', '.join(circle)}")


# From here on: each rule finds what it is for.

GOOD = '"""A module."""\n\n__all__: list[str] = []\n'


def plant(
    root: Path, files: dict[str, str], allowances: Allowances | None = None
) -> House:
    """Write small sources, each a good module followed by the given lines."""
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GOOD + lines, encoding="utf-8")
    return read_house(root, allowances or Allowances())


PLANTED: list[tuple[str, Rule, dict[str, str], str]] = [
    (
        "a lower room imports an upper one",
        room_order,
        {"mailbox/inbox.py": "from ..actors.turn import x\n", "actors/turn.py": ""},
        "mailbox/inbox.py:4 imports actors.turn: mailbox is below actors",
    ),
    (
        "a lower room imports a module of an upper one by its name",
        room_order,
        {"actors/turn.py": "from ..lifecycle import cli\n", "lifecycle/cli.py": ""},
        "actors/turn.py:4 imports lifecycle.cli: actors is below lifecycle",
    ),
    (
        "a lower room imports an upper one for types",
        room_order,
        {
            "mailbox/inbox.py": "if TYPE_CHECKING:\n    from ..actors.turn import x\n",
            "actors/turn.py": "",
        },
        "mailbox/inbox.py:5 imports actors.turn: mailbox is below actors",
    ),
    (
        "a room imports the package by its name",
        relative_imports,
        {"mailbox/inbox.py": "from ramet.mailbox.errors import x\n"},
        "mailbox/inbox.py:4 imports ramet.mailbox.errors: not relatively",
    ),
    (
        "a room imports the public face",
        relative_imports,
        {"mailbox/inbox.py": "from .. import open\n"},
        "mailbox/inbox.py:4 imports 'open': it is no module of a room",
    ),
    (
        "a module is not there",
        relative_imports,
        {"mailbox/inbox.py": "from .nothing import x\n"},
        "mailbox/inbox.py:4 imports 'mailbox.nothing': it is no module of a room",
    ),
    (
        "an import leaves the package",
        relative_imports,
        {"mailbox/inbox.py": "from ...other import x\n"},
        "mailbox/inbox.py:4 imports '<outside>': it is no module of a room",
    ),
    (
        "three modules import each other in a circle",
        no_circles,
        {
            "mailbox/a.py": "from .b import x\n",
            "mailbox/b.py": "def f():\n    from . import c\n",
            "mailbox/c.py": "from .a import x\n",
            "mailbox/d.py": "from .a import x\n",
        },
        "a circle of imports: mailbox.a, mailbox.b, mailbox.c",
    ),
    (
        "a module imports itself",
        no_circles,
        {"mailbox/a.py": "from . import a\n"},
        "a circle of imports: mailbox.a",
    ),
    (
        "a file has the name of a standard module",
        file_names,
        {"mailbox/queue.py": ""},
        "mailbox/queue.py: a standard module has this name",
    ),
    (
        "a room is a package of its own",
        file_names,
        {"mailbox/__init__.py": ""},
        "mailbox/__init__.py: a room is no package of its own",
    ),
    (
        "a file has an empty name",
        plain_names,
        {"mailbox/text_utils.py": ""},
        "mailbox/text_utils.py: the name says nothing: utils",
    ),
    (
        "a class has an empty name",
        plain_names,
        {"mailbox/a.py": "class StoreManager: ...\n"},
        "mailbox/a.py:4 StoreManager: the name says nothing: manager",
    ),
    (
        "a function has an empty name",
        plain_names,
        {"mailbox/a.py": "async def _common_HELPERS(): ...\n"},
        "mailbox/a.py:4 _common_HELPERS: the name says nothing: common, helpers",
    ),
]


@pytest.mark.parametrize(
    ("rule", "files", "fault"),
    [row[1:] for row in PLANTED],
    ids=[row[0].replace(" ", "-") for row in PLANTED],
)
def test_a_planted_fault_is_found(
    tmp_path: Path, rule: Rule, files: dict[str, str], fault: str
) -> None:
    assert list(rule(plant(tmp_path, files))) == [fault]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("import time", "4 imports time"),
        ("from os import path", "4 imports os"),
        ("import concurrent.futures", "4 imports concurrent.futures"),
        ("def f():\n    import random", "5 imports random"),
        ("from anyio.lowlevel import checkpoint", "4 imports anyio.lowlevel"),
        ("async def f(): ...", "4 waits"),
        ("print(1)", "4 calls print"),
        ("f = lambda: open('x')", "4 calls open"),
    ],
)
def test_an_impure_line_in_a_pure_file_is_found(
    tmp_path: Path, line: str, fault: str
) -> None:
    pure = Allowances(pure=frozenset(["mailbox/inbox.py"]))
    files = {"mailbox/inbox.py": f"{line}\n", "mailbox/shell.py": f"{line}\n"}
    faults = list(purity(plant(tmp_path, files, pure)))
    assert faults == [f"mailbox/inbox.py:{fault}: it is listed as pure"]


def test_a_pure_file_may_import_for_types_and_its_method_may_be_named_open(
    tmp_path: Path,
) -> None:
    pure = Allowances(pure=frozenset(["mailbox/inbox.py"]))
    lines = (
        "if TYPE_CHECKING:\n    import asyncio\nelse:\n    import math\n\n"
        "def f(store): store.open()\n"
    )
    assert not list(purity(plant(tmp_path, {"mailbox/inbox.py": lines}, pure)))


def test_the_other_branch_of_a_check_for_types_is_judged(tmp_path: Path) -> None:
    pure = Allowances(pure=frozenset(["mailbox/inbox.py"]))
    lines = "if TYPE_CHECKING:\n    import math\nelse:\n    import time\n"
    house = plant(tmp_path, {"mailbox/inbox.py": lines}, pure)
    assert list(purity(house)) == [
        "mailbox/inbox.py:7 imports time: it is listed as pure"
    ]


def test_a_pure_file_that_is_gone_is_found(tmp_path: Path) -> None:
    pure = Allowances(pure=frozenset(["mailbox/inbox.py"]))
    assert list(purity(plant(tmp_path, {}, pure))) == [
        "mailbox/inbox.py: it is listed as pure and does not exist"
    ]


@pytest.mark.parametrize("package", ["asyncio", "trio"])
def test_a_backend_outside_the_list_is_found(tmp_path: Path, package: str) -> None:
    listed = Allowances(backend={"mailbox/backend.py": "its adapter"})
    line = f"import {package}.abc\n"
    files = {"mailbox/backend.py": line, "mailbox/other.py": line}
    assert list(backends(plant(tmp_path, files, listed))) == [
        f"mailbox/other.py:4 imports {package}: only the listed files may"
    ]


def test_a_place_in_the_backend_list_that_is_not_used_is_found(tmp_path: Path) -> None:
    listed = Allowances(backend={"mailbox/backend.py": "its adapter"})
    house = plant(tmp_path, {"mailbox/backend.py": ""}, listed)
    assert list(backends(house)) == [
        "mailbox/backend.py: it is listed as importing a backend and does not"
    ]


def test_an_optional_package_outside_its_adapter_is_found(tmp_path: Path) -> None:
    listed = Allowances(optional={"openai": ("actors/model_*.py",)})
    files = {
        "actors/model_openai.py": "import openai\n",
        "actors/turn.py": "def f():\n    import openai\n",
    }
    assert list(optional_packages(plant(tmp_path, files, listed))) == [
        "actors/turn.py:5 imports openai: only its adapters may"
    ]


def test_an_optional_package_that_is_reached_eagerly_is_found(tmp_path: Path) -> None:
    listed = Allowances(optional={"openai": ("actors/model_*.py",)})
    files = {
        "actors/model_openai.py": "import openai\n",
        "actors/eager.py": "from .model_openai import x\n",
        "actors/lazy.py": "def f():\n    from .model_openai import x\n",
        "actors/typed.py": "if TYPE_CHECKING:\n    from . import model_openai\n",
    }
    assert list(optional_packages(plant(tmp_path, files, listed))) == [
        "actors/eager.py:4 imports actors.model_openai, which needs an optional "
        "package: import it inside a function"
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("__all__ = []\n", ["it has no docstring"]),
        ('"""A module."""\n', ["it has no __all__, a list of strings"]),
        (
            '"""A module."""\n__all__ = [x]\n',
            ["it has no __all__, a list of strings"],
        ),
        (
            '"""A module."""\n__all__ = ["a", "b", "c"]\nimport a\nif a:\n    b = 1\n',
            ["__all__ names c, which it does not define"],
        ),
    ],
)
def test_a_module_without_a_face_is_found(
    tmp_path: Path, text: str, faults: list[str]
) -> None:
    (tmp_path / "mailbox").mkdir()
    (tmp_path / "mailbox" / "a.py").write_text(text, encoding="utf-8")
    house = read_house(tmp_path, Allowances())
    assert list(faces(house)) == [f"mailbox/a.py: {fault}" for fault in faults]


def test_a_circle_for_types_only_is_no_fault_and_is_listed_apart(
    tmp_path: Path,
) -> None:
    files = {
        "mailbox/a.py": "if typing.TYPE_CHECKING:\n    from .b import x\n",
        "mailbox/b.py": "from .a import x\n",
    }
    house = plant(tmp_path, files)
    assert not list(no_circles(house))
    assert circles(house, typing_too=True) == [("mailbox.a", "mailbox.b")]


def test_large_parts_are_found(tmp_path: Path) -> None:
    long = "def f():\n" + "    x = 1\n" * 50 + "y = 1\n" * 350
    assert large_parts(plant(tmp_path, {"mailbox/a.py": long})) == [
        "mailbox/a.py: 404 lines (about 400)",
        "mailbox/a.py:4 f: 51 lines (about 50)",
    ]


def test_good_rooms_have_no_fault(tmp_path: Path) -> None:
    files = {
        "mailbox/errors.py": "",
        "mailbox/inbox.py": "from .errors import x\n",
        "actors/turn.py": "from ..mailbox.inbox import x\n",
        "actors/agent.py": "from ..mailbox import inbox\n",
        "lifecycle/cli.py": "from ..actors.turn import x\nimport attrs\n",
    }
    house = plant(tmp_path, files)
    assert [fault for rule in RULES for fault in rule(house)] == []
