"""What a process measures of itself."""

from __future__ import annotations

import asyncio
import mmap

from mailsift.jobs.engine.heartbeat import Heartbeat, process_name, resident_bytes
from tests.support.leaping_loop import hold_the_loop


async def test_a_loop_that_is_kept_busy_is_seen_to_be_late() -> None:
    heartbeat = Heartbeat(owner="me", slots=1, every=0.6)
    resting = asyncio.create_task(heartbeat.wait_until_due())
    await asyncio.sleep(0.05)
    hold_the_loop(0.5)
    await resting
    assert heartbeat.lag_s > 0.2


def test_memory_is_that_of_this_process() -> None:
    pages = 30_000
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as ballast:  # none that an allocator has left from other tests
        before = resident_bytes()
        ballast[:: mmap.PAGESIZE] = b"x" * pages
        assert resident_bytes() - before > 30_000_000


def test_no_two_names_are_alike() -> None:
    assert process_name() != process_name()
