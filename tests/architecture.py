"""The rules of the house, as a program that reads the sources and names each fault.

Lives here: how the rooms are read, and one function for each rule; `RULES` has them
all.  A rule takes the `House` and gives its faults.  Which files a rule lets through,
and why, is said by the tables of `test_architecture.py`.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

__all__ = [
    "ROOMS",
    "RULES",
    "Allowances",
    "House",
    "Import",
    "Source",
    "circles",
    "large_parts",
    "read_house",
]

ROOMS = ("mailbox", "actors", "lifecycle")
"""The rooms, lowest first: a room may import itself and those before it."""

FILE_LINES = 400
FUNCTION_LINES = 50

PURE_REFUSES = frozenset(
    "anyio asyncio concurrent contextvars datetime getpass glob http importlib io "
    "logging multiprocessing os pathlib platform queue random sched secrets select "
    "selectors shutil signal smtplib socket socketserver sqlite3 ssl structlog "
    "subprocess tempfile threading time trio urllib uuid warnings".split()
)
"""What a pure file never imports: waiting, clocks, dice, logs, input and output."""

PURE_NEVER_CALLS = frozenset(("breakpoint", "input", "open", "print"))

VAGUE = frozenset("util utils helper helpers manager managers common".split())


@attrs.frozen
class Import:
    """One imported module, as dotted path: `mailbox.errors` is the one of a room."""

    target: str
    line: int
    relative: bool
    typing_only: bool
    """Whether only a type checker sees it."""
    lazy: bool
    """Whether it stands inside a function."""


@attrs.frozen
class Source:
    """One file of a room."""

    name: str
    """Its path from the root of the project, with slashes."""
    text: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        """The room that it is in."""
        return self.name.partition("/")[0]

    @property
    def module(self) -> str:
        """Its dotted path, beginning with the room."""
        return self.name.removesuffix(".py").replace("/", ".")


@attrs.frozen
class Allowances:
    """What the rules let through: patterns of file names.

    Attributes:
        pure: the files that must be pure.
        backend: who may import asyncio or trio.
        optional: for each optional package, who may import it.
    """

    pure: frozenset[str] = frozenset()
    backend: Mapping[str, str] = attrs.field(factory=dict)
    optional: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class House:
    """All that the rooms hold."""

    sources: Mapping[str, Source]
    """By dotted path."""
    allowances: Allowances


def read_house(root: Path, allowances: Allowances) -> House:
    """Read the rooms under `root`; a room that is missing is empty."""
    trees = {}
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            trees[name] = (text, ast.parse(text, name))
    modules = {name.removesuffix(".py").replace("/", ".") for name in trees}
    sources = {}
    for name, (text, tree) in trees.items():
        source = Source(name, text, tree, tuple(_imports(name, tree, modules)))
        sources[source.module] = source
    return House(sources, allowances)


def _imports(name: str, tree: ast.Module, modules: set[str]) -> Iterator[Import]:
    package = tuple(name.split("/")[:-1])
    stack: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while stack:
        node, typing_only, lazy = stack.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, False, typing_only, lazy)
        elif isinstance(node, ast.ImportFrom):
            base = _base(package, node)
            for alias in node.names:
                full = f"{base}.{alias.name}" if base else alias.name
                target = full if node.level and full in modules else base or full
                yield Import(target, node.lineno, node.level > 0, typing_only, lazy)
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            guarded = (
                isinstance(node, ast.If)
                and ast.unparse(node.test).endswith("TYPE_CHECKING")
                and child in node.body
            )
            stack.append((child, typing_only or guarded, lazy or inside))


def _base(package: tuple[str, ...], node: ast.ImportFrom) -> str:
    """The dotted path that an import begins at; `..` of a room is the package."""
    if node.level == 0:
        return node.module or ""
    above = node.level - 1
    if above > len(package):
        return "<outside>"
    base = package[: len(package) - above]
    return ".".join((*base, node.module) if node.module else base)


def _allowed(name: str, patterns: Iterator[str] | Mapping[str, object]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def room_order(house: House) -> Iterator[str]:
    """A room imports itself and lower rooms only, also for types."""
    for source in house.sources.values():
        rank = ROOMS.index(source.room)
        for one in source.imports:
            room = one.target.partition(".")[0]
            if one.relative and room in ROOMS and ROOMS.index(room) > rank:
                yield (
                    f"{source.name}:{one.line} imports {one.target}: {source.room} is "
                    f"below {room}"
                )


def relative_imports(house: House) -> Iterator[str]:
    """Inside the rooms, imports of ramet are relative and name a module of a room."""
    for source in house.sources.values():
        for one in source.imports:
            if one.relative:
                if one.target not in house.sources:
                    yield (
                        f"{source.name}:{one.line} imports {one.target or 'ramet'!r}: "
                        "it is no module of a room"
                    )
            elif one.target.partition(".")[0] == "ramet":
                yield f"{source.name}:{one.line} imports {one.target}: not relatively"


def circles(house: House, *, typing_too: bool) -> list[tuple[str, ...]]:
    """The circles of imports: each set of modules that all reach each other.

    Args:
        house: what is searched.
        typing_too: whether imports that only a type checker sees count.
    """
    edges = {
        module: sorted(
            {
                one.target
                for one in source.imports
                if one.relative
                and one.target in house.sources
                and (typing_too or not one.typing_only)
            }
        )
        for module, source in house.sources.items()
    }
    reach = {module: _reached(module, edges) for module in edges}
    found = {
        tuple(sorted(other for other in reach[module] if module in reach[other]))
        for module in edges
        if module in reach[module]
    }
    return sorted(found)


def _reached(module: str, edges: Mapping[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(edges[module])
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(edges[one])
    return reached


def no_circles(house: House) -> Iterator[str]:
    """No modules import each other in a circle, also not from inside functions."""
    for circle in circles(house, typing_too=False):
        yield f"a circle of imports: {', '.join(circle)}"


def file_names(house: House) -> Iterator[str]:
    """No file is named like a standard module, and rooms have no `__init__.py`."""
    for source in house.sources.values():
        stem = source.name.rpartition("/")[2].removesuffix(".py")
        if stem == "__init__":
            yield f"{source.name}: a room is no package of its own"
        elif stem in sys.stdlib_module_names:
            yield f"{source.name}: a standard module has this name"


def purity(house: House) -> Iterator[str]:
    """A pure file never waits, logs, reads clocks, rolls dice or does I/O."""
    names = {source.name: source for source in house.sources.values()}
    for name in sorted(house.allowances.pure):
        source = names.get(name)
        if source is None:
            yield f"{name}: it is listed as pure and does not exist"
            continue
        for one in source.imports:
            if not one.typing_only and one.target.partition(".")[0] in PURE_REFUSES:
                yield f"{name}:{one.line} imports {one.target}: it is listed as pure"
        for node in ast.walk(source.tree):
            if isinstance(
                node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
            ):
                yield f"{name}:{node.lineno} waits: it is listed as pure"
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in PURE_NEVER_CALLS
            ):
                yield f"{name}:{node.lineno} calls {node.func.id}: it is listed as pure"


def backends(house: House) -> Iterator[str]:
    """asyncio and trio are imported in listed files only, and each of them does."""
    allowed = house.allowances.backend
    used = set()
    for source in house.sources.values():
        for one in source.imports:
            package = one.target.partition(".")[0]
            if package not in ("asyncio", "trio") or one.relative:
                continue
            used.add(source.name)
            if source.name not in allowed:
                yield (
                    f"{source.name}:{one.line} imports {package}: only the listed "
                    "files may"
                )
    for name in sorted(allowed.keys() - used):
        yield f"{name}: it is listed as importing a backend and does not"


def optional_packages(house: House) -> Iterator[str]:
    """Optional packages stay in their adapters, and nothing reaches them by itself."""
    eager = set()
    for source in house.sources.values():
        for one in source.imports:
            package = one.target.partition(".")[0]
            adapters = house.allowances.optional.get(package)
            if one.relative or adapters is None or one.typing_only:
                continue
            if not _allowed(source.name, iter(adapters)):
                yield (
                    f"{source.name}:{one.line} imports {package}: only its adapters may"
                )
            if not one.lazy:
                eager.add(source.module)
    adapters_all = [
        pattern
        for patterns in house.allowances.optional.values()
        for pattern in patterns
    ]
    for source in house.sources.values():
        if _allowed(source.name, iter(adapters_all)):
            continue
        for one in source.imports:
            if one.target in eager and not one.typing_only and not one.lazy:
                yield (
                    f"{source.name}:{one.line} imports {one.target}, which needs an "
                    "optional package: import it inside a function"
                )


def faces(house: House) -> Iterator[str]:
    """Every module has a docstring and an `__all__` of names that it defines."""
    for source in house.sources.values():
        if not ast.get_docstring(source.tree):
            yield f"{source.name}: it has no docstring"
        exported = _exported(source.tree)
        if exported is None:
            yield f"{source.name}: it has no __all__, a list of strings"
            continue
        for name in sorted(exported - _defined(source.tree)):
            yield f"{source.name}: __all__ names {name}, which it does not define"


def _exported(tree: ast.Module) -> set[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(
                isinstance(one, ast.Name) and one.id == "__all__" for one in targets
            ):
                try:
                    return set(ast.literal_eval(node.value or ast.List([])))
                except ValueError:
                    return None
    return None


def _defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return names


def plain_names(house: House) -> Iterator[str]:
    """Nothing is named utils, helpers, manager or common."""
    for source in house.sources.values():
        if vague := _words(source.name.removesuffix(".py")) & VAGUE:
            yield f"{source.name}: the name says nothing: {', '.join(sorted(vague))}"
        for node in ast.walk(source.tree):
            if not isinstance(
                node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            if vague := _words(node.name) & VAGUE:
                yield (
                    f"{source.name}:{node.lineno} {node.name}: the name says nothing: "
                    f"{', '.join(sorted(vague))}"
                )


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def large_parts(house: House) -> list[str]:
    """The files and functions that have grown too large; a remark, not a fault."""
    remarks = []
    for source in house.sources.values():
        lines = source.text.count("\n")
        if lines > FILE_LINES:
            remarks.append(f"{source.name}: {lines} lines (about {FILE_LINES})")
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    remarks.append(
                        f"{source.name}:{node.lineno} {node.name}: {lines} lines "
                        f"(about {FUNCTION_LINES})"
                    )
    return remarks


RULES: tuple[Callable[[House], Iterator[str]], ...] = (
    room_order,
    relative_imports,
    no_circles,
    file_names,
    purity,
    backends,
    optional_packages,
    faces,
    plain_names,
)
