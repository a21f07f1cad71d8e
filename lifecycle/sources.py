"""Sources: the files that a script is made of, and the identity that they give it.

Lives here: which local modules a script imports, read from its text and theirs without
running any of it.  A module is local when its file lies in the folder of the script or
below.  Modules that a script names only while it runs are not found.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..mailbox.canonical import canonical_json, digest_text

__all__ = ["digest_of", "sources_of"]

_MOST = 2_000
"""How many files a script may be made of; what is beyond them is not looked at."""


def sources_of(script: Path, source: bytes) -> dict[str, str]:
    """The digest of a script and of each local module that it imports, by its name.

    Args:
        script: where the script lies, absolute.
        source: its bytes.

    The names are relative to the folder of the script.  What cannot be read or parsed
    is left to the import that fails.
    """
    folder = script.parent
    found = {script.name: hashlib.sha256(source).hexdigest()}
    waiting = [(script, source)]
    while waiting:
        path, text = waiting.pop()
        for module in _imported(folder, path, text):
            name = module.relative_to(folder).as_posix()
            if name in found or len(found) >= _MOST:
                continue
            try:
                bytes_ = module.read_bytes()
            except OSError:
                continue
            found[name] = hashlib.sha256(bytes_).hexdigest()
            waiting.append((module, bytes_))
    return found


def digest_of(sources: Mapping[str, str]) -> str:
    """The identity of a script: of its bytes when it is one file, else of all files."""
    if len(sources) == 1:
        return next(iter(sources.values()))
    return digest_text(canonical_json(dict(sources)))


def _imported(folder: Path, path: Path, source: bytes) -> Iterator[Path]:
    """The local files that a module names in its imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base, steps = folder, (node.module or "").split(".")
            if node.level:
                base = path.parent
                for _ in range(node.level - 1):
                    base = base.parent
                if not base.is_relative_to(folder):
                    continue
            steps = [step for step in steps if step]
            yield from _files(base, steps)
            for alias in node.names:
                yield from _files(base, [*steps, alias.name])


def _files(base: Path, steps: list[str]) -> Iterator[Path]:
    """The files of a dotted name below a folder: packages on the way, and the end."""
    at = base
    for index, step in enumerate(steps):
        package = at / step / "__init__.py"
        if package.is_file():
            yield package
        elif index == len(steps) - 1:
            module = at / f"{step}.py"
            if module.is_file():
                yield module
        at = at / step
