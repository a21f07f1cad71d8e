"""ramet, by its public names: the workloads of `../agents.py`, as they are there."""

from __future__ import annotations

from .. import agents
from .subjects import Piece
from .workloads import AT_ONCE, BURST, DELEGATION, IN_A_ROW, STREAM


def pieces(system: str) -> list[Piece]:
    return [
        Piece(BURST, agents.accept),
        Piece(BURST, agents.accept_and_store, "with its commit"),
        Piece(STREAM, agents.accept),
        Piece(STREAM, agents.accept_and_store, "with its commit"),
        Piece(AT_ONCE, agents.turns_at_once),
        Piece(IN_A_ROW, agents.turns_in_a_row),
        Piece(DELEGATION, agents.calls_at_once),
    ]
