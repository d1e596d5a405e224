"""What a process measures of itself."""

from __future__ import annotations

import asyncio
import time

from mailsift.jobs.engine.heartbeat import Heartbeat, process_name, resident_bytes


async def test_a_loop_that_is_kept_busy_is_seen_to_be_late() -> None:
    heartbeat = Heartbeat(owner="me", slots=1, every=0.6)
    resting = asyncio.create_task(heartbeat.wait_until_due())
    await asyncio.sleep(0.05)
    time.sleep(0.5)  # noqa: ASYNC251 - what must not happen on a loop
    await resting
    assert heartbeat.lag_s > 0.2


def test_memory_is_that_of_this_process() -> None:
    before = resident_bytes()
    ballast = bytearray(b"x" * 120_000_000)  # the allocator may give back some of its own meanwhile
    assert resident_bytes() - before > 30_000_000
    assert ballast[-1]


def test_no_two_names_are_alike() -> None:
    assert process_name() != process_name()
