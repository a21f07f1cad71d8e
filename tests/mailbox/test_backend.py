"""The backend ports: starting a task and waiting once, on both backends alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

import anyio
import pytest

from ramet.mailbox.backend import Backend, current_backend

pytestmark = pytest.mark.anyio

NAME: ContextVar[str] = ContextVar("name", default="nobody")


async def test_the_backend_of_the_running_loop_is_found(anyio_backend: str) -> None:
    async with anyio.create_task_group() as group:
        assert current_backend(group).name == anyio_backend


async def test_a_spawned_task_runs_and_is_counted_until_it_returns() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        go = anyio.Event()
        seen: list[str] = []

        async def work(name: str) -> None:
            await go.wait()
            seen.append(name)

        backend.spawn(work, "one")
        backend.spawn(work, "two")
        assert backend.tasks() == 2
        go.set()
        await backend.finished()
        assert sorted(seen) == ["one", "two"]
        assert backend.tasks() == 0
        await backend.finished()


async def test_a_task_inherits_the_context_of_the_backend_and_not_the_senders() -> None:
    async with anyio.create_task_group() as group:
        NAME.set("maker")
        backend = current_backend(group)
        NAME.set("sender")
        seen: list[str] = []

        async def work() -> None:
            seen.append(NAME.get())
            NAME.set("task")

        backend.spawn(work)
        await backend.finished()
        backend.spawn(work)
        await backend.finished()
        assert seen == ["maker", "maker"]


async def test_a_wait_ends_when_its_callback_is_called_however_often() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        callbacks: list[Callable[[], None]] = []
        done: list[int] = []

        async def wait() -> None:
            await backend.wait(callbacks.append)
            done.append(1)

        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert done == []
        callbacks[0]()
        callbacks[0]()
        await anyio.wait_all_tasks_blocked()
        assert done == [1]
        callbacks[0]()


async def test_a_callback_called_while_it_is_registered_is_not_lost() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        with anyio.fail_after(5):
            await backend.wait(lambda done: done())


async def test_a_cancelled_wait_ends_and_its_callback_does_nothing_more() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        callbacks: list[Callable[[], None]] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await backend.wait(callbacks.append)
        assert scope.cancelled_caught
        for callback in callbacks:
            callback()
        await anyio.lowlevel.checkpoint()


async def test_all_who_wait_in_a_list_are_woken_but_those_who_were_cancelled() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        waiters: list[object] = []
        done: list[int] = []
        scopes = [anyio.CancelScope() for _ in range(3)]

        async def wait(place: int) -> None:
            with scopes[place]:
                await backend.waiter(waiters)
                done.append(place)

        for place in range(3):
            group.start_soon(wait, place)
        await anyio.wait_all_tasks_blocked()
        assert len(waiters) == 3
        scopes[1].cancel()
        await anyio.wait_all_tasks_blocked()
        assert done == []
        backend.wake(waiters)
        backend.wake(waiters)
        await anyio.wait_all_tasks_blocked()
        assert sorted(done) == [0, 2]
        backend.wake(waiters)


async def test_a_shield_keeps_outer_cancels_out_and_can_be_cancelled() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        reached: list[str] = []
        with anyio.CancelScope() as outer:
            outer.cancel()
            with backend.shield():
                await anyio.lowlevel.checkpoint()
                reached.append("inside")
            with backend.shield() as scope:
                scope.cancel()
                await anyio.lowlevel.checkpoint()
                reached.append("not here")
            with backend.shield() as scope:
                scope.deadline = anyio.current_time() - 1
                await anyio.sleep_forever()
            reached.append("after")
            await anyio.lowlevel.checkpoint()
            reached.append("not here")
        assert reached == ["inside", "after"]


async def test_a_callback_that_is_no_task_can_ask_the_time() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        told = anyio.Event()
        times: list[float] = []

        def ask() -> None:
            times.append(backend.now())
            told.set()

        before = anyio.current_time()
        await anyio.to_thread.run_sync(backend.post, ask)
        await told.wait()
        assert before <= times[0] <= anyio.current_time()
        assert before <= backend.now()


async def test_a_thread_posts_into_the_loop() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        home = threading.get_ident()
        ran: list[int] = []

        def register(done: Callable[[], None]) -> None:
            def arrive() -> None:
                ran.append(threading.get_ident())
                done()

            threading.Thread(target=backend.post, args=(arrive,)).start()

        await backend.wait(register)
        assert ran == [home]


def test_a_post_after_the_loop_has_ended_does_nothing(anyio_backend: str) -> None:
    kept: list[Backend] = []

    async def run() -> None:
        async with anyio.create_task_group() as group:
            kept.append(current_backend(group))

    anyio.run(run, backend=anyio_backend)
    ran: list[int] = []
    kept[0].post(lambda: ran.append(1))
    assert ran == []


async def test_a_checkpoint_lets_others_run_and_notices_a_cancellation() -> None:
    async with anyio.create_task_group() as group:
        backend = current_backend(group)
        seen: list[str] = []

        async def other() -> None:
            seen.append("other")

        group.start_soon(other)
        while not seen:
            await backend.checkpoint()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await backend.checkpoint()
            seen.append("not reached")
        assert seen == ["other"]
