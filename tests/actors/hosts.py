"""A host for tests of set-ups: it is asked for nothing.

Lives here: a `Host` whose every method fails the test.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ramet.actors.host import Host

__all__ = ["NoHost"]


class NoHost(Host):
    """What a set-up may hold on to, and no tool of these tests asks."""

    async def report(self, *_: Any) -> NoReturn:
        raise AssertionError("nobody asks this host")

    send_message = interrupt_agent = list_agents = report
    delegate = read_result = report
