"""The closed union of what a session's log stores.

Lives here: one class for each thing that can have happened to a session, in the past
tense.  They are immutable data; `session.py` says what they mean and `codec.py` how
they are written.  A new kind needs a new entry in `Event`, and a new meaning of an old
one a new `codec.VERSION`.

`at` is always the wall clock in milliseconds since 1970.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from .leaf import leaf
from .message import Call, Usage

__all__ = [
    "Accepted",
    "Activated",
    "CallEnded",
    "Compacted",
    "Concluded",
    "Created",
    "Discarded",
    "Ended",
    "Event",
    "Interrupted",
    "Journaled",
    "Kind",
    "LimitsRecord",
    "Promoted",
    "RequestFailed",
    "SpecRecord",
    "StepEnded",
    "Submitted",
    "Told",
    "ToolRecord",
    "TurnEnded",
    "TurnOpened",
]

Kind = Literal["interactive", "headless", "oneshot", "continuable"]

Given = Literal["wakeup", "quiet", "undecided"]

Status = Literal["completed", "failed", "cancelled", "blocked", "stopped"]


@leaf
class ToolRecord:
    """A tool as it was at publication: its name and the digest of what a model sees."""

    name: str
    digest: str


@leaf
class LimitsRecord:
    """Limits as they were declared; `None` is unbounded."""

    concurrency: int | None = None
    agents: int | None = None
    start_deadline_s: float | None = None
    call_s: float | None = None
    tool_calls: int | None = None
    requests: int | None = None


@leaf
class SpecRecord:
    """What a header keeps of a spec: texts, limits and digests, never code."""

    name: str
    instructions: str = ""
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    limits: LimitsRecord = LimitsRecord()
    tools: tuple[ToolRecord, ...] = ()


@leaf
class Created:
    """The header: written once, before the first activation; `parent` never changes.

    `contract` is the canonical JSON text of a returning agent's contract.
    """

    session: str
    parent: str | None
    depth: int
    kind: Kind
    spec: SpecRecord
    at: int
    contract: str | None = None
    background: bool = False


@leaf
class Activated:
    """An activation began.  `changed` names stored texts and tools that differ now."""

    activation: str
    at: int
    changed: tuple[str, ...] = ()


@leaf
class Accepted:
    """A message was accepted: from here on it is this session's to enter or discard.

    `asked` is the delivery that the sender asked for, `given` what it got.  `about` are
    the assignments that a notice or an outcome message tells of.
    """

    id: str
    source: str
    sender: str
    content: tuple[str, ...]
    given: Given
    at: int
    asked: str = "wakeup"
    key: str | None = None
    about: tuple[str, ...] = ()
    digest: str | None = None


@leaf
class TurnOpened:
    """A turn began and claimed these messages."""

    turn: int
    claimed: tuple[str, ...]
    at: int


@leaf
class StepEnded:
    """A model answered.  `cut` when only a part of the text was kept."""

    text: str
    calls: tuple[Call, ...]
    stop: str
    at: int
    usage: Usage | None = None
    cut: bool = False


@leaf
class RequestFailed:
    """A model request was made and gave nothing that can be kept."""

    code: str
    message: str
    at: int
    usage: Usage | None = None


@leaf
class CallEnded:
    """The call at `place` of the open batch has its result."""

    place: int
    content: str
    at: int
    error: str | None = None


@leaf
class Submitted:
    """A return was judged.  `value` is canonical text, also of what was refused."""

    place: int
    verdict: Literal["valid", "invalid", "duplicate", "conflict", "missing"]
    at: int
    value: str | None = None
    errors: tuple[str, ...] = ()


@leaf
class Interrupted:
    """Somebody asked to stop the open turn; what waits is parked from here on."""

    by: str
    at: int


@leaf
class Promoted:
    """An undecided notice became an occurrence."""

    id: str
    at: int


@leaf
class TurnEnded:
    """The open turn ended, and its claimed assignments, unless the agent returns.

    `cause` is a stable code (`None`: completed), `detail` what a person wants to know.
    """

    status: Status
    cause: str | None
    at: int
    detail: str | None = None


@leaf
class Discarded:
    """A cancel discarded a waiting message."""

    id: str
    cause: str
    at: int
    detail: str | None = None


@leaf
class Concluded:
    """The assignment of a returning agent ended.  `receipt` is canonical text."""

    message: str
    status: Status
    cause: str | None
    at: int
    value: str | None = None
    axis: str | None = None
    detail: str | None = None
    receipt: str | None = None


@leaf
class Ended:
    """The activation ended.  `told`: the same batch tells the parent every outcome.

    `reports` is how many reports it made.
    """

    reason: str
    told: bool
    at: int
    reports: int = 0


@leaf
class Told:
    """The outcomes that were untold are told to the parent in the same batch."""

    at: int


@leaf
class Journaled:
    """A supervisor script wrote to its journal; `data` is canonical text."""

    kind: str
    data: str
    at: int


@leaf
class Compacted:
    """The transcript was shortened: `summary` stands for all but its last `kept`
    entries.

    `verbatim` are the messages among the dropped ones that stay word for word,
    `children` the live children at that instant.  `usage` is what making it cost, where
    its maker said so.
    """

    summary: str
    at: int
    kept: int = 0
    verbatim: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    usage: Usage | None = None


Event: TypeAlias = (
    Created
    | Activated
    | Accepted
    | TurnOpened
    | StepEnded
    | RequestFailed
    | CallEnded
    | Submitted
    | Interrupted
    | Promoted
    | TurnEnded
    | Discarded
    | Concluded
    | Ended
    | Told
    | Journaled
    | Compacted
)
