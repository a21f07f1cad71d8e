"""The rendering of a value for a model, and the views that shorten it.

Lives here: how a value becomes text for a reader, where a long text is cut, and the
pieces in which the whole can be read.  A rendering is never read back as a value, and
nothing here knows who reads it.  Sizes are bytes of UTF-8; an unpaired surrogate counts
three.
"""

from __future__ import annotations

from typing import Any

import attrs

from ..mailbox.canonical import indented_json
from .graphemes import boundaries_near

__all__ = ["Piece", "piece", "render", "view"]

_NEAR = 8
"""A newline is close by when it is within an eighth of the half that it would end."""


def render(value: Any) -> str:
    """Show a value to a model: a string as it is, anything else as indented JSON.

    Raises:
        UsageError: the value is not JSON data (A-173, A-174).
    """
    return value if type(value) is str else indented_json(value)


def view(text: str, cap: int | None, message_id: str) -> str:
    """Shorten a rendering to its head and its tail, with a marker between (A-176).

    A text of exactly `cap` bytes stays whole (A-177).  A cut falls on a newline close
    by, else between grapheme clusters.  Head and tail are about equal, and with the
    line breaks around the marker they have at most `cap` bytes (A-178).

    Args:
        text: the whole rendering.
        cap: the largest number of bytes that is shown whole; `None` has no limit.
        message_id: the assignment whose value it is, for the tool `read_result`.
    """
    if cap is None or len(text) * 4 <= cap:
        return text
    data = _encoded(text)
    if len(data) <= cap:
        return text
    half = max(cap // 2 - 1, 0)
    head = data[: _head_end(data, half)]
    tail = data[_tail_start(data, len(data) - half) :]
    left_out = len(data) - len(head) - len(tail)
    marker = (
        f"[... {left_out} of {len(data)} bytes are left out here; read the whole with"
        f' the tool read_result and message_id "{message_id}" ...]'
    )
    before = "" if not head or head.endswith(b"\n") else "\n"
    after = "" if not tail or tail.startswith(b"\n") else "\n"
    return f"{_decoded(head)}{before}{marker}{after}{_decoded(tail)}"


@attrs.frozen
class Piece:
    """A part of a rendering: its text, and where it stands in the whole, in bytes.

    `next_offset` is where the next piece begins; `None` after the last one.
    """

    text: str
    offset: int
    next_offset: int | None
    total: int


def piece(text: str, offset: int, limit: int) -> Piece:
    """Give about `limit` bytes of a rendering from `offset` on (A-179).

    Where the piece begins or ends within a character, it does so before that character.
    So pieces which follow each other, by `next_offset` or every `limit` bytes, are the
    rendering byte for byte when they are put together.  A piece holds at least one
    character, unless it begins at the end.

    Args:
        text: the whole rendering.
        offset: bytes before the piece; beyond the end it is the end.
        limit: bytes that the piece has at most, if its first character has no more.
    """
    data = _encoded(text)
    total = len(data)
    start = _character(data, min(max(offset, 0), total))
    end = _character(data, min(max(offset, 0) + max(limit, 1), total))
    if end == start and start < total:
        end = start + 1
        while end < total and data[end] & 0xC0 == 0x80:
            end += 1
    return Piece(_decoded(data[start:end]), start, end if end < total else None, total)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _character(data: bytes, index: int) -> int:
    """Give the beginning of the character that `index` is in."""
    while 0 < index < len(data) and data[index] & 0xC0 == 0x80:
        index -= 1
    return index


def _head_end(data: bytes, limit: int) -> int:
    newline = data.rfind(b"\n", limit - limit // _NEAR, limit)
    if newline >= 0:
        return newline + 1
    return _boundaries(data, limit)[0]


def _tail_start(data: bytes, limit: int) -> int:
    size = len(data) - limit
    newline = data.find(b"\n", max(limit - 1, 0), limit + size // _NEAR)
    if newline >= 0:
        return newline + 1
    return _boundaries(data, limit)[1]


def _boundaries(data: bytes, limit: int) -> tuple[int, int]:
    """Give the last cluster boundary up to `limit`, and the first one from it on."""
    text = _decoded(data)
    index = len(_decoded(data[: _character(data, limit)]))
    before, after = boundaries_near(text, index)
    exact = len(_encoded(text[:before]))
    if before == after and exact < limit:
        _, after = boundaries_near(text, index + 1)
    return exact, len(_encoded(text[:after]))
