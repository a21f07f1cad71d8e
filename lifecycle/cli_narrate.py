"""A log as a person reads it: what each event of a session is in words.

Lives here: one line, or a few, for each kind of event.  It is told the events of one
log in order and remembers what it needs to name things: the turn, the step, the calls.
It reads no store and writes to no screen.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

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
from ..mailbox.message import Call, Usage
from .cli_journal import journal_line
from .cli_text import Cell, Line, count, cut, one_line, shorten, visible, width_of

__all__ = ["Narrator"]

_CLOCK = 13
_PLACE = 6
_PREVIEW = 160
"""How much of a text is shown where no screen says how much fits."""

_LEAST = 20


class Narrator:
    """Tells the events of one log, in their order.

    Args:
        width: how many columns a line may have; `None`: no screen says.
        full: whether whole texts are told, each line of them on a line of its own.
    """

    def __init__(self, width: int | None, *, full: bool) -> None:
        self._width = width
        self._full = full
        self._day = ""
        self._turn = 0
        self._step = 0
        self._calls: tuple[Call, ...] = ()
        self._sources: dict[str, str] = {}

    def tell(self, event: Event) -> list[Line]:
        """The lines of the next event."""
        lines = list(self._date(event.at))
        place = self._place(event)
        moment = datetime.datetime.fromtimestamp(event.at / 1000)
        clock = f"{moment:%H:%M:%S}.{event.at % 1000:03d}".ljust(_CLOCK)
        if self._narrow:
            place = ""
            clock = f"{moment:%H:%M:%S} "
        lead: tuple[Cell, ...] = ((clock, "dim"), (place.ljust(self._indent), "mark"))
        for cells, text in _TELL[type(event)](self, event):
            lines.append(self._line(lead, cells, text))
            if self._full:
                lines += self._whole(text)
            lead = ((" " * len(clock), ""), (" " * self._indent, ""))
        return lines

    @property
    def _narrow(self) -> bool:
        return self._width is not None and self._width < 60

    @property
    def _indent(self) -> int:
        return 0 if self._narrow else _PLACE

    def _date(self, at: int) -> Iterator[Line]:
        day = f"{datetime.datetime.fromtimestamp(at / 1000):%A, %d %B %Y}"
        if day != self._day:
            self._day = day
            yield ((day, "dim"),)

    def _place(self, event: Event) -> str:
        """The turn, and within it the step; both move on with the event."""
        if isinstance(event, TurnOpened):
            self._turn, self._step = event.turn, 0
        elif isinstance(event, (StepEnded, RequestFailed)):
            self._step += 1
        if isinstance(event, (TurnOpened, TurnEnded, Interrupted, Compacted)):
            return f"{self._turn}"
        if isinstance(event, (StepEnded, RequestFailed, CallEnded, Submitted)):
            return f"{self._turn}.{self._step}"
        return ""

    def _line(self, lead: tuple[Cell, ...], cells: list[Cell], text: str) -> Line:
        """One line: what happened, and as much of a text as there is room for."""
        pieces = [*lead, *cells]
        if self._width is None:
            room = _PREVIEW
        else:
            room = self._width - sum(width_of(piece) for piece, _ in pieces) - 1
        if text and not (self._full and "\n" in text.strip()):
            pieces += [(" ", ""), (shorten(_on_one_line(text), max(room, _LEAST)), "")]
        if self._width is None:
            return tuple(pieces)
        return _fitting(pieces, max(self._width, _LEAST))

    def _whole(self, text: str) -> Iterator[Line]:
        """Every line of a text that has more than one, or is too long for its line."""
        lines = text.strip("\n").split("\n")
        if len(lines) == 1 and len(text) <= (self._width or _PREVIEW) // 2:
            return
        for line in lines:
            yield (
                (" " * (self._indent + 8), ""),
                (visible(line).replace("\t", "    "), ""),
            )

    # -- each kind ---------------------------------------------------------------------

    def _created(self, event: Created) -> Iterator[tuple[list[Cell], str]]:
        child = f", child of {event.parent}" if event.parent else ""
        text = f"{event.kind} agent {one_line(event.spec.name)}{child}"
        yield [("created ", "title"), (text, "")], ""
        if self._full and event.spec.instructions:
            yield [("  instructions", "dim")], event.spec.instructions
        if self._full and event.contract is not None:
            yield [("  contract", "dim")], event.contract
        if self._full and event.spec.tools:
            names = ", ".join(one_line(tool.name) for tool in event.spec.tools)
            yield [("  tools ", "dim"), (names, "")], ""

    def _activated(self, event: Activated) -> Iterator[tuple[list[Cell], str]]:
        changed = ", ".join(map(one_line, event.changed))
        note = f"changed since: {changed}" if changed else event.activation
        yield [("activated ", "dim"), (note, "note" if changed else "dim")], ""

    def _accepted(self, event: Accepted) -> Iterator[tuple[list[Cell], str]]:
        self._sources[event.id] = event.source
        delivery = "" if event.given == "wakeup" else f", {event.given}"
        if event.asked == "wakeup" and event.given == "quiet":
            delivery = ", deferred to quiet"
        sender = "" if self._narrow else f" from {one_line(event.sender)}"
        head = f"{sender}{delivery}:"
        yield (
            [(event.source, "in"), (head, "dim")],
            "\n".join(event.content),
        )

    def _turn_opened(self, event: TurnOpened) -> Iterator[tuple[list[Cell], str]]:
        claimed = ", ".join(
            f"{self._sources.pop(one, 'message')} {one}" for one in event.claimed
        )
        yield [(f"turn {event.turn}", "title"), (f" answers {claimed}", "dim")], ""

    def _step_ended(self, event: StepEnded) -> Iterator[tuple[list[Cell], str]]:
        self._calls = event.calls
        notes = [] if event.stop in ("end_turn", "tool_calls") else [event.stop]
        notes += _tokens(event.usage)
        if event.cut and "cut" not in notes:
            notes.append("cut")
        told = f" ({one_line(', '.join(notes))})" if notes else ""
        if event.text or not event.calls:
            text = event.text if event.text.strip() else "(no text)"
            yield [("says", "out"), (f"{told}:", "dim")], text
            told = ""
        for one in event.calls:
            head = [("calls ", "call"), (one_line(one.name), "name"), (told, "dim")]
            yield head, one.arguments
            told = ""

    def _request_failed(self, event: RequestFailed) -> Iterator[tuple[list[Cell], str]]:
        yield [("request failed", "bad"), (f" ({event.code}):", "dim")], event.message

    def _call_ended(self, event: CallEnded) -> Iterator[tuple[list[Cell], str]]:
        name = "call"
        if event.place < len(self._calls):
            name = one_line(self._calls[event.place].name)
        if event.error is not None:
            head = [(f"{name} failed", "bad"), (f" ({event.error}):", "dim")]
        else:
            head = [(name, "name"), (" gave:", "dim")]
        yield head, event.content

    def _submitted(self, event: Submitted) -> Iterator[tuple[list[Cell], str]]:
        style = "good" if event.verdict in ("valid", "duplicate") else "bad"
        head: list[Cell] = [("return ", "dim"), (event.verdict, style)]
        yield head, "; ".join(event.errors) or (event.value or "")

    def _interrupted(self, event: Interrupted) -> Iterator[tuple[list[Cell], str]]:
        text = f" by {one_line(event.by)}: what waits is parked"
        yield [("interrupted", "note"), (text, "")], ""

    def _promoted(self, event: Promoted) -> Iterator[tuple[list[Cell], str]]:
        source = self._sources.get(event.id, "message")
        yield [(f"{source} {event.id} waits for a turn now", "dim")], ""

    def _turn_ended(self, event: TurnEnded) -> Iterator[tuple[list[Cell], str]]:
        yield (
            [*_ending(f"turn {self._turn}", event.status, event.cause)],
            (event.detail or ""),
        )

    def _discarded(self, event: Discarded) -> Iterator[tuple[list[Cell], str]]:
        source = self._sources.pop(event.id, "message")
        yield (
            [("discarded", "note"), (f" {source} {event.id} ({event.cause})", "dim")],
            event.detail or "",
        )

    def _concluded(self, event: Concluded) -> Iterator[tuple[list[Cell], str]]:
        axis = f" on {event.axis}" if event.axis else ""
        yield (
            [*_ending("assignment", event.status, event.cause), (axis, "dim")],
            (event.value or event.detail or ""),
        )

    def _ended(self, event: Ended) -> Iterator[tuple[list[Cell], str]]:
        told = "" if event.told else ", its parent not told yet"
        yield [("at rest", "title"), (f" ({one_line(event.reason)}{told})", "dim")], ""

    def _told(self, event: Told) -> Iterator[tuple[list[Cell], str]]:
        yield [("its parent was told", "dim")], ""

    def _journaled(self, event: Journaled) -> Iterator[tuple[list[Cell], str]]:
        yield journal_line(event.kind, event.data)

    def _compacted(self, event: Compacted) -> Iterator[tuple[list[Cell], str]]:
        kept = len(event.verbatim) + event.kept
        notes = [f"{kept} {'entry' if kept == 1 else 'entries'} kept"]
        if event.children:
            notes.append(f"live children: {', '.join(map(one_line, event.children))}")
        tokens = ", ".join(_tokens(event.usage))
        notes += [tokens] if tokens else []
        head: list[Cell] = [("compacted", "note"), (f" ({'; '.join(notes)}):", "dim")]
        yield head, event.summary


def _on_one_line(text: str) -> str:
    """JSON on one line, other text as it is."""
    return " ".join(text.split()) if text.lstrip().startswith(("{", "[")) else text


def _ending(what: str, status: str, cause: str | None) -> Iterator[Cell]:
    style = {"completed": "good", "cancelled": "note"}.get(status, "bad")
    yield f"{what} ", "title"
    yield status, style
    if cause is not None:
        yield f" ({one_line(cause)})", "dim"


def _tokens(usage: Usage | None) -> list[str]:
    if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
        return []
    return [f"{count(usage.input_tokens)} in", f"{count(usage.output_tokens)} out"]


def _fitting(pieces: list[Cell], most: int) -> Line:
    """As much of a line as fits."""
    left = most
    kept: list[Cell] = []
    for text, style in pieces:
        shown = cut(text, left)
        kept.append((shown, style))
        left -= width_of(shown)
        if left <= 0:
            break
    return tuple(kept)


_TELL: dict[type, Callable[[Narrator, Any], Iterator[tuple[list[Cell], str]]]] = {
    Created: Narrator._created,
    Activated: Narrator._activated,
    Accepted: Narrator._accepted,
    TurnOpened: Narrator._turn_opened,
    StepEnded: Narrator._step_ended,
    RequestFailed: Narrator._request_failed,
    CallEnded: Narrator._call_ended,
    Submitted: Narrator._submitted,
    Interrupted: Narrator._interrupted,
    Promoted: Narrator._promoted,
    TurnEnded: Narrator._turn_ended,
    Discarded: Narrator._discarded,
    Concluded: Narrator._concluded,
    Ended: Narrator._ended,
    Told: Narrator._told,
    Journaled: Narrator._journaled,
    Compacted: Narrator._compacted,
}
