"""An observer that logs through structlog: one line for each event.

Lives here: which fields a line has, and at which level it stands.  A line never holds
more of a text than a short preview, and never the key of a send or of a service.  It
remembers the parent and the turn of sessions while they are live, and no longer.

Nothing logs until `log_to_structlog` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ..mailbox.codec import KINDS
from ..mailbox.errors import UsageError
from ..mailbox.events import (
    Accepted,
    Activated,
    CallEnded,
    Compacted,
    Concluded,
    Created,
    Discarded,
    Ended,
    Event,
    Interrupted,
    Journaled,
    Promoted,
    RequestFailed,
    StepEnded,
    Submitted,
    Told,
    TurnEnded,
    TurnOpened,
)
from .cli_text import visible
from .supervisor import Supervisor

if TYPE_CHECKING:
    from .activation import Activation

__all__ = ["StructlogObserver", "log_to_structlog"]

_UNKNOWN = "unknown"

_TROUBLE = ("failed", "blocked", "stopped")


def log_to_structlog(
    supervisor: Supervisor, logger: Any = None, *, preview_characters: int = 80
) -> Callable[[], None]:
    """Log what happens from now on through structlog; gives what stops that.

    Args:
        supervisor: whose agents.
        logger: a bound logger of structlog; `None` takes that of the name `ramet`, as
            it is configured when a line is logged.
        preview_characters: how much of a text a line may hold; 0: nothing.

    A logger that raises disturbs no agent (R-215).

    Raises:
        UsageError: `preview_characters` is no whole number from 0 on.
    """
    observer = StructlogObserver(logger, preview_characters=preview_characters)
    live = supervisor._runtime.forest.live
    observer.find = live.get
    for activation in list(live.values()):
        observer.know(activation)
    return supervisor.observe(observer)


@attrs.define
class _Known:
    """What is remembered of a live session."""

    parent: str | None
    turn: int | None = None
    tools: tuple[str, ...] = ()


class StructlogObserver:
    """Logs each event with its session, parent and turn, and what is worth knowing.

    The name of a line is the event's in snake case, such as `turn_opened`; `closing` is
    one that no log holds.  `parent` is `None` for a root, and `"unknown"` for a session
    that was never live in this process.  What went wrong is a warning, the rest info.

    Args:
        logger: see `log_to_structlog`.
        preview_characters: how much of a text a line may hold; 0: nothing.
    """

    def __init__(self, logger: Any = None, *, preview_characters: int = 80) -> None:
        if type(preview_characters) is not int or preview_characters < 0:
            raise UsageError("preview_characters must be a whole number from 0 on")
        if logger is None:
            import structlog

            logger = structlog.get_logger("ramet")
        self._logger = logger
        self._most = preview_characters
        self._known: dict[str, _Known] = {}
        self.find: Callable[[str], Activation | None] = lambda session_id: None

    def statistics(self) -> dict[str, int]:
        """How many sessions it remembers: those that are live."""
        return {"sessions": len(self._known)}

    def know(self, activation: Activation) -> None:
        """Remember a session that is live already."""
        session = activation.session
        calls = session.calls or ()
        self._known[activation.id] = _Known(
            session.header.parent, session.turn, tuple([call.name for call in calls])
        )

    def on_event(self, session_id: str, seq: int, event: Event) -> None:
        """An event of a session became durable."""
        known = self._of(session_id, event)
        fields = dict(_FIELDS[type(event)](self, event, known))
        status = fields.get("status")
        trouble = status in _TROUBLE or isinstance(event, (RequestFailed, Discarded))
        self._log(
            "warning" if trouble else "info",
            _NAMES[type(event)],
            session=session_id,
            parent=known.parent,
            turn=known.turn,
            seq=seq,
            **fields,
        )

    def on_closing(self, session_id: str, cause: str) -> None:
        """An agent began to close by a cancel or a drain."""
        known = self._known.get(session_id) or _Known(_UNKNOWN)
        self._log(
            "info",
            "closing",
            session=session_id,
            parent=known.parent,
            turn=known.turn,
            cause=cause,
        )

    def _log(self, level: str, name: str, **fields: Any) -> None:
        getattr(self._logger, level)(name, **fields)

    def _of(self, session_id: str, event: Event) -> _Known:
        """What is known of a session at an event; it is forgotten with its end."""
        known = self._known.get(session_id)
        if known is None:
            live = self.find(session_id)
            if isinstance(event, Created):
                known = _Known(event.parent, 0)
            elif live is None:
                known = _Known(_UNKNOWN)
            else:
                session = live.session
                turn = session.turn - (session.open is not None)
                known = _Known(session.header.parent, max(0, turn))
        if isinstance(event, (Created, Activated)):
            self._known[session_id] = known
        elif isinstance(event, TurnOpened):
            known.turn = event.turn
        elif isinstance(event, StepEnded):
            known.tools = tuple([call.name for call in event.calls])
        elif isinstance(event, Ended):
            self._known.pop(session_id, None)
        return known

    def _preview(self, name: str, text: str | None) -> Iterator[tuple[str, Any]]:
        """The beginning of a text, on one line."""
        if text and self._most > 0:
            short = visible(" ".join(text[: self._most * 4].split()))
            cut = len(short) > self._most or len(text) > self._most * 4
            yield name, f"{short[: self._most]}…" if cut else short

    # -- the fields of each kind; no name that logging keeps for itself ----------------

    def _created(self, event: Created, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "agent", visible(event.spec.name)
        yield "kind", event.kind
        yield "depth", event.depth

    def _activated(self, event: Activated, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "activation", event.activation
        if event.changed:
            yield "changed", event.changed

    def _accepted(self, event: Accepted, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "message_id", event.id
        yield "source", event.source
        yield "sender", visible(event.sender)
        yield "delivery", event.given
        yield "characters", sum(map(len, event.content))
        yield from self._preview("preview", " ".join(event.content))

    def _opened(self, event: TurnOpened, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "claimed", event.claimed

    def _step(self, event: StepEnded, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "stop", event.stop
        if known.tools:
            yield "calls", known.tools
        if event.usage is not None:
            yield "input_tokens", event.usage.input_tokens
            yield "output_tokens", event.usage.output_tokens
        if event.cut:
            yield "cut", True
        yield from self._preview("preview", event.text)

    def _failed(self, event: RequestFailed, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "code", event.code
        yield from self._preview("error", event.message)

    def _call(self, event: CallEnded, known: _Known) -> Iterator[tuple[str, Any]]:
        if event.place < len(known.tools):
            yield "tool", known.tools[event.place]
        yield "place", event.place
        if event.error is not None:
            yield "code", event.error
        yield "characters", len(event.content)

    def _submitted(self, event: Submitted, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "verdict", event.verdict
        if event.errors:
            yield "faults", len(event.errors)

    def _interrupted(
        self, event: Interrupted, known: _Known
    ) -> Iterator[tuple[str, Any]]:
        yield "by", event.by

    def _promoted(self, event: Promoted, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "message_id", event.id

    def _turn_ended(self, event: TurnEnded, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "status", event.status
        yield "cause", event.cause
        yield from self._preview("detail", event.detail)

    def _discarded(self, event: Discarded, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "message_id", event.id
        yield "cause", event.cause
        yield from self._preview("detail", event.detail)

    def _concluded(self, event: Concluded, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "message_id", event.message
        yield "status", event.status
        yield "cause", event.cause
        if event.axis is not None:
            yield "axis", event.axis
        yield from self._preview("detail", event.detail)

    def _ended(self, event: Ended, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "reason", event.reason
        yield "told", event.told

    def _told(self, event: Told, known: _Known) -> Iterator[tuple[str, Any]]:
        return iter(())

    def _journaled(self, event: Journaled, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "kind", event.kind
        yield "characters", len(event.data)

    def _compacted(self, event: Compacted, known: _Known) -> Iterator[tuple[str, Any]]:
        yield "kept", len(event.verbatim) + event.kept
        yield "children", event.children
        yield "characters", len(event.summary)
        yield from self._preview("preview", event.summary)


_NAMES: dict[type, str] = {cls: kind for kind, cls in KINDS.items()}

_FIELDS: dict[
    type, Callable[[StructlogObserver, Any, _Known], Iterator[tuple[str, Any]]]
] = {
    Created: StructlogObserver._created,
    Activated: StructlogObserver._activated,
    Accepted: StructlogObserver._accepted,
    TurnOpened: StructlogObserver._opened,
    StepEnded: StructlogObserver._step,
    RequestFailed: StructlogObserver._failed,
    CallEnded: StructlogObserver._call,
    Submitted: StructlogObserver._submitted,
    Interrupted: StructlogObserver._interrupted,
    Promoted: StructlogObserver._promoted,
    TurnEnded: StructlogObserver._turn_ended,
    Discarded: StructlogObserver._discarded,
    Concluded: StructlogObserver._concluded,
    Ended: StructlogObserver._ended,
    Told: StructlogObserver._told,
    Journaled: StructlogObserver._journaled,
    Compacted: StructlogObserver._compacted,
}
