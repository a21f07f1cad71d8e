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
        """Fail, as all the others."""
        raise AssertionError("nobody asks this host")

    async def send_message(self, *_: Any) -> NoReturn:
        """Fail."""
        await self.report()

    async def interrupt_agent(self, *_: Any) -> NoReturn:
        """Fail."""
        await self.report()

    async def list_agents(self, *_: Any) -> NoReturn:
        """Fail."""
        await self.report()

    async def delegate(self, *_: Any, **__: Any) -> NoReturn:
        """Fail."""
        await self.report()

    async def read_result(self, *_: Any) -> NoReturn:
        """Fail."""
        await self.report()
