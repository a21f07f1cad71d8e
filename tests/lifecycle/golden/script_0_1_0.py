"""The script of the golden store: what 0.1.0 ran, and was killed in the middle of."""

from __future__ import annotations

from typing import Any

import ramet

clerk = ramet.AgentSpec("clerk", "You answer.")
scout = ramet.AgentSpec("scout", "You look and report.")
root = ramet.AgentSpec("lead")
specs = [clerk, scout]


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Ask three times and send one scout."""
    flow.phase("ask")
    colour = await flow.agent("Which colour?", spec=clerk, choice=["red", "green"])
    size = await flow.agent("How big?", spec=clerk, label="size")
    child = await flow.spawn("Look around.", spec=scout, label="scout")
    ended = await child.outcome()
    reports = await child.reports()
    last = await flow.agent(
        "How many?", spec=clerk, schema={"type": "integer"}, key="count"
    )
    return {
        "colour": colour,
        "size": size,
        "scout": [child.id, ended.status, reports],
        "last": last,
    }
