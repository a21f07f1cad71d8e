r"""Grapheme clusters: what a reader takes for one character.

Lives here: counting clusters and finding the places between them, by the rules of UAX
#29 as `\X` of the `regex` package reads them.  The package's version is part of a
receipt, since it says which Unicode counted.  Whatever the text is, the time that it
takes grows with its length and not faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import regex  # type: ignore[import-untyped]

from ..mailbox.canonical import join_surrogates

__all__ = ["REGEX_VERSION", "boundaries_near", "count_clusters", "iterate_clusters"]

REGEX_VERSION: str = str(regex.__version__)
"""The version of the package that counts; a receipt of a schema records it (A-124)."""

_CLUSTER = regex.compile(r"\X")
_FLAG = "[\U0001f1e6-\U0001f1ff]"
_FLAG_RUN = re.compile(f"{_FLAG}{{64}}(?={_FLAG})")
"""A stretch of regional indicators: pairs are counted from its beginning, so that a cut
after an even number of them is a boundary.  `\\X` looks back over the whole stretch."""

_PLAIN = "\x20-\x7e\u00c0-\u02ff\u0391-\u03a1\u0400-\u0481\u3041-\u3096\u4e00-\u9fff"
_CERTAIN = regex.compile(f"(?r)(?<=[\n{_PLAIN}])(?=[{_PLAIN}])")
"""Finds, backwards, a boundary between characters that never join each other."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def iterate_clusters(text: str) -> Iterator[str]:
    """Give the clusters of a text, one after the other."""
    start = 0
    for run in _FLAG_RUN.finditer(text):
        for cluster in _CLUSTER.finditer(text[start : run.end()]):
            yield cluster[0]
        start = run.end()
    for cluster in _CLUSTER.finditer(text[start:] if start else text):
        yield cluster[0]


def count_clusters(text: str, enough: int) -> int:
    """Count the clusters of a text, but stop counting at `enough`.

    An unpaired surrogate counts one, and a pair of them is the character it stands for.
    """
    if text.isascii() and "\r\n" not in text:
        return min(len(text), enough)
    if _SURROGATE.search(text) is not None:
        text = join_surrogates(text)
    return sum(1 for _ in islice(iterate_clusters(text), enough))


def boundaries_near(text: str, index: int) -> tuple[int, int]:
    """Give the last cluster boundary up to `index`, and the first one from it on."""
    anchor = _CERTAIN.search(text, 0, index)
    place = 0 if anchor is None else anchor.start()
    before = place
    for cluster in iterate_clusters(text[place:]):
        if place >= index:
            break
        before = place
        place += len(cluster)
    return (place if place == index else before), place
