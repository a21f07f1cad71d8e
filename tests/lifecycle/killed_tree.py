"""A working tree of agents that is killed at one write of its store, and what it does.

    python -m tests.lifecycle.killed_tree

Lives here: the tree, whose work writes every kind of event and can be done again; the
store that kills its process; and the process that tests start.  It reads one JSON line
for each run, works in a fork of itself, so that nothing is imported twice, and answers
with the status of the fork.

The work is idempotent: every send has a key, so that it is done once however often the
tree is killed and runs again.  A calm tree holds nobody and stops nobody on the way.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import attrs

import ramet
from ramet import (
    Agent,
    AgentSpec,
    Call,
    ModelError,
    ModelRequest,
    ModelResponse,
    SqliteStore,
    Supervisor,
    ToolCall,
)
from ramet.lifecycle.journal import Journal
from ramet.mailbox.store import Batch
from ramet.testing import Gate

__all__ = ["KINDS", "MOMENTS", "Point", "Tree"]

KINDS = (
    "Created Activated Accepted TurnOpened StepEnded RequestFailed CallEnded Submitted"
    " Interrupted Promoted TurnEnded Discarded Concluded Ended Told Journaled"
).split()

MOMENTS = ("before", "commit", "torn", "after")
"""Before anything of a batch is written; when all of it is written and not committed;
when it is committed and only a part of it has reached the disk, as a loss of power
leaves it; and when it is safe, and nobody has been told."""

_CHOICE = ramet.Choice(["yes", "no"])


@attrs.frozen
class Point:
    """The write at which a process is killed: the `nth` that holds an event of `kind`.

    `kind` is empty for any write, and `moment` for a run that ends by itself.
    """

    moment: str = ""
    kind: str = ""
    nth: int = 1


class KillingStore(SqliteStore):
    """A store that kills its process, and counts what it wrote until then."""

    def __init__(self, path: Path, point: Point) -> None:
        super().__init__(path)
        self.counts: Counter[str] = Counter()
        self._point = point

    def append(self, batch: Batch) -> None:
        """Write a batch, or die at the chosen moment of it."""
        point = self._point
        kinds = {type(entry.event).__name__ for entry in batch.entries}
        self.counts.update({"", *kinds})
        due = self.counts[point.kind] == point.nth and point.kind in {"", *kinds}
        moment = point.moment if due else ""
        if moment == "before":
            _die()
        if moment == "commit":
            assert self._connection is not None
            self._connection.set_trace_callback(_die_at_commit)
        sizes = [self._logged()]
        super().append(batch)
        if moment == "torn":
            sizes.append(self._logged())
            self.path.with_name("torn").write_text(json.dumps(sizes))
        if moment in ("torn", "after"):
            _die()

    def _logged(self) -> int:
        """The size of the write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.stat().st_size if log.exists() else 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_at_commit(statement: str) -> None:
    if statement.lower().startswith("commit"):
        _die()


