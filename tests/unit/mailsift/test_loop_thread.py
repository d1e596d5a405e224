"""A loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mailsift.runtime.loop_thread import LoopThread


async def thread_name() -> str:
    return threading.current_thread().name


def test_every_coroutine_runs_on_the_same_thread_and_its_answer_comes_back() -> None:
    loop = LoopThread()
    assert {loop.run(thread_name()) for _ in range(3)} == {"mailsift-loop"}
    loop.close()


def test_what_a_coroutine_raises_comes_back_and_the_loop_goes_on() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    loop = LoopThread()
    with pytest.raises(ValueError, match="broken"):
        loop.run(fail())
    assert loop.run(thread_name())
    loop.close()


def test_what_still_runs_when_the_loop_is_closed_is_cancelled_and_may_tidy_up() -> None:
    tidied = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.append(True)

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(linger())
        await asyncio.sleep(0)
        return task

    loop = LoopThread()
    task = loop.run(start())
    loop.close()
    assert tidied == [True]
    assert task.cancelled()


def test_coroutines_of_many_threads_run_side_by_side() -> None:
    async def meet(barrier: asyncio.Barrier) -> None:
        await barrier.wait()

    async def make() -> asyncio.Barrier:
        return asyncio.Barrier(3)

    loop = LoopThread()
    barrier = loop.run(make())
    threads = [threading.Thread(target=lambda: loop.run(meet(barrier))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=5)
        assert not thread.is_alive()
    loop.close()
