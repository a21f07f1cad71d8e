"""What passes between agents, and what a model is shown of it.

Lives here: content and its check, the usage of a request, and the four classes of which
a transcript is made.  A transcript is a list of these; the fold of a log gives it, and
a model port gets it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from .errors import UsageError
from .leaf import leaf

if TYPE_CHECKING:
    from attrs import frozen as record
else:
    # Immutable for the type checker; a frozen class costs three times as much to make.
    record = attrs.define

__all__ = [
    "AssistantMessage",
    "Call",
    "CallResult",
    "Content",
    "Delivery",
    "Source",
    "ToolMessage",
    "Transcript",
    "Usage",
    "UserMessage",
    "frame",
    "record",
    "to_blocks",
]

Content: TypeAlias = str | Sequence[str | dict[str, Any]]
"""What may be sent: a text, or a list of texts and `{"type": "text", "text": ...}`."""

Delivery = Literal["quiet", "wakeup"]

Source = Literal[
    "prompt",
    "tell",
    "followup",
    "inject",
    "report",
    "notice",
    "outcome",
    "nudge",
    "summary",
]
"""Why a message was sent.  The runtime writes it; nobody passes it in.

A `summary` was sent by nobody: it stands for what a compaction dropped.
"""

SOURCES: frozenset[str] = frozenset(get_args(Source))

ASSIGNING: frozenset[str] = frozenset(("prompt", "tell", "followup"))
"""The sources whose messages open an assignment."""


@leaf
class Usage:
    """What model requests cost: tokens, or `None` where a provider did not say."""

    requests: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    tool_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_creation_tokens, other.cache_creation_tokens),
            self.tool_calls + other.tool_calls,
        )

    def since(self, before: Usage) -> Usage:
        """What was added to an earlier sum."""
        return Usage(
            self.requests - before.requests,
            _rest(self.input_tokens, before.input_tokens),
            _rest(self.output_tokens, before.output_tokens),
            _rest(self.cache_read_tokens, before.cache_read_tokens),
            _rest(self.cache_creation_tokens, before.cache_creation_tokens),
            self.tool_calls - before.tool_calls,
        )


def _rest(whole: int | None, before: int | None) -> int | None:
    return whole if whole is None or before is None else whole - before


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None:
        return other
    return one if other is None else one + other


@leaf
class Call:
    """One tool call of a response: the raw argument text, as the provider gave it."""

    name: str
    arguments: str
    call_id: str = ""


@leaf
class CallResult:
    """What a tool call came to: a text for the model, and a code if it is an error."""

    content: str
    error: str | None = None


@leaf
class UserMessage:
    """A message that entered: what the model reads, and who sent it and why."""

    id: str
    source: str
    sender: str
    blocks: tuple[str, ...]


@leaf
class AssistantMessage:
    """What a model answered in one step; `cut` when it was stopped meanwhile."""

    text: str
    calls: tuple[Call, ...] = ()
    cut: bool = False


@leaf
class ToolMessage:
    """The results of one step's calls, in the order of the calls."""

    calls: tuple[Call, ...]
    results: tuple[CallResult, ...]


Transcript: TypeAlias = list[UserMessage | AssistantMessage | ToolMessage]


def frame(source: str, sender: str, content: tuple[str, ...]) -> tuple[str, ...]:
    """The blocks that a model reads for a message of this source (R-019, R-020)."""
    if source == "report":
        return (f"Background subagent {sender} reported:", *content)
    return content


def to_blocks(content: Content) -> tuple[str, ...]:
    """Check content and return its text blocks.

    Raises:
        UsageError: it is not text, has no block with a visible character, or a block
            carries anything but its text (R-007, R-201).
    """
    if type(content) is str:
        blocks: tuple[str, ...] = (content,)
    elif isinstance(content, (list, tuple)):
        blocks = tuple(map(_block, content))
    else:
        raise UsageError(
            "content must be text or a list of text blocks, not"
            f" {type(content).__name__}"
        )
    for block in blocks:
        if block and not block.isspace():
            return blocks
    raise UsageError("content must hold at least one block that is not blank")


def _block(block: object) -> str:
    if type(block) is str:
        return block
    if type(block) is dict and block.keys() == {"type", "text"}:
        text = block["text"]
        if block["type"] == "text" and type(text) is str:
            return text
    raise UsageError(
        'a block must be text or {"type": "text", "text": ...} and nothing else:'
        " source, role and sender are written by the runtime"
    )