class Tree:
    """A root and its children at work on the store of one folder.

    Args:
        folder: where the store is, and what the tree writes down besides.
        calm: whether nobody is held, interrupted or stopped while it works.

    Attributes:
        sent: the id that each key stands for, as far as it is acknowledged.
        requests: what minds were asked.
    """

    def __init__(self, folder: Path, *, calm: bool) -> None:
        self.folder = folder
        self.path = folder / "store.db"
        self.sent: dict[str, str] = {}
        self.requests: list[ModelRequest] = []
        self._calm = calm
        self._gates = {name: Gate() for name in ("held", "stopped", "lead")}
        scout = AgentSpec("scout", tools=[self._dig])
        names = ("lead", "chief", "oracle", "failing", "held", "stopped")
        self._specs = {name: AgentSpec(name) for name in names} | {"scout": scout}

    async def run(self, store: ramet.Store | str, observer: object = None) -> None:
        """Open the store, do what is still to be done, and leave."""
        model = ramet.FunctionModel(self._think)
        async with ramet.open(
            store, specs=self._specs.values(), model=model
        ) as supervisor:
            supervisor.observe(observer)
            supervisor.register_setup(ramet.report_setup())
            lent = [self._specs["scout"], self._specs["oracle"]]
            supervisor.register_setup(ramet.delegation_setup(lent))
            root = await self._root(supervisor)
            await self._plain_work(supervisor, root)
            await self._interrupted(supervisor, root)
            await self._stopped(supervisor, root)
            await self._promoted(supervisor, root)
            await self._left_over(supervisor, root)
            await root.wait_idle()

    async def _root(self, sup: Supervisor) -> Agent:
        roots = await sup.children(None)
        if roots:
            return await sup.resume(roots[0].id)
        return await sup.start_root(self._specs["lead"], interactive=True)

    # -- the work ----------------------------------------------------------------------

    def _note(self, key: str, message: str) -> str:
        """Write down that a send was acknowledged, outside of the store."""
        self.sent[key] = message
        with (self.folder / "sent").open("a") as file:
            file.write(json.dumps([key, message]) + "\n")
        return message

    async def _start(self, sup: Supervisor, root: Agent, name: str, key: str) -> str:
        """A child; gives its session."""
        started = await sup.start_child(root, self._specs[name], "go", key=key)
        self._note(key, started.message_id)
        return started.child_id

    async def _follow(self, sup: Supervisor, root: Agent, child: str, key: str) -> str:
        return self._note(key, await sup.followup(root, child, "more", key=key))

    async def _answered(self, sup: Supervisor, child: str, key: str) -> None:
        """Wait for an outcome, and for the rest of who gave it.

        What a kill left unclaimed runs when its session is resumed.
        """
        message = self.sent[key]
        if sup.agent(child) is None and await sup.outcome(message) is None:
            # Idle it goes to rest at once: perhaps its end was not durable just now.
            (await sup.resume(child)).release()
        await sup.wait(message)
        agent = sup.agent(child)
        if agent is not None:
            await agent.wait_gone()

    async def _plain_work(self, sup: Supervisor, root: Agent) -> None:
        journal = Journal(sup, root)
        journal.note("log", {"text": "it begins"})
        await journal.stored()
        scout = await self._start(sup, root, "scout", "scout")
        await self._answered(sup, scout, "scout")
        await self._follow(sup, root, scout, "again")
        await self._answered(sup, scout, "again")
        oracle = self._specs["oracle"]
        outcome = await sup.call(root, oracle, "well?", contract=_CHOICE, key="ask")
        assert outcome.status in ("completed", "failed")
        begun = await sup.start_call(root, oracle, "well?", contract=_CHOICE, key="bg")
        await sup.wait(self._note("bg", begun.message_id))
        chief = await self._start(sup, root, "chief", "chief")
        await self._answered(sup, chief, "chief")
        # What a kill left below a child is seen to when that child is resumed.
        await self._follow(sup, root, chief, "on")
        await self._answered(sup, chief, "on")
        failing = await self._start(sup, root, "failing", "failing")
        await self._answered(sup, failing, "failing")

    async def _interrupted(self, sup: Supervisor, root: Agent) -> None:
        held = await self._start(sup, root, "held", "held")
        agent = await self._inside(sup, held, "held")
        await self._follow(sup, root, held, "parked")
        if agent is not None:
            sup.interrupt(held)
            await agent.wait_gone()
        self._gates["held"].open()
        await self._follow(sup, root, held, "unparks")
        await sup.wait(self.sent["parked"])
        await self._answered(sup, held, "unparks")

    async def _stopped(self, sup: Supervisor, root: Agent) -> None:
        stopped = await self._start(sup, root, "stopped", "stopped")
        if await self._inside(sup, stopped, "stopped") is not None:
            await self._follow(sup, root, stopped, "discarded")
        await sup.cancel(stopped, reason="on purpose")
        self._gates["stopped"].open()

    async def _promoted(self, sup: Supervisor, root: Agent) -> None:
        """A child's report and notice come while the root is in a turn of its own."""
        told = self._note("tell", await sup.tell(root, "hold", key="tell"))
        if not self._calm and await sup.outcome(told) is None:
            await self._gates["lead"].reached()
        late = await self._start(sup, root, "scout", "late")
        await self._answered(sup, late, "late")
        self._gates["lead"].open()
        await sup.wait(told)

    async def _left_over(self, sup: Supervisor, root: Agent) -> None:
        """What a kill left unclaimed deeper down, which nobody has a key for."""
        for line in await sup.descendants(root.id):
            if line.kind != "continuable" or not line.pending or sup.agent(line.id):
                continue
            assert line.parent_id is not None
            above = sup.agent(line.parent_id) or await sup.resume(line.parent_id)
            agent = await sup.resume(line.id)
            agent.release()
            await agent.wait_gone()
            if above is not root:
                above.release()
                await above.wait_gone()

    async def _inside(self, sup: Supervisor, session: str, name: str) -> Agent | None:
        """The agent when its mind is held; `None` when nobody is to be held."""
        agent = sup.agent(session)
        if self._calm or agent is None or self._gates[name].is_open:
            return None
        await self._gates[name].reached()
        return agent

    # -- minds and tools ---------------------------------------------------------------

    async def _think(self, request: ModelRequest) -> str | ModelResponse:
        self.requests.append(request)
        name, last = request.name, request.messages[-1]
        if name == "failing":
            raise ModelError("this provider is never there")
        if name == "oracle":
            judged = isinstance(last, ramet.ToolMessage)
            return _calls(_call("reply", value="yes" if judged else "maybe"))
        if not self._calm and self._is_held(request):
            await self._gates[name].passed()
        if name == "chief" and _is_asked(last, "prompt"):
            started = _call("agent", agent="scout", prompt="dig", mode="start")
            return _calls(started, _call("agent", agent="oracle", prompt="well?"))
        if name != "scout":
            return "noted"
        if _is_asked(last, "prompt", "followup"):
            return _calls(_call("_dig"), _call("_dig"))
        if isinstance(last, ramet.UserMessage):
            return "noted"
        assert isinstance(last, ramet.ToolMessage)
        if last.calls[0].name == "_dig":
            return _calls(_call("report", output="found it"))
        return "done"

    def _is_held(self, request: ModelRequest) -> bool:
        last = request.messages[-1]
        if request.name == "lead":
            return isinstance(last, ramet.UserMessage) and last.blocks == ("hold",)
        return request.name in self._gates

    async def _dig(self, call: ToolCall) -> str:
        """Dig, and leave a trace outside of the store."""
        with (self.folder / "dug").open("a") as file:
            file.write(call.key + "\n")
        await anyio.lowlevel.checkpoint()
        return "dug"


def _is_asked(last: object, *sources: str) -> bool:
    """Whether it is told to do something, and not what others have done."""
    return isinstance(last, ramet.UserMessage) and last.source in sources


def _call(name: str, **arguments: Any) -> Call:
    return Call(name, json.dumps(arguments))


def _calls(*calls: Call) -> ModelResponse:
    return ModelResponse("", calls, "tool_calls", ramet.Usage(1, 7, 3))


# -- the process -----------------------------------------------------------------------


def _work(folder: Path, backend: str, point: Point) -> None:
    tree = Tree(folder, calm=False)
    store = KillingStore(tree.path, point)
    anyio.run(tree.run, store, backend=backend)
    (folder / "counts").write_text(json.dumps(store.counts))


def main() -> None:
    """Work in a fork for each line of input, until there is no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            folder = Path(asked["folder"])
            with (folder / "err").open("w") as err:
                os.dup2(err.fileno(), 2)
            try:
                _work(folder, asked["backend"], Point(*asked["point"]))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
