"""A tree of researchers who report while they work.

    ramet run examples/researchers.py --model local -- "the moon" "the sea"

For each topic a lead starts one researcher, which may give work to helpers of its own
by the tool `agent`: it calls one, or starts one that reports while it works.  A
researcher reports to the lead as soon as it has something: the lead reads what is there
and asks for more, in the same session, before anybody is done for good.
"""

from __future__ import annotations

from typing import Any

import ramet

helper = ramet.AgentSpec(
    "helper",
    """You look up one small thing, and report it in one sentence.

Example request:
Say what bread is made of.
Example answer:
{"tool":"report","arguments":{"output":"Bread is made of flour, water and salt."}}
""",
    # It does its work itself: otherwise helpers could start helpers without an end.
    deny=["agent", "read_result"],
)
researcher = ramet.AgentSpec(
    "researcher",
    """You find out about a topic. You report one sentence as soon as you know it. You
may give a part of your work to a helper.

Example request:
Find out about bread.
Example answer:
{"tool":"report","arguments":{"output":"Bread is a food that is baked from flour and \
water."}}
""",
    limits=ramet.Limits(requests=20, tool_calls=4),
    deny=["read_result"],
)
root = ramet.AgentSpec("lead")
specs = [researcher, helper]

TOPICS = ("the moon", "the sea")
MORE = "Report one thing more about it."


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Have topics looked into, and ask about each a second time."""
    revoke = flow.supervisor.register_setup(ramet.delegation_setup([helper]))
    try:
        return {"topics": await research(flow, list(flow.args or TOPICS))}
    finally:
        revoke()


async def research(flow: ramet.Flow, topics: list[str]) -> dict[str, Any]:
    """One researcher for each topic, all at work at the same time."""

    async def one(topic: str) -> dict[str, Any]:
        child = await flow.spawn(
            f"Find out about {topic}.", spec=researcher, label=topic
        )
        first = await child.outcome()
        flow.log(f"{topic}: {len(await child.reports())} reports so far")
        more = await child.send(MORE)
        await more.outcome()
        return {
            "first": first.status,
            "reports": await child.reports(),
            "researcher": child.id,
        }

    found = await flow.parallel(
        [item.bind(one) for item in flow.items("topic", topics)]
    )
    return dict(zip(topics, found, strict=True))
