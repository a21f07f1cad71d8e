"""One system in one process: measures its pieces in turns with the bare limits.

Lives here: what runs in the environment of each peer, so that it imports nothing but
the standard library, the bare limits and that peer.  `python -m
benchmarks.peers.measure SYSTEM` prints a JSON object for the system and for each piece.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import traceback
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Behind all that is installed: `../agents.py` would hide the openai-agents package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

import bare
from rounds import Group, interleaved

from .limits import LIMITS
from .subjects import Piece, settled
from .systems import SYSTEMS, System
from .workloads import WORKLOADS

LIMIT = "limit"
ROUNDS = 3
"""How often a piece and its limit take turns in a process, after one to warm up."""


def say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def measure(system: System, piece: Piece, *, quick: bool) -> dict[str, Any]:
    """Microseconds of a piece and of its limit, and how often the one is the other."""
    workload = WORKLOADS[piece.workload]
    group = Group(
        workload.name,
        workload.least if quick else workload.count,
        {system.name: settled(piece.run), LIMIT: LIMITS[workload.name]},
        limits={system.name: LIMIT},
    )
    rounds = 1 if quick else ROUNDS
    found = bare.run(system.backend, partial(interleaved, group=group, rounds=rounds))
    ours, limit = found
    return {
        "us": ours.median,
        "limit_us": limit.median,
        "times_limit": statistics.median(ours.ratios),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=[one.name for one in SYSTEMS])
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    system = next(one for one in SYSTEMS if one.name == asked.system)
    module = import_module(f".{system.module}", __package__)
    say(versions={name: version(name) for name in system.distributions})
    pieces: list[Piece] = module.pieces(system.name)
    for piece in pieces:
        said = {"workload": piece.workload, "variant": piece.variant}
        try:
            found = measure(system, piece, quick=asked.quick)
        except Exception as error:  # the next piece may still work
            traceback.print_exc()
            first = str(error).partition("\n")[0]
            found = {"error": f"{type(error).__name__}: {first}"}
        say(**said, **found)


if __name__ == "__main__":
    main()
